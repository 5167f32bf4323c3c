"""Special functions against mpmath, far outside of the ranges that the tests of the whole table draw from."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError

FAR = np.concatenate([[1e-6, 1e-3, 0.5, 3.0], np.linspace(5, 45, 9), [80.0, 400.0]])
CASES = {
    "J0": (lambda x: sg.special.bessel_j(x, 0), lambda x: mpmath.besselj(0, x), FAR),
    "J of order -3/2": (lambda x: sg.special.bessel_j(x, -1.5), lambda x: mpmath.besselj(-1.5, x), FAR),
    "Y8": (lambda x: sg.special.bessel_y(x, 8), lambda x: mpmath.bessely(8, x), FAR),
    "I5": (lambda x: sg.special.bessel_i(x, 5), lambda x: mpmath.besseli(5, x), np.concatenate([-FAR[3:], FAR])),
    "K of order 5/2": (lambda x: sg.special.bessel_k(x, 2.5), lambda x: mpmath.besselk(2.5, x), FAR),
    "W": (sg.special.lambertw, mpmath.lambertw, np.array([-0.36787, -0.3, -1e-3, 1e-9, 0.5, 2.9, 3.1, 1e3, 1e100])),
    "lower W": (lambda x: sg.special.lambertw(x, -1), lambda x: mpmath.lambertw(x, -1), np.array([-0.36787, -0.3, -0.26, -0.24, -1e-9])),
    "zeta": (sg.special.riemann_zeta, mpmath.zeta, np.array([-7.5, -0.5, 0.0, 0.9, 1.1, 2.0, 30.0])),
    "third derivative of zeta": (
        lambda x: sg.special.riemann_zeta(x, order=3), lambda x: mpmath.zeta(x, 1, 3), np.array([-0.9, -0.5, 0.5, 1.1, 3.0, 20.0]),
    ),
    "gamma": (sg.special.gamma, mpmath.gamma, np.array([-4.5, -0.99, 0.01, 1.0, 20.5])),
    "Si": (sg.special.sine_integral, mpmath.si, np.array([-30.0, 1e-9, 3.0, 50.0])),
    "Ei": (sg.special.exp_integral, mpmath.ei, np.array([1e-9, 0.3, 6.0, 50.0])),
}  # fmt: skip


def check(name, function):
    _, exact, points = CASES[name]
    with mpmath.workdps(30):
        want = [float(mpmath.re(exact(mpmath.mpf(float(x))))) for x in points]
    np.testing.assert_allclose(function(sg.tensor(points, dtype=sg.float64)).numpy(), want, rtol=3e-13)


@pytest.mark.parametrize("name", CASES)
def test_eager(name):
    check(name, CASES[name][0])


@pytest.mark.parametrize("name", ["W", "zeta", pytest.param("K of order 5/2"), pytest.param("I5")])
def test_xla(name):
    check(name, sg.compile(CASES[name][0]))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_by_xla(name):
    check(name, sg.compile(CASES[name][0]))


@pytest.mark.parametrize("backend", ["eager", "numpy", "xla"])
def test_where_there_is_no_value(backend):
    """NaN left of the branch point of W, and for derivatives of zeta left of -1; infinities at poles."""
    of = sg.special
    f = lambda x: sg.stack([of.lambertw(x), of.lambertw(x, -1), of.riemann_zeta(x, order=1), of.bessel_k(x, 1)])
    run = f if backend == "eager" else sg.compile(f, backend=backend)
    got = run(sg.tensor([-2.0, 0.0, 0.5], dtype=sg.float64)).numpy()
    nan, inf = math.nan, math.inf
    np.testing.assert_allclose(got[:2], [[nan, 0, 0.351733711249], [nan, -inf, nan]], rtol=1e-11)
    np.testing.assert_allclose(got[2:], [[nan, -0.918938533205, float(mpmath.zeta(0.5, 1, 1))], [nan, inf, 1.65644112]], rtol=1e-8)


@pytest.mark.parametrize("dtype", [sg.float16, sg.bfloat16, sg.float32])
def test_dtypes_stay(dtype):
    x = sg.tensor([0.5, 1.5], dtype=dtype)
    of = sg.special
    for f in (lambda x: of.bessel_j(x, 1), of.lambertw, of.riemann_zeta, of.sine_integral, of.gamma):
        assert f(x).dtype == dtype
    assert sg.special.gamma(sg.tensor([3])).dtype == sg.float32


def test_refusals():
    with pytest.raises(ValueError, match="branch must be 0 or -1, the two with real values, got 1"):
        sg.special.lambertw(sg.ones(2), 1)
    with pytest.raises((ValueError, TraceError), match="orders up to 8, got 12: use backend='numpy'"):
        sg.compile(lambda x: sg.special.bessel_y(x, 12))(sg.ones(2))
