"""The walker of graphs: rows with several outputs, omitted arguments, literals, deep graphs, results that the caller has already."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

from symgrad import compiler
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import LITERAL, OUTPUT, Graph, input_value, intern, literal, output
from symgrad.compiler.ir.interpret import evaluate, interpret, values_of
from symgrad.compiler.ir.replay import replay_recorded
from symgrad.compiler.ir.runner import runner
from symgrad.compiler.ir.subgraph import inline, substitute
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.errors import GraphError
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap

F = np.float64
X, Y = input_value(0, (3,), F), input_value(1, (3,), F)


def op_and_args(v, args):
    return (v.op, *args)


def test_each_value_is_applied_once_after_its_arguments():
    both = xp.sin(X)
    seen = []
    interpret([both * both + both], {X: None}, lambda v, args: seen.append(v.op))
    assert seen == ["sin", "mul", "add"]


def test_results_come_in_the_order_of_the_outputs_repeated_ones_too():
    sine, cosine = xp.sin(X), xp.cos(Y)
    assert interpret([cosine, sine, cosine], {X: "x", Y: "y"}, op_and_args) == [("cos", "y"), ("sin", "x"), ("cos", "y")]


def test_inputs_and_literals_are_themselves_by_default():
    two = literal(2.0, F)
    assert interpret([X, two], {}, op_and_args) == [X, two]


def test_a_hook_for_inputs_and_literals():
    value = xp.div(X, 7)
    (found,) = interpret([value], {}, op_and_args, leaf=lambda v: v.value if v.op == LITERAL else "input")
    assert found == ("div", "input", 7.0)


def test_omitted_arguments_are_none():
    value = apply(TABLE["binary_cross_entropy_with_logits"], (X, Y, None, X), {"reduction": "mean"})
    assert [a is None for a in value.args] == [False, False, True, False]
    assert interpret([value], {X: "x", Y: "y"}, op_and_args) == [("binary_cross_entropy_with_logits", "x", "y", None, "x")]


def test_outputs_of_a_row_with_several():
    values, indices = xp.max_along(X, axis=0, keepdims=False)
    calls = []

    def both(v, args):
        calls.append(v.op)
        return "values", "indices"

    assert interpret([indices, values], {X: "x"}, both) == ["indices", "values"]
    assert calls == ["max_along"]


def test_a_hook_for_outputs():
    values, _ = xp.max_along(X, axis=0, keepdims=False)
    assert values.op == OUTPUT
    (found,) = interpret([values], {X: Y}, lambda v, args: intern(v.op, v.row, args, v.attrs, v.shape, v.dtype), project=output)
    assert found is xp.max_along(Y, axis=0, keepdims=False)[0]


def test_what_is_known_is_not_visited_nor_what_is_below_it():
    middle = xp.exp(xp.sin(X))
    seen = []

    def note(v, args):
        seen.append(v.op)
        return args[0]

    env = {middle: "known"}
    assert interpret([xp.cos(middle)], env, note) == ["known"]
    assert seen == ["cos"]
    assert X not in env


def test_the_environment_has_every_result_afterwards():
    sine = xp.sin(X)
    env = {X: "x"}
    interpret([xp.cos(sine)], env, op_and_args)
    assert env[sine] == ("sin", "x")


def test_a_given_order_is_followed():
    sine, cosine = xp.sin(X), xp.cos(X)
    seen = []
    interpret((), {X: None}, lambda v, args: seen.append(v.op), order=[cosine, sine])
    assert seen == ["cos", "sin"]


DEPTH = 50_000


@pytest.fixture(scope="module")
def deep():
    v = X
    for i in range(DEPTH):
        v = intern("sin" if i % 2 else "cos", TABLE["sin" if i % 2 else "cos"], (v,), {}, v.shape, v.dtype)
    return Graph([X], [v])


def test_a_deep_graph_needs_no_recursion(deep):
    (depth,) = interpret(deep.outputs, {}, lambda v, args: args[0] + 1, leaf=lambda v: 0)
    assert depth == DEPTH


@pytest.mark.parametrize(
    "use",
    [
        lambda g: substitute(g.outputs, {X: Y}),
        lambda g: inline(g, [Y]),
        lambda g: rewrite(g, lambda v, args: args[0]).outputs,
        lambda g: evaluate(g, [np.ones(3)]),
        lambda g: runner.__wrapped__(g)([np.ones(3)]),
        lambda g: replay_recorded(g, [wrap(np.ones(3))]),
    ],
    ids=["substitute", "inline", "rewrite", "evaluate", "runner", "replay"],
)
def test_every_use_of_it_takes_a_deep_graph(deep, use):
    assert len(use(deep)) == 1


def test_arrays_of_inner_values_are_given_with_tuples_for_several_outputs():
    values, indices = xp.max_along(xp.sin(X), axis=0, keepdims=False)
    known = values_of(Graph([X], [indices]), [np.array([0.1, 1.5, 0.2])])
    assert isinstance(known[values.args[0]], tuple)
    assert known[indices] == 1
    np.testing.assert_array_equal(known[values.args[0].args[0]], np.sin([0.1, 1.5, 0.2]))


def test_an_input_that_is_none_of_the_graph_is_named():
    with pytest.raises(GraphError, match=r"float64\[3\] with index 1 is no input"):
        evaluate(Graph([X], [X + Y]), [np.ones(3)])


def test_a_runner_keeps_the_places_of_several_outputs():
    values, indices = xp.max_along(X, axis=0, keepdims=False)
    graph = Graph([X, Y], [indices, xp.sin(Y), values, xp.cast(indices, dtype=np.dtype(F)) + values * 2.5])
    arrays = [np.array([3.0, 9.0, 4.0]), np.array([1.0, 2.0, 3.0])]
    for found, wanted in zip(runner(graph)(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(found, wanted, strict=True)


COMPILER = pathlib.Path(compiler.__file__).parent
WALKS_OF_ANOTHER_KIND = {
    "algebra/contract.py",  # skips the values inside of a segment
    "ir/nan_origin.py",  # reads what the interpreter computed, for one value
    "symbolic/notations/elements.py",  # formulas are lowered on demand
    "symbolic/notations/scalar.py",
}
GATHERS_ARGUMENTS = re.compile(r"None if (\w+) is None else [\w.]+\[\1\] for \1 in \w+\.args")


def test_nothing_else_gathers_the_results_of_arguments():
    found = {path.relative_to(COMPILER).as_posix() for path in COMPILER.rglob("*.py") if GATHERS_ARGUMENTS.search(path.read_text("utf-8"))}
    assert found - WALKS_OF_ANOTHER_KIND == {"ir/interpret.py"}
