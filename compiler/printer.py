"""A graph as text, one line for each application:

    graph(%x: float64[3], %w: float64[3]) {
      %2 = mul(%x, %w) : float64[3]
      %3 = sum(%2; axis=(0,), keepdims=False) : float64[]
      return %3
    }

Inputs that are plain names are called by their label, everything else is numbered. Literals stand where they are used, with their type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.compiler.ir import INPUT, LITERAL, OUTPUT, Graph, Value, type_text


def text(graph: Graph) -> str:
    """The graph line by line, as tests compare it."""
    names = _names(graph)
    inputs = ", ".join(f"{names[x]}: {type_text(x)}" for x in graph.inputs)
    lines = [f"  {names[v]} = {_application(v, names)} : {type_text(v)}" for v in graph.values if v.op not in (INPUT, LITERAL)]
    results = ", ".join(names[v] for v in graph.outputs)
    return "\n".join([f"graph({inputs}) {{", *lines, f"  return {results}", "}"])


def _names(graph: Graph) -> dict[Value, str]:
    names: dict[Value, str] = {}
    for i, (x, label) in enumerate(zip(graph.inputs, graph.labels, strict=True)):
        plain = label.isascii() and label.isidentifier() and graph.labels.count(label) == 1
        names[x] = f"%{label}" if plain else f"%{i}"
    number = len(graph.inputs)
    for v in graph.values:
        if v.op == LITERAL:
            names[v] = f"{v.dtype}({v.value!r})"
        elif v not in names:
            names[v] = f"%{number}"
            number += 1
    return names


def _application(v: Value, names: dict[Value, str]) -> str:
    args = ", ".join("none" if a is None else names[a] for a in v.args)
    if v.op == OUTPUT:
        return f"{args}[{v.attrs['index']}]"
    attrs = ", ".join(f"{k}={attribute(x)}" for k, x in sorted(v.attrs.items()))
    return f"{v.op}({args}; {attrs})" if attrs else f"{v.op}({args})"


def attribute(x: Any) -> str:
    """An attribute as it is printed."""
    return str(x) if isinstance(x, np.dtype) else repr(x)


Graph.__str__ = Graph.__repr__ = text  # type: ignore[method-assign, assignment]
