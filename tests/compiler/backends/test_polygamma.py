"""polygamma, and the derivatives of lgamma and digamma through it, at negative, zero and huge arguments: the figures are mpmath's."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

POINTS = [-50.3, -20.7, -8.5, -7.5, -3.2, -1.5, -0.001, 1e-8, 0.5, 2.0, 20.0, 1e6, 1e10]
FIGURES = {
    0: [
        6.210413167857633,
        0.7715931850825055,
        2.1977378764029494,
        2.08009081757942,
        5.635370221172645,
        0.7031566406452432,
        999.4211381978913,
        -100000000.57721564,
        -1.9635100260214235,
        0.42278433509846713,
        2.970523992242149,
        13.815510057964191,
        23.025850929890456,
    ],
    1: [
        15.059729299010273,
        15.032252630716735,
        9.75860711262026,
        9.744766282170433,
        28.298186402194034,
        9.379246644989124,
        1000001.6473414317,
        1.0000000000000002e16,
        4.934802200544679,
        0.6449340668482264,
        0.05127082293520312,
        1.0000005000001667e-06,
        1.00000000005e-10,
    ],
    2: [
        68.83715625129302,
        -68.83976746959067,
        -0.012307845807709338,
        -0.015564511795903924,
        246.9761555554605,
        -0.2362040516417274,
        1999999997.5893795,
        -2e24,
        -16.82879664423432,
        -0.4041138063191886,
        -0.0026281224023146548,
        -1.0000010000005e-12,
        -1.0000000001e-20,
    ],
    3: [
        769.0208990805239,
        769.0207046617147,
        194.81545533916983,
        194.8143059276446,
        3768.5777610937344,
        194.59427621918763,
        6000000000006.519,
        5.999999999999999e32,
        97.40909103400244,
        0.49393940226682914,
        0.0002693742213396389,
        2.000003000002e-18,
        2.0000000003e-30,
    ],
    4: [
        9738.760300953783,
        -9738.760331502432,
        -0.0009052254233853626,
        -0.0014461249646771969,
        74935.4834120547,
        -0.3137559995067314,
        2.3999999999999972e16,
        -2.3999999999999998e41,
        -771.4742498266672,
        -0.8862661234408782,
        -4.140597772639667e-05,
        -6.00001200001e-24,
        -6.0000000012e-40,
    ],
}


def runs(f):
    """The function as eager code, and compiled on both back ends."""
    return {"eager": f, "numpy": sg.compile(f, backend="numpy"), "xla": sg.compile(f, backend="xla")}


@pytest.mark.parametrize("n", FIGURES)
def test_values_are_right_left_of_zero(n):
    x = sg.tensor(POINTS, dtype=sg.float64)
    for how, f in runs(lambda x: sg.polygamma(n, x)).items():
        np.testing.assert_allclose(f(x).numpy(), FIGURES[n], rtol=1e-13, err_msg=how)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_poles_and_ends(n):
    x = sg.tensor([0.0, -0.0, -1.0, -8.0, -1e17, -np.inf, np.inf, np.nan], dtype=sg.float64)
    pole = np.inf if n % 2 else -np.inf
    for how, f in runs(lambda x: sg.polygamma(n, x)).items():
        np.testing.assert_array_equal(f(x).numpy(), [*[pole] * 6, 0.0, np.nan], err_msg=how)


@pytest.mark.parametrize("how", ["eager", "numpy", "xla"])
def test_far_left_takes_no_longer(how):
    """The recurrence would take ten thousand million steps."""
    f = runs(lambda x: sg.polygamma(1, x))[how]
    x = sg.tensor([-1e10 - 0.5], dtype=sg.float64)
    np.testing.assert_allclose(f(x).numpy(), [np.pi**2], rtol=1e-9)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_derivatives_of_lgamma_before_and_after_a_call(backend):
    x = sg.tensor([-8.5, -20.7, 2.0], dtype=sg.float64)
    wanted = [FIGURES[1][2], FIGURES[1][1], FIGURES[1][9]]
    slope = sg.compile(lambda x: sg.digamma(x).sum(), backend=backend)
    curve = sg.compile(lambda x: sg.lgamma(x).sum(), backend=backend)
    for _ in range(2):
        np.testing.assert_allclose(slope.grad(x, wrt="x").numpy(), wanted, rtol=1e-13)
        np.testing.assert_allclose(np.diag(curve.hessian(x, wrt="x").numpy()), wanted, rtol=1e-13)
        slope(x), curve(x)
    y = x.clone().requires_grad_()
    slope(y).backward()
    np.testing.assert_allclose(y.grad.numpy(), wanted, rtol=1e-13)


@pytest.mark.parametrize("dtype", [sg.float16, sg.float32])
def test_narrow_types(dtype):
    x = sg.tensor([-8.5, -1.5, 2.0], dtype=dtype)
    wanted = [FIGURES[1][2], FIGURES[1][5], FIGURES[1][9]]
    for how, f in runs(lambda x: sg.polygamma(1, x)).items():
        assert f(x).dtype == dtype
        np.testing.assert_allclose(f(x).float().numpy(), wanted, rtol=16 * sg.finfo(dtype).eps, err_msg=how)
