"""A linear form in matrix notation as a matrix: Aᵀ (s ∘ (A g)), linear in g, is Aᵀ diag(s) A applied to g."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sympy as sp

from symgrad.compiler.symbolic.limits import tidy
from symgrad.compiler.symbolic.notations.matrix_algebra import Entry, Total, added, scaled, times, transposed
from symgrad.errors import FormulaError

if TYPE_CHECKING:
    from symgrad.compiler.symbolic.notations.matrix import Matrices


def coefficient(run: Matrices, e: Any, g: Any, shape: tuple[int, ...]) -> Any:
    """Return M, given a scalar expression of atoms that stands for M g; `g` is a column."""
    terms = []
    opened, scalars = e, {}
    numbers = dict.fromkeys(s for s in sp.preorder_traversal(e) if isinstance(s, (Entry, Total, sp.Trace)) and s.has(g))
    for number in sorted(numbers, key=_parts, reverse=True):  # outer ones first
        if opened.has(number):
            scalars[number] = sp.Dummy(real=True)
            opened = opened.xreplace({number: scalars[number]})
    for scalar, stand_in in scalars.items():
        terms.append(times(_column(run, sp.diff(opened, stand_in), shape), _row(run, scalar, g)))
    for atom in run.atoms(opened):
        if run.matrix_of[atom].has(g):
            inner = _matrix(run, run.matrix_of[atom], g)
            factors = sp.Mul.make_args(tidy(sp.diff(opened, atom)))
            scale, slope = (sp.Mul(*(f for f in factors if bool(run.atoms(f)) is varies)) for varies in (False, True))
            terms.append(scaled(scale, inner if slope == 1 else times(sp.DiagMatrix(run.matrix(slope, shape)), inner)))
    if not terms:
        return sp.ZeroMatrix(*_size(shape)[:1], g.shape[0])
    return added(terms)


def _parts(e: Any) -> int:
    return sum(1 for _ in sp.preorder_traversal(e))


def _size(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape or (1,)


def _column(run: Matrices, e: Any, shape: tuple[int, ...]) -> Any:
    return run.matrix(e, shape) if shape else scaled(e, sp.Identity(1))


def _row(run: Matrices, scalar: Any, g: Any) -> Any:
    """Return rᵀ, given a scalar rᵀ g."""
    if isinstance(scalar, Entry):
        return _matrix(run, scalar.args[0], g)
    if isinstance(scalar, Total) and scalar.args[0].shape[1] == 1:
        column = scalar.args[0]
        return times(sp.OneMatrix(1, column.shape[0]), _matrix(run, column, g))
    raise _no_form(scalar)


def _matrix(run: Matrices, m: Any, g: Any) -> Any:
    """Return M, given a column (or a scalar) M g."""
    if m == g:
        return sp.Identity(g.shape[0])
    if m.shape[1] != 1:
        raise _no_form(m)
    if m in run.scalar_of:
        e, shape = run.scalar_of[m]
        return coefficient(run, e, g, shape)
    if isinstance(m, sp.MatMul):
        return _product(run, m, g)
    raise _no_form(m)


def _product(run: Matrices, m: Any, g: Any) -> Any:
    scale = sp.Mul(*(f for f in m.args if not f.is_Matrix))
    factors = [f for f in m.args if f.is_Matrix]
    where = [i for i, f in enumerate(factors) if f.has(g)]
    if len(where) != 1 or scale.has(g):
        raise _no_form(m)
    before, inner, after = factors[: where[0]], factors[where[0]], factors[where[0] + 1 :]
    if not after:
        return scaled(scale, times(*before, _matrix(run, inner, g)))
    if inner.shape[1] == 1:  # the factors after it are a scalar
        return scaled(scale * Entry(times(*after)), times(*before, _matrix(run, inner, g)))
    if inner.shape[0] == 1:  # a row r times a column c: r c = cᵀ rᵀ
        return scaled(scale, times(*before, transposed(times(*after)), _matrix(run, transposed(inner), g)))
    raise _no_form(m)


def _no_form(e: Any) -> FormulaError:
    return FormulaError(f"matrix notation has no form for a derivative of {e.__class__.__name__}; try 'index'")
