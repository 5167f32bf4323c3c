"""Shorter forms of scalar expressions: equal, shorter, and within bounds."""

from __future__ import annotations

import time

import pytest
import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import added, is_symmetric, times, transposed, turned
from symgrad.compiler.symbolic.shorter import length, shorter

a, b, x = sp.symbols("a b x", real=True)
X, A, B = (sp.MatrixSymbol(name, 3, 3) for name in "XAB")
W, u = sp.MatrixSymbol("W", 4, 3), sp.MatrixSymbol("u", 3, 1)


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (-x / (x + 1) ** 2 + 1 / (x + 1), (x + 1) ** -2),
        (x * sp.exp(x) + 5 * sp.exp(x), (x + 5) * sp.exp(x)),
        (x * x ** (x - 1) + x**x * sp.log(x), x**x * (sp.log(x) + 1)),
        (-1 / (x**2 * (1 + x**-2)), -1 / (x**2 + 1)),
        (a * sp.exp(a * x) * sp.sin(b * x) + b * sp.exp(a * x) * sp.cos(b * x), (a * sp.sin(b * x) + b * sp.cos(b * x)) * sp.exp(a * x)),
        ((sp.sin(x) - 1) * (sp.sin(x) + 1), (sp.sin(x) - 1) * (sp.sin(x) + 1)),  # expanded it would lose digits
        (sp.sin(x) + sp.cos(x), sp.sin(x) + sp.cos(x)),
    ],
)
def test_forms(long, short):
    assert shorter(long) == short
    assert length(short) <= length(long)
    assert abs((long - short).subs({x: 0.37, a: 1.2, b: 0.7}).evalf()) < 1e-12


@pytest.mark.parametrize(("e", "count"), [(x, 1), (1 / x, 3), (x - 1, 3), (1 - x, 3), (2 * x, 3), (-x, 2), (sp.sqrt(x), 2), (x**2, 3)])
def test_length(e, count):
    assert length(e) == count


def test_long_expressions_stay():
    many = sp.symbols("y:40", real=True)
    e = sp.Add(*(1 / (v + x) for v in many))
    begin = time.perf_counter()
    assert shorter(e) is e
    assert time.perf_counter() - begin < 0.5


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (added([A, sp.MatMul(2, A)]), sp.MatMul(3, A)),
        (added([A, sp.MatMul(-1, A)]), sp.ZeroMatrix(3, 3)),
        (added([sp.MatMul(A, u), sp.MatMul(B, u), u]), sp.MatAdd(u, sp.MatMul(sp.MatAdd(A, B), u))),
        (added([sp.MatMul(x, A), sp.MatMul(x**2, B)]), sp.MatMul(x, sp.MatAdd(A, sp.MatMul(x, B)))),
        (added([sp.MatMul(1 / x, A), sp.MatMul(a / x**2, B)]), sp.MatMul(1 / x, sp.MatAdd(A, sp.MatMul(a / x, B)))),
        (times(A, X, sp.Inverse(sp.MatMul(X.T, A, X))), sp.Transpose(sp.Inverse(X))),
        (times(sp.Inverse(sp.MatMul(A, X)), A), sp.Inverse(X)),
        (times(X, sp.Inverse(X)), sp.Identity(3)),
        (times(W, sp.Inverse(sp.MatMul(W.T, W))), sp.MatMul(W, sp.Inverse(sp.MatMul(W.T, W)))),  # W is not square
        (transposed(sp.Inverse(sp.MatMul(W.T, W))), sp.Inverse(sp.MatMul(W.T, W))),
        (turned(sp.MatAdd(sp.MatMul(B.T, X.T), sp.MatMul(X.T, B.T))), sp.Transpose(sp.MatAdd(sp.MatMul(X, B), sp.MatMul(B, X)))),
        (turned(sp.MatAdd(A.T, B.T)), sp.MatAdd(A.T, B.T)),
    ],
)
def test_matrices(found, wanted):
    assert found.doit() == wanted.doit()


@pytest.mark.parametrize(("matrix", "answer"), [(A, False), (A + A.T, True), (A.T * A, True), (A * B, False), (W.T * W, True)])
def test_symmetric_by_form(matrix, answer):
    assert is_symmetric(matrix) is answer
