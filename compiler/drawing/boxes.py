"""The boxes and edges of a drawing: a box for each input, application and output, and an edge for each argument.

Literals are written in the box of the operation that uses them, and one of several outputs is marked at the start of its edge. Edges into
operations whose arguments cannot be swapped carry the argument's name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.ir.fold import number
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, row_of, type_text
from symgrad.compiler.ir.printer import application, attribute, value_names
from symgrad.errors import GraphError

_ANY_ORDER = {
    "add", "mul", "maximum", "minimum", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    "fmax", "fmin", "hypot", "logaddexp",
}  # fmt: skip
_UNSAID = {"dilation": 1, "groups": 1, "padding": 0, "stride": 1}
"""Default attribute values, which are not shown."""
_LONGEST, _LONGEST_NOTE, _MOST_TYPES = 34, 400, 3


@dataclass(frozen=True)
class Box:
    """`kind` is input, constant, elementwise, shape, operation or output; `number` is the name of the value in the graph's text."""

    kind: str
    title: str
    lines: tuple[str, ...]
    number: str
    note: str
    """The full line of the graph's text."""
    outputs: int = 1


@dataclass(frozen=True)
class Edge:
    """An edge between two boxes, by position. `output` is the index of one of several outputs, `enters` the name of the argument."""

    source: int
    target: int
    output: int | None
    enters: str


@dataclass(frozen=True)
class Sketch:
    """Boxes in topological order, and the edges between them."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def sketch(graph: Graph, limit: int) -> Sketch:
    """Return at most `limit` boxes and their edges: if there would be more, elementwise operations that feed only each other share one.
    Raise GraphError if there are still more."""
    found = _Sketcher(graph, {}).sketch()
    if len(found.boxes) > limit:
        found = _Sketcher(graph, _runs(graph)).sketch()
    if len(found.boxes) > limit:
        raise GraphError(
            f"this graph has {len(found.boxes)} boxes to draw, more than limit={limit}: draw a part of it, as in"
            " Graph(graph.inputs, [value], graph.labels).draw(), pass a larger limit, or print the graph"
        )
    return found


def _runs(graph: Graph) -> dict[Value, Value]:
    """Return, for each elementwise value whose only use is another elementwise value, the last value of its run."""
    uses = graph.uses()
    last: dict[Value, Value] = {}
    for v in reversed(graph.values):
        if v.row is not None and v.row.elementwise:
            for a in v.args:
                if a is not None and uses[a] == 1 and a.row is not None and a.row.elementwise:
                    last[a] = last.get(v, v)
    return last


class _Sketcher:
    def __init__(self, graph: Graph, last: dict[Value, Value]) -> None:
        self.graph = graph
        self.last = last
        self.names = value_names(graph)
        self.boxes: list[Box] = []
        self.place: dict[Value, int] = {}
        self.runs: dict[Value, list[Value]] = {}
        for v in graph.values:
            if v in last:
                self.runs.setdefault(last[v], []).append(v)

    def sketch(self) -> Sketch:
        for x, label in zip(self.graph.inputs, self.graph.labels, strict=True):
            self.add(x, Box("input", short(label), (type_text(x),), "", f"{self.names[x]}: {type_text(x)}"))
        edges: list[Edge] = []
        for v in self.graph.values:
            if v.op not in (INPUT, LITERAL, OUTPUT) and v not in self.last:
                run = [*self.runs.get(v, ()), v]
                self.add(v, self.run(run) if len(run) > 1 else self.box(v))
                edges += self.into(run)
        for i, v in enumerate(self.graph.outputs):
            title = "output" if len(self.graph.outputs) == 1 else f"output {i}"
            self.boxes.append(Box("output", title, (self.names[v] if v.op == LITERAL else type_text(v),), "", f"return {self.names[v]}"))
            edges += [self.edge(v, len(self.boxes) - 1, "")] if v.op != LITERAL else []
        return Sketch(tuple(self.boxes), tuple(edges))

    def add(self, v: Value, box: Box) -> None:
        self.place[v] = len(self.boxes)
        self.boxes.append(box)

    def box(self, v: Value) -> Box:
        filled = number(v)
        title = v.op if filled is None else _number(filled)
        if filled is None and any(a is not None and a.op == LITERAL for a in v.args):
            title += f"({', '.join(_number(a.value) if a.op == LITERAL else '·' for a in v.args if a is not None)})"
        settings = ", ".join(_setting(k, x) for k, x in v.attrs.items() if _says_something(k, x))
        lines = (*([short(settings)] if settings else ()), *_types(v))
        outputs = len(v.dtype) if isinstance(v.dtype, tuple) else 1
        return Box(_kind(v), short(title), lines, self.names[v], self.note(v), outputs)

    def run(self, run: list[Value]) -> Box:
        counts = Counter(v.op for v in run)
        ops = ", ".join(f"{op} ×{n}" if n > 1 else op for op, n in counts.most_common())
        notes = "\n".join(self.note(v) for v in run)
        return Box("elementwise", f"{len(run)} elementwise", (short(ops), *_types(run[-1])), self.names[run[-1]], notes[:_LONGEST_NOTE])

    def note(self, v: Value) -> str:
        return f"{self.names[v]} = {application(v, self.names)} : {type_text(v)}"[:_LONGEST_NOTE]

    def into(self, run: list[Value]) -> list[Edge]:
        """Return the edges into the last value of a run; a value that is read twice has one edge, which says so."""
        target = self.place[run[-1]]
        found: dict[tuple[int, int | None], list[str]] = {}
        for v in run:
            for a, name in _arguments(v, named=len(run) == 1):
                if a not in self.last:
                    edge = self.edge(a, target, name)
                    found.setdefault((edge.source, edge.output), []).append(name)
        return [Edge(source, target, output, _together(names)) for (source, output), names in found.items()]

    def edge(self, v: Value, target: int, name: str) -> Edge:
        if v.op == OUTPUT:
            return Edge(self.place[v.args[0]], target, v.attrs["index"], name)
        return Edge(self.place[v], target, None, name)


def _arguments(v: Value, named: bool) -> list[tuple[Value, str]]:
    """Return the arguments other than literals, with their names if the order matters."""
    args = [(i, a) for i, a in enumerate(v.args) if a is not None and a.op != LITERAL]
    names = row_of(v).names(len(v.args))
    if len(args) < 2 or v.op in _ANY_ORDER or not named:
        return [(a, "") for _, a in args]
    return [(a, names[i] if names.count(names[i]) == 1 else str(i)) for i, a in args]


def _setting(name: str, x: Any) -> str:
    """Return an attribute as text; a nested graph is shown by its number of operations, and drawn with `value.attrs[name].draw()`."""
    return f"{name} of {sum(v.row is not None for v in x.values)}" if isinstance(x, Graph) else f"{name}={attribute(x)}"


def _says_something(name: str, x: Any) -> bool:
    """True unless the attribute is off, a default, or visible in the type."""
    if x is None or x is False or name in ("dtype", "shape"):
        return False
    return name not in _UNSAID or any(n != _UNSAID[name] for n in (x if isinstance(x, tuple) else (x,)))


def _together(names: list[str]) -> str:
    return ", ".join(names) if any(names) else "" if len(names) == 1 else f"×{len(names)}"


def _kind(v: Value) -> str:
    if all(a is None or a.op == LITERAL for a in v.args):
        return "constant"
    row = row_of(v)
    return "elementwise" if row.elementwise else "shape" if row.view else "operation"


def _types(v: Value) -> tuple[str, ...]:
    if not isinstance(v.dtype, tuple):
        return (type_text(v),)
    types = [f"[{i}] {dtype}{list(shape)}" for i, (shape, dtype) in enumerate(zip(v.shape, v.dtype, strict=True))]
    return tuple(types) if len(types) <= _MOST_TYPES else (*types[: _MOST_TYPES - 1], f"and {len(types) - _MOST_TYPES + 1} more")


def _number(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, float) else str(x) if isinstance(x, (bool, complex)) or abs(x) < 10**12 else f"{float(x):.6g}"


def short(text: str) -> str:
    """Return the text as one line of limited length, with unprintable characters replaced."""
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
