"""Ctrl-C in fit: the training ends cleanly with its best weights, and whoever listened to the signal before listens again."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest
from small_models import line, regressor, same, weights

import symgrad as sg
from symgrad.training import Callback, EarlyStopping, LambdaCallback


def press(*_):
    signal.raise_signal(signal.SIGINT)


class Press(Callback):
    """Ctrl-C at one step of one epoch, and what the weights were after each epoch."""

    def __init__(self, epoch, step, times=1):
        self.at, self.times = (epoch, step), times
        self.weights, self.ended = [], False

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        for _ in range(self.times if (self.epoch, batch) == self.at else 0):
            press()

    def on_epoch_end(self, epoch, logs=None):
        self.weights.append(weights(self.model))

    def on_train_end(self, logs=None):
        self.ended = True


def scripted(values):
    """A model whose loss of validation is what is written here, epoch by epoch."""
    left = iter(values)

    def loss(prediction, target):
        value = (prediction - target).pow(2).mean()
        return value if prediction.requires_grad else value * 0 + next(left)

    return regressor(loss=loss)


@pytest.fixture(autouse=True)
def _the_handler_comes_back():
    """It starts as Python's own, also where the tests run in the background and ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    after = signal.signal(signal.SIGINT, before)
    assert after is signal.default_int_handler


def test_the_best_epoch_by_validation_is_kept(capsys):
    model, pressed = scripted([3.0, 1.0, 2.0, 0.0]), Press(3, 1)
    options = {"batch_size": 5, "validation_batch_size": 10, "verbose": 0}
    history = model.fit(*line(), epochs=9, validation_data=line(), callbacks=[pressed], **options)
    assert history.interrupted
    assert history.epoch == [0, 1, 2]  # the fourth was not finished
    assert history.history["val_loss"] == [3.0, 1.0, 2.0]
    assert same(weights(model), pressed.weights[1])
    assert not same(weights(model), pressed.weights[2])
    assert pressed.ended
    assert capsys.readouterr().out == "Interrupted after 3 whole epochs: the weights are those of epoch 2, val_loss 1.0000\n"


def test_without_validation_the_loss_decides(capsys):
    """SGD with a rate that is far too large: the loss grows from epoch to epoch."""
    model, pressed = regressor(optimizer=lambda parameters: sg.optim.SGD(parameters, lr=2.0)), Press(2, 0)
    history = model.fit(*line(), batch_size=5, epochs=9, callbacks=[pressed], verbose=0)
    assert history.history["loss"][0] < history.history["loss"][1]
    assert same(weights(model), pressed.weights[0])
    assert "epoch 1, loss " in capsys.readouterr().out


def test_before_the_first_epoch_is_done_the_weights_are_kept(capsys):
    model, pressed = regressor(), Press(0, 1)
    before = weights(model)
    history = model.fit(*line(), batch_size=5, callbacks=[pressed], verbose=0)
    assert history.epoch == []
    assert not same(weights(model), before)
    assert capsys.readouterr().out == "Interrupted after 0 whole epochs: the weights are those of now\n"


def test_the_running_step_is_finished_and_no_other_begun():
    steps = []
    seen = LambdaCallback(on_train_batch_end=lambda batch, logs: steps.append(batch))
    regressor().fit(*line(), batch_size=2, callbacks=[Press(0, 2), seen], verbose=0)
    assert steps == [0, 1, 2]


@pytest.mark.parametrize("hook", ["on_test_batch_begin", "on_epoch_begin", "on_epoch_end", "on_train_begin", "on_test_end"])
def test_pressed_anywhere(hook):
    """In validation the epoch is not whole; at its end it is."""
    history = regressor().fit(*line(), epochs=5, validation_split=0.5, callbacks=[LambdaCallback(**{hook: press})], verbose=0)
    assert history.interrupted
    assert history.epoch == ([0] if hook == "on_epoch_end" else [])


def test_the_second_one_raises():
    model = regressor()
    with pytest.raises(KeyboardInterrupt):
        model.fit(*line(), callbacks=[Press(0, 0, times=2)], verbose=0)
    assert model.net.training


def test_the_one_who_listened_before_hears_the_second():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        history = regressor().fit(*line(), callbacks=[Press(0, 0, times=2)], verbose=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert heard == [signal.SIGINT]
    assert history.interrupted


def test_a_process_that_ignores_it_goes_on():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        history = regressor().fit(*line(), epochs=2, callbacks=[Press(0, 0)], verbose=0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert history.epoch == [0, 1]
    assert not history.interrupted


def test_an_error_gives_the_handler_back():
    with pytest.raises(ZeroDivisionError):
        regressor().fit(*line(), callbacks=[LambdaCallback(on_train_batch_end=lambda batch, logs: 1 / 0)], verbose=0)


def test_early_stopping_has_the_last_word():
    model, pressed = scripted([1.0, 2.0, 3.0]), Press(3, 0)
    stopping = EarlyStopping("loss", patience=9, restore_best_weights=True)
    model.fit(*line(), epochs=9, validation_data=line(), callbacks=[stopping, pressed], verbose=0)
    assert same(weights(model), pressed.weights[2])


def test_a_loader_that_breaks_because_of_it_is_no_error():
    def batches():
        yield line()
        press()
        raise RuntimeError("a worker has died")

    history = regressor().fit(batches(), verbose=0)
    assert history.interrupted


def test_a_loader_that_breaks_by_itself_is_an_error():
    def batches():
        yield line()
        raise RuntimeError("a worker has died")

    with pytest.raises(RuntimeError, match="a worker has died"):
        regressor().fit(batches(), verbose=0)


def test_in_another_thread_nobody_listens():
    results = []

    def train():
        handlers = []
        seen = LambdaCallback(on_epoch_begin=lambda epoch, logs: handlers.append(signal.getsignal(signal.SIGINT)))
        results.extend([regressor().fit(*line(), callbacks=[seen], verbose=0).epoch, handlers])

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert results == [[0], [signal.getsignal(signal.SIGINT)]]


PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
import symgrad as sg
from symgrad import nn

class Ready(sg.training.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            print("<ready>", flush=True)

x = sg.linspace(-1, 1, 8).reshape(8, 1)
history = sg.Model(nn.Linear(1, 1), "sgd", "mse").fit(x, x, batch_size=2, epochs=10**6, callbacks=Ready())
print("epochs", len(history.epoch) > 1, history.interrupted)
"""


def read_until(descriptor, *marks):
    text = b""
    while not any(mark in text for mark in marks):
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # how a terminal whose program has ended says so
            break
        if not part:
            break
        text += part
    return text


def test_ctrl_c_on_a_real_terminal():
    """The character itself, typed: the terminal makes the signal."""
    parent, child = pty.openpty()
    command = [sys.executable, "-c", f"import os; os.setsid(); import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{PROGRAM}"]
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child) as process:
        os.close(child)
        before = read_until(parent, b"<ready>")
        os.write(parent, b"\x03")
        after = read_until(parent, b"epochs")
        after += read_until(parent, b"never")
        assert process.wait() == 0, before + after
    os.close(parent)
    assert "━".encode() in before
    assert b"\r\nInterrupted after " in before + after
    assert b"epochs True True" in after


def test_a_signal_from_another_process():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as process:
        before = read_until(process.stdout.fileno(), b"<ready>")
        process.send_signal(signal.SIGINT)
        after = process.stdout.read()
        assert process.wait() == 0
    assert before.startswith(b"Epoch 1/1000000  4 steps  ")
    assert b"\nInterrupted after " in before + after
    assert b"epochs True True" in after
