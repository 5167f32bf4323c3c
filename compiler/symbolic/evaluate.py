"""Evaluate formulas with NumPy: each kind of expression by its own function, rows of the table by their kernels. No text is ever
executed."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import Det, Elementwise, Entry, Rows, Total
from symgrad.compiler.symbolic.to_sympy import Same
from symgrad.errors import FormulaError
from symgrad.ops.promotion import kind
from symgrad.ops.table import TABLE
from symgrad.typing import Array

WIDE = {"f": np.dtype(np.float64), "c": np.dtype(np.complex128)}
"""A formula is computed in the widest dtype, and rounded to the dtype of the result."""


_ROUNDING = 1e-6
_OF_ITS_TYPE = frozenset(("nan_to_num",))
"""Rows whose result depends on the dtype in which they compute, through its largest number."""


def _of_type(found: Any, dtype: Any) -> Array:
    """Return values in the dtype of the result: NaN where they are complex, not by rounding alone, and the result is real."""
    array = np.asarray(found)
    if array.dtype.kind == "c" and np.dtype(dtype).kind == "f":
        array = np.where(np.abs(array.imag) > _ROUNDING * np.abs(array), np.nan, array.real)
    return array.astype(dtype)


class Evaluator:
    """Values of expressions, each computed once. A matrix is a 2-D array, whatever the rank of the tensor that it represents."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}

    def give(self, name: Any, value: Any) -> None:
        if isinstance(name, np.ndarray):
            for index in np.ndindex(name.shape):
                self.known[name[index]] = value[index]
        elif isinstance(name, sp.MatrixExpr):
            self.known[name] = np.reshape(value, name.shape)
        else:
            self.known[name] = value

    def standing_in(self, line: Any) -> Evaluator:
        """Return an evaluator for the first line of a line's form: it knows the values of this line's names under the names of the
        first."""
        if line.first is line:
            return self
        inner = self.fresh()
        inner.known = {first: self.known[own] for first, own in zip(line.first.names, line.names, strict=True) if own in self.known}
        return inner

    def fresh(self) -> Evaluator:
        return Evaluator()

    def output(self, expression: Any, shape: tuple[int, ...], dtype: Any) -> Array:
        if isinstance(expression, np.ndarray):
            flat = [_of_type(self.value(e), dtype) for e in expression.ravel()]
            return np.array(flat, dtype).reshape(shape)
        result = _of_type(self.value(expression), dtype)
        return result.reshape(shape) if result.size == np.prod(shape, dtype=int) else np.broadcast_to(result, shape).copy()

    def value(self, e: Any) -> Any:
        if e not in self.known:
            self.known[e] = self._compute(e)
        return self.known[e]

    def _compute(self, e: Any) -> Any:
        if isinstance(e, (sp.Number, sp.NumberSymbol)) or e in (sp.nan, sp.oo, -sp.oo):
            return int(e) if isinstance(e, sp.Integer) and abs(e) < 2**62 else float(e)
        if e in (sp.true, sp.false):
            return bool(e)
        if e == sp.I:
            return 1j
        application = getattr(e.func, "application", None)
        if application is not None:
            return self._apply(application, e.args)
        if e.func in _SPECIAL:
            return _SPECIAL[e.func](self, e)
        if e.func.__name__ == "nan_to_zero":
            return np.nan_to_num(self.value(e.args[0]), nan=0.0, posinf=np.inf, neginf=-np.inf)
        kernel = _KERNELS.get(e.func) or _by_meaning().get(e.func)
        if kernel is None:
            raise FormulaError(f"no row of the table means {e.func.__name__}: {e}")
        return kernel(*(self.value(a) for a in e.args))

    def _apply(self, application: Any, args: Any) -> Any:
        """Compute a row that the formula shows under its own name, in the widest dtype, unless the dtype affects its meaning."""
        given, row = iter(args), application.row
        own = row.foreign is not None or row.name in _OF_ITS_TYPE
        widest = (lambda dtype: dtype) if own else (lambda dtype: WIDE.get(kind(np.dtype(dtype)), dtype))
        arrays = [
            None if shape is None else np.asarray(self.value(next(given))).astype(widest(dtype))
            for shape, dtype in zip(application.shapes, application.dtypes, strict=True)
        ]
        if not application.row.elementwise:
            arrays = [None if a is None else np.broadcast_to(a, s) for a, s in zip(arrays, application.shapes, strict=True)]
        result = application.row.numpy(*arrays, **application.attrs)
        return result if application.index is None else result[application.index]

    def piecewise(self, e: Any) -> Any:
        result = self.value(e.args[-1].expr) if e.args[-1].cond == sp.true else np.nan
        for branch in reversed(e.args[:-1] if e.args[-1].cond == sp.true else e.args):
            result = np.where(self.value(branch.cond), self.value(branch.expr), result)
        return result

    def power(self, e: Any) -> Any:
        base, exponent = e.args
        if base is sp.E:
            return np.exp(self.value(exponent))
        x = self.value(base)
        if abs(exponent) == sp.Rational(1, 2):  # np.power(-inf, -0.5) is 0, where 1 / sqrt(-inf) is NaN
            return np.sqrt(x) if exponent > 0 else 1 / np.sqrt(x)
        x = x if np.iscomplexobj(x) else np.asarray(x, float)
        if exponent.is_Integer and exponent < 0:
            return 1 / np.power(x, int(-exponent))
        return np.power(x, self.value(exponent))

    def heaviside(self, e: Any) -> Any:
        return np.heaviside(np.asarray(self.value(e.args[0]), float), self.value(e.args[1]))

    def fill(self, e: Any, value: float) -> Any:
        return np.full(e.shape, value, float)

    def elementwise(self, e: Any) -> Any:
        inner = Evaluator()
        for name, matrix in zip(e.function.variables, e.matrices, strict=True):
            inner.known[name] = self.value(matrix)
        for name in e.function.expr.free_symbols & self.known.keys() - set(e.function.variables):
            inner.known[name] = self.known[name]
        return np.broadcast_to(inner.value(e.function.expr), e.shape)


_MatMul, _MatAdd = sp.matrices.expressions.MatMul, sp.matrices.expressions.MatAdd
_SPECIAL: dict[Any, Callable[[Evaluator, Any], Any]] = {
    sp.Piecewise: Evaluator.piecewise,
    sp.Pow: Evaluator.power,
    sp.Heaviside: Evaluator.heaviside,
    sp.OneMatrix: lambda run, e: run.fill(e, 1.0),
    sp.ZeroMatrix: lambda run, e: run.fill(e, 0.0),
    sp.Identity: lambda run, e: np.eye(*e.shape),
    sp.Inverse: lambda run, e: np.linalg.inv(run.value(e.arg)),
    sp.HadamardPower: lambda run, e: run.power(e),
    Elementwise: Evaluator.elementwise,
    Rows: lambda run, e: _rows(e.name, run.value(e.args[1])),
    sp.LambertW: lambda run, e: TABLE["lambertw"].numpy(np.asarray(run.value(e.args[0]), float), branch=int(sp.Tuple(*e.args, 0)[1])),
    sp.zeta: lambda run, e: TABLE["riemann_zeta"].numpy(np.asarray(run.value(e.args[0]), float), order=0),
    sp.DiagMatrix: lambda run, e: np.diag(np.ravel(run.value(e.args[0]))),
}


def _rows(name: str, x: Any) -> Any:
    axis = 0 if x.shape[1] == 1 else 1  # a column is one vector
    top = np.max(x, axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - top), axis, keepdims=True)) + top
    return total if name == "logsumexp" else np.exp(x - total) if name == "softmax" else x - total


def _product(*factors: Any) -> Any:
    """Return a matrix product in which some factors are scalars."""
    matrices = [f for f in factors if np.ndim(f) == 2]
    scalars = [f for f in factors if np.ndim(f) != 2]
    return functools.reduce(operator.mul, scalars, functools.reduce(operator.matmul, matrices))


_KERNELS: dict[Any, Callable[..., Any]] = {
    sp.Add: lambda *xs: functools.reduce(operator.add, xs),
    sp.Mul: lambda *xs: functools.reduce(operator.mul, xs),
    sp.Max: lambda *xs: functools.reduce(np.maximum, xs),
    sp.Min: lambda *xs: functools.reduce(np.minimum, xs),
    sp.And: lambda *xs: functools.reduce(np.logical_and, xs),
    sp.Or: lambda *xs: functools.reduce(np.logical_or, xs),
    sp.Not: np.logical_not,
    sp.Xor: lambda *xs: functools.reduce(np.logical_xor, xs),
    sp.ITE: np.where,
    Same: np.equal,
    sp.Abs: np.abs,
    sp.sign: lambda x: TABLE["sign"].numpy(np.asarray(x)),
    _MatMul: _product,
    _MatAdd: lambda *xs: functools.reduce(operator.add, xs),
    sp.Transpose: np.transpose,
    sp.HadamardProduct: lambda *xs: functools.reduce(operator.mul, xs),
    sp.Trace: np.trace,
    sp.KroneckerDelta: lambda x, y: np.equal(x, y).astype(np.int64),  # booleans would not add up
    sp.Mod: np.mod,
    sp.floor: np.floor,
    sp.re: np.real,
    sp.im: np.imag,
    sp.conjugate: np.conj,
    Total: np.sum,
    Det: np.linalg.det,
    Entry: lambda x: np.reshape(x, ()),
}


@functools.cache
def _by_meaning() -> dict[Any, Callable[..., Any]]:
    """Return the kernels of rows whose meaning is exactly one SymPy function, by that function."""
    found: dict[Any, Callable[..., Any]] = {}
    for row in TABLE.values():
        if row.sympy is None or row.attrs or not row.elementwise or row.policy == "where":
            continue
        names = sp.symbols(f"a:{len(row.args)}", real=True)
        meaning = row.sympy(sp, *names)
        if isinstance(meaning, sp.Basic) and meaning.args == tuple(names):
            found.setdefault(meaning.func, row.numpy)
    return found
