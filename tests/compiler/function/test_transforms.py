"""Transformations compose with compile in any order, and derivatives of compiled functions are of any order."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.func import grad, hessian, jacfwd, jacrev

sg.manual_seed(0)
X, W = sg.randn(3, dtype=sg.float64), sg.randn(3, 3, dtype=sg.float64)
ROWS = sg.randn(4, 3, dtype=sg.float64)
func = sg.func


def wave(x, w):
    return (x @ w).sin() * x


def height(x, w):
    return wave(x, w).sum()


TRANSFORMED = {
    "grad": (func.grad(height), (X, W)),
    "grad in several": (func.grad(height, argnums=(0, 1)), (X, W)),
    "value_and_grad": (func.value_and_grad(height), (X, W)),
    "grad_and_value": (func.grad_and_value(height), (X, W)),
    "vjp": (lambda x, w: func.vjp(wave, x, w)[1](x), (X, W)),
    "jvp": (lambda x, w: func.jvp(wave, (x, w), (x, w)), (X, W)),
    "jacrev": (func.jacrev(wave), (X, W)),
    "jacfwd": (func.jacfwd(wave), (X, W)),
    "hessian": (func.hessian(height), (X, W)),
    "vmap": (func.vmap(height, in_dims=(0, None)), (ROWS, W)),
    "vmap of grad": (func.vmap(func.grad(height), in_dims=(0, None)), (ROWS, W)),
    "grad of vmap": (func.grad(lambda x, w: func.vmap(height, in_dims=(0, None))(x, w).square().sum()), (ROWS, W)),
    "jacfwd of jacrev": (func.jacfwd(func.jacrev(height)), (X, W)),
    "vmap of hessian": (func.vmap(func.hessian(height), in_dims=(0, None)), (ROWS[:2], W)),
}


def leaves(tree):
    return [t for part in tree for t in leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


def same(found, wanted):
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_a_transformed_function_compiles(name):
    function, args = TRANSFORMED[name]
    same(sg.compile(function)(*args), function(*args))


@pytest.mark.parametrize("name", ["grad", "jvp", "vmap of grad", "hessian"])
def test_a_transformed_function_has_methods(name):
    function, args = TRANSFORMED[name]
    found = sg.compile(function).jacobian(*args, wrt=0)
    same(found, func.jacrev(function)(*args))


def test_compiled_functions_are_transformed():
    fast = sg.compile(height)
    same(func.grad(fast)(X, W), func.grad(height)(X, W))
    same(func.hessian(fast)(X, W), func.hessian(height)(X, W))
    same(func.vmap(func.grad(fast), in_dims=(0, None))(ROWS, W), func.vmap(func.grad(height), in_dims=(0, None))(ROWS, W))
    same(sg.compile(func.grad(fast))(X, W), func.grad(height)(X, W))


def test_no_grad_is_a_stop():
    def stopped(x):
        with sg.no_grad():
            scale = x.exp()
        return (x * scale * x.detach()).sum()

    fast = sg.compile(stopped)
    same(fast.grad(X, wrt="x"), X.exp() * X)
    same(fast.hessian(X, wrt="x"), 0 * sg.eye(3))
    same(fast.jvp(X, wrt="x")(X), (X * X.exp() * X).sum())


def test_third_derivatives_by_backward():
    fast = sg.compile(lambda x: (x.sin() * x).sum())
    x = X.clone().requires_grad_()
    (first,) = sg.autograd.grad(fast(x), x, create_graph=True)
    (second,) = sg.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = sg.autograd.grad(second.sum(), x)
    same(third, -3 * X.sin() - X * X.cos())


def test_third_derivatives_by_methods():
    fast = sg.compile(func.hessian(lambda x: (x.sin() * x).sum()))
    third = fast.jacobian(X, wrt="x")
    wanted = np.zeros((3, 3, 3))
    np.fill_diagonal(wanted, (-3 * X.sin() - X * X.cos()).numpy())
    np.testing.assert_allclose(third.numpy(), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("method", "backend"), [("SGD", "xla"), ("Adam", "numpy")])
def test_a_learning_rate_is_learned(method, backend):
    """The loss after five steps, as a function of the learning rate."""
    targets = ROWS.sum(1)
    start = sg.zeros(3, dtype=sg.float64)

    def error(w):
        return ((ROWS @ w - targets) ** 2).mean()

    def trained(lr):
        optimizer = getattr(sg.optim, method)([start], lr=lr)
        w, state = start, None
        for _ in range(5):
            (w,), state = optimizer.functional_step([w], [func.grad(error)(w)], state)
        return error(w)

    rate, h = sg.tensor(0.05, dtype=sg.float64), 1e-5
    fast = sg.compile(trained, backend=backend)
    same(fast(rate), trained(rate))
    slope = fast.grad(rate, wrt="lr")
    assert slope.item() == pytest.approx(((trained(rate + h) - trained(rate - h)) / (2 * h)).item(), rel=1e-6)
    if backend == "xla":  # unrolled steps take XLA long
        return
    curvature = fast.hessian(rate, wrt="lr")
    assert curvature.item() == pytest.approx(((fast.grad(rate + h, wrt="lr") - fast.grad(rate - h, wrt="lr")) / (2 * h)).item(), rel=1e-5)


WIDE = {
    "jacrev": (jacrev, lambda x, w: (x @ w).tanh()),
    "jacfwd": (jacfwd, lambda x, w: (x @ w).tanh()),
    "hessian": (hessian, lambda x, w: (x @ w).tanh().sum()),
    "forward over reverse": (lambda f: jacfwd(grad(f)), lambda x, w: (x @ w).tanh().sum()),
    "a Hessian of many results": (hessian, lambda x, w: (x @ w).exp()),
    "a matrix": (jacrev, lambda x, w: sg.outer(x @ w, x)[:, :2]),
    "a solution": (jacrev, lambda x, w: sg.linalg.solve(w + 5 * (x * 0 + 1).diag(), x)),
    "sorted": (jacfwd, lambda x, w: (x @ w).sort()[0].cumsum(0)),
    "an input that does nothing": (lambda f: jacrev(f, argnums=(0, 1)), lambda x, w: (x * x).sin()),
    "what is no function of it": (jacrev, lambda x, w: w[0] * 2),
    "a loop": (jacrev, lambda x, w: sg.scan(lambda c, row: (c * row.sin(), c.sum()), x, w)[1]),
    "another one": (lambda f: jacrev(lambda x, w: jacrev(f)(x, w).sin()), lambda x, w: (x @ w).tanh()[:2]),
}


@pytest.mark.parametrize("name", WIDE)
def test_all_unit_vectors_are_taken_at_once(name):
    transform, function = WIDE[name]
    values = []
    for n in (3, 6):
        x, w = sg.linspace(-1, 1.5, n, dtype=sg.float64), (sg.arange(n * n, dtype=sg.float64).reshape(n, n) * 1.3).sin()
        fast = sg.compile(transform(function))
        found, wanted = fast(x, w), transform(function)(x, w)
        for a, b in zip(found, wanted, strict=True) if isinstance(found, tuple) else [(found, wanted)]:
            assert a.shape == b.shape
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)
        values.append(len(fast.graph()))
        assert fast.graph().labels == ("x", "w")
    assert values[0] == values[1]


def test_what_cannot_be_taken_at_once_is_unrolled():
    class Asks(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3 if (g > 0.5).any() else g * 5

    x = sg.tensor([1.0, 2.0])
    function = jacrev(lambda x: Asks.apply(x).flip(0))
    assert sg.compile(function)(x).tolist() == function(x).tolist() == [[0, 3], [3, 0]]


AUTOGRAD = {
    "a Jacobian": lambda x: sg.autograd.functional.jacobian(lambda x: x**3, x),
    "of one number": lambda x: sg.autograd.functional.jacobian(lambda x: (x**3).sum(), x),
    "that is strict": lambda x: sg.autograd.functional.jacobian(lambda x: x**3, x, strict=True),
    "a Hessian": lambda x: sg.autograd.functional.hessian(lambda x: (x**3).sum(), x),
    "with a graph": lambda x: sg.autograd.functional.jacobian(lambda x: x**3, x, create_graph=True) * x,
}


@pytest.mark.parametrize("name", AUTOGRAD)
def test_functions_of_autograd_are_part_of_the_program(name):
    function = AUTOGRAD[name]
    fast, x, y = sg.compile(function), sg.tensor([1.0, 2.0]), sg.tensor([3.0, 5.0])
    for point in (x, y, y.clone().requires_grad_()):
        assert fast(point).tolist() == function(point).tolist()
        assert fast(point).requires_grad == (point.requires_grad and name == "with a graph")
    assert len(fast.recompiles()) == 2


FLAT = {
    "grad": lambda x, w: grad(lambda x: w.sum())(x),
    "grad in two": lambda x, w: grad(lambda x, w: (x * x).sum(), (0, 1))(x, w)[1],
    "vjp": lambda x, w: func.vjp(lambda x: w * 2, x)[1](w)[0],
    "jvp": lambda x, w: func.jvp(lambda x: w * 2, (x,), (x,))[1],
    "jvp of whole numbers": lambda x, w: func.jvp(lambda x: (x * 2, x.argmax()), (x,), (x,))[1][1],
    "autograd's hvp": lambda x, w: sg.autograd.functional.hvp(lambda x: x.sum(), x, w)[1],
    "autograd's vjp": lambda x, w: sg.autograd.functional.vjp(lambda x, w: w * 2, (x, w), w)[1][0],
}


@pytest.mark.parametrize("name", FLAT)
def test_where_nothing_depends_on_it_a_derivative_is_the_number_zero(name):
    """And no array of zeros that the function captures."""
    fast, x, w = sg.compile(FLAT[name]), sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])
    for _ in range(2):
        assert not fast(x, w).any()
    assert fast.graph().labels == ("x", "w")
