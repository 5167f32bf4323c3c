"""A function of tensors as SciPy wants it: of a vector, with derivatives, each of them one kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from symgrad.compiler.api import compile
from symgrad.compiler.function.compiled import Compiled
from symgrad.compiler.trace.tracer import user_line
from symgrad.errors import describe
from symgrad.functional import cat
from symgrad.optimize.packing import Packing
from symgrad.pytree import flatten, static_values
from symgrad.tensor import Tensor


class Kernels:
    """Values and derivatives of a function at vectors; the last point is remembered, since SciPy asks for values and derivatives apart.
    What is given out is a copy: SciPy writes to what it gets."""

    def __init__(
        self, function: Callable[..., Any], packing: Packing, args: Any, backend: str, result: Any, sparse: bool = False
    ) -> None:
        self.sparse = sparse
        self.args = args if isinstance(args, tuple) else (args,)  # as SciPy takes it
        self.compiled = _compiled(function, packing, backend, result)
        self.at: Any = None
        self.known: dict[str, Any] = {}

    def _found(self, what: str, x: Any, find: Callable[[Any], Any]) -> Any:
        if self.at is None or not np.array_equal(self.at, x):
            self.at, self.known = np.array(x, np.float64), {}
        if what not in self.known:
            self.known[what] = find(self.at)
        return self.known[what]

    def value(self, x: Any) -> Any:
        if "value_and_grad" in self.known and np.array_equal(self.at, x):
            return self.known["value_and_grad"][0].copy()
        return self._found("value", x, lambda v: _array(self.compiled(v, *self.args))).copy()

    def value_and_grad(self, x: Any) -> Any:
        found = self._found("value_and_grad", x, lambda v: [*map(_array, self.compiled.value_and_grad(v, *self.args, wrt=0))])
        return found[0].copy(), found[1].copy()

    def jacobian(self, x: Any) -> Any:
        return self._found("jacobian", x, lambda v: self._matrix(self.compiled.jacobian, v)).copy()

    def hessian(self, x: Any) -> Any:
        return self._found("hessian", x, lambda v: self._matrix(self.compiled.hessian, v)).copy()

    def _matrix(self, derivative: Callable[..., Any], x: Any) -> Any:
        """Return a derivative as an array, or as a sparse one."""
        if self.sparse:
            return derivative(x, *self.args, wrt=0, sparse=True).astype(np.float64, copy=False)
        return _array(derivative(x, *self.args, wrt=0))

    def hessian_times(self, x: Any, p: Any) -> Any:
        """Forward over reverse: no Hessian is made."""
        return _array(self.compiled.hvp(np.array(x, np.float64), *self.args, v=np.array(p, np.float64), wrt=0))


_KEPT = "__symgrad_optimize__"


class _Programs(dict[Any, Any]):
    """Compiled functions of a vector, kept with the function that they were made from, by the form of the vector. A wrapper that copies the
    attributes of a function gets them, too, and must not use them."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = weakref.ref(function)

    def __reduce__(self) -> Any:
        """A copy of the function, in another process, say, makes its own."""
        return dict, ()


def _compiled(function: Callable[..., Any], packing: Packing, backend: str, result: Callable[[Any], Any]) -> Any:
    """The function of a vector, compiled; it is traced and compiled once, however often it is optimized."""
    inner = function.signature.function if isinstance(function, Compiled) else function
    place = vars(inner) if isinstance(inner, FunctionType) else None
    if place is None:
        return _packed(inner, packing, backend, result)
    kept = place.get(_KEPT)
    if not isinstance(kept, _Programs) or kept.function() is not inner:
        kept = place[_KEPT] = _Programs(inner)
    key = backend, getattr(result, "__qualname__", None), packing.key
    if key not in kept:
        kept[key] = _packed(inner, packing, backend, result)
    return kept[key]


def _packed(function: Callable[..., Any], packing: Packing, backend: str, result: Callable[[Any], Any]) -> Any:
    def packed(vector: Any, *args: Any) -> Any:
        return result(function(packing.tensors(vector), *args))

    packed.__name__ = packed.__qualname__ = getattr(function, "__name__", "function")
    packed.__module__ = str(getattr(function, "__module__", __name__))  # so that what the user's function reads is looked for
    return compile(packed, backend=backend)


def _array(found: Any) -> Any:
    return np.array(found.detach().numpy() if isinstance(found, Tensor) else found, np.float64)


def scalar(name: str) -> Callable[[Any], Tensor]:
    """A check of what an objective returns."""

    def check(result: Any) -> Tensor:
        if not isinstance(result, Tensor):
            raise TypeError(f"{user_line()}: {name} must return a tensor with one number, got {describe(result)}")
        if result.numel() != 1:
            raise ValueError(f"{user_line()}: {name} must return one number to be minimized, got {describe(result)}; sum or average it")
        return result.reshape(())

    return check


def several(name: str) -> Callable[[Any], Tensor]:
    """What a system of equations or a constraint returns, as one vector."""

    def check(result: Any) -> Tensor:
        parts, structure = flatten(result, lambda x: isinstance(x, Tensor))
        if not parts or static_values(structure, ""):
            raise TypeError(f"{user_line()}: {name} must return a tensor, or containers of nothing else, got {describe(result)}")
        return parts[0].reshape(-1) if len(parts) == 1 else cat([part.reshape(-1) for part in parts])

    return check


def check_start(packing: Packing, name: str) -> None:
    """NaN in x0 is told before anything runs."""
    wrong = np.isnan(packing.start)
    if wrong.any():
        raise ValueError(f"{packing.first(wrong)} is nan: {name} cannot start there")
