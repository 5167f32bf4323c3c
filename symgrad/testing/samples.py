"""Samples of every row's arguments, drawn inside its domain, away from its kinks: what the tests of the whole table run on.

An elementwise row gets its own from its `domain` column; what has attributes, or is not elementwise, is entered in SAMPLES,
name -> function that gives a list of (arguments, attributes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.testing.neural_samples import NEURAL
from symgrad.testing.reduction_samples import REDUCTIONS
from symgrad.testing.shape_samples import shape_samples

Sample = tuple[tuple[Any, ...], dict[str, Any]]
SAMPLES: dict[str, Callable[[], list[Sample]]] = {}


def draw(row: Row, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
    """An array of each shape in the row's domain; the same on every call."""
    generator = np.random.default_rng(sum(row.name.encode()))
    return tuple(generator.uniform(*row.domain, size=shape) for shape in shapes)


def samples(row: Row) -> list[Sample]:
    """What is known of the row, [] if nothing is."""
    if row.name in SAMPLES:
        return SAMPLES[row.name]()
    return [(draw(row, *((6,) for _ in row.args)), {})] if row.elementwise and not row.attrs else []


def attributes(name: str, *choices: dict[str, Any]) -> None:
    """Enter an elementwise row with attributes."""
    row = TABLE[name]
    SAMPLES[name] = lambda: [(draw(row, *((6,) for _ in row.args)), attrs) for attrs in choices]


def _where() -> list[Sample]:
    x, y = draw(TABLE["where"], (6,), (6,))
    return [((np.full(6, choice), x, y), {}) for choice in (True, False)]


def _masked_fill() -> list[Sample]:
    x, value = draw(TABLE["masked_fill"], (6,), (6,))
    return [((x, np.full(6, choice), value), {}) for choice in (True, False)]


def _real_and_complex(name: str) -> Callable[[], list[Sample]]:
    """A rule that asks which of the two it has."""
    x, y = draw(TABLE[name], (6,), (6,))
    return lambda: [((x,), {}), ((x + 1j * y,), {})]


SAMPLES["where"], SAMPLES["masked_fill"] = _where, _masked_fill
SAMPLES["angle"], SAMPLES["sgn"] = _real_and_complex("angle"), _real_and_complex("sgn")
SAMPLES.update({name: lambda of=of: of for name, of in shape_samples().items()})  # type: ignore[misc]
attributes("addcmul", {"value": 1}, {"value": 2.5})
attributes("addcdiv", {"value": 1}, {"value": -0.5})
attributes("cast", {"dtype": np.dtype(np.float64)})
attributes("power", *({"exponent": exponent} for exponent in (0, 1, 2, 3, 4, 5, -1, -2, 0.5, -0.5, 2.5)))
attributes("clamp", {"min": -0.5, "max": 1}, {"min": 0.25, "max": None}, {"min": None, "max": 0.75})
attributes("round_to", {"decimals": 1}, {"decimals": -1})
attributes("div_rounded", {"rounding_mode": "floor"}, {"rounding_mode": "trunc"})
attributes("nan_to_num", {"nan": 0, "posinf": None, "neginf": None})
attributes("polygamma", {"n": 1}, {"n": 2})
for _name in ("bessel_j", "bessel_y", "bessel_i", "bessel_k"):
    attributes(_name, {"order": 0}, {"order": 2.5})
attributes("lambertw", {"branch": 0}, {"branch": -1})
attributes("riemann_zeta", {"order": 0}, {"order": 1})
attributes("exprel", {"order": 0}, {"order": 1}, {"order": 2})
attributes("bose", {"order": 0}, {"order": 1}, {"order": 2})
attributes("power1pm1", {"exponent": 3}, {"exponent": 0.5}, {"exponent": -1.5})
attributes("sinc_derivative", {"order": 1}, {"order": 2}, {"order": 3})
attributes("logit", {"eps": None}, {"eps": 0.3})
attributes("leaky_relu", {"negative_slope": 0.1})
attributes("elu", {"alpha": 1.0, "scale": 1.0, "rate": 1.0}, {"alpha": 1.5, "scale": 1.25, "rate": 0.5})
attributes("celu", {"alpha": 1.0}, {"alpha": 0.5})
attributes("gelu", {"approximate": "none"}, {"approximate": "tanh"})
attributes("softplus", {"beta": 1.0, "threshold": 20.0}, {"beta": 2.5, "threshold": 20.0})
attributes("hardtanh", {"low": -1.0, "high": 1.0})
attributes("softshrink", {"lambd": 0.5})
attributes("hardshrink", {"lambd": 0.5})
attributes("threshold", {"threshold": 0.25, "value": 2.0})
SAMPLES |= NEURAL | REDUCTIONS
