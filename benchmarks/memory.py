"""Peak memory of a training step, each contender in a process of its own: growth of its peak resident set (VmHWM) over the idle state."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
lib = __import__(sys.argv[1])
if sys.argv[1] == "torch":
    lib.set_num_threads(1)

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

def step(n, width, depth):
    x = lib.ones(n, width)
    ws = [lib.full((width, width), 0.01, requires_grad=True) for _ in range(depth)]
    for w in ws:
        x = (x @ w).tanh() * 0.5 + 0.1
    (x * x).sum().backward()

step(8, 8, 3)
idle = peak()
step(4096, 1024, 10)
print((peak() - idle) / 1024)
"""


def peak(library: str) -> float:
    command = [sys.executable, "-c", CODE, library]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3))


def report(target: float = 1.2) -> str:
    ours, theirs = peak("symgrad"), peak("torch")
    verdict = "met" if ours <= target * theirs else "missed"
    measured = f"symgrad {ours:.0f} MiB, torch {theirs:.0f} MiB, {ours / theirs:.2f}x"
    return f"Ten layers of 1024 units, batch 4096: {measured} (target ≤ {target}: {verdict})"
