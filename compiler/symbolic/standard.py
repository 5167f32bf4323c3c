"""SymPy classes for what is handed out: functions of the op table that SymPy lacks, and matrix expressions that lambdify can print.

Each function knows its meaning, and from that its derivative, its value in any precision and its rewriting. `lambdify` gets a form that
neither overflows nor cancels, where there is one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy.codegen import cfunctions
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.matexpr import MatrixElement

from symgrad.compiler.symbolic.to_sympy import number
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE


class Printed:
    """Base of classes that lambdify prints by `_code`, for all modules that have arrays."""

    __slots__ = ()

    def _code(self, printer: Any) -> str:
        raise NotImplementedError

    def _pythoncode(self, printer: Any) -> str:
        return self._code(printer)

    _numpycode = _scipycode = _jaxcode = _cupycode = _pythoncode


class RowFunction(Printed, sp.Function):
    """A row of the op table as a SymPy function. `class_of` makes the subclass of a row."""

    row: Row
    attrs: tuple[tuple[str, Any], ...] = ()
    usual = True
    """True if the attributes have their usual values, for which the tables of this file are written."""

    @classmethod
    def eval(cls, *args: Any) -> Any:
        return None

    @classmethod
    def class_key(cls) -> tuple[int, int, str]:
        return 4, 10_000, " ".join((cls.__name__, *map(repr, cls.attrs)))

    @property
    def meaning(self) -> Any:
        """The function written with SymPy's own."""
        return self.row.sympy(sp, *self.args, **{k: number(x) for k, x in self.attrs})  # type: ignore[misc]

    def fdiff(self, argindex: int = 1) -> Any:
        slope = _SLOPES.get(self.func.__name__)
        if slope is not None and self.usual:
            return slope(*self.args)
        names = [sp.Dummy() for _ in self.args]
        return self.func(*names).meaning.diff(names[argindex - 1]).xreplace(dict(zip(names, self.args, strict=True)))

    def inverse(self, argindex: int = 1) -> Any:
        """Return the inverse function, with which `solve` works."""
        if self.func.__name__ not in _INVERSES:
            raise NotImplementedError(f"the inverse of {self.func.__name__} has no closed form")
        return _INVERSES[self.func.__name__]

    def _eval_evalf(self, prec: int) -> Any:
        return self.meaning._eval_evalf(prec)

    def evalf(self, n: int = 15, *args: Any, **options: Any) -> Any:
        return self.meaning.evalf(n, *args, **options) if self.is_number else super().evalf(n, *args, **options)

    n = evalf

    def _eval_rewrite(self, rule: Any, args: Any, **hints: Any) -> Any:
        return self.func(*args).meaning.rewrite(rule, **hints)

    def _eval_expand_func(self, **hints: Any) -> Any:
        return self.meaning

    def _eval_nseries(self, x: Any, n: int, logx: Any, cdir: int = 0) -> Any:
        return self.meaning._eval_nseries(x, n=n, logx=logx, cdir=cdir)

    def _eval_is_extended_real(self) -> Any:
        return True if all(a.is_extended_real for a in self.args) else None

    @property
    def _settings(self) -> list[str]:
        return [] if self.usual else [f"{k}={x!r}" for k, x in self.attrs]

    def _sympystr(self, printer: Any) -> str:
        return f"{self.func.__name__}({', '.join([*map(printer._print, self.args), *self._settings])})"

    def _latex(self, printer: Any, exp: Any = None) -> str:
        name = "".join((self.func.__name__, *(f", {text}" for text in self._settings))).replace("_", r"\_")
        power = "" if exp is None else f"^{{{exp}}}"
        return rf"\operatorname{{{name}}}{power}{{\left({', '.join(map(printer._print, self.args))} \right)}}"

    def _code(self, printer: Any) -> str:
        stable = _STABLE.get(self.func.__name__)
        return f"({printer._print(stable(*self.args) if stable and self.usual else self.meaning)})"

    def _mpmathcode(self, printer: Any) -> str:
        return f"({printer._print(self.meaning)})"


def class_of(name: str, attrs: tuple[tuple[str, Any], ...] = (), usual: bool = True) -> Any:
    """Return the SymPy class of a row with these attributes: one class for all that mean the same."""
    return _class_of(name, _USUAL.get(name, attrs) if usual else attrs, usual)


@functools.cache
def _class_of(name: str, attrs: tuple[tuple[str, Any], ...], usual: bool) -> Any:
    row = TABLE[name]
    body = {"row": row, "attrs": attrs, "usual": usual, "nargs": len(row.args), "__module__": __name__}
    metaclass: Any = type(RowFunction)
    return metaclass(name, (RowFunction,), body)


_USUAL: dict[str, tuple[tuple[str, Any], ...]] = {"softplus": (("beta", 1), ("threshold", 20))}


def __getattr__(name: str) -> Any:
    """Return the class of a row by its name, which is where pickle looks for it."""
    row = TABLE.get(name)
    if row is None or not row.elementwise or row.sympy is None or (row.attrs and name not in _USUAL):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return class_of(name)


def _stable_softplus(x: Any) -> Any:
    return sp.Max(0, x) + sp.log(1 + sp.exp(-sp.Abs(x)))


_STABLE: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda x: (1 + sp.tanh(x / 2)) / 2,
    "softplus": _stable_softplus,
    "log_sigmoid": lambda x: -_stable_softplus(-x),
    "silu": lambda x: x * (1 + sp.tanh(x / 2)) / 2,
    "log_cosh": lambda x: sp.Abs(x) + sp.log(1 + sp.exp(-2 * sp.Abs(x))) - sp.log(2),
    "logaddexp": lambda x, y: sp.Max(x, y) + sp.log(1 + sp.exp(-sp.Abs(x - y))),
    "sech_square": lambda x: 1 - sp.tanh(x) ** 2,
    "expm1": lambda x: cfunctions.expm1(x),
    "log1p": lambda x: cfunctions.log1p(x),
    "xlogy": lambda x, y: sp.Piecewise((0, sp.Eq(x, 0)), (x * sp.log(y), True)),
    "xlogx": lambda x: sp.Piecewise((0, sp.Eq(x, 0)), (x * sp.log(x), True)),
    "mish": lambda x: x * sp.tanh(_stable_softplus(x)),
}
"""Forms that lambdify prints, where the meaning overflows or cancels."""
_SLOPES: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda x: class_of("sigmoid")(x) * (1 - class_of("sigmoid")(x)),
    "softplus": lambda x: class_of("sigmoid")(x),
    "log_sigmoid": lambda x: class_of("sigmoid")(-x),
    "expm1": lambda x: sp.exp(x),
    "log1p": lambda x: 1 / (1 + x),
    "log_cosh": lambda x: sp.tanh(x),
}
"""Derivatives of functions of one argument in a form that does not overflow."""
_INVERSES: dict[str, Callable[..., Any]] = {
    "sigmoid": lambda t: sp.log(t / (1 - t)),
    "softplus": lambda t: sp.log(sp.exp(t) - 1),
    "expm1": lambda t: sp.log(1 + t),
    "log1p": lambda t: sp.exp(t) - 1,
}


# --- matrices


class Apply(Printed, ElementwiseApplyFunction):
    """f(A), element by element: SymPy's own class, which lambdify cannot print."""

    def _code(self, printer: Any) -> str:
        (name,) = self.function.variables
        return f"(lambda {name.name}: {printer._print(self.function.expr)})({printer._print(self.expr)})"


class Map(Printed, sp.MatrixExpr):
    """f(A, B, ...), element by element, where f is no sum or product of functions of one matrix."""

    def __new__(cls, function: Any, *matrices: Any) -> Any:
        return super().__new__(cls, function, *matrices)

    @property
    def shape(self) -> Any:
        return self.args[1].shape

    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return self.args[0](*(m[i, j] for m in self.args[1:]))

    def doit(self, **hints: Any) -> Any:
        made = self.func(self.args[0], *(m.doit(**hints) for m in self.args[1:]))
        return made.as_explicit() if all(isinstance(m, sp.MatrixBase) for m in made.args[1:]) else made

    def _code(self, printer: Any) -> str:
        names = ", ".join(s.name for s in self.args[0].variables)
        return f"(lambda {names}: {printer._print(self.args[0].expr)})({', '.join(printer._print(m) for m in self.args[1:])})"

    def _latex(self, printer: Any) -> str:
        return rf"\left({printer._print(self.args[0])}\right)_{{\circ}}\left({', '.join(printer._print(m) for m in self.args[1:])}\right)"


class Power(Printed, sp.HadamardPower):
    """The power of every element, which SymPy's class does not compute of explicit matrices."""

    def doit(self, **hints: Any) -> Any:
        base = self.base.doit(**hints)
        return base.applyfunc(lambda x: x**self.exp) if isinstance(base, sp.MatrixBase) else self.func(base, self.exp)

    def _code(self, printer: Any) -> str:
        return f"({printer._print(self.base)})**({printer._print(self.exp)})"


class Trace(Printed, sp.Trace):
    def _code(self, printer: Any) -> str:
        return f"{printer._module_format('numpy.trace')}({printer._print(self.arg)})"


class Determinant(Printed, sp.Determinant):
    def _code(self, printer: Any) -> str:
        return f"{printer._module_format('numpy.linalg.det')}({printer._print(self.arg)})"


class Diagonal(Printed, sp.DiagMatrix):
    """The diagonal matrix of a column."""

    def doit(self, **hints: Any) -> Any:
        column = self.args[0].doit(**hints)
        return sp.diag(*column) if isinstance(column, sp.MatrixBase) else self.func(column)

    def _code(self, printer: Any) -> str:
        return f"{printer._module_format('numpy.diagflat')}({printer._print(self.args[0])})"


class Rows(Printed, sp.MatrixExpr):
    """A function of each row, or of a column as one vector: softmax, log_softmax, or logsumexp, which gives one element for each."""

    def __new__(cls, matrix: Any) -> Any:
        return super().__new__(cls, matrix)

    @property
    def shape(self) -> Any:
        return self.args[0].shape

    @property
    def axis(self) -> int:
        """The dimension along which the function is taken."""
        return 0 if self.args[0].shape[1] == 1 else 1

    def _terms(self, i: Any) -> Any:
        n = range(int(self.args[0].shape[self.axis]))
        return sp.Add(*(sp.exp(self.args[0][(i, k) if self.axis else (k, 0)]) for k in n))

    def doit(self, **hints: Any) -> Any:
        made = self.func(self.args[0].doit(**hints))
        return made.as_explicit() if isinstance(made.args[0], sp.MatrixBase) else made

    def _code(self, printer: Any) -> str:
        return f"{printer._module_format(f'scipy.special.{self.func.__name__}')}({printer._print(self.args[0])}, axis={self.axis})"

    def _latex(self, printer: Any) -> str:
        name = self.func.__name__.replace("_", r"\_")
        return rf"\operatorname{{{name}}}\left({printer._print(self.args[0])}\right)"

    @property
    def elementary(self) -> Any:
        """The function written with exponentials, sums and products, which overflow earlier."""
        n = self.args[0].shape[self.axis]
        powers = applied(sp.exp, self.args[0])
        total = powers * sp.OneMatrix(n, 1) if self.axis else sp.OneMatrix(1, n) * powers
        if isinstance(self, logsumexp):
            return applied(sp.log, total)
        spread = total * sp.OneMatrix(1, n) if self.axis else sp.OneMatrix(n, 1) * total
        if isinstance(self, log_softmax):
            return self.args[0] - applied(sp.log, spread)
        return sp.HadamardProduct(powers, applied(lambda u: 1 / u, spread))


class softmax(Rows):
    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return sp.exp(self.args[0][i, j]) / self._terms(i)


class log_softmax(Rows):
    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return self.args[0][i, j] - sp.log(self._terms(i))


class logsumexp(Rows):
    @property
    def shape(self) -> Any:
        return (self.args[0].shape[0] if self.axis else 1, 1)

    def _entry(self, i: Any, j: Any, **kwargs: Any) -> Any:
        return sp.log(self._terms(i))

    def _code(self, printer: Any) -> str:
        return f"{printer._module_format('scipy.special.logsumexp')}({printer._print(self.args[0])}, axis={self.axis}, keepdims=True)"


ROWS = {"softmax": softmax, "log_softmax": log_softmax, "logsumexp": logsumexp}


def applied(function: Callable[[Any], Any], matrix: Any, name: str = "u") -> Any:
    """Return f(A), element by element."""
    u = sp.Symbol(name)
    return Apply(sp.Lambda(u, function(u)), matrix)


def entry(matrix: Any) -> Any:
    """Return the only element of a 1×1 matrix as a scalar."""
    return MatrixElement(matrix, sp.Integer(0), sp.Integer(0))


def total(matrix: Any) -> Any:
    """Return the sum of all elements of a matrix; a sum of squares as a product with the transpose."""
    n, m = matrix.shape
    if isinstance(matrix, sp.HadamardPower) and matrix.exp == 2:
        square = sp.MatMul(sp.Transpose(matrix.base), matrix.base)
        return entry(square) if m == 1 else Trace(square)
    left = [sp.OneMatrix(1, n)] if n != 1 else []
    right = [sp.OneMatrix(m, 1)] if m != 1 else []
    return entry(sp.MatMul(*left, matrix, *right) if left or right else matrix)
