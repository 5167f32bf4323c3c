"""StructuredMatrix: a Jacobian or Hessian as the sum of its parts, which solves at the cost of its structure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.device_tensor import storage_of
from symgrad.errors import LinAlgError, describe
from symgrad.pytree import flatten, unflatten
from symgrad.structured import display
from symgrad.structured.analysis import Structure, digits_of, rank_bound, structure_of
from symgrad.structured.layout import Layout
from symgrad.structured.part import Part
from symgrad.structured.solvers import Deficient, Dense, NoSolver, Singular, Solver, dense_of, factorised, sparse_of
from symgrad.tensor import Tensor, wrap

_TOLERANCE = 1e-10
"""A solution by parts of low rank is replaced by a dense one if its residual is larger than this share of the right side (float64)."""


class StructuredMatrix:
    """A matrix that keeps its structure, as a constant: it has no gradient.

    `H.structure` names the structure. `H @ v`, `H.solve(g)`, `H.diagonal()`, `H.logdet()` use it; `H.to_dense()` returns the tensor that
    `hessian` or `jacobian` return without `structured=True`. Vectors have the shape of the input, or are flat, and may have more
    dimensions behind for several vectors. Results are tensors if the arguments of the call were, else arrays.
    """

    __array_ufunc__ = None
    is_structured_matrix = True
    """Lets the functions of `symgrad.linalg` call the methods of the same names."""

    def __init__(self, layout: Layout, arrays: Sequence[Any], as_arrays: bool = False) -> None:
        self.layout = layout
        self._given, self._as_arrays = arrays, as_arrays

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        return self.layout.bound([np.asarray(storage_of(a) if isinstance(a, Tensor) else a) for a in self._given])

    @cached_property
    def _structure(self) -> Structure:
        return structure_of(self._parts, *self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return self.layout.rows.size, self.layout.columns.size

    @property
    def dtype(self) -> Any:
        return self.layout.dtype

    @property
    def structure(self) -> str:
        """The structure as text, such as `diagonal + rank 3`."""
        return self.layout.structure.text

    @property
    def nbytes(self) -> int:
        """The memory that the parts take."""
        arrays = [f.array for p in self._parts for f in p.factors] + [f.array for p in self._parts for f in p.lookups]
        return sum({id(a): a.nbytes for a in arrays}.values())

    def __repr__(self) -> str:
        return display.text(self)

    def _repr_html_(self) -> str:
        return display.html(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw which elements may be nonzero, with matplotlib; return the axes."""
        return display.plot(self, ax)

    # products

    def __matmul__(self, v: Any) -> Any:
        """Return the product with a vector, or with several."""
        return self._applied(v, self._times, self.layout.columns, self.layout.rows, "the vector of a product")

    matvec = matmul = __matmul__

    @property
    def T(self) -> StructuredMatrix:
        """The transpose."""
        layout = self.layout
        turned = Layout(layout.columns, layout.rows, tuple(p.transposed() for p in layout.parts), layout.dtype, layout.reason)
        return StructuredMatrix(turned, self._given, self._as_arrays)

    def _times(self, columns: Any) -> Any:
        out = np.zeros((self.shape[0], columns.shape[1]), np.result_type(columns, self.dtype))
        for p in self._parts:
            if not p.is_zero:
                p.matvec(columns, out)
        return out

    def _applied(self, given: Any, function: Callable[[Any], Any], side: Any, result: Any, name: str) -> Any:
        columns, extra = side.stacked(given, lambda x: storage_of(x) if isinstance(x, Tensor) else x, name)
        if columns.dtype.kind not in "biufV":
            raise TypeError(f"{name} must have real numbers, got {describe(given)}")
        columns = columns.astype(np.result_type(columns, self.dtype), copy=False)
        flat = hasattr(given, "shape") and (len(side.shapes) > 1 or tuple(given.shape[: len(side.shapes[0])]) != side.shapes[0])
        tensors = not self._as_arrays if not hasattr(given, "shape") else isinstance(given, Tensor)
        found = function(columns)
        return self._returned(result.unstacked(found, extra, flat), tensors)

    def _returned(self, found: Any, tensors: bool | None = None) -> Any:
        """Return an array, or a container of arrays, as tensors or arrays."""
        if not (not self._as_arrays if tensors is None else tensors):
            return found
        if isinstance(found, np.ndarray):
            return wrap(np.ascontiguousarray(found))
        leaves, structure = flatten(found, lambda x: isinstance(x, np.ndarray))
        return unflatten(structure, [wrap(np.ascontiguousarray(x)) for x in leaves])

    # solving

    def solve(self, g: Any) -> Any:
        """Return x of H x = g, at the cost of the structure. Raise LinAlgError if H is singular."""
        self._require_square("solve")
        return self._applied(g, self._solved, self.layout.rows, self.layout.columns, "the right side")

    def _require_square(self, name: str) -> None:
        if self.shape[0] != self.shape[1]:
            raise LinAlgError(f"{name} needs a square matrix, got one with {self.shape[0]} rows and {self.shape[1]} columns")

    def _solved(self, b: Any) -> Any:
        if not b.size:
            return b
        try:
            x = self._solver.solve(b)
            if self._structure.kind in ("low rank", "Kronecker sum") and not self._is_solution(x, b):
                self.__dict__["_solver"] = self._dense_solver()
                x = self._solver.solve(b)
        except Singular as error:
            advice = "Add a multiple of the identity, or use a least-squares solver"
            raise LinAlgError(f"{error}. Its structure is {self.structure}. {advice}") from None
        return x

    def _is_solution(self, x: Any, b: Any) -> bool:
        """True if the residual is small, after a step of refinement that `x` receives if it needs one."""
        for _ in range(2):
            residual = b - self._times(x)
            if np.abs(residual).max(initial=0) <= _TOLERANCE * np.finfo(x.dtype).eps / 2.2e-16 * np.abs(b).max(initial=0):
                return True
            x += self._solver.solve(residual)
        return False

    @cached_property
    def _solver(self) -> Solver:
        rank = rank_bound(self._parts, self.shape[0])
        if rank < self.shape[0]:
            return Deficient(rank)
        try:
            return factorised(self._structure, self.shape[0], self.dtype)
        except (NoSolver, Singular):  # a part of the sum has no inverse: the sum may have one
            return self._dense_solver()

    def _dense_solver(self) -> Solver:
        return Dense.of(dense_of(self._parts, *self.shape, self.dtype))

    def slogdet(self) -> tuple[float, float]:
        """Return the sign of the determinant, and the logarithm of its absolute value."""
        self._require_square("slogdet")
        return self._solver.slogdet()

    def det(self) -> float:
        """Return the determinant."""
        sign, value = self.slogdet()
        return sign * float(np.exp(value))

    def logdet(self) -> float:
        """Return the logarithm of the determinant: -inf if it is 0, NaN if it is negative."""
        sign, value = self.slogdet()
        return value if sign > 0 else -np.inf if sign == 0 else np.nan

    # elements

    def diagonal(self) -> Any:
        """Return the elements on the diagonal, in the shape of the input."""
        self._require_square("diagonal")
        size = self.shape[0]
        result = np.zeros((size, 1), self.dtype)
        for p in self._parts:
            if not p.is_zero:
                _add_diagonal(p, result[:, 0])
        return self._returned(self.layout.columns.unstacked(result, (), False))

    def to_dense(self) -> Any:
        """Return the matrix as a tensor of shape (*output, *input), or for several inputs as one matrix of flattened ones."""
        found = dense_of(self._parts, *self.shape, self.dtype)
        shapes = self.layout.rows.shapes, self.layout.columns.shapes
        if all(len(s) == 1 for s in shapes):
            found = found.reshape((*shapes[0][0], *shapes[1][0]))
        return self._returned(found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return dense_of(self._parts, *self.shape, self.dtype if dtype is None else dtype)

    def to_scipy(self, format: str = "csr") -> Any:
        """Return the matrix as a scipy.sparse array, with flattened rows and columns."""
        return sparse_of(self._parts, *self.shape, self.dtype).asformat(format)

    def to_bcoo(self) -> Any:
        """Return the matrix as jax.experimental.sparse.BCOO, with flattened rows and columns."""
        from symgrad.compiler.backends.xla.sparse import bcoo

        matrix = self.to_scipy("csr").tocoo()
        return bcoo(np.stack([matrix.row, matrix.col], 1), self.shape, matrix.data[:0])(matrix.data)


def _add_diagonal(p: Part, out: Any) -> None:
    """Add the elements of a part on the diagonal to a vector."""
    if p.row == p.column:
        shape = tuple(p.sizes[i] for i in p.rows)
        np.add.at(out, np.broadcast_to(p.numbers(p.row, p.rows), shape), p.product(p.rows))
        return
    joined = _on_diagonal(p, len(out))
    if joined is not None:
        return _add_diagonal(joined, out)
    row, column, values = p.coo()
    hit = row == column
    np.add.at(out, row[hit], values[hit])


def _on_diagonal(p: Part, size: int) -> Part | None:
    """Return the part restricted to equal digits of row and column number, or None if these differ."""
    digits = digits_of([p], size)
    if digits is None:
        return None
    (p,), (rows,), (columns,) = digits.parts, digits.rows, digits.columns
    if any(c in rows and rows.index(c) != n for n, c in enumerate(columns)):
        return None  # rows and columns share labels in different digits
    names = {c: r for r, c in zip(rows, columns, strict=True)}
    factors = []
    for f in p.factors:
        array, labels = f.array, [names.get(i, i) for i in f.labels]
        while len(set(labels)) < len(labels):
            a, b = next((a, b) for b, x in enumerate(labels) for a in range(b) if labels[a] == x)
            array = np.diagonal(array, axis1=a, axis2=b)
            labels = [x for n, x in enumerate(labels) if n not in (a, b)] + [labels[a]]
        factors.append(replace(f, array=array, labels=tuple(labels)))
    return replace(p, column=p.row, factors=tuple(factors))


