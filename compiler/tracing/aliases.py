"""Which arrays share memory: a program that writes to one of them must know of the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def root(array: Any) -> Any:
    """The array that owns the memory."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def place(array: Any) -> Any:
    """Where an array lies, and how."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _share(x: Any, y: Any) -> bool:
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return x is y  # a buffer of a device
    return bool(x.size and y.size) and np.may_share_memory(x, y)


def _alike(x: Any, y: Any) -> bool:
    return x is y or place(x) == place(y)


def overlaps(arrays: Sequence[Any]) -> tuple[tuple[int, int, bool], ...]:
    """Pairs of arrays that share memory, and whether they are the same all over: `(0, 1, True)`. Mostly there are none."""
    found: list[tuple[int, int, bool]] = []
    by_root: dict[int, list[int]] = {}
    for i, array in enumerate(arrays):
        owner = root(array)
        by_root.setdefault(id(owner if getattr(owner, "base", None) is None else owner.base), []).append(i)
    if len(by_root) == len(arrays):
        return ()
    for group in by_root.values():
        for n, j in enumerate(group):
            found += [(i, j, _alike(arrays[i], arrays[j])) for i in group[:n] if _share(arrays[i], arrays[j])]
    return tuple(found)


def conflict(capture: Any) -> str | None:
    """What is done once only; two inputs of a trace that share memory, of which one is written to, or an argument that is
    also brought along: what a program would make of that is not what eager code does."""
    if capture.once is not None:
        return capture.once  # type: ignore[no-any-return]
    asking = {id(t): label for t, label in zip(capture.outside[: capture.arguments], capture.labels, strict=False)}
    for t in (*capture.closed, *(x for makeup in capture.modules.values() for x in makeup.tensors())):
        if id(t) in asking:
            return f"{asking[id(t)]} is an argument, and the function also brings it along"
    written = set(capture.written_outside)
    if (pair := _with_one_gradient(capture)) is not None:
        return f"the gradients of {' and '.join(pair)} share memory, and it is written to"
    inputs = [(t, label) for t, label in zip(capture.outside, capture.labels, strict=True) if id(t) not in capture.unused]
    for i, j, _ in overlaps([t._array for t, _ in inputs]) if written else ():
        if id(inputs[i][0]) in written or id(inputs[j][0]) in written:
            return f"{inputs[i][1]} and {inputs[j][1]} share memory, and it is written to"
    return None


def _with_one_gradient(capture: Any) -> tuple[str, str] | None:
    """Two tensors whose gradients are the same memory, if that is written to: they are one input, and may come apart."""
    written = {id(t._array) for t, _ in capture.written_outside.values()}
    owners: dict[int, str] = {}
    for t, label in zip(capture.outside, capture.labels, strict=True):
        grad = capture.had.get(id(t))
        if grad is not None and id(grad._array) in written:
            first = owners.setdefault(id(grad._array), label)
            if first != label:
                return first, label
    return None
