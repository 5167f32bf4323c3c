"""Values, gradients and second derivatives of forms that users write, against mpmath, on both back ends and in the formula."""

from __future__ import annotations

import numpy as np
import pytest
from stable_forms import FORMS, results, total, wrong

import symgrad as sg

FLUSHED = {
    ("2e^x-2", 1, "xla"): "-709.0", ("2e^x-2", 2, "xla"): "-709.0",
}  # fmt: skip
"""Where XLA flushes a denormal intermediate result to 0: (form, order, back end) to the point."""
SINGLE = {
    ("log cosh", 2), ("log((e^x+e^-x)/2)", 2), ("tanh", 2), ("sin(x)/x", 1), ("sin(x)/x", 2), ("(1-cos x)/x^2", 1), ("(1-cos x)/x^2", 2),
}  # fmt: skip
"""(form, order) that float32 does not meet: its tanh' is 1 - tanh², and x / π is rounded where the condition number is in the hundreds."""
TOLERANCE = {np.float64: 1e-12, np.float32: 1e-5}
SAMPLE = ("log(1+e^x)", "-log(1-sigmoid)", "log(1-e^x)", "x/(e^x-1)", "log((e^x+e^-x)/2)", "sqrt(1+x)-1", "a*a-b*b", "(1-cos x)/x^2")


def points(name, dtype, step=1):
    """The points that are normal numbers of a dtype, or 0."""
    given, info = [p[::step].astype(dtype) for p in FORMS[name].points], np.finfo(dtype)
    with np.errstate(over="ignore"):
        kept = np.all([(p == 0) | (np.isfinite(p) & (np.abs(p) >= info.tiny)) for p in given], axis=0)
    return [p[kept] for p in given]


def check(name, dtype, backend, step=1):
    at = points(name, dtype, step)
    for order in (0, 1, 2):
        if dtype is np.float32 and (name, order) in SINGLE:
            continue
        lines = wrong(name, order, at, results(name, order, at, backend=backend), TOLERANCE[dtype])
        exempt = FLUSHED.get((name, order, backend)) if dtype is np.float64 else None
        assert not [line for line in lines if exempt is None or f" at {exempt}:" not in line], "\n".join(lines)


@pytest.mark.parametrize("name", SAMPLE)
def test_some_points_of_some_forms(name):
    check(name, np.float64, "numpy", 9)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("name", FORMS)
def test_all_points(name, backend, dtype):
    check(name, dtype, backend)


WRITTEN_OUT = ("sqrt(x^2+y^2)", "sqrt(x*x+y*y)", "log(1+x*x)")
"""Formulas that overflow where their kernels do not: sqrt(x² + y²) is written so, and x / (1 + x²) is the gradient of log(1 + x²)."""

AS_WRITTEN = (
    "log(e^x-1)", "(e^x-1)/x", "x/(e^x-1)", "x e^-x/(1-e^-x)", "1-tanh^2", "tanh", "(1-cos x)/x^2", "sin(x)/x",
)  # fmt: skip
"""Formulas that stay as they are written, because their stable function has no name: they lose digits where terms cancel or overflow."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.slow) for name in FORMS])
def test_formulas_are_what_runs(name):
    at = points(name, np.float64, 9 if name in SAMPLE else 1)
    if name in WRITTEN_OUT:
        at = [p[np.all([np.abs(q) < 1e150 for q in at], axis=0) & np.all([np.abs(q) > 1e-150 for q in at], axis=0)] for p in at]
    if name in AS_WRITTEN:
        at = [np.array([-1.5, -0.5, 0.5, 1.5])] if name != "log(e^x-1)" else [np.array([0.5, 1.5])]
    tensors = [sg.from_numpy(p.copy()) for p in at]
    found = sg.derive(total(FORMS[name].function), wrt=tuple(range(len(at))))(*tensors)(*tensors)[1]
    gradients = found if isinstance(found, (tuple, list)) else [found]
    lines = wrong(name, 1, at, [np.broadcast_to(g.numpy(), at[0].shape) for g in gradients], TOLERANCE[np.float64])
    assert not lines, "\n".join(lines)


@pytest.mark.parametrize(("name", "rule"), [("log(1+e^x)", "softplus"), ("sin(x)/x", "sinc"), ("1-cos", "versine")])
def test_a_rule_that_is_switched_off_is_not_applied(name, rule):
    at = [sg.from_numpy(p) for p in points(name, np.float64, 9)]
    for without, shown in ((rule, False), ("expm1", True)):
        fast = sg.compile(FORMS[name].function, backend="numpy", without=without)
        fast(*at)
        assert (f"rule {rule!r}" in str(fast.explain())) == shown
