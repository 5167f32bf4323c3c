"""Contractions: rows that sum products over shared dimensions. PyTorch does not promote here: all operands have one type."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from symgrad.ops.promotion import INT64, kind, word
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import row

# --- what rules share


def transposed(xp: Any, x: Any) -> Any:
    """The matrices of `x`, transposed."""
    rank = len(x.shape)
    return xp.transpose(x, dim0=rank - 2, dim1=rank - 1)


def column(xp: Any, x: Any) -> Any:
    """A vector as a matrix of one column."""
    return xp.reshape(x, shape=(*x.shape, 1))


def flat_rows(xp: Any, x: Any) -> Any:
    """All but the last dimension as one."""
    return xp.reshape(x, shape=(math.prod(x.shape[:-1]), x.shape[-1]))


# --- matmul


def matmul_type(x: Any, y: Any) -> Meta:
    for position, (argument, value) in enumerate({"input": x, "other": y}.items(), start=1):
        if not hasattr(value, "shape"):
            raise TypeError(f"matmul(): argument '{argument}' (position {position}) must be Tensor, not {value.__class__.__name__}")
    if not x.shape or not y.shape:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {len(x.shape)}D and {len(y.shape)}D")
    if x.dtype != y.dtype:
        raise RuntimeError(_dtype_refusal(x, y))
    inner = y.shape[-2] if len(y.shape) > 1 else y.shape[0]
    if x.shape[-1] != inner:
        raise RuntimeError(_shape_refusal(tuple(x.shape), tuple(y.shape)))
    batch = broadcast_shapes("matmul", tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    rows = tuple(x.shape[-2:-1])
    columns = tuple(y.shape[-1:]) if len(y.shape) > 1 else ()
    return Meta(batch + rows + columns, x.dtype)


def _dtype_refusal(x: Any, y: Any) -> str:
    if len(x.shape) == 1 and len(y.shape) == 1:
        return f"dot : expected both vectors to have same dtype, but found {word(x.dtype)} and {word(y.dtype)}"
    return f"matmul: expected m1 and m2 to have the same dtype, but got: {word(x.dtype).lower()} != {word(y.dtype).lower()}"


def _shape_refusal(x: tuple[int, ...], y: tuple[int, ...]) -> str:
    if len(x) == 1 and len(y) == 1:
        return (
            f"inconsistent tensor size, expected tensor [{x[0]}] and src [{y[0]}] to have the same number of elements,"
            f" but got {x[0]} and {y[0]} elements respectively"
        )
    if len(x) == 2 and len(y) == 1:
        return f"size mismatch, got input ({x[0]}), mat ({x[0]}x{x[1]}), vec ({y[0]})"
    if len(x) > 2 and len(y) > 2:
        return (
            f"Expected size for first two dimensions of batch2 tensor to be: [{y[0]}, {x[-1]}] but got: [{y[0]}, {y[-2]}]."
            f" (matmul: {list(x)} and {list(y)})"
        )
    rows = math.prod(x[:-1])
    return f"mat1 and mat2 shapes cannot be multiplied ({rows}x{x[-1]} and {'x'.join(map(str, y))})"


def multiply(x, y):
    """np.matmul, or for two matrices `dot`, which takes half a microsecond less."""
    try:
        return x.dot(y) if x.ndim == 2 == y.ndim else np.matmul(x, y)
    except AttributeError:
        raise ValueError("a number is no matrix") from None


def _matmul_x(xp, g, out, x, y):
    if len(y.shape) == 1:
        return column(xp, g) * y
    if len(x.shape) == 1:
        gx = xp.matmul(y, column(xp, g))
        return xp.reshape(gx, shape=gx.shape[:-1])
    return xp.matmul(g, transposed(xp, y))


def _matmul_y(xp, g, out, x, y):
    if len(x.shape) == 1:
        return x * g if len(y.shape) == 1 else column(xp, x) * xp.reshape(g, shape=(*g.shape[:-1], 1, g.shape[-1]))
    if len(y.shape) == 1:
        return xp.matmul(transposed(xp, flat_rows(xp, x)), xp.reshape(g, shape=(math.prod(g.shape),)))
    if len(y.shape) == 2 and len(x.shape) > 2:  # one product, not a sum of many
        x, g = flat_rows(xp, x), flat_rows(xp, g)
    return xp.matmul(transposed(xp, x), g)


_NAMES: dict[tuple[int, ...], str] = {(2, 2): "Mm", (1, 1): "Dot", (2, 1): "Mv", (3, 3): "Bmm"}
_FUSED_NAMES = {"Mm": "Addmm", "Mv": "Addmv", "Bmm": "Baddbmm"}


def _matmul_title(node: Any) -> str:
    ranks = tuple(len(e.shape) for e in node.inputs)
    if ranks == (1, 2):
        return "SqueezeBackward4"
    if ranks == (3, 3) and node.inputs[0].shape[0] != node.inputs[1].shape[0]:
        return "UnsafeViewBackward0"
    return _NAMES.get(ranks, "UnsafeView") + "Backward0"


row(
    "matmul", "x y", multiply, (_matmul_x, _matmul_y), saves=("y", "x"), policy="same", type=matmul_type, display=_matmul_title,
    kinds="ifc", sympy=lambda sp, x, y: x * y, jax="jax.numpy.matmul",
)  # fmt: skip

# --- addmm: beta * input + alpha * (x @ y) as one node, for matrices, a matrix with a vector, and batches


def addmm_type(input: Any, x: Any, y: Any, *, beta: Any, alpha: Any) -> Meta:
    name = _FUSED_NAMES.get(_NAMES.get((len(x.shape), len(y.shape)), "Mm"), "Addmm").lower()
    if not input.dtype == x.dtype == y.dtype:
        types = ", ".join(word(t.dtype) for t in (input, x, y))
        raise RuntimeError(f"{name}: self and mat2 must have the same dtype, but got {types} for input, mat1 and mat2")
    product = matmul_type(x, y)
    if broadcast_shapes(name, tuple(input.shape), product.shape) != product.shape:
        shapes = f"input of shape {list(input.shape)} cannot be expanded to the shape {list(product.shape)} of the product"
        raise RuntimeError(f"{name}: {shapes}")
    return product


def _addmm(input, x, y, *, beta, alpha):
    out = multiply(x, y)
    if alpha != 1:
        out *= alpha
    if beta == 1:
        out += input
    elif beta != 0:  # NaN in an input times zero does not count, as in PyTorch
        out += input * beta
    elif np.broadcast_shapes(input.shape, out.shape) != out.shape:
        raise ValueError("the input does not broadcast")
    return out


def _addmm_input(xp, g, out, input, x, y, *, beta, alpha):
    return g if beta == 1 else g * beta


def _addmm_x(xp, g, out, input, x, y, *, beta, alpha):
    return _matmul_x(xp, g if alpha == 1 else g * alpha, out, x, y)


def _addmm_y(xp, g, out, input, x, y, *, beta, alpha):
    return _matmul_y(xp, g if alpha == 1 else g * alpha, out, x, y)


def _addmm_title(node: Any) -> str:
    ranks = tuple(len(e.shape) for e in node.inputs[1:])
    return _FUSED_NAMES.get(_NAMES.get(ranks, "Mm"), "Addmm") + "Backward0"


def _scaled(factor: Any, text: str) -> str:
    return text if factor == 1 else f"{factor!r} * {text}"


row(
    "addmm", "input x y / beta alpha", _addmm, (_addmm_input, _addmm_x, _addmm_y), saves=("", "y", "x"), policy="same", type=addmm_type,
    display=_addmm_title, kinds="ifc", sympy=lambda sp, input, x, y, beta, alpha: beta * input + alpha * (x * y),
    compose=lambda xp, input, x, y, *, beta, alpha: input * beta + xp.matmul(x, y) * alpha,
    jax=lambda input, x, y, *, beta, alpha: " + ".join(
        [_scaled(alpha, f"({x} @ {y})")] + ([] if beta == 0 else [_scaled(beta, input)])
    ),
)  # fmt: skip

# --- linear: x @ weight.T + bias


def linear_type(x: Any, weight: Any, bias: Any) -> Meta:
    if len(weight.shape) != 2 or not x.shape or x.shape[-1] != weight.shape[1]:
        rows = math.prod(x.shape[:-1])
        given = "x".join(map(str, (rows, *x.shape[-1:])))
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({given} and {'x'.join(map(str, weight.shape[::-1]))}) (linear)")
    types = [word(t.dtype) for t in (x, weight, bias) if t is not None]
    if len(set(types)) > 1:
        raise RuntimeError(f"linear: mat1 and mat2 must have the same dtype, but got {' and '.join(types)} for input, weight and bias")
    if bias is not None and tuple(bias.shape) not in ((weight.shape[0],), (1,), ()):
        raise RuntimeError(f"linear: a bias of shape {list(bias.shape)} does not fit {weight.shape[0]} output features")
    return Meta((*x.shape[:-1], weight.shape[0]), x.dtype)


def _linear(x, weight, bias):
    flat = x if x.ndim < 3 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])  # one product is faster than many
    out = multiply(flat, weight.T)
    if bias is not None:
        out += bias
    return out if flat is x else out.reshape(*x.shape[:-1], out.shape[-1])


def _linear_weight(xp, g, out, x, weight, bias):
    return xp.matmul(transposed(xp, flat_rows(xp, g)), flat_rows(xp, x))


def _linear_title(node: Any) -> str:
    x, _, bias = node.inputs
    if len(x.shape) == 2:
        return "MmBackward0" if bias is None else "AddmmBackward0"
    return "UnsafeViewBackward0" if bias is None else "ViewBackward0"


def _linear_compose(xp, x, weight, bias):
    product = xp.matmul(x, xp.transpose(weight, dim0=-1, dim1=-2) if len(weight.shape) > 1 else weight)
    return product if bias is None else product + bias


row(
    "linear", "x weight bias", _linear,
    (lambda xp, g, out, x, weight, bias: xp.matmul(g, weight), _linear_weight, lambda xp, g, out, x, weight, bias: g),
    saves=("weight", "x", ""), policy="same", type=linear_type, display=_linear_title, kinds="ifc",
    sympy=lambda sp, x, weight, bias: x * weight.T if bias is None else x * weight.T + bias, compose=_linear_compose,
    jax=lambda x, weight, bias: f"{x} @ {weight}.T" if bias is None else f"{x} @ {weight}.T + {bias}",
)  # fmt: skip

# --- trace and cross


def trace_type(x: Any) -> Meta:
    if len(x.shape) != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {len(x.shape)}")
    return Meta((), INT64 if kind(x.dtype) in "bi" else x.dtype)


def _trace(x):
    return x.trace(dtype=INT64 if kind(x.dtype) in "bi" else None)


def cross_type(x: Any, y: Any, *, axis: int) -> Meta:
    if x.dtype != y.dtype:
        raise RuntimeError(f"linalg.cross: expected both inputs to have the same dtype, but got {word(x.dtype)} and {word(y.dtype)}")
    if len(x.shape) != len(y.shape):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise RuntimeError(f"linalg.cross: inputs dimension {axis} must have length 3. Got {x.shape[axis]} and {y.shape[axis]}")
    return Meta(broadcast_shapes("linalg.cross", tuple(x.shape), tuple(y.shape)), x.dtype)


def _cross(x, y, *, axis):
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError("three components wanted")
    x, y = np.moveaxis(x, axis, 0), np.moveaxis(y, axis, 0)
    out = np.empty((3, *np.broadcast_shapes(x.shape[1:], y.shape[1:])), x.dtype)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        out[i] = x[j] * y[k] - x[k] * y[j]
    return np.ascontiguousarray(np.moveaxis(out, 0, axis))


row("eye", " / rows columns dtype", lambda *, rows, columns, dtype: np.eye(rows, columns, dtype=dtype),
    type=lambda *, rows, columns, dtype: Meta((rows, columns), np.dtype(dtype)), policy="each",
    sympy=lambda sp, rows, columns, dtype: sp.Identity(rows),
    jax=lambda *, rows, columns, dtype: f"jnp.eye({rows}, {columns}, dtype={str(np.dtype(dtype))!r})")  # fmt: skip
row(
    "trace", "x", _trace,
    (lambda xp, g, out, x: g * xp.eye(rows=x.shape[0], columns=x.shape[1], dtype=np.dtype(g.dtype)),),
    policy="each", type=trace_type, sympy=lambda sp, x: sp.Trace(x), jax="jax.numpy.trace",
)  # fmt: skip
row(
    "cross", "x y / axis", _cross,
    (
        lambda xp, g, out, x, y, *, axis: xp.cross(y, g, axis=axis),
        lambda xp, g, out, x, y, *, axis: xp.cross(g, x, axis=axis),
    ),
    saves=("y", "x"), policy="same", type=cross_type, display="LinalgCrossBackward0",
    jax=lambda x, y, *, axis: f"jnp.cross({x}, {y}, axis={axis})",
)  # fmt: skip

# --- distances between rows


def distance_type(x: Any, y: Any, *, products: bool) -> Meta:
    if x.shape[-1] != y.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x.shape[-1]} X2: {y.shape[-1]}")
    batch = broadcast_shapes("cdist", tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    return Meta((*batch, x.shape[-2], y.shape[-2]), x.dtype)


def _distance(x, y, *, products):
    """By |x|² + |y|² - 2 x·y if `products`: far less memory, but small distances between far points lose digits."""
    if not products:
        gap = x[..., :, None, :] - y[..., None, :, :]
        return np.sqrt(np.einsum("...i,...i->...", gap, gap))
    out = np.matmul(x, -2 * y.swapaxes(-1, -2))
    out += np.einsum("...i,...i->...", x, x)[..., :, None]
    out += np.einsum("...i,...i->...", y, y)[..., None, :]
    return np.sqrt(np.maximum(out, 0, out=out), out=out)


def _distance_x(xp, g, out, x, y, *, products):
    """The sum over rows of y of g (x - y) / |x - y|, where equal rows count 0."""
    weights = xp.where(out == 0, 0, g / xp.where(out == 0, 1, out))
    return x * xp.sum(weights, axis=(len(weights.shape) - 1,), keepdims=True) - xp.matmul(weights, y)


row(
    "euclidean_distance", "x y / products", _distance,
    (
        _distance_x,
        lambda xp, g, out, x, y, *, products: _distance_x(xp, transposed(xp, g), transposed(xp, out), y, x, products=products),
    ),
    saves="x y out", policy="same", type=distance_type, kinds="f", display="CdistBackward0",
    jax=lambda x, y, *, products: f"jnp.linalg.norm({x}[..., :, None, :] - {y}[..., None, :, :], axis=-1)",
)  # fmt: skip
