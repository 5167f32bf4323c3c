"""Long work shows itself: stages in the log, a line on a terminal, and nothing left of it."""

from __future__ import annotations

import io
import logging
import os
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

import symgrad as sg
from symgrad.compiler.support import progress
from symgrad.compiler.support.progress import compiling, logger, stage


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
