"""Formulas at the edge of numbers: none has an infinity that the function has not, and NaN and ∞ give what eager code gives."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sympy as sp
from layer_programs import ACTIVATIONS, LAYERS, LOSSES, Bench
from row_programs import PROGRAMS as ROWS

import symgrad as sg
from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.symbolic import lower
from symgrad.errors import TraceError
from symgrad.ops.table import TABLE
from symgrad.testing.samples import samples
from tests.compiler.symbolic.test_printed_formulas import GOLDEN, drawn
from tests.compiler.symbolic.test_textbook import CASES

F = sg.nn.functional
NAN, INF = float("nan"), float("inf")
EDGES = (NAN, INF, -INF, 0.5, -2.0, 0.0)
ANOTHER_ORDER = {"complex", "lerp", "hypot", "hardswish", "log1p_square_slope"}
"""Rows whose formula adds and multiplies in another order than the kernel, which differs where infinities meet, or one and 0."""


def expressions(program):
    """All that a program is made of."""
    whole = [*program.outputs, *(e for _, e in program.bindings)]
    return [part for e in whole for part in (e.ravel() if isinstance(e, np.ndarray) else [e])]


def invented(derivation):
    return [e for e in expressions(derivation.program) if e.has(sp.zoo, sp.nan)]



@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", [*CASES, *GOLDEN])
def test_golden_formulas_invent_no_infinity(name, notation):
    f, shapes, wrt, order = CASES[name][:4] if name in CASES else GOLDEN[name]
    found = sg.derive(f, wrt=wrt, order=order, notation=notation)(*(drawn(shape, seed) for seed, shape in enumerate(shapes)))
    assert invented(found) == []


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", [name for name, (_, *arrays) in ROWS.items() if all(a.dtype.kind == "f" for a in arrays)])
def test_row_programs_invent_no_infinity(name, notation):
    f, *arrays = ROWS[name]
    try:
        found = sg.derive(lambda *xs: f(*(x * 1 for x in xs)).sum(), notation=notation)(*map(sg.tensor, arrays))
    except TraceError:  # a shape that depends on values
        return
    assert invented(found) == []


def call(text, inputs, first=False):
    """A layer as a function of the tensors that it is given, all of them or the first of their batch."""
    bench = Bench(sg, "float64")
    layer = bench.make(text).eval().requires_grad_(False)
    args, kwargs = bench.arguments(inputs)
    given = [a[:1] if first and isinstance(a, sg.Tensor) and a.ndim else a for a in args]
    places = [n for n, a in enumerate(given) if isinstance(a, sg.Tensor) and a.requires_grad]

    def f(*leaves):
        own = dict(zip(places, leaves, strict=True))
        result = layer(*(own.get(n, a) for n, a in enumerate(given)), **kwargs)
        return (result[0] if isinstance(result, tuple) else result).sum()

    return f, [given[n].detach() for n in places]


CALLS = [(text, inputs) for layers in (ACTIVATIONS, LAYERS, LOSSES) for text, several in layers.items() for inputs in several]


@pytest.mark.filterwarnings("ignore:Implicit dimension", "ignore:dropout2d", "ignore:reduction")
@pytest.mark.parametrize("batch", range(8))
def test_layers_invent_no_infinity(batch):
    for text, inputs in CALLS[batch::8]:
        f, leaves = call(text, inputs)
        if not leaves:  # of indices alone
            continue
        try:
            found = sg.derive(f, notation="index")(*leaves)
        except TraceError:  # random numbers, or values that decide
            continue
        assert invented(found) == [], text


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("text", LOSSES)
def test_losses_of_one_sample_are_what_eager_code_gives(text):
    for inputs in LOSSES[text]:
        f, leaves = call(text, inputs, first=True)
        try:
            wanted = f(*leaves)
        except (RuntimeError, ValueError, TypeError, IndexError):  # what is left of it are no arguments
            continue
        found = sg.derive(f)(*leaves)
        assert invented(found) == []
        value, _ = found(*leaves)
        np.testing.assert_allclose(value.numpy(), wanted.numpy(), rtol=1e-11)


DIVIDED = {
    "a choice": lambda x: (1 / sg.where(x > 1, x, 0)).sum(),
    "a choice, squared": lambda x: (x / sg.where(x > 1, x, 0) ** 2).sum(),
    "a mask": lambda x: (x * (x > 1) / (x > 1).double()).sum(),
    "zero": lambda x: (x / 0).sum(),
    "a count": lambda x: x[0] * (x[0] > 1) / (x[:1] > 1).sum(),
    "a root": lambda x: sg.where(x > 1, x, 0).rsqrt().sum(),
    "a reciprocal": lambda x: sg.where(x > 1, x, 0).reciprocal().sum(),
    "a power": lambda x: (sg.where(x > 1, x, 0) ** -1.5).sum(),
    "a logarithm": lambda x: sg.where(x > 1, x, 0).log().sum(),
}


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", DIVIDED)
@pytest.mark.parametrize("given", [[1.5, 2.0, 3.0], [0.5, 2.0, 0.25]])
def test_a_division_by_what_may_be_zero_stands_as_it_is(name, notation, given):
    f, x = DIVIDED[name], sg.tensor(given, dtype=sg.float64, requires_grad=True)
    found = sg.derive(f, wrt="x", notation=notation)(x)
    assert invented(found) == []
    value, slope = found(x)
    wanted = f(x)
    np.testing.assert_allclose(value.numpy(), wanted.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(slope.numpy(), sg.autograd.grad(wanted, x)[0].numpy(), rtol=1e-12)


@pytest.mark.parametrize("notation", ["auto", "index"])
def test_an_element_of_a_quotient_by_a_diagonal(notation):
    x = sg.tensor([0.5, -2.0, 0.25])
    found = sg.derive(lambda x: (x / sg.eye(3))[0, 1], wrt="x", notation=notation)(x)
    assert invented(found) == []
    assert found(x)[0].item() == -INF


def test_where_a_delta_is_zero_the_slope_is_zero():
    """Also beside one that is infinite or NaN."""
    x = sg.tensor([0.0, 2.0, -1.0], requires_grad=True)
    for f in (lambda x: x[0].log(), lambda x: x[0].rsqrt() * x[1], lambda x: (x[:2].sqrt() * x[1:]).sum()):
        wanted = sg.autograd.grad(f(x), x)[0]
        np.testing.assert_allclose(sg.derive(f, wrt="x", notation="index")(x)(x)[1].numpy(), wanted.numpy(), rtol=1e-6)


def test_all_samples_ignored():
    """The mean of nothing, in the formula as in eager code."""
    x, ignored = sg.tensor([[0.5, -0.3, 1.2]]), sg.tensor([-100])
    found = sg.derive(lambda x, y: F.cross_entropy(x, y), wrt="x")(x, sg.tensor([1]))
    assert np.isnan(F.cross_entropy(x, ignored).item())
    assert np.isnan(found(x, ignored)[0].item())
    assert found(x, sg.tensor([2]))[0].item() == pytest.approx(F.cross_entropy(x, sg.tensor([2])).item())


# --- NaN and infinity


def of_numbers(row):
    """Settings of an elementwise row that takes floats."""
    given = [attrs for args, attrs in samples(row) if all(a is not None and a.dtype.kind == "f" for a in args)]
    return list({str(attrs): dict(attrs) for attrs in given}.values())


@pytest.mark.parametrize("name", [n for n, row in TABLE.items() if row.elementwise and "f" in row.kinds and n not in ANOTHER_ORDER])
def test_rows_at_nan_and_infinity(name):
    row = TABLE[name]
    grid = list(np.array(list(itertools.product(EDGES, repeat=len(row.args)))).T)
    inputs = [input_value(i, a.shape, a.dtype) for i, a in enumerate(grid)]
    for attrs in of_numbers(row):
        graph = Graph(inputs, (apply(row, tuple(inputs), attrs),))
        (found,), (wanted,) = lower(graph, "scalar").evaluate(grid), evaluate(graph, grid)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


FINITE_BEHIND_MASKS = ("isfinite", "nan_to_num of a logarithm")
"""Functions whose eager gradient is NaN where a mask discards an infinite or undefined value, as in PyTorch."""
ASKING = {
    "nan_to_num": lambda x: x.nan_to_num().sum(),
    "nan_to_num with numbers": lambda x: x.nan_to_num(2.0, 3.0, 4.0).sum(),
    "nansum": lambda x: x.nansum(),
    "nanmean": lambda x: x.nanmean(),
    "isnan": lambda x: sg.where(x.isnan(), 0.0, x).sum(),
    "isnan of a logarithm": lambda x: sg.where(x.log().isnan(), 0.0, x).sum(),
    "isinf": lambda x: sg.where(x.isinf(), 0.0, x).nansum(),
    "isfinite": lambda x: sg.where(x.isfinite(), x * x, 1.0).sum(),
    "isposinf, isneginf": lambda x: sg.where(x.isposinf(), 1.0, sg.where(x.isneginf(), 2.0, x)).nansum(),
    "x == x": lambda x: sg.where(x == x, x, 1.0).nan_to_num().sum(),
    "x != x": lambda x: sg.where(x != x, 1.0, x).nan_to_num().sum(),
    "x >= x": lambda x: sg.where(x >= x, x, 1.0).nan_to_num().sum(),
    "x == inf": lambda x: sg.where(x == INF, 1.0, x).nansum(),
    "x < inf": lambda x: sg.where(x < INF, x, 1.0).nan_to_num().sum(),
    "x > -inf": lambda x: sg.where(x > -INF, x, 1.0).nan_to_num().sum(),
    "abs(x) == inf": lambda x: sg.where(x.abs() == INF, 1.0, x).nansum(),
    "abs(x) >= 0": lambda x: sg.where(x.abs() >= 0, x, 1.0).nan_to_num().sum(),
    "exp(x) > 0": lambda x: sg.where(x.exp() > 0, 1.0, 0.0).sum() + x.nansum(),
    "nan_to_num of a logarithm": lambda x: x.log().nan_to_num().sum(),
    "fmax": lambda x: sg.fmax(x, sg.tensor(0.5)).sum(),
    "fmin": lambda x: sg.fmin(x, sg.tensor(0.5)).nan_to_num().sum(),
    "masked_fill": lambda x: x.masked_fill(x.isnan(), 0.0).sum(),
    "a NaN of the user's": lambda x: sg.where(x > 1, NAN, x).nansum(),
    "nanquantile": lambda x: x.nanquantile(0.5),
    "nanmedian": lambda x: x.nanmedian(),
    "threshold": lambda x: F.threshold(x, 0.25, 2.0).nan_to_num(7.0).sum(),
}


@pytest.mark.parametrize("notation", ["auto", "index"])
@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("given", [[1.0, NAN, 3.0], [1.0, INF, -1.0], [-INF, 2.0, 0.5], [1.5, -1.0, 2.0]])
def test_functions_that_ask_for_nan_and_infinity(name, notation, given):
    """Value and gradient of the formula are those of eager code, except behind masks, where they are those of compiled code."""
    f, x = ASKING[name], sg.tensor(given, requires_grad=True)
    value, slope = sg.derive(f, wrt="x", notation=notation)(x)(x)
    wanted = f(x)
    np.testing.assert_allclose(value.numpy(), wanted.detach().numpy(), rtol=1e-6)
    eager = sg.autograd.grad(wanted, x)[0].numpy()
    if name in FINITE_BEHIND_MASKS:
        np.testing.assert_allclose(slope.numpy(), sg.compile(f, backend="numpy").grad(x, wrt=0).detach().numpy(), rtol=1e-6)
        assert np.isfinite(slope.numpy()).all()
        slope, eager = slope[np.isfinite(eager)], eager[np.isfinite(eager)]
    np.testing.assert_allclose(slope.numpy(), eager, rtol=1e-6)


def test_what_is_asked_stands_in_the_formula():
    lines = lambda f: str(sg.derive(f, wrt="x")(sg.tensor(0.5))).splitlines()
    assert lines(lambda x: sg.where(x.isnan(), 0.0, x)) == ["f(x) = (0 if isnan(x) else x)", "∂f/∂x = (0 if isnan(x) else 1)"]
    assert lines(lambda x: x.nan_to_num())[1] == "∂f/∂x = (1 if isfinite(x) else 0)"
    assert lines(lambda x: sg.where(x == x, x, 0.0))[0] == "f(x) = (x if ~isnan(x) else 0)"
    latex = sg.derive(lambda x: sg.where(x.isnan(), 0.0, x), wrt="x")(sg.tensor(0.5)).latex()
    assert r"\operatorname{isnan}\left(x\right)" in latex
    assert "neq" not in latex


@pytest.mark.parametrize("make", [lambda: sg.tensor(-4.0).sqrt(), lambda: sg.tensor(-1.0).log(), lambda: sg.tensor(-8.0) ** sg.tensor(0.3)])
def test_constants_that_are_complex_in_mathematics_are_nan_in_real_tensors(make):
    d = sg.derive(lambda x: x * make())(sg.spec(()))
    assert "f(x) = nan" in str(d)
    assert all(math.isnan(float(found)) for found in (d(2.0)[0], *d(2.0)[1]))
