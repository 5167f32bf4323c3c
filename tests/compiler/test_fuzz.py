"""Random programs, run eagerly and compiled: results, gradients, state, what is left in `.grad`, and random numbers are the same.

More of them: `-m slow`, or `tox -e fuzz`, which draws a seed and prints it. A failure is printed as a file that runs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from derivative_modes import _tensors
from fuzzing.campaign import Campaign
from fuzzing.generate import Settings, generate
from fuzzing.program import leaves

import symgrad as sg
from symgrad.compiler.ir import custom
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.rewrite.pipeline import switches
from symgrad.compiler.trace import storage, tracer as capture_module

SMALL = Settings(most=4)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def run(seeds, backends, settings=None, without=()):
    campaign = Campaign(backends, settings, without=without)
    reports = [report for report in map(campaign.run, seeds) if report]
    assert not reports, "\n\n".join(reports[:3])
    words, count = campaign.words, sum(campaign.words.values())
    assert words["same"] > 0.8 * count, words
    assert words["refused"] < 0.05 * count, campaign.refusals
    assert words["close"] < 0.03 * count + 1, words


@pytest.mark.parametrize("batch", range(6))
def test_six_hundred_programs(batch):
    run(range(100 * batch, 100 * batch + 100), ("interpreter", "numpy"))


def test_programs_without_any_rewrite():
    run(range(2_000, 2_030), ("numpy",), without=tuple(switches()))


@pytest.mark.parametrize("batch", range(2))
def test_programs_that_four_threads_call_at_once(batch):
    """Pure programs: all threads get what eager code gives, also those that come while it is traced."""
    compared = 0
    for seed in range(300_000 + 90 * batch, 300_090 + 90 * batch, 3):
        program = generate(seed, Settings(effects=False, branches=False))
        if any(leaf.kind != "tensor" or leaf.same for leaf in program.args):
            continue
        function = program.function(leaves(program, program.state, -1, {}))
        given = lambda function, program=program: function(*program.arguments(list(leaves(program, program.args, 0, {}).values())))
        try:
            wanted = [t.detach().numpy() for t in _tensors(given(function))]
            compiled = sg.compile(function, backend="numpy")
            with ThreadPoolExecutor(4) as pool:
                found = list(pool.map(lambda _, compiled=compiled, given=given: _tensors(given(compiled)), range(8)))
        except RuntimeError:  # refused, or not valid
            continue
        for results in found:
            for t, array in zip(results, wanted, strict=True):
                np.testing.assert_allclose(t.detach().numpy(), array, rtol=1e-4 if program.single else 1e-9, atol=1e-6)
        compared += 1
    assert compared > 15


@pytest.mark.parametrize("batch", range(4))
def test_a_hundred_programs_through_xla(batch):
    run(range(5000 + 25 * batch, 5025 + 25 * batch), ("xla",), SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_twenty_thousand_programs(batch):
    run(range(10_000 + 1000 * batch, 11_000 + 1000 * batch), ("interpreter", "numpy"))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(20))
def test_twenty_thousand_programs_without_any_rewrite(batch):
    run(range(10_000 + 1000 * batch, 11_000 + 1000 * batch), ("interpreter", "numpy"), without=tuple(switches()))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_a_thousand_programs_through_xla(batch):
    run(range(40_000 + 100 * batch, 40_100 + 100 * batch), ("xla",))


NEWS = [
    "Doubling.apply(", "Scaled.apply(", "Both.apply(", "Straight.apply(", "Dirty.apply(", "hooked(", "cut(", "if_recorded(", "overwritten(",
    ".unsqueeze_(", ".t_()", ".squeeze_(", ".transpose_(", ".real", ".imag", "view_as_real(", "1 / 3", "0.1", "no_grad()", ".data",
    ".detach()", ".requires_grad", "large_and_small(", ".fill_(", ".index_fill_(", ".scatter_(", ".masked_fill_(",
]  # fmt: skip


def test_programs_contain_what_the_grammar_has():
    """Whatever may be in a program is in some of a few hundred."""
    programs = [generate(seed) for seed in range(600)]
    text = "\n".join(program.text() for program in programs)
    assert [word for word in NEWS if word not in text] == []
    assert any(0 in leaf.shape for program in programs for leaf in program.args)
    assert any(leaf.dtype == "complex128" for program in programs for leaf in program.args)
    assert any("thread" in program.calls for program in programs)


def test_a_seed_is_a_program():
    for seed in range(30):
        assert generate(seed) == generate(seed)
    assert len({generate(seed).text() for seed in range(30)}) == 30


def test_a_difference_of_a_program_with_a_python_number_is_judged():
    """It overwrites what backward() reads through .data, and a number requires no grad."""
    campaign = Campaign(("interpreter",))
    assert campaign.run(32122896) == ""
    assert campaign.words == {"close": 1}


def without_unbroadcast(patch):
    patch.setattr(custom, "unbroadcast", lambda xp, g, shape: g)


def deaf_functions(patch):
    """As if the backward of a Function were not its own, but that of what its forward computed."""
    patch.setattr(capture_module, "trace_backward", lambda capture, row, args, results: None)


FAULTS = {
    "what a Function gives back is not summed": without_unbroadcast,
    "the backward of Functions is not followed": deaf_functions,
    "a write through a view is lost": lambda patch: patch.setattr(
        storage.TracedStorage, "write", lambda self, value, quiet=False: lost(self, value, quiet), raising=True
    ),
    "operands are swapped": lambda patch: patch.setattr(xp, "sub", lambda x, y, sub=xp.sub: sub(y, x)),
}
START = {"what a Function gives back is not summed": 3380}
"""Where a fault that few programs meet is looked for."""
assign = storage.TracedStorage.write


def lost(self, value, quiet):
    return self.root()[0] if self.parent is not None else assign(self, value, quiet)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_program_is_small(name, monkeypatch):
    FAULTS[name](monkeypatch)
    campaign = Campaign(("interpreter",))
    report = next(report for report in map(campaign.run, range(START.get(name, 0), 6000)) if report)
    assert len(campaign.smallest) <= 5, report
    assert "def f(" in report
    assert f"# program {campaign.smallest.seed}, interpreter" in report
