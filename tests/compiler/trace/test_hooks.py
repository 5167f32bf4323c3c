"""Hooks for gradients, and gradients that are computed inside, in compiled functions."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from interpreter_backend import interpret

import symgrad as sg
from symgrad.errors import GraphError, TraceError


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
    assert len(fast.recompiles()) == 1  # the calls were recorded, and have all derivatives


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


HOOKS = {
    "one": [(lambda x: (x, 2), lambda x: x[0] * x[1])],
    "packs": [(lambda x: x * 3, lambda x: x)],
    "nested": [(lambda x: x, lambda x: x * 7), (lambda x: (x, 2), lambda x: x[0] * x[1])],
}


def saved(x, hooks):
    with ExitStack() as contexts:
        for pair in hooks:
            contexts.enter_context(sg.autograd.graph.saved_tensors_hooks(*pair))
        return x.exp() * x


@pytest.mark.parametrize("hooks", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("leaf", [True, False])
def test_gradients_that_are_computed_inside_read_what_hooks_unpack(hooks, leaf):
    def f(x):
        x = x if leaf else x * 1
        (g,) = sg.autograd.grad(saved(x, hooks).sum(), x)
        return g

    x = sg.tensor([3.0, -0.5], requires_grad=True)
    np.testing.assert_allclose(sg.compile(f)(x).numpy(), f(x).numpy(), rtol=1e-6)
    assert abs(f(x) - (x.exp() * (1 + x))).min() > 0.1  # the hooks matter


def test_derivatives_that_would_not_see_hooks_of_saved_tensors_are_refused():
    def f(x):
        return saved(x, HOOKS["nested"]).sum()

    fast, x = sg.compile(f), sg.tensor([3.0, -0.5])
    assert fast(x).item() == pytest.approx(f(x).item())
    refused = r"test_hooks.py:\d+: saved_tensors_hooks\(\) changes derivatives in ways that no graph can follow"
    for derivative in (fast.grad, fast.hessian, sg.derive(f), lambda x: fast(x.requires_grad_())):
        with pytest.raises(TraceError, match=refused):
            derivative(x)


def clipped(x):
    """Its derivative is 4 x³, its gradient through the hook clamp(2 x², -1, 1) 4 x."""
    h = x * x
    h.register_hook(lambda g: g.clamp(-1, 1) * 2)
    return (h * h).sum()


POINT, ALONG = [0.25, 2.0, -0.5], [1.0, -2.0, 3.0]
PUSHED = [4 * x**3 * v for x, v in zip(POINT, ALONG, strict=True)]
SECOND = [24 * 0.25**2, 4.0, 24 * 0.5**2]


def forward_derivatives(f):
    x, v = sg.tensor(POINT), sg.tensor(ALONG)
    grad = sg.func.grad(f)
    yield sg.func.jvp(f, (x,), (v,))[1], sum(PUSHED)
    yield sg.func.jacfwd(f)(x), [4 * p**3 for p in POINT]
    yield sg.autograd.functional.jacobian(f, x, strategy="forward-mode", vectorize=True), [4 * p**3 for p in POINT]
    yield sg.func.jvp(grad, (x,), (v,))[1], np.multiply(SECOND, ALONG)
    yield sg.func.hessian(f)(x), np.diag(SECOND)
    yield sg.func.jacfwd(grad)(x), np.diag(SECOND)


@pytest.mark.parametrize("of", [lambda f: f, sg.compile], ids=["eager", "compiled"])
def test_forward_derivatives_do_not_see_hooks(of):
    for found, expected in forward_derivatives(of(clipped)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("called", [False, True], ids=["before a call", "after a call"])
def test_compiled_forward_derivatives_do_not_see_hooks(called):
    fast, x, v = sg.compile(clipped), sg.tensor(POINT), sg.tensor(ALONG)
    if called:
        fast(x.clone().requires_grad_())
    assert fast.jvp(x, wrt="x")(v).item() == pytest.approx(sum(PUSHED))
    np.testing.assert_allclose(fast.hvp(x, v=v, wrt="x").numpy(), np.multiply(SECOND, ALONG), rtol=1e-6)
    np.testing.assert_allclose(fast.hessian(x, wrt="x").numpy(), np.diag(SECOND), rtol=1e-6)
    np.testing.assert_allclose(fast.grad(x, wrt="x").numpy(), [np.clip(2 * p * p, -1, 1) * 4 * p for p in POINT], rtol=1e-6)


@pytest.mark.filterwarnings("ignore:derivatives of")
def test_forward_derivatives_of_what_cannot_be_traced_do_not_see_hooks():
    fast = sg.compile(lambda x: clipped(x) * x[0].clone().fill_(1).item(), fallback="eager")
    x, v = sg.tensor(POINT), sg.tensor(ALONG)
    assert fast.jvp(x, wrt="x")(v).item() == pytest.approx(sum(PUSHED))
    np.testing.assert_allclose(fast.hvp(x, v=v, wrt="x").numpy(), np.multiply(SECOND, ALONG), rtol=1e-6)
    np.testing.assert_allclose(fast.hessian(x, wrt="x").numpy(), np.diag(SECOND), rtol=1e-6)


class Clip(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return (g * 4).clamp(-1, 1)


def test_a_backward_that_is_not_linear_has_no_forward_derivative():
    fast, x = sg.compile(lambda x: Clip.apply(x * x) * 3), sg.tensor([0.25, 2.0])
    assert fast.jacobian(x, wrt="x").tolist() == [[0.5, 0], [0, 4.0]]
    with pytest.raises(GraphError, match=r"test_hooks.py:\d+: the backward of a Function is not linear in the gradient"):
        fast.jvp(x)(x)
    wide = sg.compile(lambda x: Clip.apply(x.sum() * 1) * sg.tensor([0.125, 2.0]))
    assert wide.jacobian(sg.tensor([2.0]), wrt="x").tolist() == [[0.5], [1.0]]


def test_a_jacobian_sees_hooks_whatever_its_shape():
    def wide(x):
        h = x.sum() * 1
        h.register_hook(lambda g: g.clamp(-1, 1))
        return sg.stack([h * 3, h * 0.5, h])

    x = sg.tensor([2.0])
    assert sg.compile(wide).jacobian(x, wrt="x").tolist() == sg.func.jacrev(wide)(x).tolist() == [[1.0], [0.5], [1.0]]
    assert sg.func.jacfwd(sg.compile(wide))(x).tolist() == sg.func.jacfwd(wide)(x).tolist() == [[3.0], [0.5], [1.0]]


def test_transforms_inside_a_compiled_function_do_not_see_hooks():
    def inside(x):
        return sg.func.jvp(clipped, (x,), (x,))[1], sg.func.hessian(clipped)(x)

    x = sg.tensor(POINT)
    for found, expected in zip(sg.compile(inside)(x), (sum(4 * p**4 for p in POINT), np.diag(SECOND)), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
