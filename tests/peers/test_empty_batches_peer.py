"""Every function and layer that takes a batch, given an empty one, beside PyTorch."""

from __future__ import annotations

import pytest
from empty_calls import CALLS, shown

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer


@pytest.mark.parametrize("text", CALLS)
def test_an_empty_batch(text):
    assert shown(sg, text) == shown(torch, text)
