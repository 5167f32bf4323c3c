"""Detect arrays that share memory: a program that writes to one of them must take the others into account."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds


def memory_layout(array: Any) -> Any:
    """The address, shape, strides and dtype of an array."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _same_layout(x: Any, y: Any) -> bool:
    return x is y or memory_layout(x) == memory_layout(y)


def _byte_range(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array's elements, and of the one after the last."""
    start: int = array.__array_interface__["data"][0]
    return (start, start + array.nbytes) if array.flags.c_contiguous else byte_bounds(array)


def aliased_pairs(arrays: Sequence[Any]) -> tuple[tuple[int, int, bool], ...]:
    """The pairs of positions of arrays that share memory, and whether both have the same layout: `(0, 1, True)`. Usually there are none.

    Addresses are compared, not base objects: arrays around one memory have different bases if they come from `np.from_dlpack`, from a
    memoryview or from a buffer. Arrays of interleaved elements count as sharing memory. Device buffers share it if they are the same.
    """
    if len(arrays) < 2:
        return ()
    ranges: list[tuple[int, int, int]] = []
    buffers: dict[int, int] = {}
    found: list[tuple[int, int, bool]] = []
    for i, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            first = buffers.setdefault(id(array), i)
            found += [(k, i, True) for k in range(first, i) if arrays[k] is array]
        elif array.size:
            ranges.append((*_byte_range(array), i))
    ranges.sort()
    overlapping: list[tuple[int, int]] = []
    for start, end, i in ranges:
        overlapping = [(stop, k) for stop, k in overlapping if stop > start]
        found += [(min(i, k), max(i, k), _same_layout(arrays[i], arrays[k])) for _, k in overlapping]
        overlapping.append((end, i))
    return tuple(sorted(found))


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
    """The labels of two tensors whose gradients share memory that is written to, or None: later calls may have two separate ones."""
    written = {id(t._array) for t, _ in capture.written_inputs.values()}
    labels = {id(t): label for t, label in zip(capture.input_tensors, capture.labels, strict=True)}
    grads = [(grad._array, labels[key]) for key, grad in capture.initial_grads.items() if grad is not None and key in labels]
    for i, j, _ in aliased_pairs([array for array, _ in grads]) if written else ():
        if id(grads[i][0]) in written or id(grads[j][0]) in written:
            return grads[i][1], grads[j][1]
    return None
