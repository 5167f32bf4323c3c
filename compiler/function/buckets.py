"""compile(buckets=...): batches of any length run through programs for a few lengths.

The named arguments are padded to the next length by repeating their last row, and results are cut back to the rows that were passed. That
is correct for functions that treat rows independently. Once for each length the result is compared with the eager function, also with other
values in the padded rows: large positive, large negative and NaN rows must not change the results.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.autograd import no_grad
from symgrad.compiler.function.descriptor import FunctionWrapper
from symgrad.compiler.function.module import compiled
from symgrad.compiler.options import Options
from symgrad.compiler.trace.tracer import is_tracing
from symgrad.dispatch import tensors as ops
from symgrad.errors import TraceError
from symgrad.ops.promotion import kind
from symgrad.pytree import flatten, unflatten
from symgrad.tensor import Tensor, wrap


def _is_array(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray))


def _probe(sign: int) -> Callable[[Any], Any]:
    """Return a function from an array to a padding value far outside its range. Integers may be indices, so they stay within the range."""
    return lambda x: sign * 1e4 if kind(x.dtype) in "fc" else x.max() if sign > 0 else x.min()


_PROBES = (_probe(1), _probe(-1), lambda x: np.nan if kind(x.dtype) in "fc" else x.max())


class Bucketed(FunctionWrapper):
    """A compiled function whose arguments are padded. Every other attribute comes from the compiled function."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.compiled = compiled(function, options)
        self.signature, self.options, self.lengths = self.compiled.signature, options, dict(options.buckets)
        self._tried: set[Any] = set()
        functools.update_wrapper(self, function, updated=())

    def __getattr__(self, name: str) -> Any:
        compiled = self.__dict__.get("compiled")
        if compiled is None or name.startswith("__"):  # a copy in the making has no attributes yet
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        found = getattr(compiled, name)
        if not isinstance(found, types.FunctionType):
            return found

        @functools.wraps(found)
        def method(*args: Any, **kwargs: Any) -> Any:
            result = found(*args, **kwargs)
            return self if result is compiled else result  # net.eval() returns this object

        return method

    def __repr__(self) -> str:
        return repr(self.compiled)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            return self.compiled(*args, **kwargs)
        bound = self.compiled.signature.signature.bind(*args, **kwargs)
        n, size = self._sizes(bound.arguments)
        if n is None or size is None or n == size:
            return self.compiled(*args, **kwargs)
        given = {name: bound.arguments[name] for name in self.lengths if name in bound.arguments}
        bound.arguments.update({name: _padded(argument, n, size) for name, argument in given.items()})
        result = _cut(self.compiled(*bound.args, **bound.kwargs), n, size)
        key = size, self.compiled.signature.bind(bound.args, bound.kwargs).key()
        if key not in self._tried:
            wanted = self._eager(args, kwargs)
            self._check(result, wanted, size)
            for fill in _PROBES:
                bound.arguments.update({name: _padded(argument, n, size, fill) for name, argument in given.items()})
                other = self._run(bound)
                if other is not None:
                    self._check(_cut(other[0], n, size), wanted, size)
            self._tried.add(key)
        return result

    def _sizes(self, arguments: Mapping[str, Any]) -> tuple[int | None, int | None]:
        """Return the length of the batch and the length to pad it to; None for a length that does not exist."""
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

    def _eager(self, args: Any, kwargs: Any) -> Any:
        with no_grad():
            return self.compiled.signature.function(*args, **kwargs)

    def _run(self, bound: inspect.BoundArguments) -> tuple[Any] | None:
        """Return the result in a tuple; None if the function raises for these padding values, which proves nothing."""
        try:
            return (self.compiled(*bound.args, **bound.kwargs),)
        except Exception:
            return None

    def _check(self, result: Any, wanted: Any, size: int) -> None:
        for x, y in zip(flatten(result, _is_array)[0], flatten(wanted, _is_array)[0], strict=True):
            a, b = (z.detach()._array if isinstance(z, Tensor) else z for z in (x, y))
            room = 1e-3 if a.dtype.kind in "fcV" and a.dtype.itemsize <= 8 and a.dtype != np.float64 else 1e-7
            if a.shape != b.shape or not np.allclose(a, b, rtol=room, atol=room * float(np.max(np.abs(b), initial=0)), equal_nan=True):
                raise TraceError(
                    f"buckets: rows of {self.compiled.signature} depend on each other: filled up to {size} rows it gives another result"
                    " than eager code. A mean or a sum over the batch, or a batch norm, does that; compute it outside, or leave buckets out"
                )


def _padded(argument: Any, n: int, size: int, fill: Callable[[Any], Any] | None = None) -> Any:
    """Return the argument with the last row of each array repeated. The copies contribute no gradient to that row, since results are cut.
    With `fill`, the added rows hold the value that it returns."""
    index = np.minimum(np.arange(size), n - 1)
    leaves, structure = flatten(argument, _is_array)
    if fill is not None:
        return unflatten(structure, [_other_rows(x, index, n, fill) for x in leaves])
    return unflatten(structure, [ops.index_select(x, wrap(index), axis=0) if isinstance(x, Tensor) else x[index] for x in leaves])


def _other_rows(x: Any, index: Any, n: int, fill: Callable[[Any], Any]) -> Any:
    given = x.detach()._array if isinstance(x, Tensor) else x
    rows = given[index]
    if given.size:
        rows[n:] = fill(given)
    return wrap(rows, x.requires_grad) if isinstance(x, Tensor) else rows


def _cut(result: Any, n: int, size: int) -> Any:
    leaves, structure = flatten(result, _is_array)
    return unflatten(structure, [_rows(x, n) if x.ndim and x.shape[0] == size else x for x in leaves])


def _rows(x: Any, n: int) -> Any:
    return ops.getitem(x, index=((0, n, 1),)) if isinstance(x, Tensor) else x[:n]
