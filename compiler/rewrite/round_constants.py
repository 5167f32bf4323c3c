"""sqrt(2) -> 1.4142135623730951: evaluates constants, which a formula shows exactly, in float64. For kernels only."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import LITERAL, Graph, Value, literal, row_of, walk
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.mode import local


def fold_constants(graph: Graph) -> Graph:
    """Return the graph with each elementwise function of literals that has a float result as a literal."""
    return rewrite(graph, _change) if any(map(_is_constant, walk(graph))) else graph


def _is_constant(v: Value) -> bool:
    return bool(v.row is not None and v.row.elementwise and v.args and all([a is not None and a.op == LITERAL for a in v.args]))


def _change(v: Value, args: tuple[Any, ...]) -> Any:
    row = row_of(v)
    if not row.elementwise or row.attrs or v.dtype.kind != "f" or not all(a is not None and a.op == LITERAL for a in args):
        return None
    return literal(float(local.mode.run(row.numpy, *(np.float64(a.value) for a in args))), v.dtype)
