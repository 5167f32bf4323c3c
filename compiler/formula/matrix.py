"""Matrix notation, for graphs of scalars, vectors (columns) and matrices.

A value is held as a scalar expression of *atoms*: symbols that stand for whole matrices of the value's shape. Elementwise rows are
scalar algebra on these expressions, so that regions of them merge; where a matrix is wanted (in a product, in a result) the expression
becomes one: sums of terms, Hadamard products of factors, powers, and functions applied to every element.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp

from symgrad.compiler.formula import meaning
from symgrad.compiler.formula.matrices import Elementwise, Entry, Total
from symgrad.compiler.formula.program import Binder, Program
from symgrad.compiler.ir import INPUT, LITERAL, Graph, Value, type_text
from symgrad.errors import FormulaError


def lower(graph: Graph) -> Program:
    """Tensors as matrix symbols: products, transposes, Hadamard products, traces."""
    return _Matrices(graph).program()


class _Matrices:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.binder = Binder(graph)
        self.known: dict[Value, Any] = {}
        self.matrix_of: dict[Any, Any] = {}
        self.atom_of: dict[Any, Any] = {}

    def program(self) -> Program:
        inputs = tuple(self.input(i, x, label) for i, (x, label) in enumerate(zip(self.graph.inputs, self.graph.labels, strict=True)))
        for v in self.graph.values:
            if v.op != INPUT:
                self.known[v] = self.named(v, self.expression(v))
        outputs = tuple(self.matrix(self.known[v], v.shape) if v.shape else self.known[v] for v in self.graph.outputs)
        return Program(self.graph, "matrix", inputs, tuple(self.binder.bindings), outputs, self.binder.labels)

    def input(self, i: int, x: Value, label: str) -> Any:
        name = self.symbol(f"x{i}", label, x)
        self.known[x] = self.atom(name, x.dtype) if x.shape else name
        return name

    def symbol(self, name: str, label: str, v: Value) -> Any:
        if isinstance(v.dtype, tuple) or len(v.shape) > 2:
            raise FormulaError(f"matrix notation is for at most two dimensions: {label} is {type_text(v)}")
        symbol = sp.MatrixSymbol(name, *_size(v.shape)) if v.shape else meaning.symbol(name, v.dtype)
        self.binder.labels[symbol] = label
        return symbol

    def atom(self, matrix: Any, dtype: Any) -> Any:
        """The symbol that stands for a matrix in scalar expressions; one for each matrix."""
        if matrix not in self.atom_of:
            atom = meaning.symbol(f"m{len(self.atom_of)}", dtype)
            self.atom_of[matrix], self.matrix_of[atom] = atom, matrix
        return self.atom_of[matrix]

    def atoms(self, e: Any) -> list[Any]:
        return sorted(e.free_symbols & self.matrix_of.keys(), key=lambda s: int(s.name[1:]))

    def named(self, v: Value, e: Any) -> Any:
        """`e`, or the name that was given to it."""
        matrix = self.matrix(e, v.shape) if v.shape and self.atoms(e) else e
        if not self.binder.wants(v, [matrix]):
            return e
        label = self.binder.next_name
        name = self.binder.bind(self.symbol(label, label, v), label, matrix)
        return self.atom(name, v.dtype) if v.shape else name

    def expression(self, v: Value) -> Any:
        if v.op == LITERAL:
            return meaning.literal(v)
        if v.row is not None and v.row.elementwise and len(v.shape) <= 2:
            return meaning.elementwise(v, [self.spread(a, v.shape) for a in v.args])
        lowering = _LOWERINGS.get(v.op)
        if lowering is None or len(v.shape) > 2 or any(len(a.shape) > 2 for a in v.args):
            raise FormulaError(f"matrix notation has no form for {v.op} of {', '.join(type_text(a) for a in v.args if a is not None)}")
        return lowering(self, v, *v.args)

    def spread(self, v: Value, shape: tuple[int, ...]) -> Any:
        """The expression of `v` after broadcasting: a matrix is repeated by multiplying with ones."""
        e = self.known[v]
        if _size(v.shape) == _size(shape) or not v.shape or not self.atoms(e):
            return e
        given = v.shape if len(v.shape) == len(shape) else (1, *v.shape)
        scale, matrix = self.split(v)
        if len(v.shape) == 1 and len(shape) == 2:
            matrix = _transposed(matrix)
        if given[0] != shape[0]:
            matrix = _times(sp.OneMatrix(shape[0], 1), matrix)
        if len(shape) == 2 and given[1] != shape[1]:
            matrix = _times(matrix, sp.OneMatrix(1, shape[1]))
        return scale * self.atom(matrix, v.dtype)

    def matrix(self, e: Any, shape: tuple[int, ...]) -> Any:
        """A scalar expression of atoms as a matrix expression."""
        size = _size(shape)
        if not self.atoms(e):
            return sp.ZeroMatrix(*size) if e == 0 else _scaled(e, sp.OneMatrix(*size))
        if e in self.matrix_of:
            return self.matrix_of[e]
        if isinstance(e, sp.Add):
            content, rest = e.primitive()
            if content != 1:
                return _scaled(content, self.matrix(rest, shape))
            return sp.MatAdd(*(self.matrix(term, shape) for term in e.args))
        if isinstance(e, sp.Mul):
            factors = [f for f in e.args if self.atoms(f)]
            scale = sp.Mul(*(f for f in e.args if not self.atoms(f)))
            return _scaled(scale, self.hadamard(factors, shape))
        if isinstance(e, sp.Pow) and e.exp.is_Integer and e.exp > 0:
            return sp.HadamardPower(self.matrix(e.base, shape), e.exp)
        return self.applied(e)

    def hadamard(self, factors: list[Any], shape: tuple[int, ...]) -> Any:
        divisors = [f for f in factors if isinstance(f, sp.Pow) and f.exp.could_extract_minus_sign()]
        if divisors:
            return self.applied(sp.Mul(*factors))
        matrices = _outer([self.matrix(f, shape) for f in factors])
        return matrices[0] if len(matrices) == 1 else sp.HadamardProduct(*matrices)

    def applied(self, e: Any) -> Any:
        atoms = self.atoms(e)
        return Elementwise(sp.Lambda(tuple(atoms), e), *(self.matrix_of[a] for a in atoms))

    def split(self, v: Value) -> tuple[Any, Any]:
        """The scalar factor of a value, and the rest as a matrix: 2 (A - B) into 2 and A - B."""
        e = self.known[v]
        if isinstance(e, sp.Add):
            scale, rest = e.primitive()
        else:
            factors = e.args if isinstance(e, sp.Mul) else (e,)
            scale = sp.Mul(*(f for f in factors if not self.atoms(f)))
            rest = sp.Mul(*(f for f in factors if self.atoms(f)))
        return scale, self.matrix(rest, v.shape)


def _size(shape: tuple[int, ...]) -> tuple[int, int]:
    """A vector is a column."""
    return (shape[0], 1) if len(shape) == 1 else shape if shape else (1, 1)  # type: ignore[return-value]


def _scaled(scale: Any, matrix: Any) -> Any:
    return matrix if scale == 1 else sp.MatMul(scale, matrix)


def _times(*matrices: Any) -> Any:
    factors: list[Any] = []
    for m in matrices:
        factors.extend(m.args if isinstance(m, sp.MatMul) else [m])
    useful = [f for f in factors if f != sp.OneMatrix(1, 1) and not isinstance(f, sp.Identity)]  # a 1×1 one is an identity, too
    return factors[0] if not useful else useful[0] if len(useful) == 1 else sp.MatMul(*useful)


def _outer(matrices: list[Any]) -> list[Any]:
    """(u 1ᵀ) ∘ (1 vᵀ) = u vᵀ"""
    column = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[-1] == sp.OneMatrix(1, m.shape[1])), None)
    row = next((m for m in matrices if isinstance(m, sp.MatMul) and m.args[0] == sp.OneMatrix(m.shape[0], 1)), None)
    if column is None or row is None or column is row or 1 in column.shape:
        return matrices
    return [_times(*column.args[:-1], *row.args[1:]), *(m for m in matrices if m is not column and m is not row)]


def _matmul(self: _Matrices, v: Value, x: Value, y: Value) -> Any:
    (a, left), (b, right) = self.split(x), self.split(y)
    if len(x.shape) == 1:
        left = _transposed(left)
    product = _times(left, right)
    if not v.shape:
        return a * b * Entry(product)
    if len(x.shape) == 1:
        product = _transposed(product)
    return a * b * self.atom(product, v.dtype)


def _transposed(matrix: Any) -> Any:
    """(AB)ᵀ = BᵀAᵀ, and the same inside sums and Hadamard products."""
    if isinstance(matrix, sp.Transpose):
        return matrix.arg
    if isinstance(matrix, sp.MatMul):
        scalars = [f for f in matrix.args if not f.is_Matrix]
        return sp.MatMul(*scalars, *(_transposed(f) for f in reversed(matrix.args) if f.is_Matrix))
    if isinstance(matrix, (sp.OneMatrix, sp.ZeroMatrix)):
        return type(matrix)(*reversed(matrix.shape))
    if isinstance(matrix, sp.Identity):
        return matrix
    return sp.Transpose(matrix)


def _transpose(self: _Matrices, v: Value, x: Value) -> Any:
    if not self.atoms(self.known[x]):
        return self.known[x]
    scale, matrix = self.split(x)
    return scale * self.atom(_transposed(matrix), v.dtype)


def _sum(self: _Matrices, v: Value, x: Value) -> Any:
    axis = v.attrs["axis"]
    if not self.atoms(self.known[x]):
        return self.known[x] * (x.size // max(v.size, 1))
    scale, matrix = self.split(x)
    if len(axis) == len(x.shape):
        return scale * Total(matrix)
    if not axis:
        return self.known[x]
    if axis == (1,):
        folded = _times(matrix, sp.OneMatrix(x.shape[1], 1))
    else:
        folded = _times(sp.OneMatrix(1, x.shape[0]), matrix)
        folded = folded if v.attrs["keepdims"] else _transposed(folded)
    return scale * self.atom(folded, v.dtype)


def _reshape(self: _Matrices, v: Value, x: Value) -> Any:
    e = self.known[x]
    if not self.atoms(e) or (v.shape and _size(v.shape) == _size(x.shape)):
        return e
    scale, matrix = self.split(x)
    if not v.shape:
        return scale * Entry(matrix)
    if _size(v.shape) == _size(x.shape)[::-1] and 1 in _size(v.shape):
        return scale * self.atom(_transposed(matrix), v.dtype)
    raise FormulaError(f"matrix notation has no form for reshape of {type_text(x)} to {type_text(v)}")


def _expand(self: _Matrices, v: Value, x: Value) -> Any:
    return self.spread(x, v.shape)


def _eye(self: _Matrices, v: Value) -> Any:
    if v.shape[0] != v.shape[1]:
        raise FormulaError(f"matrix notation has no form for eye of {type_text(v)}")
    return self.atom(sp.Identity(v.shape[0]), v.dtype)


def _trace(self: _Matrices, v: Value, x: Value) -> Any:
    if not self.atoms(self.known[x]):
        return self.known[x] * min(x.shape)
    if x.shape[0] != x.shape[1]:
        raise FormulaError(f"matrix notation has no form for trace of {type_text(x)}")
    scale, matrix = self.split(x)
    return scale * sp.Trace(matrix)


def _inverted(self: _Matrices, v: Value) -> tuple[Any, Any]:
    """(s A)⁻¹ = 1/s A⁻¹, and (Aᵀ)⁻¹ = (A⁻¹)ᵀ"""
    if not self.atoms(self.known[v]):
        raise FormulaError("a matrix of equal elements has no inverse")
    scale, matrix = self.split(v)
    return 1 / scale, sp.Transpose(sp.Inverse(matrix.arg)) if isinstance(matrix, sp.Transpose) else sp.Inverse(matrix)


def _inv(self: _Matrices, v: Value, x: Value) -> Any:
    scale, inverse = _inverted(self, x)
    return scale * self.atom(inverse, v.dtype)


def _solve(self: _Matrices, v: Value, a: Value, b: Value) -> Any:
    """A⁻¹ B"""
    (left, inverse), (right, matrix) = _inverted(self, a), self.split(b)
    return left * right * self.atom(_times(inverse, matrix), v.dtype)


_LOWERINGS: dict[str, Callable[..., Any]] = {
    "matmul": _matmul, "transpose": _transpose, "sum": _sum, "reshape": _reshape, "expand": _expand, "eye": _eye, "trace": _trace,
    "inv": _inv, "solve": _solve,
}  # fmt: skip
