"""Detect arrays that share memory: a program that writes to one of them must take the others into account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def owning_array(array: Any) -> Any:
    """The array at the end of the chain of bases of `array`, which owns its memory."""
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return array


def memory_layout(array: Any) -> Any:
    """The address, shape, strides and dtype of an array."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _share_memory(x: Any, y: Any) -> bool:
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        return x is y  # device buffers
    return bool(x.size and y.size) and np.may_share_memory(x, y)


def _same_layout(x: Any, y: Any) -> bool:
    return x is y or memory_layout(x) == memory_layout(y)


def aliased_pairs(arrays: Sequence[Any]) -> tuple[tuple[int, int, bool], ...]:
    """The pairs of positions of arrays that share memory, and whether both have the same layout: `(0, 1, True)`. Usually there are none."""
    found: list[tuple[int, int, bool]] = []
    by_root: dict[int, list[int]] = {}
    for i, array in enumerate(arrays):
        owner = owning_array(array)
        by_root.setdefault(id(owner if getattr(owner, "base", None) is None else owner.base), []).append(i)
    if len(by_root) == len(arrays):
        return ()
    for group in by_root.values():
        for n, j in enumerate(group):
            found += [(i, j, _same_layout(arrays[i], arrays[j])) for i in group[:n] if _share_memory(arrays[i], arrays[j])]
    return tuple(found)


def alias_conflict(capture: Any) -> str | None:
    """The reason why a program of this trace would differ from eager code, or None: the function did something that no program can replay,
    an argument is also captured, or two inputs (or gradients) share memory that is written to."""
    if capture.replay_refusal is not None:
        return capture.replay_refusal  # type: ignore[no-any-return]
    asking = {id(t): label for t, label in zip(capture.input_tensors[: capture.arguments], capture.labels, strict=False)}
    for t in (*capture.closed_over, *(x for makeup in capture.modules.values() for x in makeup.tensors())):
        if id(t) in asking:
            return f"{asking[id(t)]} is an argument, and the function also captures it"
    written = set(capture.written_inputs)
    if (pair := _with_shared_grad(capture)) is not None:
        return f"the gradients of {' and '.join(pair)} share memory, and it is written to"
    inputs = [
        (t, label) for t, label in zip(capture.input_tensors, capture.labels, strict=True) if id(t) not in capture.duplicate_arguments
    ]
    for i, j, _ in aliased_pairs([t._array for t, _ in inputs]) if written else ():
        if id(inputs[i][0]) in written or id(inputs[j][0]) in written:
            return f"{inputs[i][1]} and {inputs[j][1]} share memory, and it is written to"
    return None


def _with_shared_grad(capture: Any) -> tuple[str, str] | None:
    """The labels of two tensors whose gradients share memory that is written to, or None: the gradients are one input, but later calls may
    have two separate ones."""
    written = {id(t._array) for t, _ in capture.written_inputs.values()}
    owners: dict[int, str] = {}
    for t, label in zip(capture.input_tensors, capture.labels, strict=True):
        grad = capture.initial_grads.get(id(t))
        if grad is not None and id(grad._array) in written:
            first = owners.setdefault(id(grad._array), label)
            if first != label:
                return first, label
    return None
