"""Seed one-line faults into copies of the tree, and report which of them no test notices.

The suite runs once under coverage to learn which tests run which lines (`--map FOLDER` keeps that); then each fault is put into a copy of
the tree, and the tests that run its line are run until one fails. A fault that hangs is killed by the clock and counts as noticed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import difflib
import itertools
import os
import queue
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mutants.faults import Fault, draw

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("symgrad", "compiler")
_IGNORED = shutil.ignore_patterns(".*", "__pycache__", "_build", "*.egg-info", "build", "dist")


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(tree), str(tree / "tests/support"))), "PYTHONDONTWRITEBYTECODE": "1"}


def pytest(tree: Path, *args: str, seconds: float | None = None, **variables: str) -> tuple[int | None, str]:
    """The exit code and the end of what was printed; None as the code if the time ran out."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *args]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment(tree) | variables, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return None, "the time ran out"
    return done.returncode, done.stdout[-2000:]


def make_map(tree: Path, folder: Path, workers: int) -> None:
    code, text = pytest(tree, "-n", str(workers), "-p", "mutants.covering", MUTANTS_MAP=str(folder))
    if code != 0:
        raise SystemExit(f"the suite must pass before faults are seeded:\n{text}")


def survives(tree: Path, fault: Fault, tests: list[str], seconds: float) -> bool:
    """Put the fault into a copy of the tree, run tests until one fails, and take it out again."""
    path = tree / fault.path
    before = path.read_text()
    chosen = tree / ".chosen-tests"
    chosen.write_text("\n".join(tests))
    path.write_text(fault.text)
    try:
        code, _ = pytest(tree, "-x", f"@{chosen}", seconds=seconds)
    finally:
        path.write_text(before)
    return code == 0


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
    parser.add_argument("--seconds", type=float, default=900, help="for the tests of one fault")
    options = parser.parse_args()
    from mutants.covering import Covering  # needs coverage, which the test suite does not

    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        trees: queue.Queue[Path] = queue.Queue()
        for i in range(options.workers):
            shutil.copytree(ROOT, Path(temporary, str(i)), symlinks=True, ignore=_IGNORED)
            trees.put(Path(temporary, str(i)))
        folder = options.map or Path(temporary, "map")
        if not folder.exists():
            folder.mkdir(parents=True)
            make_map(Path(temporary, "0"), folder, options.workers)
        covering = Covering(folder)

        def run(fault: Fault) -> tuple[Fault, bool, float]:
            tree, began = trees.get(), time.monotonic()
            try:
                tests = covering.tests(fault.path, fault.line, fault.statement)
                return fault, survives(tree, fault, tests, options.seconds), time.monotonic() - began
            finally:
                trees.put(tree)

        survivors = 0
        with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
            for fault, survived, seconds in pool.map(run, itertools.islice(draw(ROOT, FOLDERS, seed), options.count)):
                survivors += survived
                print(f"{'SURVIVED' if survived else 'killed'} {fault.path}:{fault.line} {fault.what} ({seconds:.0f} s)", flush=True)
                if survived:
                    print(shown(fault), flush=True)
    print(f"{options.count - survivors} of {options.count} killed (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
