"""The reference interpreter: runs a graph with the NumPy kernels of the op table, one application after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, row_of, type_text
from symgrad.errors import GraphError
from symgrad.mode import local
from symgrad.ops.variants import is_half
from symgrad.typing import Array


def evaluate(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Return the outputs of a graph. Raise GraphError if the result of a kernel contradicts the type rule of its row."""
    known = values_of(graph, arrays)
    return [known[v] for v in graph.outputs]


def values_of(graph: Graph, arrays: Sequence[Array]) -> dict[Value, Any]:
    """Return all values of a graph by value; an application with several outputs maps to a tuple."""
    if len(arrays) != len(graph.inputs):
        raise GraphError(f"the graph has {len(graph.inputs)} inputs, got {len(arrays)} arrays")
    known: dict[Value, Any] = {}
    for x, array in zip(graph.inputs, arrays, strict=True):
        if array.shape != x.shape or array.dtype != x.dtype:
            raise GraphError(f"input {x.attrs['index']} is {type_text(x)}, got {type_text(array)}")
        known[x] = array
    for v in graph.values:
        if v.op != INPUT:
            known[v] = _value(v, known)
    return known


def _value(v: Value, known: dict[Value, Any]) -> Any:
    if v.op == LITERAL:
        return local.mode.run(np.asarray, v.value, v.dtype)
    args: list[Any] = [None if a is None else known[a] for a in v.args]
    if v.op == OUTPUT:
        return args[0][v.attrs["index"]]
    result = local.mode.run(row_of(v).numpy, *map(_lifted, args), **v.attrs)
    if isinstance(v.dtype, tuple):
        return tuple(_rounded(r, dtype) for r, dtype in zip(result, v.dtype, strict=True))
    result = _rounded(result, v.dtype)
    if result.shape != v.shape or result.dtype != v.dtype:
        raise GraphError(f"the kernel of {v.op} gave {type_text(result)}, its type rule says {type_text(v)}")
    return result


def _lifted(x: Any) -> Any:
    """Return half-precision arrays as float32, in which PyTorch computes with them, too."""
    return x.astype(np.float32) if isinstance(x, np.ndarray) and is_half(x.dtype) else x


def _rounded(result: Any, dtype: Any) -> Any:
    return np.asarray(result, dtype) if is_half(dtype) else np.asarray(result)
