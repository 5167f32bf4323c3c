"""The discrete Fourier transform along one dimension, of complex numbers and without a factor: what `symgrad.fft` is made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import word
from symgrad.ops.shapes import normalize_axis
from symgrad.ops.spec import Meta
from symgrad.ops.table import row
from symgrad.ops.variants import is_complex


def _fft(x, *, axis, inverse):
    if x.size == 0:
        return x.copy()
    return np.fft.ifft(x, axis=axis, norm="forward") if inverse else np.fft.fft(x, axis=axis)


def fft_type(x: Any, *, axis: int, inverse: bool) -> Meta:
    if not is_complex(x):
        raise RuntimeError(f"fft: Expected a complex tensor as input. Got {word(x.dtype)}")
    normalize_axis(axis, len(x.shape))
    return Meta(tuple(x.shape), x.dtype)


def _fft_text(x: str, *, axis: int, inverse: bool) -> str:
    return f"jnp.fft.ifft({x}, axis={axis}, norm='forward')" if inverse else f"jnp.fft.fft({x}, axis={axis})"


row(
    "fft", "x / axis inverse", _fft, (lambda xp, g, out, x, *, axis, inverse: xp.fft(g, axis=axis, inverse=inverse),), policy="each",
    type=fft_type, kinds="c", display="FftC2CBackward0", jax=_fft_text,
)  # fmt: skip
