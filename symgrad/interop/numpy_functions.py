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

from symgrad.errors import SymgradError
from symgrad.escapes import with_user_line
from symgrad.interop import (  # noqa: F401  (entering the adapters)
    numpy_calculus,
    numpy_fft,
    numpy_grids,
    numpy_linalg,
    numpy_polynomials,
    numpy_predicates,
    numpy_reductions,
    numpy_sets,
    numpy_shapes,
    numpy_statistics,
)
from symgrad.interop.operands import NO_FUNCTION, deliver, on_arrays, operand, public, tensor
from symgrad.interop.table import FUNCTIONS, REFUSED, bound, title
from symgrad.lines import user_line
from symgrad.tensor import Tensor

SAME = {
    "argmax": "argmax", "argmin": "argmin", "around": "round", "broadcast_to": "broadcast_to", "column_stack": "column_stack",
    "copy": "clone", "diag": "diag", "diagflat": "diagflat", "diagonal": "diagonal", "dstack": "dstack", "fix": "trunc",
    "fliplr": "fliplr", "flipud": "flipud", "inner": "inner", "isneginf": "isneginf", "isposinf": "isposinf", "isreal": "isreal",
    "kron": "kron", "moveaxis": "movedim", "nan_to_num": "nan_to_num", "ravel": "ravel", "real": "real", "rot90": "rot90",
    "round": "round", "sinc": "sinc", "swapaxes": "transpose", "take_along_axis": "take_along_dim", "tensordot": "tensordot",
}  # fmt: skip
ARGUMENTS = {
    "axis": "dim", "keepdims": "keepdim", "k": "diagonal", "axis1": "dim1", "axis2": "dim2", "axes": "dims",
}  # fmt: skip
BY_FUNCTION = {"diagflat": {"k": "offset"}, "rot90": {"k": "k"}}
_OF_TWO = ("inner", "kron", "tensordot", "take_along_axis")
_SEQUENCES = ("column_stack", "dstack")


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    if not all(issubclass(cls, (Tensor, np.ndarray)) for cls in types):
        return NotImplemented
    adapter = FUNCTIONS.get(func) or _same(func)
    if adapter is None:
        return on_arrays(title(func), REFUSED.get(func, NO_FUNCTION), func, args, kwargs)
    positional, named, out = bound(func, adapter, args, kwargs)
    try:
        return deliver(func.__name__, adapter(*positional, **named), out)
    except (TypeError, ValueError, IndexError, RuntimeError) as error:
        raise _named(func, error) from error


def _named(func: Any, error: Exception) -> Exception:
    """The error with the user's line, where a function is being traced or differentiated."""
    if isinstance(error, SymgradError):
        return error
    text = str(error)
    message = with_user_line(f"{title(func)} on tensors: {text}")
    return error if user_line() in text or message.startswith(title(func)) else type(error)(message)


@functools.cache
def _same(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """The adapter of a function that only has other names for its arguments."""
    name = func.__name__
    ours = public(SAME.get(name, ""))
    if ours is None or getattr(np, name, None) is not func:
        return None
    renamed = {**ARGUMENTS, **BY_FUNCTION.get(name, {})}
    known = inspect.signature(ours).parameters

    def adapter(first: Any, *others: Any, **options: Any) -> Any:
        first = [tensor(x) for x in first] if name in _SEQUENCES else tensor(first)
        others = tuple(tensor(x) if name in _OF_TWO or isinstance(x, np.ndarray) else x for x in others)
        return ours(first, *others, **{renamed.get(key, key): _argument(value) for key, value in options.items()})

    parameters = inspect.signature(func).parameters.values()
    ours_too = [p for p in parameters if p.default is p.empty or (p.name != "out" and renamed.get(p.name, p.name) in known)]
    setattr(adapter, "__signature__", inspect.Signature(ours_too))  # noqa: B010  (what it takes of NumPy's)
    return adapter


def _argument(value: Any) -> Any:
    return operand(value) if isinstance(value, np.ndarray) else value


setattr(Tensor, "__array_function__", __array_function__)  # noqa: B010  (given to Tensor here, as all its methods are where they are made)
