"""A process that has collected the suite, and runs tests on faults in forks of itself; see `forking`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from mutants.forking import NEEDS_PROCESS


class Nursery:
    """One for each copy of the tree; `marks` says which tests it collects."""

    def __init__(self, tree: Path, environment: Mapping[str, str], marks: str = "") -> None:
        self.tree = tree
        theirs, ours = os.pipe()
        here, there = os.pipe()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "mutants.forking", "-m", marks]
        variables = {**environment, "MUTANTS_REQUESTS": str(theirs), "MUTANTS_ANSWERS": str(there)}
        with (tree / ".nursery.log").open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=tree, env=variables, pass_fds=(theirs, there), stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
            )
        os.close(theirs)
        os.close(there)
        self._requests, self._answers = os.fdopen(ours, "w", buffering=1), os.fdopen(here)
        self._read()  # a fault that is put into the tree before the library is loaded would be in all forks

    def _read(self) -> str:
        line = self._answers.readline()
        if not line:
            raise RuntimeError((self.tree / ".nursery.log").read_text()[-2000:])
        return line

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, where: TracebackType | None) -> None:
        self._requests.close()
        self._process.wait()
        self._answers.close()

    def failure(self, path: str, original: str, tests: list[str], times: Mapping[str, float]) -> str | None:
        """The first of the tests that fails on the file as it is in the tree; `NEEDS_PROCESS` if a fork cannot run it."""
        seconds = 60 + 10 * sum(times.get(name, 1.0) for name in tests)
        request = {"path": str(self.tree / path), "original": original, "tests": tests, "seconds": seconds}
        self._requests.write(json.dumps(request) + "\n")
        found: str | None = json.loads(self._read())
        return found


__all__ = ["NEEDS_PROCESS", "Nursery"]
