"""Loops in passes: those that do the same are one, a batch goes through them, short ones are written out in formulas."""

import numpy as np
import pytest
from doubles import tensor

import symgrad as sg
from symgrad.compiler.autodiff import pull as differentiate
from symgrad.compiler.autodiff.batch import batch
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.ir.graph import Graph, walk
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.loops.simplify import merge_loops
from symgrad.compiler.loops.unroll import unroll


def scanned(x, xs, w):
    h, ys = sg.scan(lambda h, v: (sg.tanh(h * w + v), (h.sum(), h * 2, w)), x, xs)
    return (h * h).sum() + ys[0].sum()


def grown(x, xs, w):
    last = sg.while_loop(lambda c: c.sum() < 30, lambda c: c * (1 + w.abs()) + 1, x, max_steps=8)
    return (last * xs.sum()).sum()


def either(x, xs, w):
    return sg.cond(x.sum() > 0, lambda: (x * w).sum().sin(), lambda: (x / (2 + w.cos())).sum() * xs.sum())


def mixed(x, xs, w):
    def outer(c, v):
        inner, _ = sg.scan(lambda d, _: (sg.cond(d.sum() > 0, lambda: d * w, lambda: d + v), None), c, length=2)
        return inner, (inner * v).sum()

    last, ys = sg.scan(outer, x, xs, reverse=True)
    return (last * last).sum() + (ys * xs[:, 0]).sum()


CASES = [scanned, grown, either, mixed]


def arguments(sign=1):
    return [tensor(3) * sign, tensor(4, 3, seed=1), tensor(3, seed=2)]


def traced(f, args):
    compiled = sg.compile(f)
    compiled(*args)
    return compiled.graph()


def arrays(args):
    return [a.detach().numpy() for a in args]


def count(graph):
    return sum(map(is_control, graph.values))


def same(graph, other, given):
    for a, b in zip(evaluate(graph, given), evaluate(other, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("f", CASES)
def test_a_graph_with_loops_put_together_gives_the_same(f):
    graph = traced(f, arguments())
    slopes = differentiate.grad(graph)
    pushed = jvp(graph)
    both = Graph(pushed.inputs, (*graph.outputs, *slopes.outputs, *pushed.outputs), pushed.labels)
    given = arrays([*arguments(), *arguments()])
    same(both, verify(merge_loops(both)), given)
    same(slopes, verify(merge_loops(slopes)), given[:3])


def test_the_loop_that_gives_the_value_also_stacks_what_the_pullback_reads():
    graph = traced(scanned, arguments())
    both = Graph(graph.inputs, (*graph.outputs, *differentiate.grad(graph).outputs), graph.labels)
    assert count(both) == 3
    assert count(merge_loops(both)) == 2
    forward = next(v for v in merge_loops(both).values if is_control(v) and not v.attrs["reverse"])
    assert len(forward.attrs["body"].outputs) == 4  # h; its sum, what tanh gives, and h before: not 2 h, and not w


def test_a_loop_that_is_known_to_end_is_not_run_beside_the_scan_of_its_steps():
    graph = traced(grown, arguments())
    both = Graph(graph.inputs, (*graph.outputs, *differentiate.grad(graph).outputs), graph.labels)
    assert {v.op for v in graph.values if is_control(v)} == {"while_loop"}
    assert {v.op for v in merge_loops(both).values if is_control(v)} == {"scan"}
    assert count(merge_loops(both)) == 2


def test_value_and_tangent_are_one_loop():
    graph = traced(scanned, arguments())
    pushed = jvp(graph)
    both = Graph(pushed.inputs, (*graph.outputs, *pushed.outputs), pushed.labels)
    assert count(merge_loops(both)) == 1


def test_loops_of_which_one_needs_the_other_stay_two():
    def f(x, xs, w):
        first, _ = sg.scan(lambda h, v: (h * w + v, None), x, xs)
        second, _ = sg.scan(lambda h, v: ((h[0] * w + v, h[1] * 2), None), (x, first), xs)
        return (second[0] * second[1]).sum()

    graph = traced(f, arguments())
    same(graph, merge_loops(graph), arrays(arguments()))
    assert count(merge_loops(graph)) == 2


def test_loops_over_the_same_that_do_something_else_stay_two():
    def f(x, xs, w):
        one, ys = sg.scan(lambda h, v: (h * w + v, h), x, xs)
        other, zs = sg.scan(lambda h, v: (h * w - v, h), x, xs)
        third = sg.while_loop(lambda c: c.sum() < 9, lambda c: c + w * w + 1, x)
        fourth = sg.while_loop(lambda c: c.sum() < 99, lambda c: c + w * w + 1, x)
        return (one * other * third * fourth).sum() + (ys * zs).sum()

    graph = traced(f, arguments())
    same(graph, merge_loops(graph), arrays(arguments()))
    assert count(merge_loops(graph)) == 4


def test_what_nobody_reads_is_left_out():
    def f(x, xs, w):
        (a, _), (y, _) = sg.scan(lambda c, v: ((c[0] + v["u"], c[1] * w), (c[0], c[1])), (x, x), {"u": xs, "unused": xs * 2})
        return a.sum() + y.sum()

    graph = traced(f, arguments())
    (whole,) = (v for v in merge_loops(graph).values if is_control(v))
    assert (whole.attrs["carries"], whole.attrs["slices"], len(whole.args)) == (1, 1, 2)
    same(graph, merge_loops(graph), arrays(arguments())[: len(graph.inputs)])


@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_batch_goes_through_a_loop(f, which):
    graph = traced(f, arguments())
    rng = np.random.default_rng(3)
    given = [rng.normal(size=(5, *x.shape) if i in which else x.shape) for i, x in enumerate(graph.inputs)]
    found = evaluate(verify(batch(graph, which, 5)), given)
    for n in range(5):
        one = evaluate(graph, [a[n] if i in which else a for i, a in enumerate(given)])
        np.testing.assert_allclose([y[n] for y in found], one, rtol=1e-12)


@pytest.mark.parametrize("sign", [1, -1])
def test_jacobians_and_hessians(sign):
    f = sg.compile(lambda x, w: sg.scan(lambda h, v: (sg.cond(h.sum() > 0, lambda: h * w.sin(), lambda: h * w + v), None), x, w[None])[0])
    x, w = tensor(3) * sign, tensor(3, seed=2)
    eager = sg.func.jacrev(f.signature.function, argnums=(0, 1))(x, w)
    for found, expected in zip(f.jacobian(x, w), eager, strict=True):
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)
    g = sg.compile(lambda x, w: (f.signature.function(x, w) ** 3).sum())
    expected = sg.func.hessian(g.signature.function)(x, w)
    np.testing.assert_allclose(g.hessian(x, w, wrt="x").detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("f", CASES)
@pytest.mark.parametrize("sign", [1, -1])
def test_loops_written_out_give_the_same(f, sign):
    graph = traced(f, arguments(sign))
    flat = verify(unroll(graph))
    assert not any(map(is_control, walk(flat)))
    same(graph, flat, arrays(arguments(sign)))


def test_the_numpy_back_end_runs_loops():
    for f in CASES:
        args = arguments()
        compiled = sg.compile(f, backend="numpy")
        np.testing.assert_allclose(compiled(*args).item(), f(*args).item(), rtol=1e-12)
        for found, expected in zip(compiled.grad(*args), sg.compile(f).grad(*args), strict=True):
            np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)
    half = sg.compile(lambda x: sg.scan(lambda c, v: (c * v + 1, c), x, sg.stack([x, x]))[0], backend="numpy")
    assert half(sg.ones(3, dtype=sg.float16)).tolist() == [3, 3, 3]


# formulas


def test_the_formula_of_a_short_loop():
    d = sg.derive(lambda x, w: sg.scan(lambda c, _: (c.sin() * w, None), x, length=2)[0], wrt=("x", "w"))
    found = d(sg.tensor(1.0), sg.tensor(2.0))
    assert str(found).splitlines()[:2] == ["f(x, w) = w*sin(w*sin(x))", "∂f/∂x = w**2*cos(x)*cos(w*sin(x))"]
    assert str(sg.derive(lambda x: sg.cond(x > 0, lambda: x.sin(), lambda: x * x))(sg.tensor(2.0))).startswith(
        "f(x) = (sin(x) if x > 0 else x**2)"
    )


def test_a_long_loop_is_a_function_of_whole_tensors():
    f = lambda x, w: sg.scan(lambda c, v: ((c * w).sin() + v, None), w, x)[0].sum()
    x, w = tensor(300, 3), tensor(3, seed=1)
    formula = sg.derive(f, wrt="w")(x, w)
    assert str(formula).startswith("f(x, w) = Σ_i scan(w, x, w, length=300, output=0)[i]")
    value, slope = formula(x, w)
    np.testing.assert_allclose(value.item(), f(x, w).item(), rtol=1e-10)
    np.testing.assert_allclose(slope.numpy(), sg.compile(f).grad(x, w)[1].numpy(), rtol=1e-10)
    assert "scan" in formula.latex()
    with pytest.raises(sg.errors.FormulaError, match="scan is a loop"):
        formula.steps()


def test_a_recorded_loop_has_a_formula():
    w = tensor(2)
    _, ys = sg.scan(lambda c, v: (c * w, (c * v).sum()), w, tensor(2, 2, seed=1).detach())
    assert "x1[0]" in str(ys.sum().formula())
