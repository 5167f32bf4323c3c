"""What holds for any row of the table, checked on samples of its arguments: it saves what its rules read and nothing else,
its type rule tells the truth, its rules are derivatives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from symgrad.application import apply
from symgrad.mode import local
from symgrad.observer import Observer
from symgrad.ops.namespace import raw
from symgrad.ops.promotion import kind
from symgrad.ops.shapes import unbroadcast
from symgrad.ops.spec import Row
from symgrad.tensor import Tensor, wrap
from symgrad.testing.samples import Sample


class Unsaved:
    """What a rule sees of an argument that was not saved: any look at the values is an error."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, like: Any) -> None:
        if like is not None:
            self.shape, self.dtype, self.ndim = like.shape, like.dtype, like.ndim

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("read, but not saved")

    def __eq__(self, other: object) -> bool:
        raise TypeError("read, but not saved")

    __ne__ = __eq__


def rules_of(row: Row, sample: Sample) -> list[int]:
    """The arguments in which the row has a derivative here."""
    return [i for i, a in enumerate(sample[0]) if row.rule(i) is not None and hasattr(a, "dtype") and kind(a.dtype) in "fc"]


def outputs_of(row: Row, sample: Sample) -> tuple[Any, ...]:
    """What the kernel gives, always as a tuple."""
    out = local.mode.run(row.numpy, *sample[0], **sample[1])
    return tuple(np.asarray(o) for o in ((out,) if row.outputs == 1 else out))


def cotangent(row: Row, i: int, sample: Sample, g: tuple[Any, ...], hidden: Iterable[str] = ()) -> Any:
    """What the rule of argument `i` makes of the cotangents `g`, without the values of what is hidden."""
    args, attrs = sample
    hide, single = set(hidden), row.outputs == 1
    shown = [Unsaved(a) if name in hide and hasattr(a, "shape") else a for name, a in zip(_names(row, i, args), args, strict=True)]
    outs = [Unsaved(None) if {"out", f"out{k}"} & hide else o for k, o in enumerate(outputs_of(row, sample))]
    index = {"index": i} if row.variadic else {}
    rule: Any = row.rule(i)
    given: Any = (g[0] if single else g, outs[0] if single else tuple(outs))
    if row.prepare is not None:
        given = local.mode.run(row.prepare, raw, *given, *shown, **attrs), given[1]
    return local.mode.run(rule, raw, *given, *shown, **index, **attrs)


def _names(row: Row, i: int, args: tuple[Any, ...]) -> list[str]:
    """What `saves` calls each argument, seen from the rule of argument `i`."""
    if "others" in row.reads(i):
        return ["itself" if j == i else "others" for j in range(len(args))]
    return list(row.names(len(args)))


def ones(row: Row, sample: Sample) -> tuple[Any, ...]:
    """A cotangent of ones for each output that has one."""
    return tuple(np.ones_like(o) if kind(o.dtype) in "fc" else None for o in outputs_of(row, sample))


def unsaved(row: Row, i: int, sample: Sample) -> set[str]:
    """All that the rule of argument `i` must do without."""
    saved = row.reads(i)
    outs = set() if "out" in saved else {f"out{k}" for k in range(len(outputs_of(row, sample)))}
    return (set(_names(row, i, sample[0])) | outs) - saved


def is_needed(row: Row, i: int, sample: Sample, name: str) -> bool:
    """Whether the rule fails without the values of `name`."""
    try:
        cotangent(row, i, sample, ones(row, sample), {name})
    except Exception:
        return True
    return False


def describe(values: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and NumPy types, of arrays, tensors or metas."""
    many = values if isinstance(values, (tuple, list)) else (values,)
    return [(tuple(v.shape), np.dtype(getattr(v.dtype, "dtype", v.dtype))) for v in many]


def run(row: Row, sample: Sample) -> Any:
    """The row as the public functions run it."""
    args, attrs = sample
    return apply(row, tuple(wrap(a) if isinstance(a, np.ndarray) else a for a in args), attrs)


def slopes(row: Row, i: int, sample: Sample, g: tuple[Any, ...], eps: float = 1e-6) -> Any:
    """The cotangent of argument `i` by central differences."""
    args, attrs = sample
    result = np.zeros(args[i].shape)
    for place in np.ndindex(*args[i].shape):
        sides = []
        for step in (eps, -eps):
            moved = [np.array(a) if isinstance(a, np.ndarray) else a for a in args]
            moved[i][place] += step
            outs = outputs_of(row, (tuple(moved), attrs))
            sides.append(sum(float(np.sum(o * c)) for o, c in zip(outs, g, strict=True) if c is not None))
        result[place] = (sides[0] - sides[1]) / (2 * eps)
    return result


def exact(row: Row, i: int, sample: Sample, g: tuple[Any, ...]) -> Any:
    """The cotangent of argument `i` by the rule, summed down to the argument's shape as the engine does."""
    return unbroadcast(raw, np.asarray(cotangent(row, i, sample, g, unsaved(row, i, sample))), sample[0][i].shape)


class harvest(Observer):
    """Collects the rows that run inside it, with their arguments: `with harvest() as found: program()`, then found.samples."""

    def __init__(self) -> None:
        super().__init__(None)
        self.samples: dict[str, list[Sample]] = {}

    def __enter__(self) -> harvest:
        local.mode.swap_capture(self)
        return self

    def __exit__(self, *exc: object) -> None:
        local.mode.swap_capture(None)

    def on_op(self, row: Row, args: tuple[Any, ...], attrs: dict[str, Any], result: Any) -> None:
        copies = tuple(np.array(a._array) if isinstance(a, Tensor) else a for a in args)
        self.samples.setdefault(row.name, []).append((copies, attrs))
