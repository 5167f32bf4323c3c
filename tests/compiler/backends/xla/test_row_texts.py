"""The texts of the rows' jax columns: numbers that have no literal, and names that a text binds itself, beside names of the user."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from row_graphs import WITHOUT_SHAPE, row_graphs, samples_of

import symgrad as sg
from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir.builder import apply
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.ops.table import TABLE

F = sg.nn.functional
INF, NAN = float("inf"), float("nan")
NUMBERS = {"exponent", "value", "min", "max", "nan", "posinf", "neginf", "correction", "ord"}
"""Attributes that may be floats although the samples have integers or None."""


def with_other_floats(row):
    """Every float attribute of the row in turn as inf, -inf and nan: (arguments, attributes)."""
    seen = set()
    for args, attrs in samples_of(row):
        for key, x in attrs.items():
            if key not in seen and (isinstance(x, float) or (key in NUMBERS and not isinstance(x, (bool, str, tuple)))):
                seen.add(key)
                yield from ((args, {**attrs, key: number}) for number in (INF, -INF, NAN))


FLOATS = {name: found for name, row in TABLE.items() if row.attrs and name not in WITHOUT_SHAPE and (found := [*with_other_floats(row)])}


def test_rows_with_float_attributes_are_found():
    expected = {"pad", "clamp", "hardtanh", "power", "threshold", "huber_loss", "celu", "elu", "leaky_relu", "softplus", "vector_norm"}
    assert expected | {"hardshrink", "softshrink", "nan_to_num", "logit", "addcmul", "var"} <= FLOATS.keys()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FLOATS)
def test_infinite_and_nan_attributes(name):
    inputs, outputs, arrays = [], [], []
    for args, attrs in FLOATS[name]:
        slots = {i: input_value(len(inputs) + i, a.shape, a.dtype) for i, a in enumerate(args) if isinstance(a, np.ndarray)}
        arrays += [args[i] for i in slots]
        inputs += slots.values()
        found = apply(TABLE[name], tuple(slots.get(i, a) for i, a in enumerate(args)), attrs)
        outputs += found if isinstance(found, tuple) else (found,)
    graph = Graph(inputs, outputs)
    for found, wanted in zip(XlaKernel(graph)(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-12)


CALLS = {
    "pad": lambda x: F.pad(x, (1, 1), value=-INF).exp(),
    "pad nan": lambda x: F.pad(x, (1, 1), value=NAN).nan_to_num(1.0),
    "clamp": lambda x: x.clamp(0.0, INF),
    "clamp below": lambda x: x.clamp(-INF, 1.0),
    "Hardtanh": sg.nn.Hardtanh(0.0, INF),
    "power": lambda x: (x / 4) ** INF,
    "threshold": lambda x: F.threshold(x, -INF, 1.0),
    "threshold value": lambda x: F.threshold(x, 0.0, -INF).exp(),
    "huber_loss": lambda x: F.huber_loss(x, x.roll(1), delta=INF),
    "celu": lambda x: F.celu(x, alpha=INF),
    "elu": lambda x: F.elu(x, alpha=INF),
    "leaky_relu": lambda x: F.leaky_relu(x, -INF),
    "softplus": lambda x: F.softplus(x, threshold=INF),
    "softplus beta": lambda x: F.softplus(x, beta=INF),
    "hardshrink": lambda x: F.hardshrink(x, INF),
    "softshrink": lambda x: F.softshrink(x, INF),
    "norm": lambda x: x.norm(p=INF),
    "norm nan": lambda x: x.norm(p=NAN),
    "nan_to_num": lambda x: (1 / (x - x)).nan_to_num(0.0, NAN, INF),
    "addcmul": lambda x: sg.addcmul(x, x, x, value=-INF),
    "complex": lambda x: (x + 0j) * complex(INF, 1),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_calls_with_infinite_and_nan_options(name):
    """The value and, of a real one, the gradient of its sum."""
    f, x = CALLS[name], sg.tensor([0.5, -1.25, 2.0], dtype=sg.float64)
    fast = sg.compile(f, backend="xla")
    np.testing.assert_allclose(fast(x).numpy(), f(x).numpy(), rtol=1e-12)
    if not f(x).is_complex():
        total = lambda x: f(x).sum()
        leaf = x.clone().requires_grad_()
        total(leaf).backward()
        wanted = leaf.grad.numpy() if name != "nan_to_num" else np.zeros(3)  # NaN in eager code, finite behind the mask
        np.testing.assert_allclose(sg.compile(total, backend="xla").grad(x, wrt=0).numpy(), wanted, rtol=1e-12)


# Names that a text binds itself: parameters of its lambdas.


def bound(name):
    """The names that the texts of a row bind for its samples."""
    row, found = TABLE[name], set()
    if callable(row.jax):
        for args, attrs in samples_of(row):
            texts = row.jax(*(None if a is None else f"operand_{i}" for i, a in enumerate(args)), **attrs)
            nodes = list(ast.walk(ast.parse(texts)))
            found |= {n.arg for n in nodes if isinstance(n, ast.arg)}
            found |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(found)


BINDING = {name: found for name in TABLE if name not in WITHOUT_SHAPE and (found := bound(name))}


def test_rows_that_bind_names_are_found():
    assert {"scatter_along", "pool_scatter"} <= BINDING.keys()


@pytest.mark.parametrize("name", BINDING)
def test_inputs_may_have_the_names_that_a_text_binds(name):
    for graph, arrays in row_graphs()[name][:2]:
        words = (BINDING[name] * len(arrays))[: len(arrays)]
        labels = [word if words.index(word) == i else f"{word}{i}" for i, word in enumerate(words)]
        for turned in (labels, labels[::-1]):
            named = Graph(graph.inputs, graph.outputs, turned)
            for found, wanted in zip(XlaKernel(named)(arrays), evaluate(graph, arrays), strict=True):
                np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9, atol=1e-9)


def test_integers_called_i_are_sorted():
    x = sg.tensor([2, 0, 1, 1])
    values, places = sg.compile(lambda i: i.sort(stable=True), backend="xla")(x)
    assert values.tolist() == [0, 1, 1, 2]
    assert places.tolist() == [1, 2, 3, 0]
    assert sg.compile(lambda i: i.topk(2)[0], backend="xla")(x).tolist() == [2, 1]
