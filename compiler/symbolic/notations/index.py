"""Index notation: every tensor by its element at (i, j, ...); sums over indices, Kronecker deltas, brackets for conditions on indices.

It covers the whole table. A row that moves or reduces elements has an element function (`symgrad.compiler.ir.elements`); an elementwise
row has its scalar meaning; a row without a closed form (sort, eigh) is a function of tensors, and its element is written `sort(x)[i]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from symgrad.compiler.ir.elements import ELEMENTS
from symgrad.compiler.ir.graph import LITERAL, OUTPUT, Value, row_of
from symgrad.compiler.symbolic import to_sympy
from symgrad.compiler.symbolic.notations import index_algebra
from symgrad.compiler.symbolic.notations.base import Lowering, arguments_of
from symgrad.compiler.symbolic.notations.index_namespace import Indexing
from symgrad.compiler.symbolic.program import FormulaProgram, LoweringRequest
from symgrad.errors import FormulaError


def lower(job: LoweringRequest) -> FormulaProgram:
    """Return a program in which every output is the expression of its element."""
    run = _Indexed(job)
    return run.program(lambda: max(run.depth.values(), default=0))


@dataclass(frozen=True)
class Operand:
    """A tensor argument of an element function: call it with indices. Booleans count as 0 and 1, so that they can be multiplied."""

    lowering: _Indexed
    value: Value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        return len(self.value.shape)

    def __call__(self, *at: Any) -> Any:
        e = self.lowering.element(self.value, at)
        return e if isinstance(e, sp.Expr) else to_sympy.indicator(e)


class _Indexed(Lowering):
    notation = "index"

    def __init__(self, job: LoweringRequest) -> None:
        super().__init__(job)
        self.unnamed = set()
        """Empty: here a name may have the indices of directions besides its own."""
        self.places: dict[Value, tuple[Any, ...]] = {}
        """The direction indices of named values."""
        self.depth: dict[Value, int] = {}
        """Nesting depth of sums in the expression of a value."""
        self.asked = {a for v in job.graph.values if is_opaque(v) for a in arguments_of(v)}
        """Arguments of opaque functions, which need a name."""
        for some in job.directions:
            self.point(some)

    def point(self, directions: tuple[Value, ...]) -> None:
        """Make each direction 1 at one position, with indices of its own, and 0 elsewhere."""
        start = 0
        for d in directions:
            places = (index_algebra.place(start + p, n) for p, n in enumerate(d.shape))
            self.known[d] = sp.Mul(*map(sp.KroneckerDelta, own(d), places))
            start += len(d.shape)

    def finish(self, n: int, v: Value, directions: tuple[Value, ...]) -> Any:
        """Return the element of a derivative: the indices of its directions come first, then its own."""
        sizes = [n for d in directions for n in d.shape]
        names: dict[Any, Any] = {index_algebra.place(p, n): index_algebra.free(p, n) for p, n in enumerate(sizes)}
        names |= {i: index_algebra.free(len(sizes) + p, n) for p, (i, n) in enumerate(zip(own(v), v.shape, strict=True))}
        return self.known[v].xreplace(names) if sizes else self.known[v]

    def shortened(self, e: Any) -> Any:
        return index_algebra.with_one_sum(e)

    def add_input(self, i: int, x: Value, label: str) -> Any:
        if x in self.job.all_directions:
            return None
        self.name(x, f"x{i}")
        self.set_label(x, label)
        return self.symbols[x][0]

    def name(self, v: Value, name: str) -> list[Any]:
        """Return a symbol for a tensor, plain for a scalar, indexed by its free indices and by those of directions."""
        real = {} if v.dtype.kind == "c" else {"real": True}
        at = (*own(v), *self.places.get(v, ()))
        symbol = sp.IndexedBase(name, shape=tuple(map(index_algebra.size, at)), **real) if at else to_sympy.symbol(name, v.dtype)
        element = symbol[at] if at else symbol
        self.known[v] = to_sympy.truth(element, v.dtype)
        self.symbols[v] = (symbol,)
        return [element]

    def kind(self, v: Value) -> Any:
        """Return the direction indices, which are the same for all values of a form."""
        first = self.first.get((self.forms.of(v)[0], 0))
        e = self.known[v] if first is None else first.expression
        self.places[v] = tuple(sorted((s for s in e.free_symbols if index_algebra.is_place(s)), key=lambda s: s.name))
        return self.places[v]

    def wants(self, v: Value, size: tuple[int, int]) -> bool:
        return v in self.asked or super().wants(v, size)

    def lower(self, v: Value) -> Any:
        scope = Indexing(v.shape, max((self.depth.get(a, 0) for a in arguments_of(v) if a not in self.symbols), default=0))
        e = self.expression(v, scope)
        self.depth[v] = max(scope.depth, index_algebra.deepest(e))
        return e

    def element(self, v: Value, at: tuple[Any, ...]) -> Any:
        """Return the element of `v` at the indices `at`; in a dimension of size 1 the index is 0. An index that may count from the end
        stays as it is where it only selects elements of named tensors: x[c[i]], not x[Mod(c[i], 5)]."""
        whole = self.known[v]
        place = {}
        for k, i, n in zip(own(v), at, v.shape, strict=True):
            counts_back = isinstance(i, index_algebra.FromEnd) and index_algebra.only_selects(whole, k)
            place[k] = sp.Integer(0) if n == 1 else i.args[0] if counts_back else sp.sympify(i, strict=True)
        return whole.xreplace(place) if place else whole

    def expression(self, v: Value, scope: Indexing) -> Any:
        if v.op == LITERAL:
            return to_sympy.literal(v)
        if 0 in v.shape:  # no elements, so any expression will do
            return sp.false if v.dtype.kind == "b" else sp.Integer(0)
        whole, output = (v, None) if v.op != OUTPUT else (v.args[0], v.attrs["index"])
        row, at = row_of(whole), own(v)
        if row.elementwise:
            return to_sympy.elementwise(v, [None if a is None else self.element(a, at[len(at) - len(a.shape) :]) for a in v.args])
        operands = [None if a is None else Operand(self, a) for a in whole.args]
        if (row.name, output) in ELEMENTS:
            e = ELEMENTS[row.name, output](scope, at, *operands, **whole.attrs)
        elif (row.name, None) in ELEMENTS:
            e = ELEMENTS[row.name, None](scope, at, *operands, **whole.attrs, output=output)
        else:
            return self.opaque(whole, at, output)
        return to_sympy.holds(e) if v.dtype.kind == "b" else e

    def opaque(self, v: Value, at: tuple[Any, ...], output: int | None) -> Any:
        """Return an element of an opaque function, each argument of which has a name."""
        for a in arguments_of(v):
            if a not in self.symbols or self.places.get(a):
                advice = "derive one number of it, such as the sum"
                raise FormulaError(f"this derivative has no closed form: {v.op} is applied to every slice of a tensor; {advice}")
        whole = to_sympy.opaque(v, [None if a is None else self.symbols[a][0] for a in v.args], output)
        return index_algebra.Element(whole, *at) if at else whole


def own(v: Value) -> tuple[Any, ...]:
    """Return the free indices of a value."""
    return tuple(index_algebra.free(p, n) for p, n in enumerate(v.shape))


def is_opaque(v: Value) -> bool:
    """True if a value is the result of an opaque function of tensors."""
    whole, output = (v.args[0], v.attrs["index"]) if v.op == OUTPUT else (v, None)
    if whole.row is None or whole.row.elementwise or isinstance(v.dtype, tuple):
        return False
    return (whole.op, output) not in ELEMENTS and (whole.op, None) not in ELEMENTS
