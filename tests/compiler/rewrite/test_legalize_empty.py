"""Reductions of too few numbers through XLA, and the pass that writes them as what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.rewrite.legalize_empty import legalize_small_reductions

VAR = "graph(%x: float64[2]) {{\n  %1 = var(%x; axis=(0,), correction={}, keepdims=False) : float64[]\n  return %1\n}}"
MEDIAN = "graph(%x: {}) {{\n  %1 = median_all(%x; axis=(0,), keepdims=False) : float64[]\n  return %1\n}}"


@pytest.mark.parametrize("correction", [2, 2.5, 3])
def test_a_variance_without_freedom_is_written_out(correction):
    graph = Graph.parse(VAR.format(correction))
    assert "var(" not in str(legalize_small_reductions(graph))
    for x in (np.array([1.0, 2.0]), np.array([1.0, 1.0])):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(evaluate(legalize_small_reductions(graph), [x])[0], evaluate(graph, [x])[0])


def test_the_median_of_nothing_is_a_number_of_its_own():
    graph = Graph.parse(MEDIAN.format("float64[0]"))
    assert str(legalize_small_reductions(graph)) == "graph(%x: float64[0]) {\n  return float64(nan)\n}"


def test_what_has_no_elements_is_not_computed():
    graph = Graph.parse("graph(%x: bool[2, 0, 0], %y: bool[0]) {\n  %1 = logical_and(%x, %y) : bool[2, 0, 0]\n  return %1\n}")
    assert str(legalize_small_reductions(graph)) == (
        "graph(%x: bool[2, 0, 0], %y: bool[0]) {\n  %2 = expand(bool(0); shape=(2, 0, 0)) : bool[2, 0, 0]\n  return %2\n}"
    )
    assert legalize_small_reductions(legalize_small_reductions(graph)) == legalize_small_reductions(graph)


@pytest.mark.parametrize("text", [VAR.format(1), VAR.format(1.5), MEDIAN.format("float64[1]")])
def test_enough_numbers_stay(text):
    graph = Graph.parse(text)
    assert legalize_small_reductions(graph) is graph


CALLS = {
    "var": lambda x: x.var(), "std": lambda x: x.std(correction=5), "var_mean": lambda x: sg.var_mean(x, 0, correction=2),
    "std_mean": lambda x: sg.std_mean(x, 1, correction=1), "var of each": lambda x: x.var(1),
    "complex": lambda x: sg.complex(x, x * 2).var(0, correction=3),
}  # fmt: skip


@pytest.mark.parametrize("data", [[[1.0], [3.0]], [[1.0], [1.0]], np.zeros((0, 1))], ids=["apart", "equal", "nothing"])
def test_spreads_are_as_eagerly(data):
    x = sg.tensor(data, dtype=sg.float64)
    compared(CALLS, x)


@pytest.mark.parametrize("dtype", [sg.float32, sg.int64, sg.int32, sg.uint8])
def test_medians_of_nothing_are_as_eagerly(dtype):
    compared({"median": lambda x: x.median(), "nanmedian": lambda x: x.nanmedian()}, sg.zeros(0, dtype=dtype))


def compared(calls, x):
    def f(x):
        found = [call(x) for call in calls.values()]
        return [t for r in found for t in (r if isinstance(r, tuple) else (r,))]

    with np.errstate(all="ignore"):
        for found, wanted in zip(sg.compile(f)(x), f(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-12, strict=True)


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 2, 2)])
def test_derivatives_of_a_determinant_without_elements(shape):
    def f(x):
        (g,) = sg.autograd.grad(sg.linalg.det(x).sum(), x, create_graph=True)
        return sg.linalg.det(x), g, sg.autograd.grad((g * g).sum(), x)[0]

    x = sg.zeros(shape, dtype=sg.float64, requires_grad=True)
    for found, wanted in zip(sg.compile(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found.detach().numpy(), wanted.detach().numpy(), strict=True)
