"""Counts of symgrad's own functions and files, phase by phase, for the README's two-layer net and a compiled step of Adam.

Run as a program, it prints the counts as JSON: `{phase: [calls, files]}`. `--trace PHASE` prints each call of one phase instead.
A call counts if the function stands in a file of the package: not NumPy's, JAX's or SymPy's, not C's, not code that was generated, and
not the bodies of modules, classes and comprehensions (which are no functions of their own in newer versions of Python).
"""

from __future__ import annotations

import gc
import importlib
import json
import pkgutil
import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import symgrad as sg

PACKAGE = "symgrad"
INLINED = frozenset(("<module>", "<listcomp>", "<dictcomp>", "<setcomp>"))
MANY = 200
STEPS = 6


class Counter:
    """Notes each call of the package's functions while a phase runs."""

    def __init__(self) -> None:
        self.calls: dict[str, list[str]] = {}

    def __call__(self, phase: str, run: Callable[[], Any]) -> Any:
        """Run a phase, count its calls, and return its result."""
        found: list[str] = []

        def see(frame: FrameType, event: str, _: Any) -> None:
            code = frame.f_code
            if event == "call" and code.co_name not in INLINED and not code.co_filename.startswith("<"):
                module = frame.f_globals.get("__name__", "")
                if module.partition(".")[0] == PACKAGE:
                    found.append(f"{module}:{code.co_qualname}")

        sys.setprofile(see)
        try:
            result = run()
        finally:
            sys.setprofile(None)
        self.calls[phase] = found
        return result

    def counts(self) -> dict[str, tuple[int, int]]:
        """Calls and files of each phase; a module is a file."""
        return {phase: (len(found), len({call.partition(":")[0] for call in found})) for phase, found in self.calls.items()}


def loss(x: Any, w1: Any, w2: Any, y: Any) -> Any:
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


def of_dictionary(tree: Any) -> Any:
    return loss(**tree)


def of_args(*leaves: Any) -> Any:
    return loss(*leaves)


def scaled(x: Any, factor: Any) -> Any:
    return (x * factor).sum()


def double(x: Any) -> Any:
    return x * 2


def arguments(requires_grad: bool = True) -> list[Any]:
    """x, w1, w2 and y of the README; the weights require grad."""
    sg.manual_seed(0)
    x, y = sg.randn(4, 3), sg.randn(4, 2)
    return [x, sg.randn(3, 5, requires_grad=requires_grad), sg.randn(5, 2, requires_grad=requires_grad), y]


def on_device(tensors: list[Any]) -> list[Any]:
    """The tensors as a kernel leaves them where it computed them."""
    return list(sg.compile(lambda xs: [x * 1 for x in xs])(tensors))


def eagerly(count: Counter) -> None:
    """Forward and backward, for the second time: caches are filled, and leaves have gradients to be added to."""
    args = arguments()
    loss(*args).backward()
    result = count("eager forward", lambda: loss(*args))
    count("eager backward", result.backward)


def deriving(count: Counter) -> None:
    """A derivation and its text."""
    args = arguments()
    count("derive", lambda: str(sg.derive(loss, wrt="w1")(*args)))


def calling(count: Counter) -> None:
    """Calls on the host and on the device; calls whose results are recorded, and their backward."""
    args = arguments(requires_grad=False)
    fast = sg.compile(loss)
    count("first call", lambda: fast(*args))
    count("second call", lambda: fast(*args))
    there = on_device(args)
    fast(*there)
    count("call on the device", lambda: fast(*there))
    recorded = arguments()
    for _ in range(2):
        fast(*recorded).backward()
    result = count("recorded call", lambda: fast(*recorded))
    count("backward of a recorded call", result.backward)


def differentiating(count: Counter) -> None:
    """Gradients in one weight, in two, and in what requires grad."""
    args = arguments()
    fast = sg.compile(loss)
    count("first value_and_grad", lambda: fast.value_and_grad(*args, wrt="w1"))
    count("second value_and_grad", lambda: fast.value_and_grad(*args, wrt="w1"))
    fast.value_and_grad(*args)
    count("second value_and_grad without wrt", lambda: fast.value_and_grad(*args))
    fast.grad(*args, wrt="w1")
    count("second grad", lambda: fast.grad(*args, wrt="w1"))
    fast.grad(*args)
    count("second grad without wrt", lambda: fast.grad(*args))
    fast.grad(*args, wrt=("w1", "w2"))
    count("second grad in two", lambda: fast.grad(*args, wrt=("w1", "w2")))
    arrays = [t.detach().numpy() for t in args]
    fast.value_and_grad(*arrays, wrt="w1")
    count("second value_and_grad of arrays", lambda: fast.value_and_grad(*arrays, wrt="w1"))
    there = on_device(arguments(requires_grad=False))
    fast.value_and_grad(*there, wrt="w1")
    count("second value_and_grad on the device", lambda: fast.value_and_grad(*there, wrt="w1"))


def forms(count: Counter) -> None:
    """The second call with arguments of every form."""
    tensors = arguments(requires_grad=False)
    arrays = [t.numpy() for t in tensors]
    named = dict(zip(("x", "w1", "w2", "y"), tensors, strict=True))
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
        "NumPy arrays": (loss, tuple(arrays), {}),
        "NumPy float64 arrays": (loss, tuple(a.astype(np.float64) for a in arrays), {}),
        "arrays and tensors": (loss, (arrays[0], *tensors[1:]), {}),
        "dictionary": (of_dictionary, (named,), {}),
        "keywords": (loss, (), named),
        "positions and keywords": (loss, tuple(tensors[:2]), {"w2": tensors[2], "y": tensors[3]}),
        "*args": (of_args, tuple(tensors), {}),
        "Python float": (scaled, (tensors[0], 0.5), {}),
    }
    for name, (function, args, kwargs) in cases.items():
        fast = sg.compile(function)
        fast(*args, **kwargs)
        count(f"second call, {name}", lambda fast=fast, args=args, kwargs=kwargs: fast(*args, **kwargs))  # type: ignore[misc]


def many(count: Counter) -> None:
    """One of many programs, each of which has run once."""
    fast = sg.compile(double)
    xs = [sg.ones(n + 1) for n in range(MANY)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "argument x has come in 9 shapes", UserWarning)
        for x in xs:
            fast(x)
    count(f"second call, {MANY} programs", lambda: fast(xs[7]))


def stepping(count: Counter) -> None:
    """The first steps of Adam, each of which is one call of a compiled function."""
    x, w1, w2, y = arguments()
    optimizer = sg.optim.Adam([w1, w2], lr=0.01)

    @sg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        found = loss(x, w1, w2, y)
        found.backward()
        optimizer.step()
        return found

    for n in range(1, STEPS + 1):
        count(f"Adam, step {n}", lambda: step(x, y))


def everything_imported() -> None:
    """Import what is imported on first use, so that no phase pays for it by chance."""
    for module in pkgutil.walk_packages(importlib.import_module("symgrad.compiler").__path__, "symgrad.compiler."):
        importlib.import_module(module.name)


def measure() -> Counter:
    """Run all phases, always in this order, since a phase fills caches that a later one finds."""
    everything_imported()
    count = Counter()
    gc.disable()  # what it collects, and when, would call functions of ours
    for phases in (eagerly, deriving, calling, differentiating, forms, many, stepping):
        phases(count)
    gc.enable()
    return count


if __name__ == "__main__":
    counter = measure()
    if len(sys.argv) > 2 and sys.argv[1] == "--trace":
        print(*counter.calls[sys.argv[2]], sep="\n")
    else:
        json.dump(counter.counts(), sys.stdout)
