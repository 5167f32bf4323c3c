"""Bind the arguments of a user's function, and turn them into the inputs of a graph.

Tensors and arrays are inputs, and in a compiled function Python floats are too; everything else is a static part of the program.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad import dtypes
from symgrad.compiler.guards.alias import aliased_pairs
from symgrad.compiler.inputs.explain import explain_missing, jax_refusal
from symgrad.compiler.inputs.spec import Spec as Spec
from symgrad.compiler.inputs.wrt import NamedArgument, named_arguments
from symgrad.compiler.trace.tracer import user_line
from symgrad.device_tensor import is_donated, storage_of
from symgrad.errors import TraceError, describe
from symgrad.from_data import tensor
from symgrad.functional.assumptions import assume
from symgrad.mode import local
from symgrad.ops.assumptions import checking
from symgrad.ops.foreign import elementwise_array, native, sympy_array
from symgrad.ops.promotion import default_float
from symgrad.pytree import LEAF, flatten, paths, static_values, structure_key, unflatten
from symgrad.tensor import Tensor, wrap

if TYPE_CHECKING:
    from symgrad.compiler.options import Options

_WIDEST: dict[type, Any] = {float: np.float64, complex: np.complex128, int: np.int64, bool: np.bool_}


def array_of(x: Any) -> Any:
    """The host array of a tensor; an array or a spec is returned as it is."""
    return x._array if isinstance(x, Tensor) else x


def storage_or_spec(x: Any) -> Any:
    """The storage of a tensor, on the host or a device, for its shape and dtype; an array or a spec is returned as it is."""
    return storage_of(x) if isinstance(x, Tensor) else x


def is_data(x: Any) -> bool:
    """True if an argument becomes an input of the graph under all options."""
    return isinstance(x, (Tensor, np.ndarray, Spec))


class NumberLeaf:
    """Marks a Python number among the arguments that becomes an input: a leaf that remembers its Python type."""

    __slots__ = ("number",)

    def __init__(self, number: Any) -> None:
        self.number = number


@dataclass(frozen=True)
class Call:
    """The arguments of one call: the `leaves`, which become inputs, and the `structure`, which is static."""

    leaves: tuple[Any, ...]
    labels: tuple[str, ...]
    structure: Any
    scalar_types: tuple[type | None, ...] = ()
    """For each leaf, the type of the Python number that it was, or None for tensors and arrays. Empty if there are no numbers."""
    effects: bool = False
    """True if the program may have effects: the key then includes which leaves require grad and which share memory."""

    kinds: frozenset[type] = frozenset()
    """np.ndarray, Tensor or both: the classes of the leaves as they were given. Python numbers count as neither."""
    complete: bool = True
    """True if the caller passed all leaves: no default argument has one."""
    given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    """Arguments and keyword arguments as the caller wrote them."""
    mode_override: Any = None
    """The result of `autograd_mode`, if it is fixed: for a derivative, the inputs that it is taken in require grad."""
    captured_with_grad: tuple[Tensor, ...] = ()
    """Captured tensors that require grad while the call is traced, since a derivative is taken in them."""

    def key(self) -> Any:
        """The cache key of the call: all that its graph depends on besides the values of its inputs."""
        return self._key

    @functools.cached_property
    def _key(self) -> Any:
        types = tuple([(m.shape, m.dtype) for m in map(storage_or_spec, self.leaves)])
        types += tuple([(i, x.words) for i, x in enumerate(self.leaves) if isinstance(x, Spec) and x.words])
        return types, structure_key(self.structure), self.scalar_types, self.autograd_mode(), default_float()

    def autograd_mode(self) -> Any:
        """The autograd state that traced code may depend on: which leaves require grad, whether ops are recorded, which leaves share
        memory, and which captured tensors require grad for a derivative. None without effects, unless `mode_override` is set."""
        if self.mode_override is not None or not self.effects:
            return self.mode_override
        return self.requires_grad, local.mode.recording, aliased_pairs([storage_or_spec(x) for x in self.leaves]), ()

    @property
    def requires_grad(self) -> tuple[bool, ...]:
        """For each leaf, whether it requires grad, on its own or for a derivative."""
        if self.mode_override is not None:
            return self.mode_override[0]  # type: ignore[no-any-return]
        return tuple([isinstance(x, Tensor) and x.requires_grad for x in self.leaves])

    def differentiated(self, chosen: Iterable[int] = (), captured: Sequence[Tensor] = ()) -> Call:
        """The call as it is traced for a derivative: with recording on, and with the `chosen` inputs requiring grad. These are positions
        among the leaves followed by the `captured` tensors."""
        inputs = set(chosen)
        asked = tuple([required or i in inputs for i, required in enumerate(self.requires_grad)])
        lifted = tuple([t for i, t in enumerate(captured, len(asked)) if i in inputs and not t.requires_grad])
        return replace(self, mode_override=(asked, True, (), tuple(map(id, lifted))), captured_with_grad=lifted)

    def tensors(self) -> list[Tensor]:
        return [x if isinstance(x, Tensor) else wrap(x) for x in self.leaves]

    def as_given(self, tensors: Sequence[Tensor]) -> list[Any]:
        """`tensors`, which stand for the leaves, with Python numbers again where the caller passed numbers."""
        return [t if cls is None else cls(t.item()) for t, cls in zip(tensors, self.scalar_types or (None,) * len(tensors), strict=True)]

    @property
    def plain(self) -> bool:
        """True if the leaves are the arguments themselves: no containers, static values, Python numbers or defaults."""
        return self.complete and not self.scalar_types and all([part is LEAF for part in self.structure.values()])

    @property
    def numbers_alone(self) -> bool:
        """True if there are Python numbers among the arguments, and no tensors or arrays."""
        return (
            not self.kinds
            and (bool(self.scalar_types) or any(isinstance(x, tuple(_WIDEST)) for x in static_values(self.structure, "").values()))
        )

    def without_values(self) -> Call:
        """This call with specs in place of the leaves, so that it keeps no data alive."""
        types = map(storage_or_spec, self.leaves)
        return replace(
            self, leaves=tuple([x if x.__class__ is Spec else Spec(m.shape, m.dtype) for x, m in zip(self.leaves, types, strict=True)]),
            mode_override=self.autograd_mode(), given=((), {})
        )

    def without_words(self) -> Call:
        """This call with specs of which nothing is assumed: its key is that of a call with tensors."""
        return replace(self, leaves=tuple([Spec(x.shape, x.dtype) if isinstance(x, Spec) and x.words else x for x in self.leaves]))


def _assumed(tensors: Sequence[Tensor], words: Iterable[tuple[int, tuple[str, ...]]]) -> list[Tensor]:
    """Return the tensors with what specs say of them."""
    found = list(tensors)
    for i, known in words:
        found[i] = assume(found[i], *known)
    return found


_MAX_KEPT_BYTES = 4096
"""Arguments of up to this many bytes are copied instead of referenced weakly."""


class ExampleArguments:
    """Example arguments from a call: copies of small ones, weak references to the others."""

    __slots__ = ("_refs",)

    def __init__(self, call: Call) -> None:
        self._refs = [_keep_or_weakref(x) for x in call.leaves]

    def __call__(self) -> list[Any] | None:
        """The arguments; None if one no longer exists, was donated, or was only a spec."""
        found = [ref() for ref in self._refs]
        return None if any(x is None or isinstance(x, Spec) or (isinstance(x, Tensor) and is_donated(x)) for x in found) else found


def _keep_or_weakref(x: Any) -> Callable[[], Any]:
    if isinstance(x, Spec):
        return lambda: x
    held = storage_or_spec(x)
    if held.dtype.itemsize * math.prod(held.shape) > _MAX_KEPT_BYTES or (isinstance(x, Tensor) and is_donated(x)):
        return weakref.ref(x)
    copy = np.array(held)
    tensor = isinstance(x, Tensor)
    return lambda: wrap(copy) if tensor else copy


class Signature:
    """A user's function with its parameters: binds arguments to a Call, and calls the function with the leaves of one."""

    def __init__(self, function: Callable[..., Any], options: Options | None = None) -> None:
        if not callable(function):
            raise TypeError(f"expected a function of tensors, got {describe(function)}")
        _refuse_kind(function)
        self.function = function
        self.signature = inspect.signature(getattr(function, "forward", function))  # a module's own arguments, not *args
        self.options = options
        """The options of compile(); None where only tensors and arrays are inputs, as in derive()."""
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

    def named_arguments(self, call: Call) -> list[NamedArgument]:
        """The arguments of a call one by one, for `select_wrt`."""
        parameters = self.signature.parameters
        return named_arguments((name, parameters[name].kind, part) for name, part in call.structure.items())

    @property
    def trains(self) -> bool:
        """True if the function is a module with parameters that require grad."""
        parameters = getattr(self.function, "parameters", None)
        return parameters is not None and any(p.requires_grad for p in parameters())

    def names(self) -> dict[int, str]:
        """The names of the parameters by tensor id, if the function is a module."""
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
        bound.apply_defaults()  # after the conversion: numbers among the defaults are part of the program, not inputs
        leaves, structure = flatten(dict(bound.arguments), lambda x: is_data(x) or isinstance(x, NumberLeaf))
        labels = [path for name, part in structure.items() for path in self._labels(name, part)]
        scalar_types: tuple[type | None, ...] = ()
        kinds = frozenset([np.ndarray if isinstance(x, np.ndarray) else Tensor for x in leaves if not isinstance(x, NumberLeaf)])
        if any([isinstance(x, NumberLeaf) for x in leaves]):
            scalar_types = tuple([type(x.number) if isinstance(x, NumberLeaf) else None for x in leaves])
            leaves = [np.asarray(x.number, _WIDEST[type(x.number)]) if isinstance(x, NumberLeaf) else x for x in leaves]
        complete = not any([paths(part, name) for name, part in structure.items() if name not in given])
        return Call(tuple(leaves), tuple(labels), structure, scalar_types, self.options is not None, kinds, complete, (args, kwargs))

    def with_floats(self, args: tuple[Any, ...], kwargs: dict[str, Any], wrt: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with Python integers converted to floats where a derivative is taken in them: in an argument that `wrt` selects and
        that has no other data, or, if `wrt` is None, in all arguments if none of them has other data."""
        try:
            given = self.signature.bind(*args, **kwargs)
        except TypeError:  # `bind` raises it again, with a better message
            return args, kwargs
        names = list(given.arguments)
        asked = names if wrt is None else [x for x in (wrt if isinstance(wrt, (tuple, list)) else (wrt,)) if not isinstance(x, bool)]
        chosen = {names[x] if isinstance(x, int) and x < len(names) else str(x).partition(".")[0] for x in asked} & given.arguments.keys()
        if wrt is None and _has_data(given.arguments):
            return args, kwargs
        for name in chosen:
            if not _has_data(given.arguments[name]):
                leaves, structure = flatten(given.arguments[name], lambda x: isinstance(native_number(x), int))
                given.arguments[name] = unflatten(structure, [float(x) for x in leaves])
        return given.args, given.kwargs

    def _converted(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with JAX arrays converted to tensors, and the Python numbers that become inputs marked by NumberLeaf."""
        assert self.options is not None
        result = {}
        alone = not flatten(dict(arguments), lambda x: is_data(x) or _foreign(x))[0]
        for name, argument in arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                result[name] = {k: self._argument(k, v, alone) for k, v in argument.items()}
            else:
                result[name] = self._argument(name, argument, alone)
        return result

    def _argument(self, name: str, argument: Any, alone: bool) -> Any:
        assert self.options is not None
        if name in self.options.static:
            found, structure = flatten(argument, is_data)
            if found:
                raise TypeError(f"static={name!r}: the argument is or has {describe(found[0])}, and tensors are always inputs of a program")
            return argument
        if isinstance(argument, Tensor):
            return argument
        taken = (bool, int) if name in self.options.dynamic else ()
        leaves, structure = flatten(argument, lambda x: is_data(x) or isinstance(x, (float, complex, *taken, np.generic)) or _is_foreign(x))
        if not leaves:
            return argument
        return unflatten(structure, [_leaf(x, name, taken, alone) for x in leaves])

    def _labels(self, name: str, part: Any) -> list[str]:
        star = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        return [path.partition(".")[2] for path in paths(part, name)] if star else paths(part, name)

    def caller(self, call: Call) -> Callable[[Sequence[Tensor]], Any]:
        """A function of the leaves that calls the user's function with the arguments rebuilt from them. It raises TraceError if the user's
        function changes a container among its arguments: it gets copies, so the change would be lost."""

        function = self.function if self.options is None or not self.options.check_assumptions else checking(self.function)
        assumed = [(i, x.words) for i, x in enumerate(call.leaves) if x.__class__ is Spec and x.words]

        def run(tensors: Sequence[Tensor]) -> Any:
            if assumed:
                tensors = _assumed(tensors, assumed)
            given = unflatten(call.structure, tensors)
            bound = inspect.BoundArguments(self.signature, dict(given))
            try:
                result = function(*bound.args, **bound.kwargs)
            except AttributeError as error:
                explain_missing(error, bound.arguments)
                raise
            except TypeError as error:
                if (message := jax_refusal(error)) is None:
                    raise
                raise TypeError(message) from error
            _refuse_changes(call, given, tensors)
            return result

        run.scalar_types = call.scalar_types  # type: ignore[attr-defined]
        run.numbers_alone = call.numbers_alone  # type: ignore[attr-defined]
        return run


def native_number(x: Any) -> Any:
    """`x` as a Python int, float or complex: for Python numbers, fractions, NumPy scalars and SymPy numbers. None for anything else,
    including booleans."""
    if isinstance(x, np.generic):
        x = x.item()
    elif not isinstance(x, (int, float, complex, Fraction)):
        x = native(x)
    x = float(x) if isinstance(x, Fraction) else x
    return x if isinstance(x, (int, float, complex)) and not isinstance(x, bool) else None


def _has_data(tree: Any) -> bool:
    """True if a tree contains anything to differentiate in besides integers: tensors, arrays, or other numbers."""

    def is_leaf(x: Any) -> bool:
        return is_data(x) or _foreign(x) or isinstance(native_number(x), (float, complex))

    return bool(flatten(tree, is_leaf)[0])


def _is_foreign(x: Any) -> bool:
    """True for an array of another library, and for a number that is no Python number, such as a SymPy number."""
    return _foreign(x) or (native_number(x) is not None and not isinstance(x, (int, float, complex)))


def is_jax_array(x: Any) -> bool:
    """True for a JAX array; False if jax has not been imported, so that this check does not import it."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(x, jax.Array)


def _foreign(x: Any) -> bool:
    """True for a JAX array, a SymPy matrix or array of numbers, or an array of another library, which `_leaf` refuses. Callers rule out
    tensors and NumPy arrays first."""
    if is_jax_array(x) or sympy_array(x) is not None:
        return True
    return hasattr(type(x), "__dlpack__") and hasattr(type(x), "__array__")


def _leaf(x: Any, name: str, taken: tuple[type, ...], alone: bool) -> Any:
    """The leaf for one data argument. A NumPy scalar keeps its dtype if it is `alone`, without tensors and arrays among the arguments; next
    to those it is a weakly typed Python scalar, as in eager code."""
    if isinstance(x, np.ndarray):
        return _array_of_numpy(x, name)
    if is_data(x):
        return x
    if isinstance(x, np.inexact) and alone:
        array = np.asarray(x)
        array.flags.writeable = False  # a write to it would be lost
        return wrap(array)
    if isinstance(x, np.generic):  # the Python number of the same value, as ops on tensors take it
        x = x.item()
    elif native_number(x) is not None:
        x = native_number(x)
    if isinstance(x, (float, complex, *taken)):
        cls: Any = next(c for c in (bool, int, float, complex) if isinstance(x, c))
        return NumberLeaf(cls(x))
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        return _array_of_jax(x, name, jax)
    if sympy_array(x) is not None:
        return tensor(elementwise_array(x))
    if _foreign(x):
        raise TypeError(f"{name} is or has {describe(x)} of another library: pass sg.from_dlpack({name})")
    return x


def _array_of_numpy(x: Any, name: str) -> Any:
    elementwise_array(x)
    try:
        dtypes.of(x.dtype)
    except TypeError:
        known = ", ".join(d.name for d in dtypes.ALL)
        raise TypeError(f"{name} is or has {describe(x)}, which is no type of tensors: pass an array of {known}") from None
    if x.dtype.isnative:
        return x
    native = x.astype(x.dtype.newbyteorder("="))
    native.flags.writeable = False  # a write to the copy would be lost
    return native


def _array_of_jax(x: Any, name: str, jax: Any) -> Any:
    try:
        return wrap(np.asarray(x))  # read-only: a write to it raises
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"{name} has no value: JAX traces the caller. Under jax.jit, grad or vmap use compile(f).as_jax()") from None


def _ufunc_and_advice(function: np.ufunc) -> str:
    """The name of a ufunc with its library, and which function of symgrad's to compile instead, if there is one."""
    name = function.__name__
    if getattr(np, name, None) is function:
        return f"NumPy's {name}: compile symgrad's function of that name"
    library = "SciPy's " if getattr(sys.modules.get("scipy.special"), name, None) is function else "the ufunc "
    ours = hasattr(sys.modules.get("symgrad.special"), name)
    return f"{library}{name}: compile " + (f"sg.special.{name}" if ours else "a function that calls symgrad's functions")


def _refuse_kind(function: Any) -> None:
    """Raise TypeError for a callable that returns no tensors when it is called: a ufunc, a class, a coroutine or generator function."""
    name = getattr(function, "__qualname__", function.__class__.__name__)
    if isinstance(function, np.ufunc):
        raise TypeError(f"expected a function of tensors, got {_ufunc_and_advice(function)}")
    if isinstance(function, type):
        raise TypeError(f"expected a function of tensors, got the class {name}: compile an object of it, or its method")
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{name} is async: compile the function that computes, and call that from the async one")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{name} is a generator, which runs after it has returned: return a list or tuple of tensors instead")


def _refuse_changes(call: Call, given: Any, tensors: Sequence[Any]) -> None:
    """Raise TraceError if a function changed the containers in `given`, its arguments: they are copies, so the change would be lost."""
    ours = set(map(id, tensors))
    leaves, structure = flatten(given, lambda x: id(x) in ours or is_data(x))
    same = len(leaves) == len(tensors) and all([a is b for a, b in zip(leaves, tensors, strict=True)])
    if same and structure_key(structure) == structure_key(call.structure):
        return
    which = ", ".join([name for name in given if structure_key(structure[name]) != structure_key(call.structure[name])]) or "the tensors"
    raise TraceError(
        f"{user_line()}: the function changes {which} in a container among its arguments, which a program cannot do again at every call;"
        " return what is new, or leave the function eager"
    )


def tensor_types(args: tuple[Any, ...], recording: bool) -> Any:
    """A cache key for positional arguments that are all tensors: `recording`, then shape, dtype and `requires_grad` of each. None if one is
    no tensor."""
    found: list[Any] = [recording]
    for a in args:
        if not isinstance(a, Tensor):
            return None
        held = storage_of(a)
        found += (held.shape, held.dtype, a.requires_grad)
    return tuple(found)
