"""Uniform and normal numbers from the bits of a generator, rounded as PyTorch's x86 build with AVX2 rounds them.

That build fuses multiply-adds, so they are replayed with one rounding: in float32 through float64 (whose own rounding
shows in perhaps one value of 10**8), in float64 by error-free transformations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.generator import Array, Generator


def unit(gen: Generator, count: int, wide: bool) -> Array:
    """Uniform in [0, 1): the low 24 bits of draws in float32, or the low 53 of wide ones in float64."""
    draws, digits = (gen.draw64(count), 53) if wide else (gen.draw32(count), 24)
    draws &= 2**digits - 1
    out = draws.view(f"i{draws.itemsize}").astype(f"f{draws.itemsize}")  # signed: the conversion processors have
    out *= 2.0**-digits
    return out


def fma(a: Array, b: float, c: float) -> Array:
    """a * b + c, rounded once to the dtype of `a`, in which `b` and `c` are exact."""
    if a.dtype == np.float32:
        return (a * np.float64(b) + c).astype(np.float32)
    if c == 0 or abs(math.frexp(b)[0]) == 0.5 or not (2.0**-500 < abs(b) < 2.0**500 and math.isfinite(c)):
        return a * b + c  # only one of the two operations rounds, or splitting would overflow
    a_high, b_high = (x * 134217729.0 - (x * 134217729.0 - x) for x in (a, b))  # Dekker: halves by 2**27 + 1
    a_low, b_low = a - a_high, b - b_high
    product = a * b
    lost = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    total = product + c
    kept = total - product
    return total + ((product - (total - kept)) + (c - kept) + lost)


def normal_pairs(gen: Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """The odd one out of the last pair is kept for the next call. `math` calls libm, as torch does."""
    out = [gen._spare] if gen._spare is not None and count else []
    for turn, distance in unit(gen, (count - len(out) + 1) // 2 * 2, wide=True).reshape(-1, 2).tolist():
        radius, angle = math.sqrt(-2.0 * math.log1p(-distance)), 2.0 * math.pi * turn
        out += [radius * math.cos(angle), radius * math.sin(angle)]
    if count:
        gen._spare = out.pop() if len(out) > count else None
    return np.array(out, np.float64)


def normal_blocks(gen: Generator, count: int, dtype: np.dtype[Any]) -> Array:
    """Whole blocks of 16, then, if some elements are left over, one more block that overwrites the last 16."""
    rest = count % 16
    whole, wide = count - rest, dtype == np.float64
    draws = unit(gen, whole, wide)
    if rest and dtype.itemsize > 2:
        unit(gen, rest, wide)  # torch draws these and forgets them
    if rest:
        draws = np.concatenate([draws, unit(gen, 16, wide)])
    out = (_box_muller64 if wide else _box_muller32)(draws.reshape(-1, 2, 8)).reshape(-1)
    return np.concatenate([out[: count - 16], out[-16:]]) if rest else out


def _box_muller64(u: Array) -> Array:
    radius, angle = np.sqrt(-2.0 * np.log(1.0 - u[:, 0])), 2.0 * math.pi * u[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


# In float32 torch has its own logarithm, sine and cosine (Cephes' polynomials), so they have to be here too: NumPy's
# would be up to 4 units off in the last place. The numbers are float32's but kept in float64, where a product of two
# is exact; each step then rounds.


def _exact(*decimals: float) -> list[float]:
    return [float(np.float32(decimal)) for decimal in decimals]


LOG = _exact(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
             -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)  # fmt: skip
SIN = _exact(-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = _exact(2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
HALF_PI = _exact(-1.5703125, -4.837512969970703125e-4, -7.54978995489188216e-8)  # -pi/2, as a sum
LOG_2 = _exact(0.693359375, -2.12194440e-4)  # likewise
TWO_PI, FOUR_OVER_PI, SQRT_HALF = _exact(2 * math.pi, 4 / math.pi, math.sqrt(0.5))
ALONG, ACROSS = np.array([1.0, 0.0, -1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, -1.0, 0.0])  # cos, sin of quarter turns


def _round(x: Array) -> Array:
    x[...] = x.astype(np.float32)
    return x


def _polynomial(terms: list[float], x: Array) -> Array:
    out = _round(terms[0] * x + terms[1])
    for term in terms[2:]:
        out *= x
        out += term
        _round(out)
    return out


def _box_muller32(u: Array) -> Array:
    out = np.empty_like(u)
    for start in range(0, len(u), 1024):  # pieces that stay in the cache
        piece = u[start : start + 1024]
        radius = np.sqrt(-2.0 * _log32(1.0 - piece[:, 0]).astype(np.float32))
        sine, cosine = _sincos32(_round(TWO_PI * piece[:, 1].astype(np.float64)))
        out[start : start + 1024, 0] = radius * cosine
        out[start : start + 1024, 1] = radius * sine
    return out


def _log32(x: Array) -> Array:
    """log(m * 2**e) = e * log(2) + log(1 + (m - 1)), with m in [sqrt(1/2), sqrt(2))."""
    bits = x.view(np.int32)
    m = (bits & 0x7FFFFF | 0x3F000000).view(np.float32).astype(np.float64)
    below = m < SQRT_HALF
    e = ((bits >> 23) - 126 - below).astype(np.float64)
    m += m * below
    m -= 1.0
    square = _round(m * m)
    tail = _round(_polynomial(LOG, m) * m)
    tail = _round(tail * square + _round(e * LOG_2[1]))
    tail = _round(tail - 0.5 * square)
    return _round(e * LOG_2[0] + _round(m + tail))


def _sincos32(angle: Array) -> tuple[Array, Array]:
    """For angle in [0, 2 * pi]: those of its distance x to the nearest quarter turn, and then the turns."""
    quarters = ((FOUR_OVER_PI * angle).astype(np.float32).astype(np.int32) + 1) >> 1
    x = angle
    for piece in HALF_PI:
        x = _round(quarters * piece + x)
    square = _round(x * x)
    cosine = _round(_round(_polynomial(COS, square) * square) * square - 0.5 * square)
    cosine = _round(cosine + 1.0)
    sine = _round(_round(_polynomial(SIN, square) * square) * x + x)
    along, across = ALONG[quarters], ACROSS[quarters]
    return along * sine + across * cosine, along * cosine - across * sine
