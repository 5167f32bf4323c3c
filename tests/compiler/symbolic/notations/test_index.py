"""Index notation: every row that is not elementwise has an element or a name, and what is written is what the row computes."""

from __future__ import annotations

import numpy as np
import pytest
from row_programs import PROGRAMS
from row_samples import caught

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.elements import ELEMENTS, NAMED
from symgrad.compiler.ir.graph import Graph, Value, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.symbolic import lower
from symgrad.ops.table import TABLE

SAMPLES = caught()
UNTRACED = {
    "embedding by frequency", "mask", "masked_select", "packed gru", "packed lstm", "tests", "write into a view", "write a whole",
}  # fmt: skip
NO_SHAPE = {"nonzero", "unique", "unique_consecutive", "bincount"}  # before they run


def one_row(row, args, attrs):
    """The row's application as a graph, and the arrays of its inputs."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    places = iter(range(len(arrays)))
    operands = [input_value(next(places), a.shape, a.dtype) if isinstance(a, np.ndarray) else a for a in args]
    result = apply(row, tuple(operands), dict(attrs))
    return Graph([x for x in operands if isinstance(x, Value)], result if isinstance(result, tuple) else (result,)), arrays


def test_every_row_has_a_meaning():
    for name, row in TABLE.items():
        written = {output for known, output in ELEMENTS if known == name}
        ways = row.elementwise + (row.compose is not None) + bool(written) + (name in NAMED and not written)
        assert ways == 1, name
        assert not row.elementwise or row.sympy is not None, name


def test_names_are_rows():
    assert {name for name, _ in ELEMENTS} | NAMED <= TABLE.keys()


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - NO_SHAPE))
def test_the_element_is_what_the_row_computes(name):
    for args, attrs in SAMPLES[name]:
        graph, arrays = one_row(TABLE[name], args, attrs)
        for found, wanted in zip(lower(graph, "index").evaluate(arrays), evaluate(graph, arrays), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def as_booleans(args):
    return [a.real > 0.2 if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else a for a in args]


def accepts_booleans(name):
    try:
        return all(evaluate(*one_row(TABLE[name], as_booleans(args), attrs)) for args, attrs in SAMPLES[name])
    except (TypeError, IndexError, ValueError, RuntimeError):  # the row is for numbers
        return False


@pytest.mark.parametrize("name", sorted(n for n in SAMPLES.keys() & {known for known, _ in ELEMENTS} - {"eye"} if accepts_booleans(n)))
def test_elements_of_booleans(name):
    """A condition on indices times a boolean is a boolean: the mask of causal attention is the lower triangle of one."""
    for args, attrs in SAMPLES[name]:
        graph, arrays = one_row(TABLE[name], as_booleans(args), attrs)
        for found, wanted in zip(lower(graph, "index").evaluate(arrays), evaluate(graph, arrays), strict=True):
            np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=1e-12, atol=1e-12)


def test_causal_attention():
    x = sg.tensor(np.random.default_rng(0).normal(size=(1, 3, 4)), requires_grad=True)

    def f(x):
        y = F.scaled_dot_product_attention(x, x * 2, x + 1, is_causal=True)
        return (y * y.cos()).sum()

    f(x).backward()
    value, (gradient,) = sg.derive(f)(x.detach())(x.detach())
    np.testing.assert_allclose(value, f(x).detach(), rtol=1e-12)
    np.testing.assert_allclose(gradient, x.grad, rtol=1e-11)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_elements_of_a_stack_come_from_each_of_its_tensors(count):
    arrays = [np.full((2, 3), n + 0.5) for n in range(count)]
    for axis in (0, 1, 2):
        graph, given = one_row(TABLE["stack"], arrays, {"axis": axis})
        np.testing.assert_array_equal(lower(graph, "index").evaluate(given)[0], np.stack(arrays, axis))


@pytest.mark.parametrize("name", [name for name, (f, *arrays) in PROGRAMS.items() if all(a.dtype.kind == "f" for a in arrays)])
def test_gradients_of_programs(name):
    """The formula of a program's value and gradients, run, is what eager execution gives."""
    f, *arrays = PROGRAMS[name]
    leaves = [sg.tensor(a, requires_grad=True) for a in arrays]

    def loss(*xs):
        y = f(*(x * 1 for x in xs))
        return ((y.abs() if y.is_complex() else y) ** 2).sum()

    try:
        derivation = sg.derive(loss, notation="index")(*leaves)
    except sg.errors.TraceError:  # a write in place, or a shape that depends on values
        assert name in UNTRACED
        return
    value, gradients = derivation(*leaves)
    wanted = loss(*leaves)
    np.testing.assert_allclose(value.numpy(), wanted.detach().numpy(), rtol=1e-12)
    for found, gradient in zip(gradients, sg.autograd.grad(wanted, leaves, materialize_grads=True), strict=True):
        np.testing.assert_allclose(found.numpy(), gradient.numpy(), rtol=1e-11, atol=1e-12)


def lines(f, *shapes, **options):
    return str(sg.derive(f, notation="index", **options)(*map(sg.spec, shapes))).splitlines()


@pytest.mark.parametrize(
    ("f", "shapes", "wanted"),
    [
        (
            lambda x, A: x @ A @ x,
            [(3,), (3, 3)],
            ["f(x, A) = Σ_{i, j} x[i]*x[j]*A[i, j]", "∂f/∂x[i] = Σ_j (A[i, j] + A[j, i])*x[j]"],
        ),
        (
            lambda x, y: (x.cumsum(1) * y).sum(),
            [(3, 4), (3, 4)],
            ["f(x, y) = Σ_{i, j} y[i, j]*Σ_{k ≤ j} x[i, k]", "∂f/∂x[i, j] = Σ_{k ≥ j} y[i, k]"],
        ),
        (
            lambda x, y: (sg.cat([x, y], 1) ** 3).sum(),
            [(3, 4), (3, 2)],
            ["f(x, y) = Σ_{i, j < 6} (x[i, j]**3 if j < 4 else y[i, j - 4]**3)", "∂f/∂x[i, j] = 3*x[i, j]**2"],
        ),
        (
            lambda x, w: F.conv1d(x[None, None], w[None, None], padding=1).sum(),
            [(6,), (3,)],
            ["f(x, w) = Σ_{i, j < 6} [0 ≤ i + j - 1 < 6]*x[i + j - 1]*w[i]", "∂f/∂x[i] = Σ_{j < 6} [0 ≤ i - j + 1 < 3]*w[i - j + 1]"],
        ),
    ],
    ids=["quadratic form", "scan", "cat", "convolution"],
)
def test_text(f, shapes, wanted):
    assert lines(f, *shapes, wrt="x") == wanted


def test_no_index_has_the_letter_of_an_argument_or_of_another_index_in_reach():
    assert lines(lambda i, k: (i @ k).sin().sum(), (2, 3), (3, 2), wrt="i") == [
        "f(i, k) = Σ_{j, l} sin(Σ_m i[j, m]*k[m, l])",
        "∂f/∂i[j, l] = Σ_m cos(Σ_n i[j, n]*k[n, m])*k[l, m]",
    ]


def test_latex():
    text = sg.derive(lambda x, w1: (x @ w1).softmax(0)[0], wrt="x", notation="index")(sg.spec((3,)), sg.spec((3, 2))).latex()
    assert r"\operatorname*{logsumexp}_{j} \sum_{k} x_{k} {w_{1}}_{k, j}" in text
    assert r"\frac{\partial f}{\partial x_{i}}" in text


def test_sums_that_merge_keep_their_indices_apart():
    """A sum inside a product takes in another one, and counts as deeper for the sums around it."""
    def head(x, q, k, v):
        weights = ((x @ q) @ (x @ k).T / 2).softmax(-1)
        return ((weights @ (x @ v)) ** 2).sum()

    rng = np.random.default_rng(0)
    args = [sg.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((5, 4), (4, 3), (4, 3), (4, 3))]
    _, grads = sg.derive(head, notation="index", wrt=("v", "q"))(*args)(*args)
    head(*args).backward()
    np.testing.assert_allclose(grads[0], args[3].grad, rtol=1e-11)
    np.testing.assert_allclose(grads[1], args[1].grad, rtol=1e-11)


@pytest.mark.parametrize(
    ("f", "shape"),
    [
        (lambda x: F.pad(x.reshape(-1), (1, 0)).cos().sum(), (3, 3)),  # ⌊(i - 1)/3⌋: fractions would round
        (lambda x: F.pad(x.reshape(-1), (2, 1)).reshape(4, 3).sin().sum(), (3, 3)),
        (lambda x: sg.outer(x, x).tril().sum(), (3,)),  # two brackets that hold count twice
        (lambda x: (sg.outer(x, x).triu(1) * sg.eye(4, dtype=sg.float64).flip(0)).sum(), (4,)),
    ],
)
def test_arithmetic_of_places_and_brackets_is_exact(f, shape):
    x = sg.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)
    certificate = sg.derive(f, order=2, notation="index")(x).certify()
    assert certificate.ok, str(certificate)
