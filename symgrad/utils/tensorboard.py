"""SummaryWriter: event files for TensorBoard, written with the `tensorboard` package's own protocol buffers.

    with SummaryWriter("runs/first") as writer:
        writer.add_graph(model, x)
        writer.add_scalar("loss", loss, step)

Importing this module imports `tensorboard`; symgrad itself does not.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import accumulate, repeat, takewhile
from operator import mul
from types import TracebackType
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.tensor import Tensor

try:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError("symgrad.utils.tensorboard needs the package tensorboard: pip install 'symgrad[tensorboard]'") from error

from symgrad.utils.graph_def import draw

_EDGES = list(takewhile(lambda edge: edge < 1e20, accumulate(repeat(1.1), mul, initial=1e-12)))
TENSORFLOW_BINS = [-edge for edge in reversed(_EDGES)] + [0.0] + _EDGES
"""Each bin is a tenth wider than the one before it, away from zero on both sides."""


class SummaryWriter:
    """Writes what a training run wants to show into `log_dir`, by default `runs/<date>_<host><comment>`.

    Who resumes a run that crashed passes `purge_step`: TensorBoard hides what the crashed run had written from that step on.
    At most `max_queue` events wait, and none longer than `flush_secs`. A closed writer that is written to opens a new file.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            log_dir = os.path.join("runs", f"{datetime.now():%b%d_%H-%M-%S}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self._files: dict[str, Any] = {}
        self._file()  # it exists from the start, so that TensorBoard lists the run

    def get_logdir(self) -> str | os.PathLike[str]:
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """One number; `new_style` writes it as a tensor, then in float64 if `double_precision`."""
        number = _number(scalar_value)
        value = Summary.Value(tag=tag, simple_value=number)
        if new_style:
            tensor = {"dtype": "DT_DOUBLE", "double_val": [number]} if double_precision else {"dtype": "DT_FLOAT", "float_val": [number]}
            value = Summary.Value(tag=tag, tensor=TensorProto(**tensor), metadata=_plugin("scalars"))
        self._add(value, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Several curves in one plot: each is a run of its own, in a folder below `log_dir`."""
        walltime = time.time() if walltime is None else walltime
        for tag, scalar_value in tag_scalar_dict.items():
            value = Summary.Value(tag=main_tag, simple_value=_number(scalar_value))
            self._add(value, global_step, walltime, f"{main_tag.replace('/', '_')}_{tag}")

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """How the values are distributed; `bins` as in numpy.histogram, thinned out to about `max_bins`."""
        bins = TENSORFLOW_BINS if isinstance(bins, str) and bins == "tensorflow" else bins
        histogram = _histogram(_array(values).astype(float).reshape(-1), bins, max_bins)
        self._add(Summary.Value(tag=tag, histo=histogram), global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """A picture of floats in [0, 1] or of bytes; `dataformats` orders the letters H, W and, if there are channels, C."""
        self._add(Summary.Value(tag=tag, image=_image(_array(img_tensor), dataformats.upper())), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """A text, which TensorBoard shows as Markdown."""
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        tensor = TensorProto(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        metadata = _plugin("text", TextPluginData(version=0).SerializeToString())
        self._add(Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor), global_step, walltime)

    def add_graph(
        self, model: Callable[..., Any], input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """What a module, or any function of tensors, computes from `input_to_model`: one argument, a tuple or list of them, or none.

        A module is traced in evaluation mode. `verbose` prints the graph. Containers are traced whatever `use_strict_trace` is.
        """
        several = isinstance(input_to_model, (tuple, list))
        drawing = draw(model, tuple(input_to_model) if several else () if input_to_model is None else (input_to_model,))
        if verbose:
            print(drawing.graph)
        self._write(self._file(), Event(graph_def=drawing.proto().SerializeToString()), None, None)

    def flush(self) -> None:
        """Everything added so far is on disk."""
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _file(self, run: str = "") -> Any:
        """The open event file of a run below `log_dir`; the empty name is `log_dir` itself."""
        if run not in self._files:
            folder = os.path.join(self.log_dir, run) if run else os.fspath(self.log_dir)
            self._files[run] = EventFileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            if not run and self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self._write(self._files[run], Event(file_version="brain.Event:2"), step, None)
                self._write(self._files[run], Event(session_log=SessionLog(status=SessionLog.START)), step, None)
        return self._files[run]

    def _add(self, value: Any, global_step: Any, walltime: float | None, run: str = "") -> None:
        self._write(self._file(run), Event(summary=Summary(value=[value])), global_step, walltime)

    @staticmethod
    def _write(file: Any, event: Any, global_step: Any, walltime: float | None) -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if global_step is not None:
            event.step = int(global_step)
        file.add_event(event)


def _plugin(name: str, content: bytes = b"") -> Any:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))


def _array(x: Any) -> np.ndarray[Any, Any]:
    if not isinstance(x, Tensor):
        return np.asarray(x)
    x = x.detach()
    array: np.ndarray[Any, Any] = (x.float() if x.dtype == dtypes.bfloat16 else x).numpy()
    return array


def _number(x: Any) -> float:
    array = _array(x).squeeze()
    if array.ndim != 0:
        raise AssertionError(
            f"Tensor should contain one element (0 dimensions). Was given size: {array.size} and {array.ndim} dimensions."
        )
    return float(array)


def _histogram(values: np.ndarray[Any, Any], bins: Any, max_bins: int | None) -> Any:
    if values.size == 0:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(values, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        every = len(counts) // max_bins
        counts = np.add.reduceat(counts, np.arange(0, len(counts), every))
        limits = np.append(limits[:-1:every], limits[-1])
    filled = np.flatnonzero(counts)
    if filled.size == 0:
        raise ValueError(f"The histogram is empty: no value lies between {limits[0]} and {limits[-1]}.")
    first, end = filled[0], filled[-1] + 1
    return HistogramProto(
        min=values.min(),
        max=values.max(),
        num=values.size,
        sum=values.sum(),
        sum_squares=values.dot(values),
        bucket_limit=limits[first : end + 1].tolist(),
        bucket=[0, *counts[first:end].tolist()],  # a bin is known by its right limit: an empty one gives the left limit of the first
    )


def _image(array: np.ndarray[Any, Any], dataformats: str) -> Any:
    from PIL import Image

    if sorted(dataformats) not in (["H", "W"], ["C", "H", "W"]) or array.ndim != len(dataformats):
        raise AssertionError(
            "size of input tensor and input format are different, or the format is no order of H, W and C."
            f" tensor shape: {array.shape}, input_format: {dataformats}"
        )
    array = array.transpose([dataformats.index(letter) for letter in "HWC" if letter in dataformats])
    array = array if array.ndim == 3 else array[..., np.newaxis]
    array = array.repeat(3, axis=2) if array.shape[2] == 1 else array  # grey
    pixels = (array.astype(np.float32) * (1 if array.dtype == np.uint8 else 255)).clip(0, 255).astype(np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    height, width, channels = pixels.shape
    return Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=stream.getvalue())
