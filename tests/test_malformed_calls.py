"""Arguments and options of other types, shapes and values: every public call does with them what PyTorch does, or what is listed."""

from __future__ import annotations

import pytest
from malformed_record import DIFFERENCES, OUTCOMES, all_cases, differing, outcomes, read, same

import symgrad as sg

CASES = all_cases()
RECORDED = read(OUTCOMES)
LISTED = read(DIFFERENCES)
_SPECIAL = """bessel_i bessel_j bessel_k bessel_y cosine_integral erfi exp_integral fresnel_c fresnel_s gamma lambertw lgamma riemann_zeta
    sigmoid sine_integral"""
UNRECORDED = {"sg.assume", "init.fans", *(f"sg.special.{name}" for name in _SPECIAL.split())}
"""Functions that PyTorch does not have."""


GROUPS = sorted({name[: name.rindex(".") + 2] for name in RECORDED})
"""Names up to their first letter: `sg.linalg.s`."""


@pytest.mark.parametrize("group", GROUPS)
def test_outcomes(group):
    """If a difference from PyTorch is intended: tests/support/malformed_record.py says how to write the list anew."""
    found = {}
    for name in RECORDED:
        if name[: name.rindex(".") + 2] == group:
            wanted = {**RECORDED[name], **LISTED.get(name, {})}
            changed = differing(outcomes(sg, name, CASES[name]), wanted)
            found[name] = {label: (outcome, wanted.get(label)) for label, outcome in changed.items()}
    assert found
    assert {name: differences for name, differences in found.items() if differences} == {}


def test_only_functions_without_a_counterpart_are_not_recorded():
    assert set(CASES) - set(RECORDED) == UNRECORDED


def test_every_difference_is_one():
    assert [name for name, table in LISTED.items() for label, outcome in table.items() if same(outcome, RECORDED[name].get(label))] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [(("float32[3]", 1.0), ("float32[3]", 1.01)), (("float32[3]", 1.0), ("float64[3]", 1.0)), (("TypeError", None), ("ValueError", None))],
)
def test_outcomes_that_differ_are_noticed(one, other):
    assert differing({"valid:": one}, {"valid:": other}) == {"valid:": one}
    assert differing({}, {"valid:": one}) == {"valid:": None}
    assert differing({"valid:": one}, {"valid:": one}) == {}
