"""From runs to graphs: traced functions, recorded histories, and what is refused, with the line."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.autodiff.pull import grad, vjp
from symgrad.compiler.inputs.signature import Spec
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.printer import text
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.symbolic.from_tape import history
from symgrad.compiler.trace.trace import trace
from symgrad.errors import GraphError, TraceError
from symgrad.mode import local


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def run(graph, *tensors):
    return evaluate(verify(graph), [t.detach().numpy() for t in tensors])


def test_arguments_are_inputs_and_other_tensors_too():
    x, w = values(2, 3), values(3)
    w.name = "weight"
    constant = sg.tensor([1.0, 2.0], dtype=sg.float64)
    traced = trace(lambda args: args[0] @ w + constant, [x], ["x"])
    assert traced.graph.labels == ("x", "weight", "c2")
    assert traced.captured[0] is w
    np.testing.assert_array_equal(run(traced.graph, x, w, constant)[0], (x @ w + constant).detach().numpy())


def test_the_same_tensor_twice_is_two_inputs():
    x = values(3)
    graph = trace(lambda args: (args[0] * args[1]).sum(), [x, x], ["a", "b"]).graph
    np.testing.assert_array_equal(run(grad(graph, [0]), x, x)[0], x.detach().numpy())


def test_no_grad_and_detach_stop_the_derivative():
    def f(args):
        (x,) = args
        with sg.no_grad():
            y = x * x
        return (y * x + x.detach() * x).sum()

    x = values(3)
    graph = trace(f, [x], ["x"]).graph
    assert "detach(" in text(graph)
    f([x]).backward()
    np.testing.assert_allclose(run(grad(graph), x)[0], x.grad.numpy(), rtol=1e-15)


def test_derivatives_inside_are_part_of_the_graph():
    def f(args):
        (x,) = args
        (g,) = sg.autograd.grad((x**3).sum(), x, create_graph=True)
        return (g * g).sum()

    x = values(3)
    traced = trace(f, [x], ["x"])
    assert traced.captured == ()
    np.testing.assert_allclose(run(grad(traced.graph), x)[0], 36 * x.detach().numpy() ** 3, rtol=1e-12)


def test_anomaly_mode_may_look_on():
    x = values(3)
    with sg.autograd.set_detect_anomaly(True):
        before = local.mode.capture
        assert trace(lambda args: args[0] * 2, [x], ["x"]).graph.outputs[0].op == "mul"
        assert local.mode.capture is before
        assert sg.compile(lambda x: x.sum())(x).grad_fn.name() == "CompiledFunctionBackward"


def test_shapes_are_enough():
    graph = trace(lambda args: (args[0] @ args[1]).logsumexp(-1).sum(), [Spec((64, 10**6)), Spec((10**6, 3))], ["x", "w"]).graph
    assert [x.shape for x in graph.inputs] == [(64, 10**6), (10**6, 3)]
    assert graph.outputs[0].dtype == np.float32


def leaves_by_bool(x):
    return x if x.sum() > 0 else -x


def leaves_by_item(x):
    return x * x.sum().item()


def leaves_by_numpy(x):
    return x + sg.tensor(np.asarray(x.detach()))


def copies(x):
    return x * sg.tensor([x.sum(), x.prod()]).sum()


def draws(x):
    noise = sg.randn(3)
    return x + noise


OUTSIDE = sg.zeros(3, dtype=sg.float64)


def writes(x):
    OUTSIDE.add_(x.detach())
    return x * OUTSIDE


def writes_through_a_view(x):
    OUTSIDE[0] = 1
    return x * OUTSIDE


def runs_backward(x):
    (x * x).sum().backward()
    return x


@pytest.mark.parametrize(
    ("function", "line", "words"),
    [
        (leaves_by_bool, 1, r"bool\(tensor\)"),
        (leaves_by_item, 1, r"item\(\)"),
        (leaves_by_numpy, 1, r"numpy\.asarray\(tensor\)"),
        (copies, 1, r"tensor\(\[t, \.\.\.\]\)"),
        (draws, 2, "random numbers are drawn"),
        (writes, 1, "written to in place"),
        (writes_through_a_view, 1, "written to in place"),
        (runs_backward, 1, r"backward\(\)"),
    ],
)
def test_what_no_graph_can_hold_is_refused_with_its_line(function, line, words):
    start = inspect.getsourcelines(function)[1]
    with pytest.raises(TraceError, match=rf"test_tracer\.py:{start + line}: .*{words}"):
        trace(lambda args: function(*args), [values(3)], ["x"])
    assert local.mode.capture is None
    assert local.mode.recording


def test_a_function_must_return_tensors():
    with pytest.raises(TraceError, match="must return a tensor or tensors, got int 3"):
        trace(lambda args: 3, [values(3)], ["x"])


def test_history_after_backward():
    x, c = values(2, 3), sg.tensor([[2.0], [3.0]], dtype=sg.float64)
    x.name = "x"
    y = ((x * c).tanh() ** 2).sum()
    y.backward()
    recorded = history(y)
    assert recorded.graph.labels == ("x", "c1")
    assert recorded.leaves[0] is x
    assert recorded.leaves[1] is None
    np.testing.assert_array_equal(run(recorded.graph, x, c)[0], y.detach().numpy())
    np.testing.assert_allclose(run(grad(recorded.graph, [0]), x, c)[0], x.grad.numpy(), rtol=1e-14)


def test_history_of_several_outputs():
    x = values(3, 4)
    largest, _ = x.max(1)
    y = (largest * largest).sum()
    np.testing.assert_array_equal(run(history(y).graph, x)[0], y.detach().numpy())


def test_vjp_and_jvp_are_transposes():
    x, w = values(2, 3), values(3, 4)
    graph = trace(lambda args: (args[0] @ args[1]).tanh().exp(), [x, w], ["x", "w"]).graph
    rng = np.random.default_rng(1)
    cotangent, tangent_x, tangent_w = (rng.normal(size=s) for s in ((2, 4), (2, 3), (3, 4)))
    arrays = [x.detach().numpy(), w.detach().numpy()]
    pulled = evaluate(verify(vjp(graph)), [*arrays, cotangent])
    (pushed,) = evaluate(verify(jvp(graph)), [*arrays, tangent_x, tangent_w])
    np.testing.assert_allclose((pulled[0] * tangent_x).sum() + (pulled[1] * tangent_w).sum(), (pushed * cotangent).sum(), rtol=1e-12)


def test_what_is_not_used_has_a_zero_gradient():
    graph = trace(lambda args: args[0].sum(), [values(3), values(2)], ["x", "y"]).graph
    np.testing.assert_array_equal(run(grad(graph), values(3), values(2))[1], [0, 0])


def test_only_scalars_have_gradients():
    graph = trace(lambda args: args[0] * 2, [values(3)], ["x"]).graph
    with pytest.raises(GraphError, match=r"only for scalar outputs, got float64\[3\]"):
        grad(graph)
    integer = trace(lambda args: args[0].sum() + args[1].sum(), [values(3), sg.tensor([1, 2])], ["x", "n"]).graph
    with pytest.raises(GraphError, match=r"n is int64\[2\]: only floating-point inputs"):
        grad(integer, [1])
