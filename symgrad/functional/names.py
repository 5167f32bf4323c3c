"""What all public functions share: NumPy's argument names beside PyTorch's, `out=`, and becoming methods."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from types import NoneType
from typing import Any, ParamSpec, TypeVar

import numpy as np

from symgrad.application import option_number
from symgrad.coercion import float_width, stands_for_tensor, tensors_of
from symgrad.dispatch import tensors as ops
from symgrad.mode import local
from symgrad.ops.foreign import class_name, hint, python_number, sympy_array
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor
from symgrad.views import inplace, store

P = ParamSpec("P")
R = TypeVar("R")
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input"}

METHODS: dict[str, Any] = {}
"""What Tensor is given: functions, and properties."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function: takes `axis`/`keepdims` for `dim`/`keepdim`, and `out=`, and is `checked`."""
    own = function.__code__.co_varnames
    return _checked(function, {theirs: ours for theirs, ours in _NUMPY_NAMES.items() if theirs not in own})


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """A function that says which of its arguments is no tensor when it fails over one."""
    return _checked(function, None)


def _checked(function: Callable[P, R], renamed: dict[str, str] | None) -> Callable[P, R]:
    """With other names for arguments, also `out=` is taken. Values that stand for tensors become tensors here, and nowhere else; and
    numbers of other libraries become Python's where a number is wanted."""
    parameters = _tensor_parameters(function)
    numeric = {name for name, wanted in function.__annotations__.items() if wanted in _NUMERIC and name != "return"}
    options = [i for i, name in enumerate(_positional(function)) if name in numeric]
    leading = len(list(itertools.takewhile(lambda name: parameters.get(name) == "Tensor", _positional(function))))
    later = [i for i, name in enumerate(_positional(function)) if i >= leading and name in parameters]
    special = {*parameters, *numeric, *(renamed or ()), *(() if renamed is None else ("out",))}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given: dict[str, Any] = kwargs
        try:
            for value in args[:leading]:
                if value.__class__ is not Tensor and not isinstance(value, Tensor):
                    raise TypeError("no tensor")
            for i in later:
                if i < len(args) and args[i].__class__ is not Tensor and not isinstance(args[i], (Tensor, NoneType)):
                    raise TypeError("no tensor")
            for i in options:
                if i < len(args) and args[i].__class__ not in _PLAIN:
                    args = tuple([_number(x, args) if i in options else x for i, x in enumerate(args)])  # type: ignore[assignment]
            if kwargs and not special.isdisjoint(kwargs):
                given, out = _renamed(kwargs, renamed)
                given = {name: _number(x, args) if name in numeric else x for name, x in given.items()} if numeric else given
                if any(not isinstance(given[name], (Tensor, NoneType)) for name in parameters if name in given):
                    raise TypeError("no tensor")
                return function(*args, **given) if out is None else into(out, function, args, given)
            return function(*args, **kwargs)
        except _REFUSALS as error:
            accepted = coerced(function, args, given)
            if accepted is None:
                raise mistyped(function, args, given) or error from None
        return call(*accepted[0], **{**accepted[1], "out": kwargs["out"]} if "out" in kwargs else accepted[1])

    return call


def _renamed(kwargs: Any, renamed: dict[str, str] | None) -> tuple[dict[str, Any], Any]:
    """Keyword arguments by PyTorch's names, and `out=` apart from them."""
    if renamed is None:
        return kwargs, None
    given = {renamed.get(name, name): value for name, value in kwargs.items() if name != "out"}
    return given, kwargs.get("out")


_PLAIN = frozenset((bool, int, float, complex, str, NoneType))


def _number(x: Any, args: Any) -> Any:
    """One number of any library, or of a tensor, as a Python number; one that a program computes as a tensor in the type of the others."""
    if not isinstance(x, Tensor):
        return python_number(x)
    if x._array.size != 1:
        return x
    if local.mode.capture is None:
        return option_number(x)
    dtype = float_width(t for t in args if isinstance(t, Tensor) and t is not x)
    return x if kind(x._array.dtype) != "f" or x._array.dtype == dtype else ops.cast(x, dtype=dtype)


_REFUSALS = (AttributeError, TypeError, ValueError, IndexError, RuntimeError)
_OPERANDS = ("Operand", "Operand | None")
_NUMERIC = frozenset(("Scalar", "float", "float | None", "float | str | None"))


def _positional(function: Any) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]  # type: ignore[no-any-return]


def _tensor_parameters(function: Any) -> dict[str, str]:
    """The parameters that take a tensor, or a tensor or None, and nothing else, with their annotations."""
    return {name: kind for name, kind in function.__annotations__.items() if kind in ("Tensor", "Tensor | None") and name != "return"}


def coerced(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments with tensors in the places of the values that stand for them; None if there is nothing to change."""
    kinds, given = function.__annotations__, [*zip(_positional(function), args, strict=False), *kwargs.items()]
    places = [i for i, (name, value) in enumerate(given) if _is_coerced(kinds.get(name), value)]
    if not places or not all(_fits(kinds.get(name), value) for name, value in given):
        return None
    beside = [i for i, (_, value) in enumerate(given) if isinstance(value, Tensor)]
    made = dict(zip((*places, *beside), tensors_of([given[i][1] for i in (*places, *beside)]), strict=True))
    values = [made.get(i, value) for i, (_, value) in enumerate(given)]
    count = len(given) - len(kwargs)
    return (*values[:count], *args[count:]), dict(zip(kwargs, values[count:], strict=True))


def _is_coerced(wanted: Any, value: Any) -> bool:
    """Whether a value has to become a tensor. An operand may stay a number or an array: operations know what to do with those."""
    if value is None or isinstance(value, Tensor):
        return False
    return wanted in ("Tensor", "Tensor | None") or (wanted in _OPERANDS and (isinstance(value, list) or sympy_array(value) is not None))


def mistyped(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError | None:
    """The complaint about the first argument that is not of the type its annotation asks for, if there is one.

    Asked only after a call has failed: looking at the types of what works would cost time.
    """
    given = [*zip(_positional(function), args, strict=False), *kwargs.items()]
    for place, (name, value) in enumerate(given, 1):
        wanted = function.__annotations__.get(name)
        position = f" (position {place})" if place <= len(args) else ""
        if not _fits(wanted, value):
            kind = wanted.removesuffix(" | None").replace("Operand", "Tensor")
            got = class_name(value) if kind == "int" else f"{class_name(value)}{hint(value)}"
            return TypeError(f"{function.__name__}(): argument '{name}'{position} must be {kind}, not {got}")
    return None


def _fits(wanted: Any, value: Any) -> bool:
    if wanted in ("Tensor", "Tensor | None", *_OPERANDS):
        return stands_for_tensor(value) or (value is None and wanted.endswith("None"))
    if wanted == "int":
        return hasattr(value, "__index__") and not (isinstance(value, (Tensor, np.ndarray)) and value.ndim)
    return True


def into(out: R, function: Callable[..., R], args: Any, kwargs: Any) -> R:
    """Write what the function returns into the tensors `out`."""
    result: Any = function(*args, **kwargs)
    targets, results = (out, result) if isinstance(out, tuple) else ((out,), (result,))
    for target, value in zip(targets, results, strict=True):
        if not isinstance(target, Tensor):
            raise TypeError(f"{function.__name__}(): argument 'out' must be Tensor, not {target.__class__.__name__}")
        if local.mode.recording and (value.requires_grad or target.requires_grad):
            raise RuntimeError(
                f"{function.__name__}(): functions with out=... arguments don't support automatic differentiation, but one of the"
                " arguments requires grad."
            )
        if target._array.shape != value._array.shape and target._base is None:
            target._array = target._array.__class__(value._array.shape, target._array.dtype)  # PyTorch resizes, too
        store(target, value)
    return out


def method(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that is also a method of Tensor."""
    call = public(function)
    METHODS[function.__name__] = call
    return call


def method_inplace(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that is also a method, plain and in place: `x.clamp(...)` and `x.clamp_(...)`."""
    call = method(function)
    METHODS[f"{function.__name__}_"] = inplace(call)
    return call
