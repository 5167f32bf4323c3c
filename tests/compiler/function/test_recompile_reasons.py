"""How the reasons for traces are said, and when there were too many: texts, warnings and the number of programs that are kept."""

from __future__ import annotations

import logging
import warnings

import pytest
from interpreter_backend import interpret

import symgrad as sg


@pytest.fixture(autouse=True)
def _kernels(monkeypatch):
    interpret(monkeypatch)


def why(fast):
    return [str(record) for record in fast.recompiles()]


def test_reasons_are_compared_with_the_most_similar_call():
    fast = sg.compile(lambda x, y: x.sum() + y.sum())
    fast(sg.ones(2), sg.ones(2))
    fast(sg.ones(3), sg.ones(3))
    fast(sg.ones(3), sg.ones(4))
    assert why(fast) == ["first call", "argument x: shape (2,) -> (3,); argument y: shape (2,) -> (3,)", "argument y: shape (3,) -> (4,)"]
    assert repr(fast.recompiles()).splitlines()[1:3] == ["2  argument x: shape (2,) -> (3,)", "2  argument y: shape (2,) -> (3,)"]


def test_the_table_lines_up_from_the_tenth_trace_on():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fast = sg.compile(lambda x: x * 2)
        for n in range(1, 11):
            fast(sg.ones(n))
    lines = repr(fast.recompiles()).splitlines()
    assert lines[0] == " 1  first call"
    assert lines[9].startswith("10  argument x: shape ")


def test_arguments_that_come_and_go_and_modes_are_reasons():
    fast = sg.compile(lambda x, *rest: sum(rest, x))
    fast(sg.ones(2)), fast(sg.ones(2), sg.ones(2))
    assert why(fast)[1] == "argument rest.0: not given -> an input"
    fast = sg.compile(lambda x: x * sg.ones(()).to(sg.get_default_dtype()))
    fast(sg.ones(2))
    sg.set_default_dtype(sg.float64)
    try:
        fast(sg.ones(2, dtype=sg.float32))
    finally:
        sg.set_default_dtype(sg.float32)
    assert why(fast)[1] == "default dtype: float32 -> float64"


@pytest.mark.parametrize(("length", "shown"), [(58, "'" + "a" * 58 + "'"), (59, "'" + "a" * 56 + "...")])
def test_long_settings_are_shortened_to_sixty_characters(length, shown):
    fast = sg.compile(lambda x, word: x * 2)
    fast(sg.ones(2), "b"), fast(sg.ones(2), "a" * length)
    assert why(fast)[1] == f"argument word: 'b' -> {shown}"


def test_settings_that_print_alike_are_another_object():
    class Odd:
        def __repr__(self):
            return "odd"

    fast = sg.compile(lambda x, setting: x * 2)
    fast(sg.ones(2), Odd()), fast(sg.ones(2), Odd())
    assert why(fast)[1] == "argument setting: another Odd"


@pytest.mark.parametrize(("values", "advice"), [
    ([f"w{i}" for i in range(9)], "let a few values stand for many"), (list(range(9)), 'dynamic="n"'),
])  # fmt: skip
def test_the_ninth_value_is_a_warning_at_the_line_of_the_call(values, advice):
    fast = sg.compile(lambda x, n: x * 2)
    for value in values[:8]:
        fast(sg.ones(2), value)  # warnings are errors
    with pytest.warns(UserWarning, match="argument n has come in 9 values") as caught:
        fast(sg.ones(2), values[8])
    assert advice in str(caught[0].message)
    assert caught[0].filename == __file__
    fast(sg.ones(2), "once is enough")


def test_a_guard_that_fails_eight_times_is_a_warning(caplog):
    caplog.set_level(logging.INFO, "symgrad.compile")
    scale = 0.0
    fast = sg.compile(lambda x: x * scale)
    fast(sg.ones(2))
    for n in range(1, 8):
        scale = float(n)
        fast(sg.ones(2))
    scale = 8.0
    with pytest.warns(UserWarning, match=r"closure cell scale has changed 8 times.*pass it as an argument"):
        fast(sg.ones(2))
    assert sum("has changed 8 times" in record.getMessage() for record in caplog.records) == 1
    scale = 9.0
    fast(sg.ones(2))


@pytest.mark.parametrize("paths", [8, 9])
def test_the_ninth_path_is_a_warning(paths):
    @sg.compile
    def f(x):
        for n in range(20):
            if x < n:
                return x * n
        return x

    for n in range(8):
        assert f(sg.tensor(n + 0.5)).item() == (n + 0.5) * (n + 1)
    assert repr(f) == "<compiled f(x): 8 programs>"
    if paths == 9:
        with pytest.warns(UserWarning, match="more than 8 paths"):
            f(sg.tensor(8.5))
        assert repr(f) == "<compiled f(x): 8 programs>"


def test_the_oldest_of_nine_programs_is_forgotten():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scale = 0.0
        fast = sg.compile(lambda x: x * scale)
        for n in range(12):
            scale = float(n)
            assert fast(sg.ones(2)).tolist() == [n, n]
    assert repr(fast) == "<compiled <lambda>(x): 8 programs>"  # the latest, and seven older ones
    traces = len(fast.recompiles())
    for n in range(4, 12):
        scale = float(n)
        fast(sg.ones(2))
    assert len(fast.recompiles()) == traces
