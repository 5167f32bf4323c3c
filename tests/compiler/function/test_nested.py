"""Derivatives that a compiled function is asked for inside of other functions, which are traced or differentiated themselves."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError
from symgrad.func import grad, hessian, jacfwd, jacrev, jvp, vmap

X = sg.tensor([0.3, -0.7, 1.1], dtype=sg.float64)
W = sg.tensor([[0.2, 1.0], [-0.4, 0.5], [0.3, 0.6]], dtype=sg.float64)


def loss(p, x):
    return ((x @ p["w"]).tanh() * p["b"]).sum() + (x**4).sum()


def pair(x, w):
    return {"y": (x @ w).sin(), "n": (x.sum() * w.sum(), x.argmax())}


FAST, PAIR = sg.compile(loss), sg.compile(pair)
ONES = sg.ones(2, dtype=sg.float64)


def given(x):
    return {"w": W * x.sum(), "b": x[:2].cos()}, x


USES = {
    "grad": lambda x: FAST.grad(*given(x), wrt="x"),
    "value_and_grad": lambda x: FAST.value_and_grad(*given(x), wrt="p.w")[1],
    "a container": lambda x: FAST.grad(*given(x), wrt=0)["b"],
    "several": lambda x: FAST.grad(*given(x), wrt=("x", "p.b"))[1],
    "hessian": lambda x: FAST.hessian(*given(x), wrt="x"),
    "hessian in containers": lambda x: FAST.hessian(*given(x), wrt="p")["w"]["b"],
    "hvp": lambda x: FAST.hvp(*given(x), v=x.sin(), wrt="x"),
    "hvp in containers": lambda x: FAST.hvp(*given(x), v={"w": W, "b": x[1:]}, wrt="p")["w"],
    "vjp": lambda x: PAIR.vjp(x, W, wrt="x")({"y": x[:2], "n": (1.0, None)}),
    "value of a vjp": lambda x: PAIR.vjp(x, W).value["y"],
    "jvp": lambda x: PAIR.jvp(x, W, wrt=("x", "w"))(x * x, W)["y"],
    "value of a jvp": lambda x: PAIR.jvp(x, W).value["n"][0],
    "a number": lambda x: sg.compile(lambda x, a: (x**3).sum() * (1 if a.is_integer() else a)).grad(x, 1.5, wrt="x"),
    "jacobian": lambda x: sg.compile(lambda x, w: (x @ w).sin()).jacobian(x, W, wrt=0),
}
AROUND = {
    "grad": lambda use: grad(lambda x: (use(x) * 1.5).cos().sum()),
    "jacrev": lambda use: jacrev(use),
    "jacfwd": lambda use: jacfwd(use),
    "hessian": lambda use: hessian(lambda x: use(x).cos().sum()),
    "jvp": lambda use: lambda x: jvp(use, (x,), (x.cos(),))[1],
    "vmap": lambda use: lambda x: vmap(lambda x: (grad(lambda x: use(x).sum())(x)))(sg.stack([x, 2 * x])),
}


def plainly(use, x, h=1e-5):
    """The Jacobian by differences of what kernels give outside."""
    columns = [(use(x + h * e).numpy() - use(x - h * e).numpy()) / (2 * h) for e in sg.eye(3, dtype=sg.float64)]
    return np.stack(columns, -1)


@pytest.mark.parametrize("name", USES)
def test_what_differentiates_around_it_sees_it(name):
    use = USES[name]
    np.testing.assert_allclose(jacrev(use)(X).detach().numpy(), plainly(use, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", USES)
def test_in_a_compiled_function_it_is_part_of_the_program(name):
    use = USES[name]
    fast = sg.compile(use)
    for x in (X, 2 * X):
        np.testing.assert_allclose(fast(x).numpy(), use(x).numpy(), rtol=1e-10)
    assert len(fast.recompiles()) == 1
    np.testing.assert_allclose(fast.jacobian(X, wrt=0).numpy(), plainly(use, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("name", ["grad", "hvp in containers", "vjp"])
def test_transforms_around_it_in_compiled_functions(name, around):
    function = AROUND[around](USES[name])
    np.testing.assert_allclose(sg.compile(function)(X).numpy(), function(X).numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("derived", [sg.autograd.functional.jacobian, lambda f, x: jacfwd(f)(x)])
def test_functions_of_autograd_see_it_too(derived):
    use = USES["grad"]
    np.testing.assert_allclose(derived(use, X).numpy(), plainly(use, X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("begin", [lambda: PAIR.vjp(X, W, wrt="x"), lambda: PAIR.jvp(X, W, wrt="x")])
def test_what_was_begun_outside_is_refused_inside(begin):
    begun = begin()
    v = {"y": ONES, "n": (1.0, None)} if "vjp" in repr(begun) else X

    def inside(x):
        begun(v)
        return x.sum()

    for run in (sg.compile(inside), grad(inside), sg.compile(lambda x: begun.value["y"] * x.sum())):
        with pytest.raises(TraceError, match=r"test_nested.py:\d+: the (vjp|jvp) of pair was begun outside .* begin it inside"):
            run(X)
    begun(v)


def test_kernels_run_again_outside():
    """A transform that fails leaves nothing behind."""
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: 1 / 0)(X)
    before = len(FAST.recompiles())
    FAST.grad(*given(X), wrt="x")
    assert FAST.grad(*given(X), wrt="x").grad_fn is None
    assert len(FAST.recompiles()) <= before + 1


CUBES = {
    "grad": grad(lambda x: (x**3).sum()),
    "grad by a closure": lambda x: grad(lambda y: (y**3 * x).sum())(x),
    "the value of a vjp": lambda x: sg.func.vjp(lambda x: (x**3).sum(), x)[0],
    "a vjp": lambda x: sg.func.vjp(lambda x: x**3, x)[1](x)[0],
    "jvp": lambda x: jvp(grad(lambda x: (x**3).sum()), (x,), (x,))[1],
    "hessian": hessian(lambda x: (x**3).sum()),
    "vmap": vmap(grad(lambda x: x**4)),
    "scan": lambda x: sg.scan(lambda c, y: (c * y.sin(), c), x[0], x)[0],
    "scan of derivatives": lambda x: sg.scan(lambda c, y: (grad(lambda c: c**3 * y)(c), c), x[0], x)[1],
    "cond": lambda x: sg.cond(x.sum() > 0, lambda: x * x, lambda: x),
    "a method": lambda x: sg.compile(lambda x: (x**3).sum()).grad(x, wrt=0),
}


@pytest.mark.parametrize("recording", [True, False])
@pytest.mark.parametrize("name", CUBES)
def test_derivatives_do_not_depend_on_what_was_called_before(name, recording):
    """A call for which nobody asks for gradients leaves none; the function has derivatives all the same."""
    function = CUBES[name]
    wanted = sg.compile(function).jacobian(X, wrt=0)
    assert wanted.any()
    fast = sg.compile(function)
    with sg.set_grad_enabled(recording):
        assert not fast(X).requires_grad
        for _ in range(2):
            np.testing.assert_allclose(fast.jacobian(X, wrt=0).numpy(), wanted.numpy(), rtol=1e-12)
    np.testing.assert_allclose(fast.jacobian(X, wrt=0).numpy(), wanted.numpy(), rtol=1e-12)
    x = X.clone().requires_grad_()
    fast(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), wanted.reshape(-1, 3).sum(0).numpy(), rtol=1e-12)


def test_formulas_and_sources_after_a_call_have_derivatives():
    fast = sg.compile(grad(lambda t, a: a * t**3))
    fast(sg.tensor(2.0), 1.5)
    assert str(fast.formula(wrt="t")).splitlines()[1] == "∂f/∂t = 6*t*a"
    namespace = {}
    exec(compile(fast.source("jacobian", wrt="t"), "source", "exec"), namespace)
    assert namespace["jacobian"](np.float32(2), np.float64(1.5)).item() == 18
    assert fast.jacobian(sg.tensor(2.0), 1.5, wrt="t").item() == 18


def test_no_grad_inside_ends_derivatives_of_derivatives():
    def function(x):
        with sg.no_grad():
            slope = grad(lambda x: (x**3).sum())(x)
        return slope * x

    fast = sg.compile(function)
    for _ in range(2):
        assert fast.jacobian(X, wrt=0).tolist() == jacrev(function)(X).tolist() == sg.diag(3 * X**2).tolist()
        fast(X)
