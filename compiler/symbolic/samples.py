"""Random arrays that have the properties which a formula assumes of its arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symgrad.errors import AssumptionError, FormulaError
from symgrad.ops.assumptions import check, text
from symgrad.typing import Array

_SHAPED = frozenset(("diagonal", "lower_triangular", "upper_triangular"))


def with_properties(x: Array, words: Sequence[str], label: str) -> Array:
    """Return an array made from random numbers that is what the words say; raise FormulaError if there is none that is known."""
    found = x.astype(np.float64)
    if "positive" in words:
        found = np.abs(found) + 0.1
    if "integer" in words:
        found = np.maximum(np.round(3 * found), 1 if "positive" in words else -np.inf)
    found = _orthogonal(found, words) if "orthogonal" in words else _matrix(found, words)
    try:
        check(found, words)
    except AssumptionError:
        raise FormulaError(f"no example of a {text(words)} {label} is known: pass arguments to certify()") from None
    return found.astype(x.dtype)


def exactly(x: Array, words: Sequence[str]) -> Array:
    """Return the array next to one that is what the words say up to rounding."""
    wide = x.astype(np.float64)
    if "orthogonal" in words:
        left, _, right = np.linalg.svd(wide)
        wide = left @ right
    if "symmetric" in words or "positive_definite" in words:
        wide = (wide + np.swapaxes(wide, -1, -2)) / 2
    return (wide if _SHAPED.isdisjoint(words) else _shaped(wide, words)).astype(x.dtype)


def _matrix(x: Array, words: Sequence[str]) -> Array:
    if "symmetric" in words or "positive_definite" in words:
        x = (x + np.swapaxes(x, -1, -2)) / (1 if "integer" in words else 2)
    if not _SHAPED.isdisjoint(words):
        x = _shaped(x, words) + 2 * np.eye(x.shape[-1])  # far from singular
    if "positive_definite" in words:
        x = (np.abs(x) if not _SHAPED.isdisjoint(words) else x @ np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])
    return x


def _shaped(x: Array, words: Sequence[str]) -> Array:
    if "diagonal" in words or {"symmetric", "positive_definite"} & set(words):
        return np.where(np.eye(x.shape[-1]), x, 0)
    x = np.tril(x) if "lower_triangular" in words else x
    return np.triu(x) if "upper_triangular" in words else x


def _orthogonal(x: Array, words: Sequence[str]) -> Array:
    identity = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    if "positive_definite" in words or "positive" in words:
        return identity.copy()
    if not _SHAPED.isdisjoint(words) or "integer" in words:
        return np.where(x < 0, -identity, identity) * identity
    if "symmetric" in words:  # a reflection
        v = x[..., :1]
        reflection: Array = identity - 2 * v @ np.swapaxes(v, -1, -2) / (np.swapaxes(v, -1, -2) @ v)
        return reflection
    return np.linalg.qr(x)[0]
