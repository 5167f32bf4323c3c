"""No phase of a program calls more of symgrad's functions, or visits more of its files, than it did when these ceilings were set.

Calls between two kernels cost about a microsecond each, and a call that has left its fast path makes a hundred of them instead of five,
while its result is the same. A count that has become lower is a new ceiling: lower it here.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import call_counts
import pytest

from symgrad.compiler.function import compiled
from symgrad.compiler.runtime import cache
from symgrad.compiler.runtime.executables import LaunchTarget
from symgrad.compiler.runtime.fast_path import FastPath, FastPathEntry
from symgrad.compiler.runtime.step_fast_path import StepFastPath

CEILINGS = {
    # phase: (calls, files)                         bb326fd had
    "eager forward": (22, 10),                    # 24 in 10
    "eager backward": (66, 11),                   # 66 in 11
    "derive": (3416, 79),                         # 3494 in 66; pipeline, table, rule and match are files now
    "first call": (1385, 88),                     # 1489 in 74; a program is split over several files, a spec is one
    "second call": (5, 3),                        # 5 in 3
    "call on the device": (2, 2),                 # 1 in 1
    "recorded call": (40, 12),                    # 41 in 12
    "backward of a recorded call": (81, 8),       # 81 in 8
    "first value_and_grad": (2319, 100),           # 2570 in 80; derivatives go through stable rules and masks, too
    "second value_and_grad": (5, 3),              # 5 in 2
    "second value_and_grad without wrt": (6, 3),  # 46 in 12
    "second grad": (5, 3),                        # 5 in 2
    "second grad without wrt": (5, 3),            # 44 in 12
    "second grad in two": (5, 3),                 # 4 in 2
    "second value_and_grad of arrays": (4, 3),    # 5 in 2
    "second value_and_grad on the device": (3, 3),  # 3 in 2
    "second call, NumPy arrays": (3, 3),          # 3 in 3
    "second call, NumPy float64 arrays": (3, 3),  # 161 in 13
    "second call, arrays and tensors": (5, 3),    # 5 in 3
    "second call, dictionary": (6, 4),            # 152 in 12
    "second call, keywords": (5, 3),              # 120 in 12
    "second call, positions and keywords": (10, 4),  # 120 in 12
    "second call, *args": (5, 3),                 # 159 in 12
    "second call, Python float": (5, 3),          # 101 in 12
    "second call, 200 programs": (6, 3),          # 16 in 10
    "Adam, step 1": (13489, 117),                 # 13544 in 94; stable rules read sums and products; the order of sets matters, a little
    "Adam, step 2": (1720, 45),                   # 2273 in 34; each part of a run with effects is a file
    "Adam, step 3": (6, 4),                       # 6 in 5
    "Adam, step 4": (6, 4),                       # 6 in 5
    "Adam, step 5": (6, 4),                       # 6 in 5
    "Adam, step 6": (6, 4),                       # 6 in 5
}  # fmt: skip


@pytest.fixture(scope="module")
def counts():
    """Calls and files of each phase, in a process of its own: first calls depend on what ran before."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "SYMGRAD_CACHE": "0"}
    command = [sys.executable, "-P", "-W", "error", str(pathlib.Path(call_counts.__file__))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_phase_has_a_ceiling(counts):
    assert counts.keys() == CEILINGS.keys()


@pytest.mark.parametrize("phase", CEILINGS)
def test_calls_and_files_of_a_phase(counts, phase):
    calls, files = counts[phase]
    most_calls, most_files = CEILINGS[phase]
    assert calls <= most_calls, f"python tests/support/call_counts.py --trace {phase!r} shows them"
    assert files <= most_files
    assert calls >= files >= 1  # something was counted


def never_entered(monkeypatch):
    monkeypatch.setattr(FastPath, "add", lambda *_, **__: None)


def always_missed(monkeypatch):
    monkeypatch.setattr(FastPathEntry, "_run_mixed_leaves", lambda *_: compiled.CACHE_MISS)


def refused_by_the_executable(monkeypatch):
    monkeypatch.setattr(LaunchTarget, "run", lambda *_: compiled.CACHE_MISS)


def one_more_function(monkeypatch):
    monkeypatch.setattr(LaunchTarget, "wrap_results", through_another(LaunchTarget.wrap_results))


def through_another(function):
    """The function, called by another one that counts as a function of the package."""
    names = {"__name__": "symgrad.another", "function": function}
    exec(compile("def another(*args): return function(*args)", "another.py", "exec"), names)
    return names["another"]


def steps_never_entered(monkeypatch):
    monkeypatch.setattr(cache, "make_step_fast_path", lambda *_: None)


def steps_that_check_every_guard(monkeypatch):
    read = StepFastPath._read
    monkeypatch.setattr(StepFastPath, "_read", lambda self, args, operands, intact: read(self, args, operands, False))


@pytest.mark.parametrize(
    ("fault", "phases", "phase"),
    [
        (never_entered, call_counts.calling, "second call"),
        (always_missed, call_counts.calling, "second call"),
        (refused_by_the_executable, call_counts.calling, "second call"),
        (one_more_function, call_counts.calling, "second call"),
        (always_missed, call_counts.differentiating, "second value_and_grad without wrt"),
        (always_missed, call_counts.forms, "second call, Python float"),
        (steps_never_entered, call_counts.stepping, "Adam, step 3"),
        (steps_that_check_every_guard, call_counts.stepping, "Adam, step 4"),
    ],
)
def test_a_fault_in_a_fast_path_is_noticed(fault, phases, phase, monkeypatch):
    sound, faulty = call_counts.Counter(), call_counts.Counter()
    phases(sound)
    fault(monkeypatch)
    phases(faulty)
    assert sound.counts()[phase][0] <= CEILINGS[phase][0]
    assert faulty.counts()[phase][0] > CEILINGS[phase][0]
