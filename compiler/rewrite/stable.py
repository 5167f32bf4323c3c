"""log(1 + exp(x)) -> softplus(x): forms that overflow or lose digits become functions that do not.

Both sides are the same real function, so their derivatives of any order are equal; the right side is accurate wherever the function is
well-conditioned. `stabilise` runs before differentiation, since its rows have accurate derivatives. `accurate` runs after it: its right
sides lose digits in their own derivatives, while those of the left sides are accurate as they are. Integers have no such forms and are
left alone.
"""

from __future__ import annotations

from math import inf, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.table import Table
from symgrad.ops.promotion import kind

if TYPE_CHECKING:
    from symgrad.compiler.ir.graph import Value

x, y, n, axis, keepdims = map(variable, ("x", "y", "n", "axis", "keepdims"))


def _is_real(m: Any) -> bool:
    return kind(m.meta.dtype) == "f"


def _stable(name: str, pattern: Any, result: Any, when: Any = _is_real, **columns: Any) -> Rule:
    return Rule(name, pattern, result, when, **columns)


def _softplus(x: Any) -> Any:
    return P.softplus(x, beta=1, threshold=inf)


def _is_softmax(m: Any) -> bool:
    """True if a sum over one axis lines up with its addends."""
    lines_up = m.keepdims or m.axis == (0,)
    return _is_real(m) and len(m.axis) == 1 and lines_up and m.meta.shape == m.x.shape


def _has_exponent(m: Any) -> bool:
    """True for an exponent of a power that is not the sum itself."""
    return _is_real(m) and not isinstance(m.n, complex) and m.n not in (0, 1)


def _is_double(m: Any) -> bool:
    """In float32 the lost digits of tanh' are those below 1e-7, and networks would pay for them with an exponential."""
    return bool(m.meta.dtype == np.float64)


_ALONG = {"axis": (0,), "keepdims": True}
_FIRST = {"axis": (0,)}

stabilise = Table(
    "stable",
    # sigmoids
    _stable("sigmoid_quotient", P.exp(x) / (1 + P.exp(x)), P.sigmoid(x)),
    _stable("sigmoid", P.reciprocal(1 + P.exp(x)), P.sigmoid(-x)),
    _stable("sigmoid_complement", 1 - P.sigmoid(x), P.sigmoid(-x)),
    _stable("sigmoid_difference", P.sigmoid(x) - P.sigmoid(-x), P.tanh(x / 2)),
    _stable("tanh_complement", 1 - P.tanh(x), 2 * P.sigmoid(-2 * x)),
    _stable("tanh_supplement", 1 + P.tanh(x), 2 * P.sigmoid(2 * x)),
    _stable("tanh_square", 1 - P.square(P.tanh(x)), P.sech_square(x)),
    _stable("tanh_slope", P.tanh_backward(y, P.tanh(x)), P.sech_square(x) * y, _is_double),
    # logarithms
    _stable("softplus", P.log(1 + P.exp(x)), _softplus(x)),
    _stable("softplus_shifted", x + _softplus(-x), _softplus(x)),
    _stable("softplus_less", _softplus(x) - x, _softplus(-x)),
    _stable("log_sigmoid", P.log(P.sigmoid(x)), P.log_sigmoid(x)),
    _stable("log_sigmoid_difference", P.log_sigmoid(x) - P.log_sigmoid(-x), x),
    _stable("log1mexp", P.log(1 - P.exp(x)), P.log1mexp(x)),
    _stable("log_expm1", P.log(P.exp(x) - 1), x + P.log1mexp(-x)),
    _stable("logaddexp", P.log(P.exp(x) + P.exp(y)), P.logaddexp(x, y)),
    _stable("log_exp", P.log(P.exp(x)), x),
    _stable("log_cosh", P.log(P.cosh(x)), P.log_cosh(x)),
    _stable("log1p_square", P.log(1 + P.square(x)), P.log1p_square(x)),
    _stable("log1p", P.log(1 + x), P.log1p(x)),
    _stable("log1p_less", P.log(1 - x), P.log1p(-x)),
    _stable("softmax", P.exp(x) / P.sum(P.exp(x), axis=axis, keepdims=keepdims), P.softmax(x, axis=axis), _is_softmax, example=_ALONG),
    _stable("log_softmax", P.log(P.softmax(x, axis=axis)), P.log_softmax(x, axis=axis), example=_FIRST),
    _stable("exp_log_softmax", P.exp(P.log_softmax(x, axis=axis)), P.softmax(x, axis=axis), example=_FIRST),
    _stable(
        "logsumexp", P.log(P.sum(P.exp(x), axis=axis, keepdims=keepdims)), P.logsumexp(x, axis=axis, keepdims=keepdims), example=_ALONG,
    ),
    _stable("xlogx", x * P.log(x), P.xlogx(x)),
    # exponentials
    _stable("expm1", P.exp(x) - 1, P.expm1(x)),
    _stable("exprel", (P.exp(x) - 1) / x, P.exprel(x, order=0)),
    _stable("bose", x / (P.exp(x) - 1), P.bose(x, order=0)),
    _stable("bose_reflected", x * P.exp(-x) / (P.exp(-x) - 1), -P.bose(x, order=0)),
    _stable("cosh", 0.5 * P.exp(x) + 0.5 * P.exp(-x), P.cosh(x)),
    _stable("sinh", 0.5 * P.exp(x) - 0.5 * P.exp(-x), P.sinh(x)),
    _stable("tanh", P.sinh(x) / P.cosh(x), P.tanh(x)),
    # powers
    _stable("power1pm1", P.power(1 + x, exponent=n) - 1, P.power1pm1(x, exponent=n), _has_exponent, example={"n": 3}),
    _stable("power1pm1_less", P.power(1 - x, exponent=n) - 1, P.power1pm1(-x, exponent=n), _has_exponent, example={"n": 3}),
    _stable("root_difference", P.sqrt(1 + x) - P.sqrt(x), P.reciprocal(P.sqrt(1 + x) + P.sqrt(x))),
    _stable("cosine", x / P.hypot(x, y), P.cosine(x, y)),
    _stable("abs", P.sqrt(P.square(x)), P.abs(x)),
    _stable("hypot", P.sqrt(P.square(x) + P.square(y)), P.hypot(x, y)),
    _stable(
        "norm", P.sqrt(P.sum(P.square(x), axis=axis, keepdims=keepdims)), P.vector_norm(x, ord=2, axis=axis, keepdims=keepdims),
        example=_ALONG,
    ),
    _stable("sign", x / P.abs(x), P.sgn(x)),
    # the circle and the error function
    _stable("versine", 1 - P.cos(x), 2 * P.square(P.sin(x / 2))),
    _stable("versine_quotient", P.square(P.sin(x / 2)) / P.square(x), P.square(P.sinc(x / (2 * pi))) / 4),
    _stable("sinc", P.sin(x) / x, P.sinc(x / pi)),
    _stable("erfc", 1 - P.erf(x), P.erfc(x)),
    _stable("erfc_reflected", 1 + P.erf(x), P.erfc(-x)),
)  # fmt: skip


def _variance(xp: Any, m: Any) -> Value:
    centred = m.x - xp.mean(m.x, axis=m.axis, keepdims=True)
    return xp.mean(xp.square(centred), axis=m.axis, keepdims=m.keepdims)  # type: ignore[no-any-return]


_MEAN = P.mean(x, axis=axis, keepdims=keepdims)

accurate = Table(
    "accurate",
    _stable("difference_of_squares", P.square(x) - P.square(y), (x - y) * (x + y)),
    _stable(
        "variance", P.mean(P.square(x), axis=axis, keepdims=keepdims) - P.square(_MEAN), _variance, text="mean(square(x - mean(x)))",
        example=_ALONG,
    ),
)

_NAMELESS_ROWS = {"bose", "cosine", "exprel", "log1mexp", "log1p_square", "log_cosh", "power1pm1", "sech_square", "sinc", "xlogx"}
WITHOUT_NAME = ("versine", *(rule.name for rule in stabilise if rule.result.ops & _NAMELESS_ROWS))
"""The rules whose right sides a formula does not show: it reads better as written."""
