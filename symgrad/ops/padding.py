"""Padding with a constant, and its transpose, cropping."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.spec import Meta
from symgrad.ops.table import row

Widths = tuple[tuple[int, int], ...]


def inner(widths: Widths) -> tuple[slice, ...]:
    """Where the unpadded tensor lies."""
    return tuple(slice(before, -after or None) for before, after in widths)


def _pad(x, *, widths, value):
    shape = tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    out[inner(widths)] = x
    return out


def _resized(sign: int) -> Any:
    def rule(x: Any, *, widths: Widths, value: float = 0) -> Meta:
        return Meta(tuple(n + sign * (b + a) for n, (b, a) in zip(x.shape, widths, strict=True)), x.dtype)

    return rule


row(
    "pad", "x / widths value", _pad, (lambda xp, g, out, x, *, widths, value: xp.crop(g, widths=widths),), policy="each", type=_resized(1),
    display="ConstantPadNdBackward0", jax=lambda x, *, widths, value: f"jnp.pad({x}, {widths!r}, constant_values={value!r})",
)  # fmt: skip
row(
    "crop", "x / widths", lambda x, *, widths: x[inner(widths)], (lambda xp, g, out, x, *, widths: xp.pad(g, widths=widths, value=0),),
    policy="each", type=_resized(-1), view=True, display="SliceBackward0",
    jax=lambda x, *, widths: f"{x}[" + ", ".join(f"{b}:{-a or ''}" for b, a in widths) + "]",
)  # fmt: skip
