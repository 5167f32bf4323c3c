"""Programs are kept with the function: a second optimization of it traces nothing."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.function import builder

OFFSET = 1.0


@pytest.fixture
def traces(monkeypatch):
    """The functions that were traced, one after the other."""
    seen, trace = [], builder.trace

    def noted(*args, **kwargs):
        seen.append(args)
        return trace(*args, **kwargs)

    monkeypatch.setattr(builder, "trace", noted)
    return seen


def bowl(x):
    return ((x - OFFSET) ** 2).sum()


def fresh():
    """A function that nothing was made from yet."""
    return lambda x: ((x - 2) ** 2).sum()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("method", ["BFGS", "Nelder-Mead", "trust-exact", "Newton-CG"])
def test_a_second_optimization_traces_nothing(method, compiled, traces):
    f = sg.compile(fresh()) if compiled else fresh()
    first = sg.optimize.minimize(f, np.zeros(2), method)
    made = len(traces)
    assert made >= 1
    again = sg.optimize.minimize(f, np.full(2, 5.0), method)
    assert len(traces) == made
    np.testing.assert_allclose(first.x, [2, 2], atol=1e-3)
    np.testing.assert_allclose(again.x, [2, 2], atol=1e-3)


def test_roots_and_least_squares_keep_theirs_apart(traces):
    f = lambda x: (x - 2) * (x + 3)
    for _ in range(2):
        np.testing.assert_allclose(sg.optimize.root(f, np.ones(1)).x, [2], atol=1e-6)
        np.testing.assert_allclose(sg.optimize.least_squares(f, np.ones(1)).x, [2], atol=1e-6)
        with pytest.raises(ValueError, match="must return one number"):
            sg.optimize.minimize(f, np.ones(2))
    made = len(traces)
    sg.optimize.root(f, np.full(1, 4.0))
    assert len(traces) == made


def test_other_forms_of_x0_have_programs_of_their_own(traces):
    f = fresh()
    for x0 in (np.zeros(2), np.zeros(3), sg.zeros(2), np.zeros((1, 2))):
        found = sg.optimize.minimize(f, x0).x
        assert type(found) is type(x0)
        assert found.shape == x0.shape
        np.testing.assert_allclose(np.asarray(found), 2, atol=1e-3)
    assert len(traces) >= 4


def test_what_the_function_reads_is_read_as_it_is_now(monkeypatch):
    np.testing.assert_allclose(sg.optimize.minimize(bowl, np.zeros(1)).x, [1], atol=1e-5)
    monkeypatch.setitem(globals(), "OFFSET", 3.0)
    np.testing.assert_allclose(sg.optimize.minimize(bowl, np.zeros(1)).x, [3], atol=1e-5)


def test_a_wrapper_does_not_use_the_programs_of_what_it_wraps():
    f = fresh()
    sg.optimize.minimize(f, np.zeros(1))

    @functools.wraps(f)
    def shifted(x):
        return f(x - 5)

    np.testing.assert_allclose(sg.optimize.minimize(shifted, np.zeros(1)).x, [7], atol=1e-5)
    assert copy.deepcopy(vars(f)) == {"__symgrad_optimize__": {}}
