"""Every public function of NumPy and SciPy on traced tensors: recorded, guarded, or refused with the line and a reason; none is silent.

A function is traced with some numbers, and called with others: values are compared with NumPy's own, slopes with differences.
"""

from __future__ import annotations

import collections
import re
import warnings

import numpy as np
import pytest
import scipy.special
from numpy_calls import MODULES, SKIPPED, Case, cases, differences

import symgrad as sg
from symgrad.compiler.trace.trace import trace
from symgrad.interop import numpy_ufuncs, scipy_special
from symgrad.interop.table import REFUSED
from symgrad.tensor import wrap

ARRAYS = "what it gives is an array"
ODD = {
    **dict.fromkeys((f"numpy.{name}" for name in (
        "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfortranarray", "asmatrix", "from_dlpack", "require",
    )), ARRAYS),
    "numpy.roll(x, y)": "shifts are integers", "numpy.roll(M, y)": "shifts are integers",
    **dict.fromkeys((f"numpy.poly{name}(M, {y})" for name in ("add", "sub") for y in "Ny"), "a polynomial is one sequence"),
}  # fmt: skip
"""What NumPy does not leave to tensors, or does to arguments that are not meant for it."""
NAMED = {
    "median": lambda x: x * np.median(x),
    "svd": lambda x: x * np.linalg.svd(np.outer(x, x) + np.diag(x))[1],
    "interp": lambda x: np.interp(x, np.sort(x) * 0.9, x * x),
    "percentile": lambda x: x * np.percentile(x, [25, 60])[:, None],
    "quantile": lambda x: x * np.quantile(x, 0.3),
    "convolve": lambda x: np.convolve(x, x * x, "same"),
    "correlate": lambda x: np.correlate(x, x[:2], "full"),
    "gradient": lambda x: np.gradient(x * x, np.cumsum(x)),
    "trapezoid": lambda x: x * np.trapezoid(x * x, np.cumsum(x)),
    "fft": lambda x: np.abs(np.fft.fft(x)) * x,
    "rfft": lambda x: np.fft.irfft(np.fft.rfft(x) * np.fft.rfft(x * x)),
    "eigvals": lambda x: np.linalg.eigvals(np.outer(x, x * x) + np.diag(x)) * x,
    "eig": lambda x: np.abs(np.linalg.eig(np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]) * x)[0]) * x,
    "searchsorted": lambda x: x * np.searchsorted(np.array([0.2, 0.4, 0.6]), x),
    "unwrap": lambda x: np.unwrap(x * 9) * x,
    "lstsq": lambda x: np.linalg.lstsq(np.stack([x, x * x], 1), np.sin(x), rcond=None)[0],
    "apply_along_axis": lambda x: np.apply_along_axis(lambda row: row * np.median(row), 1, np.outer(x, x)),
    "linspace": lambda x: np.linspace(0, x, 5) ** 2,
    "linspace of numbers": lambda x: np.linspace(x[0], 2.0, 4) ** 2,
    "logspace": lambda x: np.logspace(x[0], x[1], 3),
    "arange": lambda x: np.arange(x[0], x[0] + 2.5, x[1], like=x),
    "gammaln": lambda x: scipy.special.gammaln(x) * x,
    "expit": lambda x: scipy.special.expit(x) * x,
    "scipy.special": lambda x: scipy.special.xlogy(x, x) + scipy.special.psi(x) + scipy.special.erf(x) + scipy.special.ndtri(x / 2),
    "matrices": lambda x: np.linalg.solve(np.diag(x) + 1, x) + np.linalg.pinv(np.stack([x, x * x], 1))[0] + np.linalg.qr(np.diag(x) + 1)[1],
    "covariance": lambda x: np.cov(np.stack([x, x * x])) * np.corrcoef(x, np.sin(9 * x)),
    "polynomials": lambda x: np.polyval(x, x) + np.polyfit(np.cumsum(x), np.sin(9 * x), 1)[0],
    "choices": lambda x: np.select([x > 0.6, x > 0.4], [x * x, np.sin(x)], np.exp(x)) + np.piecewise(x, [x < 0.5], [np.sin, np.cos]),
    "sets": lambda x: np.unique(np.concatenate([x, x]))[::1] * np.sort(np.union1d(x, x * 2))[:3],
    "histogram": lambda x: x * np.histogram(x, 3, weights=x * x)[0],
    "pad": lambda x: np.pad(x, 2, "reflect") * 2 + np.pad(x, 2),
    "nan": lambda x: np.nanmedian(x) * x + np.nanstd(x) + np.nanmax(x),
}  # fmt: skip
"""Functions that must be recorded and have a derivative."""


def reason(case: Case) -> str | None:
    """Why a function is refused, as the library or this file says."""
    if isinstance(case.function, np.ufunc):
        known = numpy_ufuncs.REFUSED.get(case.function) or scipy_special.refusal(case.function)
    else:
        known = REFUSED.get(case.function)
    return known or ODD.get(case.name) or ODD.get(str(case))


def quiet(run, *args):
    """A run without NumPy's warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return run(*args)


def tensors(args):
    return [sg.from_numpy(a.copy()) for a in args]


def raised(run, *args) -> str | None:
    """The text of the error that a run ends with."""
    try:
        quiet(run, *args)
    except (sg.errors.TraceError, TypeError, ValueError, RuntimeError, BufferError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def refused(case, run, *args) -> bool:
    """Whether a run raises, as it may, with the line; the reason stands in a list."""
    error = raised(run, *args)
    if error is None:
        return False
    assert re.search(r"numpy_calls\.py:\d+: ", error), f"{case}: no line in {error}"
    assert reason(case), f"{case} is refused, and no list says why: {error}"
    return True


def questions(case, args) -> list[str]:
    """What Python asked of the numbers: guards of the program."""
    return trace(lambda given: case(*given), tensors(args), "xy"[: len(args)], allow_branches=True, effects=True).path.texts


@pytest.fixture(scope="module")
def walked():
    return cases()


def test_the_walk_is_long_enough(walked):
    """All modules are walked, and nothing is left out in silence."""
    names = {case.name for case in walked}
    for module, least in {"numpy": 240, "numpy.linalg": 26, "numpy.fft": 16, "scipy.special": 130}.items():
        assert len({n for n in names if n.rpartition(".")[0] == module}) >= least
    assert all(getattr(MODULES[name.rpartition(".")[0]], name.rpartition(".")[2], None) is not None for name in SKIPPED)


def test_compiled_at_one_input_and_called_at_another(walked):
    counts: dict[str, set[str]] = collections.defaultdict(set)
    for case in walked:
        first, second = case.arguments

        def program(*args, case=case):
            return case(*args)

        fast = sg.compile(program, backend="numpy")
        if refused(case, fast, *first):
            counts["refused"].add(case.name)
            continue
        for args in (second, first):
            wanted = quiet(case, *args)
            assert float(np.asarray(quiet(fast, *args))) == pytest.approx(wanted, rel=1e-9), case
            assert float(quiet(case, *tensors(args))) == pytest.approx(wanted, rel=1e-9), case
        counts["guarded" if quiet(questions, case, first) else "recorded"].add(case.name)
    counts["recorded"] -= counts["guarded"]
    counts["refused"] -= counts["recorded"] | counts["guarded"]
    found = {kind: len(names) for kind, names in counts.items()}
    print(found)
    assert found["recorded"] >= 300, found
    assert found["guarded"] >= 20, found
    assert found["refused"] <= 125, found


def test_slopes_of_functions(walked):
    for case in walked:
        args, _ = case.arguments

        def program(*given, case=case):
            return case(*given)

        if not refused(case, sg.func.grad(program), *tensors(args)):
            slope = quiet(sg.func.grad(program), *tensors(args)).numpy()
            np.testing.assert_allclose(slope, quiet(differences, case, args), rtol=1e-4, atol=1e-6, err_msg=str(case))


def compiled_slope(case, backend):
    """The slope at other numbers than a compiled function was traced with, before and after a call, and through backward()."""
    first, second = case.arguments

    def program(x, *others):
        return case(x, *others)

    fast = sg.compile(program, backend=backend)
    if refused(case, lambda: fast.grad(*first, wrt="x")):
        return
    wanted = quiet(differences, case, second)
    leaf, *others = tensors(second)
    leaf.requires_grad_()
    before = np.asarray(quiet(lambda: fast.grad(*second, wrt="x")))
    quiet(fast, leaf, *others).backward()
    after = np.asarray(quiet(lambda: fast.grad(*second, wrt="x")))
    for slope in (before, after, leaf.grad.numpy()):
        np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-6, err_msg=str(case))


def test_slopes_of_compiled_functions(walked):
    for case in walked:
        compiled_slope(case, "numpy")


@pytest.mark.slow
def test_slopes_of_compiled_functions_on_xla(walked):
    for case in walked:
        compiled_slope(case, "xla")


SIZES = ("decides the size", "whose result is as large as values say", "is known only from values")


def derived(case):
    """The formula for some numbers, computed for others. A formula for one path says so where the other numbers take another."""
    first, second = case.arguments

    def program(x, *others):
        return case(x, *others)

    derive = sg.derive(program, wrt="x")
    error = raised(derive, *first)
    if error is not None and any(word in error for word in SIZES):  # a formula has one size
        assert re.search(r"numpy_calls\.py:\d+: ", error), f"{case}: no line in {error}"
        return
    if refused(case, derive, *first):
        return
    formula = quiet(derive, *first)
    if "which does not hold for these arguments" in (raised(formula, *second) or ""):
        formula = quiet(derive, *second)
    value, slope = quiet(formula, *second)
    assert value.item() == pytest.approx(quiet(case, *second), rel=1e-7), case
    np.testing.assert_allclose(slope.numpy(), quiet(differences, case, second), rtol=1e-4, atol=1e-6, err_msg=str(case))


def test_formulas(walked):
    for case in walked[::4]:
        derived(case)


@pytest.mark.slow
def test_all_formulas(walked):
    for case in walked:
        derived(case)


X, Y = np.array([0.31, 0.72, 0.54]), np.array([0.85, 0.23, 0.67])


@pytest.mark.parametrize("backend", ["numpy", pytest.param("xla", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", NAMED)
def test_named_functions_are_recorded_and_have_derivatives(name, backend):
    def program(x):
        result = NAMED[name](x)
        return (result * np.cos(np.arange(float(np.prod(result.shape)))).reshape(tuple(result.shape))).sum()

    def number(x):
        return program(wrap(x) if name == "arange" else x)

    fast = sg.compile(program, backend=backend)
    fast.grad(X, wrt="x")
    for x in (Y, X):
        t = sg.from_numpy(x.copy()).requires_grad_()
        program(t).backward()
        np.testing.assert_allclose(t.grad.numpy(), differences(lambda x: float(number(x)), (x,)), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(float(np.asarray(fast(x))), float(number(x)), rtol=1e-10)
        np.testing.assert_allclose(np.asarray(fast.grad(x, wrt="x")), t.grad.numpy(), rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(sg.func.grad(program)(sg.from_numpy(x)).numpy(), t.grad.numpy(), rtol=1e-12)


def test_the_example_of_a_frozen_median():
    c = sg.compile(lambda x: (x * np.median(x)).sum())
    assert float(c(np.array([1.0, 2.0, 3.0]))) == 12
    assert float(c(np.array([10.0, 20.0, 30.0]))) == 1200


def test_an_unknown_ufunc_is_refused():
    ours = np.frompyfunc(lambda a: a * 2, 1, 1)
    with pytest.raises(sg.errors.TraceError, match=r"test_numpy_scipy_coverage\.py:\d+: .* takes a value out of the graph"):
        sg.compile(lambda x: ours(x), backend="numpy")(X)
    with pytest.raises(TypeError, match=r"test_numpy_scipy_coverage\.py:\d+: .* is not supported on tensors"):
        sg.func.grad(lambda x: ours(x).sum())(sg.from_numpy(X))
