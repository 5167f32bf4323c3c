"""Which tests run which lines: the suite runs once on instrumented code.

A pytest plugin (`-p mutants.recording`); every worker writes what `selection.Map` reads, test by test, so that a run that was stopped is
a map of the tests that it has reached. `MUTANTS_VARIANTS` says how many variants of a parametrised test run; the names of the others are
kept.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mutants.blocks import Hits, instrumented

BLOCKS = 1 << 17


class _Recorder:
    def __init__(self, folder: Path, tree: Path) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        self._tests, self._hits, self._blocks = (folder / f"{kind}.{name}" for kind in ("tests", "hits", "blocks"))
        self._left_out = folder / f"left_out.{name}"
        self._tree, self._next, self._ran = tree.resolve(), 0, Hits(BLOCKS)
        self._seconds: float | None = None

    def instrument(self) -> None:
        """Instrument the modules of the library that are imported from now on."""
        original = SourceFileLoader.get_code

        def get_code(loader: SourceFileLoader, fullname: str) -> Any:
            path = Path(loader.path).resolve()
            inside = path.is_relative_to(self._tree) and path.relative_to(self._tree).parts[0] in ("symgrad", "compiler")
            return self._code(path, loader.path) if inside else original(loader, fullname)

        SourceFileLoader.get_code = get_code  # type: ignore[method-assign]

    def _code(self, path: Path, name: str) -> Any:
        code, lines = instrumented(path.read_text(), name, self._ran, self._next)
        with self._blocks.open("a") as file:
            file.write(json.dumps([path.relative_to(self._tree).as_posix(), self._next, lines]) + "\n")
        self._next += len(lines)
        if self._next > BLOCKS:
            raise RuntimeError(f"more than {BLOCKS} blocks of statements: raise BLOCKS")
        return code

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        chosen = sample([item.nodeid for item in items], int(os.environ.get("MUTANTS_VARIANTS", "0")))
        left_out = [item for item in items if item.nodeid not in chosen]
        self._left_out.write_text("".join(f"{item.nodeid}\n" for item in left_out))
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid in chosen]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: Any) -> Iterator[None]:
        self._ran[:] = bytes(BLOCKS)
        self._seconds = None
        yield
        if self._seconds is not None:
            found = np.flatnonzero(np.frombuffer(bytes(self._ran), np.uint8)).astype(np.uint32)
            with self._hits.open("ab") as file:
                file.write(found.tobytes())
            with self._tests.open("a") as file:
                file.write(f"{self._seconds:.4f} {len(found)} {item.nodeid}\n")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self._seconds = report.duration
        elif report.failed:
            self._seconds = None


def sample(names: list[str], variants: int) -> set[str]:
    """As many variants of each test, evenly among those that it has; all if the number is 0."""
    families: dict[str, list[str]] = defaultdict(list)
    for name in names:
        families[name.partition("[")[0]].append(name)
    return {x for group in families.values() for x in (group[:: -(-len(group) // variants)] if variants else group)}


def pytest_configure(config: Any) -> None:
    is_controller = not hasattr(config, "workerinput") and config.getoption("numprocesses", None)
    if not is_controller:
        recorder = _Recorder(Path(os.environ["MUTANTS_MAP"]), Path.cwd())
        recorder.instrument()
        config.pluginmanager.register(recorder, "mutants-recorder")
