"""Derivatives of functions that cannot be traced, with fallback="eager": the same as those of a kernel, in the same form."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import GraphError
from symgrad.pytree import flatten

NET = sg.nn.Linear(3, 2).double()
X, W = sg.tensor([0.5, -1.0, 2.0], dtype=sg.float64), sg.linspace(-1, 1, 6, dtype=sg.float64).reshape(3, 2)


def number(x, leaves):
    return x.sum().item() if leaves else x.detach().sum()


def loss(leaves):
    return lambda x, w, a: ((x @ w).tanh() * a * number(x, leaves)).sum() + NET(x).square().sum()


def many(leaves):
    return lambda x, w, a: {"y": (x @ w).tanh() * number(x, leaves) * a, "z": (x * x * x, w[0])}


ASKED = {
    "grad": (loss, lambda f, wrt: f.grad(X, W, 1.5, wrt=wrt)),
    "value_and_grad": (loss, lambda f, wrt: f.value_and_grad(X, W, a=1.5, wrt=wrt)),
    "vjp": (many, lambda f, wrt: f.vjp(X, W, 1.5, wrt=wrt)({"y": X[:2], "z": (X, X[1:])})),
    "jvp": (many, lambda f, wrt: f.jvp(X, W, 1.5, wrt=wrt)(*((X,) if wrt == "x" else (X, W)))),
    "value": (many, lambda f, wrt: f.vjp(X, W, 1.5, wrt=wrt).value),
    "jacobian": (many, lambda f, wrt: f.jacobian(X, W, 1.5, wrt=wrt)),
    "hessian": (many, lambda f, wrt: f.hessian(X, W, 1.5, wrt=wrt)),
    "hvp": (loss, lambda f, wrt: f.hvp(X, W, 1.5, v=X if wrt == "x" else (X, W), wrt=wrt)),
}


def tensors(found):
    return flatten(found, lambda t: isinstance(t, sg.Tensor))


@pytest.mark.parametrize("wrt", ["x", ("x", "w")])
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.filterwarnings("ignore:derivatives of")
def test_derivatives_are_those_of_a_kernel(name, wrt):
    function, ask = ASKED[name]
    eager, kernel = sg.compile(function(True), fallback="eager"), sg.compile(function(False))
    (found, form), (expected, same) = tensors(ask(eager, wrt)), tensors(ask(kernel, wrt))
    assert str(form) == str(same)
    for a, b in zip(found, expected, strict=True):
        assert not a.requires_grad
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_what_is_brought_along_has_its_name_and_the_warning_comes_once():
    fast = sg.compile(loss(True), fallback="eager")
    with pytest.warns(UserWarning, match=r"derivatives of .* are computed eagerly from now on: .*test_eager_fallback.py:\d+: item\(\)"):
        found = fast.grad(X, W, 1.5, wrt="NET_weight")
    assert found.shape == NET.weight.shape
    np.testing.assert_allclose(fast.grad(X, W, 1.5, wrt=("NET_weight", "NET_bias"))[0], found)  # warnings are errors


@pytest.mark.filterwarnings("ignore:derivatives of")
def test_a_function_with_effects_runs_once_for_each_derivative():
    sg.manual_seed(0)
    calls = []

    def noisy(x):
        calls.append(1)
        return (x * sg.randn(3)).sum() * x.sum().item()

    fast = sg.compile(noisy, fallback="eager")
    fast.grad(sg.ones(3), wrt="x")
    before = len(calls)
    state = sg.get_rng_state()
    found = fast.grad(sg.ones(3), wrt="x")
    assert len(calls) == before + 1
    sg.set_rng_state(state)
    np.testing.assert_allclose(found, 3 * sg.randn(3), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:derivatives of")
def test_what_has_no_derivative_says_so_as_a_kernel_does():
    fast = sg.compile(lambda x: x * x.sum().item(), fallback="eager")
    with pytest.raises(GraphError, match=r"only for scalar outputs, got float32\[2\]"):
        fast.grad(sg.ones(2), wrt="x")
    with pytest.raises(GraphError, match="only floating-point outputs have a Jacobian"):
        sg.compile(lambda x: (x * x.sum().item()).argmax(), fallback="eager").jacobian(sg.ones(2), wrt="x")


@pytest.mark.filterwarnings("ignore:derivatives of")
def test_one_number_in_a_vector_has_gradients_as_of_a_kernel():
    expected = sg.compile(lambda x: (x * x * x).sum(0, keepdim=True)).hvp(X, v=X, wrt="x")
    fast = sg.compile(lambda x: (x * x * x).sum(0, keepdim=True) + 0 * x.sum().item(), fallback="eager")
    np.testing.assert_allclose(fast.hvp(X, v=X, wrt="x"), expected)
    np.testing.assert_allclose(fast.grad(X, wrt="x"), 3 * X * X)
