"""Which tests a fault is given, and in which order: those that run its line, and those near it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mutants.faults import Fault


class Tests(NamedTuple):
    """The tests to run on a fault, in order, and whether they are all that run its line."""

    names: list[str]
    complete: bool


class Map(NamedTuple):
    """What a run without faults has shown: how long each test takes, and which lines it runs."""

    times: dict[str, float]
    files: list[Path]

    @classmethod
    def read(cls, folder: Path) -> Map:
        lines = [line.partition(" ") for path in folder.glob("times.*") for line in path.read_text().splitlines()]
        files = sorted(path for path in folder.glob("map.*") if "-" not in path.suffix)
        return cls({name: float(seconds) for seconds, _, name in lines}, files)

    def lines(self, path: str) -> dict[str, set[int]]:
        """For each test, the lines of a file that it runs."""
        from coverage.numbits import numbits_to_nums  # which the test suite does not need

        found: dict[str, set[int]] = {}
        for data in self.files:
            with sqlite3.connect(data) as db:
                rows = db.execute(
                    "select c.context, l.numbits from line_bits l join file f on f.id = l.file_id join context c on c.id = l.context_id"
                    " where f.path like ?",
                    (f"%/{path}",),
                )
                for context, bits in rows:
                    found.setdefault(context, set()).update(numbits_to_nums(bits))
        return {name: numbers for name, numbers in found.items() if name in self.times}


def select(fault: Fault, lines: dict[str, set[int]], times: Mapping[str, float], seconds: float) -> Tests:
    """The tests that run the line, then others that run its file, up to so many seconds of a run without faults.

    A line that runs at import, or once because its result is kept, is on the map of whichever test came first: that is why tests of
    the same file follow. The tests of a line that runs at import are all that run a function of its file.
    """
    near = {name for name, numbers in lines.items() if numbers & fault.functions} or set(times)
    running = next((found for line in (fault.line, fault.statement) if (found := {x for x, y in lines.items() if line in y})), set())
    if fault.line not in fault.functions or not running:
        running = near
    first = within(_ordered(running, fault.path, times), times, seconds)
    then = within(_ordered(near - running, fault.path, times), times, seconds - sum(map(times.__getitem__, first)))
    return Tests(first + then, len(first) == len(running))


def _ordered(names: set[str], path: str, times: Mapping[str, float]) -> list[str]:
    """File by file: first those with the name of the module, then those of which the greatest share is among the tests; peers last."""
    sizes = Counter(map(file_of, times))
    files: dict[str, list[str]] = {}
    for name in sorted(names, key=times.__getitem__):
        files.setdefault(file_of(name), []).append(name)
    stem = Path(path).stem.strip("_")
    ranked = sorted(files.items(), key=lambda item: ("tests/peers/" in item[0], stem not in item[0], -len(item[1]) / sizes[item[0]]))
    return [name for _, group in ranked for name in group]


def within(names: list[str], times: Mapping[str, float], seconds: float) -> list[str]:
    """Those that fit into the time: the fastest of them, in the order given."""
    chosen = set()
    for name in sorted(names, key=times.__getitem__):
        seconds -= times[name]
        if seconds < 0:
            break
        chosen.add(name)
    return [name for name in names if name in chosen]


def file_of(name: str) -> str:
    return name.partition("::")[0]
