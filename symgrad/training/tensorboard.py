"""The callback that writes a training down for TensorBoard."""

from __future__ import annotations

import os
from typing import Any

from symgrad.errors import TraceError
from symgrad.lines import warn
from symgrad.training.callback import Callback
from symgrad.training.learning_rate import learning_rate


class TensorBoard(Callback):
    """Results as Keras writes them: runs `train` and `validation` below `log_dir`, with `epoch_loss`, `epoch_learning_rate` and so on.

    `update_freq`: "epoch", or also every so many batches ("batch" is 1) as `batch_loss` and so on. `histogram_freq`: weights, and
    gradients if there are any, every so many epochs. `write_graph`: the net's graph. Needs `pip install 'symgrad[tensorboard]'`.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        histogram_freq: int = 0,
        write_graph: bool = False,
        update_freq: str | int = "epoch",
    ) -> None:
        if update_freq not in ("epoch", "batch") and (not isinstance(update_freq, int) or update_freq < 1):
            raise ValueError(f"TensorBoard: update_freq must be 'epoch', 'batch' or a number of batches, got {update_freq!r}")
        import symgrad.utils.tensorboard  # noqa: F401  (that it is missing shows here, not after an epoch)

        self.log_dir, self.histogram_freq, self.write_graph = os.fspath(log_dir), histogram_freq, write_graph
        self._every = {"epoch": 0, "batch": 1}.get(update_freq, update_freq) if isinstance(update_freq, str) else update_freq
        self._writers: dict[str, Any] = {}
        self._batches = 0

    def on_train_begin(self, logs: dict[str, float] | None = None) -> None:
        self._graph_wanted = self.write_graph

    def on_train_batch_end(self, batch: int, logs: dict[str, float] | None = None) -> None:
        self._batches += 1
        if self._graph_wanted:
            self._graph_wanted = False
            self._add_graph()
        if self._every and self._batches % int(self._every) == 0:
            self._add_scalars("batch_", logs or {}, self._batches)

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self._add_scalars("epoch_", {**(logs or {}), "learning_rate": learning_rate(self.model)}, epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            self._add_histograms(epoch)
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: dict[str, float] | None = None) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _writer(self, run: str) -> Any:
        from symgrad.utils.tensorboard import SummaryWriter

        if run not in self._writers:
            self._writers[run] = SummaryWriter(os.path.join(self.log_dir, run))
        return self._writers[run]

    def _add_scalars(self, prefix: str, logs: dict[str, float], step: int) -> None:
        for name, value in logs.items():
            run = "validation" if name.startswith("val_") else "train"
            self._writer(run).add_scalar(prefix + name.removeprefix("val_"), value, step)

    def _add_histograms(self, epoch: int) -> None:
        for name, p in self.model.net.named_parameters():
            self._writer("train").add_histogram(name, p, epoch)
            if p.grad is not None:
                self._writer("train").add_histogram(f"{name}/gradient", p.grad, epoch)

    def _add_graph(self) -> None:
        net, x = self.model.net, self.model.example
        if isinstance(x, dict):
            names = list(x)
            net, x = (lambda *values: self.model.net(**dict(zip(names, values, strict=True)))), tuple(x.values())
        try:
            self._writer("train").add_graph(net, x)
        except TraceError as error:  # a picture less is no reason to lose the training
            warn(f"TensorBoard: the net has no graph to show: {error}")
