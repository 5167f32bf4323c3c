"""Tensors made from sizes and rules: zeros, ones, ranges, the identity, and their `*_like` and `new_*` forms."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad import devices, dtypes, legacy
from symgrad.application import apply, refuse_gradient
from symgrad.coercion import stored, tensor_argument
from symgrad.computed_options import filled, fixed, is_computed, spaced, stepped
from symgrad.from_data import finish, quiet_cast, tensor
from symgrad.lines import warn
from symgrad.mode import local
from symgrad.ops import promotion
from symgrad.ops.boxmuller import fma
from symgrad.ops.foreign import native
from symgrad.ops.promotion import INT64, kind, scalar_type, written
from symgrad.ops.table import TABLE
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array
from symgrad.views import store, tracked

__all__ = [
    "arange", "empty", "empty_like", "empty_strided", "eye", "full", "full_like", "linspace", "logspace", "ones", "ones_like",
    "range", "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


def shape_of(name: str, size: Any) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence, as ints that are not negative."""
    if len(size) == 1 and (size[0].__class__ is tuple or isinstance(size[0], (tuple, list))):
        size = size[0]
    shape = tuple([n if n.__class__ is int else _size(name, position, n) for position, n in enumerate(size, 1)])
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)} ({name})")
    return shape


def _size(name: str, position: int, n: Any) -> int:
    try:
        if not isinstance(n, bool):
            return operator.index(n)
    except TypeError:
        pass
    raise TypeError(f"{name}(): argument 'size' (position {position}) must be tuple of ints, not {n.__class__.__name__}")


def numpy_type(dtype: Any) -> np.dtype[Any]:
    """The type asked for, or the default float."""
    return promotion._default if dtype is None else dtypes.numpy_type(dtype)


def deliver(name: str, array: Array, out: Tensor | None, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    """A new tensor, or `out` with these values: then the type is that of `out`."""
    if out is None:
        return finish(array, device, requires_grad)
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {out.__class__.__name__}")
    if dtype is not None and out._array.dtype != array.dtype:
        have, want = dtypes.type_word(array.dtype), dtypes.type_word(out._array.dtype)
        raise RuntimeError(f"dtype {have} does not match dtype of out parameter ({want})")
    tracked(out)  # refuses what must not be written to
    if out._array.shape != array.shape and out._base is None:
        out._array = np.empty(array.shape, out._array.dtype)  # PyTorch resizes, too
    return store(out, wrap(quiet_cast(array, out._array.dtype)))


def _filled(name: str, make: Callable[..., Array], word: str) -> Callable[..., Tensor]:
    def function(
        *size: Any,
        out: Tensor | None = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        memory_format: Any = None,
        **named: Any,
    ) -> Tensor:
        if named or not size:
            size = size_argument(name, size, named)
        array = make(shape_of(name, size), promotion._default if dtype is None else dtypes.numpy_type(dtype))
        if out is None and device is None and not requires_grad and local.mode.capture is None:
            return wrap(array)
        return deliver(name, array, out, dtype, device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of the given sizes, {word}."
    return function


def size_argument(name: str, size: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Sizes that came as `size=`; any other keyword is unknown."""
    if not size and "size" in named:
        size = (named.pop("size"),)
    if named:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(named))}'")
    if not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    return size


zeros = _filled("zeros", np.zeros, "filled with 0")
ones = _filled("ones", np.ones, "filled with 1")
empty = _filled("empty", np.empty, "whose values are whatever was in memory")


def full(
    size: Any,
    fill_value: Any,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """A tensor of the given sizes filled with one value, whose kind decides the type if none is given."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {size.__class__.__name__}")
    refuse_gradient(fill_value)
    if out is None and is_computed(fill_value):
        now = fill_value._array.dtype.type(0).item() if isinstance(fill_value, Tensor) else fill_value.number
        target = scalar_type(now) if dtype is None else dtypes.numpy_type(dtype)
        return filled(stored(fill_value, target), shape_of("full", (size,)), target, requires_grad)
    value = _number("full", fill_value)
    target = scalar_type(value) if dtype is None else dtypes.numpy_type(dtype)
    return deliver("full", _constant(shape_of("full", (size,)), value, target), out, dtype, device, requires_grad)


def _number(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        whole = value._array.dtype.kind in "iu" and value._array.size == 1
        return int(value) if whole else value.item()  # a whole number may decide over a size: a traced function asks for it
    if isinstance(value, (bool, int, float, complex)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    plain = value if isinstance(value, np.ndarray) else native(value)
    if isinstance(plain, np.ndarray) and not plain.ndim:
        return plain.item()
    if isinstance(plain, (bool, int, float, complex, Fraction)):
        return float(plain) if isinstance(plain, Fraction) else plain
    raise TypeError(f"{name}(): argument must be Number, not {value.__class__.__name__}")


def _constant(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Array:
    return np.full(shape, quiet_cast(np.asarray(written(value, dtype)), dtype))


def arange(
    *bounds: Any,
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """start, start + step, ... while less than `end`: `arange(end)`, `arange(start, end)` or `arange(start, end, step)`."""
    if len(bounds) == 1 and end is None:
        end = bounds[0]
    else:
        start, end, step = (*bounds, *(start, end, step)[len(bounds) :])
    for bound in (start, end, step):
        refuse_gradient(bound)
    if out is None and (dtype is None or kind(dtypes.numpy_type(dtype)) == "f") and _any_float(start, end, step):
        return stepped(start, end, step, numpy_type(dtype)).requires_grad_(requires_grad)
    numbers = [_number("arange", value) for value in (start, end, step)]
    if dtype is not None:
        target = dtypes.numpy_type(dtype)
    else:
        target = promotion._default if any(isinstance(value, float) for value in numbers) else INT64
    return deliver("arange", _range(numbers[0], numbers[1], numbers[2], target), out, dtype, device, requires_grad)


def _range(start: Any, end: Any, step: Any, dtype: np.dtype[Any]) -> Array:
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: {start} -> {end} by {step}")
    if dtype.kind in "iub":
        whole = [math.trunc(value) for value in (start, end, step)]
        count = max(0, -((whole[0] - whole[1]) // whole[2])) if dtype == INT64 else math.ceil((end - start) / step)
        values: Array = whole[0] + whole[2] * np.arange(count)
    else:
        values = start + np.arange(math.ceil((end - start) / step)) * float(step)
    return quiet_cast(values, dtype)


def range(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """PyTorch's old `range`, which includes its end."""
    warn("torch.range is deprecated: use arange, which produces values in [start, end).")
    count = math.floor((end - start) / step) + 1
    return finish((start + np.arange(count) * float(step)).astype(numpy_type(dtype)), None, requires_grad)


def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`steps` evenly spaced numbers from `start` to `end`, both included."""
    if out is None and _any_float(start, end):
        return spaced(start, end, _steps(steps), numpy_type(dtype)).requires_grad_(requires_grad)
    first, last = _number("linspace", start), _number("linspace", end)
    if dtype is None:
        target = scalar_type(1j if isinstance(first, complex) or isinstance(last, complex) else 0.0)
    else:
        target = dtypes.numpy_type(dtype)
    return deliver("linspace", _spaced(first, last, steps, target), out, dtype, device, requires_grad)


def _any_float(*bounds: Any) -> bool:
    """Whether bounds are floats that a traced function computes."""
    computed = [x for x in bounds if is_computed(x)]
    return any(x._array.dtype.kind == "f" if isinstance(x, Tensor) else isinstance(x, float) for x in computed)


def _steps(steps: Any) -> int:
    count = _size("linspace", 3, steps)
    if count < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {count}")
    return count


def _spaced(start: Any, end: Any, steps: Any, dtype: np.dtype[Any]) -> Array:
    """From both ends towards the middle with fused multiply-adds, as PyTorch's kernel does: so the ends are exact."""
    count = _steps(steps)
    compute = dtype if kind(dtype) in "fc" else promotion.FLOAT64
    first: Any = compute.type(start)
    last: Any = compute.type(end)
    step: Any = (last - first) / compute.type(max(count - 1, 1))
    indices = np.arange(count)
    if compute in (promotion.FLOAT32, promotion.FLOAT64):
        ups, downs = indices.astype(compute), (count - 1 - indices).astype(compute)
        ahead, behind = fma(ups, float(step), float(first)), fma(downs, -float(step), float(last))
    else:
        ahead, behind = first + step * indices.astype(compute), last - step * (count - 1 - indices).astype(compute)
    values: Array = np.where(indices < count // 2 + (count == 1), ahead, behind)
    return quiet_cast(values, dtype)


def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """`base` raised to `steps` evenly spaced exponents from `start` to `end`."""
    target = numpy_type(dtype)
    if out is None and _any_float(start, end, base):
        raised: Tensor = apply(TABLE["pow"], (fixed(base), spaced(start, end, _steps(steps), target)), {})
        return raised.requires_grad_(requires_grad)
    exponents = _spaced(_number("logspace", start), _number("logspace", end), steps, target)
    powers = local.mode.run(np.power, float(base), exponents)
    return deliver("logspace", quiet_cast(powers, target), out, dtype, device, requires_grad)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """1 on the diagonal, 0 elsewhere."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and size < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return deliver("eye", np.eye(n, m, dtype=numpy_type(dtype)), out, dtype, device, requires_grad)


def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor without values whose elements lie `stride` elements apart."""
    shape, target = shape_of("empty_strided", (size,)), numpy_type(dtype)
    steps = shape_of("empty_strided", (stride,))
    length = 1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True)) if math.prod(shape) else 0
    memory = np.empty(length, target)
    return finish(np.ndarray(shape, target, memory, 0, tuple(s * target.itemsize for s in steps)), device, requires_grad)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = INT64, device: Any = None) -> Tensor:
    """Row and column numbers of the elements on and below a diagonal."""
    return finish(np.stack(np.tril_indices(row, offset, col)).astype(dtypes.numpy_type(dtype)), device)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = INT64, device: Any = None) -> Tensor:
    """Row and column numbers of the elements on and above a diagonal."""
    return finish(np.stack(np.triu_indices(row, offset, col)).astype(dtypes.numpy_type(dtype)), device)


def _like(name: str, make: Callable[..., Array], word: str) -> Callable[..., Tensor]:
    def function(
        input: Tensor,
        *,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Tensor:
        like = tensor_argument(name, input)._array
        return finish(make(like.shape, like.dtype if dtype is None else dtypes.numpy_type(dtype)), device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor with the shape and type of `input`, {word}."
    return function


zeros_like = _like("zeros_like", np.zeros, "filled with 0")
ones_like = _like("ones_like", np.ones, "filled with 1")
empty_like = _like("empty_like", np.empty, "whose values are whatever was in memory")


def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor with the shape and type of `input`, filled with one value."""
    refuse_gradient(fill_value)
    like = tensor_argument("full_like", input)._array
    target = like.dtype if dtype is None else dtypes.numpy_type(dtype)
    if is_computed(fill_value):
        return filled(stored(fill_value, target), like.shape, target, requires_grad)
    return finish(_constant(like.shape, _number("full_like", fill_value), target), device, requires_grad)


def _new(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *size: Any, dtype: Any = None, **keywords: Any) -> Tensor:
        return make(*size, dtype=self.dtype if dtype is None else dtype, **keywords)

    method.__name__ = f"new_{make.__name__}"
    method.__doc__ = f"`{make.__name__}` with the type of this tensor."
    return method


def _new_full(self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, **keywords: Any) -> Tensor:
    """`full` with the type of this tensor."""
    return full(size, fill_value, dtype=self.dtype if dtype is None else dtype, **keywords)


def _new_tensor(self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A copy of `data` with the type of this tensor."""
    return tensor(data, dtype=self.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _new_legacy(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """The old constructor with the type of this tensor: `x.new(3, 4)`, `x.new([1, 2])`."""
    devices.check(device)
    return wrap(legacy.construct(args, self._array.dtype))


for _function in (zeros, ones, empty):
    setattr(Tensor, f"new_{_function.__name__}", _new(_function))
for _name, _method in {"new_full": _new_full, "new_tensor": _new_tensor, "new": _new_legacy}.items():
    setattr(Tensor, _name, _method)
