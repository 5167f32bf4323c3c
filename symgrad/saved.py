"""Arrays that were saved for backward and written to since, and PyTorch's errors for them.

A node that saves an array keeps its version cell, a list that is empty until somebody writes to the memory. Then it gets the next cell and
the number of the write.
"""

from __future__ import annotations

from typing import Any

from symgrad.dtypes import type_word
from symgrad.graph import Node, Output
from symgrad.mode import local

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed)."
    " Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True"
    " if you need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)

DETACHED = (
    "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_()."
    "This is not supported, please use out-of-place `.detach()` instead"
)


def first_write(cell: list[Any]) -> list[Any]:
    """The first cell from this one on that tells of a write, or is empty. `detach_()` leaves marks in between: (next cell, number of
    writes, key of the history that was dropped)."""
    while len(cell) == 3:
        cell = cell[0]
    return cell


def write_error(array: Any, edge: Any, cell: list[Any]) -> RuntimeError:
    """PyTorch's words for a saved tensor that was written to. A cell points at the next cell and holds its number."""
    expected = cell[1] - 1
    while cell[0]:
        cell = cell[0]
    maker = edge.node if edge.__class__ is Output else edge
    source = f", which is output {getattr(edge, 'index', 0)} of {maker.name()}," if isinstance(maker, Node) else ""
    if local.mode.anomaly is None:
        hint = (
            "enable anomaly detection to find the operation that failed to compute its gradient, with"
            " torch.autograd.set_detect_anomaly(True, check_nan=False)."
        )
    else:
        hint = (
            "the backtrace further above shows the operation that failed to compute its gradient. The variable in question was"
            " changed in there or anywhere later. Good luck!"
        )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation:"
        f" [torch.{type_word(array.dtype)}Tensor {list(array.shape)}]{source} is at version {cell[1]};"
        f" expected version {expected} instead. Hint: {hint}"
    )
