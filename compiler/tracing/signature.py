"""How the arguments of a user's function become the inputs of a graph.

Tensors and arrays are inputs, and so are Python floats where a function is compiled; everything else is part of the program.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.compiler.options import Options
from symgrad.compiler.tracing.aliases import overlaps
from symgrad.compiler.tracing.capture import user_line
from symgrad.compiler.tracing.choice import Place, places
from symgrad.compiler.tracing.tree import LEAF, flatten, frozen, paths, unflatten
from symgrad.errors import TraceError, describe
from symgrad.mode import local
from symgrad.ops.promotion import default_float
from symgrad.resident import memory
from symgrad.tensor import Tensor, wrap

_WIDE: dict[type, Any] = {float: np.float64, complex: np.complex128, int: np.int64, bool: np.bool_}


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
    """Whether an argument becomes an input of the graph whatever anybody says."""
    return isinstance(x, (Tensor, np.ndarray, Spec))


class Number:
    """A Python number that becomes an input: its place is a leaf, of its own type."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number = number


@dataclass(frozen=True)
class Call:
    """The arguments of one call: what becomes inputs, and the rest."""

    leaves: tuple[Any, ...]
    labels: tuple[str, ...]
    structure: Any
    weak: tuple[type | None, ...] = ()
    """Of each leaf, which kind of Python number it was; None for tensors and arrays. Empty: there are no numbers."""
    effects: bool = False
    """Whether it matters which leaves ask for gradients, and which share memory."""

    complete: bool = True
    """Whether all leaves were given: no default is a tensor."""

    def key(self) -> Any:
        """What a graph of this call depends on, besides the values of its inputs."""
        return self._key

    @functools.cached_property
    def _key(self) -> Any:
        types = tuple((m.shape, str(m.dtype)) for m in map(held_by, self.leaves))
        return types, frozen(self.structure), self.weak, self.mode()

    def mode(self) -> Any:
        """What traced code may ask besides values and types: who wants gradients, whether ops are recorded, and who shares memory."""
        if not self.effects:
            return None
        asked = tuple(isinstance(x, Tensor) and x.requires_grad for x in self.leaves)
        return asked, local.mode.recording, overlaps([held_by(x) for x in self.leaves])

    @property
    def shares(self) -> bool:
        """Whether leaves share memory."""
        return bool(self.effects and overlaps([held_by(x) for x in self.leaves]))

    def tensors(self) -> list[Tensor]:
        return [x if isinstance(x, Tensor) else wrap(x) for x in self.leaves]

    def as_given(self, tensors: Sequence[Tensor]) -> list[Any]:
        """Tensors in the places of the leaves, with Python numbers where such were given."""
        return [t if cls is None else cls(t.item()) for t, cls in zip(tensors, self.weak or (None,) * len(tensors), strict=True)]

    @property
    def plain(self) -> bool:
        """Whether the leaves are the arguments themselves."""
        return self.complete and not self.weak and all(part is LEAF for part in self.structure.values())

    def without_values(self) -> Call:
        """The same call of which only shapes and dtypes are known."""
        return replace(self, leaves=tuple(Spec(m.shape, m.dtype) for m in map(held_by, self.leaves)))


class Signature:
    """A function that can be called with the leaves of a call in place of its arguments."""

    def __init__(self, function: Callable[..., Any], options: Options | None = None) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of tensors, got {describe(function)}")
        _refuse_kind(function)
        self.function = function
        self.signature = inspect.signature(getattr(function, "forward", function))  # a module's own arguments, not *args
        self.options = options
        """As compile() got them; None where only tensors are inputs."""
        if options is not None:
            self._check_names("static", options.static)
            self._check_names("dynamic", options.dynamic)
            self._check_names("buckets", [name for name, _ in options.buckets])
            for name in options.static & options.dynamic:
                raise ValueError(f"{name!r} is named in static and in dynamic: an argument is part of the program or an input, not both")

    def __str__(self) -> str:
        return f"{getattr(self.function, '__name__', type(self.function).__name__)}({', '.join(self.signature.parameters)})"

    def _check_names(self, option: str, names: Iterable[str]) -> None:
        parameters = self.signature.parameters
        if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            return
        for name in sorted(names):
            if name not in parameters:
                close = difflib.get_close_matches(name, parameters, 1)
                hint = f": did you mean {close[0]!r}?" if close else f": its arguments are {', '.join(parameters) or 'none'}"
                raise ValueError(f"{option}={name!r}: {self} has no such argument{hint}")

    def places(self, call: Call) -> list[Place]:
        """The arguments of a call as they were given, for `choose`."""
        parameters = self.signature.parameters
        return places((name, parameters[name].kind, part) for name, part in call.structure.items())

    def names(self) -> dict[int, str]:
        """What the parameters of a module are called, by their ids."""
        parameters = getattr(self.function, "named_parameters", None)
        return {} if parameters is None else {id(p): name for name, p in parameters()}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = "; wrt= says in which arguments to differentiate" if "argnums" in kwargs else ""
            raise TypeError(f"{self}: {error}{hint}") from None
        given = dict(bound.arguments) if self.options is None else self._converted(bound.arguments)
        bound.arguments = given
        bound.apply_defaults()  # a default that is left out cannot change: it is part of the program
        leaves, structure = flatten(dict(bound.arguments), lambda x: is_data(x) or isinstance(x, Number))
        labels = [path for name, part in structure.items() for path in self._labels(name, part)]
        weak: tuple[type | None, ...] = ()
        if any(isinstance(x, Number) for x in leaves):
            weak = tuple(type(x.number) if isinstance(x, Number) else None for x in leaves)
            leaves = [np.asarray(x.number, _WIDE[type(x.number)]) if isinstance(x, Number) else x for x in leaves]
        complete = not any(paths(part, name) for name, part in structure.items() if name not in given)
        return Call(tuple(leaves), tuple(labels), structure, weak, self.options is not None, complete)

    def _converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with JAX's arrays as NumPy's, and numbers that are inputs marked."""
        assert self.options is not None
        result = {}
        for name, argument in arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                result[name] = {k: self._argument(k, v) for k, v in argument.items()}
            else:
                result[name] = self._argument(name, argument)
        return result

    def _argument(self, name: str, argument: Any) -> Any:
        assert self.options is not None
        if name in self.options.static:
            found, structure = flatten(argument, is_data)
            if found:
                raise TypeError(f"static={name!r}: the argument is or has {describe(found[0])}, and tensors are always inputs of a program")
            return argument
        if isinstance(argument, Tensor):
            return argument
        taken = (bool, int) if name in self.options.dynamic else ()
        leaves, structure = flatten(argument, lambda x: is_data(x) or isinstance(x, (float, complex, *taken, np.generic)) or _foreign(x))
        if not leaves:
            return argument
        return unflatten(structure, [_leaf(x, name, taken) for x in leaves])

    def _labels(self, name: str, part: Any) -> list[str]:
        star = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        return [path.partition(".")[2] for path in paths(part, name)] if star else paths(part, name)

    def caller(self, call: Call) -> Callable[[Sequence[Tensor]], Any]:
        """The function of the call's leaves. What it does to the containers that it gets would be lost, and is refused."""

        def run(tensors: Sequence[Tensor]) -> Any:
            given = unflatten(call.structure, tensors)
            bound = inspect.BoundArguments(self.signature, dict(given))
            try:
                result = self.function(*bound.args, **bound.kwargs)
            except AttributeError as error:
                _explain(error, bound.arguments)
                raise
            _refuse_changes(call, given, tensors)
            return result

        run.weak = call.weak  # type: ignore[attr-defined]
        return run


def _foreign(x: Any) -> bool:
    """An array of JAX's; other libraries' arrays are refused."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        return True
    return hasattr(type(x), "__dlpack__") and hasattr(type(x), "__array__")


def _leaf(x: Any, name: str, taken: tuple[type, ...]) -> Any:
    if isinstance(x, np.ndarray):
        return _array_of_numpy(x, name)
    if is_data(x):
        return x
    if isinstance(x, np.generic):  # taken as the Python number of the same value, as ops on tensors do
        x = x.item()
    if isinstance(x, (float, complex, *taken)):
        cls: Any = next(c for c in (bool, int, float, complex) if isinstance(x, c))
        return Number(cls(x))
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        return _array_of_jax(x, name, jax)
    if _foreign(x):
        raise TypeError(f"{name} is or has {describe(x)} of another library: pass from_dlpack({name})")
    return x


def _array_of_numpy(x: Any, name: str) -> Any:
    try:
        dtypes.of(x.dtype)
    except TypeError:
        known = ", ".join(d.name for d in dtypes.ALL)
        raise TypeError(f"{name} is or has {describe(x)}, which is no type of tensors: pass an array of {known}") from None
    if x.dtype.isnative:
        return x
    native = x.astype(x.dtype.newbyteorder("="))
    native.flags.writeable = False  # what is written to a copy would be lost
    return native


def _array_of_jax(x: Any, name: str, jax: Any) -> Any:
    try:
        return np.asarray(x)  # read-only: a function that writes to it is refused
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"{name} has no value: JAX traces the caller. Under jax.jit, grad or vmap use compile(f).as_jax()") from None


def _refuse_kind(function: Any) -> None:
    """What is called like a function, and gives no tensors when it is called."""
    name = getattr(function, "__qualname__", type(function).__name__)
    if isinstance(function, np.ufunc):
        raise TypeError(f"expected a function of tensors, got NumPy's {function.__name__}: compile symgrad's function of that name")
    if isinstance(function, type):
        raise TypeError(f"expected a function of tensors, got the class {name}: compile an object of it, or its method")
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is async: compile the function that computes, and call that from the async one")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator, which runs after it has returned: return a list or tuple of tensors instead")


def _refuse_changes(call: Call, given: Any, tensors: Sequence[Any]) -> None:
    """A function got copies of the containers among its arguments."""
    ours = set(map(id, tensors))
    leaves, structure = flatten(given, lambda x: id(x) in ours or is_data(x))
    same = len(leaves) == len(tensors) and all(a is b for a, b in zip(leaves, tensors, strict=True))
    if same and frozen(structure) == frozen(call.structure):
        return
    which = ", ".join(name for name in given if frozen(structure[name]) != frozen(call.structure[name])) or "the tensors"
    raise TraceError(
        f"{user_line()}: the function changes {which} in a container among its arguments, which a program cannot do again at every call;"
        " return what is new, or leave the function eager"
    )


def _explain(error: AttributeError, arguments: Mapping[str, Any]) -> None:
    """Who passed 2 or a list to a function of tensors is told that it stayed what it was."""
    for name, x in arguments.items():
        if x is error.obj and not isinstance(x, Tensor):
            error.add_note(f"{name} is {describe(x)}: only tensors and arrays become inputs of the graph; pass tensor(...)")


def types_of(args: tuple[Any, ...], recording: bool) -> Any:
    """What a program depends on, if all arguments are tensors."""
    found: list[Any] = [recording]
    for a in args:
        if not isinstance(a, Tensor):
            return None
        held = memory(a)
        found += (held.shape, held.dtype, a.requires_grad)
    return tuple(found)
