"""Runs faults in forks of one process that has collected the suite: a pytest plugin (`-p mutants.forking`).

A fresh pytest takes seconds to import JAX and to collect the suite, a fork takes milliseconds. `MUTANTS_REQUESTS` and `MUTANTS_ANSWERS` are
descriptors of pipes. The first answer says that all is loaded. A request is a line of JSON with the file, its text without the fault, and
the tests to run; the answer is the first test that fails, or that the fault needs a fresh process. The fork replaces the code of functions
that are loaded already. The faulty file itself is in the tree, for modules that are imported later and for tests that start processes.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import json
import os
import pkgutil
import signal
import threading
import traceback
import warnings
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

NEEDS_PROCESS = "needs a fresh process"


def changed_code(before: CodeType, after: CodeType) -> list[tuple[CodeType, CodeType]] | None:
    """Pairs of functions' code that differ, inner ones too; None if the module's own statements differ, which have run already."""
    pairs: list[tuple[CodeType, CodeType]] = []
    if not _compare(before, after, pairs):
        return None
    return pairs


def _compare(before: CodeType, after: CodeType, pairs: list[tuple[CodeType, CodeType]]) -> bool:
    """Whether statements outside of functions are the same; functions that differ are added to the pairs."""
    inner = [[x for x in code.co_consts if isinstance(x, CodeType)] for code in (before, after)]
    if len(inner[0]) != len(inner[1]) or not _same_statements(before, after):
        return False
    for one, other in zip(*inner, strict=True):
        if one == other:
            continue
        is_function = bool(one.co_flags & 0x1)  # CO_OPTIMIZED: class bodies have run already
        if is_function:
            _nested(one, other, pairs)
        elif not _compare(one, other, pairs):
            return False
    return True


def _same_statements(before: CodeType, after: CodeType) -> bool:
    """Whether two bodies differ in the code of functions only."""
    consts = [[x for x in code.co_consts if not isinstance(x, CodeType)] for code in (before, after)]
    return before.co_code == after.co_code and repr(consts[0]) == repr(consts[1]) and before.co_names == after.co_names


def _nested(before: CodeType, after: CodeType, pairs: list[tuple[CodeType, CodeType]]) -> None:
    pairs.append((before, after))
    inner = [[x for x in code.co_consts if isinstance(x, CodeType)] for code in (before, after)]
    for one, other in zip(*inner, strict=False):
        if one != other and one.co_name == other.co_name:
            _nested(one, other, pairs)


def plant(path: Path, original: str, faulty: str) -> bool:
    """Put the fault into the functions that are loaded; False if that cannot be done."""
    pairs = changed_code(*(compile(text, str(path), "exec", dont_inherit=True) for text in (original, faulty)))
    if not pairs:
        return False
    real = os.path.realpath(path)
    replaced = False
    for f in [x for x in gc.get_objects() if type(x) is FunctionType]:  # isinstance() would ask objects, of which some of PyTorch warn
        for before, after in pairs:
            if f.__code__ == before and os.path.realpath(before.co_filename) == real:
                if f.__code__.co_freevars != after.co_freevars:
                    return False
                f.__code__ = after.replace(co_filename=f.__code__.co_filename)
                replaced = True
    return replaced


def import_all() -> None:
    """Import every module of the library, so that forks find their functions."""
    import symgrad
    import symgrad.compiler

    for package in (symgrad, symgrad.compiler):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def require_no_backends() -> None:
    """Raise if JAX has started: its threads are missing in forks, where its compiler then waits for ever, which would count as noticed."""
    from jax._src import xla_bridge

    if xla_bridge.backends_are_initialized():
        raise RuntimeError("a test module starts JAX when it is imported: make its arrays in the tests")


class Forking:
    def __init__(self, requests: int, answers: int) -> None:
        self._requests, self._answers = requests, answers
        self._failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        import_all()
        require_no_backends()
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        gc.freeze()  # forks share memory that the collector does not touch
        with os.fdopen(self._requests) as requests, os.fdopen(self._answers, "w", buffering=1) as answers:
            answers.write("ready\n")  # from now on a fault in the tree is not loaded by this process
            for line in requests:
                answers.write(json.dumps(self._answer(json.loads(line), items)) + "\n")
        return True

    def _answer(self, request: dict[str, Any], items: dict[str, Any]) -> str | None:
        """The first failing test of a request, in a fork."""
        reading, writing = os.pipe()
        with warnings.catch_warnings(action="ignore"):  # JAX warns of forks; it has no threads before its first computation
            child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                os.setsid()
                answer = self._run(request, items)
            except BaseException:  # of pytest itself: the fault is not to blame
                answer = f"{NEEDS_PROCESS}: {traceback.format_exc()}"
            os.write(writing, json.dumps(answer).encode())
            os._exit(0)
        os.close(writing)
        clock = threading.Timer(request["seconds"], _kill, (child,))
        clock.start()
        with os.fdopen(reading, "rb") as pipe:
            said = pipe.read()
        os.waitpid(child, 0)
        late = not clock.is_alive()
        clock.cancel()
        return json.loads(said) if said else "the clock" if late else "the process died"

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._failed |= report.failed

    def _run(self, request: dict[str, Any], items: dict[str, Any]) -> str | None:
        gc.unfreeze()  # so that it lists functions
        path = Path(request["path"])
        faulty = path.read_text()
        if faulty != request["original"] and not plant(path, request["original"], faulty):
            return NEEDS_PROCESS
        gc.freeze()  # or each collection would walk, and copy, all that the forks share
        chosen = [items[name] for name in request["tests"] if name in items]
        for item, following in itertools.zip_longest(chosen, chosen[1:]):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)  # with what plugins do around a test: marks of warnings
            if self._failed:
                return f"FAILED {item.nodeid}"
        return None


def _kill(child: int) -> None:
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)


def pytest_configure(config: Any) -> None:
    config.pluginmanager.register(Forking(int(os.environ["MUTANTS_REQUESTS"]), int(os.environ["MUTANTS_ANSWERS"])), "mutants-forking")
