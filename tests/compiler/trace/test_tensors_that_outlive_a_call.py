"""Tensors that a traced call made, and that live on: those that somebody keeps, and those that only the histories of results hold."""

from __future__ import annotations

import types

import numpy as np
import pytest

import symgrad as sg

nn, optim = sg.nn, sg.optim


def critic():
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    return net, optim.Adam(net.parameters(), lr=1e-2)


def test_the_input_of_a_gradient_penalty_is_not_left_behind():
    """The history of the loss ends at it, and backward() gives it a gradient; nobody can see either."""

    def train(wrap):
        net, optimizer = critic()

        def step(real, fake):
            optimizer.zero_grad()
            mixed = real + sg.rand(len(real), 1, dtype=sg.float64) * (fake - real)
            mixed.requires_grad_()
            (slope,) = sg.autograd.grad(net(mixed).sum(), mixed, create_graph=True)
            penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
            loss = net(fake).mean() - net(real).mean() + 10 * penalty
            loss.backward()
            optimizer.step()
            return loss, penalty

        run = wrap(step)
        batches = [(sg.randn(5, 3, dtype=sg.float64), sg.randn(5, 3, dtype=sg.float64)) for _ in range(4)]
        return run, [x.detach().numpy() for batch in batches for x in run(*batch)], [p.detach().numpy() for p in net.parameters()]

    _, losses, parameters = train(lambda step: step)
    fast, found, trained = train(sg.compile)
    assert len(fast.recompiles()) == 1
    for a, b in zip([*found, *trained], [*losses, *parameters], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def test_neither_is_an_input_that_is_attacked():
    def train(wrap):
        net, optimizer = critic()

        def step(x):
            optimizer.zero_grad()
            x = x.clone().detach().requires_grad_()
            loss = net(x).square().mean()
            loss.backward()
            attacked = (x + 0.1 * x.grad.sign()).detach()
            net(attacked).square().mean().backward()
            optimizer.step()
            return loss, attacked

        run = wrap(step)
        return run, [x.detach().numpy() for _ in range(4) for x in run(sg.randn(5, 3, dtype=sg.float64))]

    _, expected = train(lambda step: step)
    fast, found = train(sg.compile)
    assert len(fast.recompiles()) == 1
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


def draws(kept, x):
    kept.last = sg.randn(2)
    return x + 1


def draws_and_uses(kept, x):
    kept.last = sg.randn(2)
    return x + kept.last


def makes_a_constant(kept, x):
    constant = sg.tensor([1.0, 2.0])
    kept.last = constant
    return x * constant


def makes_a_leaf(kept, x):
    kept.last = leaf = (x * 2).requires_grad_()
    (leaf * leaf).sum().backward()
    leaf.grad = None
    return x * 3


def keeps_a_gradient(kept, x):
    leaf = (x * 2).requires_grad_()
    loss = (leaf * leaf).sum()
    loss.backward()
    kept.last = leaf.grad
    return loss.detach()


@pytest.mark.filterwarnings("ignore:.*is changed while the function is traced", "ignore:.*leaves tensors that it made behind")
@pytest.mark.parametrize(
    "function",
    [draws, keeps_a_gradient, *(pytest.param(f, marks=pytest.mark.slow) for f in (draws_and_uses, makes_a_constant, makes_a_leaf))],
)
def test_what_somebody_keeps_is_made_at_every_call(function):
    def run(wrap):
        kept, seen = types.SimpleNamespace(last=None), []
        sg.manual_seed(0)
        f = wrap(lambda x: function(kept, x))
        for i in range(4):
            seen += [f(sg.full((2,), float(i))).numpy().copy(), kept.last.detach().numpy().copy()]
            kept.last.data.zero_()  # it is nobody else's
        return seen

    for a, b in zip(run(sg.compile), run(lambda f: f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


class Keeper:
    def __init__(self):
        self.seen, self.last = [], {}

    def append(self, x):
        self.seen.append(x)
        return x + 1

    def replace(self, x):
        self.last["x"] = x
        return x + 1


@pytest.mark.filterwarnings("ignore:.*leaves tensors that it made behind")
def test_arguments_that_are_kept():
    keeper, seen = Keeper(), []
    for f in (keeper.append, lambda x: seen.append(x) or x + 1):
        fast = sg.compile(f)
        for i in range(3):
            assert fast(sg.full((2,), float(i))).tolist() == [i + 1, i + 1]
    assert [t[0].item() for t in keeper.seen] == [t[0].item() for t in seen] == [0, 1, 2]
    fast = sg.compile(keeper.replace)
    for i in range(3):
        fast(sg.full((2,), float(i)))
        assert keeper.last["x"].tolist() == [i, i]
