"""Options of the callbacks that come with symgrad: every one makes a difference, exactly from its limit on."""

from __future__ import annotations

import csv
import linecache
import math
import os

import pytest
from scripted_results import run
from small_models import classifier, line, points, regressor, same, weights

import symgrad as sg
from symgrad import training
from symgrad.training.monitor import BestWeights, Monitor

# --- what counts as better


@pytest.mark.parametrize(("mode", "sign"), [("min", -1), ("max", 1)])
def test_better_is_better_by_more_than_min_delta(mode, sign):
    """In halves and quarters, which are exact: an equal value, and one that is better by min_delta itself, are not better."""
    monitor = Monitor("value", mode, min_delta=0.5)
    assert [monitor.better(sign * value, 0.0) for value in (-1.0, 0.0, 0.5, 0.75)] == [False, False, False, True]
    assert [Monitor("value", mode).better(sign * value, 0.0) for value in (-0.25, 0.0, 0.25)] == [False, False, True]
    assert [Monitor("value", mode, min_delta=-0.5).better(sign * value, 0.0) for value in (0.5, 0.75)] == [False, True]  # its size counts
    assert monitor.better(0.0, None)
    assert not monitor.better(math.nan, None)


@pytest.mark.parametrize("name", ["acc", "val_accuracy", "top_3_accuracy", "precision", "val_recall", "f1", "f1_score", "auc", "val_r2"])
def test_the_names_of_which_more_is_better(name):
    assert Monitor(name).larger
    assert not Monitor(f"{name}_loss").larger


def test_the_first_weights_are_kept_whatever_their_result_is_and_those_of_a_number_replace_them():
    net = sg.nn.Linear(1, 1)
    best = BestWeights(Monitor("loss"))
    before = net.weight.item()
    best.restore(net)
    assert net.weight.item() == before  # nothing is kept yet
    for epoch, loss in enumerate([math.nan, 2.0, 3.0, None]):
        with sg.no_grad():
            net.weight.fill_(float(epoch))
        best.consider(net, epoch, {} if loss is None else {"loss": loss})
        assert (best.epoch, best.value) == [(0, None), (1, 2.0), (1, 2.0), (1, 2.0)][epoch]
    best.restore(net)
    assert net.weight.item() == 1.0


# --- early stopping


@pytest.mark.parametrize(("monitor", "mode"), [("val_accuracy", "auto"), ("val_error", "max")])
def test_the_best_weights_are_those_of_the_largest_result(monitor, mode):
    stopping = training.EarlyStopping(monitor, mode=mode, patience=9, restore_best_weights=True)
    model, _, script = run([stopping], [1.0, 3.0, 2.0], monitor)
    assert same(weights(model), script.weights[1])


def test_the_best_weights_do_not_wait_for_min_delta():
    stopping = training.EarlyStopping(min_delta=0.5, patience=9, restore_best_weights=True)
    model, _, script = run([stopping], [1.0, 0.75, 0.875])
    assert same(weights(model), script.weights[1])


def test_early_stopping_says_something_only_if_asked(capsys):
    values = [1.0, 2.0, 3.0]
    run([training.EarlyStopping(restore_best_weights=True)], values)
    run([training.EarlyStopping(patience=9, verbose=1)], values)
    assert capsys.readouterr().out == ""
    run([training.EarlyStopping(verbose=1)], values)
    assert capsys.readouterr().out == "Epoch 2: early stopping\n"
    run([training.EarlyStopping(patience=9, verbose=1, restore_best_weights=True)], values)
    assert capsys.readouterr().out == "Restored the weights of epoch 1\n"


def test_a_baseline_is_beaten_or_not():
    counts = [len(run([training.EarlyStopping(baseline=2.0, patience=1)], [first, 3.0, 3.0])[1].epoch) for first in (2.0, 1.5)]
    assert counts == [1, 2]


# --- checkpoints


def test_checkpoints_of_epochs_without_a_result(tmp_path):
    """Validation in every second epoch: the others have no val_loss to be named by, or to be the best."""
    options = {"validation_data": line(), "validation_freq": 2, "epochs": 3}
    run([training.ModelCheckpoint(tmp_path / "{epoch}-{batch}-{val_loss:.0f}")], **options)
    first, second, third = sorted(p.name for p in tmp_path.iterdir())
    assert (first, third) == ("1-1-nan", "3-1-nan")
    assert not second.endswith("nan")
    best = tmp_path / "best"
    run([training.ModelCheckpoint(best / "{epoch}", save_best_only=True)], **options)
    assert [p.name for p in best.iterdir()] == ["2"]


def test_checkpoints_by_the_largest_result(tmp_path):
    run([training.ModelCheckpoint(tmp_path / "{epoch}", "score", save_best_only=True, mode="max")], [1.0, 2.0, 2.0, 3.0], "score")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "2", "4"]


def test_a_checkpoint_in_the_working_directory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run([training.ModelCheckpoint("last.safetensors")], epochs=2)
    assert os.listdir(tmp_path) == ["last.safetensors"]
    assert capsys.readouterr().out == ""


def test_what_a_checkpoint_holds(tmp_path):
    """Everything, or the weights only, as load and load_weights read them."""
    model, _, _ = run([training.ModelCheckpoint(tmp_path / "all"), training.ModelCheckpoint(tmp_path / "some", save_weights_only=True)])
    assert model.load(tmp_path / "all") == 3
    assert sg.load(tmp_path / "some").keys() == {"weight", "bias"}


def test_numbers_of_batches_begin_with_one(tmp_path):
    for make, option in ((training.ModelCheckpoint, "save_freq"), (training.TensorBoard, "update_freq")):
        for wrong in (0, -1, 1.5):
            with pytest.raises(ValueError, match=f"{option} must be"):
                make(tmp_path, **{option: wrong})
    run([training.ModelCheckpoint(tmp_path / "{batch}", save_freq=1)], epochs=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1", "2"]


# --- learning rates


@pytest.mark.parametrize("factor", [0.0, 1.0, -0.5, 2.0])
def test_a_factor_that_reduces_nothing_is_refused(factor):
    with pytest.raises(ValueError, match="factor must lie between 0 and 1"):
        training.ReduceLROnPlateau(factor=factor)


def test_an_improvement_ends_the_wait():
    reduce = training.ReduceLROnPlateau(factor=0.5, patience=2)
    history = run([reduce], [2.0, 2.0, 1.0, 1.0, 1.0, 1.0])[1]
    assert history.history["learning_rate"] == [0.1, 0.1, 0.1, 0.1, 0.1, 0.05]


def test_a_rate_below_the_least_one_is_left_alone():
    model = regressor()
    run([training.ReduceLROnPlateau(factor=0.5, patience=1, min_lr=0.5)], [1.0, 1.0], model=model)
    assert model.optimizer.param_groups[0]["lr"] == 0.1


def test_reducing_starts_anew_with_each_fit():
    model, reduce = regressor(), training.ReduceLROnPlateau(factor=0.5, patience=2, cooldown=9)
    for _ in range(2):
        run([reduce], [1.0, 1.0, 1.0], model=model)
    assert model.optimizer.param_groups[0]["lr"] == 0.025


def test_callbacks_of_the_learning_rate_are_silent_by_default(capsys):
    run([training.ReduceLROnPlateau(patience=1), training.LearningRateScheduler(lambda epoch: 0.1)], [1.0, 1.0, 1.0])
    assert capsys.readouterr().out == ""


def test_a_schedule_reaches_every_group_and_is_announced_by_what_it_counts(capsys):
    model = regressor()
    model.optimizer = sg.optim.SGD([{"params": [model.net.weight], "lr": 1.0}, {"params": [model.net.bias], "lr": 0.5}])
    run([training.LearningRateScheduler(lambda step: 0.25, verbose=1, per="batch")], model=model, epochs=1)
    assert [group["lr"] for group in model.optimizer.param_groups] == [0.25, 0.25]
    assert capsys.readouterr().out == "Batch 1: learning rate 0.25\nBatch 2: learning rate 0.25\n"


# --- CSV


def test_a_log_that_is_appended_to_nothing_has_a_heading(tmp_path):
    (tmp_path / "empty.csv").touch()
    for name in ("empty.csv", "missing.csv"):
        run([training.CSVLogger(tmp_path / name, append=True)], epochs=1)
        rows = list(csv.reader((tmp_path / name).read_text().splitlines()))
        assert [row[0] for row in rows] == ["epoch", "0"]


def test_a_log_is_written_anew(tmp_path):
    for _ in range(2):
        run([training.CSVLogger(tmp_path / "log.csv")], epochs=2)
    assert (tmp_path / "log.csv").read_bytes().count(b"\r\n") == 3  # the line ends of CSV


# --- TensorBoard


def scalars(folder, tag):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return [(event.step, event.value) for event in EventAccumulator(str(folder)).Reload().Scalars(tag)]


def tags(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return {kind: found for kind, found in EventAccumulator(str(folder)).Reload().Tags().items() if found}


def test_tensorboard_writes_epochs_only_by_default(tmp_path):
    run([training.TensorBoard(tmp_path)], epochs=2)
    assert tags(tmp_path / "train") == {"scalars": ["epoch_loss", "epoch_learning_rate"]}
    assert os.listdir(tmp_path) == ["train"]


@pytest.mark.parametrize("update_freq", ["batch", 1])
def test_tensorboard_writes_every_batch_and_goes_on_counting_in_the_next_fit(tmp_path, update_freq):
    board, model = training.TensorBoard(tmp_path, update_freq=update_freq), regressor()
    for _ in range(2):
        run([board], model=model, epochs=1)
    assert [step for step, _ in scalars(tmp_path / "train", "batch_loss")] == [1, 2, 3, 4]
    assert len(os.listdir(tmp_path / "train")) == 2  # the first file was closed


def test_what_tensorboard_shows_is_on_disk_after_each_epoch(tmp_path):
    seen = []
    look = training.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(len(scalars(tmp_path / "train", "epoch_loss"))))
    run([training.TensorBoard(tmp_path), look], epochs=2)
    assert seen == [1, 2]


def test_the_graph_of_a_net_with_inputs_by_name(tmp_path):
    class Sum(sg.nn.Linear):
        def forward(self, first, second):
            return super().forward(first - second)

    x = sg.arange(4.0).reshape(4, 1)
    model = sg.Model(Sum(1, 1), "sgd", "mse")
    graph_only_once = training.TensorBoard(tmp_path, write_graph=True)
    model.fit({"second": x, "first": 2 * x}, x, batch_size=2, callbacks=graph_only_once, verbose=0)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    nodes = {node.name: list(node.input) for node in EventAccumulator(str(tmp_path / "train")).Reload().Graph().node}
    assert len([name for name in nodes if name.startswith("input/")]) == 2


def test_the_warning_of_a_net_without_a_graph_is_at_the_call_of_fit(tmp_path):
    class Branch(sg.nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > -1e9 else x

    model = sg.Model(Branch(1, 1), "sgd", "mse")
    with pytest.warns(UserWarning, match="has no graph to show") as warned:
        model.fit(*line(), callbacks=[training.TensorBoard(tmp_path, write_graph=True)], verbose=0)
    assert "model.fit(*line(), callbacks" in linecache.getline(warned[0].filename, warned[0].lineno)


# --- what callbacks are given


def test_what_a_callback_knows_in_evaluate_and_predict():
    seen = []

    class Look(training.Callback):
        def on_test_begin(self, logs=None):
            seen.append(dict(self.params))

        on_predict_begin = on_test_begin

    model = classifier()
    x, y = points(8)
    model.evaluate(x, y, batch_size=3, callbacks=Look(), verbose=0)
    model.predict(x, batch_size=4, callbacks=Look(), verbose=0)
    expected = {"epochs": 1, "verbose": 0, "metrics": ["loss", "accuracy"]}
    assert seen == [{**expected, "steps": 3}, {**expected, "steps": 2}]


def test_the_logs_that_hooks_are_given():
    given = {}

    def note(hook):
        return lambda *args: given.setdefault(hook, []).append(dict(args[-1]))

    hooks = ("on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_test_batch_end", "on_test_end", "on_epoch_end", "on_train_end")
    model = regressor()
    watch = training.LambdaCallback(**{hook: note(hook) for hook in hooks})
    history = model.fit(*line(), epochs=2, validation_data=line(), callbacks=watch, verbose=0).history
    for hook in hooks[:3]:
        assert given[hook] == [{}] * len(given[hook])
    validation = [{"loss": value} for value in history["val_loss"]]
    assert given["on_test_batch_end"] == given["on_test_end"] == validation
    epochs = [{"loss": a, "val_loss": b} for a, b in zip(history["loss"], history["val_loss"], strict=True)]
    assert given["on_epoch_end"] == epochs
    assert given["on_train_end"] == epochs[-1:]


def test_a_name_that_several_callbacks_add_is_one_result():
    names = []
    look = training.LambdaCallback(on_train_begin=lambda logs: names.extend(look.params["metrics"]))
    run([training.LearningRateScheduler(lambda epoch: 0.1), training.ReduceLROnPlateau("loss"), look])
    assert names == ["loss", "learning_rate"]
