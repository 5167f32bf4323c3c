"""Emitted source: readable, with explicit types, and made of nothing that a user wrote."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.backends.xla.emit import source
from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.errors import GraphError
from symgrad.ops.shapes import elementwise_type
from symgrad.ops.spec import Row


def values(*shape):
    return sg.tensor(np.random.default_rng(0).normal(size=shape), requires_grad=True)


def test_source():
    fast = sg.compile(lambda x, w, y: ((x @ w).relu() - y).pow(2).sum())
    fast(values(5, 4), values(4, 2), values(5, 2))
    assert fast.source() == (
        "import jax\n"
        "import jax.numpy as jnp\n"
        "\n\n"
        "def forward(x, w, y):\n"
        '    """(x: float64[5, 4], w: float64[4, 2], y: float64[5, 2]) -> float64[]"""\n'
        "    return jnp.sum(jnp.square(jax.nn.relu(x @ w) - y), axis=(0, 1), keepdims=False)\n"
    )
    assert fast.source("vjp").splitlines()[4] == "def vjp(x, w, y, g):"


def test_lines():
    """What is used twice, or long, has a line of its own; so has each of several results."""
    x, w = input_value(0, (5, 4), np.float32), input_value(1, (4, 2), np.float32)
    h = xp.tanh(x @ w)
    g = 1 - h * h
    assert source(Graph([x, w], [g @ xp.transpose(w, dim0=0, dim1=1), xp.sum(g, axis=(0,), keepdims=True)], ["x", "w"]), "f") == (
        "import jax.numpy as jnp\n"
        "\n\n"
        "def f(x, w):\n"
        '    """(x: float32[5, 4], w: float32[4, 2]) -> float32[5, 4], float32[1, 2]"""\n'
        "    v0 = jnp.tanh(x @ w)\n"
        "    v1 = 1 - v0 * v0\n"
        "    v2 = v1 @ w.T\n"
        "    v3 = jnp.sum(v1, axis=(0,), keepdims=True)\n"
        "    return (v2, v3)\n"
    )


def test_source_is_a_module_of_its_own():
    fast = sg.compile(lambda x: (x.sin() * 2).sum())
    x = values(3)
    wanted = fast(x).detach().numpy()
    scope = {}
    exec(compile(fast.source(), "emitted", "exec"), scope)
    assert float(scope["forward"](x.detach().numpy())) == pytest.approx(float(wanted), rel=1e-6)


@pytest.mark.parametrize(
    "label", ["__import__('os')", "x\ny", "jnp", "jax", "lambda", "__class__", "λ", "", "x" * 300, "v0", "v1", "operand_0", "slice"]
)
def test_labels_are_names_or_left_out(label):
    x = input_value(0, (3,), np.float64)
    y = input_value(1, (3,), np.float64)
    graph = Graph([x, y], [xp.sin(x) * xp.sin(x) * y * xp.exp(y) * xp.exp(y) + y], [label, "y"])
    (function,) = [node for node in ast.parse(source(graph)).body if isinstance(node, ast.FunctionDef)]
    names = [a.arg for a in function.args.args]
    assert len(set(names)) == 2
    assert all(name.isascii() and name.isidentifier() for name in names)
    arrays = [np.array([1.0, 2, 3]), np.array([4.0, 5, 6])]
    np.testing.assert_allclose(XlaKernel(graph)(arrays)[0], evaluate(graph, arrays)[0], rtol=1e-14)


@pytest.mark.parametrize("label", ["g", "t"])
def test_names_that_a_text_binds_change_only_where_an_operand_has_them(label):
    g, indices = input_value(0, (2,), np.float64), input_value(1, (2,), np.int64)
    text = source(Graph([g, indices], [xp.scatter_along(g, indices, axis=0, size=3)], [label, "places"]))
    assert ("lambda t:" in text) == (label != "t")
    assert ("lambda t_" in text) == (label == "t")


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), -2, -0.5, 1e300, True, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers(value, dtype):
    x = input_value(0, (2,), dtype)
    graph = Graph([x], [xp.add(x, value), xp.expand(xp.mul(xp.add(x, value), 0) + value, shape=(3, 2))])
    array = np.array([1, 2], dtype)
    for found, wanted in zip(XlaKernel(graph)([array]), evaluate(graph, [array]), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)


def user_row(jax):
    return Row("own", ("x",), np.sin, (None,), (frozenset(),), "float", elementwise_type("own", "float"), jax=jax, elementwise=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("open({x})", "uses the name 'open'"),
        ("__import__('os').system({x})", "uses the name '__import__'"),
        ("{x}.__class__", "private name '__class__'"),
        ("jnp.sin(y)", "uses the name 'y'"),
    ],
)
def test_a_rows_own_lowering_may_name_its_operands_and_jax(text, words):
    x = input_value(0, (3,), np.float64)
    with pytest.raises(GraphError, match=words):
        source(Graph([x], [apply(user_row(lambda x: text.format(x=x)), (x,), {})]))


def test_an_operand_that_is_mentioned_twice_is_computed_once():
    x = input_value(0, (3,), np.float64)
    graph = Graph([x], [apply(user_row(lambda x: f"{x} * {x}"), (xp.exp(x),), {})])
    assert source(graph).count("jnp.exp") == 1


def test_a_row_without_lowering_is_named():
    x = input_value(0, (3,), np.float64)
    row = Row("own", ("x",), lambda x: x, (None,), (frozenset(),), "float", elementwise_type("own", "float"))
    with pytest.raises(GraphError, match="row 'own' has no lowering to JAX"):
        XlaKernel(Graph([x], [apply(row, (x,), {})]))


def test_integers_and_booleans_keep_their_types():
    x = input_value(0, (3,), np.int32)
    flag = input_value(1, (3,), np.bool_)
    total = {"axis": (0,), "keepdims": False}
    graph = Graph([x, flag], [xp.sum(x, **total), xp.sum(flag, **total), x > 1, x * 2, xp.cast(flag, dtype=np.dtype(np.int8))])
    arrays = [np.array([1, 2, 3], np.int32), np.array([True, False, True])]
    for found, wanted in zip(XlaKernel(graph)(arrays), evaluate(graph, arrays), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
