"""Programs about gradients, hooks, views and edges of arguments show what PyTorch shows: the figures are PyTorch 2.13's."""

from __future__ import annotations

import pytest
from eager_programs import PROGRAMS, alike, figures, seen
from eager_programs_more import PROGRAMS as MORE

import symgrad as sg

FIGURES = figures()


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_a_program_shows_what_pytorch_shows(name):
    found, wanted = seen({**PROGRAMS, **MORE}[name], sg), FIGURES[name]
    assert alike(found, wanted), (found, wanted)
