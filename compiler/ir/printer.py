"""Print a graph as text, one line per application; `symgrad.compiler.ir.parser` reads it back.

    graph(%x: float64[3], %1 "layer.weight": float64[3]) {
      %2 = mul(%x, %1) : float64[3]
      %3 = sum(%2; axis=(0,), keepdims=False) : float64[]
      return %3
    }

An input whose label is an identifier is named by it; other inputs are numbered, and the label follows in quotes. Literals are written
inline with their type: `float64(2)`. `none` is an omitted argument, `%4[1]` one output of an application that has several. Attributes are
written as in Python, with these exceptions, so that each is parsed back with its type and its bits:
    float32                                the type
    "text"                                 a string, as in JSON
    complex(1.0, -0.0)                     a complex number
    inf, nan, nan(0xfff8000000000000)      a NaN other than the default one, by its bits
    float32[2](0.5, 1.0)                   an array; its bytes in hexadecimal if it is large or decimals would be inexact
    graph(%x: float64[]) { ... }           the body of a loop, or a branch, with its own names
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Mapping
from types import EllipsisType
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, type_text

_USUAL_NAN = struct.pack(">d", math.nan).hex()
_MAX_NUMBERS = 64
_LARGEST = 2**64
"""Integers of at least this size are printed in hexadecimal: Python refuses to convert very long ones to or from decimals."""


def text(graph: Graph) -> str:
    """Return the graph as text."""
    names = value_names(graph)
    inputs = ", ".join(_input(x, label, names[x]) for x, label in zip(graph.inputs, graph.labels, strict=True))
    lines = [f"  {names[v]} = {application(v, names)} : {type_text(v)}" for v in graph.values if v.op not in (INPUT, LITERAL)]
    results = ", ".join(names[v] for v in graph.outputs)
    return "\n".join([f"graph({inputs}) {{", *lines, f"  return {results}".rstrip(), "}"])


def _input(x: Value, label: str, name: str) -> str:
    return f"{name}: {type_text(x)}" if name == f"%{label}" else f"{name} {json.dumps(label)}: {type_text(x)}"


def value_names(graph: Graph) -> dict[Value, str]:
    """Return the name of each value in the text."""
    names: dict[Value, str] = {}
    count = Counter(graph.labels)
    for i, (x, label) in enumerate(zip(graph.inputs, graph.labels, strict=True)):
        names[x] = f"%{label}" if is_word(label) and count[label] == 1 else f"%{i}"
    number = len(graph.inputs)
    for v in graph.values:
        if v.op == LITERAL:
            names[v] = f"{v.dtype}({attribute(v.value)})"
        elif v not in names:
            names[v] = f"%{number}"
            number += 1
    return names


def is_word(label: str) -> bool:
    """True if the label is an identifier, which is printed without quotes."""
    return re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", label) is not None


def application(v: Value, names: Mapping[Value, str]) -> str:
    """Return an application as text: `sum(%2; axis=(0,), keepdims=False)`."""
    args = ", ".join("none" if a is None else names[a] for a in v.args)
    if v.op == OUTPUT:
        return f"{args}[{v.attrs['index']}]"
    op = v.op if is_word(v.op) else json.dumps(v.op)
    attrs = ", ".join(f"{k}={attribute(x)}" for k, x in v.attrs.items())
    return f"{op}({args}; {attrs})" if attrs else f"{op}({args})"


def attribute(x: Any) -> str:
    """Return an attribute as text."""
    if x is None or isinstance(x, (bool, np.dtype)):
        return str(x)
    if isinstance(x, EllipsisType):
        return "..."
    if isinstance(x, str):
        return json.dumps(x)
    if isinstance(x, int):
        return repr(x) if abs(x) < _LARGEST else hex(x)
    if isinstance(x, float):
        return _float(x)
    if isinstance(x, complex):
        return f"complex({_float(x.real)}, {_float(x.imag)})"
    if isinstance(x, slice):
        return f"slice({attribute(x.start)}, {attribute(x.stop)}, {attribute(x.step)})"
    if isinstance(x, Graph):
        return text(x).replace("\n", "\n  ")
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)}: {attribute(e)}" for k, e in x.items()) + "}"
    if isinstance(x, np.ndarray):
        return _array(x)
    return f"({', '.join(map(attribute, x))}{',' if len(x) == 1 else ''})"


def _float(x: float) -> str:
    bits = struct.pack(">d", x).hex()
    return repr(float(x)) if not math.isnan(x) else "nan" if bits == _USUAL_NAN else f"nan(0x{bits})"


def _array(x: Any) -> str:
    numbers = x.reshape(-1).tolist() if x.size <= _MAX_NUMBERS else []
    exact = x.size <= _MAX_NUMBERS and np.array(numbers, x.dtype).tobytes() == x.tobytes()
    return f"{type_text(x)}({', '.join(map(attribute, numbers)) if exact else json.dumps(x.tobytes().hex())})"
