"""Contenders of one task, interleaved in one process on one core; correctness first, then minimum and median."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Task:
    """`contenders` do the same work and return comparable arrays; `per` divides the time (ops in a chain)."""

    title: str
    contenders: dict[str, Callable[[], object]]
    per: int = 1
    unit: str = "us"
    rtol: float = 1e-4
    targets: dict[str, float] = field(default_factory=dict)
    """Largest wanted ratio of symgrad to another contender."""
    contexts: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = field(default_factory=dict)
    """What a contender runs in, entered once for many repetitions."""

    def inside(self, name: str) -> contextlib.AbstractContextManager[object]:
        return self.contexts.get(name, contextlib.nullcontext)()


@dataclass
class Result:
    task: Task
    minimum: dict[str, float]
    median: dict[str, float]

    def ratio(self, other: str) -> float:
        return self.minimum["symgrad"] / self.minimum[other]


def arrays(value: object) -> list[np.ndarray]:
    items = value if isinstance(value, (list, tuple)) else [value]
    return [np.asarray(_nonzeros(item) if hasattr(item, "tocsr") else item) for item in items]


def _nonzeros(matrix: Any) -> object:
    """Return the values of a sparse matrix, row by row."""
    rows = matrix.tocsr()
    rows.sort_indices()
    return rows.data


def check(task: Task) -> None:
    results = {}
    for name, run in task.contenders.items():
        with task.inside(name):
            results[name] = arrays(run())
    reference_name, reference = next(iter(results.items()))
    for name, result in results.items():
        for got, wanted in zip(result, reference, strict=True):
            scale = float(np.abs(wanted).max(initial=1e-30))
            np.testing.assert_allclose(got, wanted, rtol=task.rtol, atol=task.rtol * scale, err_msg=f"{name} vs {reference_name}")


def measure(task: Task, seconds: float = 2.0, rounds: int = 15) -> Result:
    """Time all contenders in turn, in rounds so short that little else disturbs them: at least `rounds`, and for so many seconds."""
    check(task)
    numbers = {}
    for name, run in task.contenders.items():
        with task.inside(name):
            numbers[name] = _repeats(run, seconds / 200 / len(task.contenders))
    times: dict[str, list[float]] = {name: [] for name in task.contenders}
    begin = time.perf_counter()
    while rounds > 0 or time.perf_counter() - begin < seconds:
        rounds -= 1
        for name, run in task.contenders.items():
            with task.inside(name):
                run()  # what the others left in the caches is their own
                times[name].append(_time(run, numbers[name]) / numbers[name] / task.per)
    return Result(task, {n: min(t) for n, t in times.items()}, {n: statistics.median(t) for n, t in times.items()})


def _time(run: Callable[[], object], number: int) -> float:
    start = time.perf_counter()
    for _ in range(number):
        run()
    return time.perf_counter() - start


def _repeats(run: Callable[[], object], seconds: float) -> int:
    once = min(_time(run, 1) for _ in range(3))
    return max(1, int(seconds / max(once, 1e-7)))


def table(results: list[Result]) -> str:
    """Markdown: one row for each task, times as `min / median`, ratios by minimum."""
    lines = ["| task | symgrad | others (min / median) | symgrad / other (target) |", "| --- | --- | --- | --- |"]
    for result in results:
        task = result.task
        scale = {"us": 1e6, "ms": 1e3}[task.unit]
        cell = {n: f"{result.minimum[n] * scale:.3g} / {result.median[n] * scale:.3g} {task.unit}" for n in task.contenders}
        others = [n for n in task.contenders if n != "symgrad"]
        ratios = []
        for n in others:
            wanted = task.targets.get(n)
            note = "" if wanted is None else f" (≤ {wanted:g}{'' if result.ratio(n) <= wanted else ', missed'})"
            ratios.append(f"{result.ratio(n):.2f}x {n}{note}")
        lines.append(f"| {task.title} | {cell['symgrad']} | {'; '.join(f'{n} {cell[n]}' for n in others)} | {'; '.join(ratios)} |")
    return "\n".join(lines)
