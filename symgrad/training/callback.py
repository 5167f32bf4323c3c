"""Callback: what users hang into fit, evaluate and predict; and the list that calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

_PHASES = ("train", "epoch", "train_batch", "test", "test_batch", "predict", "predict_batch")
HOOKS = tuple(f"on_{phase}_{when}" for phase in _PHASES for when in ("begin", "end"))


class Callback:
    """Base class: define the methods that you need. `self.model` is the Model, `self.params` has epochs, steps, verbose and metrics.

    Epochs and batches count from 0. `logs` holds the results so far by name; what a callback adds to the logs of an epoch becomes
    part of the history, and is named in `adds` so that other callbacks may watch it.
    """

    model: Any = None
    params: dict[str, Any]
    adds: tuple[str, ...] = ()

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None: ...

    def on_train_end(self, logs: dict[str, float] | None = None) -> None: ...

    def on_epoch_begin(self, epoch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_test_begin(self, logs: dict[str, float] | None = None) -> None: ...

    def on_test_end(self, logs: dict[str, float] | None = None) -> None: ...

    def on_test_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_test_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_predict_begin(self, logs: dict[str, float] | None = None) -> None: ...

    def on_predict_end(self, logs: dict[str, float] | None = None) -> None: ...

    def on_predict_batch_begin(self, batch: int, logs: dict[str, float] | None = None) -> None: ...

    def on_predict_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None: ...


class LambdaCallback(Callback):
    """Functions in place of methods: `LambdaCallback(on_epoch_end=lambda epoch, logs: print(logs))`."""

    def __init__(self, **hooks: Callable[..., Any]) -> None:
        for name, function in hooks.items():
            if name not in HOOKS:
                raise TypeError(f"LambdaCallback: there is no {name!r}; there are {', '.join(HOOKS)}")
            if not callable(function):
                raise TypeError(f"LambdaCallback: {name} must be a function, got {function.__class__.__name__}")
            setattr(self, name, function)


class Callbacks:
    """Callbacks, in order, behind one `call`. A hook that no callback defines costs a lookup."""

    def __init__(self, callbacks: Iterable[Callback], model: Any, params: dict[str, Any]) -> None:
        self.callbacks = list(callbacks)
        self.params = params
        params["metrics"] = list(dict.fromkeys([*params["metrics"], *(name for callback in self.callbacks for name in callback.adds)]))
        for callback in self.callbacks:
            callback.model, callback.params = model, params
        self._hooks = {name: [getattr(c, name) for c in self.callbacks if _defines(c, name)] for name in HOOKS}

    def call(self, hook: str, *args: Any) -> None:
        for function in self._hooks[hook]:
            function(*args)


def _defines(callback: Callback, name: str) -> bool:
    return name in vars(callback) or getattr(type(callback), name) is not getattr(Callback, name)


def checked(callbacks: Any) -> list[Callback]:
    """The user's argument as a list of callbacks."""
    given = [] if callbacks is None else [callbacks] if isinstance(callbacks, Callback) else list(callbacks)
    for callback in given:
        if not isinstance(callback, Callback):
            hint = "; a function goes into LambdaCallback(on_epoch_end=...)" if callable(callback) else ""
            raise TypeError(f"callbacks must be Callback objects, got {callback.__class__.__name__}{hint}")
    return given
