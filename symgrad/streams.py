"""The generators that random tensors are drawn from, as users have them: seeds and states."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from symgrad import devices
from symgrad.mode import local, record_draw, record_seek
from symgrad.ops import generator
from symgrad.tensor import Tensor, wrap
from symgrad.typing import Array


class Generator(generator.Generator):
    """A seeded stream of random numbers."""

    def __init__(self, device: Any = "cpu") -> None:
        devices.check(device)
        super().__init__()
        record_seek(lambda: generator.Generator.manual_seed(self, generator.DEFAULT_SEED), self)

    @property
    def device(self) -> devices.device:
        return devices.CPU

    def manual_seed(self, seed: int) -> Generator:
        record_seek(lambda: generator.Generator.manual_seed(self, seed), self)
        return self

    def seed(self) -> int:
        record_seek(lambda: generator.Generator.seed(self), self)
        return self.initial_seed()

    def get_state(self) -> Tensor:  # type: ignore[override]
        state = _State(self)
        t = wrap(record_draw(state, self))
        if local.mode.capture is not None:
            t.__dict__["_state"] = state
        return t

    def set_state(self, new_state: Any) -> Generator:  # type: ignore[override]
        state = new_state.__dict__.get("_state") if isinstance(new_state, Tensor) and local.mode.capture is not None else None
        record_seek(lambda: self._set(new_state if state is None else state.latest), self)
        return self

    def _set(self, new_state: Any) -> None:
        if isinstance(new_state, Tensor):
            new_state = new_state._array
        if not isinstance(new_state, (np.ndarray, bytes, bytearray)) or getattr(new_state, "dtype", np.uint8) != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        super().set_state(new_state)

    def clone_state(self) -> Generator:
        return Generator().set_state(self.get_state())

    def __getstate__(self) -> dict[str, Any]:
        return {"state": super().get_state().tobytes()}


class _State:
    """The state of a generator where a function asked for it: at every run of a program another one."""

    def __init__(self, of: Generator) -> None:
        self.of = of
        self.latest: Any = None

    def __call__(self) -> Array:
        self.latest = generator.Generator.get_state(self.of)
        return self.latest  # type: ignore[no-any-return]


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


def chosen(given: Generator | None) -> Generator:
    if given is None:
        return default_generator
    if not isinstance(given, generator.Generator):
        raise TypeError(f"argument 'generator' must be Generator, not {given.__class__.__name__}")
    return given
