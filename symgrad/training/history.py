"""History: the results of every epoch, as fit returns them; they print as a table, plot themselves and are written as CSV."""

from __future__ import annotations

import csv
import io
import os
from typing import Any

from symgrad.training.callback import Callback
from symgrad.training.progress import number

SHOWN = 20


class History(Callback):
    """`history.history["loss"]` is a list with a value for each epoch that had one; `history.epoch` lists the epochs, counted from 0.

    `interrupted` tells that Ctrl-C ended the training. In a notebook it shows itself as its plot.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.interrupted = False

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.rows.append((epoch, dict(logs or {})))

    @property
    def epoch(self) -> list[int]:
        return [epoch for epoch, _ in self.rows]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for _, logs in self.rows for name in logs))

    @property
    def history(self) -> dict[str, list[float]]:
        return {name: [value for _, value in self.curve(name)] for name in self.names}

    def curve(self, name: str) -> list[tuple[int, float]]:
        """Epochs and values of one result; validation may have had fewer epochs than training."""
        return [(epoch, logs[name]) for epoch, logs in self.rows if name in logs]

    def to_dict(self) -> dict[str, list[float | None]]:
        """All columns in one length: the epochs, and None where an epoch lacks a result."""
        return {"epoch": list(self.epoch), **{name: [logs.get(name) for _, logs in self.rows] for name in self.names}}

    def to_csv(self, filename: str | os.PathLike[str]) -> None:
        columns = self.to_dict()
        with open(filename, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))

    def plot(self) -> Any:
        """A matplotlib figure: a picture for each result, training and validation in one, the best epoch marked."""
        from symgrad.training.plot import shown_figure

        return shown_figure(self)

    def _repr_png_(self) -> bytes | None:
        """For notebooks; without matplotlib, or without epochs, they show the table."""
        try:
            from symgrad.training.plot import figure
        except ImportError:
            return None
        if not self.rows:
            return None
        stream = io.BytesIO()
        figure(self).savefig(stream, format="png", dpi=100)
        return stream.getvalue()

    def __repr__(self) -> str:
        """A table of the epochs, counted from 1; of many, the first and the last."""
        if not self.rows:
            return "History of no epoch"
        lines = [["epoch", *self.names]]
        lines += [[str(epoch + 1), *(number(logs[n]) if n in logs else "" for n in self.names)] for epoch, logs in self.rows]
        if len(lines) > SHOWN + 1:
            lines[SHOWN // 2 + 1 : -SHOWN // 2] = [["..."] * len(lines[0])]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) for line in lines)
