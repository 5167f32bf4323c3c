"""Jacobians and Hessians in the index normal form: the terms of u' J v.

A derivative along a direction v is linear in v, so that its normal form, multiplied by a second direction u, is a sum of terms with one
element of u and one of v each. What multiplies them is the matrix:

    u' J v = Σ terms · u[rows] · v[columns],    J[rows, columns] = Σ terms

All labels of such a term are bound. `rows` and `columns` say which element of the matrix a combination of labels adds to: (i, i) on a
diagonal, (i, i + 1) beside it, (i, j) in a full matrix, (idx[k], idx[k]) for a gather. Labels in neither are summed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from symgrad.compiler.algebra.affine import Affine, Label, NotAffine, TooLarge
from symgrad.compiler.algebra.eliminate import eliminate, like_terms
from symgrad.compiler.algebra.expand import SOURCES, STRUCTURAL, Expansion, expand, is_linear
from symgrad.compiler.algebra.namespace import Labels
from symgrad.compiler.algebra.term import Expression, Factor, Term
from symgrad.compiler.autodiff.pull import dependents, pull
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import INPUT, LITERAL, Graph, Value, input_value, row_of, toposort
from symgrad.compiler.rewrite.drop_hooks import drop_hooks
from symgrad.ops.spec import Meta

_MULTILINEAR = STRUCTURAL | SOURCES | frozenset(
    (
        "matmul", "sum", "trace", "einsum", "mean", "linear", "addmm", "flip", "tile", "tril", "triu", "pad", "crop", "shift", "cat",
        "stack", "assemble", "unfold", "unfold_transpose", "index", "index_select", "index_back", "index_add", "embedding", "take_along",
        "scatter_along", "scatter_add", "assume", "convolution", "convolution_transpose", "convolution_weight",
    )
)  # fmt: skip
"""Rows that are linear in each argument, besides elementwise ones."""


@dataclass(frozen=True, eq=False)
class MatrixTerm:
    """One term of a matrix: the product of `factors`, times `coefficient`, is added to element (*rows, *columns) for all labels within
    the brackets."""

    rows: tuple[Affine, ...]
    columns: tuple[Affine, ...]
    product: Term
    """The term without the two directions; all of its labels are bound."""

    @property
    def placed(self) -> frozenset[Label]:
        """The labels that the place in the matrix depends on; all others are summed."""
        return frozenset(label for i in (*self.rows, *self.columns) for label in i.reached)


def jacobian_terms(graph: Graph, y: Value, x: Value) -> list[MatrixTerm]:
    """Return the terms of the Jacobian of a value in an input, with rows of y and columns of x; raise NotAffine if it has no normal
    form."""
    cotangent = input_value(len(graph.inputs), y.shape, y.dtype)
    (pulled,) = pull({y: cotangent}, [x])
    found = matrix_terms(pulled, cotangent)
    return [replace(t, rows=t.columns, columns=t.rows) for t in found]


def hessian_terms(graph: Graph, y: Value, first: Value, second: Value) -> list[MatrixTerm]:
    """Return the terms of the Hessian of a value with one element, with rows of `first` and columns of `second`; raise NotAffine if it
    has no normal form."""
    (slope,) = pull({y: filled(xp, 1, Meta(y.shape, y.dtype))}, [first])
    (slope,) = drop_hooks(Graph(graph.inputs, (slope,))).outputs
    return jacobian_terms(graph, slope, second)


def matrix_terms(value: Value, direction: Value) -> list[MatrixTerm]:
    """Return the terms of the matrix of a value that is linear in an input, the direction; raise NotAffine if it has no normal form."""
    order = toposort((value,))
    if any(not isinstance(v.dtype, tuple) and v.size == 0 for v in order):
        raise NotAffine("a value without elements")
    moving = dependents(order, [direction])
    if value not in moving:
        return []
    try:
        return _matrix_terms(value, direction, moving)
    except TooLarge:
        combined = with_summed_slopes(value, order, moving)
        return _matrix_terms(combined, direction, dependents(toposort((combined,)), [direction]))


def _matrix_terms(value: Value, direction: Value, moving: set[Value]) -> list[MatrixTerm]:
    expanded = expand(value, lambda labels: _Expansion(labels, moving))
    row = input_value(-1, value.shape, value.dtype)
    terms: list[Term] = []
    for t in expanded.expression.terms:
        if sum(v is direction for v, _ in t.factors) != 1:
            raise NotAffine("not linear in the direction")
        bound = t.bound | {label for i in expanded.at for label in i.reached}
        eliminated = eliminate(replace(t, factors=((row, expanded.at), *t.factors), bound=bound))
        if eliminated is not None:
            terms.append(eliminated)
    return [_matrix_term(t, row, direction) for t in like_terms(terms)]


def _matrix_term(t: Term, row: Value, direction: Value) -> MatrixTerm:
    if t.deltas:
        raise NotAffine("a delta that has no solution")
    factors: list[Factor] = []
    rows: tuple[Affine, ...] = ()
    columns: tuple[Affine, ...] = ()
    for v, at in t.factors:
        if v is row:
            rows = at
        elif v is direction:
            columns = at
        else:
            factors.append((v, at))
    return MatrixTerm(rows, columns, replace(t, factors=tuple(factors)))


class _Expansion(Expansion):
    """Expands what depends on the direction. Of other values, those with zeros at known places, products that broadcast and products of
    low rank are expanded, since they have structure; all others are leaves, computed as written."""

    def __init__(self, labels: Labels, moving: set[Value]) -> None:
        super().__init__(labels)
        self.moving = moving

    def linear(self, v: Value, at: tuple[Affine, ...]) -> Expression:
        if v not in self.moving:
            return super().linear(v, at) if has_structure(v) else Expression([Term(factors=((v, at),))])
        if v.op in ("add", "sub", "neg", "conj"):
            return super().linear(v, at)
        if v.op == "mul" and sum(a in self.moving for a in v.args) == 1:
            return super().linear(v, at)
        if v.row is not None and v.row.elementwise:
            return self._elementwise(v, at)
        if v.op == "roll" and (v.attrs["axes"] or v.ndim == 1):
            return self._rolled(v.args[0], at, list(zip(v.attrs["shifts"], v.attrs["axes"] or (0,), strict=True)))
        if v.op not in _MULTILINEAR:
            raise NotAffine(v.op)
        return super().linear(v, at)

    def _rolled(self, v: Value, at: Sequence[Affine], rolls: Sequence[tuple[int, int]]) -> Expression:
        """Return the element of a rolled value: along each axis, the part that moves on and the part that comes back at the start."""
        if not rolls:
            return self.element(v, at)
        (by, axis), *rest = rolls
        size = v.shape[axis]
        total = Expression([])
        for start in (by % size, by % size - size):
            moved = (*at[:axis], at[axis] - start, *at[axis + 1 :])
            within = Expression([Term(brackets=((moved[axis], 0, size),))])
            total = total + within * self._rolled(v, moved, rest)
        return total

    def _elementwise(self, v: Value, at: tuple[Affine, ...]) -> Expression:
        """Return the element of a row that is linear in its moving arguments: each times its slope."""
        total = Expression([])
        for i, slope in _slopes(v, self.moving):
            total = total + self.argument(v, i, at) * self.element(slope, at)
        return total


def _slopes(v: Value, moving: set[Value]) -> list[tuple[int, Value]]:
    """Return the derivatives of an elementwise application in its moving arguments, by position; raise NotAffine if they depend on these
    arguments. Since the whole is linear in the direction, constants that an application adds cancel."""
    places = {i: input_value(-2 - i, v.shape, a.dtype) for i, a in enumerate(v.args) if a is not None and a in moving}
    args = tuple(places.get(i, a) for i, a in enumerate(v.args))
    applied = apply(row_of(v), args, dict(v.attrs))
    slopes = pull({applied: filled(xp, 1, Meta(v.shape, v.dtype))}, list(places.values()))
    if set(places.values()) & set(toposort(slopes)):
        raise NotAffine(f"{v.op} is not linear")
    return list(zip(places, slopes, strict=True))


def with_summed_slopes(value: Value, order: Iterable[Value], moving: set[Value]) -> Value:
    """Return a value that is linear in the direction with each chain of elementwise rows as one slope times its start: cos(y) (v + y v)
    as (cos(y) + cos(y) y) v.

    Expanded, n such rows in a row have up to 2ⁿ terms, all at the same place. Their sum is one array, so it shows less structure than the
    terms do: `matrix_terms` uses it for what has too many terms only.
    """
    slopes: dict[Value, dict[Value, Value | None]] = {}
    for v in order:
        if v not in moving:
            continue
        if v.row is None:
            if v.op != INPUT:
                raise NotAffine(v.op)
            slopes[v] = {v: None}
        elif v.row.elementwise and all(a.dtype == v.dtype for a in v.args if a in moving):
            slopes[v] = _summed_slopes(v, moving, slopes)
        else:
            args = tuple(_combined(a, slopes[a]) if a in moving else a for a in v.args)
            slopes[v] = {apply(v.row, args, dict(v.attrs)): None}
    return _combined(value, slopes[value])


def _summed_slopes(v: Value, moving: set[Value], slopes: Mapping[Value, dict[Value, Value | None]]) -> dict[Value, Value | None]:
    """Return an elementwise application as slopes by the values where its chains start; None is the slope 1."""
    total: dict[Value, Value | None] = {}
    for i, slope in _slopes(v, moving):
        a = v.args[i]
        starts = slopes[a] if a.shape == v.shape else {xp.expand(_combined(a, slopes[a]), shape=v.shape): None}
        for start, before in starts.items():
            new = slope if before is None else xp.mul(slope, before)
            total[start] = xp.add(total[start], new) if start in total else new
    return total


def _combined(v: Value, slopes: Mapping[Value, Value | None]) -> Value:
    terms = [start if slope is None else xp.mul(slope, start) for start, slope in slopes.items()]
    return functools.reduce(xp.add, terms)


def has_structure(v: Value) -> bool:
    """True for a value whose zeros, or whose factors, are known from its row."""
    if not is_linear(v):
        return False
    if v.op in STRUCTURAL or v.op in SOURCES or v.op in ("add", "sub", "neg", "div"):
        return True
    if v.op == "mul":
        return any(a.shape != v.shape or a.op in (INPUT, LITERAL) for a in v.args)
    return v.op == "matmul" and v.ndim == 2 and 2 * v.args[0].shape[-1] <= min(v.shape)

