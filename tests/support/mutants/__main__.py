"""Seed one-line faults into copies of the tree, and report which of them no test notices.

The suite runs once on instrumented code to learn which tests run which lines (`--map FOLDER` keeps that; `--variants 2` runs two variants
of each parametrised test only), with the tests beside PyTorch if it is installed. Then each fault is put into a copy of the tree, and the
tests that run its line are run until one fails, then others that run its file. Where these take longer than `--seconds`, only the fastest
are run. A fault that hangs is stopped by the clock and counts as noticed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import difflib
import importlib.util
import itertools
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from mutants.faults import Fault, draw
from mutants.nursery import NEEDS_PROCESS, Nursery
from mutants.selection import Map, Tests, file_of, select, within

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("symgrad", "compiler")
MARKS = "not slow" if importlib.util.find_spec("torch") else "not slow and not peer"
"""The tests that run: those beside PyTorch, too, if it is installed."""
TESTS_FAILED, NO_TESTS = 1, 5
"""pytest's exit codes if some have failed, and if it has found none."""
_IGNORED = shutil.ignore_patterns(
    ".git", ".venv*", ".tox", ".*cache", ".hypothesis", ".coverage*", "__pycache__", "_build", "*.egg-info", "build", "dist"
)


def environment(tree: Path) -> dict[str, str]:
    folders = (tree, tree / "tests/support", ROOT / "tests/support")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONDONTWRITEBYTECODE": "1"}


def pytest(tree: Path, *args: str, seconds: float | None = None, **variables: str) -> tuple[int | None, str]:
    """The exit code and the end of what was printed; None as the code if the time ran out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", "-m", MARKS, *args]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment(tree) | variables, text=True, timeout=seconds, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None, "the time ran out"
    return done.returncode, done.stdout[-2000:]


def make_map(tree: Path, folder: Path, workers: int, variants: int = 0) -> None:
    """Run the suite on instrumented code. Tests that fail there are named, and are not among those that can notice a fault."""
    code, text = pytest(tree, "-n", str(workers), "-p", "mutants.recording", MUTANTS_MAP=str(folder), MUTANTS_VARIANTS=str(variants))
    if code not in (0, TESTS_FAILED):
        raise SystemExit(f"the suite must run before faults are seeded:\n{text}")
    if code == TESTS_FAILED:
        print(f"left out, since they fail without a fault:\n{text}", flush=True)


def noticed(tree: Path, fault: Fault, tests: list[str], times: Mapping[str, float], nursery: Nursery | None = None) -> str | None:
    """What fails with the fault in a copy of the tree, and passes without it; None if nothing does."""
    if nursery is not None:
        by = noticed_in_forks(nursery, fault, tests, times)
        if by is None or not by.startswith(NEEDS_PROCESS):
            return by
    for batch in batches(tests, times):
        while batch:
            with planted(tree, fault):
                by = failure(tree, batch, times)
            if by is None:
                break
            if not fails_anyway(tree, by):
                return by
            batch = [name for name in batch if name != name_of(by)]
            times = {name_of(by): 0.0, **times}  # known, and not chosen
    return None


def noticed_in_forks(nursery: Nursery, fault: Fault, tests: list[str], times: Mapping[str, float]) -> str | None:
    original = (nursery.tree / fault.path).read_text()
    while True:
        with planted(nursery.tree, fault):
            by = nursery.failure(fault.path, original, tests, times)
        if by is None or not by.startswith("FAILED ") or nursery.failure(fault.path, original, [name_of(by)], times) is None:
            return by
        tests = [name for name in tests if name != name_of(by)]  # it fails without the fault, too


@contextlib.contextmanager
def planted(tree: Path, fault: Fault) -> Iterator[None]:
    path = tree / fault.path
    before = path.read_text()
    path.write_text(fault.text)
    try:
        yield
    finally:
        path.write_text(before)


def fails_anyway(tree: Path, by: str) -> bool:
    """Whether a test fails without any fault, too, if it runs alone: such a test has noticed nothing."""
    return "::" in by and pytest(tree, name_of(by))[0] != 0


def name_of(by: str) -> str:
    return by.partition(" ")[2]


def batches(tests: list[str], times: Mapping[str, float], files: int = 6, seconds: float = 15) -> Iterator[list[str]]:
    """A few tests that start fast, then the others: most faults are noticed by the first."""
    begun = [*dict.fromkeys(map(file_of, tests))][:files]
    first = within([name for name in tests if file_of(name) in begun], times, seconds)
    chosen = set(first)
    yield from filter(None, (first, [name for name in tests if name not in chosen]))


def failure(tree: Path, tests: list[str], times: Mapping[str, float]) -> str | None:
    """The first of these tests that fails, or what else went wrong; None if all pass. A test that takes ten times as long hangs."""
    files = dict.fromkeys(map(file_of, tests))
    (tree / ".chosen").write_text("\n".join(tests))
    (tree / ".known").write_text("\n".join(times))
    known = [times.get(name, 0.0) for name in tests]
    code, text = pytest(
        tree, "-x", "-p", "mutants.choosing", "-o", f"timeout={60 + 10 * max(known):.0f}", *files, seconds=300 + 10 * sum(known),
        MUTANTS_CHOSEN=str(tree / ".chosen"), MUTANTS_KNOWN=str(tree / ".known"),
    )  # fmt: skip
    if code in (0, NO_TESTS):
        return None
    named = [line for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return named[-1].partition(" - ")[0] if named else "the clock" if code is None or " Timeout " in text else f"exit code {code}"


def shown(fault: Fault) -> str:
    before = (ROOT / fault.path).read_text().splitlines()
    lines = difflib.unified_diff(before, fault.text.splitlines(), lineterm="", n=1)
    return "\n".join(itertools.islice(lines, 2, None))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None, help="drawn and printed if it is not given")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--map", type=Path, help="a folder in which the map of lines to tests is, or will be, kept")
    parser.add_argument("--variants", type=int, default=0, help="of each parametrised test that run for the map; all if it is 0")
    parser.add_argument("--seconds", type=float, default=600, help="of tests, as fast as they are without a fault, for one fault")
    parser.add_argument("--within", nargs="*", help="folders to draw lines from; symgrad and compiler if none is given")
    options = parser.parse_args()
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        trees = [Path(temporary, str(i)) for i in range(options.workers)]
        for tree in trees:
            shutil.copytree(ROOT, tree, symlinks=True, ignore=_IGNORED)
        folder = options.map or Path(temporary, "map")
        if not folder.exists():
            folder.mkdir(parents=True)
            make_map(trees[0], folder, options.workers, options.variants)
        known = Map.read(folder)
        free: queue.Queue[Nursery] = queue.Queue()

        def run(fault: Fault) -> tuple[Fault, str | None, Tests, float]:
            nursery, began = free.get(), time.monotonic()
            try:
                tests = select(fault, known.lines(fault.path), known.times, options.seconds, known.recorded)
                return fault, noticed(nursery.tree, fault, tests.names, known.times, nursery), tests, time.monotonic() - began
            finally:
                free.put(nursery)

        survivors = by_peers = 0
        drawn = itertools.islice(draw(ROOT, options.within or FOLDERS, seed), options.count)
        with contextlib.ExitStack() as stack:
            for tree in trees:
                free.put(stack.enter_context(Nursery(tree, environment(tree), MARKS)))
            pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(options.workers))
            for fault, by, tests, seconds in pool.map(run, drawn):
                survivors += by is None
                by_peers += by is not None and "tests/peers/" in by
                ran = f"all {len(tests.names)} tests" if tests.complete else f"the {len(tests.names)} fastest tests"
                verdict = f"killed by {by}" if by else f"SURVIVED {ran}"
                print(f"{fault.path}:{fault.line} {fault.what}: {verdict} ({seconds:.0f} s)", flush=True)
                if by is None:
                    print(shown(fault), flush=True)
    print(f"{options.count - survivors} of {options.count} killed, {by_peers} of them beside PyTorch (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
