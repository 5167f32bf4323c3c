"""Gradients behind masks and at kinks are finite in formulas and compiled code, to second order; eager code stays as PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from masked_forms import EAGER_IS_NOT_FINITE, FORMS

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.rewrite.masks import finite_behind_masks


def at(name):
    function, point, gradient = FORMS[name]
    return function, np.array(point), np.array(gradient, float)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_compiled_gradients_are_finite(name, backend):
    function, point, gradient = at(name)
    fast = sg.compile(function, backend=backend)
    np.testing.assert_allclose(fast.grad(sg.from_numpy(point), wrt=0).numpy(), gradient, rtol=1e-15, atol=1e-15)
    hessian = fast.hessian(sg.from_numpy(point), wrt=0).numpy()
    assert np.isfinite(hessian).all()


@pytest.mark.parametrize("name", FORMS)
def test_formulas_are_finite(name):
    function, point, gradient = at(name)
    x = sg.from_numpy(point)
    derivation = sg.derive(function, wrt=0)(x)
    np.testing.assert_allclose(derivation(x)[1].numpy(), gradient, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("name", FORMS)
def test_eager_gradients_are_those_of_pytorch(name):
    function, point, _ = at(name)
    x = sg.from_numpy(point.copy()).requires_grad_()
    function(x).backward()
    assert np.isfinite(x.grad.numpy()).all() == (name not in EAGER_IS_NOT_FINITE)


def test_masks_can_be_switched_off():
    function, point, _ = at("log")
    found = sg.compile(function, backend="numpy", without="masks").grad(sg.from_numpy(point), wrt=0).numpy()
    assert np.isnan(found[0])


def test_what_is_not_masked_is_left_alone():
    x, c = input_value(0, (3,), np.float64), input_value(1, (3,), np.bool_)
    for value in (xp.where(c, x, 1) * x, xp.sin(xp.where(c, x, 0)), x / xp.where(c, x, 0)):
        graph = Graph([x, c], [value])
        assert finite_behind_masks(graph) is graph
