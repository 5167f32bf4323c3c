"""Long work shows itself: stages in the log, a line on a terminal, and nothing left of it."""

from __future__ import annotations

import gc
import io
import logging
import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import input_value
from symgrad.compiler.support import progress
from symgrad.compiler.support.collector import gc_paused
from symgrad.compiler.support.progress import compiling, logger, stage
from symgrad.compiler.support.source_lines import at_lines
from symgrad.errors import GraphError


class Terminal(io.StringIO):
    """A stderr that people look at. The line may be drawn before the work has come to its first stage, and again later."""

    def __init__(self):
        super().__init__()
        self.drawn = threading.Event()
        self.awaited = "compiling"

    def isatty(self):
        return True

    def write(self, text):
        if self.awaited in text:
            self.drawn.set()
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=Terminal()))  # pytest puts its own into sys before each test
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    return progress.sys.stderr


def reports(caplog):
    """What was logged of finished compiles; why a function was traced is logged, too."""
    return [text for text in (record.getMessage() for record in caplog.records) if ": compiled in" in text]


def waiting():
    return [t for t in threading.enumerate() if t.name == "symgrad progress"]


def test_a_compile_is_logged_with_its_stages(caplog, monkeypatch):
    monkeypatch.setattr(progress, "SHORTEST", 1e-9)  # to differentiate a sine may take less than half a millisecond
    fast = sg.compile(lambda x: x.sin().sum())
    with caplog.at_level(logging.INFO, logger="symgrad.compile"):
        fast(sg.ones(3))
        fast.hessian(sg.ones(3), wrt="x")
    first, traced, second = reports(caplog)
    assert re.fullmatch(r"<lambda>: compiled in .*\(trace .*, lower .*, XLA .* m?s\)", first)
    assert re.fullmatch(r"<lambda>: compiled in .*\(trace [^,]*(, simplify [^,]*)?\)", traced)  # again, with an argument that requires grad
    assert re.match(r"<lambda>, hessian: compiled in .*\(differentiate .*XLA", second)
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="symgrad.compile"):
        fast(sg.zeros(3))
        fast.hessian(sg.zeros(3), wrt="x")
    assert not caplog.records


def test_backward_and_steps_are_logged_under_the_functions_name(caplog):
    def model(x):
        return x.exp().sum()

    x = sg.ones(3, requires_grad=True)
    total = sg.zeros(())

    @sg.compile
    def counting(x):
        total.add_(x.sum())
        return total * 2

    with caplog.at_level(logging.INFO, logger="symgrad.compile"):
        sg.compile(model)(x).backward()
        for _ in range(3):
            counting(x.detach())
    assert [text.partition(":")[0] for text in reports(caplog)] == ["model", "model, backward", "counting", "counting"]


def test_a_failed_compile_is_not_reported(caplog):
    with caplog.at_level(logging.INFO, logger="symgrad.compile"), pytest.raises(ZeroDivisionError), compiling("f"), stage("trace"):
        _ = 1 / 0
    assert not caplog.records
    assert progress._local.work is None


def test_verbose_prints_and_silence_is_the_default(capfd):
    sg.compile(lambda x: x.cos())(sg.ones(2))
    assert capfd.readouterr().err == ""
    sg.compile(lambda x: x.cos(), verbose=True)(sg.ones(2))
    assert re.fullmatch(r"symgrad: <lambda>: compiled in .*\)\n", capfd.readouterr().err)
    assert logger.handlers == []


def test_the_environment_asks_for_the_log():
    code = "import symgrad as sg; sg.compile(lambda x: x + 1)(sg.ones(2))"
    environment = {**os.environ, "SYMGRAD_LOG": "other,compile"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("symgrad: <lambda>: compiled in") == 1


def test_stages_inside_stages_count_for_themselves(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress, "perf_counter", lambda: now[0])
    with compiling("f"):
        work = progress._local.work
        with stage("trace"):
            now[0] = 1.0
            with stage("XLA"):
                now[0] = 3.0
            now[0] = 7.0
    assert work.times == {"trace": 5.0, "XLA": 2.0}


def test_a_compile_inside_a_compile_is_a_part_of_it(caplog):
    with caplog.at_level(logging.INFO, logger="symgrad.compile"), compiling("outer"), compiling("inner"), stage("XLA"):
        _ = sum(range(100_000))
    assert [r.getMessage().partition(":")[0] for r in caplog.records] == ["outer"]


def test_a_line_appears_on_a_terminal_and_goes_away(terminal, monkeypatch):
    monkeypatch.setattr(progress, "perf_counter", lambda: 7.0)
    terminal.awaited = "XLA"
    with compiling("step"), stage("XLA"):
        assert terminal.drawn.wait(60)
    drawn = r"\x1b7\x1b\[\?7l compiling step: {}, 0 s\x1b\[K\x1b\[\?7h\x1b8"
    assert re.fullmatch(f"({drawn.format('compile')})*({drawn.format('XLA')})+" + r"\x1b\[K", terminal.getvalue())
    assert not waiting()


def test_the_line_goes_away_after_an_error_too(terminal):
    terminal.awaited = "trace"
    with pytest.raises(KeyError), compiling("step"), stage("trace"):
        raise KeyError(terminal.drawn.wait(60))
    assert "compiling step: trace" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[K")
    assert not waiting()


def test_short_work_draws_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 60)
    with compiling("step"), stage("XLA"):
        pass
    assert terminal.getvalue() == ""
    assert not waiting()


def test_one_line_for_many_threads(terminal):
    ready = threading.Barrier(2)

    def work(name):
        with compiling(name), stage("XLA"):
            ready.wait(60)
            terminal.drawn.wait(60)
            ready.wait(60)

    threads = [threading.Thread(target=work, args=(f"f{i}",)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    drawn = r"\x1b7\x1b\[\?7l compiling {}: [^\x1b]*\x1b\[K\x1b\[\?7h\x1b8"
    one_after_the_other = "(?:" + drawn.format(r"(f\d)") + "(?:" + drawn.format(r"\1") + r")*\x1b\[K)+"
    assert re.fullmatch(one_after_the_other, terminal.getvalue())
    assert not waiting()
    assert not progress._terminal.locked()


def test_dumb_terminals_and_pipes_get_no_line(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    with compiling("step"):
        assert not waiting()


def test_durations_change_their_unit_at_a_second():
    assert [progress.seconds(t) for t in (0.0004, 0.012, 0.9994, 1, 1.26, 75)] == ["0 ms", "12 ms", "999 ms", "1.0 s", "1.3 s", "75.0 s"]


def test_short_stages_are_left_out_of_the_report():
    work = progress.Work("f", False)
    work.times = {"XLA": 2.0, "lower": 0.0005, "trace": 0.0004, "emit": 0.25}
    assert re.fullmatch(r"f: compiled in \d+ ms \(emit 250 ms, lower 0 ms, XLA 2.0 s\)", str(work))


def test_time_between_stages_belongs_to_none(monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr(progress, "perf_counter", lambda: now[0])
    own = {"trace": 1.0}
    with caplog.at_level(logging.INFO, logger="symgrad.compile"), compiling("f"):
        for _ in range(2):
            with stage("trace", own):
                now[0] += 1.0
            now[0] += 10.0
    assert own == {"trace": 3.0}
    assert reports(caplog) == ["f: compiled in 22.0 s (trace 2.0 s)"]
    with stage("trace", own):  # outside of a compilation
        now[0] += 4.0
    assert own == {"trace": 7.0}


def test_work_without_stages_is_not_reported(caplog):
    with caplog.at_level(logging.INFO, logger="symgrad.compile"), compiling("f"):
        pass
    assert not caplog.records


def test_verbose_functions_are_printed_once_if_all_are(capfd):
    logger.addHandler(progress._handler)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        with compiling("f", True), stage("XLA"):
            pass
    finally:
        logger.removeHandler(progress._handler)
        logger.setLevel(before)
    assert capfd.readouterr().err.count("f: compiled in") == 1


def test_a_compile_inside_a_verbose_one_is_not_printed_alone(capfd):
    with compiling("outer", True), stage("trace"), compiling("inner", True), stage("XLA"):
        pass
    assert capfd.readouterr().err.count("compiled in") == 1


def test_long_names_are_cut_to_fit_a_line(terminal):
    with compiling("f" * 100), stage("XLA"):
        assert terminal.drawn.wait(60)
    drawn = re.search(r"\x1b\[\?7l ([^\x1b]*)", terminal.getvalue()).group(1)
    assert drawn == ("compiling " + "f" * 100)[:60]


def test_a_terminal_that_goes_away_stops_the_line_and_not_the_work(terminal, monkeypatch):
    tried = threading.Event()

    def write(text):
        tried.set()
        raise OSError("gone")

    monkeypatch.setattr(terminal, "write", write)
    with compiling("step"), stage("XLA"):
        assert tried.wait(60)
    assert not waiting()
    assert not progress._terminal.locked()


@pytest.mark.parametrize("stderr", [None, "closed"])
def test_without_a_stderr_there_is_no_line(monkeypatch, stderr):
    stream = io.StringIO() if stderr else None
    if stream is not None:
        stream.close()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))
    assert not progress._on_terminal()
    with compiling("step"), stage("XLA"):
        assert not waiting()


def test_every_compile_of_a_verbose_function_is_printed(capfd):
    """Traces, derivatives and backward passes, each with its name."""
    x = sg.ones(3, requires_grad=True)
    total = sg.zeros(())

    def wave(x):
        return x.sin().sum()

    def step(x):
        total.add_(x.sum())
        return total * 1

    fast, effects = sg.compile(wave, verbose=True), sg.compile(step, verbose=True)
    runs = [
        lambda: fast(x), lambda: fast(x).backward(), lambda: fast.jacobian(x, wrt="x"), lambda: effects(x.detach()),
        lambda: effects(x.detach()),
    ]  # fmt: skip
    for run in runs:
        run()
        assert "compiled in" in capfd.readouterr().err
    fast(x).backward(), fast.jacobian(x, wrt="x"), effects(x.detach())
    assert capfd.readouterr().err == ""


# the garbage collector, and lines of source


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_paused_and_then_as_it_was(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError, match="False"), gc_paused():
            raise KeyError(gc.isenabled())
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_an_error_about_a_value_names_its_line_or_that_of_its_user():
    x = input_value(0, (2,), np.dtype(np.float32))
    y = xp.sin(x)
    for value, lines, start in ((y, {y: "a.py:3"}, "a.py:3: "), (x, {y: "a.py:3"}, "a.py:3: "), (y, {}, ""), (None, {y: "a.py:3"}, "")):
        error = GraphError("wrong")
        error.value = value
        with pytest.raises(GraphError) as caught, at_lines(lines):
            raise error
        assert str(caught.value) == f"{start}wrong"
