"""The progress bar, on a terminal that is a list of lines and a clock that goes by steps."""

from __future__ import annotations

import io
import os

import pytest
from small_models import classifier, line, points, regressor

from symgrad.training import LambdaCallback, ProgressBar
from symgrad.training.progress import duration, is_live, number, per_step


class Terminal(io.StringIO):
    """Keeps what a terminal shows: a carriage return goes back to the start of the line."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def writes(self):
        return self.getvalue().count("\r") + self.getvalue().count("\n")

    def lines(self):
        shown = []
        for text in self.getvalue().split("\n"):
            seen = ""
            for part in text.split("\r"):
                seen = part + seen[len(part) :]
            shown.append(seen.rstrip())
        return shown


class Ascii(Terminal):
    encoding = "ascii"


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")


def bar(stream, steps=10, verbose="auto", ticks=0.1, epochs=3):
    """A bar whose clock goes on by `ticks` at every look, before its first epoch."""
    now = iter(i * ticks for i in range(10_000))
    made = ProgressBar(verbose, stream, lambda: next(now))
    made.params = {"steps": steps, "epochs": epochs, "verbose": 1}
    made.on_train_begin()
    made.on_epoch_begin(0)
    return made


def test_the_running_line():
    terminal = Terminal()
    shown = bar(terminal)
    for step in range(4):
        shown.on_train_batch_end(step, {"loss": 0.5, "accuracy": 0.25})
    assert terminal.lines() == ["Epoch 1/3  ━━━━━━━━────────────  4/10  1s left  100ms/step  loss: 0.5000  accuracy: 0.2500"]


def test_the_finished_line_has_validation_and_covers_the_running_one():
    terminal = Terminal()
    shown = bar(terminal, steps=2)
    shown.on_train_batch_end(0, {"loss": 0.5, "a_metric_with_a_long_name": 0.25})
    shown.on_train_batch_end(1, {"loss": 0.5, "a_metric_with_a_long_name": 0.25})
    shown.on_epoch_end(0, {"loss": 0.5})
    shown.on_epoch_begin(1)
    shown.on_train_batch_end(0, {"loss": 0.25})
    assert terminal.lines() == [
        "Epoch 1/3  ━━━━━━━━━━━━━━━━━━━━ 2/2  0.3s  150ms/step  loss: 0.5000",
        "Epoch 2/3  ━━━━━━━━━━────────── 1/2  0s left  100ms/step  loss: 0.2500",
    ]


def test_ten_drawings_a_second_at_most():
    terminal = Terminal()
    shown = bar(terminal, steps=1000, ticks=0.001)
    for step in range(1000):
        shown.on_train_batch_end(step, {"loss": 0.5})
    assert 9 <= terminal.writes() <= 10


def test_unknown_number_of_steps():
    terminal = Terminal()
    shown = bar(terminal, steps=None)
    shown.on_train_batch_end(0, {"loss": 0.5})
    assert terminal.lines() == ["Epoch 1/3  1/?  0.1s  100ms/step  loss: 0.5000"]
    shown.on_epoch_end(0, {"loss": 0.5})
    assert terminal.lines()[0] == "Epoch 1/3  ━━━━━━━━━━━━━━━━━━━━ 1/1  0.2s  200ms/step  loss: 0.5000"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (74, "Epoch 1/3  ━━━━━━━━━━──────────  5/10  0s left  100ms/step  loss: 0.5000"),
        (62, "Epoch 1/3  ━━━━─────  5/10  0s left  100ms/step  loss: 0.5000"),
        (56, "Epoch 1/3  ━━━━━━━────────  5/10  0s left  loss: 0.5000"),
        (44, "Epoch 1/3   5/10  0s left  loss: 0.5000"),
        (30, "Epoch 1/3   5/10  0s left  l…"),
    ],
)
def test_the_running_line_fits_the_terminal(columns, expected, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    shown = bar(terminal)
    for step in range(5):
        shown.on_train_batch_end(step, {"loss": 0.5})
    assert terminal.lines() == [expected]
    assert len(expected) < columns


def test_a_file_gets_one_line_for_each_epoch():
    file = io.StringIO()
    for verbose in ("auto", 1, 2):
        shown = bar(file, verbose=verbose)
        for step in range(10):
            shown.on_train_batch_end(step, {"loss": 0.5})
        shown.on_epoch_end(0, {"loss": 0.5, "val_loss": 12345678.0})
        assert file.getvalue() == "Epoch 1/3  10 steps  0.1s  10ms/step  loss: 0.5000  val_loss: 1.235e+07\n"
        file.seek(0)
        file.truncate()


def test_verbose_two_on_a_terminal_and_zero_anywhere():
    terminal = Terminal()
    shown = bar(terminal, verbose=2)
    shown.on_train_batch_end(0, {"loss": 0.5})
    shown.on_epoch_end(0, {"loss": 0.5})
    assert terminal.getvalue() == "Epoch 1/3  1 steps  0.1s  100ms/step  loss: 0.5000\n"
    silent = bar(Terminal(), verbose=0)
    silent.on_train_batch_end(0, {"loss": 0.5})
    silent.on_epoch_end(0, {"loss": 0.5})
    assert silent._stream.getvalue() == ""


def test_a_stream_without_the_characters():
    terminal = Ascii()
    shown = bar(terminal)
    shown.on_train_batch_end(0, {"größe": 0.5})
    assert terminal.lines() == ["Epoch 1/3  ==..................  1/10  1s left  100ms/step  gr??e: 0.5000"]


def test_a_notebook_is_redrawn_too():
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert is_live(notebook())
    assert not is_live(io.StringIO())
    assert not is_live(object())


def test_an_unfinished_line_is_ended():
    terminal = Terminal()
    shown = bar(terminal)
    shown.on_train_batch_end(0, {})
    shown.leave()
    shown.leave()
    assert terminal.getvalue().endswith("left  100ms/step\n")
    shown.leave(echoed=True)  # the terminal wrote ^C where no line stood
    assert terminal.getvalue().endswith("left  100ms/step\n\n")
    file = io.StringIO()
    bar(file).leave(echoed=True)
    assert file.getvalue() == ""


def test_without_any_stream(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    assert ProgressBar(1).verbose == 0


def test_fit_evaluate_and_predict_write_to_stdout(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    x, y = points(8)
    model = classifier()
    model.fit(x, y, epochs=2, batch_size=4, validation_split=0.25)
    model.evaluate(x, y, batch_size=4)
    model.predict(x, batch_size=4)
    lines = terminal.lines()
    assert [text.split("  ")[0] for text in lines] == ["Epoch 1/2", "Epoch 2/2", "Evaluate", "Predict", ""]
    assert all(" 2/2  " in text for text in lines[:4])
    assert [text.count(": ") for text in lines] == [4, 4, 2, 0, 0]


def test_the_number_of_steps_is_known_from_the_second_epoch_on():
    steps = []

    class Batches:
        def __iter__(self):
            return iter([line(2)] * 3)

    class Look(ProgressBar):
        def on_epoch_begin(self, epoch, logs=None):
            steps.append(self.params["steps"])

    regressor().fit(Batches(), epochs=2, verbose=0, callbacks=[Look(0)])
    assert steps == [None, 3]


def test_what_callbacks_print_stands_below_the_line_of_the_epoch(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    regressor().fit(*line(), callbacks=LambdaCallback(on_epoch_end=lambda epoch, logs: print("done")))
    lines = terminal.lines()
    assert lines[0].startswith("Epoch 1/1  ━━━━━━━━━━━━━━━━━━━━ 1/1  ")
    assert lines[1:] == ["done", ""]


def test_an_error_starts_on_its_own_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    x, y = points(8)
    with pytest.raises(RuntimeError):
        classifier().fit([(x, y), (x[:, :1], y)])
    assert terminal.getvalue().endswith("\n")
    assert "1/2" in terminal.lines()[0]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0.0s"), (9.94, "9.9s"), (9.96, "10s"), (59.6, "1:00"), (65, "1:05"), (3605, "1:00:05"), (36000, "10:00:00")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def test_times_per_step_and_numbers():
    assert [per_step(s, 2) for s in (0.0002, 0.02, 3.0)] == ["100us/step", "10ms/step", "1.5s/step"]
    assert per_step(0.0, 0) == "0us/step"
    assert [number(v) for v in (0.0, 0.5, -0.5, 1e-5, 123456.0, float("nan"), float("inf"))] == [
        "0.0000", "0.5000", "-0.5000", "1.000e-05", "1.235e+05", "nan", "inf",
    ]  # fmt: skip


def test_the_width_is_the_terminals(monkeypatch):
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((44, 24)))
    terminal = Terminal()
    shown = bar(terminal)
    shown.on_train_batch_end(0, {"loss": 0.5})
    assert terminal.lines() == ["Epoch 1/3   1/10  1s left  loss: 0.5000"]


@pytest.mark.parametrize(
    ("value", "text"), [(1e-3, "0.0010"), (9.99e-4, "9.990e-04"), (99999.0, "99999.0000"), (1e5, "1.000e+05"), (-1e5, "-1.000e+05")]
)
def test_numbers_at_the_limits_of_their_form(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(1.0, "1.0s/step"), (0.999, "999ms/step"), (1e-3, "1ms/step"), (9.99e-4, "999us/step")])
def test_times_per_step_at_the_limits_of_their_unit(seconds, text):
    assert per_step(seconds, 1) == text


class Unbuffered(Terminal):
    """What has been written when the stream is flushed."""

    def __init__(self):
        super().__init__()
        self.flushed = []

    def flush(self):
        self.flushed.append(self.getvalue())


def test_every_drawing_reaches_the_terminal_at_once():
    terminal = Unbuffered()
    shown = bar(terminal)
    for step in range(3):
        shown.on_train_batch_end(step, {"loss": 0.5})
        assert terminal.flushed[-1] == terminal.getvalue()
    shown.leave()
    assert terminal.flushed[-1] == terminal.getvalue()
    assert terminal.getvalue().endswith("\n")


def test_a_drawing_is_due_after_a_tenth_of_a_second():
    """The clock goes on by 1/16 at every look, and starts with one: steps at 1/16, 2/16, ... are drawn when they are due."""
    terminal = Terminal()
    shown = bar(terminal, ticks=1 / 16)
    drawn = []
    for step in range(6):
        before = terminal.getvalue()
        shown.on_train_batch_end(step, {})
        drawn.append(terminal.getvalue() != before)
    assert drawn == [True, False, True, False, True, False]


def test_more_steps_than_were_known():
    terminal = Terminal()
    shown = bar(terminal, steps=1)
    shown.on_train_batch_end(0, {})
    assert terminal.lines() == ["Epoch 1/3  ━━━━━━━━━━━━━━━━━━━━ 1/1  0s left  100ms/step"]
    shown.on_train_batch_end(1, {})
    assert terminal.lines() == ["Epoch 1/3  2/?  0.2s  100ms/step"]


@pytest.mark.parametrize(("columns", "cells"), [(48, 7), (47, 6), (46, 0)])
def test_the_bar_has_six_cells_or_none(columns, cells, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    shown = bar(terminal)
    shown.on_train_batch_end(0, {"loss": 0.5})
    (text,) = terminal.lines()
    assert text.count("━") + text.count("─") == cells
    assert len(text) <= columns - 1


def test_validation_within_fit_draws_no_line_and_evaluation_after_it_does():
    terminal = Terminal()
    shown = bar(terminal, steps=1, ticks=1.0)
    for hook in (shown.on_test_begin, shown.on_test_end):
        hook({"loss": 1.0})
    shown.on_test_batch_end(0, {"loss": 1.0})
    assert terminal.getvalue() == ""
    shown.on_train_end()
    shown.on_test_begin()
    shown.on_test_batch_end(0, {"loss": 0.25})
    assert terminal.lines()[0].startswith("Evaluate  ━")
    shown.on_test_end({"loss": 0.25})
    assert terminal.lines()[0].endswith("1/1  2.0s  2.0s/step  loss: 0.2500")


@pytest.mark.parametrize("verbose", [-1, 3, "full", None])
def test_other_ways_to_be_verbose_are_refused(verbose):
    with pytest.raises(ValueError, match="verbose must be 'auto', 0, 1 or 2"):
        ProgressBar(verbose)


@pytest.mark.parametrize(("given", "live", "file"), [("auto", 1, 2), (0, 0, 0), (1, 1, 2), (2, 2, 2)])
def test_how_verbose_it_is_on_a_terminal_and_in_a_file(given, live, file):
    assert (ProgressBar(given, Terminal()).verbose, ProgressBar(given, io.StringIO()).verbose) == (live, file)
