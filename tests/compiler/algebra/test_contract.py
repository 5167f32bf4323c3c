"""The contraction pass: what it changes, what it leaves alone, and its report."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.algebra.contract import contract, contraction
from symgrad.compiler.algebra.expand import LINEAR
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.elements import ELEMENTS
from symgrad.compiler.ir.graph import Graph, input_value, literal, walk
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.loops.reroll.reroll import roll
from symgrad.compiler.trace.trace import trace
from symgrad.ops.table import TABLE


def graph_of(function, *shapes, dtype=np.float64):
    labels = [chr(ord("A") + i) for i in range(len(shapes))]
    return trace(lambda ts: function(*ts), [np.ones(s, dtype) for s in shapes], labels).graph


def with_gradient(graph):
    return Graph(graph.inputs, (*graph.outputs, *grad(graph).outputs), graph.labels)


def contracted(graph):
    """The graph after the pass, however little is saved."""
    return contraction(graph).graph


def count(graph, op):
    return sum(v.op == op for v in walk(graph))


def test_every_linear_row_has_an_index_formula():
    special = {"mul", "neg", "div", "conj", "add", "sub", "mean", "linear", "addmm"}
    assert {name for name in LINEAR if name not in TABLE} == set()
    assert {name for name in LINEAR - special if (name, None) not in ELEMENTS} == set()


UNCHANGED = {
    "net": (lambda x, w, v: ((x @ w).relu() @ v).square().sum(), (32, 10), (10, 20), (20, 3)),
    "net of biases": (lambda x, w, b: (x @ w + b).tanh().mean(), (32, 10), (10, 20), (20,)),
    "attention": (lambda q, k, v: ((q @ k.transpose(-1, -2) / 4).softmax(-1) @ v).sin().sum(), (2, 20, 8), (2, 20, 8), (2, 20, 8)),
    "linear layer": (lambda x, w, b: sg.nn.functional.linear(x, w, b).exp().sum(), (32, 10), (20, 10), (20,)),
    "normal form of least squares": (lambda x, w, y: ((x @ w - y) ** 2).mean(), (50, 4), (4,), (50,)),
    "elementwise": (lambda x, y, z: (x * y + z).exp().sum(), (5, 4), (4,), (5, 4)),
}


@pytest.mark.parametrize("name", UNCHANGED)
@pytest.mark.parametrize("gradient", [False, True])
def test_programs_without_a_cheaper_order_are_the_same_graph(name, gradient):
    function, *shapes = UNCHANGED[name]
    graph = graph_of(function, *shapes)
    graph = with_gradient(graph) if gradient else graph
    assert contracted(graph) is graph


def test_a_product_that_is_used_twice_is_computed_once():
    graph = graph_of(lambda a, b, c: ((a @ b) @ c, (a @ b).sin()), (8, 8), (8, 8), (8, 8))
    assert contracted(graph) is graph


def test_a_product_that_is_used_twice_by_vectors_is_never_formed():
    graph = graph_of(lambda a, b, x, y: ((a @ b) @ x, (a @ b) @ y), (8, 8), (8, 8), (8,), (8,))
    found = contracted(graph)
    assert all(v.ndim == 1 for v in found.values if v.op == "matmul")


def test_the_report_shows_orders_and_operations():
    found = contraction(graph_of(lambda a, b, c: (a @ b) @ c, (1000, 1000), (1000, 1000), (1000,), dtype=np.float32))
    assert [str(change) for change in found.changes] == ["(A B) C -> A (B C): 2.0 GFLOP -> 4.0 MFLOP"]
    assert found.flops_written == 2_002_000_000
    assert found.flops_planned == 4_000_000


def test_long_chains_are_ordered_by_cost():
    sizes = [40, 3, 50, 2, 60, 4, 30, 5, 20]
    shapes = list(itertools.pairwise(sizes))

    def chain(*matrices):
        product = matrices[0]
        for m in matrices[1:]:
            product = product @ m
        return product

    def least(i, j, known={}):  # noqa: B006
        if i == j:
            return 0
        if (i, j) not in known:
            known[i, j] = min(least(i, k) + least(k + 1, j) + 2 * sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j))
        return known[i, j]

    graph = graph_of(chain, *shapes)
    found = contraction(graph)
    assert found.flops_planned == least(0, len(shapes) - 1)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    np.testing.assert_allclose(evaluate(found.graph, arrays)[0], evaluate(graph, arrays)[0], rtol=1e-10)


def test_equal_layers_stay_equal_and_become_a_loop():
    layers = 12

    def net(x, *weights):
        for w in weights:
            x = ((w @ w.T) @ x + x).tanh()
        return x.sum()

    graph = with_gradient(graph_of(net, (16,), *[(16, 16)] * layers))
    found = contracted(graph)
    assert not any(v.op == "matmul" and v.ndim == 2 for v in found.values)
    always = lambda graph, loops: True
    assert count(roll(found, 3, always), "scan") == count(roll(graph, 3, always), "scan") == 2


def test_bodies_of_loops_are_contracted():
    def steps(x, a, ms):
        return sg.scan(lambda x, m: (((a @ m) @ x).tanh(), x.sum()), x, ms)[0]

    shapes = (8,), (8, 8), (5, 8, 8)
    graph = graph_of(steps, *shapes)
    found = contracted(graph)
    assert [v.ndim for v in walk(graph) if v.op == "matmul"] == [2, 1]
    assert [v.ndim for v in walk(found) if v.op == "matmul"] == [1, 1]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s) for s in shapes]
    np.testing.assert_allclose(evaluate(found, arrays)[0], evaluate(graph, arrays)[0], rtol=1e-10)


def test_products_that_a_loop_does_not_change_stay():
    graph = graph_of(lambda x, a, b: sg.scan(lambda x, _: (((a @ b) @ x).tanh(), x.sum()), x, length=50)[0], (8,), (8, 8), (8, 8))
    assert contracted(graph) is graph


def test_batches_are_contracted():
    found = contraction(graph_of(lambda a, b, x: ((a @ b) @ x).sin(), (7, 30, 30), (7, 30, 30), (7, 30, 1)))
    assert found.flops_planned <= 7 * (4 * 30**2 + 30)


def test_terms_that_cancel_are_removed():
    graph = graph_of(lambda a, b, x: (a @ b + x) @ x - (a @ b) @ x, (9, 9), (9, 9), (9, 9))
    found = contracted(graph)
    assert count(found, "matmul") == 1


def test_booleans_and_mixed_dtypes_stay():
    x = input_value(0, (6, 6), np.float64)
    n = input_value(1, (6, 6), np.int64)
    total = xp.sum(xp.cast(xp.matmul(n, n), dtype=np.dtype(np.float64)) * x, axis=(0, 1), keepdims=False)
    graph = Graph((x, n), (total,))
    assert contracted(graph) is graph


def test_a_written_zero_times_infinity_stays_nan():
    graph = graph_of(lambda a, b, x: ((a * 0.0) @ b) @ x, (8, 8), (8, 8), (8,))
    arrays = [np.full((8, 8), np.inf), np.ones((8, 8)), np.ones(8)]
    with np.errstate(invalid="ignore"):
        assert np.isnan(evaluate(contracted(graph), arrays)[0]).all()


def test_a_deep_net_plans_each_form_once(monkeypatch):
    from symgrad.compiler.algebra import segment

    planned = []
    plan_form = segment.plan_form
    monkeypatch.setattr(segment, "_plans", {})
    monkeypatch.setattr(segment, "plan_form", lambda form: planned.append(form) or plan_form(form))

    def net(layers):
        def run(x, *weights):
            for w in weights:
                x = ((w @ w.T) @ x + x).tanh()
            return x.sum()

        return with_gradient(graph_of(run, (16,), *[(16, 16)] * layers))

    contracted(net(6))
    few = len(planned)
    planned.clear()
    segment._plans.clear()
    contracted(net(40))
    assert len(planned) <= few + 2
    planned.clear()
    contracted(net(40))
    assert planned == []


def test_small_graphs_are_left_alone():
    form = lambda a, b, x: (a @ b) @ x
    small, large = (graph_of(form, (n, n), (n, n), (n,)) for n in (8, 24))
    assert contract(small) is small
    hits = {}
    assert contract(large, hits=hits) is not large
    assert hits == {"(A B) C -> A (B C): 28.8 kFLOP -> 2.3 kFLOP": 1}


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_kernels_and_their_explanation_are_contracted(backend):
    rng = np.random.default_rng(0)
    a, b, x = (sg.tensor(rng.standard_normal(s)) for s in ((64, 64), (64, 64), (64,)))
    form = lambda a, b, x: (a @ b) @ x
    fast, plain = sg.compile(form, backend=backend), sg.compile(form, backend=backend, without="contract")
    np.testing.assert_allclose(fast(a, b, x), plain(a, b, x), rtol=1e-12)
    assert dict(fast.explain()["passes"].rows)["contract"] == "(a b) x -> a (b x): 532.5 kFLOP -> 16.4 kFLOP"
    assert dict(plain.explain()["passes"].rows)["contract"] == "switched off"
    for made, sizes in ((fast, {1}), (plain, {1, 2})):
        assert {v.ndim for v in made._kernel("forward", None).graph.values if v.op == "matmul"} == sizes


def test_a_sum_over_a_middle_dimension_is_taken_in_place():
    graph = graph_of(lambda a, b, s: (a * b * s[:, None]).sum(1), (6, 5, 4), (6, 5, 4), (6, 4))
    found = contracted(graph)
    assert [v.op for v in found.values if v.op not in ("input", "literal")] == ["mul", "sum", "mul"]


def test_a_batch_is_not_transposed_to_save_a_few_operations():
    x, w = input_value(0, (60, 60, 60), np.float64), input_value(1, (60, 60), np.float64)
    ones = xp.expand(literal(1.0, np.float64), shape=(60, 60, 1))
    inner = xp.matmul(xp.transpose(w, dim0=0, dim1=1), ones)
    graph = Graph([x, w], [xp.matmul(xp.transpose(x, dim0=1, dim1=2), inner)])
    found = contracted(graph)
    moved = [v for v in found.values if v.op == "reshape" and v.args[0].op in ("transpose", "permute") and v.size == x.size]
    assert moved == []
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(v.shape) for v in (x, w)]
    np.testing.assert_allclose(evaluate(found, arrays)[0], evaluate(graph, arrays)[0], rtol=1e-10)
