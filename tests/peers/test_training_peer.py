"""Model.fit is the loop that PyTorch's users write: the same batches in the same order, the same weights at the end."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import points

import symgrad as sg

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")


def torch_loop(net, optimizer, loader, epochs):
    losses = []
    for _ in range(epochs):
        total = count = 0
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            total, count = total + loss.item() * len(x), count + len(x)
        losses.append(total / count)
    return losses


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_shuffled_training_gives_pytorchs_weights(name):
    x, y = points(50)
    x = x.astype(np.float64)
    nets = []
    for lib in (torch, sg):
        lib.manual_seed(3)
        nets.append(lib.nn.Sequential(lib.nn.Linear(2, 8), lib.nn.Tanh(), lib.nn.Linear(8, 3)).double())
    theirs, ours = nets
    dataset = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
    losses = torch_loop(theirs, getattr(torch.optim, name)(theirs.parameters(), lr=0.01), loader, 4)
    model = sg.Model(ours, getattr(sg.optim, name)(ours.parameters(), lr=0.01), "cross_entropy")
    history = model.fit(x, y, batch_size=8, epochs=4, verbose=0)
    np.testing.assert_allclose(history.history["loss"], losses, rtol=1e-12)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)
