"""What SymPy must not decide: its symbols are finite numbers, and its 1/0 has no sign. A formula is about NaN, ±∞ and 0 as well.

Rows that ask for NaN and infinities keep their names. So does a division by what may be 0 in part, and a comparison that SymPy takes
for settled though NaN or an infinity would settle it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.index_algebra import Within

OPAQUE_ROWS = frozenset(("isnan", "isinf", "isfinite", "isposinf", "isneginf", "nan_to_num", "fmax", "fmin"))
"""Rows that differ from what they mean for numbers just where there is none."""
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_INFINITE = (sp.oo, -sp.oo, sp.zoo, sp.nan)


def is_decided(op: str, args: Sequence[Any], found: Any) -> bool:
    """Whether a comparison stands as SymPy decided it, also for arguments that are NaN or infinite."""
    if found not in (sp.true, sp.false) or all(a.is_number for a in args):
        return True
    return found == (sp.true if op == "ne" else sp.false) and not any(a in _INFINITE for a in args)


def introduces_nonfinite(found: Any, args: Sequence[Any]) -> bool:
    """Whether an expression has an infinity or a NaN, and its arguments have none."""
    return bool(found.has(sp.zoo)) or bool(found.has(*_INFINITE) and not any(isinstance(a, sp.Basic) and a.has(*_INFINITE) for a in args))


def may_vanish(divisor: Any) -> bool:
    """Whether a divisor has a factor that is 0 by choice: SymPy would divide by each of the choices, or cancel them."""
    return any(_is_zero_by_choice(factor.as_base_exp()[0]) for factor in sp.Mul.make_args(divisor))


def _is_zero_by_choice(e: Any) -> bool:
    return isinstance(e, (sp.KroneckerDelta, Within)) or (isinstance(e, sp.Piecewise) and any(branch.expr == 0 for branch in e.args))
