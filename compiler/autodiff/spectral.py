"""V diag(h) V' with the eigenvectors V of a matrix A: its derivative exists where eigenvalues are equal, and that of V does not.

    dY = V (S * D) V'    S = V' dA V,    D[i, j] = (h[j] - h[i]) / (w[j] - w[i]), and h'(w[i]) where w[i] = w[j]

The rule of `eigh` divides 0 by 0 there. The pass finds functions of symmetric matrices, and of batches of them, as programs write them,
also projectors on some of the eigenvectors, and gives them this derivative; the values stay as they are. `h` may be any elementwise
function of the eigenvalues, or a constant. A projector that separates equal eigenvalues has no derivative, and gets none. Second
derivatives are those of `eigh`, which are not finite at equal eigenvalues.

U diag(h) V' with the singular vectors of a real matrix is treated alike. S and K are the symmetric and the skew part of U' dA V:

    dY = U (S * D + K * E) V' + (1 - U U') dA V R V' + U R U' dA (1 - V V')    E[i, j] = (h[i] + h[j]) / (s[i] + s[j]),    R = diag(h / s)

It exists at a singular value 0 only where h is 0 there, too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from symgrad.compiler.autodiff.forward import forward_derivative
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.custom import custom, holes
from symgrad.compiler.ir.facts import transposes
from symgrad.compiler.ir.fold import filled
from symgrad.compiler.ir.graph import OUTPUT, Graph, Value, literal, output, toposort
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.table import Hits
from symgrad.ops.complexes import real_type_of
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta

_RESHAPES = frozenset(("reshape", "getitem", "unsqueeze", "squeeze"))


def spectral(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph in which functions of symmetric matrices have derivatives at equal eigenvalues; the graph itself if it has none."""

    def change(v: Value, args: tuple[Any, ...]) -> Any:
        found = _with_derivative(xp.matmul(*args)) if v.op == "matmul" else None
        if found is not None and hits is not None:
            hits["V diag(h) V'"] = hits.get("V diag(h) V'", 0) + 1
        return found

    return rewrite(graph, change)


def _with_derivative(y: Value) -> Value | None:
    """Return V diag(h) V' with its own derivative; None for other products."""
    if y.op != "matmul" or y.ndim < 2 or not y.ndim == y.args[0].ndim == y.args[1].ndim:
        return None
    left, right = _weighted(y.args[0]), _weighted(y.args[1])
    if left is None or right is None or left[1] or not right[1] or not _belong(left[0], right[0]):
        return None
    vectors, h = left[0], _product(left[2] + right[2], left[0])
    values = _values(vectors)
    slope = _slope(h, values, (vectors, right[0]))
    if slope is None:
        return None
    matrix = vectors.args[0].args[0]
    (g,) = holes([y])
    given = (values, vectors, h, slope)
    cotangents = _cotangents(g, *given) if right[0] is vectors else _singular_cotangents(g, *given, right[0])
    (found,) = custom([y], [matrix, h], cotangents)
    return found


def _belong(left: Value, right: Value) -> bool:
    """True for the eigenvectors of one matrix, and for its left and right singular vectors, as many as there are singular values."""
    if left.args[0] is not right.args[0] or left.args[0].op == "eigh":
        return left is right
    pair = left.attrs["index"] == 0 and right.attrs["index"] == 2
    return pair and left.shape[-1] == right.shape[-2] and kind(left.dtype) == "f"


# what a product consists of


def _weighted(x: Value) -> tuple[Value, bool, list[Value]] | None:
    """Return (V, False, weights) for a value that is V diag(weight) diag(weight) ..., (V, True, weights) for one that is the adjoint of
    that, and None for others."""
    if x.op == OUTPUT and x.args[0].op == "eigh" and x.attrs["index"] == 1:
        return x, False, []
    if x.op == OUTPUT and x.args[0].op == "svd" and x.attrs["index"] in (0, 2):
        return x, x.attrs["index"] == 2, []
    if transposes(x) or x.op == "conj":
        return _adjoint(x)
    if x.op in ("mul", "div", "matmul") and x.ndim >= 2:
        return _weighted_product(x)
    return _selected(x) if x.op == "getitem" else None


def _weighted_product(x: Value) -> tuple[Value, bool, list[Value]] | None:
    """Return the parts of a product in which one factor scales the columns or rows of the other."""
    for n, a in enumerate(x.args[: 1 if x.op == "div" else 2]):
        found = _weighted(a) if a.shape == x.shape else None
        if found is None:
            continue
        if x.op == "matmul" and found[1] != (n == 1):
            return None  # a matrix that scales the other side
        weight = _weight(x, x.args[1 - n], found[1])
        if weight is not None:
            return (*found[:2], [*found[2], weight])
    return None


def _weight(x: Value, w: Value, of_rows: bool) -> Value | None:
    """Return the vector by which the other factor of a product scales the columns or rows of a matrix; None if it does something else."""
    w = w.args[0] if w.op == "cast" and w.args[0].dtype == _eigenvalue_type(x) else w  # real numbers that multiply complex ones
    if x.op != "matmul":
        vector = _vector(w, x.shape, along=-2 if of_rows else -1)
        return 1 / vector if vector is not None and x.op == "div" else vector
    scales = w.op == "diag_embed" and w.attrs["offset"] == 0 and w.ndim == x.ndim
    scales = scales and {w.attrs["axis1"] % w.ndim, w.attrs["axis2"] % w.ndim} == {w.ndim - 2, w.ndim - 1}
    along = x.shape[-2 if of_rows else -1]
    return w.args[0] if scales and kind(w.dtype) != "c" and w.args[0].shape == (*x.shape[:-2], along) else None


def _eigenvalue_type(x: Value) -> Any:
    return real_type_of(np.dtype(x.dtype))


def _adjoint(x: Value) -> tuple[Value, bool, list[Value]] | None:
    """Return the parts of a transpose, which for complex numbers must be an adjoint."""
    steps = [x] if kind(x.dtype) != "c" else [x, x.args[0]]
    if sum(map(transposes, steps)) != 1 or len(steps) - 1 != sum(s.op == "conj" for s in steps):
        return None
    found = _weighted(steps[-1].args[0])
    return None if found is None else (found[0], not found[1], found[2])


def _vector(w: Value, shape: tuple[int, ...], along: int) -> Value | None:
    """Return what multiplies a matrix along one dimension, and is equal along the other, as a vector; None for other factors."""
    if kind(w.dtype) == "c" or w.ndim > len(shape):
        return None
    full = (1,) * (len(shape) - w.ndim) + w.shape
    other = -1 if along == -2 else -2
    if full[other] != 1 or (full[along] not in (1, shape[along])):
        return None
    return xp.expand(xp.reshape(w, shape=(*full[:-2], full[along])), shape=(*shape[:-2], shape[along]))


def _selected(x: Value) -> tuple[Value, bool, list[Value]] | None:
    """Return the parts of V[:, a:b] as those of V with weights 0 and 1, of which the product with its adjoint is the same."""
    found = _weighted(x.args[0])
    index, shape = x.attrs["index"], x.args[0].shape
    if found is None or found[1] or found[2] or x.ndim != len(shape) or len(index) != len(shape):
        return None
    if x.args[0] is not found[0] or found[0].args[0].op != "eigh":
        return None
    *whole, columns = index
    if not isinstance(columns, tuple) or any(i != (0, n, 1) for i, n in zip(whole, shape[:-1], strict=True)):
        return None
    ones = xp.expand(literal(1, np.dtype(_values(found[0]).dtype)), shape=(*shape[:-2], x.shape[-1]))
    return found[0], False, [xp.embed(ones, shape=(*shape[:-2], shape[-1]), index=(*whole[:-1], columns))]


def _values(vectors: Value) -> Value:
    """Return the eigenvalues or singular values."""
    return output(vectors.args[0], 0 if vectors.args[0].op == "eigh" else 1)


def _product(weights: list[Value], vectors: Value) -> Value:
    values = _values(vectors)
    h = filled(xp, 1, Meta(values.shape, values.dtype))
    for w in weights:
        h = h * w
    return h


def _slope(h: Value, values: Value, vectors: tuple[Value, Value]) -> Value | None:
    """Return the derivatives of weights in their own eigenvalues; None if one depends on others, or on the eigenvectors."""
    tangents: dict[Value, Value] = {values: filled(xp, 1, Meta(values.shape, values.dtype))}
    for v in toposort((h,)):
        if any(v is each for each in vectors):
            return None
        moving = {a: tangents[a] for a in v.args if a is not None and a in tangents}
        if not moving or v is values:
            continue
        if not (v.row is not None and (v.row.elementwise or v.op in ("cast", "expand") or (v.op in _RESHAPES and _keeps_order(v)))):
            return None
        (found,) = forward_derivative(v, moving)
        if found is not None:
            tangents[v] = found
    return tangents.get(h, filled(xp, 0, Meta(h.shape, h.dtype)))


def _keeps_order(v: Value) -> bool:
    """True for rows that only insert or remove dimensions of size 1."""
    index = v.attrs["index"] if v.op == "getitem" else ()
    return v.size == v.args[0].size and not any(isinstance(i, tuple) and i[2] < 0 for i in index)


# the derivative


def _cotangents(g: Value, values: Value, vectors: Value, h: Value, slope: Value) -> tuple[Value, Value]:
    """Return the cotangents of the matrix, without those of the eigenvalues, and of the weights."""
    back = _adjoint_of(vectors)
    inner = xp.matmul(xp.matmul(back, g), vectors)
    of_weights = xp.diagonal(inner, axis1=inner.ndim - 2, axis2=inner.ndim - 1, offset=0)
    both = inner + _adjoint_of(inner)
    gaps, steps = (_in_columns(x) - _in_rows(x) for x in (values, h))
    close = _are_small(gaps, steps, values, h)
    n = values.shape[-1]
    beside = 1 - xp.eye(rows=n, columns=n, dtype=values.dtype)
    along = both * (_in_columns(slope) + _in_rows(slope)) * 0.25 * beside
    apart = both * _in_columns(h) / xp.where(close, 1, gaps)
    turned = xp.matmul(xp.matmul(vectors, xp.where(close, along, apart)), back)
    return turned, xp.real(of_weights) if kind(vectors.dtype) == "c" else of_weights


def _singular_cotangents(g: Value, values: Value, left: Value, h: Value, slope: Value, right: Value) -> tuple[Value, Value]:
    """Return the cotangents of the matrix, without those of the singular values, and of the weights."""
    inner = xp.matmul(xp.matmul(_adjoint_of(left), g), _adjoint_of(right))
    n = values.shape[-1]
    means = (_in_columns(slope) + _in_rows(slope)) * 0.5

    def quotient(numerator: Value, denominator: Value) -> Value:
        close = _are_small(denominator, numerator, values, h)
        return xp.where(close, means, numerator / xp.where(close, 1, denominator))

    apart = quotient(_in_columns(h) - _in_rows(h), _in_columns(values) - _in_rows(values))
    together = quotient(_in_columns(h) + _in_rows(h), _in_columns(values) + _in_rows(values))
    other = _adjoint_of(inner)
    beside = 1 - xp.eye(rows=n, columns=n, dtype=values.dtype)
    core = ((inner + other) * apart + (inner - other) * together) * 0.5 * beside
    found = xp.matmul(xp.matmul(left, core), right)
    ratio = xp.diagonal(together, axis1=together.ndim - 2, axis2=together.ndim - 1, offset=0)
    if left.shape[-2] > n:
        rest = xp.matmul(g - xp.matmul(left, xp.matmul(_adjoint_of(left), g)), _adjoint_of(right))
        found = found + xp.matmul(rest * _in_columns(ratio), right)
    if right.shape[-1] > n:
        rest = xp.matmul(_adjoint_of(left), g - xp.matmul(xp.matmul(g, _adjoint_of(right)), right))
        found = found + xp.matmul(left, _in_rows(ratio) * rest)
    return found, xp.diagonal(inner, axis1=inner.ndim - 2, axis2=inner.ndim - 1, offset=0)


def _are_small(denominator: Value, numerator: Value, values: Value, h: Value) -> Value:
    """Return where a quotient is close to 0 / 0, beside the largest of all values and weights."""
    small = float(np.finfo(values.dtype).eps) ** (1 / 3)
    return xp.logical_and(xp.abs(denominator) <= small * _largest(values), xp.abs(numerator) <= small * _largest(h))


def _adjoint_of(x: Value) -> Value:
    back = xp.transpose(x, dim0=x.ndim - 2, dim1=x.ndim - 1)
    return xp.conj(back) if kind(x.dtype) == "c" else back


def _largest(x: Value) -> Value:
    """Return the largest absolute value of each vector, as matrices of one element."""
    return xp.reshape(xp.amax(xp.abs(x), axis=(x.ndim - 1,), keepdims=True), shape=(*x.shape[:-1], 1, 1))


def _in_columns(x: Value) -> Value:
    return xp.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def _in_rows(x: Value) -> Value:
    return xp.reshape(x, shape=(*x.shape, 1))
