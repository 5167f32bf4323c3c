"""What a derivation hands out is SymPy's: complete, in the arguments' own names, and SymPy's functions continue with it."""

from __future__ import annotations

import pickle

import mpmath
import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.compiler.symbolic import boundary, standard
from symgrad.errors import FormulaError

x, y = sp.symbols("x y")


def scalar(t):
    return t.sigmoid() * t.sin() + t**3


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).uniform(0.2, 1.5, shape))


@pytest.fixture(scope="module")
def d():
    return sg.derive(lambda x: scalar(x), order=2)(1.0)


@pytest.fixture(scope="module")
def polynomial():
    return sg.derive(lambda x, y: x**3 / 3 - 2 * x + y * x**2)(1.0, 1.0)


def slope_at(point):
    """∂f/∂x of `scalar`, in 30 digits."""
    with mpmath.workdps(40):
        return float(mpmath.diff(lambda v: mpmath.sin(v) / (1 + mpmath.exp(-v)) + v**3, point))


# --- continuations


def test_substitution_of_a_name(d):
    assert float(d["x"].subs("x", 1)) == pytest.approx(slope_at(1), rel=1e-14)


def test_evaluation_in_many_digits(d):
    with mpmath.workdps(60):
        want = mpmath.diff(lambda v: mpmath.sin(v) / (1 + mpmath.exp(-v)) + v**3, mpmath.mpf(1))
        assert abs(mpmath.mpf(str(d["x"].subs("x", 1).evalf(40))) - want) < 1e-30


def test_solve(polynomial):
    assert set(sp.solve(polynomial["x"].subs("y", 0), "x")) == {-sp.sqrt(2), sp.sqrt(2)}
    assert sp.solve(standard.class_of("sigmoid")(x) - sp.Rational(1, 4), x) == [-sp.log(3)]


def test_diff(d):
    assert float((d["x"].diff("x") - d["x", "x"]).subs("x", 0.7)) == pytest.approx(0, abs=1e-14)


def test_series(d):
    short = sp.series(d["x"], x, 0, 6).removeO()
    assert float(short.subs(x, 0.01)) == pytest.approx(slope_at(0.01), rel=1e-11)


def test_limit(d):
    assert sp.limit(d.sympy("x", functions="elementary") / x**2, x, sp.oo) == 3


def test_integrate(polynomial):
    assert sp.expand(sp.integrate(polynomial["x"], x) - polynomial.value) == 0


def test_simplify():
    e = sg.derive(lambda x: x.sin() ** 2 + x.cos() ** 2 + x)(1.0)["x"]
    assert sp.simplify(e) == 1


@pytest.mark.parametrize("modules", ["numpy", "scipy", "math", "mpmath", "jax"])
def test_lambdify(d, modules):
    point = 1.25 if modules in ("math", "mpmath") else np.array([1.25, 2.0])
    got = sp.lambdify(x, d["x"], modules)(point)
    tolerance = 1e-6 if modules == "jax" else 1e-14  # JAX computes in float32 by default
    np.testing.assert_allclose(np.asarray(got, float).ravel()[0], slope_at(1.25), rtol=tolerance)


def test_lambdify_does_not_overflow():
    e = sg.derive(lambda x: sg.nn.functional.softplus(x).log())(1.0)
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_allclose(sp.lambdify(x, e["x"])(np.array([800.0])), 1 / 800, rtol=1e-14)


def test_latex_text_and_rewriting(d):
    assert d.value == sp.sin(x) * standard.class_of("sigmoid")(x) + x**3
    assert sp.latex(d["x"]).startswith("3 x^{2} + ")
    assert r"\operatorname{sigmoid}" in sp.latex(d["x"])
    rewritten = d["x"].rewrite(sp.exp)
    assert not rewritten.has(standard.RowFunction)
    assert complex(rewritten.subs(x, 1)).real == pytest.approx(slope_at(1), rel=1e-14)


def test_elementary_functions_on_request(d):
    e = d.sympy("x", functions="elementary")
    assert e.atoms(sp.Function) == {sp.exp(x), sp.exp(-x), sp.sin(x), sp.cos(x)}
    assert float(e.subs(x, 1)) == pytest.approx(slope_at(1), rel=1e-14)
    with pytest.raises(ValueError, match=r"functions must be one of 'standard', 'elementary', got 'plain'"):
        d.sympy("x", functions="plain")


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "log_sigmoid", "silu", "mish", "expm1", "log1p", "log_cosh", "logaddexp", "xlogy"])
def test_functions_of_the_table_are_functions(name):
    f = standard.class_of(name)
    args = (x, y)[: len(f.row.args)]
    point = {x: sp.Rational(3, 4), y: sp.Rational(5, 4)}
    number = {s: float(v) for s, v in point.items()}
    e = f(*args)
    want = f.row.numpy(*(np.float64(number[a]) for a in args), **dict(f.attrs))
    assert float(e.subs(point)) == pytest.approx(float(want), rel=1e-14)
    assert float(sp.lambdify(args, e)(*(number[a] for a in args))) == pytest.approx(float(want), rel=1e-14)
    for a in args:
        assert float((e.diff(a) - e.meaning.diff(a)).subs(point)) == pytest.approx(0, abs=1e-14)
    assert pickle.loads(pickle.dumps(e)) == e


def test_functions_that_differ_in_an_attribute_differ_everywhere():
    d = sg.derive(lambda x: sg.polygamma(1, x) + sg.polygamma(2, x))(1.0)
    inside = d.program.ends[0].expression
    assert len({str(a.sort_key()) for a in inside.args}) == 2  # or the order of terms would depend on the hash seed
    first, second = (standard.class_of("sinc_derivative", (("order", n),), usual=False)(x) for n in (1, 2))
    assert first != second
    assert first.sort_key() != second.sort_key()
    assert str(first + second) == "sinc_derivative(x, order=1) + sinc_derivative(x, order=2)"
    assert sp.latex(first**2) == r"\operatorname{sinc\_derivative, order=1}^{2}{\left(x \right)}"


# --- names


def test_symbols_have_no_assumptions_unless_asked_for(d):
    assert d["x"].free_symbols == {x}
    assert d.sympy("x", real=True).free_symbols == {sp.Symbol("x", real=True)}
    assert d.symbols == {"x": x}


def test_names_that_sympy_reads_otherwise_are_replaced():
    f = lambda E, I, pi, S, beta, fine: E * I**2 + pi.sin() * S + beta * fine  # noqa: E741
    d = sg.derive(f)(*(float(n) for n in range(1, 7)))
    names = {label: s.name for label, s in d.symbols.items()}
    assert names == {"E": "E_", "I": "I_", "pi": "pi_", "S": "S_", "beta": "beta_", "fine": "fine"}
    assert d["E"].subs("I_", 3) == 9
    assert float(d.value.subs({d.symbols[label]: n for n, label in enumerate(d.symbols, 1)})) == pytest.approx(4 + np.sin(3) * 4 + 30)


def test_names_that_become_the_same_stay_apart():
    p = {"a.b": sg.tensor(2.0), "a_b": sg.tensor(3.0), "lambda": sg.tensor(5.0), "a b": sg.tensor(7.0)}
    d = sg.derive(lambda p, p_a_b: p["a.b"] + 2 * p["a_b"] + 4 * p["lambda"] + 8 * p["a b"] + 16 * p_a_b)(p, 11.0)
    assert len({s.name for s in d.symbols.values()}) == 5
    assert d.symbols["p_a_b"] == sp.Symbol("p_a_b")
    assert {label: d.value.coeff(s) for label, s in d.symbols.items()} == {
        "p.a.b": 1, "p.a_b": 2, "p.lambda": 4, "p.a b": 8, "p_a_b": 16,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["__import__('os').system('x')", "x); raise SystemExit", "λ", "1", "", "class", "x\n", "None", "print"])
def test_no_name_is_read_as_code(name):
    d = sg.derive(lambda p: p[name] ** 2)({name: sg.tensor(3.0)})
    (symbol,) = d.value.free_symbols
    assert symbol.name.isidentifier()
    assert d.value.subs(symbol.name, 3) == 9
    assert sp.lambdify(symbol, d.value)(3) == 9


def test_elements_do_not_clash_with_arguments():
    d = sg.derive(lambda x, x_0: x[0] * x_0 + x[1], notation="elements")(sg.spec(2), sg.spec(()))
    assert d.value == d.symbols["x"][0] * d.symbols["x_0"] + d.symbols["x"][1]
    assert d.symbols["x_0"] == sp.Symbol("x_0") != d.symbols["x"][0]


def test_parameters_of_modules_and_dictionaries():
    sg.manual_seed(0)
    model = sg.nn.Sequential(sg.nn.Linear(2, 3), sg.nn.Tanh())
    d = sg.derive(lambda x: model(x).sum(), wrt="x")(sg.spec((4, 2)))
    assert {str(s) for s in d.value.free_symbols} <= {str(s) for s in d.symbols.values()}
    assert all(s.name.isidentifier() for s in d.symbols.values())


# --- whole formulas


def net(x, w1, w2, y):
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


def test_matrices_are_matrix_symbols_with_their_shapes():
    args = [values(*shape, seed=n) for n, shape in enumerate([(4, 3), (3, 5), (5, 2), (4, 2)])]
    d = sg.derive(net, wrt=("w1", "w2"))(*args)
    assert d.symbols["w1"] == sp.MatrixSymbol("w1", 3, 5)
    assert d["w1"].shape == (3, 5)
    _, gradients = d(*args)
    computed = sp.lambdify(list(d.symbols.values()), [d["w1"], d["w2"]])(*(a.numpy() for a in args))
    for got, want in zip(computed, gradients, strict=True):
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-13)
    explicit = d["w2"].subs({d.symbols[n]: sp.Matrix(a.numpy()) for n, a in zip(d.symbols, args, strict=True)}).doit().as_explicit()
    np.testing.assert_allclose(np.array(explicit, float), gradients[1].numpy(), rtol=1e-12)


def test_elements_are_a_matrix():
    d = sg.derive(lambda x: x[0] * x[1].sin() + x[2] ** 2, order=2)(sg.spec(3))
    a, b, c = d.symbols["x"]
    assert d["x"] == sp.Matrix([sp.sin(b), a * sp.cos(b), 2 * c])
    assert d["x", "x"] == sp.hessian(d.value, [a, b, c])
    assert d["x"].jacobian(d.symbols["x"]) == d["x", "x"]
    assert isinstance(sg.derive(lambda x: x * 2, notation="elements")(sg.spec((2, 2)))["x"], sp.NDimArray)


def test_nothing_is_left_over_from_inside():
    """Long formulas have names for their parts inside, here with indices that other sums bind, too."""
    f = lambda x, w: (((x @ w).softmax(0) @ w.T).softmax(0) * x).sum()
    args = values(3), values(3, 4, seed=1)
    d = sg.derive(f, wrt="x", notation="index")(*args)
    assert d.program.lines
    names = {s.name for s in d["x"].free_symbols if isinstance(s, sp.Symbol)}
    assert names == {"x", "w", "i"}
    got = sp.lambdify([*d.symbols.values(), "i"], d["x"])
    np.testing.assert_allclose([got(*(a.numpy() for a in args), i) for i in range(3)], d(*args)[1].numpy(), rtol=1e-12)


def test_a_bound_index_has_a_letter_of_its_own():
    d = sg.derive(lambda i, j: (i.cumsum(0) * j).sum(), wrt="i", notation="index")(sg.spec(3), sg.spec(3))
    at = {s for s in d["i"].free_symbols if isinstance(s, sp.Symbol)}
    assert sp.Symbol("k") in at


def test_complex_inputs():
    z = sg.tensor(1 + 2j, dtype=sg.complex128)
    d = sg.derive(lambda z: (z * z.conj()).real + z.real)(z)
    assert complex(d.value.subs("z", 1 + 2 * sp.I)) == pytest.approx(6)
    assert d.sympy(real=True).free_symbols == {sp.Symbol("z")}


def test_a_formula_that_is_too_long_says_what_to_do(monkeypatch):
    monkeypatch.setattr(boundary, "MAX_PARTS", 50)
    d = sg.derive(net, wrt="w1", notation="index")(*map(sg.spec, [(4, 3), (3, 5), (5, 2), (4, 2)]))
    with pytest.raises(FormulaError, match=r"more than 50 parts when it is written out: str\(derivation\) shows it with names"):
        d["w1"]


def test_unknown_derivatives(polynomial):
    with pytest.raises(KeyError, match="'z': this derivation has the derivatives in x; y"):
        polynomial.sympy("z")
