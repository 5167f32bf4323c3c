"""Forward steps where there are any, else those of backward(), with a note that says why."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.symbolic.steps import Steps
from symgrad.compiler.symbolic.teaching.forward import ForwardSteps
from symgrad.compiler.symbolic.teaching.limits import MAX_STEPS, NoRule, TooLong
from symgrad.compiler.symbolic.teaching.step import StepSequence
from symgrad.errors import FormulaError

STYLES = ("backward", "forward")


def forward_or_backward(derivation: Any, explain: bool) -> StepSequence:
    """Return the steps in forward style, or in backward style with a note."""
    if not derivation.wrt:
        return Steps(derivation, explain)
    try:
        return ForwardSteps(derivation, explain)
    except (TooLong, RecursionError):
        why = f"forward style would take more than {MAX_STEPS} steps, or lines too long to read"
    except NoRule as missing:
        why = f"forward style has no rule for {missing}"
    except FormulaError:
        why = "forward style needs a form in matrix notation, which this function does not have"
    return Steps(derivation, explain, f"{why}: these are the steps of backward()")
