"""torch.fft: discrete Fourier transforms. All are the row `fft`, which is complex and has no factor, with what stands around it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.creation import arange
from symgrad.dispatch import tensors as ops
from symgrad.errors import require
from symgrad.from_data import tensor
from symgrad.functional.arranging import flip, roll
from symgrad.functional.joining import cat
from symgrad.functional.names import public
from symgrad.functional.shaping import narrow
from symgrad.ops.complexes import complex_type_of
from symgrad.ops.promotion import default_float, kind
from symgrad.ops.shapes import normalize_axis
from symgrad.tensor import Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2", "irfftn",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Sizes = Sequence[int] | None
Dims = int | Sequence[int] | None
_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


def _factor(norm: str | None, n: int, inverse: bool) -> float:
    """What a transform over n numbers is multiplied by."""
    require(norm in _SWAPPED, f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") != inverse else 1


def _complex(x: Tensor) -> Tensor:
    if x._array.dtype.kind == "c":
        return x
    dtype = x._array.dtype if kind(x._array.dtype) == "f" else default_float()
    return ops.cast(x, dtype=complex_type_of(dtype))


def _real(x: Tensor, name: str) -> Tensor:
    require(x._array.dtype.kind != "c", f"{name} expects a real input tensor, but got {x.dtype}")
    return x


def _sized(x: Tensor, n: int | None, dim: int) -> Tensor:
    """The first n numbers along a dimension, with zeros behind them if there are fewer."""
    require(x.ndim > 0, "fft: a tensor without dimensions has none to transform", IndexError)
    dim = normalize_axis(dim, x.ndim)
    size = x._array.shape[dim]
    wanted = size if n is None else n
    require(wanted >= 1, f"Invalid number of data points ({wanted}) specified")
    if wanted > size:
        widths = tuple((0, wanted - size if i == dim else 0) for i in range(x.ndim))
        return ops.pad(x, widths=widths, value=0)
    return x if wanted == size else narrow(x, dim, 0, wanted)


def _transform(x: Tensor, n: int | None, dim: int, norm: str | None, inverse: bool) -> Tensor:
    x = _sized(_complex(x), n, dim)
    factor = _factor(norm, x._array.shape[dim], inverse)
    result: Tensor = ops.fft(x, axis=normalize_axis(dim, x.ndim), inverse=inverse)
    return result if factor == 1 else ops.mul(result, factor)


def _to_real(x: Tensor, n: int | None, dim: int, norm: str | None) -> Tensor:
    """The inverse transform of the half of a Hermitian sequence: the other half is its conjugate, read backwards."""
    x = _complex(x)
    n = 2 * (x._array.shape[dim] - 1) if n is None else n
    require(n >= 1, f"Invalid number of data points ({n}) specified")
    half = _sized(x, n // 2 + 1, dim)
    rest = (n - 1) // 2
    whole = cat([half, ops.conj(flip(narrow(half, dim, 1, rest), [dim]))], dim) if rest else half
    return ops.real(_transform(whole, n, dim, norm, True))


@public
def fft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along `dim`, of n numbers."""
    return _transform(input, n, dim, norm, False)


@public
def ifft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of fft."""
    return _transform(input, n, dim, norm, True)


@public
def rfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The first half of the transform of real numbers, of which the other half is the conjugate."""
    whole = _transform(_real(input, "rfft"), n, dim, norm, False)
    return narrow(whole, dim, 0, whole._array.shape[dim] // 2 + 1)


@public
def irfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of rfft: n real numbers."""
    return _to_real(input, n, dim, norm)


@public
def hfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of a Hermitian sequence, of which the first half is given."""
    require(norm in _SWAPPED, f'Invalid normalization mode: "{norm}"')
    return _to_real(ops.conj(_complex(input)), n, dim, _SWAPPED[norm])


@public
def ihfft(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of hfft."""
    require(norm in _SWAPPED, f'Invalid normalization mode: "{norm}"')
    return ops.conj(rfft(input, n, dim, _SWAPPED[norm]))


def _plan(x: Tensor, s: Sizes, dim: Dims) -> list[tuple[int | None, int]]:
    """How many numbers are transformed along which dimensions."""
    sizes = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is None:
        dims = list(range(x.ndim))[-len(sizes) :] if sizes is not None else list(range(x.ndim))
    else:
        dims = [normalize_axis(d, x.ndim) for d in ([dim] if isinstance(dim, int) else dim)]
    require(len(set(dims)) == len(dims), "FFT dims must be unique")
    require(sizes is None or len(sizes) == len(dims), "When given, dim and shape arguments must have the same length")
    return [(None if n == -1 else n, d) for n, d in zip(sizes or [None] * len(dims), dims, strict=True)]


def _many(x: Tensor, plan: list[tuple[int | None, int]], norm: str | None, inverse: bool) -> Tensor:
    for n, dim in reversed(plan):
        x = _transform(x, n, dim, norm, inverse)
    return x


@public
def fftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform along several dimensions."""
    return _many(_complex(input), _plan(input, s, dim), norm, False)


@public
def ifftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of fftn."""
    return _many(_complex(input), _plan(input, s, dim), norm, True)


@public
def rfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The transform of real numbers along several dimensions, of which the last is halved."""
    *others, (n, last) = _plan(input, s, dim)
    return _many(rfft(input, n, last, norm), others, norm, False)


@public
def irfftn(input: Tensor, s: Sizes = None, dim: Dims = None, norm: str | None = None) -> Tensor:
    """The inverse of rfftn."""
    *others, (n, last) = _plan(input, s, dim)
    return _to_real(_many(_complex(input), others, norm, True), n, last, norm)


@public
def fft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The transform along two dimensions."""
    return fftn(input, s, dim, norm)


@public
def ifft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of fft2."""
    return ifftn(input, s, dim, norm)


@public
def rfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The transform of real numbers along two dimensions, of which the last is halved."""
    return rfftn(input, s, dim, norm)


@public
def irfft2(input: Tensor, s: Sizes = None, dim: Dims = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of rfft2."""
    return irfftn(input, s, dim, norm)


def fftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies of the numbers that fft gives, for samples at a distance d."""
    numbers = np.fft.ifftshift(np.arange(-(n // 2), (n + 1) // 2))
    return tensor(numbers / (n * d), **{"dtype": default_float(), **options})


def rfftfreq(n: int, d: float = 1.0, **options: Any) -> Tensor:
    """The frequencies of the numbers that rfft gives."""
    return ops.div(arange(n // 2 + 1, **{"dtype": default_float(), **options}), n * d)


def _shifts(x: Tensor, dim: Dims, sign: int) -> Tensor:
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    sizes = [x._array.shape[d] for d in dims]
    return roll(x, tuple(n // 2 if sign > 0 else (n + 1) // 2 for n in sizes), tuple(dims))


@public
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """Frequency 0 in the middle."""
    return _shifts(input, dim, 1)


@public
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of fftshift."""
    return _shifts(input, dim, -1)


def __dir__() -> list[str]:
    return __all__
