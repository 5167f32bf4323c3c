"""Values and derivatives at zeros, ties and edges: PyTorch's conventions as numbers, first and second order.

Each line: what is computed, where, its gradient there, and the sum over each row of its Hessian (None: not defined by a convention).
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

inf, nan, pi = math.inf, math.nan, math.pi
LN2 = math.log(2)

POINTS = [
    # one argument: kinks and steps
    ("abs at 0", lambda x: x.abs(), [0.0], [0], [0]),
    ("abs at -0", lambda x: x.abs(), [-0.0], [0], [0]),
    ("abs left of 0", lambda x: x.abs(), [-2.0], [-1], [0]),
    ("abs of NaN", lambda x: x.abs(), [nan], [0], [0]),
    ("relu at 0", lambda x: x.relu(), [0.0], [0], [0]),
    ("relu right of 0", lambda x: x.relu(), [1e-30], [1], [0]),
    ("relu of NaN", lambda x: x.relu(), [nan], [1], [0]),
    ("sign at 0", lambda x: x.sign(), [0.0], [0], [0]),
    ("floor at an integer", lambda x: x.floor(), [2.0], [0], [0]),
    ("ceil at an integer", lambda x: x.ceil(), [2.0], [0], [0]),
    ("round at a half", lambda x: x.round(), [2.5], [0], [0]),
    ("trunc at 0", lambda x: x.trunc(), [0.0], [0], [0]),
    ("frac at an integer", lambda x: x.frac(), [1.0], [1], [0]),
    ("nan_to_num of NaN", lambda x: x.nan_to_num(), [nan], [0], [0]),
    ("nan_to_num of infinity", lambda x: x.nan_to_num(), [inf], [0], [0]),
    # clamping
    ("clamp at the lower bound", lambda x: x.clamp(0, 1), [0.0], [1], [0]),
    ("clamp at the upper bound", lambda x: x.clamp(0, 1), [1.0], [1], [0]),
    ("clamp at a lower bound alone", lambda x: x.clamp(min=0), [0.0], [1], [0]),
    ("clamp at an upper bound alone", lambda x: x.clamp(max=0), [0.0], [1], [0]),
    ("clamp outside", lambda x: x.clamp(0, 1), [1.5], [0], [0]),
    ("clamp with crossed bounds", lambda x: x.clamp(1, 0), [0.5], [0], [0]),
    ("clamp_min at the bound", lambda x: x.clamp_min(0), [0.0], [1], [0]),
    ("clamp_max at the bound", lambda x: x.clamp_max(0), [0.0], [1], [0]),
    ("clamp at a tensor bound", lambda x, y: x.clamp(min=y), [1.0, 1.0], [1, 0], [0, 0]),
    ("clamp between tensors at both bounds", lambda x, y, z: x.clamp(y, z), [1.0, 1.0, 1.0], [1, 0, 0], [0, 0, 0]),
    ("clamp between crossed tensors", lambda x, y, z: x.clamp(y, z), [0.5, 1.0, 0.0], [0, 0, 1], [0, 0, 0]),
    # ties
    ("maximum at a tie", lambda x, y: sg.maximum(x, y), [1.0, 1.0], [0.5, 0.5], [0, 0]),
    ("minimum at a tie", lambda x, y: sg.minimum(x, y), [1.0, 1.0], [0.5, 0.5], [0, 0]),
    ("maximum with 0 at 0", lambda x: sg.maximum(x, sg.tensor(0.0, dtype=sg.float64)), [0.0], [0.5], [0]),
    ("maximum of a square at a tie", lambda x, y: sg.maximum(x * x, y * y), [1.0, -1.0], [1, -1], [1, 1]),
    ("maximum with NaN", lambda x, y: sg.maximum(x, y), [nan, 1.0], [1, 1], [0, 0]),
    ("fmax at a tie", lambda x, y: sg.fmax(x, y), [1.0, 1.0], [1, 0], [0, 0]),
    ("fmax with NaN", lambda x, y: sg.fmax(x, y), [nan, 1.0], [0, 1], [0, 0]),
    ("fmin at a tie", lambda x, y: sg.fmin(x, y), [1.0, 1.0], [1, 0], [0, 0]),
    # the plane
    ("hypot where both are equal", lambda x, y: sg.hypot(x, y), [1.0, 1.0], [0.5**0.5, 0.5**0.5], [0, 0]),
    ("hypot with a zero", lambda x, y: sg.hypot(x, y), [0.0, 2.0], [0, 1], [0.5, 0]),
    ("hypot at the origin", lambda x, y: sg.hypot(x, y), [0.0, 0.0], [nan, nan], None),
    ("atan2 at the origin", lambda x, y: sg.atan2(x, y), [0.0, 0.0], [0, 0], [0, 0]),
    ("atan2 on the axis", lambda x, y: sg.atan2(x, y), [0.0, 2.0], [0.5, 0], [-0.25, -0.25]),
    # powers
    ("x ** x at 0", lambda x: x**x, [0.0], [0], None),
    ("x ** x at 1", lambda x: x**x, [1.0], [1], [2]),
    ("x ** 0 at 0", lambda x: x**0, [0.0], [0], [0]),
    ("x ** 1 at 0", lambda x: x**1, [0.0], [1], [0]),
    ("x ** 2 at 0", lambda x: x**2, [0.0], [0], [2]),
    ("x ** 3 at 0", lambda x: x**3, [0.0], [0], [0]),
    ("x ** 1.5 at 0", lambda x: x**1.5, [0.0], [0], [inf]),
    ("x ** 0.5 at 0", lambda x: x**0.5, [0.0], [inf], [-inf]),
    ("x ** 2 of a negative number", lambda x: x**2.0, [-3.0], [-6], [2]),
    ("x ** y at (0, 0)", lambda x, y: x**y, [0.0, 0.0], [0, 0], None),
    ("x ** y at (0, 2)", lambda x, y: x**y, [0.0, 2.0], [0, 0], [2, 0]),
    ("x ** y of a negative number", lambda x, y: x**y, [-2.0, 2.0], [-4, nan], None),
    ("0 ** x at 0", lambda x: 0**x, [0.0], [0], [0]),
    ("2 ** x at 0", lambda x: 2**x, [0.0], [LN2], [LN2 * LN2]),
    ("sqrt at 0", lambda x: x.sqrt(), [0.0], [inf], [-inf]),
    ("square at 0", lambda x: x.square(), [0.0], [0], [2]),
    ("reciprocal at 0", lambda x: x.reciprocal(), [0.0], [-inf], [inf]),
    ("rsqrt at infinity", lambda x: x.rsqrt(), [inf], [0], [0]),
    # logarithms and exponentials
    ("log at 0", lambda x: x.log(), [0.0], [inf], [-inf]),
    ("log1p at 0", lambda x: x.log1p(), [0.0], [1], [-1]),
    ("expm1 at 0", lambda x: x.expm1(), [0.0], [1], [1]),
    ("exp far left", lambda x: x.exp(), [-1000.0], [0], [0]),
    ("sigmoid far left", lambda x: x.sigmoid(), [-1000.0], [0], [0]),
    ("sigmoid far right", lambda x: x.sigmoid(), [1000.0], [0], [0]),
    ("sigmoid at 0", lambda x: x.sigmoid(), [0.0], [0.25], [0]),
    ("tanh far right", lambda x: x.tanh(), [1000.0], [0], [0]),
    ("logaddexp at a tie", lambda x, y: sg.logaddexp(x, y), [1.0, 1.0], [0.5, 0.5], [0, 0]),
    ("logaddexp far apart", lambda x, y: sg.logaddexp(x, y), [1000.0, 0.0], [1, 0], [0, 0]),
    ("xlogy at (0, 0)", lambda x, y: sg.xlogy(x, y), [0.0, 0.0], [0, nan], None),
    ("xlogy at (0, 1)", lambda x, y: sg.xlogy(x, y), [0.0, 1.0], [0, 0], [1, 1]),
    ("xlogy at (0, -1)", lambda x, y: sg.xlogy(x, y), [0.0, -1.0], [0, 0], None),
    ("logit outside", lambda x: x.logit(), [1.5], [nan], None),
    ("logit clamped outside", lambda x: x.logit(0.25), [0.9], [0], [0]),
    ("logit clamped at the bound", lambda x: x.logit(0.25), [0.25], [16 / 3], [-128 / 9]),
    # circular functions
    ("sinc at 0", lambda x: x.sinc(), [0.0], [0], [-pi * pi / 3]),
    ("sinc beside 0", lambda x: x.sinc(), [1e-9], [-pi * pi / 3 * 1e-9], [-pi * pi / 3]),
    ("sinc at 1", lambda x: x.sinc(), [1.0], [-1], [2]),
    ("asin at 1", lambda x: x.asin(), [1.0], [inf], None),
    ("acosh at 1", lambda x: x.acosh(), [1.0], [inf], None),
    ("erf at 0", lambda x: x.erf(), [0.0], [2 / math.sqrt(pi)], [0]),
    # division
    ("0 / y", lambda x, y: x / y, [0.0, 2.0], [0.5, 0], [-0.25, -0.25]),
    ("x / 0", lambda x, y: x / y, [1.0, 0.0], [inf, -inf], None),
    ("remainder at a multiple", lambda x, y: x % y, [4.0, 2.0], [1, -2], [0, 0]),
    ("remainder of a negative number", lambda x, y: x % y, [-3.0, 2.0], [1, 2], [0, 0]),
    ("fmod of a negative number", lambda x, y: sg.fmod(x, y), [-3.0, 2.0], [1, 1], [0, 0]),
    ("division rounded down", lambda x, y: sg.div(x, y, rounding_mode="floor"), [3.0, 2.0], [0, 0], [0, 0]),
    ("copysign at 0", lambda x, y: sg.copysign(x, y), [0.0, -1.0], [0, 0], [0, 0]),
    # choosing
    ("where keeps NaN out of the other branch", lambda x, y: sg.where(x > 0, x, y), [1.0, nan], [1, 0], [0, 0]),
    ("where stops an infinite cotangent", lambda x: sg.where(x < 0, x, 0).sqrt(), [1.0], [0], [0]),
    ("relu stops an infinite cotangent", lambda x: x.relu().sqrt(), [-1.0], [0], [0]),
    ("clamp stops an infinite cotangent", lambda x: x.clamp(min=0).sqrt(), [-1.0], [0], [0]),
    ("maximum stops an infinite cotangent", lambda x, y: sg.maximum(x, y).sqrt(), [-1.0, 0.0], [0, inf], None),
]  # fmt: skip


@pytest.mark.parametrize(("f", "point", "gradient", "hessian"), [p[1:] for p in POINTS], ids=[p[0] for p in POINTS])
@pytest.mark.parametrize("size", [1, 10_000])
def test_derivatives_at_special_points(f, point, gradient, hessian, size):
    """Large arrays too: their kernels differ."""
    leaves = [wrap(np.full(size, v), requires_grad=True) for v in point]
    ones = wrap(np.ones(size))
    firsts = sg.autograd.grad(f(*leaves), leaves, ones, create_graph=True, materialize_grads=True)
    for first, expected in zip(firsts, gradient, strict=True):
        np.testing.assert_allclose(first._array, np.full(size, float(expected)), rtol=1e-12, atol=1e-15)
    if hessian is None:
        return
    for first, expected in zip(firsts, hessian, strict=True):
        total = np.zeros(size)
        if first.requires_grad:
            for second in sg.autograd.grad(first, leaves, ones, retain_graph=True, materialize_grads=True):
                total = total + second._array
        np.testing.assert_allclose(total, np.full(size, float(expected)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("f", "point", "gradient"), [p[1:4] for p in POINTS], ids=[p[0] for p in POINTS])
def test_backward_agrees_in_float32(f, point, gradient):
    """The fast backward, without a recorded graph."""
    leaves = [wrap(np.array([v], np.float32), requires_grad=True) for v in point]
    f(*leaves).backward(wrap(np.ones(1, np.float32)))
    for leaf, expected in zip(leaves, gradient, strict=True):
        assert leaf.grad._array.dtype == np.float32
        np.testing.assert_allclose(leaf.grad._array, np.array([expected], np.float32), rtol=1e-6, atol=1e-7)


def test_there_are_sixty():
    assert len(POINTS) >= 60
