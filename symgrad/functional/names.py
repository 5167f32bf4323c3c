"""What all public functions share: NumPy's argument names beside PyTorch's, `out=`, and becoming methods."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from symgrad.mode import local
from symgrad.tensor import Tensor
from symgrad.views import inplace, store

P = ParamSpec("P")
R = TypeVar("R")
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input"}

METHODS: dict[str, Any] = {}
"""What Tensor is given: functions, and properties."""


def public(function: Callable[P, R]) -> Callable[P, R]:
    """A public function: takes `axis`/`keepdims` for `dim`/`keepdim`, and `out=`."""
    own = function.__code__.co_varnames
    renamed = {theirs: ours for theirs, ours in _NUMPY_NAMES.items() if theirs not in own}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs:
            out = kwargs.pop("out", None)
            for theirs, ours in renamed.items():
                if theirs in kwargs:
                    kwargs[ours] = kwargs.pop(theirs)
            if out is not None:
                return into(out, function, args, kwargs)  # type: ignore[no-any-return]
        try:
            return function(*args, **kwargs)
        except AttributeError:
            if own[:1] != ("input",):
                raise
            refuse_other(function.__name__, args[0] if args else kwargs.get("input"))
            raise

    return call


def refuse_other(name: str, given: object) -> None:
    """PyTorch's error for what is given in a tensor's place; asked when an attribute of one was missing."""
    if not isinstance(given, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(given).__name__}") from None


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


def attach(name: str, function: Callable[..., Any]) -> None:
    """Make a function a method of Tensor under this name."""
    METHODS[name] = function
    setattr(Tensor, name, function)


def method_inplace(function: Callable[P, R]) -> Callable[P, R]:
    """A public function that is also a method, plain and in place: `x.clamp(...)` and `x.clamp_(...)`."""
    call = method(function)
    METHODS[f"{function.__name__}_"] = inplace(call)
    return call
