"""Bands through rows that read elements, or add them, at places that are known only as arrays: index tensors, tiles, windows, triangles.

The places come from the rows themselves. The kernel of a row that moves elements is run on the numbers of the elements of its argument; the
rule of a row that adds elements, which reads them back, on the numbers of the elements of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from symgrad.compiler.algebra.band import Band, Constants
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, Graph, Value, input_value, row_of, toposort
from symgrad.compiler.ir.interpret import evaluate
from symgrad.ops.promotion import kind
from symgrad.ops.variants import variant
from symgrad.typing import Array

READING = frozenset(
    ("index", "index_select", "take_along", "tile", "unfold", "diagonal", "tril", "triu", "diag_embed", "embedding", "flip", "roll", "cat",
     "stack", "assemble", "expand", "permute", "transpose", "t", "pad", "crop", "shift", "getitem", "embed", "split", "split_with_sizes",
     "unbind", "assume", "clone", "index_put", "index_copy", "index_fill", "scatter", "view_write", "replace", "pool_gather")
)  # fmt: skip
"""Rows of which each element of the result is one element of an argument, or does not depend on it."""
_Sends = Callable[[Value, int], bool]
SENDING: dict[str, _Sends] = {
    "index_back": lambda v, i: True,
    "scatter_along": lambda v, i: True,
    "unfold_transpose": lambda v, i: True,
    "pool_scatter": lambda v, i: True,
    "scatter_add": lambda v, i: True,
    "index_add": lambda v, i: True,
    "index_put": lambda v, i: bool(v.attrs["accumulate"]),
}
"""Rows of which each element of an argument is added to one element of the result; `(application, argument)` says if this one is."""
_FILLS = ("value", "fill")


class PlaceReader:
    """Evaluates index tensors. `arrays()` returns the inputs of the program; those that were read are in `used`."""

    def __init__(self, inputs: Sequence[Value], arrays: Callable[[], Sequence[Array]], x: Value) -> None:
        self.inputs, self.arrays, self.x = inputs, arrays, x
        self.used: set[int] = set()

    def array(self, v: Value) -> Array | None:
        """Return an index tensor; None if it depends on x."""
        below = toposort((v,))
        if any(a is self.x for a in below):
            return None
        read = [a for a in below if a.op == INPUT]
        self.used |= {a.attrs["index"] for a in read}
        renamed = Graph(self.inputs, (v,))
        return evaluate(renamed, self.arrays())[0]

    def origins(self, source: Value, i: int, output: int) -> Array | None:
        """Return the element of argument i that each element of the result is, or -1; None if that is not known."""
        row = row_of(source)
        if source.op == "embedding" and (source.args[2] is not None or source.attrs["padding"] is not None):
            return None  # the rule of such a row is not the derivative of what it computes
        args: list[Any] = []
        for k, a in enumerate(source.args):
            if k == i:
                args.append(np.arange(1, a.size + 1, dtype=np.int64).reshape(a.shape))
            elif a is None or kind(a.dtype) in "fc":
                args.append(None if a is None else np.zeros(a.shape, np.int64))
            else:
                found = self.array(a)
                if found is None:
                    return None
                args.append(found)
        attrs = {name: 0 if name in _FILLS else x for name, x in source.attrs.items()}
        result = row.numpy(*args, **attrs)
        return np.asarray(result[output] if isinstance(source.dtype, tuple) else result).reshape(-1).astype(np.int64) - 1

    def targets(self, source: Value, i: int) -> Array | None:
        """Return the element of the result to which each element of argument i is added, or -1; None if that is not known."""
        numbers = input_value(len(self.inputs), source.shape, np.float64)
        row = variant(row_of(source), (a for a in source.args if a is not None))
        rule = row.rule(i)
        result = None if rule is None else rule(xp, numbers, source, *source.args, **source.attrs)
        if result is None or any(a is self.x for a in toposort((result,))):
            return None
        self.used |= {a.attrs["index"] for a in toposort((result,)) if a.op == INPUT and a is not numbers}
        numbered = np.arange(1, source.size + 1, dtype=np.float64).reshape(source.shape)
        (found,) = evaluate(Graph((*self.inputs, numbers), (result,)), [*self.arrays(), numbered])
        shape = source.args[i].shape
        if found.shape != shape:  # a broadcast argument is added to several elements
            return None
        return found.reshape(-1).astype(np.int64) - 1


def read(band: Band, origins: Array, constants: Constants) -> Band:
    """Return the band of a tensor whose elements are those of the band's tensor at `origins`."""
    band = band.listed()
    order = np.argsort(band.rows, kind="stable")
    rows = band.rows[order]
    first, last = np.searchsorted(rows, origins, "left"), np.searchsorted(rows, origins, "right")
    counts = np.where(origins < 0, 0, last - first)
    found = np.repeat(np.arange(len(origins)), counts)
    within = np.arange(len(found)) - np.repeat(np.cumsum(counts) - counts, counts)
    return _chosen(band, order[np.repeat(first, counts) + within], found, constants)


def sent(band: Band, targets: Array, constants: Constants) -> Band:
    """Return the band of a tensor to whose elements `targets` those of the band's tensor are added."""
    band = band.listed()
    rows = targets[band.rows]
    kept = np.flatnonzero(rows >= 0)
    return _chosen(band, kept, rows[kept], constants)


def _chosen(band: Band, entries: Array, rows: Array, constants: Constants) -> Band:
    """Return some entries of a listed band, at other rows."""
    value = band.value
    if isinstance(value, Value) and prod(value.shape) != 1:
        value = constants.taken(value, entries)
    return Band((), (), (len(entries),), band.cols[entries], value, rows)
