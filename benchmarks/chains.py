"""Chains of ten elementwise ops: the cost of an op, while recording, and with its backward."""

from __future__ import annotations

import numpy as np
import torch
from harness import Task

import symgrad as sg


def arithmetic(x, a):
    for _ in range(2):
        x = x * a
        x = x + a
        x = x * 0.5
        x = x / a
        x = x - a
    return x


def transcendental(x, lib):
    for _ in range(5):
        x = lib.sin(x)
        x = lib.exp(x)
    return x


def arithmetic_by_hand(a, g):
    """Forward and backward of `arithmetic(a, a)`, written as one would for speed in NumPy."""
    x, saved = a, []
    for _ in range(2):
        x1 = x * a
        x4 = (x1 + a) * 0.5 / a
        saved.append((x, x4))
        x = x4 - a
    total = np.zeros_like(a)
    for x, x4 in reversed(saved):
        total -= g
        g = g / a
        total -= g * x4
        g = g * 0.5
        total += g
        total += g * x
        g = g * a
    total += g
    return total


def transcendental_by_hand(x, g):
    saved = []
    for _ in range(5):
        y = np.exp(np.sin(x))
        saved.append((x, y))
        x = y
    for x, y in reversed(saved):
        g = g * y
        g = g * np.cos(x)
    return g


def inputs(n, dtype):
    data = np.linspace(0.5, 1.5, n).astype(dtype)
    return data, sg.from_numpy(data.copy()).requires_grad_(), torch.from_numpy(data.copy()).requires_grad_()


def tasks():
    for n, number_type in ((1, np.float32), (100, np.float32), (100, np.float64), (10_000, np.float32), (1_000_000, np.float32)):
        yield from sized(n, number_type)


def sized(n, dtype):
    data, x, t = inputs(n, dtype)
    ones, g, tg = np.ones_like(data), sg.ones_like(x), torch.ones_like(t)
    small, large = n <= 100, n >= 1_000_000
    forward = {"torch": 0.6, "numpy by hand": 3.0} if small else {}
    both = {"torch": 0.3, "numpy by hand": 4.0} if small else {"numpy by hand": 1.1} if large else {"torch": 0.8}
    unit = "us" if n < 1e6 else "ms"

    def run(function, leaf, seed):
        def step():
            leaf.grad = None
            function(leaf).backward(seed)
            return leaf.grad

        return step

    label = f"{n:,} elements, {np.dtype(dtype).name}"
    yield Task(
        f"arithmetic, forward while recording, {label}",
        {
            "numpy by hand": lambda: arithmetic(data, data),
            "symgrad": lambda: arithmetic(x, x).detach(),
            "torch": lambda: arithmetic(t, t).detach(),
        },
        per=10, targets=forward, unit=unit,
    )
    yield Task(
        f"arithmetic, forward + backward, {label}",
        {
            "numpy by hand": lambda: arithmetic_by_hand(data, ones),
            "symgrad": run(lambda v: arithmetic(v, v), x, g),
            "torch": run(lambda v: arithmetic(v, v), t, tg),
        },
        per=10, targets=both, unit=unit,
    )
    yield Task(
        f"sin and exp, forward + backward, {label}",
        {
            "numpy by hand": lambda: transcendental_by_hand(data, ones),
            "symgrad": run(lambda v: transcendental(v, sg), x, g),
            "torch": run(lambda v: transcendental(v, torch), t, tg),
        },
        per=10, targets=both if small else {"numpy by hand": 1.1} if large else {}, unit=unit, rtol=1e-3,
    )
