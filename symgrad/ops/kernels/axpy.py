"""x += alpha * y in one pass over the memory, where NumPy takes two."""

from __future__ import annotations

from typing import Any

import numpy as np

_FROM, _TO = 1 << 14, 1 << 31  # elements: worth the call, and what BLAS can count


def axpy(x: Any, y: Any, alpha: float) -> None:
    """`x`, an array of floats, takes on x + alpha * y, where y has its type."""
    if not _blas_can(x, y) or alpha == 0:  # at 0 BLAS would not look at y, which may hold infinities
        np.add(x, np.multiply(y, alpha), out=x)
        return
    from scipy.linalg import blas  # first use

    (blas.daxpy if x.itemsize == 8 else blas.saxpy)(y.reshape(-1), x.reshape(-1), a=alpha)


def _blas_can(x: Any, y: Any) -> bool:
    if not _FROM <= x.size < _TO or x.shape != y.shape or not x.flags.carray:
        return False
    return bool(y.flags.c_contiguous and y.flags.aligned) and not np.may_share_memory(x, y)
