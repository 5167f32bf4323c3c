"""Event files are PyTorch's, message for message."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

import symgrad as sg
from symgrad.utils.tensorboard import SummaryWriter

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")


def drawings():
    from matplotlib import pyplot

    figures = [pyplot.figure(figsize=(2, 1.5)) for _ in range(3)]
    for i, figure in enumerate(figures):
        figure.gca().plot([1, i, 2])
    return figures


def written(writer_class, folder, tensor):
    figures = drawings()
    values = np.random.default_rng(0).normal(size=1000)
    with writer_class(folder, purge_step=3) as writer:
        writer.add_scalar("loss", tensor([0.1]), 3, walltime=1.0)
        writer.add_scalar("loss", 0.1, 4, walltime=2.0, new_style=True)
        writer.add_scalar("loss", 0.1, 4, walltime=2.0, new_style=True, double_precision=True)
        writer.add_scalars("both/losses", {"a": 1.0, "b": tensor(2.0)}, 5, walltime=3.0)
        writer.add_text("note", "für", walltime=4.0)
        for bins in ("tensorflow", "auto", 7, [-1.0, 0.0, 0.5]):
            writer.add_histogram("values", tensor(values), 6, bins=bins, walltime=5.0)
        for max_bins in (1, 3, 4, 10, 50, 2000):
            writer.add_histogram("values", values, 6, walltime=5.0, max_bins=max_bins)
        picture = np.random.default_rng(1).uniform(size=(3, 5, 4)).astype(np.float32)
        writer.add_image("floats", tensor(picture), walltime=6.0)
        writer.add_image("bytes", (picture * 255).astype(np.uint8), 1, walltime=6.0)
        writer.add_image("grey", picture[:1], walltime=6.0, dataformats="CHW")
        writer.add_image("flat", picture[0], walltime=6.0, dataformats="WH")
        writer.add_image("transparent", picture[[0, 1, 2, 0]], walltime=6.0)
        pictures = np.random.default_rng(2).uniform(-0.5, 1.5, size=(11, 3, 5, 4))
        for dataformats, many in {"NCHW": pictures, "nhwc": pictures.transpose(0, 2, 3, 1), "CHWN": pictures.transpose(1, 2, 3, 0)}.items():
            writer.add_images("eleven " + dataformats, tensor(many), 2, walltime=6.0, dataformats=dataformats)
        writer.add_images("grey", (pictures[:3, :1] * 100).clip(0).astype(np.uint8), walltime=6.0)
        writer.add_histogram("counts", tensor([1, 2, 2, 100]), walltime=5.0)
        writer.add_histogram("decided", tensor([True, False]), walltime=5.0)
        for close in (False, True):
            writer.add_figure("figure", figures[0], 3, close=close, walltime=7.0)
        writer.add_figure("figures", figures[1:], walltime=7.0)
        chosen = {"lr": 0.1, "layers": 3, "bias": True, "name": "a", "unset": None, "decay": tensor([0.5])}
        writer.add_hparams(chosen, {"loss": tensor(0.5), "accuracy": 1}, {"lr": [0.1, 0.2], "name": ["a", "b"]}, "tried", 9)
    return {
        str(file.parent.relative_to(folder)): [Event.FromString(record) for record in RawEventFileLoader(str(file)).Load()]
        for file in folder.rglob("events.*")
    }


def comparable(event):
    if event.WhichOneof("what") in ("file_version", "session_log") or event.wall_time > 1e6:
        event.wall_time = 0
    event.ClearField("source_metadata")
    return event


def test_events_are_the_same(tmp_path):
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    ours = written(SummaryWriter, tmp_path / "ours", sg.tensor)
    theirs = written(TorchWriter, tmp_path / "theirs", torch.tensor)
    assert ours.keys() == theirs.keys() == {".", "both_losses_a", "both_losses_b", "tried"}
    assert len(ours["."]) == 31
    assert len(ours["tried"]) == 6
    for run, events in theirs.items():
        for got, expected in zip(ours[run], events, strict=True):
            assert comparable(got) == comparable(expected)


def test_default_arguments_are_the_same():
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    for name in ("__init__", "flush", "close", *(name for name in vars(SummaryWriter) if name.startswith("add_"))):
        ours, theirs = (inspect.signature(getattr(writer, name)).parameters for writer in (SummaryWriter, TorchWriter))
        assert {k: p.default for k, p in ours.items()} == {k: p.default for k, p in theirs.items()}
        assert list(ours) == list(theirs)
