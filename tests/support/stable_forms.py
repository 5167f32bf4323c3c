"""Expressions as users write them, with their meaning, and the accuracy of their values and derivatives against mpmath.

`FORMS` has one row for each spelling. The points reach from 1e-300 to 1e300. A result must be right where the exact result is a normal
number and its condition number is below 1000; elsewhere it must not be NaN, unless the exact result is not real.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy as sp

import symgrad as sg

DIGITS = 1900
"""Second derivatives of quotients cancel the square of a point: four times 300 digits."""
CONDITION = 1000
X, Y = sp.symbols("x y", real=True)

_SIZES = (1e-300, 1e-160, 1e-100, 1e-30, 1e-16, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1.0, 1.3, 1.9, 2.1,
          3.0, 4.5, 5.9, 8.0, 12.0, 19.0, 22.0, 36.0, 40.0, 60.0, 88.0, 100.0, 200.0, 350.0, 360.0, 500.0, 700.0, 709.0, 711.0, 740.0,
          746.0, 1000.0, 1e4, 1e5, 1e10, 1e30, 1e100, 1e160, 1e200, 1e300)  # fmt: skip
POSITIVE = np.array(_SIZES)
NEGATIVE = -POSITIVE
REAL = np.concatenate([NEGATIVE, POSITIVE])
UNIT = np.array([1e-300, 1e-100, 1e-16, 1e-9, 1e-4, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999, 1 - 1e-9])
ABOVE_MINUS_ONE = np.concatenate([-UNIT, POSITIVE])
TURNS = REAL[np.abs(REAL) < 1e5]


def _pairs(a: Any, b: Any) -> tuple[Any, Any]:
    first, second = np.meshgrid(a, b)
    return first.ravel(), second.ravel()


_FEW = np.array([-1e300, -1e10, -800.0, -30.0, -1.0, -1e-8, -1e-300, 0.0, 1e-300, 1e-16, 1e-8, 0.5, 1.0, 20.0, 40.0, 750.0, 1e10, 1e300])
_LENGTHS = np.array([1e-300, 1e-160, 1e-9, 1e-3, 1.0, 1.5, 1e3, 1e8, 1e160, 1e300])
_LOGITS = np.array([-1000.0, -710.0, -100.0, -20.0, -1.0, -1e-8, -1e-100, 1e-100, 1e-8, 0.3, 1.0, 20.0, 100.0, 1000.0])


@dataclass(frozen=True)
class Form:
    """A spelling: `function` of tensors, `meaning` in the symbols x and y, and the points at which both are compared."""

    function: Callable[..., Any]
    meaning: Any
    points: tuple[Any, ...]

    def __post_init__(self) -> None:
        if isinstance(self.points, np.ndarray):
            object.__setattr__(self, "points", (self.points,))


_SOFTPLUS, _SIGMOID = sp.log(1 + sp.exp(X)), 1 / (1 + sp.exp(-X))
_BERNOULLI = -(Y * sp.log(_SIGMOID) + (1 - Y) * sp.log(1 - _SIGMOID))


def _entropy(x: Any, y: Any) -> Any:
    p = 1 / (1 + (-x).exp())
    return -(y * p.log() + (1 - y) * (1 - p).log())


FORMS = {
    # logarithms of sums of exponentials
    "log(1+e^x)": Form(lambda x: (1 + x.exp()).log(), _SOFTPLUS, REAL),
    "log(e^x+1)": Form(lambda x: (x.exp() + 1).log(), _SOFTPLUS, REAL),
    "-log(1/(1+e^x))": Form(lambda x: -(1 / (1 + x.exp())).log(), _SOFTPLUS, REAL),
    "x+log(1+e^-x)": Form(lambda x: x + (1 + (-x).exp()).log(), _SOFTPLUS, REAL),
    "log1p(e^x)": Form(lambda x: x.exp().log1p(), _SOFTPLUS, REAL),
    "-log(1-sigmoid)": Form(lambda x: -(1 - 1 / (1 + (-x).exp())).log(), _SOFTPLUS, REAL),
    "log(1-e^x)": Form(lambda x: (1 - x.exp()).log(), sp.log(1 - sp.exp(X)), NEGATIVE),
    "log(1-e^-x)": Form(lambda x: (1 - (-x).exp()).log(), sp.log(1 - sp.exp(-X)), POSITIVE),
    "log(-expm1(x))": Form(lambda x: (-x.expm1()).log(), sp.log(1 - sp.exp(X)), NEGATIVE),
    "log(e^x-1)": Form(lambda x: (x.exp() - 1).log(), sp.log(sp.exp(X) - 1), POSITIVE),
    "log sigmoid": Form(lambda x: x.sigmoid().log(), -sp.log(1 + sp.exp(-X)), REAL),
    "log(1/(1+e^-x))": Form(lambda x: (1 / (1 + (-x).exp())).log(), -sp.log(1 + sp.exp(-X)), REAL),
    "log(e^a+e^b)": Form(lambda x, y: (x.exp() + y.exp()).log(), sp.log(sp.exp(X) + sp.exp(Y)), _pairs(_FEW, _FEW)),
    "log cosh": Form(lambda x: x.cosh().log(), sp.log(sp.cosh(X)), REAL),
    "log((e^x+e^-x)/2)": Form(lambda x: ((x.exp() + (-x).exp()) / 2).log(), sp.log(sp.cosh(X)), REAL),
    # sigmoids
    "1/(1+e^-x)": Form(lambda x: 1 / (1 + (-x).exp()), _SIGMOID, REAL),
    "e^x/(1+e^x)": Form(lambda x: x.exp() / (1 + x.exp()), _SIGMOID, REAL),
    "1-1/(1+e^-x)": Form(lambda x: 1 - 1 / (1 + (-x).exp()), 1 / (1 + sp.exp(X)), REAL),
    "1-sigmoid": Form(lambda x: 1 - x.sigmoid(), 1 / (1 + sp.exp(X)), REAL),
    "sigmoid": Form(lambda x: x.sigmoid(), _SIGMOID, REAL),
    "binary cross entropy": Form(_entropy, _BERNOULLI, _pairs(_LOGITS, np.array([0.0, 0.3, 0.75, 1.0]))),
    # exponentials
    "e^x-1": Form(lambda x: x.exp() - 1, sp.exp(X) - 1, REAL),
    "expm1": Form(lambda x: x.expm1(), sp.exp(X) - 1, REAL),
    "-(1-e^x)": Form(lambda x: -(1 - x.exp()), sp.exp(X) - 1, REAL),
    "2e^x-2": Form(lambda x: 2 * x.exp() - 2, 2 * sp.exp(X) - 2, REAL),
    "(e^x-1)/x": Form(lambda x: (x.exp() - 1) / x, (sp.exp(X) - 1) / X, REAL),
    "(e^x-e^-x)/2": Form(lambda x: (x.exp() - (-x).exp()) / 2, sp.sinh(X), REAL),
    "x/(e^x-1)": Form(lambda x: x / (x.exp() - 1), X / (sp.exp(X) - 1), REAL),
    "x e^-x/(1-e^-x)": Form(lambda x: x * (-x).exp() / (1 - (-x).exp()), X / (sp.exp(X) - 1), REAL),
    "1-tanh": Form(lambda x: 1 - x.tanh(), 2 / (1 + sp.exp(2 * X)), REAL),
    "1-tanh^2": Form(lambda x: 1 - x.tanh() ** 2, 1 / sp.cosh(X) ** 2, REAL),
    "tanh": Form(lambda x: x.tanh(), sp.tanh(X), REAL),
    # logarithms and powers
    "log(1+x)": Form(lambda x: (1 + x).log(), sp.log(1 + X), ABOVE_MINUS_ONE),
    "log(x+1)": Form(lambda x: (x + 1).log(), sp.log(1 + X), ABOVE_MINUS_ONE),
    "log(1-x)": Form(lambda x: (1 - x).log(), sp.log(1 - X), -ABOVE_MINUS_ONE),
    "log(1+x*x)": Form(lambda x: (1 + x * x).log(), sp.log(1 + X**2), REAL),
    "p log p": Form(lambda x: x * x.log(), X * sp.log(X), POSITIVE),
    "sqrt(x+1)-sqrt(x)": Form(lambda x: (x + 1).sqrt() - x.sqrt(), 1 / (sp.sqrt(X + 1) + sp.sqrt(X)), POSITIVE),
    "sqrt(1+x)-1": Form(lambda x: (1 + x).sqrt() - 1, sp.sqrt(1 + X) - 1, ABOVE_MINUS_ONE),
    "(1+x)^5-1": Form(lambda x: (1 + x) ** 5 - 1, (1 + X) ** 5 - 1, ABOVE_MINUS_ONE),
    "(1+x)^0.3-1": Form(lambda x: (1 + x) ** 0.3 - 1, (1 + X) ** sp.Float(sp.Rational(0.3), DIGITS) - 1, ABOVE_MINUS_ONE),
    "sqrt(x^2+y^2)": Form(lambda x, y: (x**2 + y**2).sqrt(), sp.sqrt(X**2 + Y**2), _pairs(_LENGTHS, _LENGTHS)),
    "sqrt(x*x+y*y)": Form(lambda x, y: (x * x + y * y).sqrt(), sp.sqrt(X**2 + Y**2), _pairs(_LENGTHS, -_LENGTHS)),
    "a^2-b^2": Form(lambda x, y: x**2 - y**2, X**2 - Y**2, _pairs(_LENGTHS, _LENGTHS * 1.01)),
    "a*a-b*b": Form(lambda x, y: x * x - y * y, X**2 - Y**2, _pairs(_LENGTHS, _LENGTHS * 1.01)),
    # the circle and the error function
    "1-cos": Form(lambda x: 1 - x.cos(), 2 * sp.sin(X / 2) ** 2, TURNS),
    "cos-1": Form(lambda x: x.cos() - 1, -2 * sp.sin(X / 2) ** 2, TURNS),
    "(1-cos x)/x^2": Form(lambda x: (1 - x.cos()) / (x * x), 2 * sp.sin(X / 2) ** 2 / X**2, TURNS),
    "sin(x)/x": Form(lambda x: x.sin() / x, sp.sin(X) / X, TURNS),
    "1-erf": Form(lambda x: 1 - sg.erf(x), sp.erfc(X), REAL[np.abs(REAL) < 100]),
    "1+erf": Form(lambda x: 1 + sg.erf(x), sp.erfc(-X), REAL[np.abs(REAL) < 100]),
}  # fmt: skip


# the exact results


@cache
def _functions(name: str) -> list[list[Any]]:
    """Return functions of mpmath numbers: the value, the gradient by argument, the Hessian times ones by argument."""
    symbols = [X, Y][: len(FORMS[name].points)]
    value = FORMS[name].meaning
    gradient = [sp.diff(value, s) for s in symbols]
    hessian = [sp.Add(*(sp.diff(g, s) for s in symbols)) for g in gradient]
    return [[sp.lambdify(symbols, e, "mpmath", cse=True) for e in order] for order in ([value], gradient, hessian)]


_known: dict[Any, Any] = {}


def exact(name: str, order: int, points: Sequence[Any]) -> tuple[Any, Any]:
    """Return the exact results of all outputs of an order, [output, point], and which of them must be met."""
    key = name, order, *(p.tobytes() for p in points)
    if key in _known:
        return _known[key]
    found, required = [], []
    for f in _functions(name)[order]:
        rows = [_exact_at(f, [mpmath.mpf(float(p)) for p in at]) for at in zip(*points, strict=True)]
        found.append([value for value, _ in rows])
        required.append([condition for _, condition in rows])
    _known[key] = np.array(found, object), np.array(required)
    return _known[key]


def _exact_at(f: Any, at: list[Any]) -> tuple[Any, float]:
    """Return the result at a point and its condition number; None and infinity where it has none. The digits are doubled until twice as
    many give the same result; a difference from 1 needs those of the smallest number from the start."""
    before, smallest = None, max([0.0, *(-np.log10(abs(float(p))) for p in at if p)])
    for digits in dict.fromkeys(min(int(60 + 4 * smallest) * 2**k, DIGITS) for k in range(6)):
        with mpmath.workdps(digits):
            try:
                value = mpmath.mpmathify(f(*at))
            except (ZeroDivisionError, OverflowError):
                value = mpmath.nan
            if not isinstance(value, mpmath.mpf) or not mpmath.isfinite(value):
                before = None
            elif before is not None and value != 0 and abs(value - before) <= abs(value) * mpmath.mpf(10) ** -30:
                return value, _condition(f, at, value, mpmath.mpf(10) ** (-digits // 4))
            else:
                before = value
    return before, np.inf


def _condition(f: Any, at: list[Any], value: Any, step: Any) -> float:
    """Return the relative change of the result for relative changes of the arguments."""
    change = sum(abs(f(*at[:i], p * (1 + step), *at[i + 1 :]) - value) for i, p in enumerate(at))
    return float(min(change / step / abs(value), mpmath.mpf(1e300)))


def wrong(name: str, order: int, points: Sequence[Any], got: Sequence[Any], tolerance: float) -> list[str]:
    """Return a line for each point at which a result is wrong."""
    info = np.finfo(points[0].dtype)
    values, conditions = exact(name, order, points)
    lines = []
    for i, j in np.ndindex(values.shape):
        fault = _fault(values[i, j], conditions[i, j], got[i].ravel()[j], info, tolerance)
        if fault:
            lines.append(f"{name}, order {order}, output {i} at {', '.join(f'{float(p[j])!r}' for p in points)}: {fault}")
    return lines


def _fault(value: Any, condition: float, got: Any, info: Any, tolerance: float) -> str:
    if value is None:
        return ""
    size = abs(value)
    if size > info.max:
        return "" if np.isinf(got) or abs(got) > 0.99 * info.max else f"got {got!r}, wanted infinity"
    if np.isnan(got):
        return f"got NaN, wanted {mpmath.nstr(value, 17)}"
    if condition > CONDITION:
        return ""
    if size < info.tiny:
        return "" if abs(got) <= 2 * info.tiny else f"got {got!r}, wanted {mpmath.nstr(value, 17)}"
    error = float(abs(mpmath.mpf(float(got)) - value) / size)
    return f"got {got!r}, wanted {mpmath.nstr(value, 17)}, off by {error:.1e}" if error > tolerance else ""


# what is compared


def total(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the sum of the results, whose gradient is the derivative at each point."""
    return lambda *args: function(*args).sum()


def results(name: str, order: int, points: Sequence[Any], **options: Any) -> list[Any]:
    """Return the compiled values, gradients, or Hessians times ones, at the points."""
    form, tensors = FORMS[name], [sg.from_numpy(p.copy()) for p in points]
    if order == 0:
        return [sg.compile(form.function, **options)(*tensors).numpy()]
    fast, wrt = sg.compile(total(form.function), **options), tuple(range(len(points)))
    found = fast.grad(*tensors, wrt=wrt) if order == 1 else fast.hvp(*tensors, v=tuple(sg.ones_like(t) for t in tensors), wrt=wrt)
    return [np.broadcast_to(g.numpy(), p.shape) for g, p in zip(found, points, strict=True)]
