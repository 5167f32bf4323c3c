"""`pytest --compiled=numpy` or `--compiled=xla`: the eager suite under the compiler. Without it a fixed sample runs beside the eager tests.

A test counts as compiled if at least one program of its own ran as a kernel: one that runs no op has nothing to compile, and is counted
apart. Tests that cannot run under a trace are listed by reason in left_out.py, and are run all the same: a listed test that passes fails.
"""

from __future__ import annotations

import functools
import signal
import zlib
from collections import Counter
from contextlib import contextmanager

import pytest
from hypothesis import settings
from under_compiler.left_out import LEFT_OUT, SUITE, TOO_LONG

SAMPLE = {"numpy": 16, "xla": 199}
"""Of how many tests of the suite one is in the sample, which runs without `--compiled`, or alone with `--compiled=sample`."""
SECONDS = 60
EXAMPLES = 10
"""Hypothesis draws fewer examples: each is a program of its own."""
_PROPERTY = "under the compiler"


def reason_for(nodeid: str, backend: str) -> str | None:
    """Why a test is left out; tests are listed by their ids, or by those of their functions for all parameters."""
    listed = LEFT_OUT[backend].items()
    return next((reason for reason, tests in listed if nodeid in tests or nodeid.partition("[")[0] in tests), None)


class CompiledFunction(pytest.Function):
    """A test whose body runs through compile()."""

    backend: str
    eager: str
    """The id of the eager test."""

    def runtest(self) -> None:
        from under_compiler.running import NothingToCompile

        reason = reason_for(self.eager, self.backend)
        try:
            with _at_most(SECONDS):
                self._run()
        except NothingToCompile:
            self.user_properties.append((_PROPERTY, "no op"))
            if reason is not None:
                pytest.fail(f"{self.eager} runs no op: take it off left_out.py")
            return
        except (Exception, pytest.fail.Exception):
            if reason is None:
                raise
            self.user_properties.append((_PROPERTY, f"left out: {reason}"))
            return
        self.user_properties.append((_PROPERTY, "compiled"))
        if reason is not None:
            pytest.fail(f"{self.eager} runs under the compiler: take it off left_out.py")

    def _run(self) -> None:
        from under_compiler.running import run_compiled

        f, args = self.obj, {name: self.funcargs[name] for name in self._fixtureinfo.argnames}
        if not hasattr(f, "hypothesis"):
            run_compiled(functools.partial(f, **args), self.backend)
            return
        f = getattr(f, "__func__", f)
        inner, chosen = f.hypothesis.inner_test, f._hypothesis_internal_use_settings

        @functools.wraps(inner)
        def each(*given, **named):
            run_compiled(functools.partial(inner, *given, **named), self.backend)

        f.hypothesis.inner_test, f._hypothesis_internal_use_settings = each, settings(chosen, max_examples=EXAMPLES)
        try:
            self.obj(**args)
        finally:
            f.hypothesis.inner_test, f._hypothesis_internal_use_settings = inner, chosen


@contextmanager
def _at_most(seconds: int):
    def late(*_):
        raise TimeoutError(f"more than {seconds} s under the compiler")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _compiled(item, backend: str) -> CompiledFunction:
    found = CompiledFunction.from_parent(
        item.parent, name=f"{item.name}@{backend}", callspec=getattr(item, "callspec", None), callobj=item.obj,
        fixtureinfo=item._fixtureinfo, originalname=item.originalname,
    )  # fmt: skip
    found.backend, found.eager = backend, item.nodeid
    return found


def _in_suite(item) -> bool:
    return isinstance(item, pytest.Function) and item.nodeid.startswith(SUITE) and item.nodeid.partition("[")[0] not in TOO_LONG


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items) -> None:
    backend = config.getoption("--compiled")
    suite = [item for item in items if _in_suite(item)]
    if backend in (None, "sample"):
        sample = [_compiled(x, b) for b, n in SAMPLE.items() for x in suite if zlib.crc32(x.nodeid.encode()) % n == 0]
        items[:] = [*(() if backend else items), *sample]
        return
    chosen = {item.nodeid for item in suite}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [_compiled(item, backend) for item in suite]
    if not config.option.keyword:
        _refuse_unknown([item.eager for item in items], backend)


def _refuse_unknown(ids, backend: str) -> None:
    """A listed test that does not exist is a mistake."""
    files, known = {i.partition("::")[0] for i in ids}, {*ids, *(i.partition("[")[0] for i in ids)}
    listed = [test for tests in LEFT_OUT[backend].values() for test in tests if test.partition("::")[0] in files]
    unknown = [test for test in listed if test not in known]
    if unknown and len(known) > 20:  # not a few tests by their ids
        raise pytest.UsageError(f"left_out.py lists tests that are not there: {unknown}")


def pytest_terminal_summary(terminalreporter, config) -> None:
    if config.getoption("--compiled") is None:
        return
    reports = [r for group in terminalreporter.stats.values() for r in group if getattr(r, "when", None) == "call"]
    counts = Counter(value for r in reports for name, value in r.user_properties if name == _PROPERTY)
    out = sum(n for what, n in counts.items() if what.startswith("left out"))
    total = counts["compiled"] + out
    terminalreporter.section(f"under the compiler, {config.getoption('--compiled')}")
    for what, n in counts.most_common():
        terminalreporter.line(f"{n:6} {what}")
    terminalreporter.line(f"{out} of {total} tests that run ops are left out: {out / max(total, 1):.1%}")
