"""History: what it keeps, how it prints, what its plot shows."""

from __future__ import annotations

import csv
import subprocess
import sys

import pytest

from symgrad.training import History


def history(rows):
    made = History()
    for epoch, logs in enumerate(rows):
        made.on_epoch_end(epoch, logs)
    return made


ROWS = [
    {"loss": 0.5, "accuracy": 0.25},
    {"loss": 0.25, "accuracy": 0.5, "val_loss": 0.4, "val_accuracy": 0.75},
    {"loss": 0.125, "accuracy": 0.75},
    {"loss": 0.0625, "accuracy": 1.0, "val_loss": 0.6, "val_accuracy": 0.5, "learning_rate": 0.1},
]


def test_columns():
    made = history(ROWS)
    assert made.epoch == [0, 1, 2, 3]
    assert made.history["val_loss"] == [0.4, 0.6]
    assert made.curve("val_loss") == [(1, 0.4), (3, 0.6)]
    assert made.to_dict()["val_loss"] == [None, 0.4, None, 0.6]
    assert made.to_dict()["epoch"] == [0, 1, 2, 3]


def test_what_happens_to_the_logs_later_changes_nothing():
    logs = {"loss": 0.5}
    made = history([logs])
    logs["loss"] = 1.0
    assert made.history == {"loss": [0.5]}


def test_table():
    assert repr(history(ROWS[:2])) == (
        "epoch    loss  accuracy  val_loss  val_accuracy\n"
        "    1  0.5000    0.2500                        \n"
        "    2  0.2500    0.5000    0.4000        0.7500"
    )
    assert repr(History()) == "History of no epoch"


def test_a_long_table_is_shortened():
    lines = repr(history([{"loss": 1.0}] * 100)).splitlines()
    assert len(lines) == 22
    assert [text.split()[0] for text in lines[9:14]] == ["9", "10", "...", "91", "92"]
    assert len(repr(history([{"loss": 1.0}] * 20)).splitlines()) == 21
    assert "..." not in repr(history([{"loss": 1.0}] * 20))
    assert [text.split()[0] for text in repr(history([{"loss": 1.0}] * 21)).splitlines()[10:13]] == ["10", "...", "12"]


def test_csv(tmp_path):
    history(ROWS).to_csv(tmp_path / "h.csv")
    rows = list(csv.DictReader((tmp_path / "h.csv").read_text().splitlines()))
    assert [row["epoch"] for row in rows] == ["0", "1", "2", "3"]
    assert [row["val_loss"] for row in rows] == ["", "0.4", "", "0.6"]


@pytest.fixture
def figure():
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    yield history(ROWS).plot()
    pyplot.close("all")


def test_the_plot_has_every_result_with_its_validation(figure):
    axes = figure.axes
    assert [a.get_ylabel() for a in axes] == ["loss", "accuracy", "learning rate"]
    assert {a.get_xlabel() for a in axes} == {"epoch"}
    curves = {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in axes[0].lines}
    assert curves["training"] == ([1, 2, 3, 4], [0.5, 0.25, 0.125, 0.0625])
    assert curves["validation"] == ([2, 4], [0.4, 0.6])


def test_the_plot_marks_the_best_epoch_of_validation(figure):
    loss, accuracy, rate = (a.lines for a in figure.axes)
    assert (loss[-1].get_label(), list(loss[-1].get_xdata()), list(loss[-1].get_ydata())) == ("best: 0.4000, epoch 2", [2], [0.4])
    assert accuracy[-1].get_label() == "best: 0.7500, epoch 2"
    assert len(rate) == 1


def test_the_figure_is_known_to_pyplot_except_in_a_notebook(figure, monkeypatch):
    """There it would be drawn twice: as the value of the cell, and as a figure that is open."""
    from matplotlib import pyplot

    assert pyplot.fignum_exists(figure.number)
    monkeypatch.setattr("matplotlib.get_backend", lambda: "module://matplotlib_inline.backend_inline")
    assert not pyplot.fignum_exists(history(ROWS).plot().number)


def test_a_learning_rate_that_falls_far_is_drawn_on_a_logarithmic_axis():
    from symgrad.training.plot import figure

    rates = (0.5, 0.125, 0.1, 0.095, 0.01, 0.0)
    scales = [figure(history([{"learning_rate": 1.0}, {"learning_rate": last}])).axes[0].get_yscale() for last in rates]
    assert scales == ["linear", "linear", "linear", "log", "log", "linear"]  # more than a factor of ten


def test_every_picture_has_a_grid_and_epochs_that_are_whole_and_those_of_results_a_legend(figure):
    for axes in figure.axes:
        assert all(tick == int(tick) for tick in axes.xaxis.get_major_locator()())
        assert all(line.get_visible() and line.get_alpha() < 1 for line in axes.get_xgridlines())
    legends = [axes.get_legend() and [text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert legends == [["training", "validation", "best: 0.4000, epoch 2"], ["training", "validation", "best: 0.7500, epoch 2"], None]


@pytest.mark.parametrize(("count", "rows", "columns"), [(1, 1, 1), (2, 1, 2), (3, 1, 3), (4, 2, 3), (6, 2, 3), (7, 3, 3)])
def test_pictures_stand_in_rows_of_three(count, rows, columns):
    from symgrad.training.plot import figure

    drawn = figure(history([{f"result{i}": 1.0 for i in range(count)}]))
    width, height = drawn.get_size_inches()
    assert (width / columns, height / rows) == pytest.approx((4.5, 3.4))
    grids = [axes.get_subplotspec().get_geometry()[:3] for axes in drawn.axes]
    assert grids == [(rows, columns, i) for i in range(count)]


@pytest.mark.parametrize(("epochs", "marker"), [(30, "o"), (31, "")])
def test_few_points_are_marked(epochs, marker):
    from symgrad.training.plot import figure

    assert figure(history([{"loss": 1.0 / (i + 1)} for i in range(epochs)])).axes[0].lines[0].get_marker() == marker


@pytest.mark.parametrize("shown", [False, True])
def test_labels_do_not_overlap(shown):
    from matplotlib import pyplot

    from symgrad.training.plot import figure

    drawn = history(ROWS).plot() if shown else figure(history(ROWS))
    pyplot.close("all")
    assert drawn.get_layout_engine().__class__.__name__ == "ConstrainedLayoutEngine"


def test_validation_alone_has_a_picture_of_its_own():
    from symgrad.training.plot import figure

    assert [axes.get_ylabel() for axes in figure(history([{"loss": 1.0, "val_error": 2.0, "val_loss": 3.0}])).axes] == ["loss", "val error"]


def test_a_history_of_nan_has_no_best_epoch():
    from symgrad.training.plot import figure

    lines = figure(history([{"loss": float("nan")}, {"loss": float("nan")}])).axes[0].lines
    assert [line.get_label() for line in lines] == ["training"]


def test_a_notebook_shows_the_plot_and_leaves_no_figure_open():
    from matplotlib import pyplot

    from symgrad.training.plot import figure

    picture = history(ROWS)._repr_png_()
    assert picture.startswith(b"\x89PNG")
    size = [int.from_bytes(picture[i : i + 4], "big") for i in (16, 20)]
    assert size == [round(100 * inches) for inches in figure(history(ROWS)).get_size_inches()]  # 100 dots per inch
    assert pyplot.get_fignums() == []
    assert History()._repr_png_() is None


def test_nothing_to_plot():
    with pytest.raises(ValueError, match="the history has no epoch"):
        History().plot()


def test_without_matplotlib():
    code = """
import sys
sys.modules["matplotlib"] = None
from symgrad.training import History
history = History()
history.on_epoch_end(0, {"loss": 1.0})
print(history._repr_png_())
try:
    history.plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "None\na history plots itself with the package matplotlib: pip install 'symgrad[plot]'\n"
