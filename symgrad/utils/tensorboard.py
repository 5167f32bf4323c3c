"""SummaryWriter: event files for TensorBoard, written with the `tensorboard` package's own protocol buffers.

    with SummaryWriter("runs/first") as writer:
        writer.add_graph(model, x)
        writer.add_scalar("loss", loss, step)

Importing this module imports `tensorboard`; symgrad itself does not.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from threading import RLock
from types import TracebackType
from typing import Any

try:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError("symgrad.utils.tensorboard needs the package tensorboard: pip install 'symgrad[tensorboard]'") from error

from symgrad.compiler.ir.graph import Graph
from symgrad.errors import require
from symgrad.utils import pictures, summaries
from symgrad.utils.graph_def import draw, draw_graph


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
        self._lock = RLock()  # several threads may write
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
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Several curves in one plot: each is a run of its own, in a folder below `log_dir`."""
        walltime = time.time() if walltime is None else walltime
        values = {tag: summaries.scalar(main_tag, value) for tag, value in tag_scalar_dict.items()}
        for tag, value in values.items():
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
        self._add(summaries.histogram(tag, summaries.array(values).astype(float).reshape(-1), bins, max_bins), global_step, walltime)

    def add_image(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """A picture of floats in [0, 1] or of bytes; `dataformats` orders the letters H, W and, if there are channels, C."""
        self._add(pictures.picture(tag, summaries.array(img_tensor), dataformats), global_step, walltime)

    def add_images(
        self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None, dataformats: str = "NCHW"
    ) -> None:
        """Several pictures of one size, in rows of eight; N counts them."""
        self._add(pictures.picture(tag, summaries.array(img_tensor), dataformats), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None) -> None:
        """A Matplotlib figure, or a list of figures of one size, which are closed afterwards unless told otherwise."""
        several = isinstance(figure, list)
        drawn = [pictures.drawn(one, close) for one in (figure if several else [figure])]
        self.add_images(tag, drawn if several else drawn[0], global_step, walltime, "NHWC" if several else "HWC")

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """A text, which TensorBoard shows as Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Mapping[str, Any] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Hyperparameters and how good they were, for the page that compares runs: a run of its own, named by the time unless given."""
        domains = hparam_domain_discrete or {}
        for name, given in {"hparam_dict": hparam_dict, "metric_dict": metric_dict, "hparam_domain_discrete": domains}.items():
            require(isinstance(given, dict), f"parameter: {name} should be a dictionary, nothing logged.", TypeError)
        metrics = [summaries.scalar(tag, metric) for tag, metric in metric_dict.items()]
        values = summaries.hyperparameters(hparam_dict, metric_dict, domains) + metrics
        with SummaryWriter(os.path.join(self.log_dir, run_name or str(time.time()))) as run:
            for value in values:
                run._add(value, global_step, None)

    def add_graph(
        self, model: Callable[..., Any] | Graph, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """What a module, or any function of tensors, computes from `input_to_model`: one argument, a tuple or list of them, or none;
        or a frozen graph, such as that of a derivation.

        A module is traced in evaluation mode. `verbose` prints the graph. Containers are traced whatever `use_strict_trace` is.
        """
        several = isinstance(input_to_model, (tuple, list))
        args = tuple(input_to_model) if several else () if input_to_model is None else (input_to_model,)
        require(not (args and isinstance(model, Graph)), "a frozen graph has its inputs: add_graph(graph) takes nothing else", TypeError)
        drawing = draw_graph(model) if isinstance(model, Graph) else draw(model, args)
        if verbose:
            print(drawing.graph)
        self._write(Event(graph_def=drawing.proto().SerializeToString()), None, None)

    def flush(self) -> None:
        """Everything added so far is on disk."""
        with self._lock:
            for file in self._files.values():
                file.flush()

    def close(self) -> None:
        with self._lock:
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
            if self.purge_step is not None:  # the first file, that of `log_dir`
                step, self.purge_step = self.purge_step, None
                self._write(Event(file_version="brain.Event:2"), step, None)
                self._write(Event(session_log=SessionLog(status=SessionLog.START)), step, None)
        return self._files[run]

    def _add(self, value: Any, global_step: Any, walltime: float | None, run: str = "") -> None:
        self._write(Event(summary=Summary(value=[value])), global_step, walltime, run)

    def _write(self, event: Any, global_step: Any, walltime: float | None, run: str = "") -> None:
        event.wall_time = time.time() if walltime is None else walltime
        if global_step is not None:
            event.step = int(global_step)
        with self._lock:
            self._file(run).add_event(event)
