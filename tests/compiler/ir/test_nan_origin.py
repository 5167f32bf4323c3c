"""Where a NaN in a kernel comes from: the graphs that loops and branches run, the operation behind the NaN, and its line."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import SCAN, WHILE
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.nan_origin import check_loop_nans, check_nans, loop_iterations

F = np.float64


def scan_attrs(reverse):
    """Two carries, two slices and a shared value: the second carry is the sum of what the steps are given."""
    a, b, x, y, w = (input_value(i, (), F) for i in range(5))
    body = Graph((a, b, x, y, w), (a * w + x, b + y, a - y))
    return {"body": body, "carries": 2, "slices": 2, "length": 3, "reverse": reverse}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_steps_of_a_scan_are_given_carries_slices_and_shared_values(reverse):
    xs, ys = np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 30.0])
    operands = [np.array(0.5), np.array(0.0), xs, ys, np.array(2.0)]
    a, b, wanted = 0.5, 0.0, []
    for i in [2, 1, 0] if reverse else [0, 1, 2]:
        wanted.append([a, b, xs[i], ys[i], 2.0])
        a, b = 2 * a + xs[i], b + ys[i]
    attrs = scan_attrs(reverse)
    found = list(loop_iterations("scan", operands, attrs))
    assert [list(map(float, given)) for _, given in found] == wanted
    assert all(graph is attrs["body"] for graph, _ in found)
    inputs = tuple(input_value(i, np.shape(x), F) for i, x in enumerate(operands))
    outs = evaluate(Graph(inputs, apply(SCAN, inputs, attrs)), operands)
    assert [float(x) for x in outs[:2]] == [a, b]


def test_the_steps_of_a_while_loop_are_given_carries_and_shared_values():
    a, b, limit = (input_value(i, (), F) for i in range(3))
    attrs = {"condition": Graph((a, b, limit), (a < limit,)), "body": Graph((a, b, limit), (a * 2, b + limit)), "carries": 2}
    operands = [np.array(1.0), np.array(0.0), np.array(5.0)]
    found = list(loop_iterations("while_loop", operands, attrs))
    assert [list(map(float, given)) for _, given in found] == [[1, 0, 5], [2, 5, 5], [4, 10, 5]]
    assert all(graph is attrs["body"] for graph, _ in found)
    inputs = (a, b, limit)
    outs = evaluate(Graph(inputs, apply(WHILE, inputs, {**attrs, "max_steps": None})), operands)
    assert list(map(float, outs)) == [8, 15]


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_runs_the_graph_that_is_chosen_without_its_condition(taken):
    x = input_value(0, (), F)
    attrs = {"true": Graph((x,), (xp.sin(x),)), "false": Graph((x,), (xp.cos(x),))}
    ((graph, given),) = loop_iterations("cond", [np.array(taken), np.array(2.0)], attrs)
    assert graph is attrs[str(taken).lower()]
    assert list(map(float, given)) == [2]


def test_other_operations_run_no_graphs():
    assert not list(loop_iterations("sin", [np.array(1.0)], {}))


class Watch:
    """Looks for NaN, as `debug.nans` does."""

    def bad(self, x):
        return bool(np.isnan(x).any())

    def message(self, op, operands, line):
        return f"{line}: {op} of {[np.asarray(x).tolist() for x in operands]}"


def test_the_culprit_is_the_first_operation_without_nan_among_its_operands_and_its_line_that_of_the_nearest_ancestor():
    x = input_value(0, (), F)
    shifted = x - 3
    graph = Graph((x,), (xp.sin(x), xp.exp(xp.log(shifted) * 2)))
    for lines, line in (({}, "?"), ({shifted: "here"}, "here"), ({x: "of an input"}, "?"), ({shifted: "a", xp.log(shifted): "b"}, "b")):
        with pytest.raises(FloatingPointError, match=re.escape(f"{line}: log of [-2.0], in the kernel of f")):
            check_nans(Watch(), graph, [np.array(1.0)], lines, "f")
    check_nans(Watch(), graph, [np.array(4.0)], {}, "f")
    check_nans(Watch(), graph, [np.array(np.nan)], {}, "f")


def test_one_of_several_outputs_leads_to_the_operation_that_has_them():
    x = input_value(0, (2,), F)
    first, second = xp.split(xp.log(x), sizes=(1, 1), axis=0)
    graph = Graph((x,), (first + second,))
    with pytest.raises(FloatingPointError, match=re.escape("?: log of [[1.0, -1.0]]")):
        check_nans(Watch(), graph, [np.array([1.0, -1.0])], {}, "f")


def test_an_operation_in_a_scan_with_slices_and_captured_tensors_is_named_with_its_line():
    w = sg.tensor([2.0])

    def summed(x, xs):
        def step(c, x):
            c = c + (x * w).log()
            return c, c * 2

        return sg.scan(step, x, xs)[0].sum()

    line = inspect.getsourcelines(summed)[1] + 2
    fast = sg.compile(summed)
    x, xs = sg.tensor([0.5]), sg.tensor([[1.0], [4.0], [-3.0]])
    fast(x, xs)
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=rf"test_nan_origin.py:{line}: log made a NaN of .*-6"):
        fast(x, xs)


def test_a_loop_that_has_run_is_searched_step_by_step():
    c, x = input_value(0, (), F), input_value(1, (), F)
    attrs = {"body": Graph((c, x), (c + xp.log(x),)), "carries": 1, "slices": 1, "length": 2, "reverse": False}
    check_loop_nans(Watch(), "scan", [np.array(0.0), np.array([1.0, 2.0])], attrs, {})
    with pytest.raises(FloatingPointError, match=re.escape("?: log of [-2.0]")):
        check_loop_nans(Watch(), "scan", [np.array(0.0), np.array([1.0, -2.0])], attrs, {})
