"""Compiled functions by back end: NumPy and XLA, beside NumPy with the same care for memory by hand, hand-written jax.jit, and torch.

`symgrad` is `compile(f, backend="numpy")`. All contenders do whole training steps, or a value with its gradients.
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import torch
from harness import Task

import symgrad as sg

_RATE = 1e-7  # so that every call does the same work
NOTE = """The NumPy back end (`backend="numpy"`) compared with the others. XLA steps are measured during their first thousand runs,
before small tensors share pooled buffers.

"""


def _perceptron_data(sizes, batch):
    rng = np.random.default_rng(0)
    shapes = [s for a, b in pairwise(sizes) for s in ((b, a), (b,))]
    parameters = [(rng.normal(size=s) / np.sqrt(s[-1])).astype(np.float32) for s in shapes]
    return parameters, *(rng.normal(size=(batch, n)).astype(np.float32) for n in (sizes[0], sizes[-1]))


def _perceptron_by_hand(sizes, batch, momentum):
    """Memory for everything is made once, and every product and sum is written into it."""
    parameters, x, y = _perceptron_data(sizes, batch)
    weights, biases = parameters[::2], parameters[1::2]
    hidden = [np.empty((batch, n), np.float32) for n in sizes[1:]]
    errors = [np.empty((batch, n), np.float32) for n in sizes[1:]]
    dead = [np.empty((batch, n), np.bool_) for n in sizes[1:]]
    gradients = [np.empty_like(p) for p in parameters]
    scratch = [np.empty_like(p) for p in parameters]
    velocity = [np.zeros_like(p) for p in parameters]
    last = len(weights) - 1

    def step():
        h = x
        for i, (w, b) in enumerate(zip(weights, biases, strict=True)):
            np.dot(h, w.T, out=hidden[i])
            hidden[i] += b
            if i < last:
                np.maximum(hidden[i], 0, out=hidden[i])
            h = hidden[i]
        error = np.subtract(h, y, out=errors[last])
        loss = np.vdot(error, error) / error.size
        error *= 2 / error.size
        for i in range(last, -1, -1):
            np.dot(errors[i].T, hidden[i - 1] if i else x, out=gradients[2 * i])
            np.add.reduce(errors[i], axis=0, out=gradients[2 * i + 1])
            if i:
                np.dot(errors[i], weights[i], out=errors[i - 1])
                np.greater(hidden[i - 1], 0, out=dead[i - 1])
                errors[i - 1] *= dead[i - 1]
        for p, g, s, v in zip(parameters, gradients, scratch, velocity, strict=True):
            if momentum:
                v *= momentum
                v += g
                g = v
            np.multiply(g, _RATE, out=s)
            p -= s
        return loss, gradients[0]

    return step


def _perceptron_jax(sizes, batch, momentum):
    parameters, x, y = _perceptron_data(sizes, batch)

    def loss(parameters, x, y):
        h, last = x, len(parameters) // 2 - 1
        for i in range(last + 1):
            h = h @ parameters[2 * i].T + parameters[2 * i + 1]
            h = jax.nn.relu(h) if i < last else h
        return jnp.mean((h - y) ** 2)

    def step(parameters, velocity, x, y):
        value, gradients = jax.value_and_grad(loss)(parameters, x, y)
        velocity = [v * momentum + g for v, g in zip(velocity, gradients, strict=True)] if momentum else velocity
        steps = velocity if momentum else gradients
        return [p - _RATE * s for p, s in zip(parameters, steps, strict=True)], velocity, value, gradients

    jitted = jax.jit(step, donate_argnums=(0, 1))
    state = [[jnp.asarray(p) for p in parameters], [jnp.zeros_like(p) for p in parameters]]

    def run():
        state[0], state[1], value, gradients = jitted(state[0], state[1], x, y)
        value.block_until_ready()
        return value, gradients[0]

    return run


def _perceptron(lib, sizes, batch, momentum, prepare=lambda step: step):
    nn = lib.nn
    parameters, x, y = _perceptron_data(sizes, batch)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    net = nn.Sequential(*layers[:-1])
    with lib.no_grad():
        for p, value in zip(net.parameters(), parameters, strict=True):
            p.copy_(lib.from_numpy(value))
    optimizer = lib.optim.SGD(net.parameters(), lr=_RATE, momentum=momentum)
    x, y = lib.from_numpy(x), lib.from_numpy(y)

    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    prepared = prepare(step)
    for _ in range(3):
        prepared(x, y)
    first = next(net.parameters())
    return lambda: (prepared(x, y), first.grad)


def compiled(backend):
    return lambda f: sg.compile(f, backend=backend)


def perceptrons():
    for sizes, momentum in (((1000, 100, 10), 0), ((784, 256, 256, 10), 0.9), ((128, 128, 128, 128, 128, 10), 0.9), ((10, 16, 16, 1), 0.9)):
        batch = 64
        yield Task(
            f"MLP {sizes}, batch {batch}, SGD{' with momentum' if momentum else ''}, training step, float32",
            {
                "numpy by hand": _perceptron_by_hand(sizes, batch, momentum),
                "symgrad": _perceptron(sg, sizes, batch, momentum, compiled("numpy")),
                "symgrad xla": _perceptron(sg, sizes, batch, momentum, compiled("xla")),
                "jax.jit": _perceptron_jax(sizes, batch, momentum),
                "torch": _perceptron(torch, sizes, batch, momentum),
            },
            targets={"numpy by hand": 1.1, "jax.jit": 1.0, "torch": 1.0}, rtol=1e-3,
        )  # fmt: skip


_DEPTH = 25


def _region(lib, x, y):
    """100 operations on points, each of which is read again when the derivative is made."""
    h = x
    for _ in range(_DEPTH):
        h = lib.tanh(h * y) + h * 0.5
    return h.sum()


def _region_by_hand(x, y):
    hs, ts = ([np.empty_like(x) for _ in range(_DEPTH)] for _ in range(2))
    g, gy, a, b = (np.empty_like(x) for _ in range(4))

    def run():
        h = x
        for i in range(_DEPTH):
            t = np.tanh(np.multiply(h, y, out=ts[i]), out=ts[i])
            h = np.add(np.multiply(h, 0.5, out=hs[i]), t, out=hs[i])
        total = h.sum()
        g.fill(1)
        gy.fill(0)
        for i in reversed(range(_DEPTH)):
            np.multiply(ts[i], ts[i], out=a)
            np.subtract(1, a, out=a)
            np.multiply(a, g, out=a)
            np.multiply(a, hs[i - 1] if i else x, out=b)
            np.add(gy, b, out=gy)
            np.multiply(a, y, out=a)
            np.multiply(g, 0.5, out=g)
            np.add(g, a, out=g)
        return total, g.copy(), gy.copy()

    return run


def regions():
    for n in (100_000, 1_000):
        rng = np.random.default_rng(0)
        x, y = (rng.uniform(0.1, 0.9, n) for _ in range(2))

        def ours(backend, x=x, y=y):
            fast = sg.compile(lambda x, y: _region(sg, x, y), backend=backend)
            a, b = sg.from_numpy(x), sg.from_numpy(y)

            def run():
                value, (gx, gy) = fast.value_and_grad(a, b)
                return value, gx, gy

            return run

        def by_torch(x=x, y=y):
            a, b = (torch.from_numpy(v).requires_grad_() for v in (x, y))

            def run():
                a.grad = b.grad = None
                value = _region(torch, a, b)
                value.backward()
                return value.detach(), a.grad, b.grad

            return run

        def by_jax(x=x, y=y):
            with jax.enable_x64(True):
                a, b = jnp.asarray(x), jnp.asarray(y)
                step = jax.jit(jax.value_and_grad(lambda x, y: _region(jnp, x, y), (0, 1))).lower(a, b).compile()

            def run():
                value, gradients = step(a, b)
                value.block_until_ready()
                return value, *gradients

            return run

        yield Task(
            f"value and gradients of {4 * _DEPTH} elementwise operations, {n} points, float64",
            {
                "numpy by hand": _region_by_hand(x, y), "symgrad": ours("numpy"), "symgrad xla": ours("xla"), "jax.jit": by_jax(),
                "torch": by_torch(),
            },
            targets={"numpy by hand": 1.1, "jax.jit": 1.0, "torch": 1.0}, rtol=1e-9,
        )  # fmt: skip


def scalars():
    """One number in, one out: what a call costs."""

    def f(lib, x):
        return lib.sin(x) * lib.exp(-x * x) + x * 3

    x = np.asarray(0.5, np.float32)
    jitted, there = jax.jit(lambda x: f(jnp, x)), jnp.asarray(x)
    here, other = sg.from_numpy(x), torch.from_numpy(x)
    by_numpy, by_xla = (sg.compile(lambda x: f(sg, x), backend=backend) for backend in ("numpy", "xla"))
    yield Task(
        "one number: sin(x) exp(-x²) + 3x, float32",
        {
            "numpy by hand": lambda: f(np, x),
            "symgrad": lambda: by_numpy(here),
            "symgrad xla": lambda: by_xla(here),
            "jax.jit": lambda: jitted(there).block_until_ready(),
            "torch": lambda: f(torch, other),
        },
        targets={"jax.jit": 1.0, "torch": 1.0},
    )


def tasks():
    yield from scalars()
    yield from perceptrons()
    yield from regions()
