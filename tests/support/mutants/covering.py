"""Which tests run which lines: the suite runs once under coverage, each test as a context of its own.

A pytest plugin (`-p mutants.covering`); every worker writes `map.<worker>` and `times.<worker>`, and `selection.Map` reads them all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest


class _Recorder:
    def __init__(self, folder: Path) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.coverage = coverage.Coverage(data_file=str(folder / f"map.{name}"), source_pkgs=["symgrad"], branch=False, config_file=False)
        self.times = folder / f"times.{name}"

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        """An interrupt may come while coverage holds its lock, which nobody would release then: tests of interrupts run without it."""
        traced = "interrupt" not in item.nodeid
        self.coverage.switch_context(item.nodeid)
        if not traced:
            self.coverage.stop()
        yield
        if not traced:
            self.coverage.start()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            with self.times.open("a") as file:
                file.write(f"{report.duration:.4f} {report.nodeid}\n")

    def pytest_sessionfinish(self) -> None:
        self.coverage.stop()
        self.coverage.save()


def pytest_configure(config: Any) -> None:
    is_controller = not hasattr(config, "workerinput") and config.getoption("numprocesses", None)
    if not is_controller:
        config.pluginmanager.register(_Recorder(Path(os.environ["MUTANTS_MAP"])), "mutants-recorder")
