"""Every public function of NumPy and SciPy that takes one or two arrays of floats, as a program: walked by
tests/interop/test_numpy_scipy_coverage.py.

A program gives one number, computed from all numbers that the function gives, with a weight for each; so it depends on every one of them.
The same program runs on arrays (NumPy's own numbers), on tensors, and compiled.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special

import symgrad as sg

V1, V2 = np.array([0.31, 0.72, 0.54]), np.array([0.85, 0.23, 0.67])
W1, W2 = np.array([0.93, 0.42, 0.29]), np.array([0.18, 0.61, 0.76])
M1, M2 = np.array([[1.9, 0.31], [0.12, 1.3]]), np.array([[1.1, 0.42], [0.63, 2.2]])
N1, N2 = np.array([[0.7, 0.25], [0.15, 1.6]]), np.array([[2.1, 0.35], [0.45, 0.8]])
FORMS = {
    "x": ((V1,), (V2,)), "M": ((M1,), (M2,)), "x, y": ((V1, W1), (V2, W2)), "M, N": ((M1, N1), (M2, N2)),
    "M, y": ((M1, W1[:2]), (M2, W2[:2])),
}  # fmt: skip
"""Arguments to trace with, and others to call with."""

MODULES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
SKIPPED = {
    "numpy.info": "it prints, and gives nothing", "numpy.printoptions": "it gives a context, and takes no arrays",
    "numpy.iterable": "it asks for the class alone", "numpy.isscalar": "it asks for the class alone",
    "numpy.mintypecode": "it takes letters for types", "numpy.test": "it runs NumPy's own tests",
    "numpy.show_config": "it prints, and takes no arrays", "numpy.show_runtime": "it prints, and takes no arrays",
    "numpy.set_printoptions": "it sets options", "numpy.seterr": "it sets options", "numpy.seterrcall": "it sets options",
    "numpy.setbufsize": "it sets options", "numpy.frombuffer": "a tensor has no buffer: see test_escapes.py",
    "numpy.linalg.test": "it runs NumPy's own tests", "numpy.fft.test": "it runs NumPy's own tests",
    "numpy.bmat": "it gives None for what is no array", "numpy.isfortran": "it asks for the layout of memory, which tensors do not show",
    "numpy.empty_like": "the numbers that it gives are any",
}  # fmt: skip
SYMMETRIC = ("numpy.linalg.cholesky", "numpy.linalg.eigh", "numpy.linalg.eigvalsh")
"""Functions of symmetric matrices, of which one half is read."""


@dataclass(frozen=True)
class Case:
    """A function of a library with arguments."""

    name: str
    function: Callable[..., Any]
    form: str

    @property
    def arguments(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return FORMS[self.form]

    def __call__(self, *args: Any) -> Any:
        """The program."""
        x, *others = args
        if self.name in SYMMETRIC:
            x = (x + x.T) / 2
        return total(args[0], self.function(x, *others))

    def __str__(self) -> str:
        return f"{self.name}({self.form})"


def total(x: Any, result: Any) -> Any:
    """One number out of all: bounded, so that poles and overflows do not matter, and different for each place."""
    whole = 0.1 * (x * x).sum()
    for i, leaf in enumerate(leaves(result)):
        if leaf.size if isinstance(leaf, np.ndarray) else leaf.numel():
            whole = whole + weighted(leaf, i) * 0.5 + weighted(leaf, i + 3) * x.sum()
    return whole


def weighted(leaf: Any, k: int) -> Any:
    weights = np.cos(np.arange(float(np.prod(leaf.shape))) + k).reshape(tuple(leaf.shape))
    is_complex = leaf.is_complex() if isinstance(leaf, sg.Tensor) else np.iscomplexobj(leaf)
    if is_complex:
        leaf = leaf.real + 2 * leaf.imag
    return (leaf * weights).sum()


def leaves(result: Any) -> Iterator[Any]:
    """Arrays, tensors and numbers among results."""
    if isinstance(result, (sg.Tensor, np.ndarray)):
        if not isinstance(result, np.ndarray) or result.dtype.kind in "biufc":
            yield result
    elif isinstance(result, (np.generic, bool, int, float, complex)):
        yield np.asarray(result)
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from leaves(part)


def _callables(name: str, module: Any) -> Iterator[tuple[str, Any]]:
    for word in sorted(dir(module)):
        found = getattr(module, word)
        if not word.startswith("_") and callable(found) and not isinstance(found, type) and f"{name}.{word}" not in SKIPPED:
            yield f"{name}.{word}", found


def _runs(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a function takes such arrays, and leaves them as they are."""
    given = [a.copy() for a in args]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = function(*given)
            number = total(given[0], result)
        except Exception:  # whatever it is: such a call is no program
            return False
    return all(np.array_equal(a, b) for a, b in zip(given, args, strict=True)) and bool(np.isfinite(number))


def cases() -> list[Case]:
    """All of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        functions = [item for name, module in MODULES.items() for item in _callables(name, module)]
    special = [(f"scipy.special.{n}", f) for n, f in sorted(vars(scipy.special).items()) if isinstance(f, np.ufunc)]
    every = [Case(name, f, form) for name, f in functions + special for form in FORMS]
    return [case for case in every if all(_runs(case.function, args) for args in case.arguments)]


def differences(program: Any, args: tuple[Any, ...], eps: float = 1e-6) -> Any:
    """The slope of a program on arrays, in its first argument, by central differences."""
    slope = np.zeros_like(args[0])
    for place in np.ndindex(*slope.shape):
        ends = []
        for step in (eps, -eps):
            moved = args[0].copy()
            moved[place] += step
            ends.append(program(moved, *args[1:]))
        slope[place] = (ends[0] - ends[1]) / (2 * eps)
    return slope
