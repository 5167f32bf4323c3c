"""The recorded outcomes of malformed calls are PyTorch's."""

from __future__ import annotations

import pytest
from malformed_record import OUTCOMES, all_cases, differing, outcomes, read

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

CASES = all_cases()
RECORDED = read(OUTCOMES)


@pytest.mark.parametrize("name", CASES)
def test_outcomes(name):
    assert differing(outcomes(torch, name, CASES[name]), RECORDED.get(name, {})) == {}
