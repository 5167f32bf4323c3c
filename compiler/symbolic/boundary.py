"""Formulas as they are handed out: complete, in the names of the arguments, made of SymPy's classes and those of `standard`.

Inside, symbols have safe names and assumptions, intermediate results have names, and indices know their range. All of that ends here: one
pass over an expression replaces symbols, inserts the lines that it refers to, and gives every bound index a letter that nothing around it
uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.ir.graph import Value
from symgrad.compiler.symbolic import nonfinite, standard
from symgrad.compiler.symbolic.notations import index_algebra, matrix_algebra
from symgrad.compiler.symbolic.program import FormulaProgram, Line
from symgrad.compiler.symbolic.public_names import fresh, letters, safe_names
from symgrad.compiler.symbolic.to_sympy import Same, number
from symgrad.errors import FormulaError

FUNCTIONS = ("standard", "elementary")
MAX_PARTS = 20_000
"""Largest number of parts of an expression that is handed out."""
_NAMED = nonfinite.OPAQUE_ROWS | frozenset(
    ("softplus", "sigmoid", "log_sigmoid", "silu", "mish", "gelu", "normal_cdf", "expm1", "log1p", "log_cosh", "log1p_square", "log1mexp",
     "xlogx", "xlogy", "xlog1py", "power1pm1", "sech_square", "exprel", "bose", "logaddexp", "logaddexp2", "logit", "entr", "ndtri",
     "sinc_derivative")
)  # fmt: skip
"""Rows that are handed out as functions of their own name; others as what they mean."""


@dataclass
class _Scope:
    """The public expressions of the internal indices in scope, and the letters that they use."""

    indices: Mapping[Any, Any] = field(default_factory=dict)
    letters: frozenset[str] = frozenset()
    known: dict[Any, Any] = field(default_factory=dict)


class Boundary:
    """The conversion of one program. With `real`, symbols of real inputs have the assumption."""

    def __init__(self, program: FormulaProgram, inputs: tuple[tuple[str, Value], ...], functions: str, real: bool) -> None:
        if functions not in FUNCTIONS:
            raise ValueError(f"functions must be one of {', '.join(map(repr, FUNCTIONS))}, got {functions!r}")
        self.program, self.functions, self.real = program, functions, real
        self.names = safe_names([label for label, _ in inputs])
        self.used = {*self.names, *self.names.values()}
        self.symbols: dict[str, Any] = {}
        """The public symbols of each input, by its label: a Symbol, MatrixSymbol or IndexedBase, or a matrix or array of Symbols."""
        self.leaves: dict[Any, Any] = {}
        for internal, (label, x) in zip(program.inputs, inputs, strict=True):
            self.symbols[label] = self.symbol(internal, label, x)
        self.lines = {line.symbol: line for line in program.lines}
        self.sizes: dict[Any, int] = {}

    def symbol(self, internal: Any, label: str, x: Value) -> Any:
        """Return the public symbol of an input, and enter it in `leaves`."""
        name, assumed = self.names[label], {"real": True} if self.real and x.dtype.kind != "c" else {}
        if isinstance(internal, np.ndarray):
            elements = np.empty(internal.shape, object)
            for at in np.ndindex(internal.shape):
                element = name if not at else fresh("_".join(map(str, (name, *at))), self.used)
                self.used.add(element)
                elements[at] = self.leaves[internal[at]] = sp.Symbol(element, **assumed)
            return as_sympy(elements)
        made: Any
        if isinstance(internal, sp.MatrixExpr):
            made = sp.MatrixSymbol(name, *internal.shape)
        elif isinstance(internal, sp.IndexedBase):
            made = sp.IndexedBase(name, shape=internal.shape)
        else:
            made = sp.Symbol(name, **assumed)
        self.leaves[internal] = made
        return made

    @cached_property
    def variable(self) -> str:
        """The name of the variable of elementwise functions."""
        return fresh("u", self.used)

    def result(self, line: Line, shape: tuple[int, ...]) -> Any:
        """Return an output: an expression, or in elements notation a matrix or an array."""
        e = line.expression
        if isinstance(e, np.ndarray):
            found = np.empty(e.shape, object)
            for at in np.ndindex(e.shape):
                found[at] = self.convert(e[at], _Scope())
            return as_sympy(found.reshape(shape))
        if self.program.notation != "index":
            return self.convert(e, _Scope())
        chosen = letters(self.used)
        free = {index_algebra.free(p, n): sp.Symbol(next(chosen)) for p, n in enumerate(shape)}
        return self.convert(e, _Scope(free, frozenset(s.name for s in free.values())))

    def convert(self, e: Any, scope: _Scope) -> Any:
        if e not in scope.known:
            found = self.converted(e, scope)
            self.measure(found)
            scope.known[e] = found
        return scope.known[e]

    def measure(self, e: Any) -> None:
        """Raise FormulaError if an expression is too long to be written out."""
        if e in self.sizes:
            return
        for a in e.args:
            self.measure(a)
        self.sizes[e] = 1 + sum(self.sizes[a] for a in e.args)
        if self.sizes[e] > MAX_PARTS:
            raise FormulaError(
                f"this formula has more than {MAX_PARTS} parts when it is written out: str(derivation) shows it with names for its parts, "
                "and derivation(...) computes it"
            )

    def converted(self, e: Any, scope: _Scope) -> Any:
        if e in scope.indices:
            return scope.indices[e]
        if e in self.leaves:
            return self.leaves[e]
        if e in self.lines:
            return self.convert(self.lines[e].expression, scope)
        rule = _RULES.get(e.func)
        if rule is not None:
            return rule(self, e, scope)
        if getattr(e.func, "application", None) is not None and e.func.application.row.elementwise:
            return self.row(e, scope)
        if not e.args:
            return e
        args = [self.convert(a, scope) for a in e.args]
        unchanged = isinstance(e, sp.Pow) and args[1].has(sp.MatrixExpr)  # SymPy would split matrices in an exponent
        return e.func(*args, evaluate=False) if unchanged else e.func(*args)

    def row(self, e: Any, scope: _Scope) -> Any:
        """Return a row that the formula shows under its own name: a class of `standard`, or what it means."""
        application = e.func.application
        args = [self.convert(a, scope) for a in e.args]
        if application.row.sympy is None:
            return e.func(*args)
        if application.row.name == "div":
            return args[0] / args[1]
        if application.row.name not in _NAMED or self.functions == "elementary":
            return application.row.sympy(sp, *args, **{k: number(x) for k, x in application.attrs.items()})
        made = standard.class_of(application.row.name, tuple(application.attrs.items()), not application.shown)
        return made(*args)

    # matrix notation

    def matrices(self, e: Any, scope: _Scope) -> Any:
        """Return an elementwise function of matrices as sums, Hadamard products, powers, and functions of one matrix."""
        matrices = {name: self.convert(m, scope) for name, m in zip(e.function.variables, e.matrices, strict=True)}
        return self.spread(self.convert(e.function.expr, _Scope(scope.indices, scope.letters, dict(scope.known))), matrices, e.shape)

    def spread(self, e: Any, matrices: Mapping[Any, Any], shape: tuple[int, int]) -> Any:
        atoms = [name for name in matrices if name in e.free_symbols]
        if not atoms:
            return sp.OneMatrix(*shape) if e == 1 else sp.MatMul(e, sp.OneMatrix(*shape))
        if e in matrices:
            return matrices[e]
        if isinstance(e, sp.Mul):
            scale, rest = e.as_independent(*atoms, as_Add=False)
            if scale != 1:
                return sp.MatMul(scale, self.spread(rest, matrices, shape))
        if isinstance(e, sp.Pow) and e.base in matrices and e.exp.is_Integer and e.exp > 1:
            return standard.Power(matrices[e.base], e.exp)
        if len(atoms) == 1 and not (isinstance(e, sp.Add) and e.is_polynomial(*atoms)):
            u = sp.Symbol(self.variable)
            return standard.Apply(sp.Lambda(u, e.xreplace({atoms[0]: u})), matrices[atoms[0]])
        if isinstance(e, (sp.Add, sp.Mul)):
            combine = sp.MatAdd if isinstance(e, sp.Add) else sp.HadamardProduct
            return combine(*(self.spread(part, matrices, shape) for part in e.args))
        return self.mapped(e, atoms, matrices, shape)

    def mapped(self, e: Any, atoms: list[Any], matrices: Mapping[Any, Any], shape: tuple[int, int]) -> Any:
        """Return a function of one expression of several matrices, or of several."""
        inner = [a for a in e.args if not a.free_symbols.isdisjoint(atoms)]
        if len(inner) == 1 and isinstance(inner[0], sp.Expr):
            u = sp.Symbol(self.variable)
            return standard.Apply(sp.Lambda(u, e.xreplace({inner[0]: u})), self.spread(inner[0], matrices, shape))
        names = {a: sp.Symbol(fresh(f"u{n}", self.used)) for n, a in enumerate(atoms)}
        return standard.Map(sp.Lambda(tuple(names.values()), e.xreplace(names)), *(matrices[a] for a in atoms))

    def rows(self, e: Any, scope: _Scope) -> Any:
        made = standard.ROWS[e.name](self.convert(e.args[1], scope))
        return made.elementary if self.functions == "elementary" else made

    # index notation

    def indexed(self, e: Any, scope: _Scope) -> Any:
        places = [self.convert(i, scope) for i in e.indices]
        if e.base not in self.lines:
            return self.leaves[e.base][tuple(places)]
        line = self.lines[e.base]
        return self.convert(line.expression, _Scope(dict(zip(line.name.indices, places, strict=True)), scope.letters))

    def inner(self, scope: _Scope, *bound: Any) -> tuple[_Scope, list[Any]]:
        """Return the scope inside a binder, and the public indices that it binds."""
        chosen = letters({*self.used, *scope.letters})
        names = [sp.Symbol(next(chosen)) for _ in bound]
        indices = {**scope.indices, **dict(zip(bound, names, strict=True))}
        return _Scope(indices, scope.letters | {s.name for s in names}), names

    def sigma(self, e: Any, scope: _Scope) -> Any:
        within, names = self.inner(scope, *(limit[0] for limit in e.limits))
        limits = [(name, *(self.convert(end, within) for end in limit[1:])) for name, limit in zip(names, e.limits, strict=True)]
        return unevaluated(sp.Sum, self.convert(e.function, within), *limits)

    def fold(self, e: Any, scope: _Scope) -> Any:
        name, body, (k, first, last) = str(e.args[0]), e.args[1], e.args[2]
        ends = [self.convert(end, scope) for end in (first, last)]
        if name in ("prod", "logsumexp"):
            within, (index,) = self.inner(scope, k)
            inside = self.convert(body, within)
            if name == "prod":
                return unevaluated(sp.Product, inside, (index, *ends))
            return sp.log(unevaluated(sp.Sum, sp.exp(inside), (index, *ends)))
        combine, empty = _FOLDS[name]
        terms = []
        for n in range(index_algebra.size(k)):
            value = self.convert(body, _Scope({**scope.indices, k: sp.Integer(n)}, scope.letters))
            inside = sp.And(sp.Le(ends[0], n), sp.Le(n, ends[1]))
            terms.append(value if inside == sp.true else sp.Piecewise((value, inside), (empty, True)))
        return combine(*terms)

    def last(self, e: Any, scope: _Scope) -> Any:
        """Return the value at the last index where the bracket is 1 as a choice among all indices, the last one first."""
        value, hit, default, *limits = e.args
        sizes = [index_algebra.size(limit[0]) for limit in limits]
        branches = []
        for at in reversed(list(np.ndindex(*sizes))):
            place = {limit[0]: sp.Integer(n) for limit, n in zip(limits, at, strict=True)}
            within = _Scope({**scope.indices, **place}, scope.letters)
            branches.append((self.convert(value, within), sp.Ne(self.convert(hit, within), 0)))
        return sp.Piecewise(*branches, (self.convert(default, scope), True))

    def product(self, e: Any, scope: _Scope) -> Any:
        """Return a product; where a bracket is 0 it is 0, whatever the other factors are there, so it becomes a choice."""
        brackets = [a for a in e.args if isinstance(a, index_algebra.Within)]
        others = sp.Mul(*(self.convert(a, scope) for a in e.args if a not in brackets))
        conditions = [self.inside(b, scope) for b in brackets]
        return sp.Piecewise((others, sp.And(*conditions)), (0, True)) if brackets else others

    def inside(self, bracket: Any, scope: _Scope) -> Any:
        place, low, high = (self.convert(a, scope) for a in bracket.args)
        return sp.And(sp.Ge(place, low), sp.Lt(place, high))

    def within(self, e: Any, scope: _Scope) -> Any:
        return sp.Piecewise((1, self.inside(e, scope)), (0, True))


def unevaluated(cls: Any, body: Any, *limits: Any) -> Any:
    """Return a Sum or Product as it is: SymPy's constructor moves conditions out of it, which can take forever."""
    made = sp.Expr.__new__(cls, body, *(sp.Tuple(*limit) for limit in limits))
    made.is_commutative = True
    return made


def as_sympy(array: Any) -> Any:
    """Return an array of expressions as a matrix; a vector is a column, as in matrix notation. More dimensions make an Array."""
    if not array.ndim:
        return array[()]
    if array.ndim <= 2 and prod(array.shape):
        return sp.ImmutableDenseMatrix(array.shape[0], prod(array.shape[1:]), list(array.ravel()))
    return sp.ImmutableDenseNDimArray(list(array.ravel()), array.shape)


def _maker(make: Callable[..., Any]) -> Callable[[Boundary, Any, _Scope], Any]:
    return lambda run, e, scope: make(*(run.convert(a, scope) for a in e.args))


_FOLDS: dict[str, tuple[Any, Any]] = {
    "max": (sp.Max, -sp.oo), "min": (sp.Min, sp.oo), "all": (sp.And, sp.true), "any": (sp.Or, sp.false),
}  # fmt: skip
_RULES: dict[Any, Callable[[Boundary, Any, _Scope], Any]] = {
    matrix_algebra.Elementwise: Boundary.matrices,
    matrix_algebra.Rows: Boundary.rows,
    matrix_algebra.Total: _maker(standard.total),
    matrix_algebra.Entry: _maker(standard.entry),
    matrix_algebra.Det: _maker(standard.Determinant),
    sp.Trace: _maker(standard.Trace),
    sp.HadamardPower: _maker(standard.Power),
    sp.DiagMatrix: _maker(standard.Diagonal),
    sp.Mul: Boundary.product,
    sp.Indexed: Boundary.indexed,
    index_algebra.Sigma: Boundary.sigma,
    index_algebra.Fold: Boundary.fold,
    index_algebra.Last: Boundary.last,
    index_algebra.Within: Boundary.within,
    index_algebra.Quotient: _maker(lambda e, n: sp.floor(e / n)),
    index_algebra.FromEnd: _maker(sp.Mod),
    Same: _maker(sp.Eq),
}
