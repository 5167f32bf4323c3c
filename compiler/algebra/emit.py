"""Terms of the index normal form as ordinary rows: matmul, mul, sum, reshape, transpose, getitem, diagonal, embed."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence, Set
from fractions import Fraction
from math import prod
from typing import Any, NamedTuple

from symgrad.compiler.algebra.affine import Affine, Label, NotAffine
from symgrad.compiler.algebra.eliminate import box_of
from symgrad.compiler.algebra.product_order import order
from symgrad.compiler.algebra.term import Coefficient, Factor, Term
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Value, literal
from symgrad.ops.promotion import FLOAT32
from symgrad.ops.variants import is_half

Slice = tuple[int, int, int]
Scale = tuple[Coefficient, Sequence[Value]]
"""A coefficient, and values without dimensions."""
_LAST = 2**62
"""The rank of values that are made of no leaf."""


class Operand(NamedTuple):
    """A value with one label for each of its dimensions, all different."""

    value: Value
    labels: tuple[Label, ...]
    rank: int = 0
    """The least position of a leaf that the value is made of: products have the operand of lower rank on the left, so that equal products
    are equal values."""

    @property
    def sizes(self) -> dict[Label, int]:
        return dict(zip(self.labels, self.value.shape, strict=True))


def compute_dtype(dtype: Any) -> Any:
    """Return the dtype in which terms are computed: half precision would round, or overflow in, products that the program never had."""
    return FLOAT32 if is_half(dtype) else dtype


def ranges_of(term: Term) -> dict[Label, tuple[int, int]]:
    """Return the start and stop of each label that a bracket restricts; raise NotAffine for brackets of several labels."""
    if any(len(e.coefficients) > 1 or abs(e.coefficients[0][1]) > 1 for e, _, _ in term.brackets):
        raise NotAffine("a bracket of several labels")
    return {label: (first, last + 1) for label, (first, last) in box_of(term.brackets).items()}


# --- factors


def operand(factor: Factor, ranges: Mapping[Label, tuple[int, int]]) -> Operand:
    """Return a factor with plain labels: fixed places and slices are taken out, split labels get dimensions, equal ones a diagonal."""
    value, at = factor
    value = xp.cast(value, dtype=compute_dtype(value.dtype))
    index: list[int | Slice] = []
    shape: list[int] = []
    labels: list[Label] = []
    for i, n in zip(at, value.shape, strict=True):
        if not i.coefficients:
            index.append(i.constant)
        elif len(i.coefficients) == 1:
            chosen = _slice(i, n, ranges)
            index.append(chosen)
            labels.append(i.labels[0])
            shape.append(len(range(*chosen)))
        else:
            split = _radix(i, n, ranges)
            index.append((0, n, 1))
            labels += split
            shape += [x.size for x in split]
    value = _taken(value, index)
    leaf = factor[0].args[0] if factor[0].op == "conj" else factor[0]
    rank = leaf.attrs["index"] if leaf.op == INPUT else _LAST
    return _without_repeats(xp.reshape(value, shape=tuple(shape)), labels, rank)


def _taken(value: Value, index: Sequence[int | Slice]) -> Value:
    """Return value[index]; dimensions of size 1 that are fixed at 0 are left to a reshape."""
    kept = [(0, 1, 1) if n == 1 and i == 0 else i for i, n in zip(index, value.shape, strict=True)]
    if all(i == (0, n, 1) for i, n in zip(kept, value.shape, strict=True)):
        return value
    return xp.getitem(value, index=tuple(kept))


def _slice(i: Affine, n: int, ranges: Mapping[Label, tuple[int, int]]) -> Slice:
    ((label, k),) = i.coefficients
    start, stop = ranges.get(label, (0, label.size))
    first, last = i.constant + k * start, i.constant + k * (stop - 1)
    if k < 0 or first < 0 or last >= n:
        raise NotAffine("not a slice with a positive step")
    return first, last + 1, k


def _radix(i: Affine, n: int, ranges: Mapping[Label, tuple[int, int]]) -> list[Label]:
    """Return the labels of `(i n₂ + j) n₃ + k` from left to right; raise NotAffine if they do not fill the dimension."""
    parts = sorted(i.coefficients, key=lambda part: -part[1])
    expected = n
    for label, k in parts:
        if label in ranges or expected != k * label.size:
            raise NotAffine("indices that do not fill a dimension")
        expected = k
    if i.constant or expected != 1:
        raise NotAffine("indices that do not fill a dimension")
    return [label for label, _ in parts]


def _without_repeats(value: Value, labels: list[Label], rank: int) -> Operand:
    while len(set(labels)) < len(labels):
        a, b = next((a, b) for b, x in enumerate(labels) for a in range(b) if labels[a] is x)
        value = xp.diagonal(value, axis1=a, axis2=b, offset=0)
        labels = [x for n, x in enumerate(labels) if n not in (a, b)] + [labels[a]]
    return Operand(value, tuple(labels), rank)


# --- products


def arrange(x: Operand, labels: Sequence[Label]) -> Value:
    """Return the operand with its dimensions in the order of `labels`, and size 1 along those that it does not have."""
    have = [label for label in labels if label in x.labels]
    value, sizes = x.value, x.sizes
    if have != list(x.labels):
        value = xp.permute(value, axes=tuple(x.labels.index(label) for label in have))
    missing_first = have == list(labels)[len(labels) - len(have) :]  # broadcasting adds them
    return value if missing_first else xp.reshape(value, shape=tuple(sizes.get(label, 1) for label in labels))


def sum_out(x: Operand, kept: Set[Label]) -> Operand:
    """Return the operand summed over the labels that are not kept."""
    gone = tuple(n for n, label in enumerate(x.labels) if label not in kept)
    if not gone:
        return x
    labels = tuple(label for label in x.labels if label in kept)
    total = xp.cast(xp.sum(x.value, axis=gone, keepdims=False), dtype=x.value.dtype)  # sums of integers are wider, and wrap around here
    return Operand(total, labels, x.rank)


def multiply(x: Operand, y: Operand, kept: Set[Label], wanted: Sequence[Label] = ()) -> Operand:
    """Return the product of two operands, summed over shared labels that are not kept; `wanted` is the order of the result's labels, if
    it matters."""
    if y.rank < x.rank:
        x, y = y, x
    left, right = _without(x.labels, y.labels), _without(y.labels, x.labels)
    shared = _without(x.labels, left)
    inner = _without(shared, kept)
    batch = _without(shared, inner)
    if len(x.labels) == 1 and x.labels == y.labels and inner:
        return Operand(xp.matmul(x.value, y.value), (), x.rank)
    if not inner or not (left or right):
        alike = x.labels == y.labels  # summed in place: XLA is slow to multiply what it has to transpose
        labels = list(x.labels) if alike else _ordered([*batch, *left, *right], wanted) + inner
        return sum_out(Operand(xp.mul(arrange(x, labels), arrange(y, labels)), tuple(labels), x.rank), kept)
    if left and right and _begins_with(wanted, right, left):
        x, y, left, right = y, x, right, left
    return _matmul(x, y, batch, left, inner, right)


def _begins_with(wanted: Sequence[Label], right: list[Label], left: list[Label]) -> bool:
    """True if, of all these labels, the result should have those of `right` first."""
    return [label for label in wanted if label in left or label in right][: len(right)] == right


def _without(labels: Sequence[Label], others: Container[Label]) -> list[Label]:
    return [label for label in labels if label not in others]


def _ordered(labels: Sequence[Label], wanted: Sequence[Label]) -> list[Label]:
    return [label for label in wanted if label in labels] + [label for label in labels if label not in wanted]


def _matmul(x: Operand, y: Operand, batch: list[Label], left: list[Label], inner: list[Label], right: list[Label]) -> Operand:
    """Return a matrix product of the groups, each flattened to one dimension."""
    rank = min(x.rank, y.rank)
    if not batch and not left:
        return Operand(_matvec(y, x, inner, right), tuple(right), rank)
    if not batch and not right:
        return Operand(_matvec(x, y, inner, left), tuple(left), rank)
    sizes = x.sizes | y.sizes
    lead = tuple(sizes[label] for label in batch)
    rows, summed, columns = (prod(sizes[label] for label in group) for group in (left, inner, right))
    a = xp.reshape(arrange(x, [*batch, *left, *inner]), shape=(*lead, rows, summed))
    b = xp.reshape(arrange(y, [*batch, *inner, *right]), shape=(*lead, summed, columns))
    labels = (*batch, *left, *right)
    return Operand(xp.reshape(xp.matmul(a, b), shape=tuple(sizes[label] for label in labels)), labels, rank)


def _matvec(matrix: Operand, vector: Operand, inner: Sequence[Label], free: Sequence[Label]) -> Value:
    """Return matrix @ vector, or vector @ matrix if the summed dimensions of the matrix come first."""
    inner = [label for label in matrix.labels if label in inner]
    rows, columns = (prod(matrix.sizes[label] for label in group) for group in (free, inner))
    v = xp.reshape(arrange(vector, inner), shape=(columns,))
    if matrix.labels[0] in inner and matrix.labels[-1] not in inner:
        found = xp.matmul(v, xp.reshape(arrange(matrix, [*inner, *free]), shape=(columns, rows)))
    else:
        found = xp.matmul(xp.reshape(arrange(matrix, [*free, *inner]), shape=(rows, columns)), v)
    return xp.reshape(found, shape=tuple(matrix.sizes[label] for label in free))


def scaled(x: Value, coefficient: Coefficient, scalars: Sequence[Value] = ()) -> Value:
    """Return a value times a coefficient and values without dimensions."""
    for s in scalars:
        x = xp.mul(x, s) if x.shape else xp.mul(s, x)
    if coefficient == 1:
        return x
    return xp.neg(x) if coefficient == -1 else xp.mul(x, number_value(coefficient, x.dtype))


def number_value(coefficient: Coefficient, dtype: Any) -> Value:
    """Return a coefficient as a literal."""
    if isinstance(coefficient, Fraction):
        return literal(int(coefficient) if coefficient.denominator == 1 else float(coefficient), dtype)
    return literal(coefficient, dtype)


def contract_operands(
    operands: Sequence[Operand], coefficient: Coefficient, kept: Set[Label], wanted: Sequence[Label], dtype: Any
) -> Operand:
    """Return the product of operands and a coefficient, summed over the labels that are not kept."""
    operands = [sum_out(x, kept | _others(operands, n)) for n, x in enumerate(operands)]
    scalars = [x.value for x in operands if not x.labels]
    rest = [x for x in operands if x.labels]
    if not rest:
        first, *more = scalars or [number_value(Fraction(1), dtype)]
        return Operand(scaled(first, coefficient, more), ())
    factor = _joined(coefficient, scalars)
    if len(rest) == 1:
        return _scaled(rest[0], factor)
    return _multiplied_and_scaled(*_last_two(rest, kept), factor, kept, wanted)


def _last_two(operands: Sequence[Operand], kept: Set[Label]) -> tuple[Operand, Operand]:
    """Multiply operands in the cheapest order until two are left, and return these."""
    rest = list(operands)
    sizes = {label: n for x in rest for label, n in x.sizes.items()}
    path = order([frozenset(x.labels) for x in rest], sizes, kept)
    for i, j in path[:-1]:
        x, y = rest[i], rest[j]
        rest = [z for n, z in enumerate(rest) if n not in (i, j)]
        rest.append(multiply(x, y, kept | _others(rest)))
    x, y = rest
    return x, y


def _multiplied_and_scaled(x: Operand, y: Operand, factor: Scale, kept: Set[Label], wanted: Sequence[Label]) -> Operand:
    """Return the product of two operands and a factor, which multiplies where there are the fewest elements."""
    sizes = x.sizes | y.sizes
    result_size = prod(sizes[label] for label in {*x.labels, *y.labels} & kept)
    if min(x.value.size, y.value.size) >= result_size:
        return _scaled(multiply(x, y, kept, wanted), factor)
    if x.value.size <= y.value.size:
        return multiply(_scaled(x, factor), y, kept, wanted)
    return multiply(x, _scaled(y, factor), kept, wanted)


def _scaled(x: Operand, factor: Scale) -> Operand:
    return x._replace(value=scaled(x.value, *factor))


def _joined(coefficient: Coefficient, scalars: Sequence[Value]) -> Scale:
    """Return the same factor with at most one multiplication left: scalars are multiplied with each other, and with the coefficient."""
    if not scalars:
        return coefficient, ()
    first, *more = scalars
    return Fraction(1), [scaled(first, coefficient, more)]


def _others(operands: Sequence[Operand], but: int | None = None) -> frozenset[Label]:
    return frozenset(label for n, x in enumerate(operands) if n != but for label in x.labels)
