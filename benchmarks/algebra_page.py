"""Measure what the algebra saves, and write docs/algebra-benchmarks.md with its picture: `python benchmarks/algebra_page.py FIGURES.json`.

FIGURES.json keeps the figures of each task. Names of suites after it (algebra, structured, sparse, forward) are measured; minima of several
runs are joined. Without names, the page is written from what the file has.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import platform
import sys
from typing import Any

import run  # sets the numbers of threads, before NumPy is loaded

DOCS = pathlib.Path(__file__).parents[1] / "docs"
PAGE, PICTURE = DOCS / "algebra-benchmarks.md", DOCS / "_static" / "algebra.svg"
REFERENCES = ("by hand", "JAX by hand", "dense", "forward Laplacian by hand", "nested jax.jvp", "jax.jit")
"""What the ratios of a task refer to: the first of these that it has."""
SUITES = {
    "algebra": (
        "Products and systems",
        "n = 1000 (500 for systems), float32, inputs on the device. *By hand* is JAX with the fewest operations, which the tests count.",
    ),
    "structured": (
        "Structured Hessians",
        "float64. *By hand* is the closed form of the full Hessian in JAX. *Compressed* is what `structured=True` computes. *solve*"
        " includes the factorisation.",
    ),
    "sparse": (
        "Sparse derivatives",
        "float64. *By hand* are the diagonals by their formulas, brought into the order of CSR by one index vector. *Values* are those of a"
        " BCOO, on the device, in an order that each may choose.",
    ),
    "forward": (
        "High orders and Laplacians",
        "Order 8 at 100,000 points in float64, relative to nested `jax.jvp`; the Laplacian of a tanh network of three hidden layers"
        " of 128 at 64 points in float32, relative to a forward Laplacian by hand.",
    ),
}


def measure(name: str, kept: dict[str, Any], file: pathlib.Path) -> None:
    """Measure the tasks of a suite, and write the figures to the file after each."""
    from harness import measure as timed

    found = kept.setdefault("suites", {}).setdefault(name, {})
    kept["versions"] = versions()
    for task in importlib.import_module(name).tasks():
        result = timed(task)
        entry = found.setdefault(task.title, {"targets": task.targets, "minimum": {}})
        for who, seconds in result.minimum.items():
            entry["minimum"][who] = min(seconds, entry["minimum"].get(who, seconds))
        print(f"{name}: {task.title}: {against(entry)[0]:.2f}", flush=True)
        file.write_text(json.dumps(kept, indent=1, ensure_ascii=False))


def versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for name in ("numpy", "scipy", "jax", "folx"):
        try:
            found.append(f"{name} {importlib.import_module(name).__version__}")
        except (ImportError, AttributeError):
            continue
    return ", ".join(found)


def against(entry: dict[str, Any]) -> tuple[float, str]:
    """Return the ratio to the reference of a task, and the name of the reference."""
    reference = next(name for name in REFERENCES if name in entry["minimum"])
    return entry["minimum"]["symgrad"] / entry["minimum"][reference], reference


def number(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:.3g}" if x >= 10 else f"{x:.2f}" if x >= 0.1 else f"{x:.2g}"


def time_text(seconds: float) -> str:
    return f"{number(seconds * 1e6)} us" if seconds < 1e-3 else f"{number(seconds * 1e3)} ms"


def table(entries: dict[str, Any]) -> str:
    """Return a table: the time of the reference, and those of the others relative to it."""
    others = dict.fromkeys(w for e in entries.values() for w in e["minimum"] if w not in ("symgrad", against(e)[1]))
    lines = ["| " + " | ".join(["task", "reference", "symgrad", "goal", *others]) + " |", "| --- " * (4 + len(others)) + "|"]
    for title, entry in entries.items():
        ratio, reference = against(entry)
        goal = entry["targets"].get(reference)
        cells = [title.replace("|", "\\|"), f"{time_text(entry['minimum'][reference])} {reference}", f"{number(ratio)}x"]
        cells.append("" if goal is None else f"{goal:g}x{'' if ratio <= goal else ', missed'}")
        for who in others:
            seconds = entry["minimum"].get(who)
            cells.append("" if seconds is None else f"{number(seconds / entry['minimum'][reference])}x")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write(kept: dict[str, Any]) -> None:
    entries = [entry for suite in kept["suites"].values() for entry in suite.values()]
    goals = [ratio <= e["targets"][reference] for e in entries for ratio, reference in [against(e)] if reference in e["targets"]]
    parts = [
        "# What the algebra saves",
        "After this page you know how fast compiled functions are whose products, derivatives and systems were reordered, compared with JAX"
        " as written and with code that was reordered by hand, and which speed targets are met.",
        "![Times of jax.jit and symgrad relative to code by hand](_static/algebra.svg)",
        "Contenders of a task run in turns, in one process on one core, after their results were compared; times are minima. The"
        " machine was shared, so that differences below a fifth mean little. Ratios are to the reference; smaller is faster."
        f" {sum(goals)} of {len(goals)} goals are met. {kept['versions']}. Measured with `python benchmarks/algebra_page.py`.",
    ]
    for name, entries in kept["suites"].items():
        title, note = SUITES[name]
        parts += [f"## {title}", note, table(entries)]
    PAGE.write_text("\n\n".join(parts) + "\n")
    draw(kept["suites"])


def draw(suites: dict[str, Any]) -> None:
    """Ratios to the reference, logarithmic: what a program costs as written, and as compiled."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "symgrad", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt

    products = {t: e for t, e in suites.get("algebra", {}).items() if "gradient" not in t}
    gradients = {t: e for t, e in suites.get("algebra", {}).items() if "gradient" in t}
    derivatives = {t: e for name in ("structured", "sparse", "forward") for t, e in suites.get(name, {}).items()}
    shortened = lambda t: (
        t.replace("value and gradient of", "∇").replace("gradient of the sum of", "∇ Σ").replace(" in A", "")
        .replace("derivative of order 8 of", "order 8,").replace(", 100,000 points", "").replace(", 64 points", "")
    )  # fmt: skip
    panels = {"products and systems": products, "their gradients": gradients, "structured, sparse, high order": derivatives}
    figure, places = plt.subplots(1, 3, figsize=(15, 8))
    for place, (title, entries) in zip(places, panels.items(), strict=True):
        rows = list(entries.items())[::-1]
        for y, (_, entry) in enumerate(rows):
            ours, reference = against(entry)
            written = entry["minimum"].get("jax.jit")
            if written is not None:
                other = written / entry["minimum"][reference]
                place.plot([ours, other], [y, y], color="0.8", zorder=1)
                place.plot(other, y, "s", color="tab:orange", markersize=5, label="jax.jit, as written" if y == len(rows) - 1 else None)
            place.plot(ours, y, "o", color="tab:blue", markersize=5, label="symgrad" if y == len(rows) - 1 else None)
        place.axvline(1, color="0.5", linewidth=1)
        place.set_xscale("log")
        place.set_yticks(range(len(rows)), [shortened(t) for t, _ in rows], fontsize=8)
        place.set_xlabel("time / time by hand" if entries is not derivatives else "time / reference")
        place.set_title(title, fontsize=11)
        place.grid(alpha=0.3, axis="x")
    places[0].legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def main(path: str, names: list[str]) -> None:
    file = pathlib.Path(path)
    kept = json.loads(file.read_text()) if file.exists() else {}
    for name in names:
        measure(name, kept, file)
    write(kept)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    run.one_core()
    main(sys.argv[1], sys.argv[2:])
