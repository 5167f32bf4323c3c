"""Repetition in sequences and graphs, stacks of rows that loops read, and what loops cost."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.loops.reroll.cost_model import is_profitable
from symgrad.compiler.loops.reroll.layers import find_loops
from symgrad.compiler.loops.reroll.repeats import OpNumbering, levels, longest_path, periodic_runs
from symgrad.compiler.loops.reroll.reroll import roll

X = input_value(0, (3,), np.float64)


@pytest.mark.parametrize(
    ("codes", "least", "wanted"),
    [
        ("aaaa", 4, [(0, 4, 1)]),
        ("aaa", 4, []),
        ("abababab", 4, [(0, 8, 2)]),
        ("xabababy", 3, [(1, 7, 2)]),
        ("abab", 3, []),
        ("aaaabcbcbcbc", 4, [(0, 4, 1), (4, 12, 2)]),
        ("xyaaaaz", 4, [(2, 6, 1)]),
        ("aaaaxbbbb", 4, [(0, 4, 1), (5, 9, 1)]),
        ("abcabcab", 2, [(0, 8, 3)]),
        ("", 2, []),
    ],
)
def test_periodic_runs_of_letters(codes, least, wanted):
    assert periodic_runs([ord(c) for c in codes], least) == wanted


@pytest.mark.parametrize("seed", range(30))
def test_every_run_has_its_period_and_runs_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.tile(rng.integers(0, 3, rng.integers(1, 5)), rng.integers(1, 7)) for _ in range(4)])
    end = 0
    for start, stop, period in periodic_runs(codes, 3):
        assert end <= start
        assert stop - start >= 3 * period
        assert all(codes[i] == codes[i + period] for i in range(start, stop - period))
        end = stop


def test_levels_and_the_longest_path():
    a = xp.sin(X)
    b, c = xp.cos(a), xp.exp(X)
    last = b + c
    values = Graph([X], [last]).values
    found = levels(values, ())
    assert [found[v] for v in (X, a, b, c, last)] == [0, 1, 2, 1, 3]
    assert longest_path(found) == [a, b, last]
    assert levels(values, {b})[last] == 2
    assert longest_path(levels(values, {b})) == [c, last]
    assert longest_path({}) == []
    assert longest_path({X: 0}) == []


def test_equal_applications_have_equal_numbers():
    codes = OpNumbering()
    y, z = input_value(1, (3,), np.float64), input_value(2, (2, 3), np.float64)
    assert codes.of(xp.sin(X)) == codes.of(xp.sin(y))
    others = [xp.sin(X), xp.cos(X), xp.sin(z), xp.sum(X, axis=(0,), keepdims=False), xp.sum(X, axis=(0,), keepdims=True), z + X, X + z]
    assert len({codes.of(v) for v in others}) == len(others)


def layers(count, body, columns=True):
    """A chain of layers, each with a matrix of its own."""
    inputs = [X, *(input_value(1 + i, (3, 3), np.float64) for i in range(count if columns else 1))]
    h, seen = X, []
    for i in range(count):
        h = body(h, inputs[1 + i if columns else 1])
        seen.append(h)
    return inputs, seen


def checked(inputs, outputs, **options):
    graph = Graph(inputs, outputs)
    rolled = verify(roll(graph, pays=lambda graph, loops: True, **options))
    rng = np.random.default_rng(0)
    given = [rng.normal(size=x.shape) / 2 for x in inputs]
    for a, b in zip(evaluate(graph, given), evaluate(rolled, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    return [v for v in rolled.values if is_control(v)], rolled


def tanh_layer(h, w):
    return xp.tanh(h @ w)


@pytest.mark.parametrize(
    ("chosen", "unbound"), [([], False), ([9], False), ([5, 7, 9, 11], False), ([5, 7, 9, 11, 13], True), (list(range(3, 18)), True)]
)
def test_layers_that_are_read_outside_are_rows_of_a_stack(chosen, unbound):
    """Up to four rows are read one by one, more are unbound at once."""
    inputs, seen = layers(20, tanh_layer)
    (loop,), rolled = checked(inputs, [*(seen[i] for i in chosen), seen[-1]])
    assert loop.attrs["carries"] == 1
    assert len(loop.attrs["body"].outputs) == (2 if chosen else 1)  # without other readers, nothing is stacked
    assert ("unbind" in {v.op for v in rolled.values}) is unbound


def test_a_stack_of_all_layers_is_passed_on_unchanged():
    inputs, seen = layers(20, tanh_layer)
    again = X
    for h in seen:
        again = xp.sin(again) * h
    loops, rolled = checked(inputs, [again])
    assert len(loops) == 2
    assert len([v for v in rolled.values if v.op == "getitem"]) <= 2  # one for a layer that stands before the loop, one for the others
    backwards = X
    for h in reversed(seen):
        backwards = xp.sin(backwards) * h
    loops, _ = checked(inputs, [backwards])
    assert [v.attrs["reverse"] for v in loops] == [False, True]
    part = X
    for h in seen[3:17]:
        part = xp.sin(part) * h
    loops, _ = checked(inputs, [part])
    assert len(loops) == 2


def test_shared_operands_are_not_stacked():
    inputs, seen = layers(20, tanh_layer, columns=False)
    (loop,), _ = checked(inputs, [seen[-1]])
    assert (loop.attrs["slices"], len(loop.args)) == (0, 2)


def test_too_few_layers_stay_as_they_are():
    inputs, seen = layers(7, tanh_layer)
    assert not checked(inputs, [seen[-1]], least=8)[0]
    assert checked(inputs, [seen[-1]], least=6)[0]


def test_loops_pay_where_elementwise_code_connects_many_layers():
    def connected(h, w):
        return xp.sin(h) @ w / 10 + xp.tanh(h)

    def pays(count, body):
        inputs, seen = layers(count, body)
        graph = Graph(inputs, [seen[-1]])
        return is_profitable(graph, find_loops(graph, 4))

    assert pays(60, connected)
    assert not pays(10, connected)
    assert not pays(60, tanh_layer)
    assert pays(5000, tanh_layer)
    assert not pays(60, lambda h, w: xp.sin(h) * xp.tanh(h))  # one fused kernel
