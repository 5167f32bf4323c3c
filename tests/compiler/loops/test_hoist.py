"""What all steps of a loop compute alike is computed in front of it, and its gradient behind it."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.loops.hoist import hoist
from symgrad.compiler.loops.simplify import merge_loops
from symgrad.compiler.trace.trace import trace

rng = np.random.default_rng(5)
A, B, X = rng.standard_normal((3, 3)), rng.standard_normal((3, 3)), rng.standard_normal(3)


def steps(body, x, length=4):
    return sg.scan(lambda s, _: (body(s), s.sum()), x, length=length)


def nested(A, B, x):
    return steps(lambda s: steps(lambda r: (A @ B).tanh() @ r / 2, s)[0], x)


def graph_of(function):
    return trace(lambda given: function(*given), [A, B, X], ["A", "B", "x"]).graph


def loops(graph):
    return [v.attrs["body"] for v in graph.values if is_control(v)]


MOVED = {
    # name: (function, rows of the body that remain)
    "a function of a product": (lambda A, B, x: steps(lambda s: (A @ B).sin() @ s + x, x), {"matmul", "add", "sum"}),
    "a decomposition": (lambda A, B, x: steps(lambda s: sg.linalg.eigh(A @ A.T)[1] @ s, x), {"matmul", "sum"}),
    "scaled by a number": (lambda A, B, x: steps(lambda s: s * (x * 2).exp(), x), {"mul", "sum"}),
    "a result of every step": (lambda A, B, x: sg.scan(lambda s, _: (s / 2, (A @ B)[0]), x, length=3), {"div"}),
    "in a loop in a loop": (nested, {"scan", "output", "sum"}),
    "over slices": (lambda A, B, x: sg.scan(lambda s, a: (B.cosh() @ s * a, s), x, A), {"matmul", "mul"}),
}


@pytest.mark.parametrize("name", MOVED)
def test_invariant_values_leave_the_loop(name):
    function, rows = MOVED[name]
    graph = graph_of(function)
    found = verify(hoist(graph))
    (body,) = loops(found)
    assert {v.op for v in body.values if v.args} == rows
    for before, after in zip(evaluate(graph, [A, B, X]), evaluate(found, [A, B, X]), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-12)


@pytest.mark.parametrize("name", MOVED)
def test_gradients_are_the_same(name):
    function, _ = MOVED[name]
    graph = graph_of(lambda *args: sum(y.sin().sum() for y in function(*args)))
    found = hoist(graph)
    for before, after in zip(evaluate(grad(graph), [A, B, X]), evaluate(verify(grad(found)), [A, B, X]), strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_a_product_is_taken_once():
    graph = graph_of(lambda A, B, x: steps(lambda s: (A @ B).sin() @ s + x, x)[0].sum())
    both = lambda g: merge_loops(Graph(g.inputs, (*g.outputs, *grad(g).outputs), g.labels))
    assert max(sum(v.op in ("matmul", "sin", "cos") and v.ndim == 2 for v in body.values) for body in loops(both(graph))) >= 2
    assert all(v.op not in ("sin", "cos") for body in loops(both(hoist(graph))) for v in body.values)


STAY = {
    "what depends on the state": lambda A, B, x: steps(lambda s: (A * s).sin() @ s, x),
    "a loop of one step": lambda A, B, x: steps(lambda s: (A @ B).sin() @ s, x, length=1),
    "views": lambda A, B, x: steps(lambda s: A.T @ s + x[None][0], x),
    "an outer product": lambda A, B, x: steps(lambda s: (x[:, None] * x[None] * s).sum(1), x),
    "a while loop of one step": lambda A, B, x: sg.while_loop(lambda s: s.sum() < 1, lambda s: (A @ B).sin() @ s + 1, x, max_steps=1),
    "few elements of a while loop": lambda A, B, x: sg.while_loop(lambda s: s.sum() < 1, lambda s: (x * 2).sin() * s + 1, x),
    "no loop": lambda A, B, x: (A @ B).sin() @ x,
}


@pytest.mark.parametrize("name", STAY)
def test_other_values_stay(name):
    graph = graph_of(STAY[name])
    assert hoist(graph) == graph


def test_a_function_with_its_own_backward_stays():
    class Doubled(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    graph = graph_of(lambda A, B, x: steps(lambda s: Doubled.apply(A) @ s, x)[0])
    assert "custom" in {v.op for v in loops(hoist(graph))[0].values}


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_kernels_and_the_switch(backend):
    given = [sg.tensor(a) for a in (A, B, X)]
    function = lambda A, B, x: steps(lambda s: (A @ B).sin() @ s + x, x)[0].sum()
    fast, plain = sg.compile(function, backend=backend), sg.compile(function, backend=backend, without="hoist")
    np.testing.assert_allclose(fast.grad(*given, wrt="A"), plain.grad(*given, wrt="A"), rtol=1e-10)
    assert dict(fast.explain("grad")["passes"].rows)["hoist"] == "out of a loop: sin"
    assert dict(plain.explain("grad")["passes"].rows)["hoist"] == "switched off"


# while loops

WHILE = {
    # name: (function, rows of the condition and rows of the body that remain)
    "a body": (lambda A, B, x, most: sg.while_loop(lambda s: s.sum() < most, lambda s: (A @ B).sin() @ s / 9 + 1, x, max_steps=9),
               {"sum", "lt", "logical_and"}, {"matmul", "div", "add"}),
    "a condition": (lambda A, B, x, most: sg.while_loop(lambda s: s.sum() < most * (A @ B).cosh().sum(), lambda s: s + 1, x, max_steps=9),
                    {"sum", "lt", "logical_and"}, {"add"}),
    "both": (lambda A, B, x, most: sg.while_loop(lambda s: s.sum() < most + (A @ B).tanh().sum(), lambda s: s + (A @ B).tanh().cos()[0] + 2,
                                                 x, max_steps=9), {"sum", "lt", "logical_and"}, {"add"}),
}  # fmt: skip


def while_graph(function, *given):
    return trace(lambda args: function(*args), list(given), ["A", "B", "x", "most"][: len(given)]).graph


@pytest.mark.parametrize("most", [8.0, -1e9], ids=["steps", "no steps"])
@pytest.mark.parametrize("name", WHILE)
def test_invariant_values_leave_a_while_loop(name, most):
    function, tested, computed = WHILE[name]
    given = [A, B, X, np.float64(most)]
    graph = while_graph(lambda *args: function(*args).sin().sum(), *given)
    given += [np.int64(0)] * (len(graph.inputs) - 4)  # where the count of steps starts
    found = verify(hoist(graph))
    (loop,) = [v for v in found.values if v.op == "while_loop"]
    ops = lambda g: {v.op for v in g.values if v.args and v.op != "getitem"}
    assert (ops(loop.attrs["condition"]), ops(loop.attrs["body"])) == (tested, computed)
    for one, other in ((graph, found), (grad(graph, [0, 1, 2]), verify(grad(found, [0, 1, 2])))):
        for before, after in zip(evaluate(one, given), evaluate(other, given), strict=True):
            np.testing.assert_allclose(after, before, rtol=1e-10, atol=1e-12)


def inverse(A, x, most):
    return sg.while_loop(lambda s: s.sum() < most, lambda s: sg.linalg.inv(A).sqrt() @ s + 1, x, max_steps=3).sum()


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_a_loop_without_steps_computes_nothing_of_its_body(backend):
    fast = sg.compile(inverse, backend=backend)
    x, none, some = sg.tensor(X), sg.tensor(-1e9), sg.tensor(9.0)
    singular = sg.zeros(3, 3, dtype=sg.float64)
    regular = sg.tensor(np.linalg.inv(np.full((3, 3), 0.5) + np.eye(3)))
    np.testing.assert_allclose(fast(regular, x, some), inverse(regular, x, some), rtol=1e-6)
    np.testing.assert_allclose(fast(singular, x, none), X.sum(), rtol=1e-6)
    for wrt, expected in (("x", np.ones(3)), ("A", np.zeros((3, 3)))):
        np.testing.assert_array_equal(fast.grad(singular, x, none, wrt=wrt), expected)
    assert "inv" in dict(fast.explain("grad")["passes"].rows)["hoist"] or "sqrt" in dict(fast.explain("grad")["passes"].rows)["hoist"]


def test_bounds_that_are_tensors():
    def function(A, n):
        return sg.fori_loop(0, n, lambda i, s: (A @ A).tanh() @ s + i, A[0])

    graph = trace(lambda given: function(*given), [A, np.int64(4)], ["A", "n"]).graph
    found = verify(hoist(graph))
    (loop,) = [v for v in found.values if v.op == "while_loop"]
    assert "tanh" not in loop.attrs["body"].ops
    for n in (0, 1, 4):
        given = [A, np.int64(n), np.int64(0)]  # the last is the lower bound
        np.testing.assert_allclose(evaluate(found, given)[0], evaluate(graph, given)[0], rtol=1e-12)


def test_identity_matrices_that_a_body_makes_twice():
    """They are one value of the outer function, and two tensors."""

    def f(x, ts):
        first, _ = sg.scan(lambda c, t: (sg.eye(3) @ c + sg.linalg.solve(2 * sg.eye(3), x) * t, None), x, ts)
        second, _ = sg.scan(lambda c, t: (sg.cond(t > 0, lambda: sg.eye(3) @ c, lambda: sg.eye(3) @ c * t), None), first, ts)
        return second.sum()

    x, ts = sg.tensor([0.5, -1.0, 2.0]), sg.tensor([0.3, -0.2, 0.7])
    fast = sg.compile(f, backend="numpy")
    sg.testing.assert_close(fast(x, ts), f(x, ts))
    sg.testing.assert_close(fast.grad(x, ts, wrt="x"), sg.func.grad(f)(x, ts))
