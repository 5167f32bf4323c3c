"""Translate SymPy expressions of scalars, matrices and indexed tensors to operations on tensors.

`TensorTranslator` extends the translation of scalar expressions by rules for the other heads, in tables from SymPy class to function. A
matrix is a 2-D tensor. An index, free or bound by a sum, is an array of integers with an axis of its own, in front of all others; its sum
is the sum over that axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import sympy as sp
from sympy.codegen import cfunctions, numpy_nodes
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.matexpr import MatrixElement

from symgrad import functional as F, linalg
from symgrad.compiler.symbolic import standard
from symgrad.compiler.symbolic.from_sympy import Translator, UnknownHead, derivative, known_functions
from symgrad.compiler.symbolic.notations import index_algebra
from symgrad.compiler.symbolic.safe_points import safe_point
from symgrad.compiler.symbolic.tensor_numbers import NumbersStayPython, constant
from symgrad.compiler.symbolic.to_sympy import Application
from symgrad.creation import eye, full, ones
from symgrad.errors import FormulaError
from symgrad.from_data import from_numpy
from symgrad.interop.scipy_special import ADAPTERS
from symgrad.ops.exact import PI
from symgrad.tensor import Tensor

MAX_RANGE = 1_000_000
"""Largest number of values of a bound index, or of a matrix of constants."""

class TensorTranslator(Translator):
    """The values of an expression's parts as tensors, or as Python numbers where they are constant."""

    def __init__(self, xp: Any, bindings: Any, dtype: Any, rank: int = 0) -> None:
        super().__init__(xp if isinstance(xp, NumbersStayPython) else NumbersStayPython(xp), bindings, dtype)
        self.rank = rank
        """The number of dimensions of scalar arguments, behind the axes of indices."""
        self.indices: dict[Any, Any] = {}
        """The values of each index, as an array with its own axis."""
        self.inside: Any = True
        """Where a choice between branches, by indices alone, needs a value."""

    def value(self, e: Any) -> Any:
        if e not in self.known:
            self.known[e] = self.found(e)
        return self.known[e]

    def found(self, e: Any) -> Any:
        if isinstance(e, sp.Expr) and not isinstance(e, sp.MatrixExpr) and e.is_number:
            return constant(e)
        return from_numpy(self.indices[e].astype(self.dtype)) if e in self.indices else self.compute(e)

    def depends_on_indices_only(self, e: Any) -> bool:
        return bool(self.indices and e.free_symbols) and all(s in self.indices for s in e.free_symbols)

    def compute(self, e: Any) -> Any:
        if isinstance(e, (sp.Symbol, sp.MatrixSymbol, sp.IndexedBase)):
            raise FormulaError(f"{e} is none of the symbols that the expression is a function of")
        rule = next((_RULES[c] for c in type(e).__mro__ if c in _RULES), None)
        if rule is not None:
            return rule(self, e)
        if isinstance(e, standard.RowFunction):
            return getattr(self.xp, e.row.name)(*map(self.value, e.args), **dict(e.attrs))
        if isinstance(getattr(e.func, "application", None), Application):
            return self.applied_row(e.func.application, e.args)
        try:
            return super().compute(e)
        except UnknownHead:
            raise unknown_head(e) from None

    def inner(self, bindings: dict[Any, Any], rank: int | None = None) -> TensorTranslator:
        """Return a translator that knows more symbols, and what does not depend on them."""
        kept = {e: v for e, v in self.known.items() if e.free_symbols.isdisjoint(bindings)}
        made = TensorTranslator(self.xp, {**kept, **bindings}, self.dtype, self.rank if rank is None else rank)
        made.indices, made.inside = self.indices, self.inside
        return made

    def within(self, index: Any, values: Any) -> TensorTranslator:
        """Return a translator for which a symbol is an index."""
        made = self.inner({index: None})
        del made.known[index]
        made.indices = {**self.indices, index: values}
        return made

    def tensor(self, e: Any) -> Any:
        """Return a value as a tensor."""
        x = self.value(e)
        if isinstance(x, Tensor):
            return x
        number = np.result_type(self.dtype, np.complex64) if isinstance(x, complex) else self.dtype
        return full((), x, dtype=bool if isinstance(x, bool) else number)

    def applied_row(self, application: Application, args: Any) -> Any:
        """Return the result of a row that a formula shows as a function of whole tensors."""
        given = iter(args)
        values = [None if shape is None else self.tensor(next(given)) for shape in application.shapes]
        result = getattr(self.xp, application.row.name)(*values, **application.attrs)
        return result if application.index is None else result[application.index]

    # scalars

    def choice(self, e: Any) -> Any:
        """Return nested where(). A branch is evaluated at a safe point where it is not taken, so that no NaN enters its gradient."""
        pairs, earlier = [], sp.false
        for x, condition in e.args:
            taken = sp.And(condition, sp.Not(earlier))
            pairs.append((condition, self.branch(x, taken)))
            earlier = sp.Or(earlier, condition)
        result = pairs.pop()[1] if e.args[-1].cond == sp.true else float("nan")
        for condition, x in reversed(pairs):
            holds = self.tensor(condition)
            if not isinstance(x, Tensor) and not isinstance(result, Tensor):
                x = self.xp.add(self.xp.mul(self.xp.cast(holds, dtype=self.dtype), 0), x)
            result = self.xp.where(holds, x, result)
        return result

    def branch(self, e: Any, taken: Any) -> Any:
        if taken in (sp.true, sp.false):
            return self.value(e)
        if self.depends_on_indices_only(taken):
            run = self.inner({})
            run.known = dict(self.known)
            run.inside = self.inside & self.places(taken)
            return run.value(e)
        point = safe_point(e)
        if point is None:
            return self.value(e)
        holds = self.tensor(taken)
        bindings = {s: self.xp.where(holds, self.value(s), constant(x)) for s, x in point.items() if s not in self.indices}
        return self.inner(bindings).value(e)

    def modulo(self, e: Any) -> Any:
        return F.remainder(*map(self.value, e.args))

    def bessel(self, name: str, e: Any) -> Any:
        order, x = e.args
        return getattr(self.xp, name)(self.value(x), order=_constant_argument(e, order))

    def lambertw(self, e: Any) -> Any:
        branch = e.args[1] if len(e.args) > 1 else sp.Integer(0)
        if branch not in (0, -1):
            raise FormulaError(f"{e}: branch {branch} of LambertW has no real values; 0 and -1 have")
        return self.xp.lambertw(self.value(e.args[0]), branch=int(branch))

    def zeta(self, e: Any) -> Any:
        if len(e.args) > 1 and e.args[1] != 1:
            raise FormulaError(f"{e} cannot be computed: zeta of one argument can, the Hurwitz zeta function cannot")
        return self.xp.riemann_zeta(self.value(e.args[0]), order=0)

    def substituted(self, e: Any) -> Any:
        """Return a derivative of zeta at a point, as SymPy writes it; other derivatives are carried out."""
        body, names, points = e.args
        if isinstance(body, sp.Derivative) and isinstance(body.expr, sp.zeta) and body.expr.args == (names[0],):
            return self.xp.riemann_zeta(self.value(points[0]), order=int(body.derivative_count))
        return self.value(self.carried_out(e))

    def derivative(self, e: Any) -> Any:
        if isinstance(e.expr, sp.zeta) and e.variables == (e.expr.args[0],) * e.derivative_count:
            return self.xp.riemann_zeta(self.value(e.expr.args[0]), order=int(e.derivative_count))
        body = e.expr
        for s in e.variables:
            body = derivative(body, s)
        return self.value(body)

    def carried_out(self, e: Any) -> Any:
        found = e.doit()
        if found == e or found.has(type(e)):
            raise FormulaError(f"{e} cannot be computed: SymPy cannot carry it out")
        return found

    # indices

    def places(self, e: Any) -> Any:
        """Return an expression of indices and integers as an array."""
        if e in self.indices:
            return self.indices[e]
        if e in (sp.true, sp.false):
            return bool(e)
        if e.is_number:
            return int(e) if e.is_Integer else float(e)
        rule = next((_OF_INDICES[c] for c in type(e).__mro__ if c in _OF_INDICES), None)
        if rule is None:
            raise FormulaError(f"{e}: {e.func.__name__} of indices is not computed; use sums, products, floor, Mod and comparisons")
        found = rule(*map(self.places, e.args))
        return np.asarray(found).astype(np.int64) if isinstance(e, (sp.floor, sp.ceiling)) else found

    def series(self, e: Any) -> Any:
        """Return a Sum or Product over constant ranges."""
        *others, (k, first, last) = e.limits
        body = e.func(e.function, *others) if others else e.function
        low, high = (self.bound(e, end) for end in (first, last))
        start, stop = int(np.min(low)), int(np.max(high))
        if stop - start >= MAX_RANGE:
            raise FormulaError(f"{e}: a range of {stop - start + 1} values is too long; up to {MAX_RANGE} are computed")
        if stop < start:
            return 0 if isinstance(e, sp.Sum) else 1
        axes = max((v.ndim for v in self.indices.values()), default=self.rank)
        index = np.arange(start, stop + 1).reshape(-1, *(1,) * axes)
        inside = (index >= low) & (index <= high)
        run = self.within(k, index)
        run.inside = self.inside & inside
        terms = run.tensor(body)
        shape = np.broadcast_shapes(tuple(terms.shape), index.shape, inside.shape)
        neutral, fold = (0, F.sum) if isinstance(e, sp.Sum) else (1, F.prod)
        terms = F.broadcast_to(terms, shape)
        if not np.all(inside):
            terms = self.xp.where(from_numpy(np.broadcast_to(inside, shape).copy()), terms, neutral)
        return fold(terms, 0)

    def bound(self, e: Any, end: Any) -> Any:
        if end.is_Integer or self.depends_on_indices_only(end):
            return self.places(end)
        if all(isinstance(self.known.get(s), int) for s in end.free_symbols):  # sizes of matrices
            size = self.value(end)
            if isinstance(size, int):
                return size
        raise FormulaError(f"{e} cannot be computed: its range must be constant, such as (k, 1, 10); {end} is not")

    def position(self, e: Any, indices: Iterable[Any], shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Return an index for each dimension, within the shape."""
        found = []
        for i, n in zip(indices, shape, strict=True):
            if not i.is_Integer and not self.depends_on_indices_only(i):
                raise FormulaError(f"{e}: {i} is no index; an index is an integer, or made of indices with constant ranges")
            at = np.asarray(self.places(i))
            beyond = (at < 0) | (at >= n)
            if np.any(beyond & self.inside):
                raise FormulaError(f"{e}: index {i} is from {np.min(at)} to {np.max(at)}, and this dimension has size {n}")
            found.append(np.where(beyond, 0, at))
        return tuple(found)

    def picked(self, whole: Any, e: Any, indices: Any) -> Any:
        at = self.position(e, indices, tuple(whole.shape))
        return whole[tuple(from_numpy(i) if i.ndim else int(i) for i in at)]

    def delta(self, e: Any) -> Any:
        return self.xp.cast(F.eq(*map(self.tensor, e.args)), dtype=self.dtype)

    # matrices

    def sum_of_matrices(self, e: Any) -> Any:
        return functools.reduce(F.add, map(self.value, e.args))

    def product_of_matrices(self, e: Any) -> Any:
        scale, matrices = e.as_coeff_matrices()
        product = functools.reduce(F.matmul, map(self.value, matrices))
        return product if scale == 1 else F.neg(product) if scale == -1 else self.times(product, scale)

    def times(self, matrix: Any, scale: Any) -> Any:
        """Return a matrix times a scalar; a rational is a product with one integer and a quotient by another."""
        coefficient, rest = scale.as_coeff_Mul(rational=True)
        result = matrix if rest == 1 else F.mul(matrix, self.value(rest))
        result = result if coefficient.p == 1 else F.mul(result, constant(sp.Integer(coefficient.p)))
        return result if coefficient.q == 1 else F.div(result, constant(sp.Integer(coefficient.q)))

    def matrix_power(self, e: Any) -> Any:
        if not e.exp.is_Integer:
            raise FormulaError(f"{e} cannot be computed: powers of matrices need an integer exponent, got {e.exp}")
        return linalg.matrix_power(self.value(e.base), int(e.exp))

    def elements_power(self, e: Any) -> Any:
        if isinstance(e.exp, sp.MatrixExpr):
            return F.pow(self.value(e.base), self.value(e.exp))
        x = sp.Dummy("x")
        return self.inner({x: self.value(e.base)}, 2).value(x**e.exp)

    def applied(self, function: Any, matrices: Any) -> Any:
        bindings = dict(zip(function.variables, map(self.value, matrices), strict=True))
        result = self.inner(bindings, 2).tensor(function.expr)
        shape = np.broadcast_shapes(*(tuple(x.shape) for x in bindings.values()))
        return result if tuple(result.shape) == shape else F.broadcast_to(result, shape)

    def filled(self, e: Any, number: int) -> Any:
        return F.mul(ones(tuple(self.size(e, n) for n in e.shape), dtype=self.dtype), number)

    def identity(self, e: Any) -> Any:
        n = self.size(e, e.shape[0])
        return eye(n, dtype=self.dtype)

    def size(self, e: Any, n: Any) -> int:
        found = self.value(n)
        if not isinstance(found, int):
            raise FormulaError(f"{e}: its size {n} must be an integer, or the size of an argument")
        return found

    def blocks(self, e: Any) -> Any:
        rows, columns = e.blocks.shape
        return F.cat([F.cat([self.value(e.blocks[i, j]) for j in range(columns)], 1) for i in range(rows)], 0)

    def sliced(self, e: Any) -> Any:
        slices = tuple(slice(*map(int, part)) for part in (e.rowslice, e.colslice))
        return self.value(e.parent)[slices]

    def explicit(self, e: Any) -> Any:
        """Return a matrix or array of scalar expressions."""
        parts = [self.tensor(x) for x in (e.flat() if isinstance(e, sp.MatrixBase) else sp.flatten(e))]
        if any(x.ndim for x in parts):
            raise FormulaError("the elements of a matrix need scalars: map over a batch with vmap")
        return F.stack(parts).reshape(tuple(map(int, e.shape))) if parts else ones(tuple(map(int, e.shape)), dtype=self.dtype)


def unknown_head(e: Any) -> FormulaError:
    """Return the error for a SymPy class without a rule."""
    known = ", ".join(sorted({c.__name__ for c in (*_RULES, *known_functions())} - {"Element", "Map", "_CosineIntegral"}, key=str.lower))
    return FormulaError(
        f"{e.func.__name__} has no function on tensors, in {e}: rewrite it with those that there are, by .doit() or .rewrite(). "
        f"Known are {known}"
    )


def _constant_argument(e: Any, x: Any) -> Any:
    if not x.is_number or not x.is_real:
        raise FormulaError(f"{e} cannot be computed: its order must be a constant real number, {x} is not; there is no derivative in it")
    return int(x) if x.is_Integer else float(x)


def _by_adapter(name: str, change: Callable[..., tuple[Any, ...]] = lambda *args: args) -> Callable[[TensorTranslator, Any], Any]:
    return lambda run, e: ADAPTERS[name](*change(*map(run.tensor, e.args)))


def _as(rewritten: Callable[..., Any]) -> Callable[[TensorTranslator, Any], Any]:
    """A function that is another expression of its arguments."""
    return lambda run, e: run.value(rewritten(*e.args))


def _refused(why: str) -> Callable[[TensorTranslator, Any], Any]:
    def refuse(run: TensorTranslator, e: Any) -> Any:
        raise FormulaError(f"{e} cannot be computed: {why}")

    return refuse


def _call(name: str) -> Callable[[TensorTranslator, Any], Any]:
    return lambda run, e: getattr(F, name)(*map(run.tensor, e.args))


class _CosineIntegral(sp.Function):
    """Ci of a real number: that of a negative one is complex, and the row returns its real part."""


_E = sp.matrices.expressions
_RULES: dict[Any, Callable[[TensorTranslator, Any], Any]] = {
    # scalars
    sp.Piecewise: TensorTranslator.choice, sp.Mod: TensorTranslator.modulo,
    sp.Abs: _call("abs"), sp.arg: _call("angle"), sp.re: _call("real"), sp.im: lambda run, e: _imaginary(run.tensor(e.args[0])),
    sp.conjugate: lambda run, e: F.conj(run.tensor(e.args[0])).resolve_conj(),
    sp.sinc: lambda run, e: F.sinc(run.tensor(e.args[0]) / PI),
    sp.frac: _as(lambda x: x - sp.floor(x)),
    sp.sec: _as(lambda x: 1 / sp.cos(x)), sp.csc: _as(lambda x: 1 / sp.sin(x)), sp.cot: _as(lambda x: 1 / sp.tan(x)),
    sp.sech: _as(lambda x: 1 / sp.cosh(x)), sp.csch: _as(lambda x: 1 / sp.sinh(x)), sp.coth: _as(lambda x: 1 / sp.tanh(x)),
    sp.asec: _as(lambda x: sp.acos(1 / x)), sp.acsc: _as(lambda x: sp.asin(1 / x)), sp.acot: _as(lambda x: sp.atan(1 / x)),
    sp.asech: _as(lambda x: sp.acosh(1 / x)), sp.acsch: _as(lambda x: sp.asinh(1 / x)), sp.acoth: _as(lambda x: sp.atanh(1 / x)),
    sp.ITE: lambda run, e: run.value(sp.Or(sp.And(e.args[0], e.args[1]), sp.And(sp.Not(e.args[0]), e.args[2]))),
    sp.Xor: lambda run, e: run.folded("logical_xor", e),
    sp.Derivative: TensorTranslator.derivative, sp.Subs: TensorTranslator.substituted,
    sp.Integral: lambda run, e: run.value(run.carried_out(e)),
    sp.Sum: TensorTranslator.series, sp.Product: TensorTranslator.series,
    sp.DiracDelta: _refused("it is no function of numbers"),
    # special functions
    sp.besselj: lambda run, e: run.bessel("bessel_j", e), sp.bessely: lambda run, e: run.bessel("bessel_y", e),
    sp.besseli: lambda run, e: run.bessel("bessel_i", e), sp.besselk: lambda run, e: run.bessel("bessel_k", e),
    sp.Ci: _as(lambda x: sp.Piecewise((_CosineIntegral(x), x >= 0), (sp.nan, True))),
    _CosineIntegral: lambda run, e: run.xp.cosine_integral(run.value(e.args[0])),
    sp.LambertW: TensorTranslator.lambertw, sp.zeta: TensorTranslator.zeta,
    sp.jn: _as(lambda n, x: sp.sqrt(sp.pi / (2 * x)) * sp.besselj(n + sp.Rational(1, 2), x)),
    sp.yn: _as(lambda n, x: sp.sqrt(sp.pi / (2 * x)) * sp.bessely(n + sp.Rational(1, 2), x)),
    sp.li: _as(lambda x: sp.Ei(sp.log(x))), sp.erf2: _as(lambda x, y: sp.erf(y) - sp.erf(x)),
    sp.erfcinv: _by_adapter("erfcinv"), sp.loggamma: _by_adapter("loggamma"),
    sp.beta: _by_adapter("beta"), sp.binomial: _by_adapter("binom"), sp.factorial: _as(lambda n: sp.gamma(n + 1)),
    sp.RisingFactorial: _by_adapter("poch"), sp.FallingFactorial: _as(lambda x, n: sp.RisingFactorial(x - n + 1, n)),
    cfunctions.log1p: _call("log1p"), cfunctions.expm1: _call("expm1"), cfunctions.log2: _call("log2"), cfunctions.log10: _call("log10"),
    cfunctions.exp2: _call("exp2"), cfunctions.hypot: _call("hypot"), cfunctions.Sqrt: _call("sqrt"),
    cfunctions.fma: _as(lambda x, y, z: x * y + z),
    numpy_nodes.logaddexp: _call("logaddexp"), numpy_nodes.logaddexp2: _call("logaddexp2"),
    # indices
    sp.Indexed: lambda run, e: run.picked(run.value(e.base), e, e.indices),
    index_algebra.Element: lambda run, e: run.picked(run.value(e.args[0]), e, e.args[1:]),
    MatrixElement: lambda run, e: run.picked(run.value(e.args[0]), e, e.args[1:]),
    sp.KroneckerDelta: TensorTranslator.delta,
    # matrices
    sp.MatAdd: TensorTranslator.sum_of_matrices, sp.MatMul: TensorTranslator.product_of_matrices,
    sp.MatPow: TensorTranslator.matrix_power, sp.Inverse: lambda run, e: linalg.inv(run.value(e.arg)),
    sp.Transpose: lambda run, e: run.value(e.arg).T, sp.Adjoint: lambda run, e: F.conj(run.value(e.arg)).resolve_conj().T,
    sp.HadamardProduct: lambda run, e: functools.reduce(F.mul, map(run.value, e.args)),
    sp.HadamardPower: TensorTranslator.elements_power,
    sp.Trace: lambda run, e: F.trace(run.value(e.arg)), sp.Determinant: lambda run, e: linalg.det(run.value(e.arg)),
    sp.OneMatrix: lambda run, e: run.filled(e, 1), sp.ZeroMatrix: lambda run, e: run.filled(e, 0), sp.Identity: TensorTranslator.identity,
    sp.DiagMatrix: lambda run, e: F.diag(run.value(e.args[0]).reshape(-1)),
    _E.diagonal.DiagonalOf: lambda run, e: F.diagonal(run.value(e.arg)).reshape(-1, 1),
    _E.kronecker.KroneckerProduct: lambda run, e: functools.reduce(F.kron, map(run.value, e.args)),
    sp.BlockMatrix: TensorTranslator.blocks, _E.slice.MatrixSlice: TensorTranslator.sliced,
    ElementwiseApplyFunction: lambda run, e: run.applied(e.function, [e.expr]),
    standard.Map: lambda run, e: run.applied(e.args[0], e.args[1:]),
    standard.softmax: lambda run, e: F.softmax(run.value(e.args[0]), e.axis),
    standard.log_softmax: lambda run, e: F.log_softmax(run.value(e.args[0]), e.axis),
    standard.logsumexp: lambda run, e: F.logsumexp(run.value(e.args[0]), e.axis, keepdim=True),
    sp.ImmutableDenseMatrix: TensorTranslator.explicit, sp.ImmutableSparseMatrix: TensorTranslator.explicit,
    sp.MutableDenseMatrix: TensorTranslator.explicit, sp.MutableSparseMatrix: TensorTranslator.explicit,
    sp.NDimArray: TensorTranslator.explicit,
}  # fmt: skip
"""The function of a SymPy class; of a subclass, if that has none of its own."""


_OF_INDICES: dict[Any, Callable[..., Any]] = {
    sp.Add: lambda *xs: functools.reduce(np.add, xs), sp.Mul: lambda *xs: functools.reduce(np.multiply, xs), sp.Pow: np.power,
    sp.floor: np.floor, sp.ceiling: np.ceil, sp.Mod: np.mod, sp.Abs: np.abs,
    sp.Max: lambda *xs: functools.reduce(np.maximum, xs), sp.Min: lambda *xs: functools.reduce(np.minimum, xs),
    sp.Eq: np.equal, sp.Ne: np.not_equal, sp.Lt: np.less, sp.Le: np.less_equal, sp.Gt: np.greater, sp.Ge: np.greater_equal,
    sp.And: lambda *xs: functools.reduce(np.logical_and, xs), sp.Or: lambda *xs: functools.reduce(np.logical_or, xs),
    sp.Not: np.logical_not,
    sp.KroneckerDelta: lambda i, j: np.equal(i, j).astype(np.int64),
}  # fmt: skip
"""What is computed of indices, before any tensor is."""


def _imaginary(x: Tensor) -> Tensor:
    return F.imag(x) if x.is_complex() else F.mul(x, 0)
