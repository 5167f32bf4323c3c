"""Reductions: rows that fold dimensions away. `axis` is always a tuple of distinct non-negative dimensions here."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import INT64, kind
from symgrad.ops.shapes import reduced_shape
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def reduction_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), x.dtype)


def sum_type(x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Meta:
    return Meta(reduced_shape(x.shape, axis, keepdims), INT64 if kind(x.dtype) in "bi" else x.dtype)


def restore(xp: Any, g: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`g` with the folded dimensions back in place (of size 1)."""
    return g if keepdims else xp.reshape(g, shape=reduced_shape(x.shape, axis, True))


def spread(xp: Any, g: Any, x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
    """`g` repeated over the folded dimensions: the transpose of a sum."""
    return xp.expand(restore(xp, g, x, axis, keepdims), shape=x.shape)


def _sum(x, *, axis, keepdims):
    return np.add.reduce(x, axis=axis, keepdims=keepdims)


row(
    "sum", "x / axis keepdims", _sum, (lambda xp, g, out, x, *, axis, keepdims: spread(xp, g, x, axis, keepdims),),
    policy="each", type=sum_type,
    display=lambda node: "SumBackward0" if len(node.attrs["axis"]) == len(node.inputs[0].shape) and not node.attrs["keepdims"] else "SumBackward1",
)  # fmt: skip
