"""Random tensors, and the generator that all of them are drawn from: the same seed gives PyTorch's own numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from symgrad import devices, dtypes
from symgrad.creation import check_tensor, deliver, numpy_type, shape_of, size_argument
from symgrad.dispatch import tensors as ops
from symgrad.mode import drawn, leaving, local
from symgrad.ops import generator, sampling
from symgrad.ops.boxmuller import unit
from symgrad.ops.promotion import INT64
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array
from symgrad.views import store, tracked

__all__ = [
    "Generator", "bernoulli", "default_generator", "get_rng_state", "initial_seed", "manual_seed", "multinomial", "normal", "rand",
    "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "seed", "set_rng_state",
]  # fmt: skip


class Generator(generator.Generator):
    """A seeded stream of random numbers."""

    def __init__(self, device: Any = "cpu") -> None:
        devices.check(device)
        super().__init__()

    @property
    def device(self) -> devices.device:
        return devices.CPU

    def get_state(self) -> Tensor:  # type: ignore[override]
        return wrap(super().get_state())

    def set_state(self, new_state: Any) -> Generator:  # type: ignore[override]
        if isinstance(new_state, Tensor):
            new_state = new_state._array
        if not isinstance(new_state, (np.ndarray, bytes, bytearray)) or getattr(new_state, "dtype", np.uint8) != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        super().set_state(new_state)
        return self

    def clone_state(self) -> Generator:
        return Generator().set_state(self.get_state())

    def __getstate__(self) -> dict[str, Any]:
        return {"state": super().get_state().tobytes()}


default_generator: Generator = generator.default_generator  # type: ignore[assignment]
default_generator.__class__ = Generator  # one stream for kernels and users, with the users' methods


def manual_seed(seed: Any) -> Generator:
    """Seed the default generator, and return it."""
    default_generator.manual_seed(int(seed))
    return default_generator


def seed() -> int:
    """Seed the default generator from the system's entropy, and return that seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was last given."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, as bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: Any = (), enabled: bool = True) -> Iterator[None]:
    """Inside the block the default generator may be used; after it, it is as it was before."""
    before = default_generator.get_state()
    try:
        yield
    finally:
        if enabled:
            default_generator.set_state(before)


def _chosen(given: Generator | None) -> Generator:
    if given is None:
        return default_generator
    if not isinstance(given, generator.Generator):
        raise TypeError(f"argument 'generator' must be Generator, not {type(given).__name__}")
    return given


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
        gen, shape = _chosen(generator), shape_of(name, size)
        array = drawn(lambda: local.mode.run(draw, gen, shape, target))
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
        shape = check_tensor(name, input).shape
        return make(shape, dtype=input.dtype if dtype is None else dtype, **keywords)

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
    gen, shape = _chosen(generator), shape_of("randint", (size,))
    array = drawn(lambda: sampling.randint(gen, *bounds, shape, target))
    return deliver("randint", array, out, dtype, device, requires_grad)


def _randint_arguments(args: tuple[Any, ...], low: Any, high: Any, size: Any) -> tuple[tuple[int, int], Any]:
    left = list(args)
    if size is None:
        size = left.pop() if left else None
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type(size).__name__}")
    if high is None:
        high = left.pop() if left else None
    if left and low is None:
        low = left.pop()
    if high is None or left:
        raise TypeError("randint() expects (high, size) or (low, high, size)")
    return (0 if low is None else int(low), int(high)), size


def randint_like(input: Tensor, *bounds: int, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any) -> Tensor:
    """`randint` with the shape and type of `input`."""
    shape = tuple(check_tensor("randint_like", input).shape)
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
    gen, target = _chosen(generator), INT64 if dtype is None else dtypes.numpy_type(dtype)
    array = drawn(lambda: sampling.randperm(gen, n, target))
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
    gen = _chosen(generator)
    if size is not None:
        shape = shape_of("normal", (size,))
        target = numpy_type(dtype)
        array = drawn(lambda: local.mode.run(sampling.normal, gen, shape, target, float(mean), float(std)))
        return deliver("normal", array, out, dtype, device, requires_grad)
    given = [x._array for x in (mean, std) if isinstance(x, Tensor)]
    if not given:
        raise TypeError("normal(): two numbers need a size; otherwise mean or std must be a Tensor")
    if isinstance(std, Tensor):
        if (std._array < 0).any():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    shape, target = broadcast_shapes("normal", *(a.shape for a in given)), given[0].dtype
    if local.mode.capture is not None and out is None:
        mean, std = (ops.detach(x) if isinstance(x, Tensor) else x for x in (mean, std))
        return ops.cast(wrap(drawn(lambda: sampling.normal(gen, shape, target))) * std + mean, dtype=target)  # type: ignore[no-any-return]
    for x in (mean, std):
        _leaves_for(x, "normal", "leave out= away")
    noise = sampling.normal(gen, shape, target)
    mean, std = (x._array if isinstance(x, Tensor) else x for x in (mean, std))
    array = local.mode.run(lambda: (noise * std + mean).astype(given[0].dtype, copy=False))
    return deliver("normal", array, out, dtype, device, requires_grad)


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor:
    """1 with the probability that `input` (or `p`) says, else 0."""
    array = check_tensor("bernoulli", input)
    gen, shape, target = _chosen(generator), array.shape, array.dtype
    if p is not None:
        return deliver("bernoulli", drawn(lambda: sampling.bernoulli(gen, p, shape, target)), out, None, None, False)
    if local.mode.capture is not None and out is None:
        return _likely(gen, input, shape, target)
    _leaves_for(input, "bernoulli", "leave out= away")
    return deliver("bernoulli", sampling.bernoulli(gen, array, shape, target), out, None, None, False)


def _likely(gen: generator.Generator, p: Tensor, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """1 with probability p, else 0, in a program that computes p: numbers are drawn, and compared with it."""
    wide = p._array.dtype == np.float64
    numbers = wrap(drawn(lambda: unit(gen, math.prod(shape), wide).reshape(shape)))
    return ops.cast(ops.lt(numbers, ops.detach(p)), dtype=dtype)  # type: ignore[no-any-return]


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor:
    """Indices drawn from each row of `input` with probabilities proportional to its elements."""
    weights = check_tensor("multinomial", input)
    _leaves_for(input, "multinomial", "draw before the call")
    return deliver("multinomial", sampling.multinomial(_chosen(generator), weights, num_samples, replacement), out, None, None, False)


def _leaves_for(x: Any, name: str, instead: str) -> None:
    """What is drawn depends on the values of a tensor, and a program would go on with those that it was traced with."""
    if isinstance(x, Tensor) and local.mode.capture is not None:
        leaving(x, f"{name}() of probabilities or parameters in a tensor (in a compiled function {instead})")


def _draw_into(x: Tensor, draw: Callable[[], Array]) -> Tensor:
    """New values in place of the old ones: the gradient of what was there before is zero."""
    tracked(x)  # refused before anything is drawn
    return store(x, wrap(drawn(lambda: local.mode.run(draw))))


def _in_place(name: str, signature: Callable[..., Callable[[Any, Any], Array]]) -> None:
    """`Tensor.<name>`: `signature` turns the arguments into a function of generator and type."""

    def method(self: Tensor, *args: Any, generator: Generator | None = None, **keywords: Any) -> Tensor:
        draw, like = signature(*args, **keywords), Meta(self._array.shape, self._array.dtype)  # a program must not keep the tensor
        return _draw_into(self, lambda: draw(_chosen(generator), like))

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
    _leaves_for(p, "bernoulli_", "write x.copy_(bernoulli(p))")
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
