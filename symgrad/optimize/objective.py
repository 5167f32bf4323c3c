"""A function of tensors as SciPy wants it: of a vector, with derivatives, each of them one kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.api import compile
from symgrad.compiler.tracing.capture import user_line
from symgrad.compiler.tracing.tree import flatten, settings
from symgrad.errors import describe
from symgrad.functional import cat
from symgrad.optimize.packing import Packing
from symgrad.tensor import Tensor, wrap


class Kernels:
    """Values and derivatives of a function at vectors; the last point is remembered, since SciPy asks for values and derivatives apart.
    What is given out is a copy: SciPy writes to what it gets."""

    def __init__(self, function: Callable[..., Any], packing: Packing, args: Any, backend: str, result: Any) -> None:
        def packed(vector: Any, *args: Any) -> Any:
            return result(function(packing.tensors(vector), *args))

        packed.__name__ = packed.__qualname__ = getattr(function, "__name__", "function")
        self.args = args if isinstance(args, tuple) else (args,)  # as SciPy takes it
        self.compiled = compile(packed, backend=backend)
        self.program: Any = None
        """The program, if there is one for all values, and its inputs behind the vector."""
        self.at: Any = None
        self.known: dict[str, Any] = {}

    def _found(self, what: str, x: Any, find: Callable[[Tensor], Any]) -> Any:
        if self.at is None or not np.array_equal(self.at, x):
            self.at, self.known = np.array(x, np.float64), {}
        if what not in self.known:
            self.known[what] = find(wrap(np.array(x, np.float64)))  # a copy: optimizers write to their vectors
        return self.known[what]

    def value(self, x: Any) -> Any:
        if "value_and_grad" in self.known and np.array_equal(self.at, x):
            return self.known["value_and_grad"][0].copy()
        return self._found("value", x, lambda v: _array(self.compiled(v, *self.args))).copy()

    def value_and_grad(self, x: Any) -> Any:
        value, gradient = self._found("value_and_grad", x, lambda v: self._computed("value_and_grad", v))
        return value.copy(), gradient.copy()

    def jacobian(self, x: Any) -> Any:
        return self._found("jacobian", x, lambda v: self._computed("jacobian", v)[0]).copy()

    def hessian(self, x: Any) -> Any:
        return self._found("hessian", x, lambda v: self._computed("hessian", v)[0]).copy()

    def hessian_times(self, x: Any, p: Any) -> Any:
        """Forward over reverse: no Hessian is made."""
        return self._computed("hvp", wrap(np.array(x, np.float64)), wrap(np.array(p, np.float64)))[0]

    def _computed(self, what: str, vector: Tensor, *directions: Tensor) -> list[Any]:
        """A derivative in the vector. Where no path depends on values, the program is looked up once."""
        program, rest = self.program or (None, [])
        if program is None or not program.holds():
            call, program = self.compiled._prepare((vector, *self.args), {}, what)
            _, *rest = program.inputs(call)
            settled = not program.guards.conditions and not program.answers
            self.program = (program, rest) if settled else None
        return [_array(t) for t in program.compute(what, (0,), [vector, *rest, *directions])]


def _array(t: Tensor) -> Any:
    return np.array(t.detach().numpy(), np.float64)


def scalar(name: str) -> Callable[[Any], Tensor]:
    """A check of what an objective returns."""

    def check(result: Any) -> Tensor:
        if not isinstance(result, Tensor):
            raise TypeError(f"{user_line()}: {name} must return a tensor with one number, got {describe(result)}")
        if result.numel() != 1:
            raise ValueError(f"{user_line()}: {name} must return one number to be minimized, got {describe(result)}; sum or average it")
        return result.reshape(())  # type: ignore[no-any-return]

    return check


def several(name: str) -> Callable[[Any], Tensor]:
    """What a system of equations or a constraint returns, as one vector."""

    def check(result: Any) -> Tensor:
        parts, structure = flatten(result, lambda x: isinstance(x, Tensor))
        if not parts or settings(structure, ""):
            raise TypeError(f"{user_line()}: {name} must return a tensor, or containers of nothing else, got {describe(result)}")
        return parts[0].reshape(-1) if len(parts) == 1 else cat([part.reshape(-1) for part in parts])

    return check


def check_start(packing: Packing, name: str) -> None:
    """NaN in x0 is told before anything runs."""
    wrong = np.isnan(packing.start)
    if wrong.any():
        raise ValueError(f"{packing.first(wrong)} is nan: {name} cannot start there")
