"""compile(buckets=...): batches of any length run through programs for a few lengths.

The named arguments are filled up to the next length by repeating their last row, and results are cut back to the rows that were given.
That is right for functions that treat rows one by one; whether this one does is tried once for each length, beside the function itself.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.autograd import no_grad
from symgrad.compiler.function.modules import compiled
from symgrad.compiler.function.wrapping import Wrapping
from symgrad.compiler.options import Options
from symgrad.compiler.tracing.capture import tracing
from symgrad.compiler.tracing.tree import flatten, unflatten
from symgrad.dispatch import tensors as ops
from symgrad.errors import TraceError
from symgrad.tensor import Tensor, wrap


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray))


class Bucketed(Wrapping):
    """A compiled function behind arguments that are filled up. Everything else is asked of the compiled function."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.compiled = compiled(function, options)
        self.signature, self.options, self.lengths = self.compiled.signature, options, dict(options.buckets)
        self._tried: set[Any] = set()
        functools.update_wrapper(self, function, updated=())

    def __getattr__(self, name: str) -> Any:
        compiled = self.__dict__.get("compiled")
        if compiled is None or name.startswith("__"):  # while it is copied it has nothing yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        found = getattr(compiled, name)
        if not isinstance(found, types.FunctionType):
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is compiled else result  # net.eval() gives the net that was asked

        return method

    def __repr__(self) -> str:
        return repr(self.compiled)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if tracing():
            return self.compiled(*args, **kwargs)
        bound = self.compiled.signature.signature.bind(*args, **kwargs)
        n, size = self._sizes(bound.arguments)
        if n is None or size is None or n == size:
            return self.compiled(*args, **kwargs)
        for name in self.lengths:
            if name in bound.arguments:
                bound.arguments[name] = _filled(bound.arguments[name], n, size)
        result = _cut(self.compiled(*bound.args, **bound.kwargs), n, size)
        key = size, self.compiled.signature.bind(bound.args, bound.kwargs).key()
        if key not in self._tried:
            self._check(result, args, kwargs, size)
            self._tried.add(key)
        return result

    def _sizes(self, arguments: Mapping[str, Any]) -> tuple[int | None, int | None]:
        """The length of the batch, and the one that it is filled up to; None where there is no such length."""
        found: dict[int, str] = {}
        for name in self.lengths:
            for x in flatten(arguments.get(name), _is_array)[0]:
                if not x.ndim:
                    raise ValueError(f"buckets: argument {name} has no dimensions, and so no rows to fill up")
                found.setdefault(int(x.shape[0]), name)
        if len(found) > 1:
            (n, one), (m, other), *_ = found.items()
            raise ValueError(f"buckets: {one} has {n} rows and {other} has {m}: what is filled up together must have as many")
        if not found or 0 in found:
            return None, None
        ((n, name),) = found.items()
        return n, min((length for length in self.lengths[name] if length >= n), default=None)

    def _check(self, result: Any, args: Any, kwargs: Any, size: int) -> None:
        with no_grad():
            wanted = flatten(self.compiled.signature.function(*args, **kwargs), _is_array)[0]
        for x, y in zip(flatten(result, _is_array)[0], wanted, strict=True):
            a, b = x.detach()._array, y._array if isinstance(y, Tensor) else y
            room = 1e-3 if a.dtype.kind in "fcV" and a.dtype.itemsize <= 8 and a.dtype != np.float64 else 1e-7
            if a.shape != b.shape or not np.allclose(a, b, rtol=room, atol=room * float(np.max(np.abs(b), initial=0)), equal_nan=True):
                raise TraceError(
                    f"buckets: rows of {self.compiled.signature} depend on each other: filled up to {size} rows it gives another result"
                    " than eager code. A mean or a sum over the batch, or a batch norm, does that; compute it outside, or leave buckets out"
                )


def _filled(argument: Any, n: int, size: int) -> Any:
    """Each array with its last row repeated; gradients of the copies would go to that row, and are zero, since results are cut."""
    index = wrap(np.minimum(np.arange(size), n - 1))
    leaves, structure = flatten(argument, _is_array)
    return unflatten(structure, [ops.index_select(x if isinstance(x, Tensor) else wrap(x), index, axis=0) for x in leaves])


def _cut(result: Any, n: int, size: int) -> Any:
    leaves, structure = flatten(result, lambda x: isinstance(x, Tensor))
    return unflatten(structure, [_rows(x, n) if x.ndim and x.shape[0] == size else x for x in leaves])


def _rows(x: Tensor, n: int) -> Any:
    return ops.getitem(x, index=((0, n, 1),))
