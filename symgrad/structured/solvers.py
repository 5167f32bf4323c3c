"""Solvers for each kind of structure. `factorised` returns one, which solves and has sign and logarithm of the determinant."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, Protocol

import numpy as np

from symgrad.errors import LinAlgError
from symgrad.structured.analysis import DIAGONAL, Digits, Structure, base_structure, rank_of
from symgrad.structured.part import Factor, Labels, Part, Place, is_injective


class Solver(Protocol):
    def solve(self, b: Any) -> Any:
        """Return H⁻¹ b for the columns of b."""

    def slogdet(self) -> tuple[float, float]:
        """Return the sign of the determinant and the logarithm of its absolute value."""


class Singular(LinAlgError):
    """The matrix has no inverse, at least not in these numbers."""


def factorised(structure: Structure, size: int, dtype: Any) -> Solver:
    """Return a solver for a square matrix."""
    if structure.kind == "low rank":
        return Woodbury(structure, size, dtype)
    solver: Solver = _SOLVERS[structure.kind](structure, size, dtype)
    return solver


def dense_of(parts: Sequence[Part], rows: int, columns: int, dtype: Any) -> Any:
    """Return the sum of the parts as a matrix."""
    result = np.zeros((rows, columns), dtype)
    for p in parts:
        if not p.is_zero:
            p.add_to(result)
    return result


def checked(x: Any, b: Any, norm: float) -> Any:
    """Return x, a solution for b with a matrix of this norm; raise Singular if it is so large that the matrix is singular in these
    numbers."""
    largest = float(np.max(np.abs(x), initial=0))
    if not np.isfinite(largest):
        raise Singular("the matrix is singular, or has elements that are not finite")
    scale = float(np.max(np.abs(b), initial=0))
    if largest * norm * np.finfo(x.dtype).eps > scale > 0:
        raise Singular("the matrix is singular in its floating-point numbers: no digit of the solution would be right")
    return x


class Zero:
    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self.size = size

    def solve(self, b: Any) -> Any:
        if self.size:
            raise Singular("the matrix is zero")
        return b

    def slogdet(self) -> tuple[float, float]:
        return (0.0, -np.inf) if self.size else (1.0, 0.0)


class Deficient:
    """A matrix whose form bounds its rank below its size: rounding may hide that it has no inverse."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def solve(self, b: Any) -> Any:
        raise Singular(f"the matrix is singular: its rank is at most {self.rank}")

    def slogdet(self) -> tuple[float, float]:
        return 0.0, -np.inf


def diagonal_vector(parts: Sequence[Part], size: int, dtype: Any) -> Any:
    """Return the sum of all parts whose places are equal as a vector."""
    result = np.zeros(size, dtype)
    for p in parts:
        if p.row == p.column:
            shape = tuple(p.sizes[i] for i in p.rows)
            np.add.at(result, np.broadcast_to(p.numbers(p.row, p.rows), shape), p.product(p.rows))
    return result


class Diagonal:
    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self.values = diagonal_vector(structure.base, size, dtype)

    def solve(self, b: Any) -> Any:
        if not self.values.all():
            raise Singular(f"the matrix is singular: element {int(np.argmin(self.values != 0))} of its diagonal is 0")
        return b / self.values[:, None]

    def slogdet(self) -> tuple[float, float]:
        return _slogdet_of(self.values)


def _slogdet_of(values: Any) -> tuple[float, float]:
    with np.errstate(divide="ignore"):
        return float(np.prod(np.sign(values))), float(np.sum(np.log(np.abs(values))))


class Banded:
    """LU of a band matrix, by LAPACK's gbtrf."""

    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        from scipy.linalg import get_lapack_funcs

        self.below, self.above = structure.band
        band = np.zeros((2 * self.below + self.above + 1, size), dtype)
        for p in structure.base:
            row, column, values = p.coo()
            np.add.at(band, (self.below + self.above + row - column, column), values)
        self.norm = float(np.abs(band).sum(0).max(initial=0))
        factor, self._back = get_lapack_funcs(("gbtrf", "gbtrs"), (band,))
        self.lu, self.pivots, self.info = factor(band, self.below, self.above)

    def solve(self, b: Any) -> Any:
        if self.info > 0:
            raise Singular(f"the matrix is singular: pivot {self.info - 1} of its LU factorisation is 0")
        found, _ = self._back(self.lu, self.below, self.above, b, self.pivots)
        return checked(found, b, self.norm)

    def slogdet(self) -> tuple[float, float]:
        sign, value = _slogdet_of(self.lu[self.below + self.above])
        return sign * _pivot_sign(self.pivots), value


def _pivot_sign(pivots: Any) -> int:
    return -1 if np.count_nonzero(pivots != np.arange(len(pivots))) % 2 else 1


class Dense:
    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self._factor(dense_of(structure.base, size, size, dtype))

    def _factor(self, matrix: Any) -> None:
        from scipy.linalg import get_lapack_funcs

        self.norm = float(np.abs(matrix).sum(1).max(initial=0))
        factor, self._back = get_lapack_funcs(("getrf", "getrs"), (matrix,))
        self.lu, self.pivots, self.info = factor(matrix)

    @staticmethod
    def of(matrix: Any) -> Dense:
        found = Dense.__new__(Dense)
        found._factor(matrix)
        return found

    def solve(self, b: Any) -> Any:
        if self.info > 0:
            raise Singular(f"the matrix is singular: pivot {self.info - 1} of its LU factorisation is 0")
        found, _ = self._back(self.lu, self.pivots, b)
        return checked(found, b, self.norm)

    def slogdet(self) -> tuple[float, float]:
        sign, value = _slogdet_of(np.diagonal(self.lu))
        return sign * _pivot_sign(self.pivots), value


class Sparse:
    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        from scipy.sparse.linalg import splu

        matrix = sparse_of(structure.base, size, size, dtype).tocsc()
        self.norm = float(np.abs(matrix).sum(1).max(initial=0)) if matrix.nnz else 0.0
        self.singular = matrix.nnz == 0
        if not self.singular:
            try:
                self.lu = splu(matrix)
            except RuntimeError:  # exactly singular
                self.singular = True

    def solve(self, b: Any) -> Any:
        if self.singular:
            raise Singular("the matrix is singular: a pivot of its sparse LU factorisation is 0")
        return checked(self.lu.solve(np.ascontiguousarray(b)), b, self.norm)

    def slogdet(self) -> tuple[float, float]:
        if self.singular:
            return 0.0, -np.inf
        signs, values = zip(*(_slogdet_of(x.diagonal()) for x in (self.lu.L, self.lu.U)), strict=True)
        return prod(signs) * _parity(self.lu.perm_r) * _parity(self.lu.perm_c), sum(values)


def _parity(permutation: Any) -> int:
    seen, sign = np.zeros(len(permutation), bool), 1
    for start in range(len(permutation)):
        if seen[start]:
            continue
        length, i = 0, start
        while not seen[i]:
            seen[i], i, length = True, permutation[i], length + 1
        sign *= -1 if length % 2 == 0 else 1
    return sign


def sparse_of(parts: Sequence[Part], rows: int, columns: int, dtype: Any) -> Any:
    """Return the parts as a scipy.sparse array in COO format; elements that occur twice are added when it is converted."""
    from scipy.sparse import coo_array

    found = [p.coo() for p in parts if not p.is_zero]
    if not found:
        return coo_array((rows, columns), dtype=dtype)
    row, column, values = (np.concatenate(each) for each in zip(*found, strict=True))
    return coo_array((values.astype(dtype), (row, column)), shape=(rows, columns))


# --- digits


def _filled(digits: Digits, structure: Structure, size: int, dtype: Any) -> list[Part]:
    """Return the parts with the diagonal that stands for several of them."""
    return [_with_diagonal(p, structure, size, dtype) for p in digits.parts]


def _with_diagonal(p: Part, structure: Structure, size: int, dtype: Any) -> Part:
    if not any(f.array is DIAGONAL for f in p.factors):
        return p
    (f,) = p.factors
    values = diagonal_vector(structure.base, size, dtype).reshape([p.sizes[i] for i in f.labels])
    return Part(p.sizes, p.row, p.column, (Factor(values, f.labels),))


class Blocks:
    """One block for each value of the digits in which rows and columns agree; one block in all if none depends on them."""

    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        digits = structure.digits
        assert digits is not None
        self.digits = digits
        self.varying, self.constant = digits.varying, tuple(d for d in digits.linked if d not in digits.varying)
        self.inner = tuple(d for d in range(len(digits.sizes)) if d not in digits.linked)
        count, b = prod(digits.sizes[d] for d in self.varying), digits.block
        blocks = np.zeros((count, b, b), dtype)
        for p, rows, columns in zip(_filled(digits, structure, size, dtype), digits.rows, digits.columns, strict=True):
            self._add(p, rows, columns, blocks)
        self.blocks = blocks
        self.norms = np.abs(blocks).sum(2).max(1)

    def _add(self, p: Part, rows: Labels, columns: Labels, blocks: Any) -> None:
        b = blocks.shape[-1]
        steps = dict.fromkeys(p.placed, 0)
        for chosen, labels, width in ((self.varying, rows, b * b), (self.inner, rows, b), (self.inner, columns, 1)):
            for d in reversed(chosen):
                steps[labels[d]] += width
                width *= self.digits.sizes[d]
        labels = tuple(i for i in p.placed if steps[i])
        assert is_injective([(steps[i], p.sizes[i]) for i in labels])
        place = Place(0, tuple((i, steps[i]) for i in labels))
        Part(p.sizes, place, Place(), p.factors, coefficient=p.coefficient).add_to(blocks.reshape(-1, 1))

    def solve(self, b: Any) -> Any:
        sizes = (*self.digits.sizes, b.shape[1])
        order = (*self.varying, *self.inner, *self.constant, len(self.digits.sizes))
        count, block, _ = self.blocks.shape
        right = b.reshape(sizes).transpose(order).reshape(count, block, -1)
        found = self._solved(right)
        back = [sizes[d] for d in order]
        return found.reshape(back).transpose(np.argsort(order)).reshape(b.shape)

    def _solved(self, right: Any) -> Any:
        try:
            found = np.linalg.solve(self.blocks, right)
        except np.linalg.LinAlgError:
            raise Singular("the matrix is singular: a block of it has no inverse") from None
        sizes, given = np.abs(found).max((1, 2), initial=0), np.abs(right).max((1, 2), initial=0)
        if not np.isfinite(sizes).all() or ((sizes * self.norms * np.finfo(found.dtype).eps > given) & (given > 0)).any():
            raise Singular("the matrix is singular: a block of it has no inverse in its floating-point numbers")
        return found

    def slogdet(self) -> tuple[float, float]:
        signs, values = np.linalg.slogdet(self.blocks)
        times = prod(self.digits.sizes[d] for d in self.constant)
        return float(np.prod(signs)) ** times, float(np.sum(values)) * times


def kronecker_factors(structure: Structure, size: int, dtype: Any) -> list[list[Any]]:
    """Return, for each part, its matrix for each group of digits."""
    digits = structure.digits
    assert digits is not None
    found = []
    for p, rows, columns in zip(_filled(digits, structure, size, dtype), digits.rows, digits.columns, strict=True):
        matrices, left = [], list(p.factors)
        for n, group in enumerate(structure.groups):
            mine = {x for d in group for x in (rows[d], columns[d])}
            taken = _closure(mine, left)
            left = [f for f in left if not any(f is g for g in taken)]
            width = prod(digits.sizes[d] for d in group)
            row, column = (_digit_place(labels, group, digits) for labels in (rows, columns))
            matrix = np.zeros((width, width), dtype)
            last = n == len(structure.groups) - 1
            Part(p.sizes, row, column, tuple(taken + (left if last else []))).add_to(matrix)
            matrices.append(matrix)
        matrices[0] = matrices[0] * np.asarray(p.coefficient, dtype)
        found.append(matrices)
    return found


def _closure(labels: set[int], factors: list[Factor]) -> list[Factor]:
    """Return the factors that have one of the labels, or share labels with those that do."""
    taken: list[Factor] = []
    while True:
        more = [f for f in factors if set(f.labels) & labels and not any(f is g for g in taken)]
        if not more:
            return taken
        taken += more
        labels = labels.union(*(f.labels for f in more))


def _digit_place(labels: Labels, group: Sequence[int], digits: Digits) -> Place:
    steps, width = [], 1
    for d in reversed(group):
        steps.append((labels[d], width))
        width *= digits.sizes[d]
    return Place(0, tuple(steps))


class _Reordered:
    """Right sides as arrays with one dimension for each group of digits."""

    def __init__(self, structure: Structure) -> None:
        assert structure.digits is not None
        self.sizes, self.groups = structure.digits.sizes, structure.groups
        self.order = tuple(d for g in self.groups for d in g)
        self.widths = tuple(prod(self.sizes[d] for d in g) for g in self.groups)

    def forward(self, b: Any) -> Any:
        return b.reshape(*self.sizes, -1).transpose(*self.order, len(self.sizes)).reshape(*self.widths, -1)

    def back(self, x: Any, shape: tuple[int, ...]) -> Any:
        found = x.reshape(*(self.sizes[d] for d in self.order), -1)
        return found.transpose(*np.argsort(self.order), len(self.sizes)).reshape(shape)


class Kronecker:
    """A ⊗ B ⊗ ...: one solve for each factor."""

    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self.order = _Reordered(structure)
        (matrices,) = kronecker_factors(structure, size, dtype)
        self.size, self.factors = size, [Dense.of(m) for m in matrices]

    def solve(self, b: Any) -> Any:
        x = self.order.forward(b)
        for n, factor in enumerate(self.factors):
            moved = np.moveaxis(x, n, 0)
            found = factor.solve(np.ascontiguousarray(moved).reshape(moved.shape[0], -1))
            x = np.moveaxis(found.reshape(moved.shape), 0, n)
        return self.order.back(x, b.shape)

    def slogdet(self) -> tuple[float, float]:
        each = [(*f.slogdet(), self.size // len(f.lu)) for f in self.factors]
        return prod(sign**times for sign, _, times in each), sum(value * times for _, value, times in each)


class KroneckerSum:
    """A ⊗ B + C ⊗ D as a Sylvester equation: A X B' + C X D' = R."""

    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self.order, self.dtype = _Reordered(structure), dtype
        first, second = kronecker_factors(structure, size, dtype)
        for (a, b), (c, d) in ((first, second), (second, first)):
            left, right = Dense.of(c), Dense.of(b)
            try:
                self.a, self.d = left.solve(a), right.solve(d).T
            except Singular:
                continue
            self.left, self.right = left, right
            return
        raise NoSolver("neither term has a factor with an inverse on each side")

    def solve(self, b: Any) -> Any:
        from scipy.linalg import solve_sylvester

        given = self.order.forward(b)
        columns = []
        for k in range(given.shape[2]):
            r = self.right.solve(np.ascontiguousarray(self.left.solve(np.ascontiguousarray(given[:, :, k])).T)).T
            columns.append(solve_sylvester(self.a, self.d, r))
        x = np.stack(columns, 2).astype(self.dtype) if columns else given
        found = self.order.back(x, b.shape)
        return checked(found, b, 1.0)

    def slogdet(self) -> tuple[float, float]:
        sums = np.add.outer(np.linalg.eigvals(self.a), np.linalg.eigvals(self.d))
        with np.errstate(divide="ignore"):
            values = np.log(sums.astype(complex))
        total = values.sum()
        sign = float(np.sign(np.cos(total.imag)))
        found = [(*f.slogdet(), sums.size // len(f.lu)) for f in (self.left, self.right)]
        return sign * prod(s**times for s, _, times in found), float(total.real) + sum(v * times for _, v, times in found)


class NoSolver(Exception):  # the caller takes the next kind
    """This kind of solver does not apply to these numbers."""


class Woodbury:
    """(B + U C V')⁻¹ = B⁻¹ - B⁻¹ U (C⁻¹ + V' B⁻¹ U)⁻¹ V' B⁻¹, where C is diagonal: written without C⁻¹, which may not exist."""

    def __init__(self, structure: Structure, size: int, dtype: Any) -> None:
        self.base = factorised(base_structure(structure.base, size, size), size, dtype)
        left = [p.side(p.row, size) * p.middle() for p in structure.low_rank]
        self.left = np.concatenate(left, 1).astype(dtype)
        self.right = np.concatenate([p.side(p.column, size) for p in structure.low_rank], 1).astype(dtype)
        self.solved = self.base.solve(self.left)  # Singular: the caller takes the next kind
        self.inner = Dense.of(np.eye(sum(map(rank_of, structure.low_rank)), dtype=dtype) + self.right.T @ self.solved)

    def solve(self, b: Any) -> Any:
        x = self.base.solve(b)
        return x - self.solved @ self.inner.solve(np.ascontiguousarray(self.right.T @ x))

    def slogdet(self) -> tuple[float, float]:
        signs, values = zip(self.base.slogdet(), self.inner.slogdet(), strict=True)
        return reduce(lambda s, t: s * t, signs), sum(values)


_SOLVERS: dict[str, Any] = {
    "zero": Zero, "diagonal": Diagonal, "banded": Banded, "blocks": Blocks, "Kronecker": Kronecker, "Kronecker sum": KroneckerSum,
    "sparse": Sparse, "dense": Dense,
}  # fmt: skip
