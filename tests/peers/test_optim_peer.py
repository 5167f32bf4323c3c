"""Optimizers beside PyTorch: the same walk, the same state, the same words."""

from __future__ import annotations

import numpy as np
import pytest
from optimizer_cases import CASES

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


def network(lib):
    """A small net, the same in both libraries, in double precision; and its loss on the n-th batch of noise.

    Noise keeps the gradients from vanishing, where an adaptive step size would make two walks part over their last digits.
    """
    lib.manual_seed(0)
    net = lib.nn.Sequential(lib.nn.Linear(3, 5), lib.nn.Tanh(), lib.nn.Linear(5, 2)).double()
    xs, ys = (lib.tensor(np.random.default_rng(i).normal(size=(100, 8, n))) for i, n in ((1, 3), (2, 2)))
    return net, lambda n: lib.nn.functional.mse_loss(net(xs[n]), ys[n])


def walk(lib, name, options, steps=100):
    """Every parameter after every step, and the optimizer."""
    net, loss = network(lib)
    optimizer = getattr(lib.optim, name)(net.parameters(), **options)
    places = []
    for n in range(steps):
        optimizer.zero_grad()
        loss(n).backward()
        optimizer.step()
        places.append(np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]))
    return np.array(places), optimizer


def same_value(mine, theirs):
    if isinstance(theirs, torch.Tensor):
        assert str(mine.dtype).removeprefix("symgrad.") == str(theirs.dtype)
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-9, atol=1e-12)
    elif isinstance(theirs, (list, tuple)):
        assert type(mine) is type(theirs)
        for a, b in zip(mine, theirs, strict=True):
            same_value(a, b)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs) or mine.keys() == theirs.keys()
        for key in theirs:
            same_value(mine[key], theirs[key])
    else:
        assert mine == theirs


@pytest.mark.parametrize(("name", "options"), [case[:2] for case in CASES], ids=str)
def test_hundred_steps(name, options):
    mine, ours = walk(sg, name, options)
    reference, theirs = walk(torch, name, options)
    np.testing.assert_allclose(mine, reference, rtol=1e-10, atol=1e-12)
    same_value(ours.state_dict(), theirs.state_dict())
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"lr": 0.1}, {"lr": 0.1, "history_size": 3}, {"max_iter": 3, "lr": 0.2}, {"max_eval": 6, "lr": 0.2},
        {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 6},
        {"line_search_fn": "strong_wolfe", "lr": 0.3, "max_eval": 9}, {"line_search_fn": "strong_wolfe", "tolerance_grad": 0.01},
        {"line_search_fn": "strong_wolfe", "tolerance_change": 1e-3},
    ],
    ids=str,
)  # fmt: skip
def test_lbfgs(options):
    """Every parameter after every step, and after every evaluation of the loss."""

    def run(lib):
        net, loss = network(lib)
        optimizer = lib.optim.LBFGS(net.parameters(), **options)
        places = []

        def closure():
            optimizer.zero_grad()
            value = loss(0) + 0.1 * sum((p * p).sum() for p in net.parameters())  # well enough conditioned for digits to last
            value.backward()
            places.append(np.concatenate([p.detach().numpy().ravel() for p in net.parameters()]))
            return value

        losses = [optimizer.step(closure).item() for _ in range(4)]
        return np.array(places), losses, optimizer

    (mine, my_losses, ours), (reference, losses, theirs) = run(sg), run(torch)
    assert len(mine) == len(reference)
    np.testing.assert_allclose(mine, reference, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(my_losses, losses, rtol=1e-8)
    mine, reference = (next(iter(optimizer.state_dict()["state"].values())) for optimizer in (ours, theirs))
    assert mine.keys() == reference.keys()
    assert [mine[key] for key in ("func_evals", "n_iter")] == [reference[key] for key in ("func_evals", "n_iter")]
