"""Functions on tensors from SymPy expressions: in all three lives, against SymPy's and mpmath's own numbers."""

# ruff: noqa: E501  (a case is one line)
from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import pytest
import sympy as sp
from sympy.codegen.cfunctions import log1p

import symgrad as sg
from symgrad.errors import FormulaError
from tests.compiler.symbolic.test_printed_formulas import GOLDEN, drawn
from tests.compiler.symbolic.test_textbook import CASES

x, y, k = sp.symbols("x y k")
Q = sp.Rational


def double(*numbers, requires_grad=False):
    return sg.tensor(numbers if len(numbers) > 1 else numbers[0], dtype=sg.float64, requires_grad=requires_grad)


def exactly(e, **point):
    """The value of an expression, computed by SymPy with 30 digits."""
    return complex(e.evalf(30, subs={s: sp.Float(point[s.name], 30) for s in e.free_symbols}))


# --- scalars in three lives

FUNCTIONS = {
    "gamma": sp.gamma(x), "loggamma": sp.loggamma(x), "digamma": sp.digamma(x), "polygamma": sp.polygamma(2, x), "beta": sp.beta(x, y),
    "J": sp.besselj(1, x), "J of half order": sp.besselj(Q(1, 2), x), "Y": sp.bessely(0, x), "I": sp.besseli(2, x), "K": sp.besselk(Q(1, 3), x),
    "W": sp.LambertW(x), "lower branch of W": sp.LambertW(-x / 10, -1), "zeta": sp.zeta(x + 1), "slope of zeta": sp.zeta(x + 1).diff(x),
    "Si": sp.Si(x), "Ci": sp.Ci(x), "Ei": sp.Ei(x), "li": sp.li(x + 2), "erf": sp.erf(x), "erfc": sp.erfc(x), "erfi": sp.erfi(x),
    "erfinv": sp.erfinv(x / 3), "erf2": sp.erf2(x, y), "fresnel": sp.fresnels(x) - sp.fresnelc(y), "sinc": sp.sinc(x),
    "factorial": sp.factorial(x), "binomial": sp.binomial(x + 3, y), "rising": sp.rf(x, y), "spherical": sp.jn(1, x), "log1p": log1p(x),
    "inverses": sp.acot(x) + sp.asec(x + 1) + sp.acsch(y) + sp.acoth(x + 1), "cube root": sp.cbrt(x) * sp.root(y, 5),
    "choice": sp.Piecewise((x**2, x < y), (sp.log(x), True)), "kinks": sp.Abs(x - 1) + sp.Max(x, y, 1) + sp.Min(x, 2 * y),
    "sum": sp.Sum(x**k / sp.factorial(k), (k, 0, 12)), "product": sp.Product(x + k, (k, 1, 4)), "steps": sp.floor(3 * x) + sp.frac(5 * y),
    "double sum": sp.Sum(sp.Symbol("j") * x**k, (k, 0, sp.Symbol("j")), (sp.Symbol("j"), 1, 4)),
    "constants": x * (sp.pi * sp.sqrt(2) / 7 + sp.gamma(Q(1, 3))) + 2 * sp.pi / (5 * (y**2 + 1)),
}  # fmt: skip


OTHERWISE = {"erf2": sp.erf(y) - sp.erf(x), "double sum": FUNCTIONS["double sum"].doit()}
"""Forms that SymPy can evaluate."""


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name != "slope of zeta"])
def test_values_and_gradients_are_sympys(name):
    e = FUNCTIONS[name]
    f = sg.from_sympy(e, (x, y))
    e = OTHERWISE.get(name, e)
    point = {"x": 0.83, "y": 0.71}
    given = [double(v, requires_grad=True) for v in point.values()]
    value = f(*given)
    assert value.dtype == sg.float64
    np.testing.assert_allclose(value.item(), exactly(e, **point).real, rtol=1e-13)
    found = sg.autograd.grad(value, given, allow_unused=True)
    for s, g in zip(point, found, strict=True):
        ends = [exactly(e, **{**point, s: sp.Float(point[s], 40) + h}) for h in (sp.Float("-1e-10", 40), sp.Float("1e-10", 40))]
        np.testing.assert_allclose(0 if g is None else g.item(), (ends[1] - ends[0]).real / 2e-10, rtol=2e-6, atol=1e-6)


def test_derivatives_of_zeta():
    t = double(1.83, requires_grad=True)
    value = sg.from_sympy(sp.zeta(x).diff(x), x)(t)
    np.testing.assert_allclose(value.item(), float(mpmath.zeta(1.83, 1, 1)), rtol=1e-13)
    np.testing.assert_allclose(sg.autograd.grad(value, t)[0].item(), float(mpmath.zeta(1.83, 1, 2)), rtol=1e-13)


THREE_LIVES = ("gamma", "J", "W", "Si", "choice", "kinks", "sum", "constants", "log1p")


@pytest.mark.parametrize(("backend", "names"), [("numpy", [*FUNCTIONS]), ("xla", THREE_LIVES)])
def test_derive_and_back_ends_agree(backend, names):
    """The sum of many of them, in one program."""
    f = sg.from_sympy(sp.Add(*(FUNCTIONS[name] for name in names), evaluate=False), (x, y))
    args = [double(0.83, requires_grad=True), double(0.71, requires_grad=True)]
    value = f(*args)
    want = [value.item(), *(g.item() for g in sg.autograd.grad(value, args))]
    plain = [a.detach() for a in args]
    derived, gradients = sg.derive(f, wrt=("x", "y"))(*plain)(*plain)
    np.testing.assert_allclose([derived.item(), *(g.item() for g in gradients)], want, rtol=1e-12)
    compiled, gradients = sg.compile(f, backend=backend).value_and_grad(*plain, wrt=("x", "y"))
    np.testing.assert_allclose([compiled.item(), *(g.item() for g in gradients)], want, rtol=1e-12)


UNARY = (
    sp.sin, sp.exp, sp.tanh, sp.gamma, sp.loggamma, sp.Si, sp.Ei, sp.LambertW, sp.zeta, sp.sinc, sp.sqrt, sp.log, sp.sec, sp.acot, sp.erf,
    lambda e: sp.besselj(1, e), lambda e: sp.besselk(Q(1, 2), e), lambda e: sp.Piecewise((e**2, e < 2), (sp.log(e), True)),
    lambda e: sp.Sum(e**k / k, (k, 1, 3)), lambda e: e ** Q(1, 3), lambda e: sp.polygamma(1, e),
)  # fmt: skip
BINARY = (sp.Add, sp.Mul, lambda a, b: a - b, lambda a, b: a / (b**2 + 1), lambda a, b: (a**2 + 1) ** (b / 5), sp.atan2, sp.Min)


def expression(draw, depth):
    if depth == 0:
        return draw.choice([x, y, x, y, sp.pi, Q(draw.randint(1, 9), draw.randint(2, 7))])
    if draw.random() < 0.6:
        return draw.choice(UNARY)(sp.Abs(expression(draw, depth - 1)) + Q(1, 2))
    return draw.choice(BINARY)(expression(draw, depth - 1), expression(draw, depth - 1))


def check_random(seed):
    draw = random.Random(seed)
    e = expression(draw, 2)
    point = {"x": draw.uniform(0.3, 1.6), "y": draw.uniform(0.3, 1.6)}
    want = exactly(e, **point)
    if not np.isfinite(want) or abs(want) > 1e8:
        return
    given = [double(v, requires_grad=True) for v in point.values()]
    value = sg.from_sympy(e, (x, y))(*given)
    np.testing.assert_allclose(value.item(), want.real, rtol=1e-11, atol=1e-11, err_msg=str(e))
    found = sg.autograd.grad(value, given, allow_unused=True) if value.requires_grad else (None, None)
    for s, g in zip(point, found, strict=True):
        ends = [e.evalf(40, subs={t: sp.Float(point[t.name], 40) + h * int(t.name == s) for t in (x, y)}) for h in (-STEP, STEP)]
        slope = complex((ends[1] - ends[0]) / (2 * STEP)).real
        np.testing.assert_allclose(0 if g is None else g.item(), slope, rtol=1e-9, atol=1e-9, err_msg=str(e))


STEP = sp.Float("1e-12", 40)


def test_random_expressions():
    for seed in range(60):
        check_random(seed)


@pytest.mark.slow
def test_many_random_expressions():
    for seed in range(60, 2000):
        check_random(seed)


# --- round trips

PROGRAMS = {**{name: case[:4] for name, case in CASES.items()}, **GOLDEN}
SHOWN_BY_INDICES = ("softmax", "cumsum", "sort", "windows", "trace of an inverse", "README", "cat", "a Jacobian")


def check_round_trip(name, notation):
    f, shapes, wrt, order = PROGRAMS[name]
    args = [drawn(shape, n) for n, shape in enumerate(shapes)]
    d = sg.derive(f, wrt=wrt, order=order, notation=notation)(*args)
    for names, want in zip([(), *d.derivatives], d.evaluate([a.numpy() for a in args]), strict=False):
        indices = dict(zip("ijklmn", want.shape, strict=False)) if d.program.notation == "index" else ()
        got = sg.from_sympy(d.sympy(*names), d.symbols, indices=indices)(*args)
        assert tuple(got.shape) == want.shape
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-10, err_msg=f"{names}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives_come_back(name):
    check_round_trip(name, "auto")


@pytest.mark.parametrize("name", SHOWN_BY_INDICES)
def test_derivatives_in_index_notation_come_back(name):
    check_round_trip(name, "index")


# --- matrices and indices

n = sp.Symbol("n", integer=True)
X, w, b = sp.MatrixSymbol("X", n, 2), sp.MatrixSymbol("w", 2, 1), sp.MatrixSymbol("b", n, 1)


def test_matrices_with_symbolic_sizes():
    f = sg.from_sympy((X * w - b).T * (X * w - b) / n, (X, w, b))
    data = [drawn((4, 2)), drawn(2, 1), drawn(4, 2)]
    residual = data[0].numpy() @ data[1].numpy() - data[2].numpy()
    np.testing.assert_allclose(f(*data).item(), residual @ residual / 4, rtol=1e-14)
    gradient = sg.compile(f, backend="numpy").grad(*data, wrt="w")
    np.testing.assert_allclose(gradient.numpy().ravel(), 2 * data[0].numpy().T @ residual / 4, rtol=1e-13)
    with pytest.raises(FormulaError, match=r"b has shape \[n\] or \[n, 1\] in the expression, got a tensor of shape \[3\]"):
        f(data[0], data[1], drawn(3))


def test_a_vector_and_a_column_do_not_broadcast():
    u, v = sp.MatrixSymbol("u", 3, 1), sp.MatrixSymbol("v", 3, 1)
    f = sg.from_sympy(u + v, (u, v))
    a, c = drawn(3), drawn(3, 1)
    assert f(a, c).shape == (3,)
    np.testing.assert_allclose(f(a, c.reshape(3, 1)).numpy(), (a + c).reshape(3, 1).numpy())
    assert f(a.reshape(3, 1), c.reshape(3, 1)).shape == (3, 1)


def test_scalars_beside_matrices_are_scalars():
    f = sg.from_sympy(x * X, (x, X))
    np.testing.assert_allclose(f(double(3.0), drawn((2, 2))).numpy(), 3 * drawn((2, 2)).numpy())
    with pytest.raises(FormulaError, match=r"x is a scalar beside matrices, got a tensor of shape \[2\]"):
        f(double(1.0, 2.0), drawn((2, 2)))


A, B = sp.MatrixSymbol("A", 3, 3), sp.MatrixSymbol("B", 3, 3)
MATRICES = {
    "inverse": (A.I * B, lambda a, c: np.linalg.inv(a) @ c), "power": (A**3, lambda a, c: a @ a @ a),
    "negative power": (A**-2, lambda a, c: np.linalg.inv(a @ a)), "trace": (sp.Trace(A * B.T), lambda a, c: (a * c).sum()),
    "determinant": (sp.Determinant(A) * B, lambda a, c: np.linalg.det(a) * c), "third": (A / 3 + 2 * sp.Identity(3), lambda a, c: a / 3 + 2 * np.eye(3)),
    "Hadamard": (sp.HadamardProduct(A, B) - sp.HadamardPower(A, 2), lambda a, c: a * c - a**2),
    "of elements": (A.applyfunc(sp.Lambda(x, sp.sin(x) + 1)), lambda a, c: np.sin(a) + 1),
    "Kronecker": (sp.KroneckerProduct(A, B), np.kron), "blocks": (sp.BlockMatrix([[A, B], [B, A]]), lambda a, c: np.block([[a, c], [c, a]])),
    "slice": (A[1:, :2] * 2, lambda a, c: 2 * a[1:, :2]), "element": (A[0, 1] * B[2, 2], lambda a, c: a[0, 1] * c[2, 2]),
    "diagonal": (sp.DiagMatrix(sp.Matrix([A[0, 0], B[1, 1]])), lambda a, c: np.diag([a[0, 0], c[1, 1]])),
    "powers": (sp.HadamardPower(A, B), lambda a, c: a**c), "row sums": (sp.Matrix([sp.Sum(A[i, k], (k, 0, 2)) for i in range(3)]), lambda a, c: a.sum(1)),
    "explicit": (sp.Matrix([[A[0, 0], 1], [Q(1, 3), B[0, 1]]]), lambda a, c: np.array([[a[0, 0], 1], [1 / 3, c[0, 1]]])),
    "array": (sp.Array([[A[0, 0], 2 * B[0, 1]]]), lambda a, c: np.array([[a[0, 0], 2 * c[0, 1]]])),
    "ones": (A * sp.OneMatrix(3, 3) + sp.ZeroMatrix(3, 3), lambda a, c: a @ np.ones((3, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
def test_matrix_expressions(name):
    e, want = MATRICES[name]
    a, c = drawn((3, 3)), drawn((3, 3), 1)
    np.testing.assert_allclose(sg.from_sympy(e, (A, B))(a, c).numpy(), want(a.numpy(), c.numpy()), rtol=1e-12)


def test_indexed_tensors():
    t, i, j = sp.IndexedBase("t"), *sp.symbols("i j")
    f = sg.from_sympy(sp.Sum(t[i, k] * t[j, k], (k, 0, 3)) + sp.KroneckerDelta(i, j), t, indices=("i", "j"))
    a = drawn((3, 4))
    np.testing.assert_allclose(f(a).numpy(), a.numpy() @ a.numpy().T + np.eye(3), rtol=1e-14)
    with pytest.raises(FormulaError, match=r"t\[k\]: index k is from 0 to 9, and this dimension has size 3"):
        sg.from_sympy(sp.Sum(t[k], (k, 0, 9)), t)(drawn(3))
    shifted = sp.Piecewise((t[i - 1], i > 0), (0, True)) + t[i]
    np.testing.assert_allclose(sg.from_sympy(shifted, t, indices="i")(double(1.0, 2.0, 4.0)).numpy(), [1, 3, 6])


# --- what could be wrong without an error


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_fractions_are_computed_in_the_dtype_of_the_tensor(dtype):
    t = sg.tensor([7, 10], dtype=getattr(sg, dtype))
    result = sg.from_sympy(x / 3 + Q(1, 3) * y, (x, y))(t, t * 0)
    wanted = (t.numpy() / np.asarray(3, t.numpy().dtype)).astype(np.float32 if dtype == "int64" else dtype)
    assert str(result.dtype) == ("torch.float32" if dtype == "int64" else f"torch.{dtype}")
    np.testing.assert_array_equal(result.numpy(), wanted)


def test_a_formula_keeps_fractions():
    assert str(sg.derive(sg.from_sympy(x * Q(1, 3) + sp.sqrt(2), x))(1.0)) == "f(x) = x/3 + sqrt(2)\n∂f/∂x = 1/3"


CHOICES = {
    "logarithm": (sp.Piecewise((sp.log(x), x > 0), (0, True)), [-1.0, 0.0, 2.0], [0, 0, 0.5], [0, 0, -0.25]),
    "otherwise": (sp.Piecewise((0, x <= 0), (sp.sqrt(x), True)), [-1.0, 0.0, 4.0], [0, 0, 0.25], [0, 0, -1 / 32]),
    "quotient": (sp.Piecewise((sp.sin(x) / x, sp.Ne(x, 0)), (1, True)), [0.0, sp.pi], [0, -1 / np.pi], [0, 2 / np.pi**2]),
    "overflow": (sp.Piecewise((sp.exp(x), x < 0), (1 + x, True)), [-1.0, 2000.0], [np.exp(-1), 1], [np.exp(-1), 0]),
    "a shadowed condition": (sp.Piecewise((0, x < 1), (sp.log(x - 1), x < 5), (x, True)), [0.0, 1.0 + 1e-3, 6.0], [0, 1e3, 1], [0, -1e6, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", CHOICES)
def test_no_nan_comes_from_a_branch_that_is_not_taken(name):
    e, points, slopes, curvatures = CHOICES[name]
    f = sg.from_sympy(e, x)
    t = double(*map(float, points), requires_grad=True)
    (slope,) = sg.autograd.grad(f(t).sum(), t, create_graph=True)
    (curvature,) = sg.autograd.grad(slope.sum(), t)
    np.testing.assert_allclose(slope.detach().numpy(), slopes, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(curvature.numpy(), curvatures, rtol=1e-9, atol=1e-15)
    compiled = sg.compile(lambda x: f(x).sum(), backend="numpy").grad(t.detach(), wrt="x")
    np.testing.assert_allclose(compiled.numpy(), slopes, rtol=1e-9, atol=1e-15)
    for at, want in zip(points, slopes, strict=True):
        point = double(float(at))
        np.testing.assert_allclose(sg.derive(f, wrt="x")(point)(point)[1].item(), want, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("head", [sp.sqrt, sp.log, sp.asin, sp.acos, sp.atanh, sp.acosh, lambda z: z ** Q(1, 3), sp.asinh])
def test_branch_cuts(head):
    """Principal values, on both sides of the cuts on the axes; a real tensor has NaN where the value is complex."""
    points = [-2 + 0.5j, -2 - 0.5j, 2 + 0.5j, 2 - 0.5j, -2 + 0j, 0.3 + 2j, 0.3 - 2j]
    got = sg.from_sympy(head(x), x)(sg.tensor(points, dtype=sg.complex128)).numpy()
    want = [complex(head(sp.nsimplify(p.real) + sp.I * sp.nsimplify(p.imag)).evalf(20)) for p in points]
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-15)
    real = sg.from_sympy(head(x), x)(double(-2.0, 0.25)).numpy()
    assert real.dtype == np.float64
    assert [np.isnan(v) for v in real] == [complex(head(sp.Float(p)).evalf()).imag != 0 for p in (-2.0, 0.25)]


def test_real_tensors_have_nan_where_the_value_is_complex():
    t = double(-0.5, 1.5)
    for e in (sp.loggamma(x), sp.Ci(x), sp.besselj(Q(1, 2), x), sp.besselk(0, x), sp.LambertW(x - 1), sp.li(x), x**y):
        got = sg.from_sympy(e, (x, y))(t, double(0.5)).numpy()
        want = [exactly(e, x=sp.Float(v), y=0.5) for v in ("-0.5", "1.5")]
        assert np.isnan(got[0]) == (abs(want[0].imag) > 1e-20)
        np.testing.assert_allclose(got[1], want[1].real, rtol=1e-13)


def test_derivatives_that_are_not_carried_out():
    """At kinks they are those of the table: SymPy would write conditions on the imaginary part."""
    f = sg.from_sympy(sp.Derivative(sp.Abs(x) * x**2, x) + sp.Derivative(sp.sin(x * y), x, y), (x, y))
    a, c = -0.7, 0.4
    assert f(double(a), double(c)).item() == pytest.approx(-3 * a**2 + np.cos(a * c) - a * c * np.sin(a * c))


def test_sums_over_symbolic_sizes():
    f = sg.from_sympy(sp.Sum(X[k, 0] * X[k, 1], (k, 0, n - 1)), X)
    a = drawn((4, 2))
    np.testing.assert_allclose(f(a).item(), (a.numpy()[:, 0] * a.numpy()[:, 1]).sum(), rtol=1e-14)


def test_a_bound_index_may_have_the_name_of_a_parameter():
    assert sg.from_sympy(sp.Sum(x**2, (x, 1, 3)) + 0 * k + sp.Sum(k * sp.Sum(k, (k, 0, 2)), (k, 0, 1)) + x, (x, k))(double(1.0), 7.0).item() == 18


def test_conjugates():
    z = sg.tensor([1 + 2j, 3 - 1j], dtype=sg.complex128)
    e = sp.conjugate(x) * sp.I + sp.Abs(x) + sp.re(x) * sp.im(x) + sp.exp(sp.I * sp.arg(x))
    a = z.numpy()
    np.testing.assert_allclose(sg.from_sympy(e, x)(z).numpy(), a.conj() * 1j + abs(a) + a.real * a.imag + np.exp(1j * np.angle(a)), rtol=1e-14)
    assert sg.from_sympy(sp.re(x) + sp.conjugate(x), x)(double(2.0)).item() == 4
    M = sp.MatrixSymbol("M", 1, 2)
    np.testing.assert_allclose(sg.from_sympy(sp.Adjoint(M), M)(z.reshape(1, 2)).numpy(), a.conj())


def test_elements_of_tensors_and_the_shape_of_constants():
    assert sg.from_sympy(sp.Integer(3), "x")(sg.ones(2, 3)).shape == (2, 3)
    assert sg.from_sympy(x + 1, (x, y))(sg.ones(3, 1), sg.ones(2)).shape == (3, 2)
    with pytest.raises(FormulaError, match=r"these shapes do not broadcast: x of shape \[3\], y of shape \[2\]"):
        sg.from_sympy(x + y, (x, y))(sg.ones(3), sg.ones(2))
    assert sg.from_sympy(10**30 * x, x)(double(1.0)).item() == 1e30


def test_parameters():
    f = sg.from_sympy(x - 2 * y, ("y", "x"))
    assert f(1.0, 5.0).item() == 3
    assert f(x=5.0, y=1.0).item() == 3
    assert sg.derive(f, wrt="x")(1.0, 5.0)["x"] == 1
    assert sg.from_sympy(x**2)(3.0).item() == 9
    clash = sg.from_sympy(sp.Symbol("lambda") + sp.Symbol("E"), ("lambda", "E"))
    assert clash(2.0, E=5.0).item() == 7
    assert clash(lambda_=2.0, E=5.0).item() == 7


# --- errors

REAL = sp.Symbol("x", real=True)
REFUSED = {
    "an unknown head": (lambda: sg.from_sympy(sp.airyai(x), x)(1.0), FormulaError, "airyai has no function on tensors, in airyai.x.: rewrite it .* Known are Abs, acos"),
    "a text": (lambda: sg.from_sympy("x + 1", "x"), TypeError, "needs a SymPy expression, got .*; a text is never read"),
    "a symbol too many": (lambda: sg.from_sympy(x + y, x), FormulaError, "the expression has y, which symbols does not list"),
    "assumptions": (lambda: sg.from_sympy(REAL + 1, x), FormulaError, r"the expression has x \(real=True\), and the parameter is x \(without assumptions\)"),
    "two of one name": (lambda: sg.from_sympy(REAL + x, "x"), ValueError, "2 symbols called 'x', which differ in assumptions"),
    "the same twice": (lambda: sg.from_sympy(x + 1, (x, x)), ValueError, "two parameters are called 'x'"),
    "no order": (lambda: sg.from_sympy(x + y), TypeError, r"symbols=\(x, y\); the expression has x, y"),
    "a range that varies": (lambda: sg.from_sympy(sp.Sum(k, (k, 0, y)), y)(3.0), FormulaError, "range must be constant"),
    "an infinite range": (lambda: sg.from_sympy(sp.Sum(x**k / k**7, (k, 1, sp.oo)), x)(0.5), FormulaError, "range must be constant"),
    "a long range": (lambda: sg.from_sympy(sp.Sum(x**k, (k, 1, 10**9)), x)(0.5), FormulaError, "up to 1000000 are computed"),
    "an order that varies": (lambda: sg.from_sympy(sp.besselj(y, x), (x, y))(1.0, 1.0), FormulaError, "order must be a constant real number"),
    "a branch": (lambda: sg.from_sympy(sp.LambertW(x, 2), x)(1.0), FormulaError, "0 and -1 have"),
    "an integral": (lambda: sg.from_sympy(sp.Integral(sp.exp(-(x**x)), (x, 0, y)), y)(1.0), FormulaError, "SymPy cannot carry it out"),
    "an order for JAX": (lambda: sg.compile(sg.from_sympy(sp.besselj(20, x), x))(sg.tensor(1.0)), ValueError, "orders up to 8, got 20: use backend='numpy'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (3, 1), (1, 1), (2, 3)], ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp"])
def test_functions_of_rows_and_of_vectors(name, shape):
    """In a formula, a function of a column is that of one vector; a matrix of one column has rows of one element each."""
    x = sg.tensor(np.linspace(-1.0, 1.3, math.prod(shape)).reshape(shape), requires_grad=True)
    for axis in range(len(shape)):
        d = sg.derive(lambda x, axis=axis: (getattr(x, name)(axis) ** 2 * 3).sum())(x)
        expected = (getattr(x, name)(axis) ** 2 * 3).sum()
        (slope,) = sg.autograd.grad(expected, x)
        value, (gradient,) = d(x)
        sg.testing.assert_close(value, expected.detach())
        sg.testing.assert_close(gradient, slope)
        for expression, wanted in ((d.value, expected.detach()), (d["x"], slope)):
            if expression.has(sp.Indexed):
                continue  # index notation: see the tests above
            arguments = [x.detach()] if d.symbols and expression.free_symbols else []
            back = sg.from_sympy(expression, d.symbols if arguments else [])(*arguments)
            sg.testing.assert_close(back.reshape(wanted.shape) if back.numel() == wanted.numel() else back.expand(wanted.shape), wanted)
