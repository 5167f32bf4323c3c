"""NaN, ±∞ and 0, for which SymPy's simplifications do not hold: its symbols are finite numbers, and its 1/0 has no sign.

Rows that test for NaN and infinities keep their names in a formula. So do divisions by an expression that may be 0 in part, and
comparisons that SymPy decides although NaN or an infinity would decide them otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.index_algebra import Within

OPAQUE_ROWS = frozenset(("isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "fmax", "fmin"))
"""Rows that differ from their SymPy meaning exactly at non-finite values."""
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_INFINITE = (sp.oo, -sp.oo, sp.zoo, sp.nan)


def is_decided(op: str, args: Sequence[Any], found: Any) -> bool:
    """True if SymPy's decision of a comparison also holds for arguments that are NaN or infinite."""
    if found not in (sp.true, sp.false) or all(a.is_number for a in args):
        return True
    return found == (sp.true if op == "ne" else sp.false) and not any(a in _INFINITE for a in args)


def introduces_nonfinite(found: Any, args: Sequence[Any]) -> bool:
    """True if an expression contains an infinity or NaN, and its arguments contain none."""
    return bool(found.has(sp.zoo)) or bool(found.has(*_INFINITE) and not any(isinstance(a, sp.Basic) and a.has(*_INFINITE) for a in args))


def may_vanish(divisor: Any) -> bool:
    """True if a divisor has a factor with a branch that is 0: SymPy would divide by each branch, or cancel them."""
    return any(_is_zero_by_choice(factor.as_base_exp()[0]) for factor in sp.Mul.make_args(divisor))


def _is_zero_by_choice(e: Any) -> bool:
    return isinstance(e, (sp.KroneckerDelta, Within)) or (isinstance(e, sp.Piecewise) and any(branch.expr == 0 for branch in e.args))
