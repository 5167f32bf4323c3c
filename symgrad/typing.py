"""Aliases shared by the signatures of the library."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Scalar: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Any
"""A tensor, or a value that stands for one (see `symgrad.coercion`). Functions with such parameters leave numbers weak."""
Shape: TypeAlias = tuple[int, ...]
Dims: TypeAlias = int | tuple[int, ...] | list[int] | None
