"""Switching recording on and off, for a block or for a function. Each thread has its own switch, on at first."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar, overload

from symgrad.mode import local

F = TypeVar("F", bound=Callable[..., Any])


def is_grad_enabled() -> bool:
    """Whether ops are recorded in this thread."""
    return local.mode.recording


def is_inference_mode_enabled() -> bool:
    """Whether this thread is in inference mode."""
    return local.mode.inference


class _Switch:
    """A context manager and decorator. `enter` sets the mode, leaving restores it; one object may be entered again and again."""

    def __init__(self) -> None:
        self._before: list[tuple[bool, bool]] = []

    def enter(self) -> None:
        raise NotImplementedError

    def again(self) -> _Switch:
        """The switch that a decorated function uses in each of its calls."""
        return type(self)()

    def __enter__(self) -> None:
        mode = local.mode
        self._before.append((mode.recording, mode.inference))
        self.enter()

    def __exit__(self, *exc: object) -> None:
        mode = local.mode
        mode.recording, mode.inference = self._before.pop()

    def __call__(self, function: F) -> F:
        if inspect.isclass(function):
            raise TypeError(f"{type(self).__name__} decorates functions; {function.__name__} is a class")
        return decorate(self.again, function)


def decorate(switch: Callable[[], _Switch], function: F) -> F:
    """`function` with every call inside `switch()`; of a generator function, every step."""
    if inspect.isgeneratorfunction(function):
        return _decorate_generator(switch, function)  # type: ignore[return-value]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with switch():
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _decorate_generator(switch: Callable[[], _Switch], function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        steps = function(*args, **kwargs)
        step, given = steps.send, None
        try:
            while True:
                with switch():
                    result = step(given)
                try:
                    step, given = steps.send, (yield result)
                except GeneratorExit:
                    with switch():
                        steps.close()
                    raise
                except BaseException as error:  # the consumer threw it in
                    step, given = steps.throw, error
        except StopIteration as done:
            return done.value

    return call


class _Bare(_Switch):
    """A switch without arguments: `@no_grad` is as good as `@no_grad()`."""

    @overload
    def __new__(cls, function: None = None) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]  # a decorator gives back what it decorates
    def __new__(cls, function: Any = None) -> Any:
        return super().__new__(cls) if function is None else decorate(lambda: cls(), function)


class no_grad(_Bare):
    """Nothing is recorded inside: `with no_grad():`, `@no_grad()`, `@no_grad`."""

    def enter(self) -> None:
        local.mode.recording = False


class enable_grad(_Bare):
    """Ops are recorded inside, also within `no_grad`."""

    def enter(self) -> None:
        local.mode.recording = True


class differentiating(enable_grad):
    """Recording, while a function is run for the sake of its derivative."""

    def __enter__(self) -> None:
        super().__enter__()
        local.mode.change_transform_depth(1)

    def __exit__(self, *exc: object) -> None:
        local.mode.change_transform_depth(-1)
        super().__exit__(*exc)


@contextmanager
def without_hooks() -> Iterator[None]:
    """Backward passes that call no hooks: PyTorch's forward derivatives, which they stand for, do not."""
    mode = local.mode
    before, mode.hooks = mode.hooks, False
    try:
        yield
    finally:
        mode.hooks = before


class set_grad_enabled(_Switch):
    """Recording as `mode` says, from the call on: a plain call changes the mode for good, a `with` restores it."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._outer = local.mode.recording
        local.mode.recording = self.mode

    def enter(self) -> None:
        self._before[-1] = (self._outer, self._before[-1][1])
        local.mode.recording = self.mode

    def again(self) -> _Switch:
        return set_grad_enabled(self.mode)

    def __call__(self, function: F) -> F:
        local.mode.recording = self._outer  # as a decorator it changes nothing now
        return super().__call__(function)


class inference_mode(_Switch):
    """As `no_grad`, and `is_inference_mode_enabled()` says so. `inference_mode(False)` switches it off, and recording on."""

    def __new__(cls, mode: Any = True) -> Any:
        return super().__new__(cls) if isinstance(mode, bool) else decorate(cls, mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def enter(self) -> None:
        local.mode.recording, local.mode.inference = not self.mode, self.mode

    def again(self) -> _Switch:
        return inference_mode(self.mode)
