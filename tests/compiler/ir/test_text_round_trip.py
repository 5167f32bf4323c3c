"""A graph as text comes back as the same graph; any other text is an error that names its place."""

from __future__ import annotations

import math
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from row_graphs import row_graphs

import symgrad as sg
from symgrad.compiler.ir.attributes import freeze
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value, intern, literal
from symgrad.compiler.ir.verify import verify
from symgrad.errors import GraphError
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE

X = input_value(0, (2, 3), np.float64)
ODD_NAN = struct.unpack(">d", bytes.fromhex("fff8000000000001"))[0]
HOSTILE = ["", " ", "a b", "1", "%x", "x", '"', "\\", "\n} return", "é", "\ud800", "\u202e", "\x00", "none", "graph", "a" * 999, "'; --"]


def kept(name="keep"):
    """A row that gives its argument, whatever its attribute `a` is."""
    return Row(name, ("x",), lambda x, a: x, (None,), (frozenset(),), "each", lambda x, a: x, attrs=("a",))


KEEP = kept()


def with_attribute(a):
    return Graph([X], [intern("keep", KEEP, (X,), {"a": a}, X.shape, X.dtype)])


@pytest.mark.parametrize("name", sorted(row_graphs()))
def test_every_row_comes_back(name):
    assert row_graphs()[name]
    for graph, _ in row_graphs()[name]:
        found = Graph.parse(str(graph))
        assert found == graph
        assert all(a is b for a, b in zip(found.values, graph.values, strict=True))
        assert found.hash == graph.hash


numbers = st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.sampled_from([ODD_NAN, 2**200, -(2**64)])
types = st.sampled_from([np.dtype(n) for n in ("float16", "float32", "int8", "bool", "complex64")] + [sg.bfloat16.dtype])
filled = st.builds(np.full, st.sampled_from([(), 3, (2, 0), (9, 9)]), st.integers(0, 1) | st.just(math.nan), st.sampled_from("fdF"))
arrays = filled | st.sampled_from([np.array([True, False]), np.array([7], np.uint8)])
attributes = st.recursive(
    st.none() | st.just(...) | numbers | st.text() | types | arrays,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.builds(slice, inner, inner, inner),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(attributes)
def test_every_attribute_comes_back(a):
    graph = with_attribute(a)
    found = Graph.parse(str(graph), {"keep": KEEP})
    assert found == graph
    assert freeze(found.outputs[0].attrs["a"]) == freeze(a)


@pytest.mark.parametrize(
    "a",
    [-(2**20_000), ((),) * 40, np.array([0x7FA00001], np.uint32).view(np.float32), np.array([1.0, 2.0], ">f8"), np.float32(0.1)],
    ids=["long", "many tuples", "odd NaN", "other byte order", "scalar"],
)
def test_odd_attributes_come_back(a):
    graph = with_attribute(a)
    assert Graph.parse(str(graph), {"keep": KEEP}) == graph


UNARY = [xp.sin, xp.exp, xp.sigmoid, lambda v: xp.cast(v > 0, dtype=np.dtype(np.float64)), lambda v: xp.transpose(v, dim0=0, dim1=1),
         lambda v: xp.sum(v, axis=(0,), keepdims=True), lambda v: xp.sort(v, axis=1, descending=True)[0],
         lambda v: xp.split(v, axis=0, sizes=(v.shape[0], 0))[0]]  # fmt: skip
BINARY = [xp.add, xp.div, xp.maximum, lambda a, b: xp.where(a > 0.5, a, b), lambda a, b: xp.cat(a, b, axis=0), lambda a, b: a - 2.5 * b]


@st.composite
def graphs(draw):
    """Programs of up to 12 steps, with values used several times, on inputs of any label."""
    labels = draw(st.lists(st.sampled_from(HOSTILE) | st.text(max_size=4), min_size=1, max_size=3))
    inputs = [input_value(i, (2, 2), np.float64) for i in range(len(labels))]
    values = list(inputs)
    for _ in range(draw(st.integers(0, 12))):
        pick = st.sampled_from(values)
        one = draw(st.booleans())
        try:
            values.append(draw(st.sampled_from(UNARY))(draw(pick)) if one else draw(st.sampled_from(BINARY))(draw(pick), draw(pick)))
        except (RuntimeError, ValueError):
            continue  # shapes that do not meet
    return Graph(inputs, draw(st.lists(st.sampled_from(values), max_size=3)), labels)


@settings(max_examples=200, deadline=None)
@given(graphs())
def test_generated_graphs_come_back(graph):
    found = Graph.parse(str(verify(graph)))
    assert found == graph
    assert found.hash == graph.hash
    assert str(found) == str(graph)


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_may_be_any_text(label):
    graph = Graph([X, input_value(1, (), np.float64)], [X], [label, "x"])
    assert Graph.parse(str(graph)) == graph
    assert len(str(graph).splitlines()) == 3


def test_the_text_of_every_kind_of_thing():
    y = input_value(1, (3,), np.float32)
    values, _ = xp.max_along(X, axis=1, keepdims=False)
    row = xp.linear(y, xp.reshape(y, shape=(1, 3)), None)
    graph = Graph([X, y], [xp.clamp(values, min=-math.inf, max=None), literal(2, np.float32), row], ["x", "layer.0"])
    assert str(graph) == (
        'graph(%x: float64[2, 3], %1 "layer.0": float32[3]) {\n'
        "  %2 = max_along(%x; axis=1, keepdims=False) : (float64[2], int64[2])\n"
        "  %3 = %2[0] : float64[2]\n"
        "  %4 = clamp(%3; max=None, min=-inf) : float64[2]\n"
        "  %5 = reshape(%1; shape=(1, 3)) : float32[1, 3]\n"
        "  %6 = linear(%1, %5, none) : float32[1]\n"
        "  return %4, float32(2), %6\n"
        "}"
    )
    assert Graph.parse(str(graph)) == graph


def test_one_of_one_output_is_not_the_whole():
    (part,) = xp.split(X, axis=0, sizes=(2,))
    graph = Graph([X], [part])
    assert "split(%x0; axis=0, sizes=(2,)) : (float64[2, 3],)\n" in str(graph)
    assert Graph.parse(str(graph)) == graph


def test_an_operation_of_the_user():
    graph = with_attribute("odd name")
    with pytest.raises(GraphError, match=r"line 2, column 8: there is no operation 'keep'; .*rows="):
        Graph.parse(str(graph))
    odd = kept("not a word")
    graph = Graph([X], [intern(odd.name, odd, (X,), {"a": 1}, X.shape, X.dtype)])
    assert Graph.parse(str(graph), {**TABLE, odd.name: odd}) == graph
    tanh = kept("tanh")
    assert Graph([X], [intern("tanh", tanh, (X,), {}, X.shape, X.dtype)]).hash != Graph([X], [xp.tanh(X)]).hash


GOOD = """graph(%x: float64[2, 3], %y: float64[3]) {
  %2 = mul(%x, %y) : float64[2, 3]
  %3 = sum(%2; axis=(0,), keepdims=False) : float64[3]
  %4 = max_along(%3; axis=0, keepdims=False) : (float64[], int64[])
  %5 = %4[0] : float64[]
  %6 = pow(%5, float64(2)) : float64[]
  return %6
}"""


def test_the_good_text_is_good():
    assert str(Graph.parse(GOOD)) == GOOD
    assert Graph.parse(" ".join(GOOD.split())) == Graph.parse(GOOD)


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("graph(", "grph(", "line 1, column 1: expected 'graph', got 'grph'"),
        (") {", ") ", "line 2, column 3: expected '{', got '%2'"),
        ("%y: float64[3]", "%x: float64[3]", "line 1, column 26: %x has a value already"),
        ("float64[2, 3], %y", "float65[2, 3], %y", "line 1, column 11: expected a type, such as float32, got 'float65'"),
        ("%x: float64[2", "%x: float64[-2", "line 1, column 19: -2 is no size of a dimension"),
        ("%x: float64[2", "%x: float64[" + "9" * 19, "line 1, column 19: 9999999999999999999 is no size of a dimension"),
        ("%x: float64[2", "%x: float64[" + "9" * 500, "line 1, column 19: an integer of 500 digits is written in hexadecimal, as 0x..."),
        ("%2 = mul(%x", "%2 = mul(%z", "line 2, column 12: %z has no value yet"),
        ("%2 = mul(%x", "%2 = multiply(%x", "line 2, column 8: there is no operation 'multiply'"),
        ("mul(%x, %y)", "mul(%x)", "line 2, column 8: mul takes 2 arguments, and has 1"),
        ("mul(%x, %y) : float64[2, 3]", "mul(%x, %y) : float64[3]", r".* said to be float64\[3\], its row says float64\[2, 3\]"),
        ("mul(%x, %y)", "mul(%x, float32(1))", r"line 2, column 8: mul computes in float64, and is given float32\[\] without a cast"),
        ("mul(%x, %y)", "mul(%x, int64(1.5))", r"line 2, column 16: 1.5 is no number of type int64"),
        ("mul(%x, %y)", "bitwise_and(%x, %y)", r"line 2, column 8: bitwise_and is not there for float64\[2, 3\]"),
        ("axis=(0,)", "axis=3.5", "line 3, column 8: sum refuses its operands: .* not iterable"),
        ("axis=(0,)", 'axis="all"', "line 3, column 8: sum refuses its operands"),
        ("axis=(0,)", "axes=(0,)", "line 3, column 16: sum has axis, keepdims, and no 'axes'"),
        ("axis=(0,)", "keepdims=True", "line 3, column 31: the attribute 'keepdims' is given twice"),
        ("axis=(0,)", "axis=(0)", "line 3, column 23: expected ',', got '\\)'"),
        ("axis=(0,)", "axis=" + "(" * 40, "line 3, column 53: attributes are nested more than 32 deep"),
        ("axis=(0,)", "axis=slice(1, 2)", "line 3, column 27: a slice has start, stop and step, got 2 parts"),
        ("axis=(0,)", "axis=nan(0x0)", "line 3, column 25: 0x0 are not the bits of a NaN"),
        ("axis=(0,)", 'axis="\\q"', "line 3, column 21: .* is no string as JSON writes them"),
        ("axis=(0,)", 'axis="open', "line 3, column 21: expected an attribute, got '\"'"),
        ("axis=(0,)", "axis=float32[2](1.0)", r"line 3, column 28: the numbers do not make an array of type float32\[2\]"),
        ("axis=(0,)", 'axis=float32[2]("00zz")', r"line 3, column 28: the numbers do not make an array"),
        ("axis=(0,)", "axis=__import__", "line 3, column 21: expected a type, such as float32, got '__import__'"),
        ("(float64[], int64[])", "float64[]", r"line 4, column 8: .*, its row says \(float64\[\], int64\[\]\)"),
        ("%4[0]", "%4[2]", "line 5, column 8: max_along has 2 outputs, and no output 2"),
        ("%4[0]", "%3[0]", "line 5, column 8: .* has one output, and none of several can be chosen"),
        ("%4[0] : float64[]", "%4[0] : int64[]", r"line 5, column 8: output 0 of .* is said to be int64\[\]"),
        ("pow(%5", "pow(%4", "line 6, column 8: pow is given max_along, which has 2 outputs: one of them must be chosen"),
        ("pow(%5", "pow(none", "line 6, column 8: pow needs all its arguments"),
        ("return %6", "return %4", r"line 7, column 10: max_along has 2 outputs: one of them must be chosen, as in %1\[0\]"),
        ("return %6", "", "line 8, column 1: expected 'return', got '}'"),
        ("%6\n}", "%6", "line 7, column 12: expected '}', got the end of the text"),
        ("%6\n}", "%6\n} %7", "line 8, column 3: expected the end of the text, got '%7'"),
    ],
)  # fmt: skip
def test_errors_name_their_place(before, after, error):
    assert before in GOOD
    with pytest.raises(GraphError, match=f"^{error}"):
        Graph.parse(GOOD.replace(before, after, 1))


def test_a_text_cannot_ask_for_a_billion_outputs():
    with pytest.raises(GraphError, match="line 2, column 35: unbind gives one output for each place"):
        Graph.parse("graph(%x: float64[4000000000]) {\n  %1 = unbind(%x; axis=0) :       (float64[],)\n  return\n}")


def test_only_text_is_parsed():
    with pytest.raises(TypeError, match="from text, got bytes"):
        Graph.parse(GOOD.encode())


def mutated(text, rng):
    """The text with one to three places changed."""
    tokens = [*GOOD.split(), *text.split(), *'(){}[],;:=%"\\-0x\x00é', "none", "nan(", "inf", "1e9", "%2", "None"]
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.choices(range(len(text) + 1), k=2))
        j = min(j, i + rng.choice([0, 1, 3, 30]))
        text = text[:i] + rng.choice(["", rng.choice(tokens), text[j : j + 20]]) + text[j:]
    return text


def test_a_thousand_damaged_texts():
    """Each is an error of ours, or a legal graph."""
    rng = random.Random(4)
    texts = [GOOD, str(with_attribute((1.5, {"a": slice(None, 2, None)}, np.ones(3), "b", 1j)))]
    rows = ("convolution", "getitem", "lstm", "einsum", "split", "unbind", "view_write", "where")
    texts += [str(row_graphs()[name][0][0]) for name in rows]
    legal = places = 0
    for n in range(1000):
        try:
            verify(Graph.parse(mutated(texts[n % len(texts)], rng), {**TABLE, "keep": KEEP}))
            legal += 1
        except GraphError as error:
            places += str(error).startswith("line ")
    assert 10 < legal < 500
    assert places == 1000 - legal


def test_deep_graphs_come_back():
    value = start = input_value(0, (), np.float64)
    for _ in range(5_000):
        value = xp.sin(value) * 0.5
    graph = Graph([start], [value])
    assert len(graph) == 10_002
    assert Graph.parse(str(graph)) == graph
