"""Loops and branches in a graph: an attribute that is a graph, everywhere where attributes go."""

import numpy as np
import pytest

from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import COND, SCAN, WHILE
from symgrad.compiler.ir.graph import Graph, input_value, nested, walk
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.rewrite.decompose import decompose
from symgrad.compiler.rewrite.stable import stabilise
from symgrad.errors import GraphError

F = np.float32


def body(scale=2, dtype=F, function=xp.tanh):
    carry, x, w = (input_value(i, (3,), dtype) for i in range(3))
    h = function(carry * w + x)
    return Graph((carry, x, w), (h, h * scale), ("carry", "x", "w"))


def scanned(inner, length=5, reverse=False, dtype=F):
    start, xs, w = input_value(0, (3,), dtype), input_value(1, (length, 3), dtype), input_value(2, (3,), dtype)
    outs = apply(SCAN, (start + 1, xs, w), {"body": inner, "carries": 1, "slices": 1, "length": length, "reverse": reverse})
    return Graph((start, xs, w), outs, ("h0", "xs", "w"))


def branched():
    a, b = input_value(0, (), F), input_value(1, (), F)
    condition, step = Graph((a, b), (a < b,)), Graph((a, b), (a * 2,))
    (last,) = apply(WHILE, (a, b), {"condition": condition, "body": step, "carries": 1, "max_steps": None})
    true, false = Graph((a,), (xp.sin(a), a)), Graph((a,), (xp.cos(a) + 1, a))
    return Graph((a, b), apply(COND, (a < b, last), {"true": true, "false": false}), ("a", "b"))


def arrays(graph, seed=0):
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(size=x.shape), x.dtype) for x in graph.inputs]


TEXT = """\
graph(%h0: float32[3], %xs: float32[5, 3], %w: float32[3]) {
  %3 = add(%h0, float32(1)) : float32[3]
  %4 = scan(%3, %xs, %w; body=graph(%carry: float32[3], %x: float32[3], %w: float32[3]) {
    %3 = mul(%carry, %w) : float32[3]
    %4 = add(%3, %x) : float32[3]
    %5 = tanh(%4) : float32[3]
    %6 = mul(%5, float32(2)) : float32[3]
    return %5, %6
  }, carries=1, length=5, reverse=False, slices=1) : (float32[3], float32[5, 3])
  %5 = %4[0] : float32[3]
  %6 = %4[1] : float32[5, 3]
  return %5, %6
}"""


def test_the_text_of_a_loop():
    assert str(scanned(body())) == TEXT


@pytest.mark.parametrize("graph", [scanned(body()), scanned(body(), 0, True), branched()], ids=["scan", "empty", "while and cond"])
def test_text_is_read_back_as_the_same_values(graph):
    assert Graph.parse(str(graph)) == graph
    assert Graph.parse(str(graph)).hash == graph.hash


def test_a_loop_is_one_value_and_equal_loops_are_the_same():
    assert scanned(body()).outputs[0].args[0] is scanned(body()).outputs[0].args[0]
    assert len(scanned(body()).values) == 8  # three inputs, 1, the sum, the loop, its two outputs


def test_programs_that_differ_in_one_thing_have_different_hashes():
    graphs = [
        scanned(body()), scanned(body(3)), scanned(body(2.0)), scanned(body(function=xp.sin)), scanned(body(), reverse=True),
        scanned(body(), 6), scanned(body(dtype=np.float64), dtype=np.float64), branched(),
    ]  # fmt: skip
    assert len({g.hash for g in graphs}) == len(graphs)
    assert scanned(Graph(body().inputs, body().outputs, ("a", "b", "c"))).hash == scanned(body()).hash


def test_what_a_scan_computes():
    graph = scanned(body())
    start, xs, w = arrays(graph)
    h, ys = start + 1, []
    for x in xs:
        h = np.tanh(h * w + x)
        ys.append(2 * h)
    last, stacked = evaluate(graph, [start, xs, w])
    np.testing.assert_allclose(last, h, rtol=1e-6)
    np.testing.assert_allclose(stacked, ys, rtol=1e-6)


def test_a_reverse_scan_is_a_scan_of_what_is_reversed():
    graph, turned = scanned(body()), scanned(body(), reverse=True)
    start, xs, w = arrays(graph)
    last, stacked = evaluate(turned, [start, xs, w])
    expected, ys = evaluate(graph, [start, np.ascontiguousarray(xs[::-1]), w])
    np.testing.assert_array_equal(last, expected)
    np.testing.assert_array_equal(stacked, ys[::-1])


@pytest.mark.parametrize(
    "graph", [scanned(body()), scanned(body(), reverse=True), scanned(body(), 0), scanned(body(dtype=np.float64), dtype=np.float64)]
)
def test_the_kernel_of_a_scan_agrees_with_the_interpreter(graph):
    given = arrays(graph)
    for found, expected in zip(XlaKernel(graph)(given), evaluate(graph, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("values", [(1, 50), (9, 2)])
def test_the_kernels_of_while_and_cond_agree_with_the_interpreter(values):
    a, b = (np.asarray(x, F) for x in values)
    found, last = XlaKernel(branched())([a, b])
    while a < b:
        a = a * F(2)
    assert last == a
    np.testing.assert_allclose(found, np.sin(a) if values[0] < values[1] else np.cos(a) + 1, rtol=1e-5)
    np.testing.assert_allclose(evaluate(branched(), [np.asarray(x, F) for x in values])[0], found, rtol=1e-5)


def test_source_has_functions_inside():
    source = XlaKernel(scanned(body())).source()
    assert "    def body(carry, x):\n        v1 = jnp.tanh(carry * w + x)\n        return (v1, v1 * 2)\n" in source
    assert "jax.lax.scan(body, v0, xs, length=5)" in source
    source = XlaKernel(branched()).source()
    assert "jax.lax.while_loop(condition, body, a)" in source
    assert "jax.lax.cond(" in source


def test_names_in_source_do_not_meet():
    graph = scanned(body())
    named = Graph(graph.inputs, graph.outputs, ("carry", "body", "x"))
    given = arrays(graph)
    for found, expected in zip(XlaKernel(named)(given), evaluate(graph, given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_results_do_not_share_memory_with_operands():
    x = input_value(0, (2,), F)
    (same,) = apply(SCAN, (x,), {"body": Graph((x,), (x,)), "carries": 1, "slices": 0, "length": 2, "reverse": False})
    given = np.ones(2, F)
    (found,) = evaluate(Graph((x,), (same,)), [given])
    assert not np.may_share_memory(found, given)


def test_passes_go_into_bodies():
    carry = input_value(0, (3,), F)
    inner = Graph((carry,), (xp.log(1 + xp.exp(carry)),))
    (last,) = apply(SCAN, (carry,), {"body": inner, "carries": 1, "slices": 0, "length": 2, "reverse": False})
    graph = Graph((carry,), (last,))
    assert "softplus" in {v.op for v in walk(stabilise(graph))}
    fused = Graph((carry,), (xp.mse_loss(carry, carry * 2, reduction="none"),))
    (last,) = apply(SCAN, (carry,), {"body": fused, "carries": 1, "slices": 0, "length": 2, "reverse": False})
    assert "mse_loss" not in {v.op for v in walk(decompose(Graph((carry,), (last,))))}


def test_a_picture_names_the_loop():
    picture = scanned(body()).draw()
    assert "scan" in picture
    assert "body of 4" in picture


def _broken(**changes):
    whole = scanned(body()).outputs[0].args[0]
    from symgrad.compiler.ir.graph import intern, output

    bad = intern(whole.op, whole.row, whole.args, {**whole.attrs, **changes}, whole.shape, whole.dtype)
    return Graph(scanned(body()).inputs, (output(bad, 0),))


def test_verify_sees_a_broken_body():
    carry, x, w = body().inputs
    stranger = input_value(7, (3,), F)
    cases = {
        "the body of scan": {"body": Graph((carry, x, w), (carry + stranger, x))},
        "carries that a scan's body gives": {"body": Graph((carry, x, w), (xp.cast(carry, dtype=np.dtype(np.float64)), x))},
        "inputs of a scan's body": {"body": Graph((carry, x), (carry, x))},
        "body is a graph": {"body": 3},
        "of a scan of length 4": {"length": 4},
        "carries is not a valid count: 9": {"carries": 9},
        "reverse is True or False": {"reverse": 1},
    }
    for message, change in cases.items():
        with pytest.raises(GraphError, match=message):
            verify(_broken(**change))
    verify(_broken())


def test_text_with_a_broken_body_names_the_line():
    with pytest.raises(GraphError, match=r"line 4, column \d+.*mul is said to be float32\[4\]"):
        Graph.parse(TEXT.replace("%3 = mul(%carry, %w) : float32[3]", "%3 = mul(%carry, %w) : float32[4]"))
    with pytest.raises(GraphError, match=r"line 4, column \d+: %h0 has no value yet"):
        Graph.parse(TEXT.replace("mul(%carry, %w)", "mul(%h0, %w)"))


def test_text_cannot_be_nested_without_end():
    start = "graph() { %0 = scan(; body="
    with pytest.raises(GraphError, match="nested more than"):
        Graph.parse(start * 1000)


def test_the_graphs_of_a_value():
    whole = branched().outputs[0].args[0]
    assert set(nested(whole)) == {"true", "false"}
    assert nested(branched().inputs[0]) == {}
