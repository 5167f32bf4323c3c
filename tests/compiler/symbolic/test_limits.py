"""Bounds on the work of SymPy, and the numbers, labels and names of a formula, at their boundaries."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value, literal
from symgrad.compiler.symbolic import limits, to_sympy
from symgrad.compiler.symbolic.alpha_equivalence import Forms
from symgrad.compiler.symbolic.derivation import shortened
from symgrad.compiler.symbolic.label_text import clean, latex_label
from symgrad.compiler.symbolic.limits import MAX_OPS, MAX_TERMS, Limits, size, tidy
from symgrad.compiler.symbolic.lower import lower
from symgrad.compiler.symbolic.nonfinite import introduces_nonfinite, is_decided, may_vanish
from symgrad.errors import FormulaError

x, y, z = sp.symbols("x y z", real=True)


def test_which_expressions_get_a_name():
    """More symbols than `most` (4), more than `shared` (2) if it is used twice, or repetitions of more than `repeated` (10) parts."""
    some = Limits(shared=2, most=4, parts=9, repeated=10, worth_it=3)
    assert [some.exceeded((n, 1), 1) for n in (4, 5)] == [False, True]
    assert [some.exceeded((n, 1), 2) for n in (2, 3)] == [False, True]
    assert [some.exceeded((1, 5), uses) for uses in (1, 3, 4)] == [False, False, True]  # 0, 10 and 15 parts are repeated
    assert [some.exceeded((1, parts), 9) for parts in (2, 3)] == [False, True]
    assert Limits(2, 4, 9, 10).worth_it == 8


def test_longer_graphs_have_more_names():
    assert limits.limits(1) is limits.limits(40)
    assert limits.limits(41) is limits.limits(150)
    assert limits.limits(151) is limits.limits(10**6)
    short, net, long = (limits.limits(n) for n in (40, 41, 151))
    assert short.repeated == math.inf
    assert net.repeated < math.inf
    assert long.most < net.most == short.most


def test_the_size_of_an_expression_is_its_symbols_and_its_parts():
    e = sp.sin(x) + x * y  # add, sin, x, mul, x, y
    assert size(e, 9, 9) == (3, 6)
    assert size(e, 3, 6) == (3, 6)
    assert size(e, 2, 9) == (3, 10)
    assert size(e, 9, 5) == (10, 6)
    assert size(x, 1, 1) == (1, 1)
    matrix = sp.MatrixSymbol("A", 2, 2)
    assert size(matrix, 9, 9) == (1, 1)
    assert size(sp.Lambda(x, x + y), 9, 9) == (3, 2)  # the variable stands for a matrix, which is counted where it is used


def test_short_quotients_are_written_over_one_denominator():
    equally_long = 1 / x + 1 / y
    assert tidy(equally_long) is equally_long
    assert str(tidy(1 / (1 + x) - 1 / (1 + x) ** 2)) == "x/(x + 1)**2"
    assert tidy(x + 1) == x + 1  # without a denominator
    for left_alone in (1 / x + 0.5 / y, sp.Piecewise((1 / x + 1 / y, x > 0), (0, True))):
        assert tidy(left_alone) is left_alone
    already = (x + y) / (x * y)
    assert tidy(already) == already


@pytest.mark.parametrize(("degree", "variables", "factored"), [(23, 1, True), (25, 1, False), (7, 2, True), (9, 2, False)])
def test_factors_are_sought_only_up_to_a_degree(degree, variables, factored, monkeypatch):
    asked = []
    own = sp.factor
    monkeypatch.setattr(limits.sp, "factor", lambda e: asked.append(e) or own(e))
    e = x**degree + 1 / x if variables == 1 else x ** (degree - 1) * y + 1 / x
    tidy(e)
    assert bool(asked) is factored


def test_factors_are_sought_only_among_few_terms(monkeypatch):
    """(a + b)² has 3 terms, and (a + b)⁶⁴ has 65."""
    assert limits.multiplied_out((x + y) ** 2 / (x + 1) ** 3, set()) == (3, 4, 2 * 2 + 3)  # the degrees of all terms add up
    assert limits.multiplied_out(1 / x + 1 / y, set()) == (2, 1, 2)
    assert limits.multiplied_out((x + y) * (x + z), set())[0] == 4
    assert limits.multiplied_out(sp.sqrt(x) ** 3, set()) == (1, 1, 3)
    assert limits.multiplied_out(sp.Integer(7), set()) == (1, 1, 0)
    assert limits.multiplied_out((x + y) ** MAX_TERMS, set()) == (MAX_TERMS + 1, 1, MAX_TERMS * 2)
    assert limits.multiplied_out((x + y) ** (MAX_TERMS + 1), set()) == (1, 1, 2 * (MAX_TERMS + 1))
    found = set()
    limits.multiplied_out(sp.exp(9 * x) + sp.sqrt(y), found)
    assert found == {sp.exp(9 * x), sp.sqrt(y)}
    assert limits._exponent(sp.exp(9 * x - 4)) == 9
    assert limits._exponent(sp.exp(-5 * x)) == 5
    assert limits._exponent(sp.sin(x)) == 1
    asked = []
    monkeypatch.setattr(limits.sp, "factor", lambda e: asked.append(e) or e)
    many = sum((sp.Symbol(f"a{i}") for i in range(MAX_OPS + 1)), 1 / x)
    assert tidy(many) is many
    assert not asked


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (0.5, sp.Rational(1, 2)), (1 / 64, sp.Rational(1, 64)), (1 / 128, sp.Float(1 / 128, 17)), (999999.0, sp.Integer(999999)),
        (1e6, sp.Float(1e6, 17)), (-0.25, sp.Rational(-1, 4)), (math.inf, sp.oo), (-math.inf, -sp.oo), (math.nan, sp.nan),
        (3, sp.Integer(3)), (True, sp.true), (False, sp.false), (1 + 2j, 1 + 2 * sp.I),
    ],
)  # fmt: skip
def test_numbers_are_exact_and_short_fractions_rational(given, wanted):
    found = to_sympy.number(given)
    assert found is wanted or found == wanted
    assert type(found) is type(wanted)


def test_literals_have_the_kind_of_their_type():
    assert to_sympy.literal(literal(True, np.float64)) == 1
    assert to_sympy.literal(literal(True, np.bool_)) is sp.true
    assert [to_sympy.symbol("a", np.dtype(t)).is_real for t in (np.float64, np.int64, np.complex128, np.bool_)] == [True, True, None, None]


@pytest.mark.parametrize(
    ("label", "wanted"),
    [
        ("x", "x"), ("w1", "w_{1}"), ("w_1", "w_{1}"), ("theta", r"\theta"), ("alpha2", r"\alpha_{2}"), ("weight", r"\mathrm{weight}"),
        ("w[0, 1]", "w_{0,1}"), ("w1[2]", "w_{1, 2}"), ("x\N{COMBINING MACRON}", r"\bar{x}"), ("v\N{COMBINING MACRON}12", r"\bar{v}_{12}"),
        ("a_b", "a_{b}"), ("0.weight", r"\mathrm{0.weight}"), ("50%", r"\mathrm{50\%}"), ("a\x07b", r"\mathrm{a?b}"),
        ("W_q", "W_{q}"), ("x_hat", r"\hat{x}"), ("x_hat1", r"\hat{x}_{1}"), ("lam", r"\lambda"), ("theta1", r"\theta_{1}"),
        ("mu_", r"\mathrm{mu\_}"),
        ("learning_rate", r"\mathrm{learning\_rate}"), ("β", r"\beta"), ("Δx", r"\mathrm{\Delta x}"),
        ("é", r"\mathrm{e}"), ("中", r"\mathrm{U4E2D}"),
        ("v\N{COMBINING MACRON}2[0, 1]", r"\bar{v}_{2, 0, 1}"), ("weight\N{COMBINING MACRON}", r"\bar{\mathrm{weight}}"),
    ],
)  # fmt: skip
def test_labels_in_latex(label, wanted):
    assert latex_label(label) == wanted


def test_labels_lose_their_control_characters():
    assert clean("a\x1b[2Jb") == "a?[2Jb"


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        ([f"w{i}" for i in range(6)], "w0 w1 w2 w3 w4 w5"), ([f"w{i}" for i in range(7)], "w0 ... w6"),
        (["x", *(f"w{i}" for i in range(9)), "y"], "x w0 ... w8 y"), ([f"w{2 * i}" for i in range(7)], "w0 w2 w4 w6 w8 w10 w12"),
        ([*(f"a{i}" for i in range(4)), *(f"b{i}" for i in range(4, 8))], "a0 a1 a2 a3 b4 b5 b6 b7"), ([], ""),
        ([f"w{i}" for i in reversed(range(7))], "w6 w5 w4 w3 w2 w1 w0"),
        ([f"l.{i}.w" for i in range(7)], " ".join(f"l.{i}.w" for i in range(7))),
    ],
)  # fmt: skip
def test_long_runs_of_labels_are_abbreviated(labels, wanted):
    assert " ".join(shortened(labels)) == wanted


def test_equal_forms_differ_only_in_names():
    inputs = [input_value(i, (), np.float64) for i in range(3)]
    a, b, c = inputs
    forms = Forms()
    for v in inputs:
        forms.name(v)
    made = [a * xp.sin(b), b * xp.sin(c), a * xp.sin(a), a * xp.cos(b)]
    graph = Graph(inputs, made)
    for v in graph.values:
        forms.of(v)
    numbers = [forms.of(v)[0] for v in made]
    assert numbers[0] == numbers[1]
    assert len({numbers[0], numbers[2], numbers[3]}) == 3
    assert [forms.of(v)[1] for v in made] == [(a, b), (b, c), (a,), (a, b)]
    wide = input_value(3, (2,), np.float64)
    forms.name(wide)
    assert forms.of(wide)[0] != forms.of(a)[0]
    forms.name(b, kind="another")
    assert forms.of(b)[0] != forms.of(a)[0]
    forms.alone(c)
    assert forms.of(c) == (forms.of(c)[0], ())
    assert forms.of(c)[0] != forms.of(a)[0]


def test_which_decisions_of_sympy_hold_for_nan_and_infinities():
    assert is_decided("lt", (x, y), x < y)  # undecided
    assert is_decided("lt", (sp.Integer(1), sp.Integer(2)), sp.true)  # of numbers
    assert is_decided("lt", (x, x), sp.false)
    assert not is_decided("le", (x, x), sp.true)  # NaN <= NaN is false
    assert is_decided("ne", (x, y), sp.true)
    assert not is_decided("ne", (x, x), sp.false)
    assert not is_decided("lt", (sp.oo, x), sp.false)
    assert introduces_nonfinite(sp.zoo, (sp.zoo,))
    assert introduces_nonfinite(sp.oo * sp.Symbol("p"), (x,))
    assert not introduces_nonfinite(sp.oo, (sp.oo, x))
    assert not introduces_nonfinite(x, (x,))
    assert may_vanish(2 * sp.KroneckerDelta(sp.Symbol("i"), 1) ** 3)
    assert may_vanish(sp.Piecewise((1, x > 0), (0, True)))
    assert not may_vanish(sp.Piecewise((1, x > 0), (2, True)) * x)


# which notation is chosen


def chosen(f, *shapes, notation="auto"):
    return sg.derive(f, notation=notation)(*map(sg.spec, shapes)).program.notation


def test_elements_are_spelled_out_up_to_sixteen_of_them():
    f = lambda x: (x.roll(1) * x).sum()
    assert chosen(f, (16,)) == "elements"
    assert chosen(f, (17,)) == "index"
    g = lambda x: x.flip(0) * x  # with a Jacobian of n² elements
    assert chosen(g, (4,)) == "elements"
    assert chosen(g, (5,)) == "index"


def test_elements_notation_is_for_up_to_512_elements():
    f = lambda x: x.sum()
    assert chosen(f, (512,), notation="elements") == "elements"
    with pytest.raises(FormulaError, match=r"elements notation is for small tensors: x is float32\[513\]"):
        chosen(f, (513,), notation="elements")
    with pytest.raises(FormulaError, match=r"elements notation is for small tensors: mul gives float32\[23, 23\]"):
        sg.derive(lambda x: (x[:, None] * x).sum(), notation="elements")(sg.spec(23))


def test_scalar_notation_is_for_one_shape_beside_scalars():
    a, b, c = input_value(0, (3,), np.float64), input_value(1, (), np.float64), input_value(2, (2, 3), np.float64)
    assert lower(Graph([a, b], [xp.sin(a) * 2])).notation == "scalar"
    for graph in (Graph([a], [xp.sum(a, axis=(0,), keepdims=False)]), Graph([a, b, c], [xp.sin(c)])):
        with pytest.raises(FormulaError, match=r"scalar notation is for elementwise functions: .*; try 'elements' or 'index'"):
            lower(graph, "scalar")
    with pytest.raises(ValueError, match="notation must be one of auto, scalar, matrix, elements, index, got 'latex'"):
        lower(Graph([a], [a]), "latex")
