"""Run the benchmarks and print their table: `python benchmarks/run.py [chains|networks|kernels|algebra|calls|backends|formulas|...]`.

`--docs` writes docs/benchmarks.md.
"""

from __future__ import annotations

import os
import sys

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy is loaded
os.environ["SYMGRAD_CACHE"] = "0"  # compiling is measured, not reading what was compiled before

import importlib  # noqa: E402  (after the variables are set)
import pathlib  # noqa: E402  (the same)
import platform  # noqa: E402  (the same)


def one_core() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    import torch

    torch.set_num_threads(1)


def main(names: list[str]) -> None:
    import numpy as np
    import torch
    from harness import measure, table

    parts = []
    for name in names:
        if name in ("formulas", "imports", "memory", "compiling"):
            text = importlib.import_module(name).report()
        else:
            results = []
            for task in importlib.import_module(name).tasks():
                results.append(measure(task))
                print(table(results[-1:]).splitlines()[-1], flush=True)
            text = table(results)
            if name == "kernels":
                text += f"\n\n{importlib.import_module(name).memory()}"
        note = getattr(importlib.import_module(name), "NOTE", "")
        parts.append(f"## {name}\n\n{note}{text}\n")
        print(parts[-1], flush=True)
    if "--docs" in sys.argv:
        versions = f"Python {platform.python_version()}, NumPy {np.__version__}, torch {torch.__version__}"
        head = (
            "# Benchmarks\n\nAfter this page you know how fast symgrad is compared with NumPy, PyTorch, JAX and SymPy, and which speed"
            " targets it meets.\n\nThe programs of each task run in turns, in one process on one core, after their results were compared."
            f" Times are minimum / median, ratios compare minima. {versions}. Measured with `python benchmarks/run.py --docs`.\n\n"
        )
        pathlib.Path(__file__).parents[1].joinpath("docs", "benchmarks.md").write_text(head + "\n".join(parts))


if __name__ == "__main__":
    one_core()
    everything = ["chains", "networks", "kernels", "algebra", "calls", "backends", "sparse", "formulas", "compiling", "memory", "imports"]
    main([name for name in sys.argv[1:] if not name.startswith("-")] or everything)
