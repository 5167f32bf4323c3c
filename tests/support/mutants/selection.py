"""Which tests a fault is given, and in which order: those that run its line, and those near it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mutants.faults import Fault


class Tests(NamedTuple):
    """The tests to run on a fault, in order, and whether they are all that run its line."""

    names: list[str]
    complete: bool


class Map(NamedTuple):
    """What a run without faults has shown: how long each test takes, and which lines it runs.

    Variants that were left out are taken to last as long as the others of their test.
    """

    times: dict[str, float]
    recorded: frozenset[str]
    workers: list[Worker]

    @classmethod
    def read(cls, folder: Path) -> Map:
        workers = [Worker.read(folder, path.suffix) for path in sorted(folder.glob("tests.*"))]
        times = {name: seconds for worker in workers for name, seconds in zip(worker.tests, worker.seconds, strict=True)}
        left_out = {name for path in folder.glob("left_out.*") for name in path.read_text().splitlines()} - times.keys()
        families: dict[str, list[float]] = {}
        for name, seconds in times.items():
            families.setdefault(family(name), []).append(seconds)
        guessed = {name: sum(known) / len(known) for name in sorted(left_out) if (known := families.get(family(name)))}
        return cls(times | guessed, frozenset(times), workers)

    def lines(self, path: str) -> dict[str, set[int]]:
        """For each recorded test, the lines of a file that it runs."""
        found: dict[str, set[int]] = {}
        for worker in self.workers:
            for name, numbers in worker.lines(path):
                found.setdefault(name, set()).update(numbers)
        return found


class Worker(NamedTuple):
    """What one process has recorded: its tests, the blocks that each has run, and the lines of the blocks."""

    tests: list[str]
    seconds: list[float]
    counts: np.ndarray[Any, Any]
    hits: np.ndarray[Any, Any]
    files: dict[str, tuple[int, list[list[int]]]]

    @classmethod
    def read(cls, folder: Path, suffix: str) -> Worker:
        rows = [line.split(" ", 2) for line in (folder / f"tests{suffix}").read_text().splitlines()]
        seconds, tests = [float(row[0]) for row in rows], [row[2] for row in rows]
        counts = np.array([int(row[1]) for row in rows], np.int64)
        hits = np.fromfile(folder / f"hits{suffix}", np.uint32)[: counts.sum()]
        blocks = map(json.loads, (folder / f"blocks{suffix}").read_text().splitlines())
        return cls(tests, seconds, counts, hits, {path: (first, lines) for path, first, lines in blocks})

    def lines(self, path: str) -> Iterator[tuple[str, set[int]]]:
        first, lines = self.files.get(path, (0, []))
        places = np.flatnonzero((self.hits >= first) & (self.hits < first + len(lines)))
        owners = np.searchsorted(np.cumsum(self.counts), places, side="right")
        for owner, hit in zip(owners.tolist(), self.hits[places].tolist(), strict=True):
            yield self.tests[owner], set(lines[hit - first])


def select(
    fault: Fault, lines: dict[str, set[int]], times: Mapping[str, float], seconds: float, recorded: frozenset[str] | None = None
) -> Tests:
    """The tests that run the line, their other variants, then tests that run its file, up to so many seconds of a run without faults.

    A line that runs at import, or once because its result is kept, is on the map of whichever test came first: that is why tests of
    the same file follow. The tests of a line that runs at import are all that run a function of its file.
    """
    recorded = frozenset(times) if recorded is None else recorded
    near = {name for name, numbers in lines.items() if numbers & fault.functions} or set(recorded)
    running = next((found for line in (fault.line, fault.statement) if (found := {x for x, y in lines.items() if line in y})), set())
    if fault.line not in fault.functions or not running:
        running = near
    names: list[str] = []
    for group in (running, _variants(running, times, recorded), near - running, _variants(near - running, times, recorded)):
        left = seconds - sum(map(times.__getitem__, names))
        names += within(_ordered(group - {*names}, fault.path, times), times, left)
    return Tests(names, len(running.intersection(names)) == len(running))


def _variants(names: set[str], times: Mapping[str, float], recorded: frozenset[str]) -> set[str]:
    """Variants of these tests that were left out of the map."""
    families = {family(name) for name in names}
    return {name for name in times.keys() - recorded if family(name) in families}


def family(name: str) -> str:
    """The test without its parameters."""
    return name.partition("[")[0]


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
