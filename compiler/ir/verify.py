"""The graph verifier: infers the type of each application again from its row, and checks that each input is at its position."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.attributes import key_of
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, nested, type_text
from symgrad.errors import GraphError
from symgrad.ops.promotion import compute_type, kind
from symgrad.ops.spec import Row

_KINDS = {bool: "bifc", int: "bifc", float: "fc", complex: "c"}
"""Kinds of dtypes that a literal of this Python type may have."""


def verify(graph: Graph) -> Graph:
    """Return the graph, or raise GraphError that names the first illegal value."""
    for i, x in enumerate(graph.inputs):
        if x.op != INPUT or x.attrs["index"] != i:
            raise GraphError(f"input {i} of the graph is {x!r}, with attributes {dict(x.attrs)}")
    known = set(graph.inputs)
    legal: set[Any] = set()
    for v in graph.values:
        if v.op == INPUT and v not in known:
            raise GraphError(f"{v!r} (index {v.attrs['index']}) is read, and is none of the graph's {len(known)} inputs")
        if not v.legal:
            kind_of = _kind_of(v)
            if kind_of not in legal:
                check(v)
                legal.add(kind_of)
            object.__setattr__(v, "legal", True)
    for v in graph.outputs:
        _check_single(v, "the graph gives")
    return graph


def _kind_of(v: Value) -> Any:
    """Return a key of everything that `check` looks at, so that only one of equal layers is checked."""
    if v.row is None:
        return v
    return id(v.row), key_of(v.attrs), v.shape, v.dtype, *[None if a is None else (a.shape, a.dtype) for a in v.args]


def check(v: Value) -> None:
    """Raise GraphError if a value does not follow from its arguments."""
    if v.row is not None:
        _check_application(v, v.row)
    elif v.op == OUTPUT:
        _check_output(v)
    elif v.op == LITERAL:
        if kind(v.dtype) not in _KINDS.get(type(v.value), ""):
            raise GraphError(f"{v.value!r} is no number of type {v.dtype}")
    elif v.op != INPUT:
        raise GraphError(f"{v!r} is an application without a row")


def _check_output(v: Value) -> None:
    (whole,) = v.args
    if not isinstance(whole.dtype, tuple):
        raise GraphError(f"{whole!r} has one output, and none of several can be chosen")
    index = v.attrs["index"]
    if not 0 <= index < len(whole.dtype):
        raise GraphError(f"{whole.op} has {len(whole.dtype)} outputs, and no output {index}")
    if (v.shape, v.dtype) != (whole.shape[index], whole.dtype[index]):
        raise GraphError(f"output {index} of {whole!r} is said to be {type_text(v)}")


def _check_single(v: Value, reader: str) -> None:
    if isinstance(v.dtype, tuple):
        raise GraphError(f"{reader} {v.op}, which has {len(v.dtype)} outputs: one of them must be chosen")


def _check_application(v: Value, row: Row) -> None:
    if len(row.names(len(v.args))) != len(v.args):
        raise GraphError(f"{v.op} takes {len(row.args)} arguments, and has {len(v.args)}")
    if not set(v.attrs) <= set(row.attrs):
        raise GraphError(f"{v.op} has no attribute {sorted(set(v.attrs) - set(row.attrs))}")
    for a in v.args:
        if a is not None:
            _check_single(a, f"{v.op} is given")
        elif row.elementwise:
            raise GraphError(f"{v.op} needs all its arguments")
    for name, inner in nested(v).items():
        try:
            verify(inner)
        except GraphError as error:
            raise GraphError(f"the {name} of {v.op}: {error}") from error
    meta = _typed(v, row)
    several = isinstance(meta, tuple)
    shape = tuple(tuple(m.shape) for m in meta) if several else tuple(meta.shape)
    dtype = tuple(m.dtype for m in meta) if several else meta.dtype
    if (v.shape, v.dtype) != (shape, dtype):
        raise GraphError(f"{v.op} is said to be {type_text(v)}, its row says {type_text(meta)}")


def _typed(v: Value, row: Row) -> Any:
    """Return the type that the row infers. Raise GraphError for any exception, since operands and attributes of the wrong kind may fail in
    any way."""
    try:
        _check_operands(v, row)
        return row.type(*v.args, **v.attrs)
    except GraphError:
        raise
    except Exception as error:
        raise GraphError(f"{v.op} refuses its operands: {error}") from error


def _check_operands(v: Value, row: Row) -> None:
    """Check that the operands are already promoted: no cast is left for the promotion policy."""
    operands = tuple([a for a in v.args if a is not None])
    for a in operands if row.elementwise and row.policy != "where" else ():
        if kind(a.dtype) not in row.kinds:
            raise GraphError(f"{v.op} is not there for {type_text(a)}")
    dtype = compute_type(row.policy, operands) if operands else None
    if dtype is None:
        return
    for a in operands[1:] if row.policy == "where" else operands:
        if a.dtype != dtype:
            raise GraphError(f"{v.op} computes in {dtype}, and is given {type_text(a)} without a cast")
