"""Time to first call, without imports: nets of 10, 100 and 1,000 equal layers, each in a process of its own; and the figure for the docs.

    python benchmarks/compiling.py                              the table
    python benchmarks/compiling.py net value_and_grad 100 symgrad     one measurement, as JSON

Seconds are those of the processor, so that other work on the machine counts little; medians of three runs of each contender, which take
turns. JAX's steps are the shortest that people write: unlike ours they leave no gradients behind, and give no memory away.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

WIDTH, BATCH = 64, 32
DEPTHS = (10, 100, 1000)
CHAINS = (10, 20, 40)
OURS = ("trace", "differentiate", "simplify", "emit")
FIGURE = pathlib.Path(__file__).parents[1] / "docs" / "_static" / "compiling.svg"
RUNS = 3
TASKS = {"net": ("value_and_grad", "sgd", "momentum", "adam", "adamw"), "chain": ("value_and_grad",)}
CONTENDERS = ("symgrad", "jax, unrolled", "jax, scan")
TITLES = {
    ("net", "value_and_grad"): "value and gradient of a net",
    ("net", "sgd"): "training step of a net, SGD",
    ("net", "adam"): "training step of a net, Adam",
    ("chain", "value_and_grad"): "sin(x) @ x / 10 + tanh(x) i",
}
LINES = {
    "total": ("symgrad", "o-"),
    "ours": ("symgrad: our share", "o--"),
    "plain": ("jax.jit, unrolled", "s-"),
    "scan": ("jax.jit, lax.scan", "^:"),
}


def numbers(depth: int) -> tuple[list[Any], list[Any], Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 8 for _ in range(depth)]
    biases = [np.zeros(WIDTH, np.float32) for _ in range(depth)]
    x, y = rng.normal(size=(2, BATCH, WIDTH)).astype(np.float32)
    return weights, biases, x, y


def symgrad_run(task: str, what: str, depth: int) -> dict[str, float]:
    import symgrad as sg
    from symgrad.compiler.support import progress

    times: dict[str, float] = {}
    sg.compile(lambda x: x + 1)(sg.ones(3))  # whatever is imported at the first use, as for JAX below
    progress.perf_counter = time.process_time  # stages in seconds of the processor
    progress._report = lambda work: times.update({k: times.get(k, 0.0) + t for k, t in work.times.items()})
    *_, x, y = numbers(depth)
    model = sg.nn.Sequential(*(part for _ in range(depth) for part in (sg.nn.Linear(WIDTH, WIDTH), sg.nn.Tanh())))

    def net(x: Any, y: Any) -> Any:
        return sg.nn.functional.mse_loss(model(x), y)

    def chain(x: Any) -> Any:
        for i in range(depth):
            x = x.sin() @ x / 10 + x.tanh() * (i / 10)
        return (x * x).mean()

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x, y)
        loss.backward()
        optimizer.step()
        return loss

    make, options = {"momentum": (sg.optim.SGD, {"momentum": 0.9}), "adam": (sg.optim.Adam, {}), "adamw": (sg.optim.AdamW, {})}.get(
        what, (sg.optim.SGD, {})
    )
    optimizer = make(model.parameters(), lr=0.01, **options)
    args = [sg.tensor(a) for a in ((x, y) if task == "net" else (x[:, :BATCH],))]
    if what == "value_and_grad":
        fast = sg.compile(net if task == "net" else chain)
        wrt = list(range(2, 2 + 2 * depth)) if task == "net" else [0]
        took = _timed(lambda: fast.value_and_grad(*args, wrt=wrt)[0].item())
    else:
        fast = sg.compile(step)
        took = _timed(lambda: [fast(*args).item() for _ in range(2)])  # the first call is traced, in the second the kernel runs
        assert "XLA" in times
    return {"total": took, "ours": sum(times.get(k, 0.0) for k in OURS), **times}


def jax_run(task: str, what: str, depth: int, scan: bool) -> dict[str, float]:
    import jax
    import jax.numpy as jnp
    import numpy as np

    jax.jit(lambda x: x + 1)(np.ones(3))
    weights, biases, x, y = numbers(depth)
    layer = _layer if task == "net" else _link
    extra = (weights, biases) if task == "net" else ([np.float32(i / 10) for i in range(depth)],)
    given: Any = tuple(map(np.stack, extra)) if scan else extra

    def loss(given: Any, x: Any, y: Any) -> Any:
        if scan:
            x, _ = jax.lax.scan(lambda h, more: (layer(jnp, h, *more), None), x, given)
        else:
            for more in zip(*given, strict=True):
                x = layer(jnp, x, *more)
        return jnp.mean((x - y) ** 2)

    def step(given: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(given, x, y)
        return value, jax.tree.map(lambda p, g: p - 0.01 * g, given, slopes)

    def momentum(given: Any, m: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(given, x, y)
        m = jax.tree.map(lambda m, g: 0.9 * m + g, m, slopes)
        return value, jax.tree.map(lambda p, m: p - 0.01 * m, given, m), m

    def adam(given: Any, m: Any, v: Any, t: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(given, x, y)
        t = t + 1
        if what == "adamw":
            given = jax.tree.map(lambda p: p * (1 - 0.01 * 0.01), given)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, slopes)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, slopes)
        size, root = 0.01 / (1 - 0.9**t), jnp.sqrt(1 - 0.999**t)
        return value, jax.tree.map(lambda p, m, v: p - size * m / (jnp.sqrt(v) / root + 1e-8), given, m, v), m, v, t

    args = (given, x, y)
    if task == "chain":
        x, y = x[:, :BATCH], np.zeros((), np.float32)
        function: Callable[..., Any] = jax.value_and_grad(loss, 1)
        args = (given, x, y)
    elif what in ("adam", "adamw"):
        function, zeros = adam, jax.tree.map(np.zeros_like, given)
        args = (given, zeros, zeros, np.float32(0), x, y)
    elif what == "momentum":
        function, args = momentum, (given, jax.tree.map(np.zeros_like, given), x, y)
    else:
        function = step if what == "sgd" else jax.value_and_grad(loss)
    return {"total": _timed(lambda: jax.block_until_ready(jax.jit(function)(*args)))}


def _layer(jnp: Any, h: Any, w: Any, b: Any) -> Any:
    return jnp.tanh(h @ w + b)


def _link(jnp: Any, h: Any, i: Any) -> Any:
    return jnp.sin(h) @ h / 10 + jnp.tanh(h) * i


def _timed(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def measured(task: str, what: str, depth: int, who: str) -> dict[str, float]:
    """One measurement, in a process of its own, with nothing kept from others."""
    variables = {**os.environ, "SYMGRAD_CACHE": "0", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, __file__, task, what, str(depth), who]
    found = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return json.loads(found.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def _medians(task: str, what: str, depth: int) -> list[dict[str, float]]:
    """Of each contender the run with the median total; runs of all are interleaved."""
    runs = [[measured(task, what, depth, who) for who in CONTENDERS] for _ in range(RUNS)]
    return [sorted(of, key=lambda run: run["total"])[len(of) // 2] for of in zip(*runs, strict=True)]


def report() -> str:
    found: dict[Any, dict[str, float]] = {}
    lines = [
        "CPU seconds until the first result, without imports: symgrad's share (trace, differentiate, simplify, emit) + JAX's and XLA's"
        f" share. Medians of {RUNS} runs.",
        "",
        "| task | layers | symgrad: ours + XLA's | jax.jit, unrolled | jax.jit, lax.scan | symgrad / unrolled | / scan |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for task, kinds in TASKS.items():
        for what in kinds:
            for depth in DEPTHS if task == "net" else CHAINS:
                if depth != 100 and (task, what) not in TITLES:
                    continue
                us, plain, scan = _medians(task, what, depth)
                found[task, what, depth] = {**us, "plain": plain["total"], "scan": scan["total"]}
                title = f"{WIDTH}-wide tanh layers, {what}" if task == "net" else f"`sin(x) @ x / 10 + tanh(x) * i`, {what}"
                lines.append(
                    f"| {title} | {depth} | {us['total']:.2f} = {us['ours']:.2f} + {us['total'] - us['ours']:.2f} | {plain['total']:.2f} |"
                    f" {scan['total']:.2f} | {us['total'] / plain['total']:.2f} | {us['total'] / scan['total']:.2f} |"
                )
                print(lines[-1], flush=True)
    draw(found)
    return "\n".join([*lines, "", "![Seconds to the first call against the number of layers](_static/compiling.svg)"])


def draw(found: dict[Any, dict[str, float]]) -> None:
    """Seconds against layers, both logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "symgrad"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.6), sharey=True)
    for place, ((task, what), title) in zip(axes, TITLES.items(), strict=True):
        rows = {depth: row for (t, w, depth), row in found.items() if (t, w) == (task, what)}
        for key, (label, style) in LINES.items():
            place.loglog(list(rows), [row[key] for row in rows.values()], style, label=label, markersize=4)
        place.set_title(title, fontsize=10)
        place.set_xlabel("layers")
        place.grid(alpha=0.3)
        place.set_xticks(list(rows), [f"{depth:,}" for depth in rows])
        place.minorticks_off()
    axes[0].set_ylabel("seconds to the first result")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(FIGURE, metadata={"Date": None})


if __name__ == "__main__":
    if len(sys.argv) == 5:
        _task, _what, _depth, _who = sys.argv[1:]
        run = symgrad_run(_task, _what, int(_depth)) if _who == "symgrad" else jax_run(_task, _what, int(_depth), _who.endswith("scan"))
        print(json.dumps(run))
    else:
        print(report())
