"""numpy.fft on tensors: adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import fft
from symgrad.interop.operands import floating
from symgrad.interop.table import implements


def _along_one(name: str) -> Callable[..., Any]:
    def adapter(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
        return getattr(fft, name)(floating(a), n, axis, norm)

    return adapter


def _along_several(name: str, default: Any) -> Callable[..., Any]:
    def adapter(a: Any, s: Any = None, axes: Any = default, norm: str | None = None) -> Any:
        return getattr(fft, name)(floating(a), s, None if axes is None else tuple(axes), norm)

    return adapter


def _shifted(name: str) -> Callable[..., Any]:
    def adapter(x: Any, axes: Any = None) -> Any:
        return getattr(fft, name)(floating(x), axes)

    return adapter


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    implements(getattr(np.fft, _name))(_along_one(_name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    implements(getattr(np.fft, _name))(_along_several(_name, None))
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    implements(getattr(np.fft, _name))(_along_several(_name, (-2, -1)))
for _name in ("fftshift", "ifftshift"):
    implements(getattr(np.fft, _name))(_shifted(_name))
