"""Equal layers become loops, or calls of one function, and nothing that is computed changes: the interpreter is the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symgrad as sg
from symgrad import nn
from symgrad.compiler.autodiff import pull as differentiate
from symgrad.compiler.backends.xla.function import lowered
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.loops.reroll.layers import find_loops
from symgrad.compiler.loops.reroll.outline import outline
from symgrad.compiler.loops.reroll.repeats import periodic_runs
from symgrad.compiler.loops.reroll.reroll import roll
from symgrad.compiler.trace.effects import Effects
from symgrad.compiler.trace.trace import trace


def with_gradients(function: Any, *args: Any) -> tuple[Graph, list[Any]]:
    """The graph of a function's value and gradients in everything, and the arrays that it is run on."""
    traced = trace(lambda leaves: function(*leaves), args, [f"a{i}" for i in range(len(args))])
    graph = traced.graph
    gradient = differentiate.grad(graph)
    arrays = [np.asarray(t.detach()) for t in (*args, *traced.captured)]
    return lowered(Graph(graph.inputs, (*graph.outputs, *gradient.outputs), graph.labels)), arrays


def rolled(graph: Graph, least: int = 4) -> Graph:
    return verify(roll(graph, least, lambda graph, loops: True))


def compare(graph: Graph, arrays: list[Any], least: int = 4) -> list[tuple[int, int]]:
    """That the rolled graph gives the same, and that with calls, too; the lengths of loops and how many values their bodies have."""
    new, expected = rolled(graph, least), evaluate(graph, arrays)
    for a, b in zip(expected, evaluate(new, arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6 * max(1.0, float(np.abs(a).max(initial=0))))
    for a, b in zip(expected, evaluate(verify(outline(graph, find_loops(graph, least))), arrays), strict=True):
        np.testing.assert_array_equal(b, a)
    loops = [v for v in new.values if v.op == "scan"]
    assert len(loops) == len(find_loops(graph, least))
    return [(v.attrs["length"], len(v.attrs["body"].values)) for v in loops]


def layers(count: int, size: int = 4) -> nn.Sequential:
    return nn.Sequential(*[m for _ in range(count) for m in (nn.Linear(size, size), nn.Tanh())])


class Residual(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(size), nn.Linear(size, 2 * size), nn.Linear(2 * size, size)

    def forward(self, x: Any) -> Any:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.q, self.k, self.v, self.out = (nn.Linear(size, size) for _ in range(4))
        self.rest = Residual(size)

    def forward(self, x: Any) -> Any:
        h = self.norm(x)
        weights = (self.q(h) @ self.k(h).transpose(-1, -2) / 2).softmax(-1)
        return self.rest(x + self.out(weights @ self.v(h)))


def energy(net: Any) -> Any:
    return lambda x: (net(x) ** 2).sum()


def test_plain_layers() -> None:
    sg.manual_seed(0)
    assert [n for n, _ in compare(*with_gradients(energy(layers(9)), sg.randn(3, 4)))] == [8, 8]


def test_first_and_last_layers_that_differ() -> None:
    sg.manual_seed(0)
    middle = [m for _ in range(8) for m in (nn.Linear(5, 5), nn.ReLU())]
    net = nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), *middle, nn.Linear(5, 2))
    assert len(compare(*with_gradients(energy(net), sg.randn(3, 4)))) == 2


@pytest.mark.parametrize("block", [Residual, Attention])
def test_blocks(block: Any) -> None:
    sg.manual_seed(0)
    graph, arrays = with_gradients(energy(nn.Sequential(*[block() for _ in range(9)])), sg.randn(2, 3, 4))
    lengths = [n for n, _ in compare(graph, arrays)]
    assert len(lengths) == 2
    assert min(lengths) >= 5


def test_two_kinds_of_layers_are_four_loops() -> None:
    sg.manual_seed(0)
    net = nn.Sequential(*[Residual() for _ in range(8)], *layers(8))
    assert len(compare(*with_gradients(energy(net), sg.randn(3, 4)))) == 4


def test_layers_of_which_every_second_is_equal() -> None:
    sg.manual_seed(0)
    kinds = [nn.Tanh() if i % 2 else nn.Sigmoid() for i in range(16)]
    net = nn.Sequential(*[m for kind in kinds for m in (nn.Linear(4, 4), kind)])
    assert min(n for n, _ in compare(*with_gradients(energy(net), sg.randn(3, 4)))) >= 5


def test_a_chain_of_elementwise_operations_stays_one_kernel() -> None:
    def chain(x: Any, y: Any) -> Any:
        h = x
        for _ in range(25):
            h = sg.tanh(h * y) + h * 0.5
        return h.sum()

    def layers(x: Any, y: Any) -> Any:
        h = x
        for _ in range(40):
            h = sg.sin(h) @ y / 10 + sg.tanh(h)
        return h.sum()

    x = sg.ones(3, 3)
    for function, loops in ((chain, 0), (layers, 2)):
        graph, _ = with_gradients(function, x, x)
        assert sum(v.op == "scan" for v in roll(graph).values) == loops


def test_one_weight_for_all_layers_is_not_stacked() -> None:
    sg.manual_seed(0)

    def recurrent(x: Any, w: Any) -> Any:
        for _ in range(10):
            x = (x @ w).tanh()
        return x.sum()

    graph, arrays = with_gradients(recurrent, sg.randn(3, 4), sg.randn(4, 4))
    assert len(compare(graph, arrays)) == 2
    assert not any(v.op == "stack" and v.args[0].op == "input" for v in rolled(graph).values)


def test_numbers_that_differ_from_layer_to_layer_are_stacked_and_others_stay() -> None:
    def numbers(x: Any) -> Any:
        for i in range(8):
            x = x.sin() * (i + 0.5) + x / 3
        return x.sum()

    graph, arrays = with_gradients(numbers, sg.randn(5))
    assert compare(graph, arrays)
    (forward,) = (v for v in rolled(Graph(graph.inputs, graph.outputs[:1])).values if v.op == "scan")
    assert [a.op for a in forward.args[1:]] == ["stack"]
    assert "float32(3)" in str(forward.attrs["body"])


def test_a_sum_over_layers_is_carried_along() -> None:
    sg.manual_seed(0)
    net = layers(10)

    def total(x: Any) -> Any:
        result = 0
        for layer in net:
            x = layer(x)
            result = result + (x * x).mean()
        return result

    assert len(compare(*with_gradients(total, sg.randn(3, 4)))) == 2


def test_what_goes_two_layers_on() -> None:
    def fibonacci(x: Any) -> Any:
        a, b = x, x.sin()
        for _ in range(14):
            a, b = b, (a + b).tanh()
        return b.sum()

    assert compare(*with_gradients(fibonacci, sg.randn(3)))


def test_layers_that_differ_in_an_attribute_are_not_equal() -> None:
    def sums(x: Any) -> Any:
        for i in range(12):
            x = x.cumsum(i // 3 % 2).sin()
        return x.sum()

    compare(*with_gradients(sums, sg.randn(3, 3)))


@pytest.mark.parametrize("count", [9, 10, 11])
def test_weights_in_turns_are_not_shared(count: int) -> None:
    sg.manual_seed(0)
    weights = [sg.randn(4, 4), sg.randn(4, 4)]

    def turns(x: Any) -> Any:
        for i in range(count):
            x = (x @ weights[i % 2]).tanh()
        return x.sum()

    assert compare(*with_gradients(turns, sg.randn(3, 4)))


@pytest.mark.parametrize("layer", [1, 3, 6, 9])
def test_what_is_carried_for_some_layers_only(layer: int) -> None:
    """Up to some layer each reads what the layer before gave, and later ones what that layer gave."""
    sg.manual_seed(0)
    weights = [sg.randn(4, 4) for _ in range(14)]

    def kept(x: Any) -> Any:
        slopes = [x]
        for i, w in enumerate(weights):
            slopes.append(x.sin())
            x = (x @ w).tanh() + slopes[-1] / 3 + slopes[min(i, layer)]
        return x.sum()

    compare(*with_gradients(kept, sg.randn(3, 4)))


def test_several_outputs_of_one_operation() -> None:
    def sorting(x: Any) -> Any:
        for _ in range(9):
            values, places = (x * 1.1).sort()
            x = values.sin() + places.to(sg.float32) / 7
        return x.sum()

    assert compare(*with_gradients(sorting, sg.randn(6)))


def test_a_loop_that_reads_nothing_of_its_own_in_each_step_runs_forwards() -> None:
    def turned(x: Any) -> Any:
        for _ in range(9):
            x = (x * 1.1).sin() + x.cos()
        return x

    traced = trace(lambda leaves: turned(*leaves), [sg.randn(3)], ["x"])
    (loop,) = (v for v in rolled(lowered(traced.graph)).values if v.op == "scan")
    assert (loop.attrs["slices"], loop.attrs["reverse"]) == (0, False)


def test_stacks_go_from_loop_to_loop_whole() -> None:
    """The backward layers read what the forward layers have stacked, in reverse order, without taking it apart."""
    graph, _ = with_gradients(energy(layers(9)), sg.randn(3, 4))
    forward, backward = (v for v in rolled(graph).values if v.op == "scan")
    assert (forward.attrs["reverse"], backward.attrs["reverse"]) == (False, True)
    taken_apart = [v for v in rolled(graph).values if v.op == "unbind"]
    assert [v.args[0].args[0] is backward for v in taken_apart] == [True, True]  # the gradients, which are results


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_training_steps(optimizer: str) -> None:
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), *layers(8), nn.Linear(4, 1))
    options: dict[str, Any] = {"SGD": {"momentum": 0.9}, "Adam": {}}[optimizer]
    steps = getattr(sg.optim, optimizer)(net.parameters(), lr=0.01, **options)

    def step(leaves: Any) -> Any:
        steps.zero_grad()
        loss = energy(net)(leaves[0])
        loss.backward()
        steps.step()
        return loss

    x = sg.randn(5, 3)
    step([x])  # makes the optimizer's state
    traced = trace(step, (x,), ("x",), allow_branches=True, effects=True)
    values = Effects(traced).values
    graph = lowered(Graph(traced.graph.inputs, (*traced.graph.outputs, *values), traced.graph.labels))
    generator = np.random.default_rng(0)
    arrays = [np.asarray(0.1 + generator.random(v.shape), v.dtype) for v in graph.inputs]
    assert len(compare(graph, arrays)) == 2
    updates = max(len(v.attrs["body"].values) for v in rolled(graph).values if v.op == "scan")
    assert updates > 20, "the optimizer's work of a layer belongs to its backward loop"


# programs that nobody wrote


OPERATIONS: list[Any] = [
    lambda h, w, old, i: (h @ w).tanh(),
    lambda h, w, old, i: h + w.sum(0),
    lambda h, w, old, i: h * 0.5 + old,
    lambda h, w, old, i: (h - h.mean(-1, keepdim=True)) / 2,
    lambda h, w, old, i: h.sin() * (i + 1) / 10,
    lambda h, w, old, i: sg.cat([h[:, 1:], old[:, :1]], 1),
    lambda h, w, old, i: sg.where(h > 0, h, old * 0.1),
    lambda h, w, old, i: h.sort(1)[0] + old.sum(),
]


@st.composite
def programs(draw: Any) -> Any:
    """A block of operations that is repeated, with weights of its own in each layer or one for all, and reads of older layers."""
    blocks = [draw(st.lists(st.integers(0, len(OPERATIONS) - 1), min_size=1, max_size=4)) for _ in range(draw(st.integers(1, 2)))]
    repeats = [draw(st.integers(3, 9)) for _ in blocks]
    back = draw(st.integers(1, 4))
    shared = draw(st.booleans())
    odd = draw(st.integers(0, 20))  # in this layer something else happens
    collected = draw(st.booleans())
    return blocks, repeats, back, shared, odd, collected


def interpreted(program: Any, x: Any, weights: list[Any]) -> Any:
    blocks, repeats, back, shared, odd, collected = program
    old = [x]
    result = x.sum() * 0
    i = 0
    for block, count in zip(blocks, repeats, strict=True):
        for _ in range(count):
            h = old[-1]
            for op in block:
                h = OPERATIONS[op](h, weights[0 if shared else i % len(weights)], old[max(0, len(old) - back)], i)
            old.append(h.exp().sin() if i == odd else h)
            i += 1
            result = result + h.mean() if collected else result
    return result + (old[-1] ** 2).sum()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs(), st.integers(2, 5))
def test_random_layers(program: Any, least: int) -> None:
    sg.manual_seed(1)
    x, *weights = (sg.randn(3, 3, dtype=sg.float64) for _ in range(12))
    graph, arrays = with_gradients(lambda x, *weights: interpreted(program, x, list(weights)), x, *weights)
    compare(graph, arrays, least)


def test_random_layers_are_rolled_at_all() -> None:
    sg.manual_seed(1)
    x, *weights = (sg.randn(3, 3, dtype=sg.float64) for _ in range(12))
    for op in range(len(OPERATIONS)):
        program = [[op, 0]], [9], 1, False, 20, True
        graph, _ = with_gradients(lambda x, *weights, program=program: interpreted(program, x, list(weights)), x, *weights)
        assert len(find_loops(graph, 4)) >= 2, op


# what repeats


def test_runs() -> None:
    assert periodic_runs([1, 2, 1, 2, 1, 2, 1, 2], 4) == [(0, 8, 2)]
    assert periodic_runs([7, 1, 2, 1, 2, 1, 2, 9, 5, 5, 5, 5], 3) == [(1, 7, 2), (8, 12, 1)]
    assert periodic_runs([1, 2, 3, 4], 2) == []
    assert periodic_runs([], 2) == []


# compiled


def coupled(x: Any) -> Any:
    for i in range(16):
        x = x.sin() @ x / 10 + x.tanh() * (i + 1) / 8
    return (x * x).sum()


def test_compiled_loops_are_what_eager_code_gives() -> None:
    sg.manual_seed(0)
    x = sg.randn(6, 6, requires_grad=True)
    fast = sg.compile(coupled)
    value, gradient = fast.value_and_grad(x)
    expected = coupled(x)
    expected.backward()
    np.testing.assert_allclose(np.asarray(value), np.asarray(expected.detach()), rtol=1e-4)
    np.testing.assert_allclose(np.asarray(gradient[0]), np.asarray(x.grad), rtol=1e-3, atol=1e-4 * float(np.abs(np.asarray(x.grad)).max()))
    assert fast.source("value_and_grad").count("jax.lax.scan") == 2


def test_layers_that_xla_compiles_fast_are_no_loops() -> None:
    graph, _ = with_gradients(energy(layers(20)), sg.randn(3, 4))
    assert find_loops(graph, 6)
    assert not any(v.op == "scan" for v in roll(graph).values)


def test_rows_of_results() -> None:
    """Gradients of many layers leave a loop as rows of a stack."""
    sg.manual_seed(0)
    weights = [sg.randn(4, 4) / 2 for _ in range(12)]
    graph, arrays = with_gradients(lambda x, *ws: interpreted(([[0]], [12], 1, False, 99, False), x, list(ws)), sg.randn(3, 4), *weights)
    from symgrad.compiler.backends.xla.kernel import XlaKernel

    kernel = XlaKernel(rolled(graph), roll=False)
    assert "rows(" in kernel.source()
    for a, b in zip(evaluate(graph, arrays), kernel(arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)


def test_a_thousand_layers_find_their_way() -> None:
    """No recursion, and no work that grows faster than the graph."""
    def deep(x: Any) -> Any:
        for _ in range(1000):
            x = (x * 0.5).tanh() + 1
        return x.sum()

    graph, arrays = with_gradients(deep, sg.randn(2))
    lengths = [n for n, _ in compare(graph, arrays)]
    assert min(lengths) > 990


@pytest.mark.slow
def test_a_thousand_layers_train() -> None:
    sg.manual_seed(0)
    net = nn.Sequential(*[m for _ in range(1000) for m in (nn.Linear(4, 4), nn.Tanh())])
    twin = nn.Sequential(*[m for _ in range(1000) for m in (nn.Linear(4, 4), nn.Tanh())])
    twin.load_state_dict(net.state_dict())
    x = sg.randn(3, 4)

    def stepping(net: Any) -> Any:
        optimizer = sg.optim.SGD(net.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = energy(net)(x)
            loss.backward()
            optimizer.step()
            return loss

        return step

    fast, slow = sg.compile(stepping(net)), stepping(twin)
    for _ in range(3):
        np.testing.assert_allclose(fast(x).item(), slow(x).item(), rtol=1e-3)
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_allclose(np.asarray(p.detach()), np.asarray(q.detach()), rtol=1e-3, atol=1e-5)
