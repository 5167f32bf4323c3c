"""The figures that CI compares programs with are those of the PyTorch that is installed."""

from __future__ import annotations

import pytest
from eager_programs import PROGRAMS, alike, figures, seen
from eager_programs_more import PROGRAMS as MORE

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer
FIGURES = figures()


@pytest.mark.parametrize("name", [*PROGRAMS, *MORE])
def test_pytorch_shows_the_figures(name):
    found, wanted = seen({**PROGRAMS, **MORE}[name], torch), FIGURES[name]
    assert alike(found, wanted), (found, wanted)
