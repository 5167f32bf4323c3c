"""Detect draws from the random generators of Python and NumPy during a trace: the traced program would repeat the drawn values."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from symgrad.compiler.guards.compare import StateGuard
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError


class _RngState:
    """A random number generator, with its state before a trace."""

    def __init__(self, title: str, get: Callable[[], Any], put: Callable[[Any], None]) -> None:
        self.title, self._get, self._put = title, get, put
        self._state = get()
        self._before = _comparable(self._state)

    def has_drawn(self) -> bool:
        return bool(_comparable(self._get()) != self._before)

    def restore(self) -> None:
        self._put(self._state)


class HostRngSnapshot:
    """The states before a trace of the global generators of `random` and `numpy.random`, and of the generator objects that the function can
    reach: through the names that it reads, or as `given` arguments."""

    def __init__(self, state_guards: Iterable[StateGuard] = (), given: Iterable[tuple[str, Any]] = ()) -> None:
        self._generators = [
            _RngState("random", random.getstate, random.setstate), _RngState("numpy.random", np.random.get_state, np.random.set_state),
            *_found([*((name.title, x) for name in state_guards for held in name.current_values() for x in _parts(held)), *given]),
        ]  # fmt: skip

    def refuse_draws(self) -> None:
        """Raise TraceError if the function drew from one of the generators, after restoring their states."""
        drawn = [generator for generator in self._generators if generator.has_drawn()]
        if drawn:
            for generator in drawn:
                generator.restore()
            raise TraceError(
                f"{user_line()}: the function draws from {' and '.join(g.title for g in drawn)} while it is traced, and a program would"
                " repeat what was drawn; draw before the call and pass it in, use the generators of symgrad, compile with retrace=True, or"
                " leave the function eager"
            )


def _found(values: Iterable[tuple[str, Any]]) -> Iterator[_RngState]:
    known = set()
    for title, x in values:
        if id(x) in known:
            continue
        known.add(id(x))
        title = title.removesuffix(".__self__")
        bits = x.bit_generator if isinstance(x, np.random.Generator) else x
        if isinstance(bits, np.random.BitGenerator):
            yield _RngState(title, functools.partial(getattr, bits, "state"), functools.partial(setattr, bits, "state"))
        elif isinstance(x, np.random.RandomState):
            yield _RngState(title, x.get_state, x.set_state)
        elif isinstance(x, random.Random) and not isinstance(x, random.SystemRandom):
            yield _RngState(title, x.getstate, x.setstate)


def _parts(x: Any) -> list[Any]:
    """The elements of a nested tuple; for any other object, the object itself."""
    return [part for item in x for part in _parts(item)] if isinstance(x, tuple) else [x]


def _comparable(state: Any) -> Any:
    """A generator's state with its arrays as bytes, so that == compares all of it."""
    if isinstance(state, dict):
        return {key: _comparable(x) for key, x in state.items()}
    if isinstance(state, tuple):
        return tuple([_comparable(x) if isinstance(x, (dict, tuple, np.ndarray)) else x for x in state])  # no call for each of 625 integers
    return state.tobytes() if isinstance(state, np.ndarray) else state
