"""Taylor series and Laplacians of functions: derivatives of higher order that nested gradients compute at many times the cost."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from symgrad.autograd.grad_mode import differentiating
from symgrad.errors import describe
from symgrad.func.derivatives import Level
from symgrad.func.forward import Results, directions_of


def taylor(func: Callable[..., Any], order: int) -> Callable[..., Any]:
    """A function of a point x and a direction v that gives the Taylor coefficients of `func` along it: [c₀, c₁, ..., c_order] with
    func(x + t v) = c₀ + c₁ t + c₂ t² + ..., each in the form of func's result.

    Coefficient k is the k-th derivative along v, divided by k!. A direction that is not given is all ones: then c_k of an elementwise
    function are its derivatives at every element. A tuple of points, with a tuple of directions, stands for several arguments.
    """
    check_order(order)

    @functools.wraps(func, assigned=("__name__", "__qualname__", "__module__"))
    def series(x: Any, v: Any = None) -> list[Any]:
        from symgrad.compiler.trace.transformed import run_taylor

        points = x if isinstance(x, tuple) else (x,)
        level, results = Level(), Results(func, "taylor")
        with differentiating():
            opened = level.points(list(points))
            directions = None if v is None else directions_of(level, points, v if isinstance(x, tuple) else (v,))
            found = run_taylor(results.of(opened), level.inputs, directions, order)
            level.close([*found, *(directions or ())])
        given = [level.give(t) for t in found]
        return [results.build(given[k :: order + 1]) for k in range(order + 1)]

    del series.__wrapped__  # its arguments are a point and a direction, not those of func
    return series


def laplacian(func: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function that gives the Laplacian of `func` in one argument: the sum of its second derivatives in every element of it, in the
    form of func's result.

    It takes as many passes as the argument has elements, and two more, since the sum is carried along and not taken at the end. For a
    batch of points, map it: `vmap(laplacian(f))`.
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        from symgrad.compiler.trace.transformed import run_laplacian

        if argnum.__class__ is not int or not -len(args) <= argnum < len(args):
            raise RuntimeError(f"laplacian: Got argnum={argnum!r}, but only {len(args)} positional inputs")
        place = argnum % len(args)
        level = Level()
        results = Results(lambda x: func(*args[:place], x, *args[place + 1 :], **kwargs), "laplacian")
        with differentiating():
            opened = level.points([args[place]], args)
            if len(level.inputs) != 1:
                raise ValueError(f"laplacian: argument {place} must be one tensor, got {describe(args[place])}")
            found = run_laplacian(results.of(opened), level.inputs[0])
            level.close(found)
        return results.build([level.give(t) for t in found])

    return call


def check_order(order: Any) -> None:
    """Raise TypeError or ValueError unless `order` is a positive integer."""
    if isinstance(order, bool) or not isinstance(order, int):
        raise TypeError(f"taylor: order must be an integer, got {describe(order)}")
    if order < 1:
        raise ValueError(f"taylor: order must be 1 or more, got {order}")
