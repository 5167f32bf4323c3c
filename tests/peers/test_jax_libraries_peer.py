"""as_jax() and from_jax() among the libraries that are built on JAX: optax, equinox, diffrax."""

from __future__ import annotations

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import symgrad as sg

pytestmark = pytest.mark.peer
MODES = ("vjp", "jvp")


def regression(params, x, y):
    return ((x @ params["w"] + params["b"]).tanh() - y).square().mean()


def jax_regression(params, x, y):
    return jnp.square(jnp.tanh(x @ params["w"] + params["b"]) - y).mean()


def trained(loss, steps=50):
    rng = np.random.default_rng(0)
    x, y = jnp.array(rng.standard_normal((32, 3)), "float32"), jnp.array(rng.standard_normal(32), "float32")
    params = {"w": jnp.zeros(3), "b": jnp.zeros(())}
    optimizer = optax.adam(0.05)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        updates, state = optimizer.update(grads, state)
        return optax.apply_updates(params, updates), state, value

    for _ in range(steps):
        params, state, value = step(params, state)
    return params, value


@pytest.mark.parametrize("mode", MODES)
def test_optax_trains_it(mode):
    ours, value = trained(sg.compile(regression).as_jax(mode))
    theirs, expected = trained(jax_regression)
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    for name in ours:
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-3, atol=1e-4)


def test_a_loss_of_optax_is_an_operation():
    logits, labels = sg.randn(5, 3, requires_grad=True), sg.tensor([0, 2, 1, 1, 0])
    loss = sg.from_jax(optax.softmax_cross_entropy_with_integer_labels)
    loss(logits, labels).mean().backward()
    own = logits.detach().clone().requires_grad_()
    sg.nn.functional.cross_entropy(own, labels).backward()
    np.testing.assert_allclose(logits.grad.numpy(), own.grad.numpy(), rtol=1e-4, atol=1e-6)


class Layer(eqx.Module):
    weight: jax.Array
    activation: object = eqx.field(static=True)

    def __call__(self, x):
        return self.activation(self.weight, x)


@pytest.mark.parametrize("mode", MODES)
def test_equinox_modules_call_it_and_are_given_to_it(mode):
    layer = sg.compile(lambda w, x: (x @ w).tanh()).as_jax(mode)
    model, x = Layer(jnp.arange(6.0).reshape(3, 2) / 10, layer), jnp.ones((4, 3))
    grads = eqx.filter_jit(eqx.filter_grad(lambda model, x: model(x).sum()))(model, x)
    expected = jax.grad(lambda w: jnp.tanh(x @ w).sum())(model.weight)
    np.testing.assert_allclose(grads.weight, expected, rtol=1e-5)
    whole = sg.compile(lambda model, x: (x @ model.weight).tanh().sum()).as_jax(mode)
    np.testing.assert_allclose(eqx.filter_grad(whole)(model, x).weight, expected, rtol=1e-5)
    np.testing.assert_allclose(jax.vmap(lambda x: model(x))(x), jnp.tanh(x @ model.weight), rtol=1e-5)


def pendulum(t, y, args):
    return sg.stack((y[1], -args * y[0].sin()))


def jax_pendulum(t, y, args):
    return jnp.stack((y[1], -args * jnp.sin(y[0])))


def final_angle(field, adjoint):
    def run(gravity):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field), diffrax.Dopri5(), 0.0, 1.0, None, jnp.array([1.0, 0.0]), args=gravity,
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-5), adjoint=adjoint, max_steps=256,
        )  # fmt: skip
        return solution.ys[0, 0]

    return run


@pytest.mark.parametrize("mode", MODES)
def test_diffrax_solves_and_differentiates_through_it(mode):
    field = sg.compile(pendulum).as_jax(mode)
    for adjoint in (diffrax.RecursiveCheckpointAdjoint(), diffrax.BacksolveAdjoint()):
        ours, theirs = (jax.jit(jax.value_and_grad(final_angle(f, adjoint)))(9.81) for f in (field, jax_pendulum))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_diffrax_in_forward_mode():
    ours, theirs = (
        jax.jacfwd(final_angle(f, diffrax.ForwardMode()))(9.81) for f in (sg.compile(pendulum).as_jax("jvp"), jax_pendulum)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_an_implicit_solver_of_diffrax_takes_jacobians_of_it():
    """It asks for forward mode."""
    stiff = sg.compile(lambda t, y, args: -args * y * y.abs()).as_jax("jvp")
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(stiff), diffrax.Kvaerno3(), 0.0, 1.0, 0.01, jnp.array([1.0, 2.0]), args=50.0,
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-7),
    )  # fmt: skip
    np.testing.assert_allclose(solution.ys[0], [1 / 51, 2 / 101], rtol=1e-3)
