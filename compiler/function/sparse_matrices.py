"""Sparse matrices of SciPy and JAX from a block and the values that its kernel computes.

    csr, coo    scipy.sparse arrays in host memory, whichever back end has computed the values; they own their values, and CSR arrays also
                their positions
    bcoo        jax.experimental.sparse.BCOO
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.algebra.sparse_values import SparseBlock
from symgrad.typing import Array

_INT32_MAX = np.iinfo(np.int32).max


class _Values:
    """Makes the values of all nonzeros of a block, in the order of `order` (None: that of the block), from those that are computed."""

    def __init__(self, block: SparseBlock, order: Array | None = None) -> None:
        template = block.template.astype(block.dtype)
        self.order, self.computed = order, block.computed
        self.template = template if order is None else template[order]
        self.is_computed = block.computed == block.nnz and not template.any()
        self.adds = bool(template[: block.computed].any())
        self.places: Any = slice(0, block.computed)
        if order is not None:
            inverse = np.empty(len(order), np.int64)
            inverse[order] = np.arange(len(order))
            self.places = inverse[: block.computed]

    def __call__(self, vector: Any) -> Array:
        if vector is None:
            return self.template.copy()
        if self.is_computed:
            return np.array(vector) if self.order is None else np.asarray(vector).take(self.order)
        found = self.template.copy()
        if self.adds:
            found[self.places] += np.asarray(vector)
        else:
            found[self.places] = np.asarray(vector)
        return found


def _index_type(block: SparseBlock) -> Any:
    return np.int32 if max(*block.shape, block.nnz) <= _INT32_MAX else np.int64


def _csr(block: SparseBlock) -> Callable[[Any], Any]:
    from scipy.sparse import csr_array

    order = np.argsort(block.rows * block.shape[1] + block.cols, kind="stable")
    dtype = _index_type(block)
    indices = block.cols[order].astype(dtype)
    starts = np.zeros(block.shape[0] + 1, dtype)
    np.cumsum(np.bincount(block.rows, minlength=block.shape[0]), out=starts[1:])
    values = _Values(block, order)
    pattern = csr_array((values.template, indices, starts), shape=block.shape)
    pattern.has_canonical_format = pattern.has_sorted_indices = True

    def matrix(vector: Any) -> Any:
        found = _with_values(pattern, values(vector))
        found.indices, found.indptr = indices.copy(), starts.copy()
        return found

    return matrix


def _coo(block: SparseBlock) -> Callable[[Any], Any]:
    from scipy.sparse import coo_array

    dtype = _index_type(block)
    rows, cols = block.rows.astype(dtype), block.cols.astype(dtype)
    rows.flags.writeable = cols.flags.writeable = False  # all results share them, and SciPy never writes to the positions of a COO array
    values = _Values(block)
    pattern = coo_array((values.template, (rows, cols)), shape=block.shape)
    return lambda vector: _with_values(pattern, values(vector))


def _with_values(pattern: Any, values: Array) -> Any:
    """Return a sparse array of SciPy with other values at the same positions, which the constructor would check once more: for a COO array,
    that takes longer than to compute the values."""
    found = copy.copy(pattern)
    found.data = values
    return found


def _bcoo(block: SparseBlock) -> Callable[[Any], Any]:
    from symgrad.compiler.backends.xla.sparse import bcoo

    values, places = _Values(block), np.stack([block.rows, block.cols], 1).astype(np.int32)
    if values.adds or not block.computed:
        make = bcoo(places, block.shape, values.template[:0])
        return lambda vector: make(values(vector))
    return bcoo(places, block.shape, values.template[block.computed :])


MATRICES: dict[str, Callable[[SparseBlock], Callable[[Any], Any]]] = {"csr": _csr, "coo": _coo, "bcoo": _bcoo}
"""The formats by name; `True` means the first."""
