"""Callbacks: when they are called, and what those that come with symgrad do."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from scripted_results import run
from small_models import classifier, line, points, regressor, same, weights

import symgrad as sg
from symgrad import training
from symgrad.training import callback

# --- the calls


def test_the_order_of_the_calls():
    calls = []

    class All(training.Callback):
        def __getattribute__(self, name):
            if name in callback.HOOKS:
                return lambda *args: calls.append((name, *args[:-1]))
            return super().__getattribute__(name)

    for name in callback.HOOKS:
        setattr(All, name, None)
    model = regressor()
    model.fit(*line(4), batch_size=2, validation_split=0.5, callbacks=All(), verbose=0)
    assert calls == [
        ("on_train_begin",), ("on_epoch_begin", 0), ("on_train_batch_begin", 0), ("on_train_batch_end", 0), ("on_test_begin",),
        ("on_test_batch_begin", 0), ("on_test_batch_end", 0), ("on_test_end",), ("on_epoch_end", 0), ("on_train_end",),
    ]  # fmt: skip
    calls.clear()
    model.predict(line(4)[0], batch_size=2, callbacks=[All()], verbose=0)
    steps = [(f"on_predict_batch_{when}", i) for i in (0, 1) for when in ("begin", "end")]
    assert calls == [("on_predict_begin",), *steps, ("on_predict_end",)]
    calls.clear()
    model.evaluate(*line(2), callbacks=[All()], verbose=0)
    assert calls == [("on_test_begin",), ("on_test_batch_begin", 0), ("on_test_batch_end", 0), ("on_test_end",)]


def test_what_a_callback_knows():
    seen = {}

    class Look(training.Callback):
        def on_train_begin(self, logs=None):
            seen.update(self.params, model=self.model)

        def on_train_batch_end(self, batch, logs=None):
            seen["batch"] = logs

    model, history, _ = run([Look()], validation_data=line(), model=regressor(metrics=["mae"]))
    assert seen.pop("model") is model
    assert seen.pop("batch") == {name: values[-1] for name, values in history.history.items() if "val" not in name}
    assert seen == {"epochs": 3, "steps": 2, "verbose": 0, "metrics": ["loss", "mae", "val_loss", "val_mae"]}
    assert model.history is history


def test_a_callback_may_stop_and_add_to_the_history():
    class Third(training.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

        def on_epoch_end(self, epoch, logs=None):
            logs["steps"] = 3.0

    _, history, _ = run([Third()], batch_size=1)
    assert history.history["steps"] == [3.0]
    assert history.epoch == [0]


def test_lambda_callbacks():
    seen = []
    run([training.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(epoch))])
    assert seen == [0, 1, 2]
    with pytest.raises(TypeError, match="there is no 'on_epoch'; there are on_train_begin, "):
        training.LambdaCallback(on_epoch=print)
    with pytest.raises(TypeError, match="on_epoch_end must be a function, got int"):
        training.LambdaCallback(on_epoch_end=3)


def test_weights_are_kept_with_the_rest_of_the_state():
    class Counting(sg.nn.Linear):
        seen = 0

        def forward(self, x):
            self.seen += self.training
            return super().forward(x)

        def get_extra_state(self):
            return {"seen": self.seen}

        def set_extra_state(self, state):
            self.seen = state["seen"]

    model = sg.Model(Counting(1, 1), "sgd", "mse")
    run([training.EarlyStopping(patience=1, restore_best_weights=True)], [2.0, 1.0, 3.0], model=model)
    assert model.net.seen == 4


# --- early stopping


def stopped(values, **options):
    model, history, script = run([training.EarlyStopping(**options)], values, options.get("monitor", "val_loss"))
    return len(history.epoch), model, script


def test_early_stopping_waits_for_its_patience():
    values = [5.0, 4.0, 4.5, 4.2, 3.9, 4.0, 4.0, 4.0, 1.0]
    assert stopped(values, patience=1)[0] == 3
    assert stopped(values, patience=0)[0] == 3
    assert stopped(values, patience=3)[0] == 8
    assert stopped(values, patience=4)[0] == 9
    assert stopped(values, patience=3, min_delta=0.2)[0] == 5
    assert stopped(values, patience=1, start_from_epoch=4)[0] == 6
    assert stopped(values, patience=2, baseline=3.0)[0] == 2


def test_early_stopping_knows_what_larger_is_better_for():
    values = [0.1, 0.2, 0.15, 0.3]
    assert stopped(values, monitor="val_accuracy")[0] == 3
    assert stopped(values, monitor="val_error")[0] == 2
    assert stopped(values, monitor="val_error", mode="max")[0] == 3
    assert stopped(values, monitor="val_accuracy", mode="min")[0] == 2
    assert stopped([1.0, math.nan, math.nan, 0.5], patience=2)[0] == 3
    assert stopped([math.nan, 1.0, 0.5, 0.25], patience=2)[0] == 4


def test_early_stopping_restores_the_best_weights(capsys):
    values = [5.0, 3.0, 4.0, 4.5, 1.0]
    count, model, script = stopped(values, patience=2, restore_best_weights=True, verbose=1)
    assert count == 4
    assert same(weights(model), script.weights[1])
    assert capsys.readouterr().out == "Epoch 4: early stopping\nRestored the weights of epoch 2\n"
    _, model, script = stopped(values[:4], patience=9, restore_best_weights=True)
    assert same(weights(model), script.weights[1])  # also if it was never patience that ended it
    _, model, script = stopped(values, patience=2)
    assert same(weights(model), script.weights[3])


def test_a_callback_starts_anew_with_each_fit():
    stopping, model = training.EarlyStopping(patience=1), regressor()
    for _ in range(2):
        assert len(run([stopping], [5.0, 4.0, 4.5, 1.0], model=model)[1].epoch) == 3


@pytest.mark.parametrize("make", [training.EarlyStopping, training.ReduceLROnPlateau])
def test_a_result_that_does_not_exist_is_an_error_before_any_work(make):
    model = regressor(metrics=["mae"])
    before = weights(model)
    name = make.__name__
    with pytest.raises(ValueError, match=rf"{name} watches 'val_loss', which is not among the results: loss, mae.*; pass validation_data"):
        model.fit(*line(), callbacks=[make()], verbose=0)
    with pytest.raises(ValueError, match=rf"{name} watches 'val_mea', .*: loss, mae, val_loss, val_mae(, learning_rate)?$"):
        model.fit(*line(), validation_split=0.5, callbacks=[make("val_mea")], verbose=0)
    assert same(before, weights(model))
    with pytest.raises(ValueError, match=f"{name}: mode must be"):
        make(mode="best")
    with pytest.raises(ValueError, match=f"{name}: patience must be"):
        make(patience=-1)


def test_epochs_without_validation_are_passed_over():
    _, history, _ = run([training.EarlyStopping(patience=1)], epochs=9, validation_data=line(), validation_freq=2)
    assert len(history.epoch) == 9  # it improves


# --- checkpoints


def test_checkpoints_of_every_epoch(tmp_path, capsys):
    path = tmp_path / "new" / "{epoch:02d}-{val_loss:.1f}.safetensors"
    run([training.ModelCheckpoint(path, verbose=1)], [5.0, 4.0])
    assert sorted(p.name for p in path.parent.iterdir()) == ["01-5.0.safetensors", "02-4.0.safetensors"]
    assert capsys.readouterr().out.startswith("Epoch 1: saved to ")


def test_the_best_checkpoint_only(tmp_path):
    path = tmp_path / "best.safetensors"
    model, _, script = run([training.ModelCheckpoint(path, save_best_only=True, save_weights_only=True)], [5.0, 3.0, 4.0])
    assert not same(weights(model), script.weights[1])
    model.load_weights(path)
    assert same(weights(model), script.weights[1])
    run([training.ModelCheckpoint(tmp_path / "none", save_best_only=True, initial_value_threshold=1.0)], [5.0, 3.0])
    assert not (tmp_path / "none").exists()


def test_training_goes_on_from_a_checkpoint(tmp_path):
    x, y = points()
    whole = classifier()
    whole.fit(x, y, epochs=5, batch_size=4, verbose=0, callbacks=[training.ModelCheckpoint(tmp_path / "{epoch}")])
    other = classifier(seed=1)
    other.fit(x, y, epochs=5, batch_size=4, verbose=0, initial_epoch=other.load(tmp_path / "3"))
    assert same(weights(whole), weights(other))


def test_checkpoints_of_batches(tmp_path):
    checkpoint = training.ModelCheckpoint(tmp_path / "{epoch}-{batch}", save_freq=3, save_weights_only=True)
    run([checkpoint], [1.0, 1.0], name="x", batch_size=5)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2-1"]
    run([checkpoint], [1.0], name="x", batch_size=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1-2", "1-5", "2-1"]


def test_checkpoints_refuse_before_any_work(tmp_path):
    with pytest.raises(ValueError, match=r"there is no 'val_loss' to put into .*: epoch, batch, loss$"):
        run([training.ModelCheckpoint(tmp_path / "{val_loss}")])
    with pytest.raises(ValueError, match="ModelCheckpoint watches 'val_loss'"):
        run([training.ModelCheckpoint(tmp_path / "x", save_best_only=True)])
    with pytest.raises(ValueError, match="there is no 'val_loss' to put"):
        run([training.ModelCheckpoint(tmp_path / "{val_loss}", save_freq=2)], validation_split=0.5)
    with pytest.raises(ValueError, match="save_freq must be 'epoch' or a number of batches, got 'batch'"):
        training.ModelCheckpoint("x", save_freq="batch")
    assert list(tmp_path.iterdir()) == []


# --- the learning rate


def rates(*callbacks, values=(), **options):
    return run(callbacks, values, **options)[1].history["learning_rate"]


def test_a_schedule_of_the_epoch(capsys):
    assert rates(training.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1), verbose=1)) == [0.1, 0.05, 0.1 / 3]
    assert capsys.readouterr().out.splitlines()[1] == "Epoch 2: learning rate 0.05"
    assert rates(training.LearningRateScheduler(lambda epoch, rate: rate / 2)) == [0.05, 0.025, 0.0125]
    assert rates(training.LearningRateScheduler(lambda step: step, per="batch")) == [1.0, 3.0, 5.0]


def test_a_scheduler_object():
    class Halve:
        def __init__(self, optimizer):
            self.optimizer = optimizer

        def step(self):
            for group in self.optimizer.param_groups:
                group["lr"] /= 2

    model = regressor()
    assert rates(training.LearningRateScheduler(Halve(model.optimizer)), model=model) == [0.1, 0.05, 0.025]
    model = regressor()
    assert rates(training.LearningRateScheduler(Halve(model.optimizer), per="batch"), model=model) == [0.025, 0.00625, 0.0015625]
    with pytest.raises(ValueError, match="belongs to another optimizer"):
        rates(training.LearningRateScheduler(Halve(model.optimizer)))


def test_schedulers_of_optim():
    model = regressor()
    step = sg.optim.lr_scheduler.StepLR(model.optimizer, step_size=2, gamma=0.1)
    assert rates(training.LearningRateScheduler(step), model=model, epochs=5) == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001])
    model = regressor()
    cycle = sg.optim.lr_scheduler.OneCycleLR(model.optimizer, max_lr=1.0, total_steps=4)
    assert rates(training.LearningRateScheduler(cycle, per="batch"), model=model, epochs=1) == [cycle.get_last_lr()[0]]
    assert cycle.last_epoch == 2
    plateau = sg.optim.lr_scheduler.ReduceLROnPlateau(model.optimizer)
    with pytest.raises(TypeError, match="waits for a result; use the callback ReduceLROnPlateau"):
        training.LearningRateScheduler(plateau)


def test_schedules_are_checked():
    with pytest.raises(TypeError, match="must return a number, got str 'a'"):
        rates(training.LearningRateScheduler(lambda epoch: "a"))
    with pytest.raises(TypeError, match="a function or a scheduler"):
        training.LearningRateScheduler(0.1)
    with pytest.raises(ValueError, match="per must be 'epoch' or 'batch'"):
        training.LearningRateScheduler(lambda epoch: 0.1, per="step")


def test_reduce_on_plateau(capsys):
    flat = [1.0] * 7
    assert rates(training.ReduceLROnPlateau(factor=0.5, patience=2, verbose=1), values=flat) == [0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025]
    assert capsys.readouterr().out == "".join(f"Epoch {e}: learning rate reduced to {r}\n" for e, r in ((3, 0.05), (5, 0.025), (7, 0.0125)))
    cooled = rates(training.ReduceLROnPlateau(factor=0.5, patience=2, cooldown=2), values=flat)
    assert cooled == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025]
    assert rates(training.ReduceLROnPlateau(factor=0.5, patience=1, min_lr=0.04), values=flat)[-1] == 0.04
    assert rates(training.ReduceLROnPlateau(factor=0.5, patience=1), values=[7.0, 6, 5, 4, 3, 2, 1]) == [0.1] * 7
    small = [1.0, 0.99, 0.98, 0.97]
    assert rates(training.ReduceLROnPlateau(factor=0.5, patience=2, min_delta=0.1), values=small)[-1] == 0.05
    with pytest.raises(ValueError, match="factor must lie between 0 and 1"):
        training.ReduceLROnPlateau(factor=1.0)


def test_reduce_on_plateau_reaches_every_group():
    model = regressor()
    model.optimizer = sg.optim.SGD([{"params": [model.net.weight], "lr": 1.0}, {"params": [model.net.bias], "lr": 0.5}])
    run([training.ReduceLROnPlateau(factor=0.5, patience=1)], [1.0, 1.0], model=model)
    assert [group["lr"] for group in model.optimizer.param_groups] == [0.5, 0.25]


# --- the rest


def test_terminate_on_nan(capsys):
    losses = iter([1.0, math.nan, 1.0, 1.0])
    model = regressor(loss=lambda p, t: (p - t).pow(2).mean() * 0 + next(losses))
    _, history, _ = run([training.TerminateOnNaN()], model=model)
    assert len(history.epoch) == 1
    assert capsys.readouterr().out == "Step 2: the loss is nan, training stops\n"


def test_csv(tmp_path):
    path = tmp_path / "log.csv"
    _, history, _ = run([training.CSVLogger(path)], validation_split=0.5, validation_freq=2)
    rows = list(csv.reader(path.read_text().splitlines()))
    assert rows[0] == ["epoch", "loss", "val_loss"]
    assert [row[0] for row in rows[1:]] == ["0", "1", "2"]
    assert [float(row[1]) for row in rows[1:]] == history.history["loss"]
    assert [row[2] == "NA" for row in rows[1:]] == [True, False, True]
    run([training.CSVLogger(path, append=True)], validation_split=0.5)
    assert len(path.read_text().splitlines()) == 7
    run([training.CSVLogger(path, separator=";")], [1.0])
    assert path.read_text().startswith("epoch;loss;val_loss\n0;")


# --- TensorBoard


def events(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), {"histograms": 0}).Reload()


def test_tensorboard(tmp_path):
    x, y = points()
    model = classifier()
    callbacks = [training.TensorBoard(tmp_path, histogram_freq=2, write_graph=True, update_freq=3)]
    history = model.fit(x, y, epochs=3, batch_size=5, validation_split=0.25, callbacks=callbacks, verbose=0)
    train, validation = events(tmp_path / "train"), events(tmp_path / "validation")
    assert sorted(validation.Tags()["scalars"]) == ["epoch_accuracy", "epoch_loss"]
    assert sorted(train.Tags()["scalars"]) == ["batch_accuracy", "batch_loss", "epoch_accuracy", "epoch_learning_rate", "epoch_loss"]
    np.testing.assert_allclose([e.value for e in train.Scalars("epoch_loss")], history.history["loss"], rtol=1e-6)
    np.testing.assert_allclose([e.value for e in validation.Scalars("epoch_loss")], history.history["val_loss"], rtol=1e-6)
    assert [e.step for e in train.Scalars("batch_loss")] == [3, 6, 9]
    assert [e.value for e in train.Scalars("epoch_learning_rate")] == pytest.approx([0.05] * 3)
    assert {"0.weight", "2.bias", "2.bias/gradient"} <= set(train.Tags()["histograms"])
    assert [e.step for e in train.Histograms("0.weight")] == [0, 2]
    assert len(train.Graph().node) > 4
    with pytest.raises(ValueError, match="update_freq must be"):
        training.TensorBoard(tmp_path, update_freq="step")


def test_a_net_without_a_graph_is_trained_all_the_same(tmp_path):
    class Branch(sg.nn.Linear):
        def forward(self, x):
            return super().forward(x) if x.sum() > -1e9 else x

    model = sg.Model(Branch(1, 1), "sgd", "mse")
    with pytest.warns(UserWarning, match="TensorBoard: the net has no graph to show") as warned:
        model.fit(*line(), batch_size=5, callbacks=[training.TensorBoard(tmp_path, write_graph=True)], verbose=0)
    assert len(warned) == 1
    assert model.history.epoch == [0]
