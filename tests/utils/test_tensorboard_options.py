"""SummaryWriter: options that all its methods share, and those of its files."""

from __future__ import annotations

import io

import matplotlib as mpl
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

import symgrad as sg
from symgrad.utils import summaries, tensorboard
from symgrad.utils.tensorboard import SummaryWriter


def figure():
    mpl.use("agg")
    from matplotlib import pyplot

    return pyplot.figure(figsize=(1, 1))


ADDERS = {
    "scalar": lambda writer, **when: writer.add_scalar("x", 1.0, **when),
    "scalar as a tensor": lambda writer, **when: writer.add_scalar("x", 1.0, new_style=True, **when),
    "scalars": lambda writer, **when: writer.add_scalars("x", {"a": 1.0}, **when),
    "histogram": lambda writer, **when: writer.add_histogram("x", sg.ones(2), **when),
    "image": lambda writer, **when: writer.add_image("x", sg.ones(1, 2, 2), **when),
    "images": lambda writer, **when: writer.add_images("x", sg.ones(1, 1, 2, 2), **when),
    "figure": lambda writer, **when: writer.add_figure("x", figure(), **when),
    "figures": lambda writer, **when: writer.add_figure("x", [figure(), figure()], **when),
    "text": lambda writer, **when: writer.add_text("x", "text", **when),
}


def events(folder):
    return [event for file in folder.rglob("events*") for event in EventFileLoader(str(file)).Load() if event.summary.value]


@pytest.mark.parametrize("name", ADDERS)
def test_every_method_passes_step_and_time_on(tmp_path, name):
    with SummaryWriter(tmp_path) as writer:
        ADDERS[name](writer, global_step=7, walltime=123.5)
    (event,) = events(tmp_path)
    assert (event.step, event.wall_time) == (7, 123.5)


@pytest.mark.parametrize("name", ADDERS)
def test_without_them_the_step_is_zero_and_the_time_is_now(tmp_path, name, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.25)
    with SummaryWriter(tmp_path) as writer:
        ADDERS[name](writer)
    (event,) = events(tmp_path)
    assert (event.step, event.wall_time) == (0, 1000.25)


def test_hyperparameters_pass_the_step_on_and_are_named_by_the_time(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.25)
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1}, {"loss": 1.0}, global_step=3)
        writer.add_hparams({"lr": 0.1}, {"loss": 1.0}, run_name="named")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["1000.25", "named"]
    assert {event.step for event in events(tmp_path / "1000.25")} == {3}


def test_options_of_files_are_those_of_every_run(tmp_path, monkeypatch):
    opened = []

    class Recorded(tensorboard.EventFileWriter):
        def __init__(self, *args):
            opened.append(args)
            super().__init__(*args)

    monkeypatch.setattr(tensorboard, "EventFileWriter", Recorded)
    with SummaryWriter(tmp_path, max_queue=3, flush_secs=7, filename_suffix=".x") as writer:
        writer.add_scalars("main", {"a": 1.0})
    assert opened == [(str(tmp_path), 3, 7, ".x"), (str(tmp_path / "main_a"), 3, 7, ".x")]
    opened.clear()
    SummaryWriter(tmp_path).close()
    assert opened == [(str(tmp_path), 10, 120, "")]  # PyTorch's defaults


def test_only_the_first_file_of_a_resumed_run_hides_steps(tmp_path):
    with SummaryWriter(tmp_path, purge_step=2) as writer:
        writer.add_scalars("main", {"a": 1.0}, 5)
    starts = [event for file in tmp_path.rglob("events*") for event in EventFileLoader(str(file)).Load() if event.HasField("session_log")]
    assert [event.step for event in starts] == [2]


@pytest.mark.parametrize("close", [True, False])
def test_figures_are_closed_unless_told_otherwise(tmp_path, close):
    from matplotlib import pyplot

    drawn = figure()
    canvas = drawn.canvas
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("x", drawn, close=close)
    assert pyplot.fignum_exists(drawn.number) != close
    assert close or drawn.canvas is canvas  # closing a figure takes its canvas
    pyplot.close("all")


@pytest.mark.parametrize(
    ("value", "expected"), [(sg.tensor([1.5], dtype=sg.bfloat16), [1.5]), (sg.tensor([2.0], requires_grad=True), [2.0]), ([3, 4], [3, 4])]
)
def test_numbers_of_all_kinds_are_arrays(value, expected):
    found = summaries.array(value)
    assert isinstance(found, np.ndarray)
    assert found.tolist() == expected


def test_pictures_keep_bytes_and_scale_floats(tmp_path):
    from PIL import Image

    with SummaryWriter(tmp_path) as writer:
        writer.add_image("bytes", np.array([[[0, 1, 128, 255]]], np.uint8))
        writer.add_image("floats", np.array([[[0.0, 0.5, 1.0, 2.0, -1.0]]]))
    events = EventAccumulator(str(tmp_path)).Reload()
    found = {tag: events.Images(tag)[0] for tag in ("bytes", "floats")}
    assert (found["floats"].height, found["floats"].width) == (1, 5)
    rows = {tag: np.asarray(Image.open(io.BytesIO(image.encoded_image_string)))[0, :, 0].tolist() for tag, image in found.items()}
    assert rows == {"bytes": [0, 1, 128, 255], "floats": [0, 127, 255, 255, 0]}
