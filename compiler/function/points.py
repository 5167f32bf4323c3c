"""The point of a derivative, and VJP and JVP at a point, which take directions later.

A point is a program with its inputs and the inputs that the derivative is taken in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.function.eager_fallback import EagerFallback
from symgrad.compiler.function.nested import refuse_kernels
from symgrad.compiler.inputs.signature import Call, native_number
from symgrad.compiler.inputs.wrt import WrtSelection, selected_tangents
from symgrad.compiler.ir.graph import Value, type_text
from symgrad.compiler.runtime.executables import Unflatten
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.runtime.return_types import ARRAYS, array_of, kinds_of, returns_arrays
from symgrad.device_tensor import storage_of
from symgrad.errors import describe
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.pytree import LEAF, leaf_count, leaves_like, unflatten
from symgrad.tensor import Tensor, wrap

TENSORS = frozenset((Tensor,))


class DerivativePoint:
    """The point of a derivative: a program, its inputs, and the selected inputs."""

    def __init__(
        self, program: Program | EagerFallback, call: Call, choice: WrtSelection, returns: str | None, later: bool = False
    ) -> None:
        self.program: Any = program
        self.choice, self.chosen = choice, choice.inputs
        self.inputs = program.inputs(call)
        self.kinds, self.returns_arrays = call.kinds, returns_arrays(returns, program.requires_grad)
        if later:  # the caller may write to its arrays until then
            kept = len(call.leaves)
            self.inputs[:kept] = [t if isinstance(x, Tensor) else wrap(x.copy()) for t, x in zip(self.inputs, call.leaves, strict=False)]
        self._versions = [t._version for t in self.inputs] if later else ()

    @staticmethod
    def for_arguments(
        program: Program, choice: WrtSelection, tensors: Sequence[Tensor], returns: str | None, later: bool
    ) -> DerivativePoint:
        """Return the point for other arguments of the same types."""
        point = DerivativePoint.__new__(DerivativePoint)
        point.program, point.choice, point.chosen = program, choice, choice.inputs
        point.inputs = [*tensors, *program.captured]
        point.kinds, point.returns_arrays = TENSORS, returns_arrays(returns, program.requires_grad)
        point._versions = [t._version for t in point.inputs] if later else ()
        return point

    def compute(self, what: str, directions: Sequence[Tensor] = (), given: Sequence[Any] = ()) -> list[Any]:
        """Run a kernel and return its results as tensors or arrays. `directions` are its tangents or cotangents, and `given` the values
        that the caller passed for them."""
        for i, version in enumerate(self._versions):
            if self.inputs[i]._version != version:
                label = self.program.graph.labels[i]
                raise RuntimeError(f"{label} has been written to in place since this derivative was begun: begin it again, or pass a copy")
        found: list[Tensor] = self.program.compute(what, self.chosen, [*self.inputs, *directions])
        arrays = self.returns_arrays
        if arrays is None:
            arrays = self.kinds | kinds_of(given) == ARRAYS
        return [array_of(t._storage) for t in found] if arrays else found

    def in_structure(self, found: Sequence[Any]) -> Any:
        """Return derivatives in the structure of the selected inputs."""
        return in_structure(self.choice.structure, found)

    def by_output(self, found: list[Any], arrange: Unflatten) -> Any:
        """Return derivatives in the structure of the results."""
        return by_output(self.program, arrange)(found)

    @property
    def values(self) -> list[Value]:
        """The selected inputs, as graph values."""
        return [self.program.graph.inputs[i] for i in self.chosen]

    @property
    def labels(self) -> list[str]:
        return [self.program.graph.labels[i] for i in self.chosen]


def in_structure(form: Any, found: Sequence[Any]) -> Any:
    return found[0] if form is LEAF else unflatten(form, found)


def by_output(program: Any, arrange: Unflatten) -> Unflatten:
    """Return a function that puts derivatives, equally many for each output, into the structure of the results."""

    def by_output(found: list[Any]) -> Any:
        each = len(found) // leaf_count(program.structure)
        return in_structure(program.structure, [arrange(found[k : k + each]) for k in range(0, len(found), each)])

    return by_output


def direction(given: Any, like: Value | Meta, name: str) -> Tensor:
    """Return a tangent or cotangent as a tensor of the shape and dtype of `like`; raise ValueError if it does not fit."""
    array = storage_of(given) if isinstance(given, Tensor) else _array_of(given)
    given_kind = kind(array.dtype)
    if given_kind not in ("b", "i", "f", "c") or array.shape != like.shape or (given_kind == "c" and kind(like.dtype) != "c"):
        raise ValueError(f"{name} must be {type_text(like)}, got {describe(given)}")
    return given if isinstance(given, Tensor) and array.dtype == like.dtype else wrap(np.asarray(array, like.dtype).copy())


def _array_of(given: Any) -> Any:
    """Return a direction that is not a tensor as an array; fractions and SymPy numbers become floats."""
    array = np.asarray(given)
    if array.dtype != object:
        return array
    numbers = [native_number(x) for x in array.flat]
    return array if None in numbers else np.array(numbers).reshape(array.shape)


class Pullback:
    """The VJP at one point: call it with cotangents in the structure of the results; it returns the cotangents of the inputs."""

    def __init__(self, point: DerivativePoint, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<vjp of {self._name} in {', '.join(self._point.labels)}: call it with cotangents>"

    @property
    def value(self) -> Any:
        """The result of the function at this point."""
        return _value(self._point, f"the vjp of {self._name}")

    def __call__(self, *cotangents: Any) -> Any:
        refuse_kernels(f"the vjp of {self._name}")
        program = self._point.program
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        outputs: Iterator[Value] = iter(program.graph.outputs)
        leaves = list(leaves_like(program.structure, given, "the cotangent"))
        seeds = [cotangent(x, next(outputs), where) for x, where in leaves]
        return self._point.in_structure(self._point.compute("vjp", seeds, [x for x, _ in leaves]))


def cotangent(given: Any, like: Value | Meta, where: str) -> Tensor:
    """Return the cotangent of one result."""
    if kind(like.dtype) not in "fc":  # integers have none, and the kernel does not read it
        return wrap(np.zeros(like.shape, like.dtype))
    return direction(given, like, where)


class Pushforward:
    """The JVP at one point: call it with tangents of the inputs; it returns the tangents of the results."""

    def __init__(self, point: DerivativePoint, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<jvp of {self._name} in {', '.join(self._point.labels)}: call it with tangents>"

    @property
    def value(self) -> Any:
        """The result of the function at this point."""
        return _value(self._point, f"the jvp of {self._name}")

    def __call__(self, *tangents: Any) -> Any:
        refuse_kernels(f"the jvp of {self._name}")
        found = self._point.compute("jvp", *directions(self._point, tangents, "the tangent"))
        return self._point.by_output(found, lambda group: group[0])


def directions(point: DerivativePoint, given: Sequence[Any], name: str) -> tuple[list[Tensor], list[Any]]:
    """Return the directions as tensors for the kernel, and as they were passed."""
    leaves = list(selected_tangents(point.choice, given, point.labels, name))
    return [direction(x, v, f"{name} of {label}") for x, v, label in zip(leaves, point.values, point.labels, strict=True)], leaves


def _value(point: DerivativePoint, name: str) -> Any:
    refuse_kernels(name)
    found = point.compute("forward")
    return found[0] if point.program.structure is LEAF else unflatten(point.program.structure, found)
