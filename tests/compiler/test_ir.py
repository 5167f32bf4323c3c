"""Graphs: interned, typed, immutable, printed, verified, and hashed the same in every process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from symgrad.compiler.builder import xp
from symgrad.compiler.interpreter import evaluate
from symgrad.compiler.ir import Graph, input_value, intern, literal
from symgrad.compiler.printer import text
from symgrad.compiler.verify import verify
from symgrad.errors import GraphError
from symgrad.ops.table import TABLE

X = input_value(0, (2, 3), np.float64)
W = input_value(1, (3,), np.float64)


def test_equal_structures_are_one_value():
    assert xp.tanh(X @ W) is xp.tanh(X @ W)
    assert xp.transpose(X, dim0=-1, dim1=-2) is xp.transpose(X, dim0=0, dim1=1)
    assert xp.tanh(X @ W) is not xp.tanh(X @ (W * 2))


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), (0.0, -0.0), (0, False), (1.0, 1 + 0j), (2, 3)])
def test_literals_differ_in_type_and_bits(a, b):
    assert literal(a, np.float64) is not literal(b, np.float64)
    assert literal(a, np.float64) is literal(a, np.float64)
    assert literal(a, np.float64) is not literal(a, np.float32)


def test_attributes_differ_in_type_and_bits():
    assert xp.power(X, exponent=3) is not xp.power(X, exponent=3.0)
    assert xp.sum(X, axis=(0,), keepdims=False) is not xp.sum(X, axis=(0,), keepdims=True)


def test_values_are_immutable():
    with pytest.raises(AttributeError, match="immutable"):
        X.shape = (3, 2)
    with pytest.raises(TypeError):
        xp.power(X, exponent=3).attrs["exponent"] = 4


def test_a_value_has_no_truth():
    with pytest.raises(GraphError, match="no truth value"):
        bool(X > 0)


def test_text():
    y = xp.sum(xp.tanh(X @ W) * 2, axis=(0,), keepdims=False)
    assert text(Graph([X, W], [y], ["x", "not a name"])) == (
        "graph(%x: float64[2, 3], %1: float64[3]) {\n"
        "  %2 = matmul(%x, %1) : float64[2]\n"
        "  %3 = tanh(%2) : float64[2]\n"
        "  %4 = mul(%3, float64(2)) : float64[2]\n"
        "  %5 = sum(%4; axis=(0,), keepdims=False) : float64[]\n"
        "  return %5\n"
        "}"
    )


def test_several_outputs_print_and_run():
    values, indices = xp.max_along(X, axis=1, keepdims=False)
    graph = verify(Graph([X], [values, indices]))
    assert "max_along(%x0; axis=1, keepdims=False) : float64[2], int64[2]" in text(graph)
    found = evaluate(graph, [np.array([[1.0, 3, 2], [6, 5, 4]])])
    np.testing.assert_array_equal(found[0], [3, 6])
    np.testing.assert_array_equal(found[1], [1, 0])


def test_hash_is_of_the_program_not_of_its_names():
    graph = Graph([X, W], [X @ W], ["a", "b"])
    assert graph.hash == Graph([X, W], [X @ W], ["c", "d"]).hash


@pytest.mark.parametrize(
    "other",
    [
        Graph([X, W], [xp.tanh(X @ W) + 2]),
        Graph([X, W], [xp.tanh(X @ W) + 1.0]),
        Graph([X, W], [xp.tanh(X @ W)]),
        Graph([X, W], [xp.tanh(X @ W) + 1, X]),
        Graph([X, W, W], [xp.tanh(X @ W) + 1]),
        Graph([X, W], [xp.sinh(X @ W) + 1]),
        Graph([input_value(0, (2, 3), np.float32), input_value(1, (3,), np.float32)],
              [xp.tanh(input_value(0, (2, 3), np.float32) @ input_value(1, (3,), np.float32)) + 1]),
    ],
)  # fmt: skip
def test_hash_tells_programs_apart(other):
    assert Graph([X, W], [xp.tanh(X @ W) + 1]).hash != other.hash


def test_hash_is_the_same_in_every_process():
    code = (
        "import numpy as np\n"
        "from symgrad.compiler.builder import xp\n"
        "from symgrad.compiler.ir import Graph, input_value\n"
        "x = input_value(0, (2, 3), np.float32)\n"
        "print(Graph([x], [xp.sum(xp.tanh(x) ** 2.5 * 3, axis=(0, 1), keepdims=True)]).hash)"
    )
    hashes = set()
    for seed in ("0", "1", "77"):
        run = subprocess.run([sys.executable, "-c", code], env={**__import__("os").environ, "PYTHONHASHSEED": seed}, capture_output=True)
        hashes.add(run.stdout)
    assert len(hashes) == 1
    assert len(hashes.pop().strip()) == 32


def test_deep_graphs():
    start = value = input_value(0, (), np.float64)
    for _ in range(20_000):
        value = xp.sin(value)
    graph = Graph([start], [value])
    assert len(graph) == 20_001
    assert len(graph.hash) == 32
    del graph, value  # releasing it must not recurse either


def test_verifier_accepts_what_the_builder_makes():
    graph = Graph([X, W], [xp.where(X > 0, X * W, 1)])
    assert verify(graph) is graph


def test_verifier_names_a_wrong_type():
    wrong = intern("tanh", TABLE["tanh"], (X,), {}, (2, 4), np.dtype(np.float64))
    with pytest.raises(GraphError, match=r"tanh is said to be float64\[2, 4\], its row says float64\[2, 3\]"):
        verify(Graph([X], [wrong]))


def test_verifier_wants_casts_written_out():
    narrow = input_value(1, (2, 3), np.float32)
    wrong = intern("add", TABLE["add"], (X, narrow), {}, (2, 3), np.dtype(np.float64))
    with pytest.raises(GraphError, match=r"add computes in float64, and is given float32\[2, 3\] without a cast"):
        verify(Graph([X, narrow], [wrong]))


def test_verifier_knows_the_inputs():
    with pytest.raises(GraphError, match="none of the graph's 1 inputs"):
        verify(Graph([X], [X @ W]))
    with pytest.raises(GraphError, match="input 0 of the graph"):
        verify(Graph([W, X], [X @ W]))


def test_interpreter_wants_the_types_of_the_graph():
    graph = Graph([X, W], [X @ W])
    with pytest.raises(GraphError, match=r"input 1 is float64\[3\], got float32\[3\]"):
        evaluate(graph, [np.ones((2, 3)), np.ones(3, np.float32)])
    with pytest.raises(GraphError, match="2 inputs, got 1"):
        evaluate(graph, [np.ones((2, 3))])


def test_an_attribute_that_no_graph_can_hold():
    with pytest.raises(GraphError, match="attribute of type object"):
        intern("power", TABLE["power"], (X,), {"exponent": object()}, (2, 3), np.dtype(np.float64))
