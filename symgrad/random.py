"""Random tensors: the same seed gives PyTorch's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.coercion import tensor_argument
from symgrad.creation import deliver, numpy_type, shape_of, size_argument
from symgrad.dispatch import tensors as ops
from symgrad.escapes import Escape, before_escape
from symgrad.mode import local, record_draw
from symgrad.ops import generator, sampling
from symgrad.ops.boxmuller import unit
from symgrad.ops.foreign import python_number
from symgrad.ops.promotion import INT64
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.streams import (
    Generator,
    chosen,
    default_generator as default_generator,
    fork_rng as fork_rng,
    get_rng_state as get_rng_state,
    initial_seed as initial_seed,
    manual_seed as manual_seed,
    seed as seed,
    set_rng_state as set_rng_state,
)
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array
from symgrad.views import store, tracked

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "multinomial", "normal", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip


def _drawn(name: str, draw: Callable[..., Array], word: str) -> Callable[..., Tensor]:
    def function(
        *size: Any,
        generator: Generator | None = None,
        out: Tensor | None = None,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **named: Any,
    ) -> Tensor:
        if named or not size:
            size = size_argument(name, size, named)
        target = out._array.dtype if dtype is None and isinstance(out, Tensor) else numpy_type(dtype)
        gen, shape = chosen(generator), shape_of(name, size)
        array = record_draw(lambda: local.mode.run(draw, gen, shape, target), gen)
        return deliver(name, array, out, dtype, device, requires_grad)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"A tensor of the given sizes, {word}."
    return function


rand = _drawn("rand", sampling.uniform, "uniform in [0, 1)")
randn = _drawn("randn", sampling.normal, "normal with mean 0 and variance 1")


def _drawn_like(name: str, make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(
        input: Tensor, *, dtype: Any = None, layout: Any = None, memory_format: Any = None, **keywords: Any
    ) -> Tensor:
        input = tensor_argument(name, input)
        return make(input._array.shape, dtype=input.dtype if dtype is None else dtype, **keywords)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{make.__name__}` with the shape and type of `input`."
    return function


rand_like, randn_like = _drawn_like("rand_like", rand), _drawn_like("randn_like", randn)


def randint(
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    size: Any = None,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Whole numbers uniform in [low, high): `randint(high, size)` or `randint(low, high, size)`."""
    bounds, size = _randint_arguments(args, low, high, size)
    target = INT64 if dtype is None else dtypes.numpy_type(dtype)
    gen, shape = chosen(generator), shape_of("randint", (size,))
    array = record_draw(lambda: sampling.randint(gen, *bounds, shape, target), gen)
    return deliver("randint", array, out, dtype, device, requires_grad)


def _randint_arguments(args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[tuple[int, int], Any]:
    left = list(args)
    if size is None:
        size = left.pop() if left else None
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {size.__class__.__name__}")
    if high is None:
        high = left.pop() if left else None
    if left and low is None:
        low = left.pop()
    if high is None or left:
        raise TypeError("randint() expects (high, size) or (low, high, size)")
    return (0 if low is None else int(low), int(high)), size


def randint_like(input: Tensor, *bounds: int, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any) -> Tensor:
    """`randint` with the shape and type of `input`."""
    input = tensor_argument("randint_like", input)
    shape = input._array.shape
    named.pop("memory_format", None)
    return randint(
        *bounds, size=shape, dtype=input.dtype if dtype is None else dtype, device=device, requires_grad=requires_grad, **named
    )


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A random permutation of 0, ..., n - 1."""
    gen, target = chosen(generator), INT64 if dtype is None else dtypes.numpy_type(dtype)
    array = record_draw(lambda: sampling.randperm(gen, n, target), gen)
    return deliver("randperm", array, out, dtype, device, requires_grad)


def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers: of one mean and deviation and of the given size, or with a mean or a deviation for every element."""
    gen = chosen(generator)
    if size is not None:
        shape = shape_of("normal", (size,))
        target = numpy_type(dtype)
        array = record_draw(lambda: local.mode.run(sampling.normal, gen, shape, target, float(mean), float(std)), gen)
        return deliver("normal", array, out, dtype, device, requires_grad)
    if dtype is not None:
        raise TypeError("normal(): dtype= needs a size; numbers for given means or deviations have their type")
    plain = isinstance(mean, (int, float)) and isinstance(std, (int, float))
    mean, std = (x if isinstance(x, (int, float)) else tensor_argument("normal", x, "'mean' or 'std'") for x in (mean, std))
    given = [x._array for x in (mean, std) if isinstance(x, Tensor)]
    if plain:
        raise TypeError("normal(): two numbers need a size; otherwise mean or std must be a Tensor")
    if isinstance(std, Tensor):
        if (std._array < 0).any():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    shape, target = broadcast_shapes("normal", *(a.shape for a in given)), given[0].dtype
    if local.mode.capture is not None:
        mean, std = (ops.detach(x) if isinstance(x, Tensor) else x for x in (mean, std))
        numbers = wrap(record_draw(lambda: sampling.normal(gen, shape, target), gen))
        return _given_to(out, ops.cast(numbers * std + mean, dtype=target))
    noise = sampling.normal(gen, shape, target)
    mean, std = (x._array if isinstance(x, Tensor) else x for x in (mean, std))
    array = local.mode.run(lambda: (noise * std + mean).astype(given[0].dtype, copy=False))
    return deliver("normal", array, out, dtype, device, requires_grad)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability that `input` (or `p`) says, else 0."""
    input = tensor_argument("bernoulli", input)
    array = input._array
    gen, shape, target = chosen(generator), array.shape, array.dtype
    if p is not None:
        p = _number("bernoulli", p)
        return deliver("bernoulli", record_draw(lambda: sampling.bernoulli(gen, p, shape, target), gen), out, None, None, False)
    if local.mode.capture is not None:
        return _given_to(out, _likely(gen, input, shape, target))
    return deliver("bernoulli", sampling.bernoulli(gen, array, shape, target), out, None, None, False)


def _likely(gen: generator.Generator, p: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """1 with probability p, else 0, in a program that computes p: numbers are drawn, and compared with it."""
    wide = p._array.dtype == np.float64
    numbers = wrap(record_draw(lambda: unit(gen, math.prod(shape), wide).reshape(shape), gen))
    return ops.cast(ops.lt(numbers, ops.detach(p)), dtype=dtype)


def _given_to(out: Tensor | None, result: Tensor) -> Tensor:
    """What a program has computed of random numbers, in `out` if that is asked for."""
    if out is None:
        return result
    if out._array.shape != result._array.shape:
        raise RuntimeError(f"out is of shape {list(out.shape)} where {list(result.shape)} is drawn; a compiled function does not resize it")
    return store(out, ops.cast(result, dtype=out._array.dtype))


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Indices drawn from each row of `input` with probabilities proportional to its elements."""
    input = tensor_argument("multinomial", input)
    weights, gen = input._array, chosen(generator)
    if local.mode.capture is not None and weights.size:
        sampling.check_weights(weights, num_samples, replacement, local.mode.capture.abstract)
        return _given_to(out, _sampled(gen, input, num_samples, replacement))
    return deliver("multinomial", sampling.multinomial(gen, weights, num_samples, replacement), out, None, None, False)


def _sampled(gen: generator.Generator, input: Tensor, count: int, replacement: bool) -> Tensor:
    """The same in a program that computes the weights: see `sampling.multinomial`."""
    shape, dtype = input._array.shape, input._array.dtype
    weights = ops.detach(input)
    if replacement and count > 1:
        single = dtype if dtype == np.float64 else np.dtype(np.float32)
        sums = ops.cumsum(ops.cast(weights, dtype=single), axis=len(shape) - 1, reverse=False)
        below = ops.cast(sums[..., :-1] / sums[..., -1:], dtype=np.dtype(np.float64))
        points = wrap(record_draw(lambda: unit(gen, math.prod(shape[:-1]) * count, wide=True).reshape(*shape[:-1], count), gen))
        return (below.unsqueeze(-2) < points.unsqueeze(-1)).sum(-1)
    scores = weights / wrap(record_draw(lambda: sampling.exponential(gen, shape, dtype), gen))
    if count == 1:
        return scores.argmax(-1, keepdim=True)
    return (-scores).argsort(-1, stable=True)[..., :count]


def _draw_into(x: Tensor, draw: Callable[[], Array], gen: generator.Generator) -> Tensor:
    """New values in place of the old ones: the gradient of what was there before is zero."""
    tracked(x)  # refused before anything is drawn
    return store(x, wrap(record_draw(lambda: local.mode.run(draw), gen)))


def _number(name: str, x: Any) -> Any:
    """An option as a Python number; a tensor of several, which only bernoulli_ takes, and one that a program computes there, as it is."""
    if not isinstance(x, Tensor):
        return python_number(x)
    if name == "bernoulli_" and (x._array.ndim or local.mode.capture is not None):
        return x
    before_escape(x, Escape(f"a tensor as an option of {name}()", "draw with rand_like or randn_like, and compute with the tensor"))
    return x._array.item()


def _in_place(name: str, signature: Callable[..., Callable[[Any, Any], Array]]) -> None:
    """`Tensor.<name>`: `signature` turns the arguments into a function of generator and type."""

    def method(self: Tensor, *args: Any, generator: Generator | None = None, **keywords: Any) -> Tensor:
        draw: Any = signature(*(_number(name, x) for x in args), **{key: _number(name, x) for key, x in keywords.items()})
        like = Meta(self._array.shape, self._array.dtype)  # a program must not keep the tensor
        gen = chosen(generator)
        if isinstance(draw, Tensor):  # probabilities that a program computes
            tracked(self)
            return store(self, _likely(gen, draw, like.shape, like.dtype))
        return _draw_into(self, lambda: draw(gen, like), gen)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", signature.__doc__
    setattr(Tensor, name, method)


def _uniform_(from_: float = 0.0, to: float = 1.0, **named: float) -> Any:
    """Fill with numbers uniform in [from, to)."""
    low, high = named.get("from", from_), named.get("b", to)
    return lambda gen, a: sampling.uniform(gen, a.shape, a.dtype, low, high)


def _normal_(mean: float = 0.0, std: float = 1.0) -> Any:
    """Fill with normal numbers."""
    return lambda gen, a: sampling.normal(gen, a.shape, a.dtype, mean, std)


def _random_(*bounds: int, to: int | None = None, **named: int) -> Any:
    """Fill with whole numbers: `random_()`, `random_(to)`, `random_(from, to)`."""
    low, high = (None, bounds[0]) if len(bounds) == 1 else bounds or (None, None)
    low, high = named.get("from", low), high if to is None else to
    return lambda gen, a: sampling.random_(gen, a.shape, a.dtype, low, high)


def _bernoulli_(p: Any = 0.5) -> Any:
    """Fill with 1 with probability p, else 0."""
    if isinstance(p, Tensor) and local.mode.capture is not None:
        return p
    chance = p._array if isinstance(p, Tensor) else p
    return lambda gen, a: sampling.bernoulli(gen, chance, a.shape, a.dtype)


def _exponential_(lambd: float = 1.0) -> Any:
    """Fill with exponentially distributed numbers."""
    return lambda gen, a: sampling.exponential(gen, a.shape, a.dtype, lambd)


def _log_normal_(mean: float = 1.0, std: float = 2.0) -> Any:
    """Fill with numbers whose logarithm is normal."""
    return lambda gen, a: sampling.log_normal(gen, a.shape, a.dtype, mean, std)


def _cauchy_(median: float = 0.0, sigma: float = 1.0) -> Any:
    """Fill with Cauchy distributed numbers."""
    return lambda gen, a: sampling.cauchy(gen, a.shape, a.dtype, median, sigma)


def _geometric_(p: float) -> Any:
    """Fill with the number of trials until a success of probability p."""
    return lambda gen, a: sampling.geometric(gen, a.shape, a.dtype, p)


for _signature in (_uniform_, _normal_, _random_, _bernoulli_, _exponential_, _log_normal_, _cauchy_, _geometric_):
    _in_place(_signature.__name__[1:], _signature)


def _bernoulli(self: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element gives, or with probability p; else 0."""
    return bernoulli(self, p, generator=generator)


setattr(Tensor, "bernoulli", _bernoulli)  # noqa: B010  (the type is complete without its methods)
setattr(Tensor, "multinomial", multinomial)  # noqa: B010  (the same)


def __dir__() -> list[str]:
    return __all__
