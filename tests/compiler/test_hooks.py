"""Hooks for gradients, and gradients that are computed inside, in compiled functions."""

from __future__ import annotations

import numpy as np
import pytest
from interpreted import interpret

import symgrad as sg
from symgrad.errors import TraceError


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


def gradient(function, *values):
    x = sg.tensor(list(values), requires_grad=True)
    function(x).backward()
    return x.grad.tolist()


def net():
    sg.manual_seed(0)
    return sg.nn.Sequential(sg.nn.Linear(2, 3), sg.nn.Tanh(), sg.nn.Linear(3, 1))


def test_a_hook_of_a_tensor_that_the_function_makes_changes_its_gradient():
    def clipped(x):
        y = x * x
        y.register_hook(lambda g: g.clamp(-1, 1) * 3)
        return (y * y).sum()

    fast = sg.compile(clipped)
    for values in ((0.25, 2.0), (3.0, -0.5)):
        assert gradient(fast, *values) == pytest.approx(gradient(clipped, *values))
    assert fast.grad(sg.tensor([0.25, 2.0]), wrt="x").tolist() == pytest.approx(gradient(clipped, 0.25, 2.0))
    assert len(fast.recompiles()) == 2  # grad() is traced for itself


def test_a_hook_that_returns_nothing_changes_nothing():
    def f(x):
        y = x.sin()[:1]
        y.register_hook(lambda g: None)
        return (y * y).sum()

    assert gradient(sg.compile(f), 1.0, 2.0) == pytest.approx(gradient(f, 1.0, 2.0))


def test_a_hook_that_comes_late_is_refused():
    def late(x):
        y = x * x
        z = y.sum()
        y.register_hook(lambda g: g * 2)
        return z

    with pytest.raises(TraceError, match=r"test_hooks.py:\d+: register_hook\(\) comes after a use of its tensor"):
        sg.compile(late)(sg.ones(2, requires_grad=True))

    def inside(x):
        late(x).backward()

    x = sg.ones(2, requires_grad=True)
    fast = sg.compile(inside)
    for _ in range(3):
        x.grad = None
        fast(x)
        assert x.grad.tolist() == [4, 4]


def test_hooks_that_no_graph_can_follow_are_refused():
    seen = []

    def asks(x):
        y = x * x
        y.register_hook(lambda g: seen.append(g.sum().item()))
        return y.sum()

    def keeps(x):
        y = x * x
        y.register_hook(seen.append)
        return y.sum()

    def of_node(x):
        y = x * x
        y.grad_fn.register_hook(lambda inner, outer: tuple(g * 2 for g in inner))
        return y.sum()

    for function, words in ((asks, r"no graph can follow a hook: .*item\(\)"), (keeps, "a hook keeps gradients"), (of_node, "of a node")):
        with pytest.raises(TraceError, match=words):
            sg.compile(function)(sg.ones(2, requires_grad=True))
    eager = sg.compile(of_node, fallback="eager")
    with pytest.warns(UserWarning, match="runs eagerly"):
        assert gradient(eager, 1.0, 2.0) == [4, 8]


def test_full_backward_hooks_of_modules():
    model = net()
    model[2].register_full_backward_hook(lambda module, inner, outer: tuple(g * 2 for g in inner))
    fast = sg.compile(model)
    with pytest.raises(TraceError, match=r"a full backward hook of Linear.*call backward"):
        fast(sg.ones(4, 2))
    with sg.no_grad():
        assert fast(sg.ones(4, 2)).shape == (4, 1)

    def step(x):
        model.zero_grad()
        model(x).sum().backward()
        return x.sum()

    step(sg.ones(4, 2))
    wanted = [p.grad.numpy().copy() for p in model.parameters()]
    compiled = sg.compile(step)
    for _ in range(2):
        compiled(sg.ones(4, 2))
        for p, g in zip(model.parameters(), wanted, strict=True):
            np.testing.assert_allclose(p.grad.numpy(), g, rtol=1e-6)


def test_hooks_of_parameters_come_and_go_between_steps():
    models = net(), net()
    steps = []
    for model in models:
        optimizer = sg.optim.SGD(model.parameters(), lr=0.1)

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss

        steps.append(step)
    fast = sg.compile(steps[1])
    x = sg.ones(4, 2)
    handles = []
    for turn in range(8):
        if turn == 2:
            handles = [m[0].weight.register_hook(lambda g: g * 0) for m in models]
        if turn == 4:
            for handle in handles:
                handle.remove()
        if turn == 6:
            for m in models:
                m[0].weight.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))
        assert fast(x).item() == pytest.approx(steps[0](x).item())
        for p, q in zip(models[1].parameters(), models[0].parameters(), strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-7)
    reasons = [str(record) for record in fast.recompiles()]
    assert len(reasons) == 3  # without hooks again is a program that is there
    assert "other hooks" in reasons[1]


def test_a_hook_that_is_registered_on_a_parameter_inside_runs_as_written():
    w = sg.ones(2, requires_grad=True)

    def f(x):
        w.register_hook(lambda g: g * 2)
        return (w * x).sum()

    fast = sg.compile(f)
    with pytest.warns(UserWarning, match=r"register_hook\(\) at .*test_hooks.py:\d+ is done by Python"):
        fast(sg.ones(2))
    fast(sg.ones(2)).backward()
    assert w.grad.tolist() == [4, 4]


def test_gradients_without_a_graph_are_constants():
    def penalised(x):
        (g,) = sg.autograd.grad((x**3).sum(), x, retain_graph=True)
        return (x * g).sum()

    fast = sg.compile(penalised)
    for values in ((1.0, 2.0), (3.0, -1.0)):
        assert gradient(fast, *values) == pytest.approx(gradient(penalised, *values))
    assert fast.grad(sg.tensor([1.0, 2.0]), wrt="x").tolist() == pytest.approx([3, 12])

    def unused(x, y):
        return sg.autograd.grad((x * x).sum(), (x, y), allow_unused=True, materialize_grads=True)

    x, y = sg.ones(2, requires_grad=True), sg.ones(3, requires_grad=True)
    assert [g.tolist() for g in sg.compile(unused)(x, y)] == [[2, 2], [0, 0, 0]]


def test_hooks_see_gradients_that_are_computed_inside():
    w = sg.tensor([1.0, 2.0], requires_grad=True)

    def slope(x):
        return sg.autograd.grad((w * w * x).sum(), w)[0]

    fast = sg.compile(slope)
    assert fast(sg.ones(2)).tolist() == [2, 4]
    handle = w.register_hook(lambda g: g * 10)
    assert fast(sg.ones(2)).tolist() == slope(sg.ones(2)).tolist() == [20, 40]
    handle.remove()
    assert fast(sg.ones(2)).tolist() == [2, 4]
