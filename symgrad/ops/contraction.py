"""Contractions: rows that sum products over shared dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.promotion import result_type
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def matmul_type(x: Any, y: Any) -> Meta:
    if not x.shape or not y.shape:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {len(x.shape)}D and {len(y.shape)}D")
    if x.dtype != y.dtype:
        raise RuntimeError(f"matmul: expected both arguments to have the same dtype, but got {x.dtype} and {y.dtype}")
    inner = y.shape[-2] if len(y.shape) > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise RuntimeError(_refusal(x.shape, y.shape))
    batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
    rows = x.shape[-2:-1]
    columns = y.shape[-1:] if len(y.shape) > 1 else ()
    return Meta(batch + rows + columns, result_type(x, y))


def _refusal(x: tuple[int, ...], y: tuple[int, ...]) -> str:
    if len(x) == 2 and len(y) == 2:
        return f"mat1 and mat2 shapes cannot be multiplied ({x[0]}x{x[1]} and {y[0]}x{y[1]})"
    if len(x) == 1 and len(y) == 1:
        return f"inconsistent tensor size, expected tensor [{x[0]}] and src [{y[0]}] to have the same number of elements"
    return f"matmul: the last dimension of {list(x)} must match the {'second to last' if len(y) > 1 else 'only'} dimension of {list(y)}"


def _matmul_x(xp, g, out, x, y):
    if len(y.shape) == 1:
        g, y = xp.reshape(g, shape=(*g.shape, 1)), xp.reshape(y, shape=(*y.shape, 1))
    if len(x.shape) == 1:
        g = xp.reshape(g, shape=(*g.shape[:-1], 1, g.shape[-1])) if len(g.shape) < len(y.shape) else g
        gx = xp.matmul(g, xp.transpose(y, dim0=-1, dim1=-2))
        return xp.reshape(gx, shape=(*gx.shape[:-2], gx.shape[-1]))
    return xp.matmul(g, xp.transpose(y, dim0=-1, dim1=-2))


def _matmul_y(xp, g, out, x, y):
    if len(x.shape) == 1:
        x = xp.reshape(x, shape=(1, *x.shape))
        g = xp.reshape(g, shape=(*g.shape[:-1], 1, *g.shape[-1:])) if len(y.shape) > 1 else xp.reshape(g, shape=(1,))
    if len(y.shape) == 1:
        g = xp.reshape(g, shape=(*g.shape, 1))
        gy = xp.matmul(xp.transpose(x, dim0=-1, dim1=-2), g)
        return xp.reshape(gy, shape=gy.shape[:-1])
    return xp.matmul(xp.transpose(x, dim0=-1, dim1=-2), g)


def _title(node: Any) -> str:
    ranks = tuple(len(e.shape) for e in node.inputs)
    return {(2, 2): "MmBackward0", (1, 1): "DotBackward0", (2, 1): "MvBackward0", (3, 3): "BmmBackward0"}.get(ranks, "UnsafeViewBackward0")


row("matmul", "x y", np.matmul, (_matmul_x, _matmul_y), saves=("y", "x"), type=matmul_type, display=_title)


def linear_type(x: Any, weight: Any, bias: Any) -> Meta:
    if len(weight.shape) != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        rows = int(np.prod(x.shape[:-1], dtype=np.int64))
        given = "x".join(map(str, (rows, *x.shape[-1:])))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({given} and {'x'.join(map(str, weight.shape[::-1]))}) (linear)")
    if bias is not None and tuple(bias.shape) not in ((weight.shape[0],), (1,), ()):
        raise RuntimeError(f"linear: a bias of shape {list(bias.shape)} does not fit {weight.shape[0]} output features")
    return Meta((*x.shape[:-1], weight.shape[0]), x.dtype)


def _linear(x, weight, bias):
    out = np.matmul(x, weight.T)
    if bias is not None:
        out += bias
    return out


def _linear_weight(xp, g, out, x, weight, bias):
    rows = xp.reshape(g, shape=(-1, g.shape[-1]))
    return xp.matmul(xp.transpose(rows, dim0=0, dim1=1), xp.reshape(x, shape=(-1, x.shape[-1])))


row(
    "linear", "x weight bias", _linear,
    (lambda xp, g, out, x, weight, bias: xp.matmul(g, weight), _linear_weight, lambda xp, g, out, x, weight, bias: g),
    saves=("weight", "x", ""), policy="each", type=linear_type, display="AddmmBackward0",
)  # fmt: skip
