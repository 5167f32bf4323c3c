"""log(1 + exp(x)) -> softplus(x): replaces forms that overflow or lose digits by functions that do not.

    log(1 + exp(x))      -> softplus(x)
    log(sigmoid(x))      -> log_sigmoid(x)
    log(softmax(x))      -> log_softmax(x)
    log(sum(exp(x)))     -> logsumexp(x)

Both sides are the same real function, so their derivatives of any order are equal; the right side is finite wherever the function is.
Integers have no such forms and are left alone.
"""

from __future__ import annotations

from math import inf
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import Graph, Value, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.ops.promotion import kind


def stabilise(graph: Graph) -> Graph:
    """Return the graph with stable forms in place of naive ones."""
    return rewrite(graph, _change) if any(v.op == "log" for v in walk(graph)) else graph


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    if v.op != "log" or kind(v.dtype) != "f":
        return None
    (x,) = args
    if x.op == "add":
        return _softplus(x)
    if x.op == "sigmoid":
        return xp.log_sigmoid(x.args[0])
    if x.op == "softmax":
        return xp.log_softmax(x.args[0], **x.attrs)
    if x.op == "sum" and x.args[0].op == "exp":
        return xp.logsumexp(x.args[0].args[0], **x.attrs)
    return None


def _softplus(total: Value) -> Any:
    for one, other in (total.args, total.args[::-1]):
        if number(one) == 1 and other.op == "exp" and other.shape == total.shape:
            return xp.softplus(other.args[0], beta=1, threshold=inf)
    return None
