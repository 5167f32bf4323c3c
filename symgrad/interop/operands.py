"""What NumPy hands over, as operands of our functions; and results, where NumPy wants them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad import dtypes, functional
from symgrad.escapes import COMPUTE, OUT, Escape, before_escape
from symgrad.from_data import array_of
from symgrad.lines import user_line
from symgrad.mode import local
from symgrad.ops.foreign import elementwise_array, native, sympy_array
from symgrad.ops.promotion import kind, promote_types
from symgrad.ops.symbolic_scalar import is_symbolic_scalar
from symgrad.tensor import Tensor, wrap
from symgrad.views import store, tracked

NO_FUNCTION = "symgrad has no such function"


def public(name: str) -> Any:
    """Our function of this name, if there is one."""
    return getattr(functional, name, None)


def operand(x: Any) -> Any:
    """A tensor or a Python number for anything that NumPy would take as an array."""
    if isinstance(x, (Tensor, bool, int, float, complex)) and not isinstance(x, np.generic):
        return x
    if isinstance(x, np.generic):
        return x.item()
    if not isinstance(x, np.ndarray) and (plain := native(x)) is not None:
        return operand(float(plain) if isinstance(plain, Fraction) else plain)
    array = x if isinstance(x, np.ndarray) else array_of(x, None) if sympy_array(x) is not None else np.asarray(x)
    dtypes.of(elementwise_array(array).dtype)  # refuses what tensors cannot hold
    return wrap(array)


def tensor(x: Any) -> Tensor:
    """A tensor for anything that NumPy would take as an array; tensors in a list are stacked, which is recorded."""
    if isinstance(x, (list, tuple)) and any(True for _ in tensors_in(x)):
        return functional.stack(_alike(list(x)))
    if is_symbolic_scalar(x):
        number: Tensor = wrap(np.ones(())) * x
        return number
    x = operand(x)
    return x if isinstance(x, Tensor) else wrap(np.asarray(x))


def _alike(parts: list[Any]) -> list[Tensor]:
    """Operands in one type, which Python's numbers do not decide unless they must, as a float beside integers."""
    found = [tensor(part) for part in parts]
    strong = [t._array.dtype for t, part in zip(found, parts, strict=True) if not isinstance(part, (bool, int, float, complex))]
    dtype = functools.reduce(promote_types, strong or [t._array.dtype for t in found])
    for t in found:
        if "bifc".index(kind(t._array.dtype)) > "bifc".index(kind(dtype)):
            dtype = promote_types(dtype, t._array.dtype)
    return [t.to(dtypes.of(dtype)) for t in found]


def pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands in one type."""
    first, second = _alike([x, y])
    return first, second


def floating(x: Any) -> Tensor:
    """An operand whose numbers are not integers."""
    t = tensor(x)
    return t if kind(t._array.dtype) in "fc" else t.to(dtypes.get_default_dtype())


def constant(values: Any, like: Tensor) -> Tensor:
    """Numbers that do not depend on any tensor, in the type of one."""
    if is_symbolic_scalar(values):
        number: Tensor = tensor(values).to(like.dtype)
        return number
    t = wrap(np.asarray(values).astype(like._array.dtype))
    if local.mode.capture is not None:
        local.mode.capture.on_constant(t)
    return t


def as_dtype(dtype: Any) -> Any:
    """NumPy's dtype as ours."""
    return None if dtype is None else dtypes.of(np.dtype(dtype))


def cast(t: Tensor, dtype: Any, casting: str) -> Tensor:
    """A tensor in a dtype of NumPy's, where its rule allows that."""
    if not np.can_cast(t._array.dtype, np.dtype(dtype), casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {t._array.dtype} to {np.dtype(dtype)} according to casting={casting!r}")
    return t.to(as_dtype(dtype))


def inexact(name: str, t: Tensor, dtype: Any) -> Tensor:
    """A tensor in the type that a mean is computed in: real for real numbers, complex for complex ones."""
    if dtype is None:
        return t
    if kind(np.dtype(dtype)) != kind(t._array.dtype):
        raise option(name, f"does not take dtype={np.dtype(dtype).name} for {t._array.dtype.name}")
    return t.to(as_dtype(dtype))


def given(value: Any) -> bool:
    """Whether an option of NumPy's is given at all."""
    return value is not None and value is not np._NoValue


def lines(x: Tensor, axis: Any) -> tuple[Tensor, tuple[int, ...]]:
    """The numbers along one axis, several, or all (None), as the last dimension; and the shape with 1 in the place of these axes."""
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in ((axis,) if isinstance(axis, int) else axis))
    others = [a for a in range(x.ndim) if a not in axes]
    moved = x.permute((*others, *axes))
    kept = tuple(1 if a in axes else n for a, n in enumerate(x.shape))
    return moved.reshape(*(x.shape[a] for a in others), -1), kept


def deliver(name: str, result: Any, out: Any) -> Any:
    """The result itself, or written into NumPy's `out`: an array cannot keep a history, so it gets values without one only."""
    if isinstance(out, tuple) and len(out) == 1:
        out = out[0]
    if out is None:
        return result
    if isinstance(out, Tensor):
        tracked(out, result)
        return store(out, result)
    before_escape(result, OUT)
    if result.requires_grad:
        raise TypeError(
            f"{user_line()}: numpy.{name}: the result requires grad, and an array given as out= (or changed in place, as in"
            " `array += tensor`) cannot keep its history. Detach the tensor first, or do not give out=."
        )
    np.copyto(out, result._array, casting="same_kind")
    return out


def tensors_in(values: Any) -> Iterator[Tensor]:
    """The tensors among the arguments, at any depth of lists and tuples."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, dict):
        yield from tensors_in(list(values.values()))
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value)


def unsupported(name: str, reason: str = NO_FUNCTION) -> TypeError:
    """The error for a function of another library that would lose a derivative."""
    return TypeError(
        f"{user_line()}: {name} is not supported on tensors: {reason}; use a function of symgrad, or call it on"
        " tensor.detach().numpy(), which has no derivative"
    )


def option(name: str, text: str) -> TypeError:
    """The error for an option of a function that is supported without it."""
    return TypeError(f"{user_line()}: {name} on tensors {text}")


def on_arrays(name: str, reason: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a function of another library on the arrays, as PyTorch does: only where neither a trace nor a derivative is lost."""
    for t in tensors_in((args, kwargs)):
        before_escape(t, Escape(name, f"{reason}: {COMPUTE}"))
        if t.requires_grad:
            raise unsupported(name, reason)
    return call(*as_arrays(args), **as_arrays(kwargs))


def as_arrays(values: Any) -> Any:
    """The arguments with arrays in the place of tensors."""
    if isinstance(values, Tensor):
        return values._array.view()
    if isinstance(values, dict):
        return {name: as_arrays(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return (tuple if isinstance(values, tuple) else list)(as_arrays(value) for value in values)
    return values
