"""Functions that return their argument, a view of it, or write to it: who shares memory keeps a history of its own when compiled."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import Function
from symgrad.autograd.function import once_differentiable


def function_of(result):
    class Reversed(Function):
        @staticmethod
        def forward(ctx, x):
            return result(x)

        @staticmethod
        def backward(ctx, g):
            return -5 * g

    return Reversed


class Pair(Function):
    """Returns one tensor twice."""

    @staticmethod
    def forward(ctx, x):
        y = x * 2
        return y, y

    @staticmethod
    def backward(ctx, g, h):
        return g * 2 + h * 7


class Scale(Function):
    """Writes to its first argument."""

    @staticmethod
    def forward(ctx, x, y):
        x.mul_(y)
        ctx.mark_dirty(x)
        ctx.save_for_backward(y)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0], g * 11


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        return g * 2 * ctx.saved_tensors[0]


def write_both(h, y, x):
    y[1:].mul_(x[1:])
    h.detach().mul_(2)
    y[0] = x[2]


def quietly(h, y, x):
    with sg.no_grad():
        h.mul_(3)


WRITES = {
    "none": lambda h, y, x: None,
    "to the argument": lambda h, y, x: h.mul_(3),
    "without history": quietly,
    "to the result": lambda h, y, x: y.mul_(x),
    "to a part of the result": lambda h, y, x: y[:1].copy_(x[1:2] * 5),
    "to a part of the argument": lambda h, y, x: h[:1].copy_(x[1:2] * 5),
    "to both": write_both,
    "by detach": lambda h, y, x: y.detach().mul_(2),
    "of the shape": lambda h, y, x: y.unsqueeze_(0),
}
RESULTS = {"itself": lambda x: x, "a view": lambda x: x.view_as(x), "a slice": lambda x: x[:]}
TO_RESULTS = ("to the result", "to a part of the result", "to both", "of the shape")
"""Writes that eager code refuses if the result is a view that forward made."""


def sharing(name, result, write):
    def f(x):
        h = x * 2
        y = function_of(result).apply(h)
        write(h, y, x)
        return (y * y).sum() + (h * h * h).sum()

    return pytest.param(f, id=name)


def twice(x):
    y = function_of(RESULTS["itself"]).apply(x * 2)
    z = function_of(RESULTS["itself"]).apply(y)
    z.mul_(2)
    return (y * y).sum() + (z * z * z).sum()


def pair(x):
    a, b = Pair.apply(x)
    a.mul_(x)
    return (a * a * x).sum() + (b * b * b).sum()


def in_place_with_views(x):
    h = x * 1
    v, t = h[1:], h.view(3, 1)
    with sg.no_grad():
        h.add_(1)
    Scale.apply(v, x[:2] * 2)
    w = Scale.apply(t, x.view(3, 1))
    return (h * h).sum() + (v * v * v).sum() + (t * w).sum()


def in_place_through_detach(x):
    h = x * 1
    v = h[1:]
    d = v.detach()
    Scale.apply(d, x[1:])
    return (d * d).sum() + (h * h).sum() + (v * v * v).sum()


def in_place_on_a_constant(x):
    h = sg.ones(3, dtype=sg.float64)
    v = h[1:]
    Scale.apply(v, x[:2] * 2)
    v.add_(x[1:])
    h.mul_(x)
    return (h * h).sum() + (v * v * v).sum()


def once(x):
    return (Once.apply(x) * x).sum()


def start():
    return sg.tensor([1.0, 2.0, 3.0], dtype=sg.float64, requires_grad=True)


def value_and_gradient(f):
    x = start()
    result = f(x)
    result.backward()
    return [result.item(), *x.grad.tolist()]


SHARING = [
    sharing(f"{r}, {w}", result, write)
    for r, result in RESULTS.items()
    for w, write in WRITES.items()
    if r == "itself" or w not in TO_RESULTS
]
OTHERS = [twice, pair, in_place_with_views, in_place_through_detach, in_place_on_a_constant, once]


@pytest.mark.parametrize("f", [*SHARING, *OTHERS])
def test_memory_of_a_function(f):
    def inside(x):
        result = f(x)
        result.backward()
        return result.detach()

    wanted = value_and_gradient(f)
    fast, stepping = sg.compile(f, backend="numpy"), sg.compile(inside, backend="numpy")
    np.testing.assert_allclose(fast.grad(start(), wrt="x").numpy(), wanted[1:])
    np.testing.assert_allclose(fast(start().detach()).item(), wanted[0])
    for _ in range(2):
        np.testing.assert_allclose(value_and_gradient(fast), wanted)
        x = start()
        np.testing.assert_allclose([stepping(x).item(), *x.grad.tolist()], wanted)
    np.testing.assert_allclose(fast.grad(start(), wrt="x").numpy(), wanted[1:])


@pytest.mark.parametrize("write", TO_RESULTS)
@pytest.mark.parametrize("result", ["a view", "a slice"])
def test_a_write_to_a_view_that_forward_made_is_refused_as_eagerly(result, write):
    (f,) = sharing("refused", RESULTS[result], WRITES[write]).values
    for function in (f, sg.compile(f, backend="numpy")):
        with pytest.raises(RuntimeError, match="modified inplace"):
            function(start())


def test_a_function_that_is_differentiable_once_is_refused_twice():
    with pytest.raises(sg.errors.GraphError, match=r"test_function_aliases.py:\d+: trying to differentiate twice .* @once_differentiable"):
        sg.compile(once, backend="numpy").hessian(start())


def test_an_error_in_backward_is_raised_when_a_derivative_is_asked_for():
    class Broken(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no derivative of this")

    fast = sg.compile(lambda x: Broken.apply(x).sum(), backend="numpy")
    assert fast(start()).item() == 12
    with pytest.raises(sg.errors.GraphError, match=r"test_function_aliases.py:\d+: no derivative of this"):
        fast.grad(start(), wrt="x")
