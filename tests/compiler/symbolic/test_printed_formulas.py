"""Printed formulas mean what they say: a reader of the notation computes their numbers from the text alone."""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import FormulaError, TraceError
from tests.compiler.symbolic import test_generated_programs as programs
from tests.compiler.symbolic.test_textbook import CASES
from tests.support.notation import compare
from tests.support.notation.generated import NAMES, function
from tests.support.notation.grammar import NotationError, parse
from tests.support.notation.matrices import Matrices
from tests.support.row_programs import PROGRAMS

ROOT = pathlib.Path(__file__).parents[3]
S = sg.spec


def drawn(shape, seed=0):
    """Positive numbers; a square matrix has a positive determinant."""
    shape = (shape,) if isinstance(shape, int) else shape
    numbers = np.random.default_rng(seed).random(shape) + 0.1
    return sg.tensor(np.asarray(numbers + (3 * np.eye(*shape) if len(shape) == 2 and shape[0] == shape[1] else 0)))


def check(derivation):
    assert max(compare(derivation)) < 1e-9, str(derivation)


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", CASES)
def test_the_textbook_reads_back(name, notation):
    f, shapes, wrt, order, _, _ = CASES[name]
    check(sg.derive(f, wrt=wrt, order=order, notation=notation)(*(drawn(shape, seed) for seed, shape in enumerate(shapes))))


def sigmoids(w, X, y):
    s = sg.sigmoid(X @ w)
    return -(y * s.log() + (1 - y) * (1 - s).log()).sum()


def tanhs(w, X, y):
    return -(y * (X @ w)).tanh().log().sum()


def net(x, w1, w2, y):
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


GOLDEN = {
    "sigmoids": (sigmoids, [3, (4, 3), 4], "w", 2),
    "tanhs": (tanhs, [3, (4, 3), 4], "w", 2),
    "README": (net, [(4, 3), (3, 5), (5, 2), (4, 2)], ("w1", "w2"), 1),
    "energy": (lambda x, v, m: m * (v * v).sum() / 2 - m / (x * x).sum().sqrt(), [3, 3, ()], None, 1),
    "regression": (lambda w, b, x, y: ((x @ w + b - y) ** 2).mean(), [3, (), (5, 3), 5], ("w", "b"), 2),
    "Rayleigh quotient": (lambda x, a: (x @ a @ x) / (x @ x), [3, (3, 3)], "x", 2),
    "twist": (lambda x: x[0] * x[1].sin() + x[2] ** 2, [3], "x", 2),
    "softmax": (lambda x, w: (x @ w).softmax(0)[0], [3, (3, 4)], "x", 2),
    "cumsum": (lambda x, y: (x.cumsum(1) * y).sum(), [(3, 4), (3, 4)], None, 2),
    "sort": (lambda x, y: (x.sort()[0] * y).sum(), [20, 20], "x", 1),
    "log of a quadratic form": (lambda x, A: (x @ A @ x).log(), [3, (3, 3)], "x", 2),
    "ratios": (lambda x, y: (x / (x + y) ** 2).sum(), [(3, 2), (3, 2)], None, 1),
    "rows": (lambda x, A: (A / A.sum(1, keepdim=True) @ x).sum(), [3, (3, 3)], None, 1),
    "root of a ratio": (lambda x, A: ((A @ x) / (1 + (A @ x) ** 2)).sqrt().sum(), [3, (4, 3)], None, 1),
    "ones of unknown size": (lambda x: (x.reshape(1, -1).expand(2, -1).sin() ** 2).sum(), [3], "x", 1),
    "product of products": (lambda x, y, A: -(x @ A @ y) * (y @ x), [3, 3, (3, 3)], "x", 2),
    "cat": (lambda x, y: (sg.cat([x, y], 1) ** 3).sum(), [(2, 4), (2, 3)], "x", 1),
    "windows": (lambda x: (x.unfold(0, 3, 2).sum(1) ** 2).sum(), [7], "x", 2),
    "a Jacobian": (lambda a, x: (a @ x).sin(), [(4, 3), 3], "x", 1),
    "a quotient of vectors": (lambda x, y: x / (1 + y.exp()), [3, 3], "y", 1),
}  # fmt: skip


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", GOLDEN)
def test_formulas_of_the_documentation_and_of_reports_read_back(name, notation):
    f, shapes, wrt, order = GOLDEN[name]
    check(sg.derive(f, wrt=wrt, order=order, notation=notation)(*(drawn(shape, seed) for seed, shape in enumerate(shapes))))


def test_products_of_elements_have_their_own_signs():
    text = str(sg.derive(tanhs, wrt="w")(S(3), S((4, 3)), S(4)))
    assert text.splitlines() == [
        "tanhs(w, X, y) = -sum(log(tanh(y ∘ (X w))))",
        "∂tanhs/∂w = -Xᵀ (y ∘ (1 - tanh(y ∘ (X w))^∘2) ⊘ tanh(y ∘ (X w)))",
    ]
    assert str(sg.derive(sigmoids, wrt="w")(S(3), S((4, 3)), S(4))).splitlines()[1] == (
        "∂sigmoids/∂w = -Xᵀ (y ∘ sigmoid(-X w) + (y - 1) ∘ sigmoid(X w))"
    )


@pytest.mark.parametrize("part", range(10))
def test_generated_matrix_formulas_read_back(part):
    """25 functions of vectors and matrices each, differentiated once or twice."""
    for seed in range(25 * part, 25 * (part + 1)):
        rng = np.random.default_rng(seed)
        wrt = str(rng.choice(["x", "b", "A", "B", "c"]))
        order = int(rng.integers(1, 3)) if wrt in "xb" else 1
        values = {name: sg.tensor(rng.uniform(-1, 1, shape)) for name, shape in NAMES.items()}
        check(sg.derive(function(seed), wrt=wrt, order=order)(**values))


def program(seed):
    """Of the programs of test_generated_programs, a random one, with arrays for its inputs."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    pools = {
        1: [*programs.SMOOTH, *programs.WHOLE, *(op for op, _ in programs.KINKED)],
        2: [*programs.BINARY, *programs.CONTRACTIONS, *(op for op, _ in programs.KINKED_BINARY)],
        3: [*programs.REDUCTIONS, *(op for op, _ in programs.KINKED_REDUCTIONS)],
    }
    steps = []
    for _ in range(r.randint(1, 4)):
        kind = r.choice((1, 2, 3))
        places = tuple(r.randrange(20) for _ in range(2 if kind == 2 else 1))
        steps.append((r.choice(pools[kind]), None, places, r.randrange(4) if kind == 3 else None))
    shapes = [[r.randint(1, 3) for _ in range(r.randint(0, 2))] for _ in range(r.randint(1, 2))]
    return programs.Program(steps), [sg.tensor(np.asarray(rng.uniform(-1.5, 1.5, shape))) for shape in shapes]


@pytest.mark.parametrize("part", range(10))
def test_generated_programs_read_back(part):
    """25 programs of all kinds of operations each, in the notation that fits or in index notation."""
    for seed in range(25 * part, 25 * (part + 1)):
        f, values = program(seed)
        order, notation = (2, "auto") if seed % 5 == 0 else (1, ("auto", "auto", "index")[seed % 3])
        check(sg.derive(lambda *xs, f=f: f(*xs), order=order, notation=notation)(*values))


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("notation", ["auto", "index"])
def test_programs_of_all_rows_read_back(part, notation):
    """Between them they use every row that is not elementwise."""
    checked = 0
    for f, *arrays in list(PROGRAMS.values())[part::6]:
        if any(a.dtype.kind != "f" for a in arrays):
            continue

        def loss(*xs, f=f):
            y = f(*(x * 1 for x in xs))
            return ((y.abs() if y.is_complex() else y) ** 2).sum()

        try:
            derivation = sg.derive(loss, notation=notation)(*map(sg.tensor, arrays))
        except TraceError:  # a write in place, or a shape that depends on values
            continue
        check(derivation)
        checked += 1
    assert checked > 15


MASKS = [
    lambda w, m: (w * (m == 1)).sum(), lambda w, m: (w * (m != 0)).sum(), lambda w, m: (w * (m == sg.tensor(1.0))).sum(),
    lambda w, m: (w * (m > 0)).sum(), lambda w, m: (w * (m < 1)).sum(), lambda w, m: (w * (m >= 1)).sum(),
    lambda w, m: (w * (m == m)).sum(),
    lambda w, m: (w * (m * 1 == 1)).sum(), lambda w, m: (w * (m + m == 2)).sum(), lambda w, m: (w * (m ^ True)).sum(),
    lambda w, m: (w * (1 - m * 1)).sum(), lambda w, m: (w * m).sum(), lambda w, m: sg.where(m == 1, w, -w).sum(),
    lambda w, m: (w * (m == 0) * m).sum(), lambda w, m: (w * (m.float() == 1)).sum(), lambda w, m: (w * (m + m.logical_not())).sum(),
    lambda w, m: (w * (m != m.logical_not())).sum(), lambda w, m: (w * m.logical_and(w > 1)).sum(), lambda w, m: (w * m[0]).sum(),
]  # fmt: skip


@pytest.mark.parametrize("notation", ["auto", "matrix", "elements", "index"])
@pytest.mark.parametrize("f", MASKS)
def test_boolean_arguments_stay_in_the_formula(f, notation):
    w = sg.tensor([1.0, 2.0, 3.0], dtype=sg.float64, requires_grad=True)
    for mask in ([True, False, True], [False, False, True]):
        m = sg.tensor(mask)
        try:
            derivation = sg.derive(f, wrt="w", notation=notation)(w, m)
        except FormulaError:
            assert notation == "matrix"
            return
        value = f(w, m)
        found = derivation(w, m)
        np.testing.assert_allclose(found[0].numpy(), value.detach().numpy(), rtol=1e-15)
        (wanted,) = sg.autograd.grad(value, [w], materialize_grads=True)
        np.testing.assert_allclose(found[1].numpy(), wanted.numpy(), rtol=1e-15)
        check(derivation)


@pytest.mark.parametrize("notation", ["auto", "elements", "index"])
@pytest.mark.parametrize("f", [lambda x: x.reshape(2, 0).sum(1), lambda x: x.reshape(0), lambda x: sg.cat([x, x]).reshape(0, 2).sum(0)])
def test_reshapes_of_nothing(f, notation):
    x = sg.zeros(0, 3, dtype=sg.float64)
    value, (slope,) = sg.derive(f, notation=notation)(x)(x)
    assert np.array_equal(value.numpy(), f(x).numpy())
    assert slope.shape == (*f(x).shape, 0, 3)


V = S(3, sg.float64)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: S((-1,)), ValueError, r"a spec's sizes are known and not negative, got \(-1,\)"),
        (lambda: S((2, 10**30)), ValueError, "a spec's sizes"),
        (lambda: S((1.5,)), TypeError, r"an integer or a tuple of integers, such as spec\(\(3, 4\)\), got \(1.5,\)"),
        (lambda: S(None), TypeError, "an integer or a tuple of integers"),
        (lambda: S("ab"), TypeError, "an integer or a tuple of integers"),
        (lambda: S(2, 3), TypeError, r"did you mean sg\.spec\(\(2, 3\)\)\?"),
        (lambda: sg.derive(sigmoids, order="2"), TypeError, "such as 1 for gradients or 2 for Hessians, got str '2'"),
        (lambda: sg.derive(sigmoids, order=1.5), TypeError, "order must be an integer"),
        (lambda: sg.derive(sigmoids, notation=["auto"]), ValueError, "notation must be one of auto, scalar"),
        (lambda: (sg.ones(3, requires_grad=True) * 2).sum().formula(order=None), TypeError, "order must be an integer"),
        (lambda: sg.derive(lambda x: x.sum(), notation="elements")(S((100, 100))), FormulaError, r"\.py:\d+: elements notation"),
    ],
)  # fmt: skip
def test_bad_requests_say_what_to_do(make, error, words):
    with pytest.raises(error, match=words):
        make()


ODD = {
    "NaN compared": lambda x: (x * (x * 0 + float("nan") > 0)).sum(),
    "the root of -1 compared": lambda x: (x * ((x * 0 - 1).sqrt() > 0)).sum(),
    "a clamped root of -1": lambda x: (x * (x * 0 - 1).sqrt().clamp(0, 1)).sum(),
    "relu of NaN": lambda x: (x + (x * 0 + float("nan")).relu()).sum(),
    "1/0": lambda x: (x / 0).sum(),
    "infinity": lambda x: (x * float("inf")).sum(),
    "log of -1": lambda x: ((x * 0 - 1).log() * x).sum(),
    "log of 0": lambda x: ((x * 0).log() + x).sum(),
    "digamma at 0": lambda x: ((x * 0).digamma() + x).sum(),
    "a power with a product in it": lambda x: ((x @ x + 1) ** (x @ x / 4 - x.sum())).sum(),
    "the larger of two products": lambda x: sg.maximum(x @ x - x.sum(), x.sum() * 2),
    "remainder by 0": lambda x: (x % 0).sum(),
}


@pytest.mark.parametrize("notation", ["auto", "index", "elements"])
@pytest.mark.parametrize("name", ODD)
def test_odd_numbers_have_formulas(name, notation):
    """SymPy refuses to compare NaN and sqrt(-1), and takes products of matrices apart: no error of its own comes out of derive."""
    derivation = sg.derive(ODD[name], notation=notation)(V)
    assert str(derivation).count("\n") >= 1
    assert derivation.latex()


def test_the_reader_can_fail():
    """Text that is no formula, or not one of matrices, is refused; and other text has other numbers."""
    given = {"A": np.eye(3) + 1, "x": np.arange(3.0)}
    for text in ("A x*x", "x**2", "A -1 x +", "(A x", "A y", "x ∘ A"):
        with pytest.raises((NotationError, ValueError)):
            Matrices(given).value(parse(text, ("A", "x")), (3,))
    first, second = (Matrices(given).value(parse(text, ("A", "x")), (3,)) for text in ("A (x ∘ x)", "(A x) ∘ x"))
    assert not np.allclose(first, second)


NAMED = [
    ("H", "x"), ("H", "I"), ("I", "H"), ("I", "x"), ("E", "S"), ("N", "pi"), ("lambda_", "e"), ("sum", "tr"), ("det", "max"), ("t1", "t_1"),
    ("i", "j"), ("δ", "Σ"), ("exp", "sqrt"), ("x1", "x_1"), ("step", "H"), ("Id", "I"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), NAMED)
def test_names_of_the_user_are_never_ours(a, b):
    """Functions of two arguments with these names, in each notation: the text still has one meaning."""
    space: dict = {"sg": sg}
    body = f"(({a} @ {b}).relu().exp() + {b}.T.exp().sqrt() + sg.erf({a})).sum() * ({a} * {a}).sum().sqrt() + {a}.trace() ** 2"
    exec(f"def f({a}, {b}): return {body}", space)  # the names are constants of this file
    derivation = sg.derive(space["f"], notation="matrix")(drawn((3, 3)), drawn((3, 3), 1))
    check(derivation)
    check(sg.derive(space["f"], notation="index", order=2)(drawn((2, 2)), drawn((2, 2), 1)))
    assert str(derivation).startswith(f"f({a}, {b}) = ")
    assert derivation.latex().count(r"\frac{\partial f}") == 2


def test_a_function_named_h_is_not_the_step():
    def H(x):
        return x**2

    assert str(sg.derive(H)(1.0)) == "H(x) = x**2\n∂H/∂x = 2*x"

    def H(x):
        return x.relu()

    assert str(sg.derive(H)(1.0)) == "H(x) = max(0, x)\n∂H/∂x = step(x)\n(step(t) is 1 for t > 0, else 0)"
    assert r"\operatorname{step}\left(x\right)" in sg.derive(H)(1.0).latex()


def test_renamed_words_are_explained():
    def f(I, sum):  # noqa: E741  (the name is the test)
        return (I @ I).trace() * sum + I.sum()

    def trace(I):  # noqa: E741
        return I.trace() ** 2

    text = str(sg.derive(f, wrt="I")(S((2, 2)), 1.0))
    assert text.splitlines()[0] == "f(I, sum) = sum*tr(I I) + sum′(I)"
    assert text.splitlines()[-1] == "(sum′ is our notation for sum, which is the name of something else here)"
    assert "(Id is the identity matrix)" in str(sg.derive(trace, wrt="I")(S((2, 2))))


def test_labels_that_would_look_alike_are_told_apart_in_latex():
    text = sg.derive(lambda x1, x_1, mu, mu_: (x1 * x_1 * mu * mu_).sum(), wrt="x1")(*[S(2)] * 4).latex()
    assert r"\mathrm{x\_1} \circ \mu \circ \mathrm{mu\_}" in text


@pytest.mark.parametrize("seed", [1, 2, 77])
def test_text_does_not_depend_on_the_hash_seed(seed):
    def printed(hash_seed):
        command = [sys.executable, "-W", "error", "-m", "tests.support.notation.printed", "25"]
        environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout

    first = printed(0)
    assert first.count("∂²f/∂x∂x = ") >= 5
    assert printed(seed) == first


NEGATIVE = np.array([[0.1, 1.0], [1.0, 0.2]])


def test_logdet_of_a_negative_determinant():
    """Eager and compiled as in PyTorch: no value, and no slope. The formula has a domain."""
    for f in (sg.logdet, sg.compile(sg.logdet, backend="numpy"), sg.compile(sg.logdet, backend="xla")):
        x = sg.tensor(NEGATIVE, requires_grad=True)
        y = f(x)
        y.backward()
        assert np.isnan(y.item())
        assert np.all(x.grad.numpy() == 0)
    formula = sg.derive(sg.logdet)(sg.tensor(NEGATIVE))
    assert str(formula).splitlines() == ["logdet(input) = log(det(input))", "∂logdet/∂input = input⁻ᵀ", "for det(input) > 0"]
    with pytest.raises(FormulaError, match=r"this formula is for det\(input\) > 0, which does not hold .*: they are outside of its domain"):
        formula(sg.tensor(NEGATIVE))
    assert formula.certify().ok
    batch = sg.tensor(np.stack([NEGATIVE, np.eye(2)]))
    assert "for all_i " in str(sg.derive(lambda x: sg.logdet(x).sum())(batch))


@pytest.mark.parametrize("given", [sg.tensor([[2.0, 0.5], [0.5, 1.0]], dtype=sg.float64), S((2, 2), sg.float64)])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: (sg.linalg.eigvalsh(x) ** 2 * sg.tensor([1.0, 2.0], dtype=sg.float64)).sum(),
        lambda x: sg.linalg.cholesky(x).sum(),
        lambda x: sg.linalg.cholesky(x).sin().sum(),
        lambda x: sg.logdet(x) + sg.linalg.eigvalsh(x).log().sum(),
    ],
)
def test_symmetric_functions_are_certified_inside_their_domain(f, given):
    certificate = sg.derive(f)(given).certify()
    assert certificate.ok, str(certificate)
    assert len(certificate.comparisons) == 3


def test_certify_still_finds_what_is_wrong_about_a_symmetric_function(monkeypatch):
    derivation = sg.derive(lambda x: sg.linalg.cholesky(x).sum())(S((3, 3), sg.float64))
    true = type(derivation).evaluate
    monkeypatch.setattr(type(derivation), "evaluate", lambda *args, **options: [a * 1.001 for a in true(*args, **options)])
    assert not derivation.certify().ok
