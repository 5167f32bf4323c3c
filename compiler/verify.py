"""Is a graph legal? Every application is typed again by its row, and every input is where it says it is."""

from __future__ import annotations

from symgrad.compiler.ir import INPUT, LITERAL, OUTPUT, Graph, Value, type_text
from symgrad.errors import GraphError
from symgrad.ops.promotion import compute_type
from symgrad.ops.spec import Row


def verify(graph: Graph) -> Graph:
    """The graph itself, or GraphError that names the first value that is wrong."""
    for i, x in enumerate(graph.inputs):
        if x.op != INPUT or x.attrs["index"] != i:
            raise GraphError(f"input {i} of the graph is {x!r}, with attributes {dict(x.attrs)}")
    known = set(graph.inputs)
    for v in graph.values:
        if v.op == INPUT and v not in known:
            raise GraphError(f"{v!r} (index {v.attrs['index']}) is read, and is none of the graph's {len(known)} inputs")
        if v.row is not None:
            _check(v, v.row)
        elif v.op not in (INPUT, LITERAL, OUTPUT):
            raise GraphError(f"{v!r} is an application without a row")
    return graph


def _check(v: Value, row: Row) -> None:
    if len(row.names(len(v.args))) != len(v.args):
        raise GraphError(f"{v.op} takes {len(row.args)} arguments, and has {len(v.args)}")
    if not set(v.attrs) <= set(row.attrs):
        raise GraphError(f"{v.op} has no attribute {sorted(set(v.attrs) - set(row.attrs))}")
    _check_operands(v, row)
    try:
        meta = row.type(*v.args, **v.attrs)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise GraphError(f"{v.op} refuses its operands: {error}") from error
    if not isinstance(meta, tuple):
        if (v.shape, v.dtype) != (tuple(meta.shape), meta.dtype):
            raise GraphError(f"{v.op} is said to be {type_text(v)}, its row says {type_text(meta)}")
    elif v.shape != tuple(tuple(m.shape) for m in meta) or v.dtype != tuple(m.dtype for m in meta):
        raise GraphError(f"{v.op} is said to be {type_text(v)}, its row says {', '.join(map(type_text, meta))}")


def _check_operands(v: Value, row: Row) -> None:
    """Operands have met already: nothing is left for the promotion policy to cast."""
    operands = tuple(a for a in v.args if a is not None)
    dtype = compute_type(row.policy, operands) if operands else None
    if dtype is None:
        return
    for a in operands[1:] if row.policy == "where" else operands:
        if a.dtype != dtype:
            raise GraphError(f"{v.op} computes in {dtype}, and is given {type_text(a)} without a cast")
