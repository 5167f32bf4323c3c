"""Numbers in formulas: what is exact stays exact, eagerly it is a float."""

from __future__ import annotations

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import symgrad as sg

X = sg.tensor(1.5, dtype=sg.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("f", "value", "slope"),
    [
        (lambda x: sg.sqrt(2) * x + x * Fraction(1, 3), "x/3 + sqrt(2)*x", "1/3 + sqrt(2)"),
        (lambda x: x / sg.sqrt(3) - Fraction(7, 2), "sqrt(3)*x/3 - 7/2", "sqrt(3)/3"),
        (lambda x: Fraction(2, 3) * x**2, "2*x**2/3", "4*x/3"),
        (lambda x: x ** Fraction(1, 3), "x**(1/3)", "1/(3*x**(2/3))"),
        (lambda x: sg.sqrt(Fraction(1, 2)) * 2 * x, "sqrt(2)*x", "sqrt(2)"),
        (lambda x: (1 + sg.sqrt(5)) / 2 * x, "x*(1/2 + sqrt(5)/2)", "(1 + sqrt(5))/2"),
        (lambda x: x * sg.sqrt(4) + sg.sqrt(2) * sg.sqrt(2), "2*x + 2", "2"),
        (lambda x: 3 * x / 7 + 1, "3*x/7 + 1", "3/7"),
        (lambda x: 0.5 * x + 0.1 * x, "0.6*x", "0.6"),
        (lambda x: x * 0.1, "0.1*x", "0.1"),
        (lambda x: 1.0 * x, "x", "1"),
        (lambda x: 2**x, "2**x", "2**x*log(2)"),
        (lambda x: sg.exp2(x), "2**x", "2**x*log(2)"),
        (lambda x: sg.erf(x), "erf(x)", "2*exp(-x**2)/sqrt(pi)"),
        (lambda x: sg.deg2rad(x), "pi*x/180", "pi/180"),
    ],
)
def test_formulas(f, value, slope):
    d = sg.derive(f)(X)
    assert str(d).splitlines() == [f"f(x) = {value}", f"∂f/∂x = {slope}"]
    assert d.certify().ok
    recorded = f(X).formula(wrt=X)
    assert [sp.simplify(a - b) for a, b in zip(recorded.program.outputs, d.program.outputs, strict=True)] == [0, 0]


def test_eagerly_they_are_floats_which_leave_the_type_to_the_tensor():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = x * Fraction(1, 3) + sg.sqrt(2)
    assert y.dtype == sg.float32
    np.testing.assert_array_equal(y.detach().numpy(), np.float32([1, 2]) * (1 / 3) + np.float32(math.sqrt(2)))
    assert sg.autograd.grad((x * sg.sqrt(2) * Fraction(1, 3)).sum(), x)[0].dtype == sg.float32
    assert (np.ones(2, np.float32) * sg.sqrt(2)).dtype == np.float32
    assert sg.sqrt(2) == math.sqrt(2)
    assert isinstance(sg.sqrt(2), float)
    assert math.isnan(sg.sqrt(-1))
    assert x.clamp(min=Fraction(3, 2)).tolist() == [1.5, 2.0]
    assert sg.compile(lambda x: x * sg.sqrt(2))(x).tolist() == (x * sg.sqrt(2)).tolist()
    for inexact in (True, 2.0):  # as tensors, not as numbers: an exact number is an integer or a fraction
        assert sg.sqrt(inexact).item() == pytest.approx(math.sqrt(inexact))
    with pytest.raises(TypeError, match="must be Tensor"):
        sg.sqrt("2")


def test_exact_numbers_are_copied_and_saved_as_they_are():
    root = sg.sqrt(2) / 3
    for other in (copy.deepcopy(root), pickle.loads(pickle.dumps(root))):
        assert (other, other.form) == (root, root.form)


def test_arithmetic_is_exact_as_long_as_it_is_short():
    root = sg.sqrt(2)
    assert float(-root * 2 + 1) == -2 * math.sqrt(2) + 1
    assert str(sg.derive(lambda x: (-root * 2 + 1) * x)(X)).splitlines()[1] == "∂f/∂x = 1 - 2*sqrt(2)"
    assert type(root * 0.1) is float
    long = root
    for _ in range(100):
        long = long * root
    assert type(long) is float
    assert long == pytest.approx(2**50.5)


def test_kernels_have_one_number_for_it():
    f = sg.compile(lambda x: x * (sg.sqrt(2) / 3))
    f(X)
    assert f"x * {math.sqrt(2) / 3!r}" in f.source()
