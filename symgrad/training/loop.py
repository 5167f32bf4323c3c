"""One pass over the data: training, testing, predicting. Each batch goes through one step of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from symgrad.autograd import no_grad
from symgrad.conversion import is_tensor
from symgrad.functional import cat
from symgrad.nn import Module
from symgrad.pytree import flatten, leaves_like, map_leaves, unflatten
from symgrad.training.batches import Batch, Feed
from symgrad.training.callback import Callbacks
from symgrad.training.interrupt import Interrupt


@contextmanager
def mode(net: Module, training: bool) -> Iterator[None]:
    """The net in training or evaluation mode; afterwards every module is in the mode that it was in."""
    before = [(module, module.training) for module in net.modules()]
    net.train(training)
    try:
        yield
    finally:
        for module, flag in before:
            module.training = flag


@contextmanager
def explained(where: str, step: int, batch: Batch) -> Iterator[None]:
    """An error in a batch says which one it was, and what was in it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{where}, step {step + 1}: {batch}")
        raise


def train_epoch(model: Any, feed: Feed, callbacks: Callbacks, interrupt: Interrupt, epoch: int) -> dict[str, float]:
    """Steps until the data ends, a callback stops the training or the user wants it to end; the results so far."""
    logs: dict[str, float] = {}
    model.results.reset()
    for step, batch in enumerate(interrupt.until(feed.epoch())):
        callbacks.call("on_train_batch_begin", step, {})
        with explained(f"fit, epoch {epoch + 1}", step, batch):
            logs = model.train_step(batch)
        if model.example is None:
            model.example = map_leaves(lambda leaf: leaf[:1].clone() if leaf.ndim else leaf, batch.x, is_tensor)
        callbacks.call("on_train_batch_end", step, logs)
        if model.stop_training:
            break
    return logs


def evaluate_epoch(
    model: Any, feed: Feed, callbacks: Callbacks, interrupt: Interrupt | None = None, where: str = "evaluate"
) -> dict[str, float]:
    """The results of the whole data, without changing anything."""
    logs: dict[str, float] = {}
    model.results.reset()
    with mode(model.net, False):
        callbacks.call("on_test_begin", {})
        for step, batch in enumerate(feed.epoch() if interrupt is None else interrupt.until(feed.epoch())):
            callbacks.call("on_test_batch_begin", step, {})
            with explained(where, step, batch):
                logs = model.test_step(batch)
            callbacks.call("on_test_batch_end", step, logs)
        callbacks.call("on_test_end", logs)
    return logs


def predict_epoch(model: Any, feed: Feed, callbacks: Callbacks) -> Any:
    """What the net makes of the whole data, joined along the first axis."""
    outputs: list[list[Any]] = []
    structure: Any = None
    with mode(model.net, False), no_grad():
        callbacks.call("on_predict_begin", {})
        for step, batch in enumerate(feed.epoch()):
            callbacks.call("on_predict_batch_begin", step, {})
            with explained("predict", step, batch):
                output = model(batch.x)
            structure = structure if outputs else flatten(output)[1]
            outputs.append([leaf for leaf, _ in leaves_like(structure, output, "the output", "that of the first batch")])
            callbacks.call("on_predict_batch_end", step, {})
        callbacks.call("on_predict_end", {})
    return unflatten(structure, [cat(list(parts)) for parts in zip(*outputs, strict=True)])
