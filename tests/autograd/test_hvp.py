"""func.hvp is the Hessian times a vector, eagerly, compiled and nested, by the mode that costs less."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.func import grad, hessian, hvp

rng = np.random.default_rng(4)
W, X, V = (sg.tensor(rng.standard_normal(shape)) for shape in ((3, 3), 3, 3))


def loss(x):
    return sg.tanh(x @ W).exp().sum()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_it_is_the_hessian_times_the_vector(compiled):
    run = lambda x, v: hvp(loss, (x,), (v,))
    found = (sg.compile(run) if compiled else run)(X, V)
    np.testing.assert_allclose(found.numpy(), hessian(loss)(X).numpy() @ V.numpy(), rtol=1e-10)
    assert not found.requires_grad


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_several_arguments_and_containers_have_products_in_their_form(compiled):
    def both(x, tree):
        return (x**2 * tree["w"]).sum()

    def run(x, w, v, u):
        return hvp(both, (x, {"w": w}), (v, {"w": u}))

    along, tree = (sg.compile(run) if compiled else run)(X, V, V, X)
    np.testing.assert_allclose(along.numpy(), (2 * V * V + 2 * X * X).numpy(), rtol=1e-10)
    np.testing.assert_allclose(tree["w"].numpy(), (2 * X * V).numpy(), rtol=1e-10)


def test_it_can_be_differentiated():
    point = sg.tensor([0.3, 0.5], dtype=sg.float64)
    found = grad(lambda x: hvp(lambda x: (x**4).sum(), (x,), (sg.ones_like(x),)).sum())(point)
    np.testing.assert_allclose(found.numpy(), 24 * point.numpy(), rtol=1e-12)


def test_it_wants_tuples_of_equal_shapes():
    with pytest.raises(RuntimeError, match="Expected primals to be a tuple"):
        hvp(loss, X, (V,))
    with pytest.raises(RuntimeError, match=r"size \[3\] while the given forward gradient is of size \[2\]"):
        hvp(loss, (X,), (sg.ones(2),))
    with pytest.raises(RuntimeError, match="as many tangents as primals"):
        hvp(loss, (X,), (V, V))
