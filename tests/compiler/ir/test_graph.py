"""Graphs: interned, typed, immutable, printed, verified, and hashed the same in every process."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, freeze, input_value, intern, literal, output
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.printer import text
from symgrad.compiler.ir.verify import verify
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


def test_graphs_are_immutable():
    graph = Graph([X], [X])
    assert graph.values == (X,)
    for change in (lambda: setattr(graph, "outputs", ()), lambda: setattr(graph, "other", 1), lambda: delattr(graph, "inputs")):
        with pytest.raises(AttributeError, match="a graph is immutable: cannot"):
            change()


def test_equal_graphs():
    graph = Graph([X, W], [X @ W], ["x", "w"])
    same = Graph([X, W], [X @ W], ["x", "w"])
    assert graph == same
    assert hash(graph) == hash(same)
    assert graph != Graph([X, W], [X @ W], ["a", "w"])
    assert graph != Graph([X, W], [X], ["x", "w"])
    assert graph != Graph([X, W, W], [X @ W], ["x", "w", "v"])
    assert graph != "graph"


def test_attributes_are_held_in_plain_types_that_nobody_writes_to():
    array = np.ones(2)
    attrs = intern("power", TABLE["power"], (X,), {"exponent": [np.float64(2), array, {"b": np.str_("a")}]}, X.shape, X.dtype).attrs
    number, held, mapping = attrs["exponent"]
    array[0] = 5
    assert [type(number), type(mapping["b"]), held[0]] == [float, str, 1]
    with pytest.raises(ValueError, match="WRITEABLE"):
        held.setflags(write=True)
    with pytest.raises(TypeError):
        mapping["b"] = 1


@pytest.mark.parametrize("bad", [object(), {1: 2}, object, dict, np.array([None]), np.array(["a"]), {"a": (object(),)}])
def test_what_no_graph_holds(bad):
    with pytest.raises(GraphError, match=r"a graph cannot hold|keys of a mapping"):
        freeze(bad)


def test_a_value_has_no_truth():
    with pytest.raises(GraphError, match="no truth value"):
        bool(X > 0)


def test_text():
    y = xp.sum(xp.tanh(X @ W) * 2, axis=(0,), keepdims=False)
    assert text(Graph([X, W], [y], ["x", "not a name"])) == (
        'graph(%x: float64[2, 3], %1 "not a name": float64[3]) {\n'
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
    assert "max_along(%x0; axis=1, keepdims=False) : (float64[2], int64[2])" in text(graph)
    found = evaluate(graph, [np.array([[1.0, 3, 2], [6, 5, 4]])])
    np.testing.assert_array_equal(found[0], [3, 6])
    np.testing.assert_array_equal(found[1], [1, 0])


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


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda whole: intern("tanh", TABLE["tanh"], (whole,), {}, (), np.dtype(float)), "tanh is given max_along, which has 2"),
        (lambda whole: whole, "the graph gives max_along, which has 2 outputs: one of them must be chosen"),
        (lambda whole: intern("output", None, (X,), {"index": 0}, (), np.dtype(float)), "has one output"),
        (lambda whole: intern("output", None, (whole,), {"index": 2}, (), np.dtype(float)), "has 2 outputs, and no output 2"),
        (lambda whole: intern("output", None, (whole,), {"index": 0}, (7,), np.dtype(float)), r"is said to be float64\[7\]"),
        (lambda whole: literal(1.5, np.int64), "1.5 is no number of type int64"),
        (lambda whole: literal(1j, np.float64), "1j is no number of type float64"),
        (lambda whole: intern("mul", TABLE["mul"], (X, None), {}, X.shape, X.dtype), "mul needs all its arguments"),
        (lambda whole: intern("bitwise_not", TABLE["bitwise_not"], (X,), {}, X.shape, X.dtype), "bitwise_not is not there for float64"),
        (lambda whole: intern("new", None, (X,), {}, X.shape, X.dtype), "an application without a row"),
    ],
)
def test_verifier_names_what_is_wrong(wrong, message):
    whole = xp.max_along(X, axis=1, keepdims=False)[0].args[0]
    verify(Graph([X], [output(whole, 0)]))
    with pytest.raises(GraphError, match=message):
        verify(Graph([X], [wrong(whole)]))


def test_interpreter_wants_the_types_of_the_graph():
    graph = Graph([X, W], [X @ W])
    with pytest.raises(GraphError, match=r"input 1 is float64\[3\], got float32\[3\]"):
        evaluate(graph, [np.ones((2, 3)), np.ones(3, np.float32)])
    with pytest.raises(GraphError, match="2 inputs, got 1"):
        evaluate(graph, [np.ones((2, 3))])


def test_an_attribute_that_no_graph_can_hold():
    with pytest.raises(GraphError, match="attribute of type object"):
        intern("power", TABLE["power"], (X,), {"exponent": object()}, (2, 3), np.dtype(np.float64))
