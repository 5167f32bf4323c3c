"""check(): right and wrong answers to textbook exercises, and how sure a verdict is."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.compiler.symbolic.check import TOLERANCE
from symgrad.compiler.symbolic.points import points
from symgrad.compiler.symbolic.verdict import quantity
from symgrad.errors import FormulaError, TextError

EXERCISES = {
    "sin x²": (lambda x: (x**2).sin(), {"x": 1.0}),
    "log": (lambda x: x.log(), {"x": 2.0}),
    "quotient": (lambda x: x / (1 + x * x), {"x": 2.0}),
    "x to the x": (lambda x: x**x, {"x": 2.0}),
    "abs": (lambda x: x.abs(), {"x": 2.0}),
    "root": (lambda x: (1 - x * x).sqrt(), {"x": 0.5}),
    "tanh": (lambda x: x.tanh(), {"x": 0.5}),
    "cancelling": (lambda x: (x * 3 + x * x).tanh(), {"x": 0.5}),
    "constant in disguise": (lambda x: (x * x).sqrt() / (x + x + 2 * x), {"x": 0.5}),
    "least squares": (lambda w, X, y: ((X @ w - y) ** 2).sum(), {"w": 3, "X": (4, 3), "y": 4}),
    "mean squares": (lambda w, X, y: ((X @ w - y) ** 2).mean(), {"w": 3, "X": (4, 3), "y": 4}),
    "quadratic form": (lambda x, A: x @ A @ x, {"x": 3, "A": (3, 3)}),
    "logistic": (lambda w, X, y: sg.nn.functional.softplus(-y * (X @ w)).sum(), {"w": 3, "X": (4, 3), "y": 4}),
    "log det": (lambda X: X.logdet(), {"X": (3, 3)}),
    "det": (lambda X: X.det(), {"X": (3, 3)}),
    "trace": (lambda X, A, B: (A @ X @ B).trace(), {"X": (3, 5), "A": (4, 3), "B": (5, 4)}),
    "norm": (lambda x: sg.linalg.vector_norm(x), {"x": 3}),
    "softmax": (lambda x: x.softmax(0), {"x": 3}),
    "entropy": (lambda p: -(p * p.log()).sum(), {"p": 3}),
    "linear map": (lambda x, A: A @ x, {"x": 3, "A": (4, 3)}),
}
ANSWERS = [
    ("sin x²", "2*x*cos(x**2)", "equal"),
    ("sin x²", "x*cos(x^2)*2", "equal"),
    ("sin x²", "cos(x^2)*2*x + 1 - sin(x)^2 - cos(x)^2", "equal"),
    ("sin x²", "-2*x*cos(x^2)", "equal up to the sign"),
    ("sin x²", "x*cos(x^2)", "equal up to a factor"),
    ("sin x²", "2*x*cos(x^2) - 3", "equal up to a constant"),
    ("sin x²", "cos(x^2)", "different"),
    ("sin x²", "2*x*cos(x^2) + sin(10^15*x)", "different"),  # far from well-conditioned
    ("sin x²", "2*x*cos(x^2) + log(-x^2)", "different"),  # defined nowhere
    ("sin x²", "1/(x - x)", "different"),
    ("sin x²", "exp(exp(10 + x^2))", "different"),
    ("sin x²", "2*x*cos(2*x)", "different"),
    ("sin x²", "2*sqrt(x^2)*cos(x^2)", "different"),
    ("sin x²", "2*x*sqrt(1 - sin(x^2)^2)", "different"),
    ("sin x²", "2*x*cos(x^2)*1.000001", "equal up to a factor"),
    ("log", "1/x", "equal"),
    ("log", "x^-1", "equal"),
    ("log", "1/abs(x)", "equal"),  # where the logarithm is defined
    ("log", "1/x^2", "different"),
    ("quotient", "(1 - x^2)/(1 + x^2)^2", "equal"),
    ("quotient", "(1 - x^2)/(1 + x^2)", "different"),
    ("quotient", "(1 + x^2 - x*2*x)/(1 + x^2)^2", "equal"),
    ("quotient", "(x^2 - 1)/(1 + x^2)^2", "equal up to the sign"),
    ("x to the x", "x^x*(log(x) + 1)", "equal"),
    ("x to the x", "x*x^(x - 1)", "different"),
    ("abs", "sign(x)", "equal"),
    ("abs", "1", "different"),
    ("root", "-x/sqrt(1 - x^2)", "equal"),
    ("root", "1/(2*sqrt(1 - x^2))", "different"),
    ("root", "-2*x/sqrt(1 - x^2)", "equal up to a factor"),
    ("tanh", "1 - tanh(x)^2", "equal"),
    ("tanh", "4/(exp(x) + exp(-x))^2", "equal"),
    ("cancelling", "(1 - tanh(x^2 + 3*x)^2)*(2*x + 3)", "equal"),
    ("cancelling", "(1 - tanh(x^2 + 3*x)^2)*(2*x + 3) + 1e-9", "equal up to a constant"),
    ("cancelling", "(1 - tanh(x^2 + 3*x))*(2*x + 3)", "different"),
    ("constant in disguise", "0", "equal"),
    ("constant in disguise", "1e-6*x", "different"),
    ("tanh", "1 - tanh(x)", "different"),
    ("tanh", "-tanh(x)^2", "equal up to a constant"),
    ("least squares", "2*X'*(X*w - y)", "equal"),
    ("least squares", "2*(X'*X*w - X'*y)", "equal"),
    ("least squares", "X'*(X*w - y)", "equal up to a factor"),
    ("least squares", "2*X'*(y - X*w)", "equal up to the sign"),
    ("least squares", "2*(X*w - y)'*X", "equal up to the layout"),
    ("least squares", "(X*w - y)'*X", "equal up to a factor and the layout"),
    ("least squares", "2*X'*X*w - y'*X*w*vector(1)", "different"),
    ("mean squares", "2*X'*(X*w - y)", "equal up to a factor"),
    ("mean squares", "X'*(X*w - y)/2", "equal"),
    ("quadratic form", "(A + A')*x", "equal"),
    ("quadratic form", "2*A*x", "different"),
    ("quadratic form", "x'*(A + A')", "equal up to the layout"),
    ("logistic", "-X'*(y .* sigmoid(-y .* (X*w)))", "equal"),
    ("logistic", "-X'*(y ./ (1 + exp(y .* (X*w))))", "equal"),
    ("logistic", "-X'*sigmoid(-y .* (X*w))", "different"),
    ("log det", "inv(X)'", "equal"),
    ("log det", "inv(X')", "equal"),
    ("log det", "inv(X)", "equal up to the layout"),
    ("log det", "X", "different"),
    ("det", "adj(X)'", "equal"),
    ("det", "det(X)*inv(X)'", "equal"),
    ("det", "inv(X)'", "different"),
    ("trace", "A'*B'", "equal"),
    ("trace", "B*A", "equal up to the layout"),
    ("trace", "B*vector(1)*ones(3)'", "different"),
    ("trace", "B*ones(4)*vector(1)'", "different"),
    ("trace", "-2*B*A", "equal up to a factor and the layout"),
    ("norm", "x/norm(x)", "equal"),
    ("norm", "x./abs(x)", "different"),
    ("norm", "2*x", "different"),
    ("softmax", "diag(softmax(x)) - softmax(x)*softmax(x)'", "equal"),
    ("softmax", "diag(softmax(x))", "different"),
    ("entropy", "-log(p) - 1", "equal"),
    ("entropy", "-log(p)", "equal up to a constant"),
    ("entropy", "log(p) + 1", "equal up to the sign"),
    ("linear map", "A", "equal"),
    ("linear map", "A'", "equal up to the layout"),
    ("linear map", "A'*A", "different"),
]


def derivation(name):
    function, shapes = EXERCISES[name]
    given = {label: shape if isinstance(shape, float) else sg.spec(shape) for label, shape in shapes.items()}
    return sg.derive(function, wrt=next(iter(shapes)))(**given)


@pytest.mark.parametrize(("name", "answer", "verdict"), ANSWERS)
def test_answers(name, answer, verdict):
    found = derivation(name).check(answer)
    assert found.verdict == verdict, str(found)
    assert bool(found) is found.equal is (verdict == "equal")


def test_every_exercise_has_right_and_wrong_answers():
    for name in EXERCISES:
        assert {verdict == "equal" for exercise, _, verdict in ANSWERS if exercise == name} == {True, False}


def test_what_is_said():
    d = derivation("sin x²")
    assert str(d.check("2*x*cos(x**2)")) == "equal: ∂f/∂x = 2*x*cos(x**2)\n  compared at 20 random points, to a relative 1e-09"
    assert str(d.check("x*cos(x^2)")).splitlines()[0] == "equal up to a factor: ∂f/∂x is 2 times the answer"
    assert str(d.check("-2*x*cos(x^2)")).splitlines()[0] == "equal up to the sign: ∂f/∂x is -1 times the answer"
    assert str(d.check("2*x*cos(x^2) + pi/2")).splitlines()[0] == "equal up to a constant: ∂f/∂x is the answer plus -pi/2"
    found = derivation("mean squares").check("2*X'*(X*w - y)")
    assert found.reason == "∂f/∂w is 1/4 times the answer; 4 is a size of X"
    assert found.factor == pytest.approx(0.25)
    found = derivation("entropy").check("-log(p)")
    assert (found.reason, found.constant) == ("∂f/∂p is the answer plus -1 in every element", pytest.approx(-1))
    found = derivation("least squares").check("(X*w - y)'*X")
    assert found.reason == "∂f/∂w is 2 times the answer, and its transpose"
    assert found.transposed


def test_where_they_differ_is_told_with_numbers():
    d = derivation("abs")
    found = d.check("x/2")
    x = found.point["x"].item()
    assert (found.expected, found.found) == (np.sign(x), x / 2)
    assert str(found) == f"different: ∂f/∂x is {np.sign(x):g}, the answer is {x / 2:.6g}\n  where x = {x:.6g}"
    found = derivation("least squares").check("X'*(X*w).^1 - X'*y.^2")
    w, X, y = (found.point[name] for name in ("w", "X", "y"))
    np.testing.assert_allclose(found.expected, 2 * X.T @ (X @ w - y), rtol=1e-12)
    np.testing.assert_allclose(found.found, X.T @ (X @ w) - X.T @ y**2, rtol=1e-12)
    assert "∂f/∂w[" in str(found)
    assert "X = an array of shape (4, 3)" in str(found)
    assert "the answer is not defined" in str(derivation("abs").check("log(-x^2)"))


def test_agreement_at_some_points_is_told():
    found = derivation("abs").check("1")
    assert "they agree at " in found.reason
    assert found.point["x"] < 0


def test_shapes_that_differ():
    d = derivation("least squares")
    assert d.check("X").reason == "∂f/∂w is a vector (3), and the answer is a matrix (4 × 3)"
    assert d.check("1").reason == "∂f/∂w is a vector (3), and the answer is a scalar"
    assert not d.check("y")


def test_vectors_of_ones_take_their_size_from_the_derivative():
    d = sg.derive(lambda x: x.sum())(sg.spec(3))
    assert d.check("vector(1)")
    assert d.check("ones(3)")
    assert d.check("vector(2)").verdict == "equal up to a factor"
    assert sg.derive(lambda x: x)(sg.spec(3)).check("eye")


def test_several_derivatives():
    d = sg.derive(lambda x, y: (x * x * y).sum(), order=2)(sg.spec(3), sg.spec(3))
    with pytest.raises(ValueError, match=r"several derivatives, .* wrt='x', wrt='y', wrt=\('x', 'x'\)"):
        d.check("x")
    assert d.check("2*x.*y", wrt="x")
    assert d.check("x.^2", wrt="y")
    assert d.check("2*diag(y)", wrt=("x", "x"))
    assert d.check("2*diag(x)", wrt=["x", "y"])
    assert d.check("sum(x.*x.*y)", wrt=())
    assert str(d.check("x", wrt=("x", "y"))).startswith("different: ∂²f/∂x∂y is a matrix (3 × 3)")
    with pytest.raises(ValueError, match="wrt='z': this derivation has the derivatives in x; y; x, x"):
        d.check("x", wrt="z")


def test_value_alone():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    assert y.formula().check("x1'*x1")
    y.backward()
    assert y.formula(wrt=x).check("2*x1")
    assert y.formula(wrt=x).check("x1").verdict == "equal up to a factor"


def test_names_are_those_of_the_arguments():
    d = sg.derive(sg.parse("lambda*x'*x"), wrt="x")(2.0, sg.spec(3))
    assert d.check("2*lambda*x")
    assert d.check("2*lambda_*x")
    with pytest.raises(TextError, match="column 3: 'mu' is unknown here; the names are lambda_, x, lambda"):
        d.check("2*mu*x")
    with pytest.raises(TextError, match=r"column 4: \^ is the power of a scalar .* write \.\^"):
        d.check("2*x**2")


def test_the_domain():
    d = sg.derive(lambda x, y: (x.log() * (1 - y).sqrt()).sum(), wrt="x")(sg.spec(3), sg.spec(3))
    assert d.check("sqrt(1 - y)./x")
    assert sg.derive(lambda x: (x - 50).log())(sg.tensor(70.0)).check("1/(x - 50)")
    with pytest.raises(FormulaError, match="of 200 random points only 0 are in the domain"):
        sg.derive(lambda x: (x - 50).log())(sg.spec(())).check("1/(x - 50)")

    def branching(x):
        return x.sin() if x > 0 else x * x

    assert sg.derive(branching)(sg.tensor(2.0)).check("cos(x)")
    assert sg.derive(branching)(sg.tensor(-2.0)).check("2*x")


def test_small_numbers_are_compared_by_their_own_size():
    d = sg.derive(lambda x: 1e-30 * x**2)(1.0)
    assert d.check("2e-30*x")
    assert d.check("4e-30*x").factor == pytest.approx(0.5)
    assert not d.check("0")
    assert not d.check("1e-30*x^2")


def test_zero():
    d = sg.derive(lambda x, y: y.sum() + 0 * x.sum(), wrt="x")(sg.spec(2), sg.spec(2))
    assert d.check("zeros(2)")
    assert d.check("x - x")
    assert not d.check("x")


def test_constants_have_no_factor():
    d = sg.derive(lambda x: 3 * x)(1.0)
    assert d.check("3")
    assert d.check("2").verdict == "different"
    assert d.check("-3").verdict == "equal up to the sign"


def test_the_tolerance():
    d = derivation("sin x²")
    assert d.check(f"2*x*cos(x^2)*(1 + {TOLERANCE / 10})")
    assert not d.check(f"2*x*cos(x^2)*(1 + {TOLERANCE * 10})")


def test_captured_tensors_keep_their_values():
    c = sg.tensor([[1.0, 2.0], [3.0, 4.0]])
    d = sg.derive(lambda x: c @ x)(sg.spec(2))
    assert d.check(d.graph.labels[1])
    assert d.check("eye").verdict == "different"


def test_what_has_no_answer_in_this_language():
    with pytest.raises(FormulaError, match="∂f/∂X has 4 dimensions"):
        sg.derive(lambda X: X @ X)(sg.spec((2, 2))).check("X")
    with pytest.raises(FormulaError, match="real functions"):
        sg.derive(lambda z: z * z)(sg.spec((), sg.complex64)).check("2*z")


def test_verdicts_in_notebooks_escape_what_is_in_the_text():
    shown = sg.derive(lambda x: x * x)(1.0).check("x*2")._repr_html_()
    assert shown.startswith("<p><b>equal</b>: ∂f/∂x = x*2<br><small>compared at")
    found = sg.derive(lambda x: x * x)(1.0).check("x*2")
    assert "<script>" not in type(found)(text="<script>", of="f", verdict="equal")._repr_html_()


@pytest.mark.parametrize("seed", range(5))
def test_points_are_of_both_signs_and_of_several_sizes(seed):
    drawn = points([sg.spec(()), np.array([3, 4]), np.ones(2)], frozenset([2]), False, np.random.default_rng(seed))
    first = [next(drawn) for _ in range(20)]
    x = np.array([a[0] for a in first])
    assert (x < -2).any()
    assert (x < 0).sum() >= 4
    assert (x > 2).any()
    assert ((x > 0) & (x < 1)).any()
    assert all(a[1].tolist() == [3, 4] and a[2].tolist() == [1, 1] for a in first)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.5, "1/2"), (-3.0, "-3"), (np.pi / 2, "pi/2"), (2 * np.sqrt(2), "2*sqrt(2)"), (0.123456789, "0.123457"), (-np.pi, "-pi"),
        (1e8, "1e+08"),
    ],
)
def test_quantities(x, text):
    assert quantity(x) == text


def expression(rng, depth):
    """A random expression in x."""
    if depth == 0:
        return rng.choice([X, X, X, sp.Integer(2), sp.Integer(3)])
    first, second = expression(rng, depth - 1), expression(rng, depth - 1)
    function = rng.choice([sp.sin, sp.cos, sp.exp, sp.tanh, sp.atan])
    return rng.choice([first + second, first * second, first / (1 + second**2), function(first), first**2])


X = sp.Symbol("x")
SLIPS = {"sin": "cos", "cos": "sin", "exp": "atan", "tanh": "sin", "2": "3", "3": "2", " + ": " - ", " - ": " + "}


def test_sympys_derivatives_are_right_and_slips_are_found():
    rng, slips = random.Random(11), 0
    for _ in range(12):
        e = expression(rng, 3)
        if not e.has(X):
            continue
        d = sg.derive(sg.parse(str(e), x=()))(1.0)
        answer = str(sp.diff(e, X))
        assert d.check(answer), (e, answer)
        places = list(re.finditer("|".join(SLIPS).replace("+", r"\+"), answer))
        if places:
            place = rng.choice(places)
            slips += 1
            wrong = answer[: place.start()] + SLIPS[place[0]] + answer[place.end() :]
            assert not d.check(wrong), (e, wrong)
    assert slips > 6


@pytest.mark.parametrize("slip", ["sin(lam)", "lam", "lam^3", "1/lam", "0.001*lam"])
def test_a_small_slip_beside_large_values_is_no_constant(slip):
    """At large values the slip is below the rounding of lam^19, at small ones it is not."""
    found = sg.derive(lambda lam: lam**20)(sg.spec(())).check(f"20*lam^19 + {slip}")
    assert str(found).startswith("different")


def test_a_factor_that_is_nearly_one_is_shown_with_its_digits():
    found = sg.derive(lambda lam: sg.erf(lam))(sg.spec(())).check("exp(-lam^2)*1.1283791")
    assert "is 1.0000000" in str(found)
