"""Closed forms of deep programs: derived and printed, over a doubling series; SymPy's own diff where it still ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import sympy

import symgrad as sg
from symgrad.compiler.autodiff.pull import derivatives

REPEATS = 3
CHAINS, NETS, SYMPY = (125, 250, 500, 1000, 2000), (25, 50, 100, 200), (4, 8, 12)


def chain(depth: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(e: Any) -> Any:
        for _ in range(depth):
            e = e * e.sin() + 1
        return e

    return f, [sg.spec((), dtype=sg.float64)]


def net(depth: int) -> tuple[Callable[..., Any], list[Any]]:
    def f(x: Any, *layers: Any) -> Any:
        for w in layers:
            x = (x @ w).tanh()
        return x.sum()

    return f, [sg.spec((8, 16)), *(sg.spec((16, 16)) for _ in range(depth))]


def best(run: Callable[[], object]) -> float:
    """Seconds of this process: another one on the same core does not count."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def check() -> None:
    f, spec = chain(12)
    x = sg.tensor(0.3, dtype=sg.float64, requires_grad=True)
    _, (slope,) = sg.derive(f)(*spec)(x)
    f(x).backward()
    np.testing.assert_allclose(slope, x.grad, rtol=1e-12)


def row(name: str, program: tuple[Callable[..., Any], list[Any]], depth: int, target: float | None) -> str:
    f, given = program
    deriver = sg.derive(f)
    made = best(lambda: deriver(*given))
    d = deriver(*given)
    graph = best(lambda: derivatives(d.graph, d.wrt, 1))
    printed = best(lambda: str(d))
    total = made + printed
    verdict = "" if target is None else f" (< {target:g} s: {'met' if total < target else 'missed'})"
    return f"| {name}, {depth:,} | {graph:.2f} | {made:.2f} | {printed:.2f} | {total:.2f}{verdict} | {1e3 * total / depth:.2f} |"


def by_sympy(depth: int) -> str:
    e = x = sympy.Symbol("x", real=True)
    for _ in range(depth):
        e = e * sympy.sin(e) + 1
    start = time.process_time()
    slope = sympy.diff(e, x)
    seconds = time.process_time() - start
    ours = best(lambda: str(sg.derive(chain(depth)[0])(*chain(depth)[1])))
    return f"| {depth} | {seconds:.3f} | {slope.count_ops():,} | {ours:.3f} |"


def report() -> str:
    check()
    lines = ["Times are CPU times.", "", "| program, depth | chain rule, s | derived, s | printed, s | all, s | ms for each level |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    lines += [row("`e = e*sin(e) + 1`", chain(n), n, 2 if n == 1000 else None) for n in CHAINS]
    lines += [row("layers `tanh(x @ w)`", net(n), n, 3 if n == 100 else None) for n in NETS]
    lines += ["", "The same chain, written out and differentiated with SymPy's `diff`:", ""]
    lines += ["| depth | SymPy, s | its operations | symgrad, derived and printed, s |", "| --- | --- | --- | --- |", *map(by_sympy, SYMPY)]
    return "\n".join(lines)
