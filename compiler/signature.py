"""How the arguments of a user's function become the inputs of a graph: tensors are inputs, everything else is part of the program."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.compiler.capture import user_line
from symgrad.compiler.ir import freeze
from symgrad.compiler.tree import LEAF, flatten, paths, unflatten
from symgrad.errors import GraphError, TraceError, describe
from symgrad.ops.promotion import default_float, kind
from symgrad.resident import memory
from symgrad.tensor import Tensor


class Spec:
    """A tensor of which only shape and dtype are known."""

    def __init__(self, shape: int | Iterable[int], dtype: Any = None) -> None:
        self.shape = tuple(int(n) for n in ((shape,) if isinstance(shape, int) else shape))
        self.dtype = default_float() if dtype is None else dtypes.numpy_type(dtype)

    def __repr__(self) -> str:
        return f"spec({self.shape}, dtype={self.dtype})"


def array_of(x: Any) -> Any:
    """The array of a tensor; arrays and specs are themselves."""
    return x._array if isinstance(x, Tensor) else x


def held_by(x: Any) -> Any:
    """What has the shape and dtype of a tensor, wherever its numbers are; arrays and specs are themselves."""
    return memory(x) if isinstance(x, Tensor) else x


def is_data(x: Any) -> bool:
    """Whether an argument becomes an input of the graph; anything else is part of the program."""
    return isinstance(x, (Tensor, np.ndarray, Spec))


@dataclass(frozen=True)
class Call:
    """The arguments of one call: what becomes inputs, and the rest."""

    leaves: tuple[Any, ...]
    labels: tuple[str, ...]
    structure: Any

    def key(self) -> Any:
        """What a graph of this call depends on, besides the values of its inputs."""
        types = tuple((m.shape, str(m.dtype)) for m in map(held_by, self.leaves))
        return types, _frozen(self.structure)

    def arrays(self) -> list[Any]:
        return [array_of(x) for x in self.leaves]


def _frozen(structure: Any) -> Any:
    if structure is LEAF:
        return "*"
    if isinstance(structure, dict):
        return "dict", tuple((k, _frozen(v)) for k, v in structure.items())
    if isinstance(structure, (list, tuple)):
        return type(structure).__name__, tuple(map(_frozen, structure))
    try:
        return freeze(structure)
    except GraphError:
        return "object", id(structure)


class Signature:
    """A function that can be called with the leaves of a call in place of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of tensors, got {describe(function)}")
        self.function = function
        self.signature = inspect.signature(getattr(function, "forward", function))  # a module's own arguments, not *args

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', 'function')}({', '.join(self.signature.parameters)})"

    def names(self) -> dict[int, str]:
        """What the parameters of a module are called, by their ids."""
        parameters = getattr(self.function, "named_parameters", None)
        return {} if parameters is None else {id(p): name for name, p in parameters()}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        leaves, structure = flatten(dict(bound.arguments), is_data)
        labels = [path for name, part in structure.items() for path in self._labels(name, part)]
        return Call(tuple(leaves), tuple(labels), structure)

    def _labels(self, name: str, part: Any) -> list[str]:
        star = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        return [path.partition(".")[2] for path in paths(part, name)] if star else paths(part, name)

    def caller(self, call: Call) -> Callable[[Sequence[Tensor]], Any]:
        def run(tensors: Sequence[Tensor]) -> Any:
            bound = inspect.BoundArguments(self.signature, unflatten(call.structure, tensors))
            try:
                return self.function(*bound.args, **bound.kwargs)
            except AttributeError as error:
                _explain(error, bound.arguments)
                raise

        return run


def _explain(error: AttributeError, arguments: Mapping[str, Any]) -> None:
    """Who passed 2 or a list to a function of tensors is told that it stayed what it was."""
    for name, x in arguments.items():
        if x is error.obj and not isinstance(x, Tensor):
            error.add_note(f"{name} is {describe(x)}: only tensors and arrays become inputs of the graph; pass tensor(...)")


def positions(wrt: Any, labels: Sequence[str], leaves: Sequence[Any], arguments: int | None = None) -> tuple[int, ...]:
    """Which inputs are meant: by name, by position, several of them; None: those that require grad, or else every float argument."""
    if wrt is None:
        floats = [i for i, x in enumerate(leaves) if kind(held_by(x).dtype) in "fc"]
        asked = [i for i in floats if isinstance(leaves[i], Tensor) and leaves[i].requires_grad]
        if not floats:
            raise TraceError(f"{user_line()}: no argument is a floating-point tensor: there is nothing to differentiate in")
        return tuple(asked or floats if arguments is None else asked or [i for i in floats if i < arguments])
    many = wrt if isinstance(wrt, (tuple, list)) else (wrt,)
    return tuple(i for item in many for i in _position(item, labels))


def _position(item: Any, labels: Sequence[str]) -> list[int]:
    if isinstance(item, int) and not isinstance(item, bool):
        if not -len(labels) <= item < len(labels):
            raise ValueError(f"{user_line()}: wrt={item}: there are {len(labels)} tensor arguments ({', '.join(labels)})")
        return [item % len(labels)]
    if isinstance(item, str):
        found = [i for i, label in enumerate(labels) if label == item or label.startswith(f"{item}.")]
        if found:
            return found
    raise ValueError(f"{user_line()}: wrt={item!r}: the tensor arguments are {', '.join(labels)}")
