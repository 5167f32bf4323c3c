"""The base class of expressions that bind indices or elements: sums over indices, totals and determinants of matrices."""

from __future__ import annotations

from typing import Any

import sympy as sp


class Binder:
    """Base class of expressions that bind indices. SymPy moves conditions outwards (`piecewise_fold`), but must not move them past a
    binder."""

    __slots__ = ()

    def has(self, *patterns: Any) -> bool:
        return patterns != (sp.Piecewise,) and bool(super().has(*patterns))  # type: ignore[misc]
