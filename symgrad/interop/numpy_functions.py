"""`np.sum(t, axis=0)`, `np.concatenate([t, u])`: NumPy's functions, recorded and differentiable on tensors.

Most are a function of ours under another name: `SAME` says which, and what its arguments are called here. Where the two differ in more
than names there is an adapter with NumPy's signature, in the file of its family. What is in neither is refused where a trace or a
derivative would lose it, and runs on the arrays otherwise, as it does in PyTorch.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.errors import SymgradError
from symgrad.escapes import named
from symgrad.interop import (  # noqa: F401  (entering the adapters)
    numpy_calculus,
    numpy_fft,
    numpy_grids,
    numpy_linalg,
    numpy_polynomials,
    numpy_questions,
    numpy_reductions,
    numpy_sets,
    numpy_shapes,
    numpy_statistics,
)
from symgrad.interop.operands import NO_FUNCTION, deliver, on_arrays, operand, option, public, tensor
from symgrad.interop.table import FUNCTIONS, REFUSED
from symgrad.lines import user_line
from symgrad.tensor import Tensor

SAME = {
    "all": "all", "amax": "amax", "amin": "amin", "angle": "angle", "any": "any", "argmax": "argmax", "argmin": "argmin",
    "argsort": "argsort", "around": "round", "broadcast_to": "broadcast_to", "column_stack": "column_stack",
    "copy": "clone", "count_nonzero": "count_nonzero", "diag": "diag", "diagflat": "diagflat", "diagonal": "diagonal",
    "dstack": "dstack", "expand_dims": "unsqueeze", "fix": "trunc", "fliplr": "fliplr", "flipud": "flipud", "hstack": "hstack",
    "inner": "inner", "isneginf": "isneginf", "isposinf": "isposinf", "isreal": "isreal", "kron": "kron", "max": "amax",
    "mean": "mean", "min": "amin", "moveaxis": "movedim", "nan_to_num": "nan_to_num", "nanmean": "nanmean", "nansum": "nansum",
    "ravel": "ravel", "real": "real", "roll": "roll", "rot90": "rot90", "round": "round", "sinc": "sinc",
    "squeeze": "squeeze", "stack": "stack", "sum": "sum", "swapaxes": "transpose", "take_along_axis": "take_along_dim",
    "tensordot": "tensordot", "trace": "trace", "vstack": "vstack",
}  # fmt: skip
ARGUMENTS = {
    "axis": "dim", "keepdims": "keepdim", "k": "diagonal", "axis1": "dim1", "axis2": "dim2", "axes": "dims",
}  # fmt: skip
BY_FUNCTION = {"roll": {"axis": "dims"}, "diagflat": {"k": "offset"}, "rot90": {"k": "k"}}
_POSITIONAL = {  # arguments that ours takes in this order, under whatever name
    "broadcast_to": 2, "inner": 2, "kron": 2, "tensordot": 2, "take_along_axis": 2, "roll": 2, "moveaxis": 3,
    "swapaxes": 3,
}  # fmt: skip
_OF_TWO = ("inner", "kron", "tensordot", "take_along_axis")
_SEQUENCES = ("column_stack", "dstack", "hstack", "stack", "vstack")
_SKIPPED = {"order", "subok", "copy", "kind", "like", "casting"}


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if not all(issubclass(cls, (Tensor, np.ndarray)) for cls in types):
        return NotImplemented
    adapter = FUNCTIONS.get(func) or _same(func)
    if adapter is None:
        return on_arrays(title(func), REFUSED.get(func, NO_FUNCTION), func, args, kwargs)
    out = kwargs.pop("out", None) if "out" in kwargs else None
    _check_options(func, adapter, args, kwargs)
    try:
        return deliver(func.__name__, adapter(*args, **kwargs), out)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise _named(func, error) from error


def _check_options(func: Any, adapter: Any, args: Any, kwargs: Any) -> None:
    """Refuse options of NumPy's that the adapter does not have, by their names."""
    try:
        inspect.signature(adapter).bind(*args, **kwargs)
    except TypeError:
        given = inspect.signature(func).bind(*args, **kwargs).arguments  # an error of its own if NumPy does not take it, either
        unknown = [name for name in given if name not in inspect.signature(adapter).parameters]
        raise option(title(func), f"does not take {', '.join(unknown) or 'these arguments'}") from None


def _named(func: Any, error: Exception) -> Exception:
    """The error with the user's line, where a function is being traced or differentiated."""
    if isinstance(error, SymgradError):
        return error
    text = str(error)
    message = named(f"{title(func)} on tensors: {text}")
    return error if user_line() in text or message.startswith(title(func)) else type(error)(message)


def title(func: Any) -> str:
    """`numpy.linalg.svd`."""
    return f"{func.__module__}.{func.__name__}"


@functools.cache
def _same(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """The adapter of a function that only has other names for its arguments."""
    name = func.__name__
    ours = public(SAME.get(name, ""))
    if ours is None or getattr(np, name, None) is not func:
        return None
    signature = inspect.signature(func)
    renamed = {**ARGUMENTS, **BY_FUNCTION.get(name, {})}
    count = _POSITIONAL.get(name, 1)
    known = inspect.signature(ours).parameters

    def adapter(*args: Any, **kwargs: Any) -> Any:
        given = list(signature.bind(*args, **kwargs).arguments.items())
        positional = [value for _, value in given[:count]]
        positional[0] = [tensor(x) for x in positional[0]] if name in _SEQUENCES else tensor(positional[0])
        others = [tensor(x) if name in _OF_TWO or isinstance(x, np.ndarray) else x for x in positional[1:]]
        for key, value in given[count:]:
            _check_option(func, key, value, signature.parameters[key].default, renamed.get(key, key) in known)
        keywords = {renamed.get(key, key): _argument(key, value) for key, value in given[count:] if _meant(key, value)}
        return ours(positional[0], *others, **keywords)

    return adapter


def _check_option(func: Any, key: str, value: Any, default: Any, known: bool) -> None:
    """Refuse what ours has no option for, and other orders of elements than C's."""
    if key == "order" and isinstance(value, str) and value not in "CKA":
        raise option(title(func), f"reads in C order only, not order={value!r}")
    if _meant(key, value) and not known and value is not default and value != default:
        raise option(title(func), f"does not take {key}")


def _meant(key: str, value: Any) -> bool:
    return key not in _SKIPPED and value is not None and value is not np._NoValue


def _argument(key: str, value: Any) -> Any:
    return dtypes.of(np.dtype(value)) if key == "dtype" else operand(value) if isinstance(value, np.ndarray) else value


setattr(Tensor, "__array_function__", __array_function__)  # noqa: B010  (given to Tensor here, as all its methods are where they are made)
