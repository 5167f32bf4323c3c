"""The universal functions of scipy.special that the table has, or that are made of its rows; and why the others are refused.

SciPy is not imported here: a function of it can only be called by those who have imported it.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional as F, special
from symgrad.dispatch import tensors as ops
from symgrad.interop.operands import floating, pair
from symgrad.tensor import Tensor


def _both(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = pair(x, y)
    return floating(x), floating(y)


def _gammasgn(x: Any) -> Any:
    """The sign of the gamma function, which changes at each negative integer; NaN there."""
    x = floating(x)
    odd = F.remainder(F.floor(x), 2) != 0
    sign = F.where((x < 0) & odd, -1.0, 1.0).to(x.dtype)
    return F.where((x < 0) & (x == F.floor(x)), math.nan, sign)


def _gamma(x: Any) -> Any:
    return special.gamma(floating(x))


def _rgamma(x: Any) -> Any:
    """1 / gamma, which has no poles: Γ(1 - x) sin(πx) / π on the left."""
    x = floating(x)
    left, pole = x < 0.5, (x <= 0) & (x == F.floor(x))
    mirrored = F.lgamma(1 - F.where(left, x, 0)).exp() * (math.pi * x).sin() / math.pi
    value = F.where(left, mirrored, (-F.lgamma(F.where(left, 1, x))).exp())
    return value - F.where(pole, value.detach(), 0)


def _loggamma(x: Any) -> Any:
    x = floating(x)
    return F.where(x > 0, F.lgamma(F.where(x > 0, x, 1)), math.nan)


def _betaln(a: Any, b: Any) -> Any:
    a, b = _both(a, b)
    return F.lgamma(a) + F.lgamma(b) - F.lgamma(a + b)


def _beta(a: Any, b: Any) -> Any:
    a, b = _both(a, b)
    return _gammasgn(a) * _gammasgn(b) * _gammasgn(a + b) * _betaln(a, b).exp()


def _poch(z: Any, m: Any) -> Any:
    z, m = _both(z, m)
    return _gammasgn(z + m) * _gammasgn(z) * (F.lgamma(z + m) - F.lgamma(z)).exp()


def _binom(n: Any, k: Any) -> Any:
    n, k = _both(n, k)
    plain = (n > -0.5) & (k > -0.5) & (n - k > -0.5)
    a, b = F.where(plain, n, 0), F.where(plain, k, 0)
    large = (F.lgamma(a + 1) - F.lgamma(b + 1) - F.lgamma(a - b + 1)).exp()
    a, b = F.where(plain, 0, n), F.where(plain, 0, k)
    return F.where(plain, large, _gamma(a + 1) * _rgamma(b + 1) * _rgamma(a - b + 1))


def _boxcox(x: Any, lmbda: Any) -> Any:
    x, power = _both(x, lmbda)
    zero = power == 0
    safe = F.where(zero, 1, power)
    return F.where(zero, x.log(), F.expm1(safe * x.log()) / safe)


def _boxcox1p(x: Any, lmbda: Any) -> Any:
    x, power = _both(x, lmbda)
    zero = power == 0
    safe = F.where(zero, 1, power)
    return F.where(zero, F.log1p(x), F.expm1(safe * F.log1p(x)) / safe)


def _inv_boxcox(y: Any, lmbda: Any) -> Any:
    y, power = _both(y, lmbda)
    zero = power == 0
    safe = F.where(zero, 1, power)
    return F.where(zero, y.exp(), (F.log1p(safe * y) / safe).exp())


def _inv_boxcox1p(y: Any, lmbda: Any) -> Any:
    y, power = _both(y, lmbda)
    zero = power == 0
    safe = F.where(zero, 1, power)
    return F.where(zero, F.expm1(y), F.expm1(F.log1p(safe * y) / safe))


def _huber(delta: Any, r: Any) -> Any:
    delta, r = _both(delta, r)
    value = F.where(r.abs() <= delta, r * r / 2, delta * (r.abs() - delta / 2))
    return F.where(delta < 0, math.inf, value)


def _pseudo_huber(delta: Any, r: Any) -> Any:
    delta, r = _both(delta, r)
    flat = (delta == 0) | (r == 0)
    safe = F.where(flat, 1, delta)
    u = F.where(flat, 1, r) / safe
    value = delta * delta * (u * u / ((1 + u * u).sqrt() + 1))
    return F.where(delta < 0, math.inf, F.where(flat, r * delta * 0, value))


def _rel_entr(x: Any, y: Any) -> Any:
    x, y = _both(x, y)
    inside = (x > 0) & (y > 0)
    value = x * (F.where(inside, x, 1) / F.where(inside, y, 1)).log()
    return F.where(inside, value, F.where((x == 0) & (y >= 0), x * 0, math.inf))


def _kl_div(x: Any, y: Any) -> Any:
    x, y = _both(x, y)
    inside = (x > 0) & (y > 0)
    value = x * (F.where(inside, x, 1) / F.where(inside, y, 1)).log() - x + y
    return F.where(inside, value, F.where((x == 0) & (y >= 0), y, math.inf))


def _powm1(x: Any, y: Any) -> Any:
    x, y = _both(x, y)
    near = x > 0
    return F.where(near, F.expm1(y * F.where(near, x, 1).log()), F.pow(F.where(near, 1, x), y) - 1)


def _exprel(x: Any) -> Any:
    x = floating(x)
    small = x.abs() < 1e-5
    safe = F.where(small, 1, x)
    return F.where(small, 1 + x / 2 + x * x / 6, F.expm1(safe) / safe)


def _cbrt(x: Any) -> Any:
    x = floating(x)
    return F.sign(x) * F.pow(x.abs(), 1 / 3)


def _degrees(function: Callable[[Tensor], Tensor]) -> Callable[[Any], Tensor]:
    return lambda x: function(F.deg2rad(floating(x)))


def _bessel(kind: str, order: int) -> Callable[[Any], Tensor]:
    function: Any = getattr(special, f"bessel_{kind}")
    return lambda x: function(floating(x), order)


ADAPTERS: dict[str, Callable[..., Any]] = {
    "beta": _beta, "betaln": _betaln, "binom": _binom, "boxcox": _boxcox, "boxcox1p": _boxcox1p, "cbrt": _cbrt,
    "cosdg": _degrees(F.cos), "cosm1": lambda x: -2 * F.square(F.sin(floating(x) / 2)), "cotdg": _degrees(lambda x: 1 / F.tan(x)),
    "digamma": F.digamma, "entr": special.entr, "erf": F.erf, "erfc": F.erfc,
    "erfcinv": lambda x: special.ndtri(floating(x) / 2) * -math.sqrt(0.5), "erfinv": F.erfinv, "exp10": lambda x: F.pow(10.0, floating(x)),
    "exp2": F.exp2, "expit": F.sigmoid, "expm1": F.expm1, "exprel": _exprel, "gammaln": F.lgamma, "gammasgn": _gammasgn,
    "huber": _huber, "inv_boxcox": _inv_boxcox, "inv_boxcox1p": _inv_boxcox1p, "kl_div": _kl_div, "log1p": F.log1p,
    "log_expit": lambda x: ops.log_sigmoid(floating(x)), "loggamma": _loggamma, "logit": F.logit, "ndtr": special.ndtr,
    "ndtri": special.ndtri, "poch": _poch, "powm1": _powm1, "pseudo_huber": _pseudo_huber, "psi": F.digamma, "radian": lambda d, m, s: (
        F.deg2rad(floating(d) + floating(m) / 60 + floating(s) / 3600)
    ),
    "rel_entr": _rel_entr, "rgamma": _rgamma, "round": F.round, "sindg": _degrees(F.sin), "tandg": _degrees(F.tan),
    "xlog1py": special.xlog1py, "xlogy": F.xlogy, "gamma": special.gamma, "erfi": special.erfi, "expi": special.exp_integral,
    **{f"{kind}{n}": _bessel(kind, n) for kind in "jyik" for n in (0, 1)},
}  # fmt: skip
"""By SciPy's names."""

_FAMILIES = {
    "Airy functions": "airy airye itairy",
    "Bessel functions whose order is data, scaled ones, Hankel and Kelvin functions": "hankel1"
    " hankel1e hankel2 hankel2e i0e i1e it2i0k0"
    " it2j0y0 iti0k0 itj0y0 iv ive jn jv jve k0e k1e kn kv kve yn yv yve bei beip ber berp kei keip kelvin ker kerp wright_bessel"
    " log_wright_bessel",
    "Struve and Mathieu functions": "it2struve0 itmodstruve0 itstruve0 modstruve struve mathieu_a mathieu_b mathieu_cem mathieu_sem"
    " mathieu_modcem1 mathieu_modcem2 mathieu_modsem1 mathieu_modsem2",
    "elliptic integrals and functions": "agm ellipe ellipeinc ellipj ellipk ellipkinc ellipkm1 elliprc elliprd elliprf elliprg elliprj",
    "distributions of statistics, and their inverses": "bdtr bdtrc bdtri bdtrik bdtrin btdtria btdtrib chdtr chdtrc chdtri chdtriv chndtr"
    " chndtridf chndtrinc chndtrix fdtr fdtrc fdtri fdtridfd gdtr gdtrc gdtria gdtrib gdtrix kolmogi kolmogorov nbdtr nbdtrc nbdtri nbdtrik"
    " nbdtrin ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit nrdtrimn nrdtrisd owens_t pdtr pdtrc pdtri"
    " pdtrik smirnov smirnovi stdtr stdtridf stdtrit tklmbda log_ndtr ndtri_exp",
    "incomplete gamma and beta functions": "betainc betaincc betainccinv betaincinv gammainc gammaincc gammainccinv gammaincinv",
    "exponential integrals, and relatives of the error function": "dawsn erfcx exp1 expn fresnel modfresnelm modfresnelp shichi"
    " sici spence voigt_profile wofz wrightomega",
    "hypergeometric functions": "hyp0f1 hyp1f1 hyp2f1 hyperu",
    "orthogonal polynomials of real degree": "eval_chebyc eval_chebys eval_chebyt eval_chebyu eval_gegenbauer eval_genlaguerre eval_hermite"
    " eval_hermitenorm eval_jacobi eval_laguerre eval_legendre eval_sh_chebyt eval_sh_chebyu eval_sh_jacobi eval_sh_legendre lpmv",
    "parabolic cylinder functions": "pbdv pbvv pbwa",
    "spheroidal functions": "obl_ang1 obl_ang1_cv obl_cv obl_rad1 obl_rad1_cv obl_rad2 obl_rad2_cv pro_ang1 pro_ang1_cv pro_cv pro_rad1"
    " pro_rad1_cv pro_rad2 pro_rad2_cv",
    "zeta functions": "zetac",
}
REFUSED = {name: f"the table has no {family}" for family, names in _FAMILIES.items() for name in names.split()}
"""Why a function has no adapter, by SciPy's names."""


def _is_scipys(ufunc: np.ufunc) -> bool:
    return getattr(sys.modules.get("scipy.special"), ufunc.__name__, None) is ufunc


@functools.cache
def adapter_of(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """What stands for a function of SciPy's."""
    return ADAPTERS.get(ufunc.__name__) if _is_scipys(ufunc) else None


def refusal(ufunc: np.ufunc) -> str | None:
    """Why nothing does."""
    return REFUSED.get(ufunc.__name__) if _is_scipys(ufunc) else None
