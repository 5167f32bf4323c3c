"""Numbers of SymPy as Python numbers, and a namespace of rows in which numbers stay numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from symgrad.compiler.symbolic.from_sympy import number
from symgrad.errors import FormulaError
from symgrad.ops.namespace import raw
from symgrad.tensor import Tensor

_INT64 = 2**63
_ROUNDED = sp.Float("1e-20")
"""An imaginary part below this is due to rounding: SymPy evaluates 25 digits."""


def constant(e: Any) -> Any:
    """Return a number of SymPy's as a Python number, exactly where rows can express it."""
    if e.is_Integer:
        return int(e) if abs(e) < _INT64 else float(e)
    if e in (sp.oo, -sp.oo, sp.nan):
        return float(e)
    if e is sp.zoo:
        raise FormulaError("complex infinity is no number of a tensor")
    if e.is_real:
        return number(e)
    real, imaginary = (sp.N(part, 25) for part in sp.N(e, 25).as_real_imag())
    if not (real.is_Number and imaginary.is_Number and real.is_finite and imaginary.is_finite):
        raise FormulaError(f"{e} has no finite value")
    return float(real) if abs(imaginary) <= abs(real) * _ROUNDED else complex(float(real), float(imaginary))


class NumbersStayPython:
    """A namespace of rows in which numbers alone stay Python numbers: as tensors they would have the default dtype, and lose digits."""

    def __init__(self, xp: Any) -> None:
        self.xp = xp

    def __getattr__(self, name: str) -> Any:
        row = getattr(self.xp, name)

        def op(*args: Any, **attrs: Any) -> Any:
            if any(isinstance(a, Tensor) for a in args):
                return row(*args, **attrs)
            return np.asarray(getattr(raw, name)(*(np.asarray(a) for a in args), **attrs)).item()

        return op
