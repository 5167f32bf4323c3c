"""Derivatives of a compiled function inside another traced function, or inside one that is being differentiated.

There they are inlined as ordinary code: a kernel would hide its computation from the outer trace, and its dependencies from the outer
derivative. So they are computed by `symgrad.func`, and returned in the structures that compiled functions use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from symgrad import func
from symgrad.compiler.inputs.signature import Signature, is_data
from symgrad.compiler.inputs.wrt import select_wrt, selected_tangents
from symgrad.compiler.runtime.return_types import convert_results, kinds_of
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError
from symgrad.mode import is_tracing, local
from symgrad.pytree import flatten, leaves_like, unflatten
from symgrad.tensor import Tensor


def under_outer_transform() -> bool:
    """True under an outer trace or transform: inline instead of launching a kernel."""
    return local.mode.depth > 0 or is_tracing()


def refuse_kernels(name: str) -> None:
    """Raise if a VJP or JVP that was made outside is called under an outer trace or transform: it would run kernels."""
    if under_outer_transform():
        raise TraceError(
            f"{user_line()}: {name} was begun outside of the function that is being traced or differentiated, which could not see what it"
            " computes; begin it inside"
        )


class InlinedDerivatives:
    """The inlined derivatives of a function at given arguments."""

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any, wrt: Any, returns: str | None) -> None:
        self.returns = returns
        self.signature = Signature(function)  # without options: Python scalars stay Python scalars
        self.call = self.signature.bind(args, kwargs)
        self.tensors = self.call.tensors()
        self.choice = select_wrt(wrt, self.signature.named_arguments(self.call), self.call.labels, self.tensors, len(self.tensors))
        self.at = tuple(self.tensors[i] for i in self.choice.inputs)
        self.structure: Any = None
        """The structure of the results, once they are computed."""

    def run(self, *chosen: Tensor) -> Any:
        """Call the function with `chosen` in place of the selected inputs."""
        filled = list(self.tensors)
        for i, t in zip(self.choice.inputs, chosen, strict=True):
            filled[i] = t
        bound = inspect.BoundArguments(self.signature.signature, unflatten(self.call.structure, filled))
        return self.signature.function(*bound.args, **bound.kwargs)

    def convert_results(self, found: Any, given: Sequence[Any] = ()) -> Any:
        """Return derivatives as tensors or arrays. During a trace they stay tensors: their values must not leave the trace."""
        return found if is_tracing() else convert_results(found, self.call.kinds | kinds_of(given), self.returns, False)

    def results(self, *chosen: Tensor) -> list[Tensor]:
        """Return the results of `run` as a flat list, and store their structure."""
        found, self.structure = flatten(self.run(*chosen), lambda x: isinstance(x, Tensor))
        return found

    def in_structure(self, found: Sequence[Any]) -> Any:
        """Return derivatives in the structure of the selected inputs."""
        return unflatten(self.choice.structure, found)

    def directions(self, given: Sequence[Any], name: str) -> tuple[Tensor, ...]:
        labels = [self.call.labels[i] for i in self.choice.inputs]
        return tuple(map(_like, selected_tangents(self.choice, given, labels, name), self.at))

    @property
    def _all(self) -> tuple[int, ...]:
        return tuple(range(len(self.at)))

    def value_and_grad(self) -> tuple[Tensor, Any]:
        found, value = func.grad_and_value(self.run, self._all)(*self.at)
        result: tuple[Tensor, Any] = self.convert_results((value, self.in_structure(found)))
        return result

    def grad(self) -> Any:
        return self.value_and_grad()[1]

    def jacobian(self) -> Any:
        found = func.jacrev(self.results, self._all)(*self.at)
        return self.convert_results(unflatten(self.structure, map(self.in_structure, found)))

    def hessian(self) -> Any:
        found = func.hessian(self.results, self._all)(*self.at)
        return self.convert_results(unflatten(self.structure, [self.in_structure([*map(self.in_structure, rows)]) for rows in found]))

    def hvp(self, v: Any) -> Any:
        found = func.jvp(func.grad(self.run, self._all), self.at, self.directions((v,), "v"))[1]
        return self.convert_results(self.in_structure(found), flatten(v, is_data)[0])

    def taylor(self, v: Any, order: int) -> list[Any]:
        along = None if v is None else self.directions((v,), "v")
        found = func.taylor(self.results, order)(self.at, along)
        return [self.convert_results(unflatten(self.structure, c), () if v is None else flatten(v, is_data)[0]) for c in found]


class InlinedPullback:
    """The VJP at one point, with the interface of `Pullback`."""

    def __init__(self, nested: InlinedDerivatives) -> None:
        self._inlined = nested
        self._value, self._pull = func.vjp(nested.results, *nested.at)

    @property
    def value(self) -> Any:
        return self._inlined.convert_results(unflatten(self._inlined.structure, self._value))

    def __call__(self, *cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        leaves = [x for x, _ in leaves_like(self._inlined.structure, given, "the cotangent")]
        seeds = [_like(x, y) for x, y in zip(leaves, self._value, strict=True)]
        return self._inlined.convert_results(self._inlined.in_structure(self._pull(*seeds)), leaves)


class InlinedPushforward:
    """The JVP at one point, with the interface of `Pushforward`."""

    def __init__(self, nested: InlinedDerivatives) -> None:
        self._inlined = nested

    @property
    def value(self) -> Any:
        found = self._inlined.results(*self._inlined.at)
        return self._inlined.convert_results(unflatten(self._inlined.structure, found))

    def __call__(self, *given: Any) -> Any:
        nested = self._inlined
        _, found = func.jvp(nested.results, nested.at, nested.directions(given, "the tangent"))
        return nested.convert_results(unflatten(nested.structure, found), flatten(given, is_data)[0])


def _like(given: Any, like: Tensor) -> Tensor:
    """Return a direction as a tensor; for integers, which have none, zeros."""
    if not (like.is_floating_point() or like.is_complex()):
        return like * 0
    return given if isinstance(given, Tensor) else like.new_tensor(given)
