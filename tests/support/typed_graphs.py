"""Every row of the table as graphs, in every type of number that it takes: its value, its VJP at ones, its JVP, and with a Python number
for each of its operands."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from row_functions import WITHOUT_DERIVATIVE, Case, cases

from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.verify import verify
from symgrad.errors import GraphError
from symgrad.ops.promotion import kind
from symgrad.ops.table import TABLE

DTYPES = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64, "complex64": np.complex64,
    "complex128": np.complex128, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64, "uint8": np.uint8,
    "bool": np.bool_,
}  # fmt: skip
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
NUMBERS = (1, 0.5, 0)


def typed_cases(dtype: str) -> list[Case]:
    """Two samples of each row, as far as eager code takes the type."""
    found = [case.cast(np.dtype(DTYPES[dtype])) for case in cases(2)]
    return [case for case in found if case is not None]


def forward(case: Case, numbers: dict[int, Any] | None = None) -> tuple[Graph, list[Any]]:
    """The row as a graph, with Python numbers for some operands."""
    numbers = numbers or {}
    args = [numbers.get(i, a) for i, a in enumerate(case.args)]
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    inputs = [input_value(i, a.shape, a.dtype) for i, a in enumerate(arrays)]
    given = iter(inputs)
    results = apply(TABLE[case.name], tuple(next(given) if isinstance(a, np.ndarray) else a for a in args), dict(case.attrs))
    return verify(Graph(inputs, results if isinstance(results, tuple) else (results,))), arrays


def backward(graph: Graph) -> Graph | None:
    """The gradient of the sum of all results, whose cotangents are the number 1."""
    wrt = _differentiable(graph.inputs)
    parts = [p for v in graph.outputs for p in ((xp.real(v), xp.imag(v)) if v.dtype.kind == "c" else (v,)) if kind(p.dtype) == "f"]
    if not wrt or not parts:
        return None
    totals = [xp.cast(xp.sum(p, axis=tuple(range(p.ndim)), keepdims=False), dtype=np.dtype(np.float64)) for p in parts]
    return _derived(grad, Graph(graph.inputs, (sum(totals[1:], totals[0]),)), wrt)


def along(graph: Graph, arrays: list[Any]) -> tuple[Graph, list[Any]] | None:
    """The JVP along directions of their own."""
    wrt = _differentiable(graph.inputs)
    found = _derived(jvp, graph, wrt) if wrt and all(kind(v.dtype) in "fc" for v in graph.outputs) else None
    if found is None:
        return None
    directions = [np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype) for x in found.inputs[len(arrays) :]]
    return found, [*arrays, *directions]


def with_numbers(case: Case) -> list[tuple[str, Graph, list[Any]]]:
    """An elementwise row with a number for one operand, in turn; rows without a common type have a tensor first."""
    row = TABLE[case.name]
    if not row.elementwise or len(case.arrays) < 2 or case.name == "tied":
        return []
    found = []
    for i, a in enumerate(case.args):
        if i == 0 and row.policy == "each":
            continue
        for number in NUMBERS if isinstance(a, np.ndarray) and kind(a.dtype) in "fc" else ():
            try:
                found.append((f"{case.name} with {number} for operand {i}", *forward(case, {i: number})))
            except (GraphError, TypeError, ValueError, AttributeError):  # takes arrays only
                continue
    return found


def _differentiable(values: Any) -> list[int]:
    return [i for i, x in enumerate(values) if kind(x.dtype) in "fc"]


def _derived(derivative: Any, graph: Graph, wrt: list[int]) -> Graph | None:
    try:
        return verify(derivative(graph, wrt))
    except (GraphError, RuntimeError) as error:
        if not any(word in str(error) for word in ("deriv", "differentia")):
            raise
        return None  # refused in so many words


def graphs(case: Case) -> list[tuple[str, Graph, list[Any]]]:
    """All graphs of a case, with names and arrays."""
    found = []
    for name, graph, arrays in [(f"{case.name} {case.number}", *forward(case)), *with_numbers(case)]:
        found.append((name, graph, arrays))
        if case.name in WITHOUT_DERIVATIVE:
            continue
        if (pulled := backward(graph)) is not None:
            found.append((f"gradient of {name}", pulled, arrays))
        if (pushed := along(graph, arrays)) is not None:
            found.append((f"tangent of {name}", *pushed))
    return found
