"""Python's and NumPy's own random numbers: a program that is traced would repeat what was drawn."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from symgrad.compiler.lines import user_line
from symgrad.errors import TraceError


def _states() -> tuple[Any, Any]:
    state: Any = np.random.get_state()
    name, words, *rest = state
    return random.getstate(), (name, words.tobytes(), *rest)


class Dice:
    """The generators of the modules `random` and `numpy.random` as they were before a trace."""

    def __init__(self) -> None:
        self._python, self._numpy = random.getstate(), np.random.get_state()
        self._before = _states()

    def refuse(self) -> None:
        """An error if anything was drawn."""
        drawn = [name for name, x, y in zip(("random", "numpy.random"), self._before, _states(), strict=True) if x != y]
        if drawn:
            self.restore()
            raise TraceError(
                f"{user_line()}: the function draws from {' and '.join(drawn)} while it is traced, and a program would repeat what was"
                " drawn; draw before the call and pass it in, use the generators of symgrad, compile with retrace=True, or leave the"
                " function eager"
            )

    def restore(self) -> None:
        random.setstate(self._python)
        np.random.set_state(self._numpy)
