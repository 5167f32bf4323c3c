"""What all public functions share: NumPy's argument names beside PyTorch's, `out=`, and becoming methods."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from symgrad.mode import local
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
    """With other names for arguments, also `out=` is taken."""
    leading = _leading_tensors(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            for value in args[:leading]:
                if not isinstance(value, Tensor):
                    raise TypeError("no tensor")
            if kwargs and renamed is not None:
                out = kwargs.pop("out", None)
                for theirs, ours in renamed.items():
                    if theirs in kwargs:
                        kwargs[ours] = kwargs.pop(theirs)
                if out is not None:
                    return into(out, function, args, kwargs)  # type: ignore[no-any-return]
            return function(*args, **kwargs)
        except _REFUSALS as error:
            raise mistyped(function, args, kwargs) or error from None

    return call


_REFUSALS = (AttributeError, TypeError, ValueError, IndexError, RuntimeError)


def mistyped(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TypeError | None:
    """The complaint about the first argument that is not of the type its annotation asks for, if there is one.

    Asked only after a call has failed: looking at the types of what works would cost time.
    """
    code = function.__code__
    given = [*zip(code.co_varnames[: code.co_argcount], args, strict=False), *kwargs.items()]
    for place, (name, value) in enumerate(given, 1):
        wanted = function.__annotations__.get(name)
        position = f" (position {place})" if place <= len(args) else ""
        if not _fits(wanted, value):
            kind = wanted.removesuffix(" | None")
            return TypeError(f"{function.__name__}(): argument '{name}'{position} must be {kind}, not {type(value).__name__}")
    return None


def _leading_tensors(function: Any) -> int:
    """How many of the first arguments have to be tensors: a number must not pass for one where it would happen to work."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return len(list(itertools.takewhile(lambda name: function.__annotations__.get(name) == "Tensor", names)))


def _fits(wanted: Any, value: Any) -> bool:
    if wanted in ("Tensor", "Tensor | None"):
        return isinstance(value, Tensor) or (value is None and wanted != "Tensor")
    if wanted == "int":
        return hasattr(value, "__index__") and not (isinstance(value, (Tensor, np.ndarray)) and value.ndim)
    return True


def into(out: Any, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Write what the function returns into the tensors `out`."""
    result = function(*args, **kwargs)
    targets, results = (out, result) if isinstance(out, tuple) else ((out,), (result,))
    for target, value in zip(targets, results, strict=True):
        if not isinstance(target, Tensor):
            raise TypeError(f"{function.__name__}(): argument 'out' must be Tensor, not {type(target).__name__}")
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
