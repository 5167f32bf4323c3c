"""Every row of the table as a function of tensors, on samples of its arguments; and many of them as one function, to save compiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from row_graphs import WITHOUT_SHAPE, samples_of

import symgrad as sg
from symgrad.application import apply
from symgrad.ops.promotion import kind
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap

WITHOUT_DERIVATIVE = ("floor_divide", "heaviside")
"""Who asks for one is told so."""

REAL = ("complex", "nan_to_num", "prelu", "view_as_complex")
"""Rows whose kernels run on other types of float than they are meant for."""


def fitting(a: Any, dtype: Any) -> Any:
    """The array in another type; made smaller if that type would hold its numbers as infinities, on which rows need not agree (a matrix
    product of them is NaN or not with the order of its sums). Whole numbers are small and few: three for each unit."""
    if np.dtype(dtype).kind in "biu":
        small = np.nan_to_num(np.rint(3 * a), nan=1, posinf=3, neginf=-3).clip(0 if np.dtype(dtype).kind in "bu" else -50, 50)
        return np.asarray(small, dtype)
    most, largest = float(ml_dtypes.finfo(dtype).max), np.abs(a[np.isfinite(a)]).max(initial=0)
    return np.asarray(a if largest <= most else a * (most**0.5 / largest), dtype)


FLOATS = (
    *REAL, "adaptive_avg_pool", "avg_unpool", "cofactor_derivative", "convolution_weight", "mean", "nll_loss", "nll_spread", "pool_scatter",
    "power", "prod_rest",
)  # fmt: skip
"""Rows whose kernels run on whole numbers, which public functions do not give them."""


@dataclass(frozen=True)
class Case:
    """A row with its attributes, and arrays for its arguments; what is no array (None, a number) stays where it is."""

    name: str
    number: int
    args: tuple[Any, ...]
    attrs: dict[str, Any]

    @property
    def arrays(self) -> list[Any]:
        return [a for a in self.args if isinstance(a, np.ndarray)]

    def run(self, tensors: Any) -> list[Any]:
        given = iter(tensors)
        result = apply(TABLE[self.name], tuple(next(given) if isinstance(a, np.ndarray) else a for a in self.args), dict(self.attrs))
        several = list(result) if isinstance(result, tuple) else [result]
        return [t.detach() for t in several] if self.name in WITHOUT_DERIVATIVE else several

    def cast(self, dtype: Any) -> Case | None:
        """The same in another type, if the row takes it and eager code runs."""
        args = tuple(fitting(a, dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in self.args)
        if not any(isinstance(a, np.ndarray) and a.dtype == dtype for a in args) or kind(np.dtype(dtype)) not in TABLE[self.name].kinds:
            return None
        if self.name in FLOATS and kind(np.dtype(dtype)) in "bi":
            return None
        if self.name in REAL and (kind(np.dtype(dtype)) == "c" or self.name == "complex"):
            return None
        case = Case(self.name, self.number, args, self.attrs)
        try:
            case.run([wrap(a) for a in case.arrays])
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return None
        return case


def cases(most: int | None = None, elementwise: bool | None = None) -> list[Case]:
    """All of them, `most` of each row."""
    rows = [row for name, row in TABLE.items() if name not in WITHOUT_SHAPE and elementwise in (None, row.elementwise)]
    return [Case(row.name, i, *sample) for row in rows for i, sample in enumerate(samples_of(row)[:most])]


def batches(some: list[Case], count: int) -> list[list[Case]]:
    return [some[i::count] for i in range(count)]


class Together:
    """Several cases as one function of all their tensors, which gives all their results."""

    def __init__(self, some: list[Case]) -> None:
        self.cases = some
        self.arrays = [a for case in some for a in case.arrays]
        self.names: list[str] = []

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        given, results = iter(tensors), []
        self.names = []
        for case in self.cases:
            found = case.run([next(given) for _ in case.arrays])
            self.names += [f"{case.name} {case.number}, output {i}" for i in range(len(found))]
            results += found
        return tuple(results)

    def leaves(self) -> list[Any]:
        return [wrap(a.copy(), requires_grad=kind(a.dtype) in "fc") for a in self.arrays]

    def inputs(self) -> list[str]:
        return [f"{case.name} {case.number}, input {i}" for case in self.cases for i in range(len(case.arrays))]


def weighted(results: Any) -> Any:
    """One number that depends on all results."""
    total = 0
    for k, t in enumerate(results):
        if t.requires_grad:
            weights = np.cos(np.arange(t.numel()) + k).reshape(t.shape)
            total = total + ((t.abs() if t.is_complex() else t) * wrap(weights.astype(t._array.real.dtype))).sum()
    return total


def slopes(function: Any, leaves: Any, order: int = 1) -> list[Any]:
    """Gradients of the results; of order 2, gradients of the sum of squares of those."""
    asked = [t for t in leaves if t.requires_grad]
    found = sg.autograd.grad(weighted(function(*leaves)), asked, create_graph=order > 1, allow_unused=True, materialize_grads=order > 1)
    if order > 1:
        total = sum(((g.abs() if g.is_complex() else g) ** 2).sum() for g in found if g.requires_grad)
        found = sg.autograd.grad(total, asked, allow_unused=True)
    given = iter(found)
    return [next(given) if t.requires_grad else None for t in leaves]
