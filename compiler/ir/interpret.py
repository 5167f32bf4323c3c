"""The one walker of graphs: `interpret` computes something for each value, from what it has computed for the arguments.

    evaluate     arrays, by the NumPy kernels of the table: the reference interpreter
    runner       positions in a list of arrays                                  (`ir/runner.py`)
    replay       tensors, by eager ops                                          (`ir/replay.py`)
    substitute   the same values on other arguments, without folding            (`ir/subgraph.py`)
    inline       values that the builder makes, with folding                    (`ir/subgraph.py`)
    rewrite      values that a rule makes                                       (`rewrite/rewrite.py`)
    batched      values, each with a flag: does it have the batch dimension?    (`autodiff/batch.py`)
    jvp          values with their tangents                                     (`autodiff/forward.py`)
    Jet          values where a curve starts                                    (`autodiff/jets.py`)
    Pattern      values for the tensors of the next optimizer update            (`trace/trace_once.py`)

Passes that run backwards (`autodiff/pull.py`) or write statements in an order of their own (the emitters) do not use it:
docs/decisions/0023-one-walker.md lists them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT, OUTPUT, Graph, Value, row_of, toposort, type_text
from symgrad.errors import GraphError
from symgrad.mode import local
from symgrad.ops.variants import is_half
from symgrad.typing import Array


def interpret(
    outputs: Iterable[Value],
    env: MutableMapping[Value, Any],
    apply: Callable[[Value, tuple[Any, ...]], Any],
    *,
    leaf: Callable[[Value], Any] | None = None,
    project: Callable[[Any, int], Any] = operator.getitem,
    order: Iterable[Value] | None = None,
) -> list[Any]:
    """Return the results of `outputs`, and enter the results of all values on the way in `env`.

    A value that is in `env` already has its result there, and nothing below it is visited. Of all others, `apply(v, args)` returns the
    result of an application, from those of its arguments (None for an omitted one); `project(result, i)` returns output `i` of a row with
    several outputs; `leaf(v)` returns the result of an input or literal, by default `v` itself. `order` lists the values to visit,
    arguments first, if the caller has them: `Graph.values`. Iterative, since graphs are deep.
    """
    outputs = tuple(outputs)
    for v in toposort(outputs, env) if order is None else order:
        if v in env:
            continue
        if v.row is not None:
            env[v] = apply(v, tuple([None if a is None else env[a] for a in v.args]))
        elif v.op == OUTPUT:
            env[v] = project(env[v.args[0]], v.attrs["index"])
        else:
            env[v] = v if leaf is None else leaf(v)
    return [env[v] for v in outputs]


# the reference interpreter


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
    interpret(graph.outputs, known, _computed, leaf=_number, order=graph.values)
    return known


def _number(v: Value) -> Array:
    """Return a literal as an array."""
    if v.op == INPUT:
        raise GraphError(f"{type_text(v)} with index {v.attrs['index']} is no input of the graph that reads it")
    return local.mode.run(np.asarray, v.value, v.dtype)  # type: ignore[no-any-return]


def _computed(v: Value, args: tuple[Any, ...]) -> Any:
    """Return the result of an application's kernel, of which the type rule of its row must hold."""
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
