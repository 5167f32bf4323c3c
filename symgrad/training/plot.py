"""The plot of a history. Importing this module imports matplotlib; symgrad itself does not."""

from __future__ import annotations

from typing import Any

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("a history plots itself with the package matplotlib: pip install 'symgrad[plot]'") from error

from symgrad.training.monitor import Monitor
from symgrad.training.progress import number


def figure(history: Any) -> Figure:
    """A figure that no window knows of."""
    drawn = Figure(layout="constrained")
    _draw(history, drawn)
    return drawn


def shown_figure(history: Any) -> Figure:
    """A figure of pyplot, so that `plt.show()` shows it; a notebook, which shows what a cell returns, would show it twice."""
    from matplotlib import pyplot

    drawn = pyplot.figure(layout="constrained")
    _draw(history, drawn)
    if "inline" in matplotlib.get_backend():
        pyplot.close(drawn)
    return drawn


def _draw(history: Any, figure: Figure) -> None:
    if not history.rows:
        raise ValueError("there is nothing to plot: the history has no epoch")
    names = [name for name in history.names if not name.startswith("val_") or name.removeprefix("val_") not in history.names]
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    figure.set_size_inches(4.5 * columns, 3.4 * rows)
    for place, name in enumerate(names, start=1):
        _draw_one(history, name, figure.add_subplot(rows, columns, place))


def _draw_one(history: Any, name: str, axes: Any) -> None:
    """Training and validation of one result; the best is that of validation, if there is one."""
    marker = "o" if len(history.rows) <= 30 else ""
    best = name
    for key, label in ((name, "training"), (f"val_{name}", "validation")):
        curve = history.curve(key)
        if curve:
            axes.plot([epoch + 1 for epoch, _ in curve], [value for _, value in curve], marker=marker, markersize=3, label=label)
            best = key
    if name != "learning_rate":
        _mark_best(history.curve(best), Monitor(best), axes)
        axes.legend()
    elif max(history.history[name]) > 10 * min(history.history[name]) > 0:
        axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel(name.replace("_", " "))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.grid(alpha=0.3)


def _mark_best(curve: list[tuple[int, float]], monitor: Monitor, axes: Any) -> None:
    found: tuple[int, float] | None = None
    for epoch, value in curve:
        if monitor.better(value, None if found is None else found[1]):
            found = (epoch, value)
    if found is not None:
        label = f"best: {number(found[1])}, epoch {found[0] + 1}"
        axes.plot([found[0] + 1], [found[1]], "*", color="black", markersize=10, label=label)
