"""What Python asks of tensors on its way through a function: each answer is a condition of the program."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.runtime.program import CACHE_MISS, Program

ASKING = {
    "the truth of a whole number": (lambda x, n: x * 2 if n else x, (3, 3, 0, 2, 1), 2),
    "the truth of a float": (lambda x, n: x * 2 if n else x, (0.5, 0.0, -2.0, float("nan")), 2),
    "int() of a float": (lambda x, n: x * int(n), (2.75, 2.25, 3.0, -0.5, 0.5), 3),
    "int() of a whole number": (lambda x, n: x * int(n), (2, 2, 3, 2), 2),
    "int() of a truth value": (lambda x, n: x * int(n), (True, False, True), 2),
    "both": (lambda x, n: x * int(n) if n else x, (2.5, 2.0, 0.0, 3.5), 3),
}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_answers_are_those_of_python(name, backend):
    function, numbers, paths = ASKING[name]
    fast, x = sg.compile(function, backend=backend), sg.tensor([1.0, 2.0])
    for _ in range(2):
        for n in numbers:
            np.testing.assert_array_equal(fast(x, sg.tensor(n)), function(x, sg.tensor(n)))
    assert len(fast.recompiles()) == paths


def test_a_kernel_that_answers_otherwise_near_a_tie_leaves_the_call_to_eager_code(monkeypatch):
    fast = sg.compile(lambda x: x * 2 if x.sum() > 0 else x)
    monkeypatch.setattr(Program, "run", lambda *_: CACHE_MISS)
    assert fast(sg.ones(2)).tolist() == [2, 2]
