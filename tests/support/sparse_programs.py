"""Random programs of slices, rolls, gathers, stencils, joins and elementwise ops on one vector."""

from __future__ import annotations

import numpy as np

import symgrad as sg

F = sg.nn.functional
MOST = 60
"""Values with more elements are cut."""


def random_program(seed):
    """Return a function of one vector, and the vector's length."""
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(len(STEPS))), int(rng.integers(2**31))) for _ in range(rng.integers(3, 12))]
    length = int(rng.integers(1, 14))

    def program(x):
        values = [x]
        for kind, number in steps:
            step = np.random.default_rng(number)
            found = STEPS[kind](step, *(values[step.integers(len(values))] for _ in range(2)))
            if found.numel():
                values.append(found.reshape(-1)[:MOST])
        return sg.cat(values[-2:]) if len(values) > 2 else values[-1]

    return program, length


def _unary(rng, a, b):
    return [sg.sin, sg.tanh, sg.square, sg.exp, lambda t: 1.5 * t + 0.25, lambda t: t.relu(), abs][rng.integers(7)](0.5 * a)


def _binary(rng, a, b):
    n = min(a.numel(), b.numel())
    a, b = a[:n], b[b.numel() - n :]
    return [lambda: a * b, lambda: a + 0.7 * b, lambda: sg.maximum(a, b), lambda: sg.where(a > 0.3, a, b), lambda: a / (2 + b * b)][
        rng.integers(5)
    ]()


def _sliced(rng, a, b):
    start, stop = sorted(rng.integers(0, a.numel() + 1, 2))
    return a[start : stop : int(rng.integers(1, 4))]


def _turned(rng, a, b):
    return a.roll(int(rng.integers(-5, 6)), 0) if rng.integers(2) else a.flip(0)


def _gathered(rng, a, b):
    return a[sg.tensor(rng.integers(-a.numel(), a.numel(), rng.integers(1, 10)))]


def _scattered(rng, a, b):
    places = sg.tensor(rng.integers(0, 9, a.numel()))
    return sg.zeros(9, dtype=a.dtype).index_add(0, places, a)


def _stencil(rng, a, b):
    p = F.pad(a, (1, 1))
    return p[2:] - 2 * a + 0.5 * p[:-2] * a


def _joined(rng, a, b):
    return sg.cat([a, b]) if rng.integers(2) else sg.stack([a, a * a], int(rng.integers(2)))


def _padded(rng, a, b):
    return F.pad(a, (int(rng.integers(0, 3)), int(rng.integers(-1, 3))) if a.numel() > 1 else (1, 2), value=2.0)


def _grid(rng, a, b):
    rows = next(k for k in (4, 3, 2, 1) if a.numel() % k == 0)
    grid = a.reshape(rows, -1)
    inner = F.pad(grid, (1, 1, 1, 1))
    return [
        lambda: grid.T, lambda: grid.sum(1), lambda: grid.logsumexp(0), lambda: grid * grid[:1], lambda: grid[:, ::2],
        lambda: grid.roll(1, 1), lambda: inner[1:-1, :-2] + inner[2:, 1:-1] * grid, lambda: grid[1:] - grid[:-1], lambda: grid.amax(1),
        lambda: grid.expand(2, *grid.shape), lambda: grid.unsqueeze(1) * grid[:, None, :1],
        lambda: grid.tril(), lambda: F.softmax(grid, 0), lambda: grid.repeat(2, 1),
    ][rng.integers(14)]()  # fmt: skip


def _opaque(rng, a, b):
    return sg.cat([a[:3].sort()[0], a[3:]]) if rng.integers(2) else a[:4].cumsum(0)


STEPS = [_unary, _binary, _binary, _sliced, _turned, _gathered, _scattered, _stencil, _joined, _padded, _grid, _grid, _opaque]
