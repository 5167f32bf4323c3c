"""Matrix notation, for graphs of scalars, vectors (columns) and matrices.

A value is represented as a scalar expression of *atoms*: symbols that stand for matrices of the value's shape. Elementwise rows are scalar
algebra on these expressions, so that elementwise regions merge; where a matrix is needed (in a product, in a result) the expression is
converted to one: sums of terms, Hadamard products of factors, powers, and functions applied to every element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from symgrad.compiler.ir.graph import LITERAL, OUTPUT, Value, type_text
from symgrad.compiler.symbolic import to_sympy
from symgrad.compiler.symbolic.notations import matrix_linear
from symgrad.compiler.symbolic.notations.base import Lowering
from symgrad.compiler.symbolic.notations.matrix_algebra import (
    Det,
    Elementwise,
    Entry,
    Rows,
    SymmetricSymbol,
    Total,
    added,
    inverse,
    outer,
    parted,
    scaled,
    times,
    transposed,
)
from symgrad.compiler.symbolic.notations.matrix_shorter import shorter_matrix
from symgrad.compiler.symbolic.program import FormulaProgram, LoweringRequest
from symgrad.compiler.symbolic.shorter import shorter
from symgrad.errors import FormulaError


def lower(job: LoweringRequest) -> FormulaProgram:
    """Return a program with tensors as matrix symbols: products, transposes, Hadamard products, traces."""
    if any(len(shape) > 2 for shape in job.shapes):
        raise FormulaError("matrix notation is for at most two dimensions: a derivative here has more; try 'index'")
    return Matrices(job).program()


class Matrices(Lowering):
    """The lowering of one graph: the scalar expression of each value, and the matrices behind the atoms."""

    notation = "matrix"

    def __init__(self, job: LoweringRequest) -> None:
        super().__init__(job)
        self.matrix_of: dict[Any, Any] = {}
        self.order: dict[Any, int] = {}
        """The positions of atoms, in the order in which they were made."""
        self.atom_of: dict[Any, Any] = {}
        self.scalar_of: dict[Any, tuple[Any, tuple[int, ...]]] = {}
        """The scalar expression and shape that a matrix expression was written from."""
        self.sums: set[Any] = set()
        """Sums as they appear in the program."""

    def add_input(self, i: int, x: Value, label: str) -> Any:
        if isinstance(x.dtype, tuple) or len(x.shape) > 2:
            raise FormulaError(f"matrix notation is for at most two dimensions: {label} is {type_text(x)}; try 'index'")
        (symbol,) = self.name(x, f"x{i}")
        self.labels[symbol] = label
        return symbol

    def name(self, v: Value, name: str) -> list[Any]:
        matrix = SymmetricSymbol if v in self.job.symmetric_inputs else sp.MatrixSymbol
        symbol = matrix(name, *_size(v.shape)) if v.shape else to_sympy.symbol(name, v.dtype)
        self.known[v] = to_sympy.truth(self.atom(symbol, v.dtype) if v.shape else symbol, v.dtype)
        self.symbols[v] = (symbol,)
        return [symbol]

    def line_expression(self, v: Value, e: Any) -> Any:
        return self.matrix(e, v.shape) if v.shape else e

    def shortened(self, e: Any) -> Any:
        if not getattr(e, "is_Matrix", False):
            return shorter(e)
        return e if isinstance(e, sp.MatMul) and parted(e)[0].is_number else shorter_matrix(e)

    def measured(self, v: Value, e: Any) -> tuple[int, int]:
        return super().measured(v, e) if isinstance(e, sp.Expr) or self.atoms(e) else (0, 0)

    def finish(self, n: int, v: Value, directions: tuple[Value, ...]) -> Any:
        """Return the matrix of a derivative. The direction's index comes first: for M with v = M g, the transpose, unless it is
        symmetric."""
        (direction,) = self.symbols[directions[0]]
        matrix = matrix_linear.coefficient(self, self.known[v], direction, v.shape)
        return matrix if n in self.job.symmetric else transposed(matrix)

    def atom(self, matrix: Any, dtype: Any) -> Any:
        """Return the symbol that stands for a matrix in scalar expressions, one per matrix."""
        if matrix not in self.atom_of:
            atom = to_sympy.symbol(f"m{len(self.atom_of)}", dtype)
            self.atom_of[matrix], self.matrix_of[atom] = atom, matrix
            self.order[atom] = len(self.order)
        return self.atom_of[matrix]

    def atoms(self, e: Any) -> list[Any]:
        return sorted(e.free_symbols & self.matrix_of.keys(), key=self.order.__getitem__)

    def lower(self, v: Value) -> Any:
        e = self.expression(v)
        if isinstance(e, sp.Add) and v.op in ("add", "sub") and -e not in self.sums:
            self.sums.add(e)
        return e

    def expression(self, v: Value) -> Any:
        if v.op == LITERAL:
            return to_sympy.literal(v)
        if v.row is not None and v.row.elementwise and len(v.shape) <= 2:
            return self.recognised(to_sympy.elementwise(v, [self.spread(a, v.shape) for a in v.args]), v)
        whole = v.args[0] if v.op == OUTPUT else v
        lowering = _LOWERINGS.get(whole.op if v.op != OUTPUT else (whole.op, v.attrs["index"]))
        if lowering is None or len(v.shape) > 2 or any(len(a.shape) > 2 for a in whole.args):
            given = ", ".join(type_text(a) for a in whole.args if a is not None)
            raise FormulaError(f"matrix notation has no form for {whole.op} of {given}; try 'index'")
        return lowering(self, v, *whole.args)

    def recognised(self, e: Any, v: Value) -> Any:
        """Recognize exp(log_softmax(Z)) as softmax(Z)."""
        matrix = self.matrix_of.get(e.args[0]) if isinstance(e, sp.exp) else None
        if isinstance(matrix, Rows) and matrix.name == "log_softmax":
            return self.atom(Rows(sp.Symbol("softmax"), matrix.args[1]), v.dtype)
        return e

    def spread(self, v: Value, shape: tuple[int, ...]) -> Any:
        """Return the expression of `v` broadcast to `shape`: a matrix is repeated by a product with ones."""
        e = self.known[v]
        if _size(v.shape) == _size(shape) or not v.shape or not self.atoms(e):
            return e
        given = v.shape if len(v.shape) == len(shape) else (1, *v.shape)
        scale, matrix = self.split(v)
        if len(v.shape) == 1 and len(shape) == 2:
            matrix = transposed(matrix)
        if given[0] != shape[0]:
            matrix = times(sp.OneMatrix(shape[0], 1), matrix)
        if len(shape) == 2 and given[1] != shape[1]:
            matrix = times(matrix, sp.OneMatrix(1, shape[1]))
        return scale * self.atom(matrix, v.dtype)

    def matrix(self, e: Any, shape: tuple[int, ...]) -> Any:
        """Convert a scalar expression of atoms to a matrix expression."""
        matrix = self.written(e, shape)
        if e not in self.matrix_of:
            self.scalar_of[matrix] = e, shape
        return matrix

    def written(self, e: Any, shape: tuple[int, ...]) -> Any:
        size = _size(shape)
        if not self.atoms(e):
            return sp.ZeroMatrix(*size) if e == 0 else scaled(e, sp.OneMatrix(*size))
        if e in self.matrix_of:
            return self.matrix_of[e]
        if isinstance(e, sp.Add):
            content, rest = to_sympy.primitive(e)
            if content != 1:
                return scaled(content, self.matrix(rest, shape))
            return added([self.matrix(term, shape) for term in e.args])
        if isinstance(e, sp.Mul):
            factors = [f for f in e.args if self.atoms(f)]
            scale = sp.Mul(*(f for f in e.args if not self.atoms(f)))
            return scaled(scale, self.hadamard(factors, shape))
        if isinstance(e, sp.Pow) and e.exp.is_Integer and e.exp > 0:
            return sp.HadamardPower(self.matrix(e.base, shape), e.exp)
        return self.applied(e)

    def hadamard(self, factors: list[Any], shape: tuple[int, ...]) -> Any:
        divisors = [f for f in factors if isinstance(f, sp.Pow) and f.exp.could_extract_minus_sign()]
        if divisors:
            return self.applied(sp.Mul(*factors))
        matrices = outer([self.matrix(f, shape) for f in factors])
        return matrices[0] if len(matrices) == 1 else sp.HadamardProduct(*matrices)

    def applied(self, e: Any) -> Any:
        atoms = self.atoms(e)
        return Elementwise(sp.Lambda(tuple(atoms), e), *(self.matrix_of[a] for a in atoms))

    def split(self, v: Value) -> tuple[Any, Any]:
        """Return the scalar factor of a value, and the rest as a matrix: 2 (A - B) into 2 and A - B."""
        e = self.known[v]
        if not isinstance(e, sp.Expr):
            raise FormulaError(f"matrix notation has no form for truth values that are moved or repeated: {type_text(v)}; try 'index'")
        if isinstance(e, sp.Add):
            scale, rest = to_sympy.primitive(e)
            if rest not in self.sums and -rest in self.sums:  # the same difference, negated
                scale, rest = -scale, -rest
        else:
            factors = e.args if isinstance(e, sp.Mul) else (e,)
            scale = sp.Mul(*(f for f in factors if not self.atoms(f)))
            rest = sp.Mul(*(f for f in factors if self.atoms(f)))
        return scale, self.matrix(rest, v.shape)


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the matrix shape of a tensor shape: a vector is a column."""
    return (shape[0], 1) if len(shape) == 1 else shape if shape else (1, 1)  # type: ignore[return-value]





def _matmul(self: Matrices, v: Value, x: Value, y: Value) -> Any:
    (a, left), (b, right) = self.split(x), self.split(y)
    if len(x.shape) == 1:
        left = transposed(left)
    product = times(left, right)
    if not v.shape:
        return a * b * Entry(product)
    if len(x.shape) == 1:
        product = transposed(product)
    return a * b * self.atom(product, v.dtype)



def _transpose(self: Matrices, v: Value, x: Value) -> Any:
    if not self.atoms(self.known[x]):
        return self.known[x]
    scale, matrix = self.split(x)
    return scale * self.atom(transposed(matrix), v.dtype)


def _sum(self: Matrices, v: Value, x: Value) -> Any:
    axis = v.attrs["axis"]
    if not self.atoms(self.known[x]):
        return self.known[x] * (x.size // max(v.size, 1))
    scale, matrix = self.split(x)
    if len(axis) == len(x.shape):
        inner, factors = parted(matrix)
        return scale * inner * Total(times(*factors))
    if not axis:
        return self.known[x]
    if axis == (1,):
        folded = times(matrix, sp.OneMatrix(x.shape[1], 1))
    else:
        folded = times(sp.OneMatrix(1, x.shape[0]), matrix)
        folded = folded if v.attrs["keepdims"] else transposed(folded)
    return scale * self.atom(folded, v.dtype)


def _reshape(self: Matrices, v: Value, x: Value) -> Any:
    e = self.known[x]
    if not self.atoms(e) or (v.shape and _size(v.shape) == _size(x.shape)):
        return e
    scale, matrix = self.split(x)
    if not v.shape:
        return scale * Entry(matrix)
    if _size(v.shape) == _size(x.shape)[::-1] and 1 in _size(v.shape):
        return scale * self.atom(transposed(matrix), v.dtype)
    raise FormulaError(f"matrix notation has no form for reshape of {type_text(x)} to {type_text(v)}; try 'index'")


def _expand(self: Matrices, v: Value, x: Value) -> Any:
    return self.spread(x, v.shape)


def _eye(self: Matrices, v: Value) -> Any:
    if v.shape[0] != v.shape[1]:
        raise FormulaError(f"matrix notation has no form for eye of {type_text(v)}; try 'index'")
    return self.atom(sp.Identity(v.shape[0]), v.dtype)


def _trace(self: Matrices, v: Value, x: Value) -> Any:
    if not self.atoms(self.known[x]):
        return self.known[x] * min(x.shape)
    if x.shape[0] != x.shape[1]:
        raise FormulaError(f"matrix notation has no form for trace of {type_text(x)}; try 'index'")
    scale, matrix = self.split(x)
    inner, factors = parted(matrix)
    return scale * inner * sp.Trace(times(*factors))


def _inverted(self: Matrices, v: Value) -> tuple[Any, Any]:
    """Return the inverse as scalar and matrix: (s A)⁻¹ = 1/s A⁻¹, and (Aᵀ)⁻¹ = (A⁻¹)ᵀ."""
    if not self.atoms(self.known[v]):
        raise FormulaError("a matrix of equal elements has no inverse; try 'index'")
    scale, matrix = self.split(v)
    return 1 / scale, inverse(matrix)


def _inv(self: Matrices, v: Value, x: Value) -> Any:
    scale, inverted = _inverted(self, x)
    return scale * self.atom(inverted, v.dtype)



def _determinant(self: Matrices, x: Value) -> Any:
    """Return the determinant: det(s A) = sⁿ det A, and det Aᵀ = det A."""
    if not self.atoms(self.known[x]):
        raise FormulaError("a matrix of equal elements has no determinant worth a formula; try 'index'")
    scale, matrix = self.split(x)
    return scale ** x.shape[0] * Det(matrix.arg if isinstance(matrix, sp.Transpose) else matrix)


def _det(self: Matrices, v: Value, x: Value) -> Any:
    return _determinant(self, x)



def _rows(name: str) -> Callable[..., Any]:
    """Return the lowering of softmax, log_softmax or logsumexp along one axis of a matrix, or of a vector."""

    def lowering(self: Matrices, v: Value, x: Value) -> Any:
        axis = v.attrs["axis"]
        columns = axis == (0,) and len(x.shape) == 2
        of_single_elements = x.shape[1:] == (1,) or (columns and x.shape[0] == 1)  # which would read as the function of one vector
        if len(axis) != 1 or of_single_elements or not self.atoms(self.known[x]):
            raise FormulaError(f"matrix notation has no form for {v.op} of {type_text(x)}; try 'index'")
        matrix = self.matrix(self.known[x], x.shape)
        result = Rows(sp.Symbol(name), transposed(matrix) if columns else matrix)
        if name == "logsumexp" and not v.shape:
            return Entry(result)
        moves = columns and (name != "logsumexp" or v.attrs["keepdims"])
        return self.atom(transposed(result) if moves else result, v.dtype)

    return lowering


_LOWERINGS: dict[Any, Callable[..., Any]] = {
    "matmul": _matmul, "transpose": _transpose, "sum": _sum, "reshape": _reshape, "expand": _expand, "eye": _eye, "trace": _trace,
    "inv": _inv, "det": _det,
    ("slogdet", 0): lambda self, v, x: sp.sign(_determinant(self, x)),
    ("slogdet", 1): lambda self, v, x: sp.log(sp.Abs(_determinant(self, x))),
    "softmax": _rows("softmax"), "log_softmax": _rows("log_softmax"), "logsumexp": _rows("logsumexp"),
}  # fmt: skip
"""By row name; for one of several outputs, with its index."""
