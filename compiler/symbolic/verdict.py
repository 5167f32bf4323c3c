"""Verdict: what check() found, to be read in a terminal or a notebook."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

_FEW = 8
"""Elements of an argument that are shown."""
_MOST_SHOWN = 200
"""Characters of the answer that are shown."""
_LARGEST_DENOMINATOR = 100
_NAMED = {"": 1.0, "pi": math.pi, "sqrt(2)": math.sqrt(2), "sqrt(pi)": math.sqrt(math.pi), "log(2)": math.log(2), "exp(1)": math.e}


@dataclass(frozen=True, eq=False)
class Verdict:
    """How an answer compares with a derivative; true if they are equal."""

    text: str
    """The answer."""
    of: str
    """The derivative that it was compared with: `∂f/∂x`."""
    verdict: str
    """`equal`, `equal up to ...` (a factor, the sign, a constant, the layout), or `different`."""
    reason: str = ""
    points: int = 0
    """The number of random points at which both were computed."""
    tolerance: float = 0.0
    """Largest relative difference of equal values."""
    transposed: bool = False
    factor: float | None = None
    """The right value is so many times the answer."""
    constant: Any = None
    """The right value is the answer plus this."""
    point: Mapping[str, Any] = field(default_factory=dict)
    """The arguments where they differ."""
    expected: Any = None
    """The right value there."""
    found: Any = None
    """The answer there."""

    @property
    def equal(self) -> bool:
        return self.verdict == "equal"

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        first = f"{self.verdict}: {self.reason}" if self.reason else f"{self.verdict}: {self.of} = {_shortened(self.text)}"
        if self.point:
            return f"{first}\n  where {', '.join(f'{name} = {_shown(a)}' for name, a in self.point.items())}"
        return f"{first}{self._tested()}"

    def _tested(self) -> str:
        return f"\n  compared at {self.points} random points, to a relative {self.tolerance:.0e}" if self.points else ""

    __repr__ = __str__

    def _repr_html_(self) -> str:
        first, *rest = html.escape(str(self)).splitlines()
        verdict, _, reason = first.partition(":")
        small = f"<br><small>{'<br>'.join(line.strip() for line in rest)}</small>" if rest else ""
        return f"<p><b>{verdict}</b>: {reason.strip()}{small}</p>"


def _shortened(text: str) -> str:
    """Return a text in one line, and not much more of it than fits there."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}..."


def quantity(x: float) -> str:
    """Return a number as a short fraction, or as a multiple of a named number, if it is one to nine digits."""
    for name, unit in _NAMED.items():
        near = Fraction(x / unit).limit_denominator(_LARGEST_DENOMINATOR)
        if near and abs(float(near) * unit - x) <= 1e-9 * abs(x) and abs(near) < 10**6:
            if not name:
                return str(near)
            above = {1: name, -1: f"-{name}"}.get(near.numerator, f"{near.numerator}*{name}")
            return above if near.denominator == 1 else f"{above}/{near.denominator}"
    short = f"{x:.6g}"
    return short if "." in short or "e" in short else f"{x:.12g}"  # 1.00000008 is not 1


def _shown(a: Any) -> str:
    if a.ndim == 0:
        return f"{a.item():.6g}"
    if a.size > _FEW:
        return f"an array of shape {a.shape}"
    return np.array2string(a, precision=4, separator=", ").replace("\n", "")
