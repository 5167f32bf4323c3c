"""Compiled functions beside jax.jit: what a call costs, whole training steps, gradients, and the memory that XLA sets aside for a step."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import torch
from harness import Task

import symgrad as sg

LR = 1e-12  # so that every call does the same work


def calls():
    """A function that does next to nothing: what is left is the call."""

    def function(x, y):
        return x * y + 1

    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    jitted, fast = jax.jit(function), sg.compile(function)
    here, there = [jnp.array(a) for a in (x, y)], sg.compile(lambda *xs: [x * 1 for x in xs], returns="tensor")(x, y)
    yield Task(
        "call, 8 floats on the device", {"jax.jit": lambda: jitted(*here), "symgrad": lambda: fast(*there)}, targets={"jax.jit": 1.2}
    )
    yield Task(
        "call, 8 floats, NumPy in and out",
        {"jax.jit": lambda: np.asarray(jitted(x, y)), "symgrad": lambda: fast(x, y)},
        targets={"jax.jit": 1.5},
    )


def net_of(lib, sizes):
    layers = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        layers += [lib.nn.Linear(a, b), lib.nn.ReLU()] if i < len(sizes) - 2 else [lib.nn.Linear(a, b)]
    return lib.nn.Sequential(*layers)


def step_of(lib, net):
    """A training step as people write it."""
    optimizer = lib.optim.SGD(net.parameters(), lr=LR)

    def step(x, y):
        optimizer.zero_grad()
        loss = lib.nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def clearing_step_of(net):
    """The same, but no gradients are left behind."""
    step = step_of(sg, net)

    def clearing(x, y):
        loss = step(x, y)
        net.zero_grad()
        return loss

    return clearing


def training(lib, sizes, x, y, compiled):
    """A step with weights that are the same for all."""
    net = net_of(lib, sizes)
    rng = np.random.default_rng(1)
    with lib.no_grad():
        for p in net.parameters():
            p.copy_(lib.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32) / 10))
    run, x, y = compiled(step_of(lib, net)), lib.from_numpy(x), lib.from_numpy(y)
    return lambda: run(x, y).item()


def shapes_of(sizes):
    """Of the weights and biases of a net."""
    return [shape for a, b in pairwise(sizes) for shape in ((b, a), (b,))]


def jitted_step(leave_gradients=False):
    """The same step written by hand in JAX; PyTorch's leaves gradients behind, and so may this one."""

    def loss(weights, x, y):
        for i in range(0, len(weights), 2):
            x = x @ weights[i].T + weights[i + 1]
            x = jax.nn.relu(x) if i < len(weights) - 2 else x
        return jnp.mean((x - y) ** 2)

    @partial(jax.jit, donate_argnums=0)
    def step(weights, x, y):
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        new = [w - LR * g for w, g in zip(weights, gradients, strict=True)]
        return (new, value, gradients) if leave_gradients else (new, value)

    return step


def by_hand(sizes, x, y, leave_gradients=False):
    rng = np.random.default_rng(1)
    state, step = [[jnp.array(rng.normal(size=s).astype(np.float32) / 10) for s in shapes_of(sizes)], None], jitted_step(leave_gradients)

    def run():
        state[0], value, *state[1:] = step(state[0], x, y)
        return value.item()

    return run


def steps():
    for title, sizes, batch in (
        ("two-layer net (64, 1000, 100, 10)", (1000, 100, 10), 64),
        ("5-layer MLP (32, 64 to 64)", (64,) * 6, 32),
        ("5-layer MLP (64, 256 to 256)", (256,) * 6, 64),
    ):
        rng = np.random.default_rng(0)
        x, y = (rng.normal(size=(batch, n)).astype(np.float32) for n in (sizes[0], sizes[-1]))
        contenders = {
            "jax.jit": by_hand(sizes, x, y),
            "jax.jit with gradients": by_hand(sizes, x, y, leave_gradients=True),
            "symgrad": training(sg, sizes, x, y, sg.compile),
            "torch": training(torch, sizes, x, y, lambda f: f),
        }
        try:
            contenders["torch.compile"] = training(torch, sizes, x, y, torch.compile)
            contenders["torch.compile"]()
        except RuntimeError as error:  # needs a C++ compiler
            print(f"torch.compile: {error}")
            del contenders["torch.compile"]
        for _ in range(1500):  # a step is compiled once more after 1,000 runs, with small tensors packed
            contenders["symgrad"]()
        targets = {"jax.jit": 1.05, "torch": 1, "torch.compile": 1}
        yield Task(f"training step, {title}, float32, after 1,500 steps", contenders, targets=targets, unit="ms", rtol=1e-3)



FUNCTIONS = {
    "logistic regression, 1000 x 50": (
        lambda w, x, y: sg.nn.functional.softplus(-(y * (x @ w))).mean(),
        lambda w, x, y: jax.nn.softplus(-(y * (x @ w))).mean(),
        ((50,), (1000, 50), (1000,)),
    ),
    "Rosenbrock, 10,000": (
        lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(),
        lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum(),
        ((10_000,),),
    ),
    "attention, 128 x 64": (
        lambda q, k, v: (sg.softmax(q @ k.T / 8, -1) @ v).sum(),
        lambda q, k, v: (jax.nn.softmax(q @ k.T / 8) @ v).sum(),
        ((128, 64), (128, 64), (128, 64)),
    ),
    "layer norm and gelu, 256 x 256": (
        lambda x, w, b: sg.nn.functional.gelu(sg.nn.functional.layer_norm(x, (256,), w, b)).sum(),
        lambda x, w, b: jax.nn.gelu(
            (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + b, approximate=False
        ).sum(),
        ((256, 256), (256,), (256,)),
    ),
    "log det of a covariance, 64": (
        lambda a: sg.linalg.slogdet(a @ a.T + 64 * sg.eye(64))[1],
        lambda a: jnp.linalg.slogdet(a @ a.T + 64 * jnp.eye(64))[1],
        ((64, 64),),
    ),
    "elementwise chain of 12, 100,000": (
        lambda x: _chain(x, sg).sum(),
        lambda x: _chain(x, jnp).sum(),
        ((100_000,),),
    ),
    "convolution, 16 x 8 x 28 x 28": (
        lambda x, w: sg.nn.functional.conv2d(x, w, padding=1).relu().sum(),
        lambda x, w: jax.nn.relu(jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))).sum(),
        ((16, 8, 28, 28), (16, 8, 3, 3)),
    ),
}


def _chain(x, lib):
    for _ in range(4):
        x = lib.sin(x) * lib.exp(-x * x) + lib.tanh(x)
    return x


def gradients():
    for title, (ours, theirs, shapes) in FUNCTIONS.items():
        rng = np.random.default_rng(0)
        data = [rng.normal(size=s).astype(np.float32) for s in shapes]
        every = tuple(range(len(shapes)))
        fast, jitted = sg.compile(ours), jax.jit(jax.value_and_grad(theirs, argnums=every))
        on_device = [jnp.array(a) for a in data]
        there = sg.compile(lambda *xs: [x * 1 for x in xs], returns="tensor")(*data)

        def run_ours(fast=fast, there=there, every=every):
            value, grads = fast.value_and_grad(*there, wrt=every)
            return [value.item(), *grads]

        def run_theirs(jitted=jitted, on_device=on_device):
            value, grads = jitted(*on_device)
            return [value.item(), *grads]

        yield Task(f"gradient: {title}", {"jax.jit": run_theirs, "symgrad": run_ours}, targets={"jax.jit": 1.1}, rtol=2e-3)


def memory() -> str:
    """What XLA sets aside for one training step, in bytes: arguments, results that are no arguments, temporaries. With gradients that stay
    in `.grad`, as in PyTorch, and without."""
    lines = ["| memory of a step | symgrad | jax.jit | ratio (target 1.1) |", "| --- | --- | --- | --- |"]
    for sizes, batch in (((1000, 100, 10), 64), ((256,) * 6, 64)):
        rng = np.random.default_rng(0)
        x, y = (rng.normal(size=(batch, n)).astype(np.float32) for n in (sizes[0], sizes[-1]))
        for words, make, leave in (("leaves gradients", lambda net: step_of(sg, net), True), ("clears gradients", clearing_step_of, False)):
            ours, theirs = _ours(sizes, x, y, make), _theirs(sizes, x, y, leave)
            title = f"{sizes}, batch {batch}, {words}"
            lines.append(f"| {title} | {ours / 1e6:.2f} MB | {theirs / 1e6:.2f} MB | {ours / theirs:.2f} |")
    return "\n".join(lines)


def _total(analysis) -> int:
    own = analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return analysis.argument_size_in_bytes + own + analysis.temp_size_in_bytes


def _ours(sizes, x, y, make) -> int:
    step = sg.compile(make(net_of(sg, sizes)))
    for _ in range(3):
        step(sg.from_numpy(x), sg.from_numpy(y))
    return _total(step._latest.kernel().compiled.memory_analysis())


def _theirs(sizes, x, y, leave) -> int:
    weights = [jnp.zeros(shape) for shape in shapes_of(sizes)]
    return _total(jitted_step(leave).lower(weights, x, y).compile().memory_analysis())


def tasks():
    yield from calls()
    yield from steps()
    yield from gradients()
