"""Model: a module with an optimizer, a loss and metrics, and fit, evaluate and predict as Keras has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symgrad.autograd import no_grad
from symgrad.dtypes import get_default_dtype
from symgrad.errors import describe
from symgrad.io import load, save
from symgrad.nn import Module
from symgrad.ops.foreign import class_name
from symgrad.optim import LBFGS
from symgrad.random import get_rng_state, set_rng_state
from symgrad.tensor import Tensor
from symgrad.training.batches import Batch, Feed, arrays, feed, is_arrays, split, to_tensors, with_class_weight
from symgrad.training.callback import Callbacks, checked
from symgrad.training.fit import Fit
from symgrad.training.history import History
from symgrad.training.loop import evaluate_epoch, mode, predict_epoch
from symgrad.training.losses import loss_of, name_of, optimizer_of, weighted
from symgrad.training.metrics import Results, metric_of
from symgrad.training.progress import ProgressBar
from symgrad.training.summary import table


class Model:
    """`Model(net, optimizer="adam", loss="cross_entropy", metrics=["accuracy"]).fit(x, y, epochs=5)`.

    optimizer: an Optimizer of the net's parameters, its class (or `functools.partial(SGD, lr=0.1)`), or its name.
    loss: a loss module, a function `loss(prediction, target)`, or a name; without targets it gets the prediction only.
    metrics: names, functions `metric(prediction, target)`, or Metric objects.
    jit_compile: whether a training step runs as one kernel, made by `sg.compile`.

    Data: tensors or arrays `x` and `y`, tuples or dicts of them for a net with several inputs (called as `net(*x)`, `net(**x)`),
    or whatever gives batches `(x, y)` or `(x, y, sample_weight)` when iterated over, such as a DataLoader.
    NumPy's floating-point arrays are taken in the type of the net's parameters; tensors are taken as they are.
    """

    def __init__(self, net: Module, optimizer: Any = None, loss: Any = None, metrics: Any = (), jit_compile: bool = False) -> None:
        if not isinstance(net, Module):
            raise TypeError(f"Model wraps a Module, got {describe(net)}")
        self.net = net
        self.optimizer: Any = None
        self.loss: Any = None
        self.stop_training = False
        self.epochs_done = 0
        self.history: History | None = None
        self.example: Any = None  # the first example that fit saw
        self.compile(optimizer, loss, metrics, jit_compile)

    def compile(self, optimizer: Any = None, loss: Any = None, metrics: Any = (), jit_compile: bool = False) -> None:
        """Set optimizer, loss and metrics anew. With `jit_compile` training steps are kernels: see `sg.compile`, which is another thing."""
        metrics = [] if metrics is None else [metrics] if isinstance(metrics, str) or callable(metrics) else list(metrics)
        new_loss = None if loss is None else loss_of(loss)
        results = Results(metric_of(metric, new_loss) for metric in metrics)
        new_optimizer = None if optimizer is None else optimizer_of(optimizer, self.net)
        if jit_compile and isinstance(new_optimizer, LBFGS):
            raise ValueError("jit_compile: LBFGS calls the loss as often as it needs to, and no kernel can follow that; leave it out")
        self.optimizer, self.loss, self.results = new_optimizer, new_loss, results
        self._kernel = self._compiled() if jit_compile else None

    def _compiled(self) -> Any:
        from symgrad.compiler.api import compile as kernel_of

        return kernel_of(self._step)

    @property
    def metrics(self) -> list[Any]:
        return self.results.metrics

    def __call__(self, x: Any) -> Any:
        """The net of a batch of inputs; several of them are a tuple, or a dict of keyword arguments."""
        if isinstance(x, dict):
            return self.net(**x)
        return self.net(*x) if type(x) in (tuple, list) else self.net(x)  # a named tuple, such as a packed sequence, is one argument

    # steps

    def _step(self, x: Any, y: Any, weight: Any) -> tuple[Tensor, Any]:
        """A whole training step, as it is compiled."""
        batch = Batch(x, y, weight)
        self.optimizer.zero_grad()
        prediction = self(batch.x)
        loss = self._loss(prediction, batch)
        loss.backward()
        self.optimizer.step()
        return loss, prediction

    def train_step(self, batch: Batch) -> dict[str, float]:
        """Loss, gradients, and one step of the optimizer, which may call the loss again (LBFGS); the results so far."""
        if self._kernel is not None:
            loss, prediction = self._kernel(batch.x, batch.y, batch.weight)
            return self.measured(loss.detach(), prediction, batch)
        first: list[Any] = []

        def closure() -> Tensor:
            self.optimizer.zero_grad()
            prediction = self(batch.x)
            loss = self._loss(prediction, batch)
            loss.backward()
            first.extend([] if first else [loss.detach(), prediction])
            return loss

        self.optimizer.step(closure)
        return self.measured(first[0], first[1], batch)

    def test_step(self, batch: Batch) -> dict[str, float]:
        with no_grad():
            prediction = self(batch.x)
            return self.measured(self._loss(prediction, batch), prediction, batch)

    def _loss(self, prediction: Any, batch: Batch) -> Tensor:
        if batch.y is None:
            value = self.loss(prediction)
        elif batch.weight is None:
            value = self.loss(prediction, batch.y)
        else:
            value = weighted(self.loss, prediction, batch.y, batch.weight)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError(f"the loss must be a tensor of one number, got {describe(value)}; take its mean, as reduction='mean' does")
        return value

    def measured(self, loss: Tensor, prediction: Any, batch: Batch) -> dict[str, float]:
        """Take a batch into account; the results of all since the epoch began."""
        with no_grad():
            self.results.update(loss, prediction, batch.y, batch.size())
        return self.results.logs()

    # fit, evaluate, predict

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int = 1,
    ) -> History:
        """Train, and return the History of the results.

        `validation_split` holds back the last part of x and y, before shuffling. With `steps_per_epoch` an epoch goes on in the data
        where the one before it stopped. `verbose`: see ProgressBar.

        Ctrl-C ends the training after the running step: the epoch is given up, the net gets the weights of its best whole epoch (by
        val_loss, or loss if there is no validation), and the history so far is returned. A second Ctrl-C raises KeyboardInterrupt.
        """
        self._check_ready(training=True)
        _check_counts(least=0, initial_epoch=initial_epoch)
        _check_counts(
            batch_size=batch_size, epochs=epochs, steps_per_epoch=steps_per_epoch, validation_steps=validation_steps,
            validation_batch_size=validation_batch_size, validation_freq=validation_freq,
        )  # fmt: skip
        given, bar = checked(callbacks), ProgressBar(verbose)
        (x, y, sample_weight), held_back = self._held_back(x, y, sample_weight, validation_split, validation_data)
        sample_weight = with_class_weight(y, sample_weight, class_weight)
        train = feed(
            x, y, sample_weight, dtype=self._dtype, batch_size=batch_size, shuffle=shuffle, steps=steps_per_epoch, afresh=False
        )  # fmt: skip
        test = None
        if held_back is not None:
            test = self._feed(held_back[0], held_back[1], held_back[2], validation_batch_size or batch_size, validation_steps)
        if epochs - initial_epoch > 1:
            _check_read_again(train, "steps_per_epoch")
            _check_read_again(test, "validation_steps")
        return Fit(self, train, test, given, bar, range(initial_epoch, epochs)).run(validation_freq)

    def _held_back(self, x: Any, y: Any, weight: Any, fraction: float, validation_data: Any) -> tuple[Any, Any]:
        """What to train with and what to validate with, each as x, y and weights; None for no validation."""
        if validation_data is not None:
            parts = validation_data if isinstance(validation_data, tuple) and 2 <= len(validation_data) <= 3 else (validation_data,)
            return (x, y, weight), (*parts, None, None)[:3]
        if not fraction:
            return (x, y, weight), None
        if not is_arrays(x, y):
            raise ValueError(f"validation_split cuts arrays; for a {x.__class__.__name__} pass validation_data")
        return split(arrays(x, y, weight, self._dtype), fraction)

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
    ) -> Any:
        """The loss, or with metrics a list of loss and metrics; by name if `return_dict`."""
        self._check_ready()
        _check_counts(batch_size=batch_size, steps=steps)
        data = self._feed(x, y, sample_weight, batch_size, steps)
        with self._callbacks(callbacks, verbose, data) as run:
            return self._returned(evaluate_epoch(self, data, run), return_dict)

    def predict(self, x: Any, batch_size: int = 32, verbose: Any = "auto", steps: int | None = None, callbacks: Any = None) -> Any:
        """What the net makes of x, in evaluation mode and without gradients: a tensor, or tensors in the form that the net returns."""
        _check_counts(batch_size=batch_size, steps=steps)
        data = self._feed(x, None, None, batch_size, steps)
        with self._callbacks(callbacks, verbose, data) as run:
            return predict_epoch(self, data, run)

    def train_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """One step of the optimizer; the results of this batch, as evaluate returns them."""
        self._check_ready(training=True)
        batch = self._batch(x, y, sample_weight)
        self.results.reset()
        with mode(self.net, True):
            return self._returned(self.train_step(batch), return_dict)

    def test_on_batch(self, x: Any, y: Any = None, sample_weight: Any = None, return_dict: bool = False) -> Any:
        """The results of one batch, as evaluate returns them."""
        self._check_ready()
        batch = self._batch(x, y, sample_weight)
        self.results.reset()
        with mode(self.net, False):
            return self._returned(self.test_step(batch), return_dict)

    def predict_on_batch(self, x: Any) -> Any:
        with mode(self.net, False), no_grad():
            return self(self._batch(x, None, None).x)

    # what they share

    @property
    def _dtype(self) -> Any:
        return next((p.dtype for p in self.net.parameters() if p.is_floating_point()), get_default_dtype())

    def _feed(self, x: Any, y: Any, weight: Any, batch_size: int, steps: int | None) -> Feed:
        return feed(x, y, weight, dtype=self._dtype, batch_size=batch_size, steps=steps)

    def _batch(self, x: Any, y: Any, weight: Any) -> Batch:
        return Batch(*(None if part is None else to_tensors(part, self._dtype) for part in (x, y, weight)))

    def _check_ready(self, training: bool = False) -> None:
        if self.loss is None or (training and self.optimizer is None):
            missing = "a loss" if self.loss is None else "an optimizer"
            raise RuntimeError(f"the model needs {missing}: Model(net, optimizer=..., loss=...), or compile(...)")

    @contextmanager
    def _callbacks(self, callbacks: Any, verbose: Any, data: Feed) -> Iterator[Callbacks]:
        bar = ProgressBar(verbose)
        params = {"epochs": 1, "steps": data.steps, "verbose": bar.verbose, "metrics": self.results.names}
        try:
            yield Callbacks([*checked(callbacks), bar], self, params)
        finally:
            bar.leave()

    def _returned(self, logs: dict[str, float], return_dict: bool) -> Any:
        return logs if return_dict else list(logs.values()) if len(logs) > 1 else logs["loss"]

    # files

    def save_weights(self, path: str | os.PathLike[str]) -> None:
        """The net's state dict, as a safetensors file."""
        save(self.net.state_dict(), path)

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """The weights from a file of save_weights, of save, or of PyTorch's (safetensors)."""
        state = load(path)
        self.net.load_state_dict(state["net"] if isinstance(state.get("net"), dict) else state)

    def save(self, path: str | os.PathLike[str]) -> None:
        """All that training needs to go on: weights, the optimizer, the random generator, how many epochs are done."""
        optimizer = None if self.optimizer is None else self.optimizer.state_dict()
        save({"net": dict(self.net.state_dict()), "optimizer": optimizer, "generator": get_rng_state(), "epochs": self.epochs_done}, path)

    def load(self, path: str | os.PathLike[str]) -> int:
        """What `save` wrote. Returns how many epochs were done: `model.fit(..., initial_epoch=model.load(path))` goes on from there."""
        state = load(path)
        if not isinstance(state, dict) or state.keys() != {"net", "optimizer", "generator", "epochs"}:
            raise ValueError(f"{os.fspath(path)} is not a checkpoint of Model.save; load_weights reads files of weights")
        if self.optimizer is not None and state["optimizer"] is None:
            raise ValueError(f"{os.fspath(path)} has no optimizer; load_weights reads its weights")
        self.net.load_state_dict(state["net"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        set_rng_state(state["generator"])
        self.epochs_done = int(state["epochs"])
        return self.epochs_done

    # looking

    def summary(self, x: Any = None) -> None:
        """Print the net's layers, what shapes they give and how many parameters they have. Shapes need a batch `x`, or an earlier fit."""
        example = self.example if x is None else self._batch(x, None, None).x
        print(table(self.net, None if example is None else lambda: self(example)))

    def __repr__(self) -> str:
        words = [type(self.net).__name__]
        if self.optimizer is not None:
            words.append(f"optimizer={type(self.optimizer).__name__}")
        if self.loss is not None:
            words.append(f"loss={name_of(self.loss)}")
        if self.metrics:
            words.append(f"metrics=[{', '.join(self.results.names[1:])}]")
        return f"Model({', '.join(words)})"


def _check_read_again(source: Feed | None, steps: str) -> None:
    if source is not None and source.read_once and source.limit is None:
        raise ValueError(f"a {class_name(source.source)} can be read once only: for more epochs give {steps}, or a DataLoader or a list")


def _check_counts(*, least: int = 1, **counts: Any) -> None:
    for name, count in counts.items():
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < least):
            raise ValueError(f"{name} must be a whole number, {least} or more, got {count!r}")
