"""No swell: work and text grow with the number of different layers, not with their number, and depth is no limit."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from sympy.core.cache import clear_cache
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import input_value, toposort
from symgrad.compiler.symbolic import limits, to_sympy
from symgrad.compiler.symbolic.alpha_equivalence import Forms
from symgrad.compiler.symbolic.notations import index_algebra
from symgrad.compiler.symbolic.notations.base import Lowering


def chain(depth):
    def f(e):
        for _ in range(depth):
            e = e * e.sin() + 1
        return e

    return f


def mlp(x, *layers):
    for w in layers:
        x = (x @ w).tanh()
    return x.sum()


def biased(x, ws, bs):
    for w, b in zip(ws, bs, strict=True):
        x = (x @ w + b).sigmoid()
    return (x * x).sum()


def conv(x, *kernels):
    for k in kernels:
        x = sg.nn.functional.conv2d(x, k, padding=1).tanh()
    return x.sum()


def layers(depth, shape=(3, 3)):
    return [sg.spec(shape, dtype=sg.float64) for _ in range(depth)]


CASES = {
    "scalar": lambda n: (chain(n), [sg.spec((), dtype=sg.float64)], "scalar"),
    "matrix": lambda n: (mlp, [*layers(1, (2, 3)), *layers(n)], "matrix"),
    "biases": lambda n: (biased, [*layers(1, (2, 3)), layers(n), layers(n, (3,))], "matrix"),
    "elements": lambda n: (mlp, [*layers(1, (1, 2)), *layers(n, (2, 2))], "elements"),
    "index": lambda n: (mlp, [*layers(1, (2, 3)), *layers(n)], "index"),
    "conv": lambda n: (conv, [*layers(1, (1, 1, 4, 4)), *layers(n, (1, 1, 3, 3))], "index"),
}


def numbers(given, rng):
    if isinstance(given, list):
        return [numbers(x, rng) for x in given]
    return sg.tensor(rng.normal(0, 0.5, given.shape))


@pytest.fixture
def count(monkeypatch):
    """How often something of SymPy's is built or printed."""
    calls = {"lower": 0, "flatten": 0, "print": 0}

    def counted(owner, name, key):
        before = getattr(owner, name)

        def call(*args, **kwargs):
            calls[key] += 1
            return before(*args, **kwargs)

        monkeypatch.setattr(owner, name, staticmethod(call) if isinstance(owner.__dict__.get(name), classmethod) else call)

    counted(to_sympy, "elementwise", "lower")
    counted(sp.Mul, "flatten", "flatten")
    counted(StrPrinter, "_print_Mul", "print")
    counted(LatexPrinter, "_print_Function", "print")
    counted(Lowering, "again", "lower")
    return calls


def work(name, depth, calls):
    """What SymPy is asked for by a derivation that is derived, printed and run."""
    clear_cache()
    calls |= dict.fromkeys(calls, 0)
    function, given, notation = CASES[name](depth)
    d = sg.derive(function, notation=notation)(*given)
    text, latex = str(d), d.latex()
    d(*numbers(given, np.random.default_rng(0)))
    return dict(calls), len(text), len(latex)


@pytest.mark.parametrize("name", CASES)
def test_equal_layers_are_lowered_printed_and_run_as_one(name, count):
    work(name, 40, count)  # SymPy remembers what it has found out of some symbols
    first, *lengths = work(name, 40, count)
    second, *longer = work(name, 80, count)
    assert (second["lower"], second["print"]) == (first["lower"], first["print"]) != (0, 0)
    assert abs(second["flatten"] - first["flatten"]) < 10  # SymPy asks for assumptions in a random order
    for a, b in zip(lengths, longer, strict=True):
        assert 1.5 * a < b < 2.6 * a


@pytest.mark.parametrize("name", CASES)
def test_what_is_instantiated_is_right(name):
    function, given, notation = CASES[name](9)
    d = sg.derive(function, notation=notation)(*given)
    args = numbers(given, np.random.default_rng(1))
    leaves = [x.requires_grad_() for part in args for x in (part if isinstance(part, list) else [part])]
    value, grads = d(*args)
    wanted = function(*args)
    wanted.backward()
    np.testing.assert_allclose(value, wanted.detach(), rtol=1e-12)
    for got, x in zip(grads, leaves, strict=True):
        np.testing.assert_allclose(got, x.grad, rtol=1e-11, atol=1e-13)
    for e in (*d.program.outputs, *(e for _, e in d.program.bindings)):
        assert all(isinstance(part, sp.Basic) for part in parts(e))


@pytest.mark.parametrize("name", CASES)
def test_a_line_of_a_form_is_the_first_with_other_names(name):
    """The text and the numbers come from the first line of a form: here against the expression that the line has itself."""
    function, given, notation = CASES[name](12)
    program = sg.derive(function, notation=notation)(*given).program
    instances = [line for line in (*program.lines, *program.ends) if line.first is not line]
    assert instances
    for line in instances:
        names = {first.name: own.name for first, own in zip(line.first.names, line.names, strict=True)}
        for own, first in zip(parts(line.expression), parts(line.first.expression), strict=True):
            assert atoms(own) == {names.get(a, a) for a in atoms(first)}


def parts(e):
    return e.ravel() if isinstance(e, np.ndarray) else [e]


def atoms(e):
    named = (sp.Symbol, sp.MatrixSymbol, sp.IndexedBase)
    return {a.name for a in sp.preorder_traversal(e) if isinstance(a, named) and a.name[0] in "xt"}


X, Y, Z, U, V = sp.symbols("x y z u v", real=True)
TOO_MUCH = [
    (X + Y + Z + U + V + 1) ** 20 + sp.sin(X),  # 53,131 terms
    U + Z + (sp.sqrt(X) + Y + Z) ** 6,  # a minute and a half
    X**1000003 + 1,
    sp.exp(1000003 * X) + X**2,
    1 / (X + Y + 1) ** 40 + 1 / (X + Z) ** 40 + 1 / X,
    sp.Add(*(X**n * Y for n in range(90))),
]


@pytest.mark.parametrize("e", TOO_MUCH, ids=lambda e: str(e)[:40])
def test_what_would_take_long_is_not_factored(e, monkeypatch):
    monkeypatch.setattr(sp, "factor", lambda e: pytest.fail(f"factor is asked for {e}"))
    assert limits.tidy(e) is e


def test_what_is_short_is_factored():
    assert str(limits.tidy(2 / (X**2 + 1) - 4 * X**2 / (X**2 + 1) ** 2)) == "-2*(x - 1)*(x + 1)/(x**2 + 1)**2"
    assert limits.tidy(X**2 * Y + X**2) == X**2 * (Y + 1)


def test_a_hessian_that_factor_would_choke_on():
    def f(x, a, b, c, d):
        return ((x + a + b + c + d + 1) ** 20 + x.sin() * x).sum()

    d = sg.derive(f, wrt="x", order=2)(*[sg.spec((3,))] * 5)
    assert "^∘18" in str(d)


def test_products_of_sums_with_deltas_are_multiplied_out_up_to_a_bound():
    i, k = index_algebra.free(0, 5), index_algebra.bound(1, 5)
    delta, x = sp.KroneckerDelta(i, k), sp.IndexedBase("x")
    few, many = ((sp.Mul(*(delta + n + x[k] for n in range(1, count)))) for count in (3, 9))
    assert not index_algebra.total(few, k).atoms(sp.KroneckerDelta)
    assert index_algebra.total(many, k).atoms(sp.KroneckerDelta) == {delta}


def test_a_second_derivative_too_long_for_a_notation():
    def f(x):
        for _ in range(30):
            x = x * x.sin() + 1
        return x.sum()

    assert sg.derive(f, order=2)(sg.spec((3,))).program.notation == "index"
    with pytest.raises(sg.errors.FormulaError, match="too long for elements notation: try 'index'"):
        sg.derive(f, order=2, notation="elements")(sg.spec((3,)))


def test_depth_is_no_limit():
    """Deeper than Python's stack: derived, printed and run."""
    d = sg.derive(chain(2000))(sg.spec((), dtype=sg.float64))
    x = sg.tensor(0.3, dtype=sg.float64, requires_grad=True)
    value, (slope,) = d(x)
    wanted = chain(2000)(x)
    wanted.backward()
    np.testing.assert_allclose([float(value), float(slope)], [float(wanted), float(x.grad)], rtol=1e-9)
    assert len(str(d)) < 2000 * 150
    assert len(d.latex()) < 2000 * 250


def test_long_lists_of_arguments_are_shortened():
    head = lambda n: str(sg.derive(mlp)(*layers(1, (2, 3)), *layers(n))).splitlines()[0].partition(" =")[0]
    assert head(30) == "mlp(x, layers.0, ..., layers.29)"
    assert head(3) == "mlp(x, layers.0, layers.1, layers.2)"
    names = sg.derive(lambda a1, a2, a3, a4, a5, a6, a7, a9, b: a1 * a9 * b)(*[sg.spec(())] * 9)
    assert str(names).startswith("f(a1, ..., a7, a9, b) = ")


def test_names_do_not_meet_those_of_arguments():
    def f(t1, t3):
        for _ in range(30):
            t1 = t1 * t1.sin() + t3
        return t1

    d = sg.derive(f)(sg.spec(()), sg.spec(()))
    labels = [d.program.labels[line.symbol] for line in d.program.lines]
    assert labels[:3] == ["t2", "t4", "t5"]
    assert len(set(d.program.labels.values())) == len(d.program.labels)


def test_only_what_is_used_is_listed_and_before_it_is_used():
    def f(x, w):
        h = (x @ w).tanh() * (x @ w).sigmoid() * (x @ w + 1).exp() * (x @ w - 1).sin()
        return h.sum() + (h * 0).sum() + (h * h).detach().sum() * 0

    program = sg.derive(f)(sg.spec((2, 3)), sg.spec((3, 3))).program
    known = set(program.inputs)
    for line in program.lines:
        assert set(line.used) <= known
        known.add(line.symbol)
    used = {name for line in (*program.lines, *program.ends) for name in line.used}
    assert used >= {line.symbol for line in program.lines}
    assert [program.labels[line.symbol] for line in program.lines] == [f"t{n}" for n in range(1, len(program.lines) + 1)]


def form(make, *inputs):
    """The number of the form of what is made from some of several names."""
    value = make(*inputs)
    for x in inputs:
        FORMS.name(x, "input")
    return [FORMS.of(v) for v in toposort([value])][-1][0]


FORMS = Forms()
A, B, C = (input_value(i, (2, 3), np.float64) for i in range(3))


def test_a_form_knows_everything_but_names():
    product = form(lambda a, b: a * xp.sin(b), A, B)
    assert product == form(lambda a, b: a * xp.sin(b), C, A)
    others = [
        form(lambda a: a * xp.sin(a), A),
        form(lambda a, b: a * xp.cos(b), A, B),
        form(lambda a, b: b * xp.sin(b) + a, A, B),
        form(lambda a, b: a * xp.sin(b), input_value(0, (2, 3), np.float32), input_value(1, (2, 3), np.float32)),
        form(lambda a, b: a * xp.sin(b), input_value(0, (3, 2), np.float64), input_value(1, (3, 2), np.float64)),
        form(lambda a, b: a * xp.sin(b), input_value(0, (3, 1), np.float64), input_value(1, (3, 1), np.float64)),
    ]
    assert len({product, *others}) == 1 + len(others)


def test_a_form_knows_numbers_and_kinds_of_names():
    assert len({form(lambda a, n=n: a * n, A) for n in (2, 3, 2.5)}) == 3
    FORMS.name(B, "relu")
    assert FORMS.of(A)[0] != FORMS.of(B)[0]
