"""Which tests run which lines: the suite runs once under coverage, each test as a context of its own.

A pytest plugin (`-p mutants.covering`); every worker writes `data/map.<worker>`, and `Covering` reads them all.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest
from coverage.numbits import numbits_to_nums


class _Recorder:
    def __init__(self, folder: Path) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self.coverage = coverage.Coverage(data_file=str(folder / f"map.{name}"), source_pkgs=["symgrad"], branch=False, config_file=False)
        self.times = folder / f"times.{name}"

    def pytest_sessionstart(self) -> None:
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self.coverage.switch_context(item.nodeid)
        yield

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


class Covering:
    """The tests that run a line, the fastest files first."""

    def __init__(self, folder: Path) -> None:
        self.maps = sorted(path for path in folder.glob("map.*") if "-" not in path.suffix)
        self.times: dict[str, float] = {}
        for path in folder.glob("times.*"):
            for line in path.read_text().splitlines():
                seconds, _, name = line.partition(" ")
                self.times[name] = float(seconds)

    def tests(self, path: str, *lines: int) -> list[str]:
        """Node ids of the tests that run the first of these lines that any test runs; all tests if they run at import only."""
        names = next((found for line in lines if (found := self._running(path, line))), set(self.times))
        return self._ordered(names)

    def _running(self, path: str, line: int) -> set[str]:
        found: set[str] = set()
        for data in self.maps:
            with sqlite3.connect(data) as db:
                rows = db.execute(
                    "select c.context, l.numbits from line_bits l join file f on f.id = l.file_id join context c on c.id = l.context_id"
                    " where f.path like ?",
                    (f"%/{path}",),
                )
                found |= {context for context, bits in rows if line in numbits_to_nums(bits)}
        return found & self.times.keys()

    def _ordered(self, names: set[str]) -> list[str]:
        files: dict[str, list[str]] = {}
        for name in sorted(names):
            files.setdefault(name.partition("::")[0], []).append(name)
        return [name for _, group in sorted(files.items(), key=lambda item: sum(map(self.times.__getitem__, item[1]))) for name in group]
