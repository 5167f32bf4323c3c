"""Rows as sums of products of elements: x @ y = Σₖ x[i, k] y[k, j]. They are never run: bands are propagated through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

COMPOSITIONS: dict[str, Callable[..., Any]] = {}
"""By the name of a row, the function that composes its result from rows that bands pass through."""


def _composition(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        COMPOSITIONS[name] = function
        return function

    return enter


@_composition("matmul")
def _matmul(xp: Any, x: Any, y: Any) -> Any:
    if x.ndim == 1 and y.ndim == 1:
        return xp.sum(x * y, axis=(0,), keepdims=False)
    if y.ndim == 1:
        return xp.sum(x * y, axis=(x.ndim - 1,), keepdims=False)
    left = xp.reshape(x, shape=(*x.shape, 1))
    right = y if x.ndim == 1 else xp.reshape(y, shape=(*y.shape[:-2], 1, *y.shape[-2:]))
    product = left * right
    return xp.sum(product, axis=(product.ndim - 2,), keepdims=False)


@_composition("einsum")
def _einsum(xp: Any, *operands: Any, equation: str) -> Any:
    inputs, _, output = equation.partition("->")
    letters = [*output, *dict.fromkeys(c for c in inputs if c not in output and c != ",")]
    product = None
    for term, x in zip(inputs.split(","), operands, strict=True):
        place = list(term)
        while len(set(place)) < len(place):  # ii is a diagonal, which comes last
            c = next(c for c in place if place.count(c) > 1)
            first = place.index(c)
            second = place.index(c, first + 1)
            x = xp.diagonal(x, offset=0, axis1=first, axis2=second)
            place = [d for k, d in enumerate(place) if k not in (first, second)] + [c]
        order = sorted(range(len(place)), key=lambda k: letters.index(place[k]))
        x = xp.permute(x, axes=tuple(order))
        sizes = dict(zip([place[k] for k in order], x.shape, strict=True))
        x = xp.reshape(x, shape=tuple(sizes.get(c, 1) for c in letters))
        product = x if product is None else product * x
    summed = tuple(range(len(output), len(letters)))
    return xp.sum(product, axis=summed, keepdims=False) if summed else product


@_composition("trace")
def _trace(xp: Any, x: Any) -> Any:
    return xp.sum(xp.diagonal(x, offset=0, axis1=0, axis2=1), axis=(0,), keepdims=False)


@_composition("log_softmax")
def _log_softmax(xp: Any, x: Any, *, axis: Any) -> Any:
    return x - xp.logsumexp(x, axis=axis if isinstance(axis, tuple) else (axis,), keepdims=True)


@_composition("softmax")
def _softmax(xp: Any, x: Any, *, axis: Any) -> Any:
    return xp.exp(_log_softmax(xp, x, axis=axis))


@_composition("convolution")
def _convolution(xp: Any, x: Any, w: Any, bias: Any, *, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
    """Add one product for each element of the kernel: of a slice of x, and of a number for each pair of channels."""
    rank = x.ndim - 2
    x = xp.pad(x, widths=((0, 0), (0, 0), *((p, p) for p in padding)), value=0)
    n, channels, *size = x.shape
    out = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(size, w.shape[2:], stride, dilation, strict=True)]
    features, each = w.shape[0] // groups, channels // groups
    total = None
    for tap in _positions(w.shape[2:]):
        window = tuple((k * d, k * d + (m - 1) * s + 1, s) for k, m, s, d in zip(tap, out, stride, dilation, strict=True))
        part = xp.getitem(x, index=((0, n, 1), (0, channels, 1), *window))
        part = xp.reshape(part, shape=(n, groups, 1, each, *out))
        weight = xp.getitem(w, index=((0, w.shape[0], 1), (0, each, 1), *tap))
        product = part * xp.reshape(weight, shape=(1, groups, features, each, *(1,) * rank))
        total = product if total is None else total + product
    result = xp.reshape(xp.sum(total, axis=(3,), keepdims=False), shape=(n, w.shape[0], *out))
    return result if bias is None else result + xp.reshape(bias, shape=(1, w.shape[0], *(1,) * rank))


def _positions(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for n in shape:
        found = [(*k, i) for k in found for i in range(n)]
    return found
