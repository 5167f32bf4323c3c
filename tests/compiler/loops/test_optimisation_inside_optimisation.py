"""Forward derivatives of functions that iterate until they converge: loops without max_steps, nested in one another, as in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.control_flow import is_control
from symgrad.compiler.trace.trace import trace
from symgrad.errors import GraphError, TraceError
from symgrad.func import grad, jacfwd, jvp

RATE, ENOUGH = 0.2, 1e-6


def minimum(f, x, slope):
    """Gradient descent until the gradient is small, in symgrad or JAX."""
    loop = sg.while_loop if isinstance(x, sg.Tensor) else jax.lax.while_loop
    return loop(lambda x: (slope(f)(x) ** 2).sum() > ENOUGH**2, lambda x: x - RATE * slope(f)(x), x)


def saddle(start, forward, reverse):
    """min over x of max over y: the outer descent differentiates the inner one."""

    def f(x, y):
        return ((x - 0.5) ** 2).sum() - ((y - x) ** 2).sum() * (1 + y[0] ** 2)

    def highest(x):
        return minimum(lambda y: -f(x, y), start, reverse)

    x = minimum(lambda x: f(x, highest(x)), start, forward)
    return x, highest(x)


def particle(force, forward, reverse):
    """How far a charge drifts until it has fallen to the ground: the potential is differentiated inside the loop."""
    loop = sg.while_loop if isinstance(force, sg.Tensor) else jax.lax.while_loop
    stack = sg.stack if isinstance(force, sg.Tensor) else jnp.stack

    def potential(p):
        return 1 / (p**2).sum() ** 0.5 + 1 / ((p - 4) ** 2).sum() ** 0.5

    def drift(force):
        def step(state):
            place, speed = state
            return place + 0.1 * speed, speed - 0.1 * reverse(potential)(place) - stack([0 * force, force])

        place, speed = loop(lambda state: state[0][1] > 0, step, (stack([0 * force, 0 * force + 8]), stack([0 * force + 0.75, 0 * force])))
        late = -place[1] / speed[1]
        return (place[0] + late * speed[0]) ** 2

    return forward(drift)(force)


def test_a_saddle_point_is_found_by_descent_inside_of_descent():
    start = np.array([0.3, -0.2])
    found = sg.compile(lambda start: saddle(start, jacfwd, grad))(sg.tensor(start))
    with jax.enable_x64(True):
        expected = jax.jit(lambda start: saddle(start, jax.jacfwd, jax.grad))(jnp.asarray(start))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6, atol=1e-7)


def test_the_derivative_of_a_trajectory_ends_where_the_trajectory_does():
    found = sg.compile(lambda force: particle(force, jacfwd, grad))(sg.tensor(0.4, dtype=sg.float64))
    with jax.enable_x64(True):
        expected = jax.jit(lambda force: particle(force, jax.jacfwd, jax.grad))(jnp.asarray(0.4))
    assert found.item() == pytest.approx(float(expected), rel=1e-10)
    eager = particle(sg.tensor(0.4, dtype=sg.float64), jacfwd, grad)
    assert found.item() == pytest.approx(eager.item(), rel=1e-10)


def graph_of(function, *points):
    return trace(lambda given: function(*given), [np.asarray(p) for p in points], [f"x{i}" for i in range(len(points))]).graph


def until(x):
    return sg.while_loop(lambda y: y.sum() < 100, lambda y: y * y + x, x)


def test_value_and_tangent_come_from_one_loop():
    graph = graph_of(lambda x: jvp(until, (x,), (x,)), [2.0, 3.0])
    assert sum(map(is_control, graph.values)) == 1


def test_reverse_mode_still_wants_max_steps():
    with pytest.raises(GraphError, match="max_steps"):
        sg.compile(grad(lambda x: until(x).sum()))(sg.tensor([2.0, 3.0]))


def test_nested_derivatives_grow_slowly_when_they_are_traced():
    def nested(order):
        function = lambda x: 1 / (1 + x * x)
        for _ in range(order):
            function = (lambda f: lambda x: jvp(f, (x,), (sg.ones_like(x),))[1])(function)
        return function

    sizes = [len(graph_of(nested(n), np.ones(3)).values) for n in (4, 8)]
    assert sizes[1] <= 4 * sizes[0], sizes  # it was 16 times: twice for each order
    x = sg.tensor([0.3, 0.7], dtype=sg.float64)
    (_, expected) = np.split(np.array([c.numpy() for c in sg.func.taylor(lambda x: 1 / (1 + x * x), 8)(x)]), [8])
    np.testing.assert_allclose(sg.compile(nested(8))(x).numpy(), expected[0] * 40320, rtol=1e-9)


def test_python_may_branch_on_values_inside_of_a_forward_derivative():
    @sg.compile
    def slope(x):
        return jvp(lambda x: x**2 if x.sum() > 0 else -x, (x,), (sg.ones_like(x),))[1], jacfwd(lambda x: x * 2 if x[0] > 0 else x)(x)

    for sign in (1.0, -1.0):
        along, whole = slope(sg.tensor([sign]))
        assert along.tolist() == [2.0 if sign > 0 else -1.0]
        assert whole.tolist() == [[2.0 if sign > 0 else 1.0]]


def test_a_tensor_that_is_kept_outside_is_an_error():
    kept = []

    def function(x):
        kept.append(x * 2)
        return x

    with pytest.raises(TraceError, match="is kept outside of it"):
        sg.compile(lambda x: jvp(function, (x,), (x,))[1])(sg.ones(2))


def test_forward_derivatives_of_captured_tensors_reach_an_outer_gradient():
    w = sg.tensor([0.5, 2.0], dtype=sg.float64, requires_grad=True)
    x = sg.tensor([1.0, 3.0], dtype=sg.float64)

    @sg.compile
    def loss(x, w):
        return jvp(lambda x: sg.sin(w * x), (x,), (sg.ones_like(x),))[1].sum() + jacfwd(lambda x: w * x * x)(x).sum()

    expected = np.cos(w.detach().numpy() * x.numpy()) - (w * x).detach().numpy() * np.sin((w * x).detach().numpy()) + 2 * x.numpy()
    np.testing.assert_allclose(loss.grad(x, w, wrt="w").numpy(), expected, rtol=1e-10)
    loss(x, w).backward()
    np.testing.assert_allclose(w.grad.numpy(), expected, rtol=1e-10)


def test_tangents_of_another_dtype_and_results_without_a_derivative():
    def both(x):
        return jvp(lambda x: (x * 2, x > 0, sg.ones(3)), (x,), (sg.ones(2),))

    values, slopes = sg.compile(both)(sg.tensor([1.0, -1.0], dtype=sg.float64))
    assert values[1].tolist() == [True, False]
    assert slopes[0].tolist() == [2, 2]
    assert slopes[0].dtype == sg.float64
    assert slopes[2].tolist() == [0, 0, 0]
