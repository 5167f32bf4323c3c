"""Derivatives of high order in one number: from order 3 on they are Taylor coefficients, times the factorial of the order.

Nested derivatives of the first kind grow by a factor with each order; the recurrences of the coefficients grow as its square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from symgrad.compiler.autodiff.jets import taylor
from symgrad.compiler.autodiff.pull import Derivative, derivatives, nonlinear
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.rewrite.drop_hooks import has_hooks
from symgrad.ops.promotion import kind

_NESTED = 2
"""Up to this order, nested derivatives are as short, and read better."""


def derivatives_of(graph: Graph, wrt: Sequence[int], order: int) -> list[Derivative]:
    """Return what `derivatives` returns; those of high order of one number in one number are computed by recurrences."""
    if order <= _NESTED or not _has_series(graph, wrt):
        return derivatives(graph, wrt, order)
    (place,) = wrt
    x, coefficients = graph.inputs[place], taylor(graph, wrt, order, along_ones=True).outputs
    found = derivatives(graph, wrt, _NESTED)
    for k in range(_NESTED + 1, order + 1):
        found.append(Derivative((place,) * k, xp.reshape(coefficients[k] * math.factorial(k), shape=x.shape), ()))
    return found


def _has_series(graph: Graph, wrt: Sequence[int]) -> bool:
    """True if the derivatives are those of one real number in one other, and only the operations decide on them."""
    numbers = [*graph.outputs, *(graph.inputs[i] for i in wrt)]
    if len(numbers) != 2 or any(v.size != 1 or kind(v.dtype) != "f" for v in numbers):
        return False
    return not has_hooks(graph) and nonlinear(graph) is None
