"""Training steps as kernels: the same weights as eager training."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn


def fitted(jit_compile, optimizer="adam", **options):
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)).double()
    model = sg.Model(net, optimizer=optimizer, loss="cross_entropy", metrics=["accuracy"], jit_compile=jit_compile)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(70, 4)), rng.integers(0, 3, size=70)
    history = model.fit(x, y, epochs=3, batch_size=32, validation_split=0.1, verbose=0, **options)
    return net, history.history


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_same_weights_and_history(optimizer):
    """The last batch is shorter: it has a kernel of its own."""
    net, history = fitted(False, optimizer)
    fast, found = fitted(True, optimizer)
    assert found.keys() == history.keys()
    for name, values in history.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, err_msg=name)
    for name, value in net.state_dict().items():
        np.testing.assert_allclose(fast.state_dict()[name].numpy(), value.numpy(), rtol=1e-5, atol=1e-8)


def test_sample_weights():
    net, _ = fitted(False, sample_weight=np.linspace(0, 1, 70))
    fast, _ = fitted(True, sample_weight=np.linspace(0, 1, 70))
    np.testing.assert_allclose(fast[0].weight.detach().numpy(), net[0].weight.detach().numpy(), rtol=1e-5, atol=1e-8)


def test_what_cannot_be_a_kernel_is_refused():
    net = nn.Linear(2, 1)
    with pytest.raises(ValueError, match="LBFGS calls the loss as often as it needs to"):
        sg.Model(net, optimizer=sg.optim.LBFGS(net.parameters()), loss="mse", jit_compile=True)
