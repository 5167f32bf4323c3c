"""The second and third life of elementwise rows: their graphs, differentiated, run by the interpreter and by XLA, beside NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from symgrad.compiler.autodiff.pull import vjp
from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir import builder
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.ops.table import TABLE
from symgrad.testing.rows import exact, ones, outputs_of, rules_of
from symgrad.testing.samples import samples

ROWS = [row for row in TABLE.values() if row.elementwise and "f" in row.kinds and samples(row)]
CASES = [(row, sample) for row in ROWS for sample in samples(row) if all(a.dtype.kind in "fb" for a in sample[0])]


def graph_of(cases):
    """One graph of all the rows, each with inputs of its own."""
    inputs, outputs, arrays = [], [], []
    for row, (args, attrs) in cases:
        values = [input_value(len(inputs) + i, a.shape, a.dtype) for i, a in enumerate(args)]
        inputs += values
        arrays += args
        outputs.append(builder.apply(row, tuple(values), attrs))
    return Graph(inputs, outputs, [f"x{i}" for i in range(len(inputs))]), arrays


def close(actual, expected, what):
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-11, err_msg=what)


def ruled(cases):
    return [(row, sample) for row, sample in cases if row.differentiable and not any(getattr(rule, "refuses", False) for rule in row.vjp)]


def cotangents(cases):
    """One for every floating-point input: by the rule if it has one, else 0."""
    result = []
    for row, sample in cases:
        g = ones(row, sample)
        having = rules_of(row, sample)
        result += [exact(row, i, sample, g) if i in having else np.zeros_like(a) for i, a in enumerate(sample[0]) if a.dtype.kind == "f"]
    return result


def seeds(cases):
    return [np.ones_like(o) for case in cases for o in outputs_of(*case)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_graph_of_a_row(row):
    cases = [case for case in CASES if case[0] is row]
    graph, arrays = graph_of(cases)
    for got, case in zip(evaluate(graph, arrays), cases, strict=True):
        close(got, outputs_of(*case)[0], f"value {case[1][1]}")
    cases = ruled(cases)
    graph, arrays = graph_of(cases)
    for got, expected in zip(evaluate(vjp(graph), arrays + seeds(cases)), cotangents(cases), strict=True):
        close(got, expected, "cotangent")


def test_lowering_of_all_rows():
    pytest.importorskip("jax")
    graph, arrays = graph_of(CASES)
    for got, case in zip(XlaKernel(graph)(arrays), CASES, strict=True):
        close(got, outputs_of(*case)[0], f"{case[0].name} {case[1][1]}")


@pytest.mark.slow
def test_lowering_of_all_cotangents():
    pytest.importorskip("jax")
    cases = ruled(CASES)
    graph, arrays = graph_of(cases)
    got = XlaKernel(vjp(graph))(arrays + seeds(cases))
    names = [f"{row.name}, {row.args[i]}, {sample[1]}" for row, sample in cases for i, a in enumerate(sample[0]) if a.dtype.kind == "f"]
    for value, expected, name in zip(got, cotangents(cases), names, strict=True):
        close(value, expected, name)


GAMMA = ("lgamma", "digamma", "polygamma")  # JAX has NaN at their poles
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.5, 0.3, np.inf, -np.inf, np.nan, 100.0]


def at_edges():
    """The rows of one and two real arguments at zeros, ties, infinities and NaN, in and out of their domains."""
    pairs = np.array(list(itertools.product(EDGES, EDGES))).T
    for row, (args, attrs) in CASES:
        if row.name not in GAMMA and len(args) < 3:
            yield row, ((np.array(EDGES),) if len(args) == 1 else tuple(pairs), attrs)


@pytest.mark.slow
def test_kernels_agree_at_the_edges():
    pytest.importorskip("jax")
    cases = [case for case in at_edges() if not np.iscomplexobj(outputs_of(*case)[0])]
    graph, arrays = graph_of(cases)
    for got, case in zip(XlaKernel(graph)(arrays), cases, strict=True):
        close(got, outputs_of(*case)[0], f"{case[0].name} {case[1][1]}")
    cases = ruled(cases)
    graph, arrays = graph_of(cases)
    names = [f"{row.name}, {name}, {sample[1]}" for row, sample in cases for name in row.args]
    for got, expected, name in zip(XlaKernel(vjp(graph))(arrays + seeds(cases)), cotangents(cases), names, strict=True):
        close(got, expected, name)


WHOLE = [
    row for row in TABLE.values()
    if row.elementwise and "i" in row.kinds and row.policy not in ("float", "where") and (samples(row) or not row.attrs)
]  # fmt: skip
DIVISIONS = ("div_rounded", "floor_divide", "fmod", "remainder")


def at_whole_edges(dtype):
    """All rows that give whole numbers at small ones, the ends of the type, and exponents and shifts beyond its bits."""
    limits = np.iinfo(dtype)
    edges = [v for v in (0, 1, -1, 2, -2, 3, -3, 7, 63, 64, 65, 100, limits.min, limits.min + 1, limits.max) if limits.min <= v]
    some = np.random.default_rng(0).choice(edges, (300, 3))
    for row in WHOLE:
        n = len(row.args)
        args = np.array(some[:, :n] if n > 2 else list(itertools.product(edges, repeat=n)), dtype).T
        if row.name in DIVISIONS:
            args = args[:, args[1] != 0]
        for attrs in [attrs for _, attrs in samples(row)] or [{}]:
            if row.name != "power" or (attrs["exponent"] >= 0 and type(attrs["exponent"]) is int):
                yield row, (tuple(args), attrs)


@pytest.mark.parametrize("dtype", [np.int64, *(pytest.param(t, marks=pytest.mark.slow) for t in (np.int8, np.uint8))])
def test_kernels_agree_at_the_edges_of_whole_numbers(dtype):
    pytest.importorskip("jax")
    with np.errstate(all="ignore"):
        cases = list(at_whole_edges(dtype))
        graph, arrays = graph_of(cases)
        for got, expected, (row, (_, attrs)) in zip(XlaKernel(graph)(arrays), evaluate(graph, arrays), cases, strict=True):
            np.testing.assert_array_equal(got, expected, f"{row.name} {attrs}", strict=True)
