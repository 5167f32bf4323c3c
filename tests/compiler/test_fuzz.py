"""Random programs, run eagerly and compiled: results, gradients, state, what is left in `.grad`, and random numbers are the same.

More of them: `-m slow`, or `python -m fuzzing --programs 20000 --seed 7` in tests/support. A failure is printed as a file that runs.
"""

from __future__ import annotations

import pytest
from fuzzing.campaign import Campaign
from fuzzing.generate import Settings, generate

from symgrad.compiler.graph.builder import xp
from symgrad.compiler.tracing import box

SMALL = Settings(most=4)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def run(seeds, backends, settings=None):
    campaign = Campaign(backends, settings)
    reports = [report for report in map(campaign.run, seeds) if report]
    assert not reports, "\n\n".join(reports[:3])
    words, count = campaign.words, sum(campaign.words.values())
    assert words["same"] > 0.8 * count, words
    assert words["refused"] < 0.05 * count, campaign.refusals
    assert words["close"] < 0.03 * count, words


@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_programs(batch):
    run(range(100 * batch, 100 * batch + 100), ("interpreter", "numpy"))


@pytest.mark.parametrize("batch", range(4))
def test_a_hundred_programs_through_xla(batch):
    run(range(5000 + 25 * batch, 5025 + 25 * batch), ("xla",), SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_twenty_thousand_programs(batch):
    run(range(10_000 + 1000 * batch, 11_000 + 1000 * batch), ("interpreter", "numpy"))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_programs_through_xla(batch):
    run(range(40_000 + 100 * batch, 40_100 + 100 * batch), ("xla",))


def test_a_seed_is_a_program():
    for seed in range(30):
        assert generate(seed) == generate(seed)
    assert len({generate(seed).text() for seed in range(30)}) == 30


FAULTS = {
    "a write through a view is lost": lambda patch: patch.setattr(
        box.Box, "assign", lambda self, value, quiet=False: lost(self, value, quiet), raising=True
    ),
    "operands are swapped": lambda patch: patch.setattr(xp, "sub", lambda x, y, sub=xp.sub: sub(y, x)),
}
assign = box.Box.assign


def lost(self, value, quiet):
    return self.root()[0] if self.parent is not None else assign(self, value, quiet)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_program_is_small(name, monkeypatch):
    FAULTS[name](monkeypatch)
    campaign = Campaign(("interpreter",))
    report = next(report for report in map(campaign.run, range(200)) if report)
    assert len(campaign.smallest) <= 5, report
    assert "def f(" in report
    assert f"# program {campaign.smallest.seed}, interpreter" in report
