"""Index notation: every tensor by its element at (i, j, ...); sums over indices, Kronecker deltas, brackets for conditions on indices.

It covers the whole table. A row that moves or reduces elements says in its column `element` what its element is; an elementwise row
has its scalar meaning; what has no closed form (sort, eigh) is a function of whole tensors, and its element is written `sort(x)[i]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.compiler.formula import indices, meaning
from symgrad.compiler.formula.element import ELEMENTS
from symgrad.compiler.formula.element.indexing import Indexing
from symgrad.compiler.formula.program import Binder, Job, Program
from symgrad.compiler.ir import INPUT, LITERAL, OUTPUT, Value, row_of
from symgrad.errors import FormulaError


def lower(job: Job) -> Program:
    """Every output as the expression of its element."""
    return _Indexed(job).program()


@dataclass(frozen=True)
class Operand:
    """A tensor in the column `element`: call it with indices."""

    lowering: _Indexed
    value: Value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.value.shape)

    def __call__(self, *at: Any) -> Any:
        return self.lowering.element(self.value, at)


class _Indexed:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.binder = Binder(job.graph)
        self.known: dict[Value, Any] = {}
        """The element of each value at its own free indices."""
        self.depth: dict[Value, int] = {}
        """How deep sums are nested in it."""
        self.whole: dict[Value, Any] = {}
        """The name of a value as a whole tensor, where it has one."""
        self.deepest = 0

    def program(self) -> Program:
        graph = self.job.graph
        labels = dict(zip(graph.inputs, graph.labels, strict=True))
        inputs = tuple(self.name(f"x{i}", labels[x], x) for i, x in enumerate(self.job.inputs))
        for some in self.job.directions:
            self.point(some)
        for v in graph.values:
            if v.op != INPUT and not isinstance(v.dtype, tuple):
                self.lower(v)
        outputs = tuple(self.sliced(v, some) for v, some in zip(graph.outputs, self.job.directions, strict=True))
        bindings = tuple(self.binder.bindings)
        return Program(graph, "index", inputs, bindings, outputs, self.binder.labels, self.job.shapes, self.deepest)

    def point(self, directions: tuple[Value, ...]) -> None:
        """Each direction is 1 at one place, with indices of its own, and 0 elsewhere."""
        start = 0
        for d in directions:
            places = (indices.place(start + p, n) for p, n in enumerate(d.shape))
            self.known[d] = sp.Mul(*map(sp.KroneckerDelta, own(d), places))
            self.depth[d] = 0
            start += len(d.shape)

    def sliced(self, v: Value, directions: tuple[Value, ...]) -> Any:
        """The element of a derivative: the indices of its directions come first, then its own."""
        sizes = [n for d in directions for n in d.shape]
        names: dict[Any, Any] = {indices.place(p, n): indices.free(p, n) for p, n in enumerate(sizes)}
        names |= {i: indices.free(len(sizes) + p, n) for p, (i, n) in enumerate(zip(own(v), v.shape, strict=True))}
        return self.known[v].xreplace(names) if sizes else self.known[v]

    def name(self, name: str, label: str, v: Value, places: Sequence[Any] = ()) -> Any:
        """A symbol for a whole tensor: a plain one for a number."""
        real = {} if v.dtype.kind == "c" else {"real": True}
        at = (*own(v), *places)
        symbol = sp.IndexedBase(name, **real) if at else meaning.symbol(name, v.dtype)
        self.binder.labels[symbol] = label
        if not places:
            self.whole[v] = symbol
        element = symbol[at] if at else symbol
        self.known[v] = sp.Ne(element, 0) if at and v.dtype.kind == "b" else element
        self.depth[v] = 0
        return symbol

    def lower(self, v: Value) -> None:
        scope = Indexing(v.shape, max((self.depth.get(a, 0) for a in _read(v)), default=0))
        e = self.expression(v, scope)
        self.known[v], self.depth[v] = e, scope.depth
        self.deepest = max(self.deepest, scope.depth)
        if self.binder.wants(v, [e]):
            self.bind(v)

    def bind(self, v: Value) -> Any:
        """Give a value a name; it is a function of its free indices, and of the places of directions."""
        e = self.known[v]
        places = sorted((s for s in e.free_symbols if indices.is_place(s)), key=lambda s: s.name)
        label = self.binder.next_name
        symbol = self.name(label, label, v, places)
        at = (*own(v), *places)
        self.binder.bindings.append((symbol[at] if at else symbol, e))
        return symbol

    def element(self, v: Value, at: tuple[Any, ...]) -> Any:
        """The element of `v` at given places; where a dimension has size 1 there is only one."""
        place = (sp.Integer(0) if n == 1 else sp.sympify(i, strict=True) for i, n in zip(at, v.shape, strict=True))
        return self.known[v].xreplace(dict(zip(own(v), place, strict=True))) if at else self.known[v]

    def expression(self, v: Value, scope: Indexing) -> Any:
        if v.op == LITERAL:
            return meaning.literal(v)
        whole, output = (v, None) if v.op != OUTPUT else (v.args[0], v.attrs["index"])
        row, at = row_of(whole), own(v)
        if row.elementwise:
            return meaning.elementwise(v, [None if a is None else self.element(a, at[len(at) - len(a.shape) :]) for a in v.args])
        operands = [None if a is None else Operand(self, a) for a in whole.args]
        if (row.name, output) in ELEMENTS:
            return ELEMENTS[row.name, output](scope, at, *operands, **whole.attrs)
        if (row.name, None) in ELEMENTS:
            return ELEMENTS[row.name, None](scope, at, *operands, **whole.attrs, output=output)
        return self.opaque(whole, at, output)

    def opaque(self, v: Value, at: tuple[Any, ...], output: int | None) -> Any:
        """A function of whole tensors, each of which has a name."""
        for a in v.args:
            if a is not None and a not in self.whole and any(map(indices.is_place, self.known[a].free_symbols)):
                raise FormulaError(f"this derivative has no closed form: {v.op} is applied to every slice of a tensor")
        args = [None if a is None else self.whole[a] if a in self.whole else self.bind(a) for a in v.args]
        whole = meaning.opaque(v, args, output)
        return indices.Element(whole, *at) if at else whole


def own(v: Value) -> tuple[Any, ...]:
    """The free indices of a value."""
    return tuple(indices.free(p, n) for p, n in enumerate(v.shape))


def _read(v: Value) -> tuple[Value, ...]:
    whole = v.args[0] if v.op == OUTPUT else v
    return tuple(a for a in whole.args if a is not None)
