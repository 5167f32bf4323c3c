"""The registry of element functions, by row and output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ELEMENTS: dict[tuple[str, int | None], Callable[..., Any]] = {}
"""Element functions by row name and output index (None in a row with one output, or if one function, which receives `output`, serves
all)."""

NAMED = frozenset(
    (
        "argmax", "argmin", "argsort", "bincount", "cholesky", "cummax", "cummin", "det", "eig", "eigh", "fft", "inv",
        "kthvalue", "median_all", "median_along", "mode", "nanmedian_all", "nanmedian_along", "nonzero", "pinv", "qr",
        "searchsorted", "slogdet", "sort", "svd", "topk", "unique", "unique_consecutive",
    )
)  # fmt: skip
"""Rows without a closed form: a formula shows them under their own names, as functions of tensors."""

OUTPUTS = {
    "sort": ("sort", "argsort"), "topk": ("topk", "argtopk"), "max_along": ("max", "argmax"), "min_along": ("min", "argmin"),
    "median_along": ("median", "argmedian"), "nanmedian_along": ("nanmedian", "argnanmedian"), "kthvalue": ("kthvalue", "argkthvalue"),
    "mode": ("mode", "argmode"), "cummax": ("cummax", "argcummax"), "cummin": ("cummin", "argcummin"),
    "max_pool": ("max_pool", "argmax_pool"), "eigh": ("eigenvalues", "eigenvectors"), "svd": ("left", "singular_values", "right"),
    "eig": ("eig_values", "eig_vectors"),
    "qr": ("qr_q", "qr_r"), "slogdet": ("sign_det", "log_abs_det"), "unique": ("unique", "inverse", "counts"),
}  # fmt: skip
"""Names of a row's outputs in formulas."""


def element(*names: str, output: int | None = None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the element function of these rows."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            if (name, output) in ELEMENTS:
                raise ValueError(f"{name} has an element already")
            ELEMENTS[name, output] = function
        return function

    return enter
