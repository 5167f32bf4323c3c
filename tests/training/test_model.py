"""Model: fit, evaluate and predict give what a loop written by hand gives; bad arguments are refused before any work."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import namedtuple

import numpy as np
import pytest
from small_models import classifier, line, points, regressor, same, weights

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.utils.data import DataLoader, IterableDataset, TensorDataset


def fitted(model, *args, **options):
    return model.fit(*args, **{"verbose": 0} | options)


# --- fit against a loop by hand


def test_fit_is_the_loop_that_one_writes_by_hand():
    x, y = points(20)
    model = classifier()
    history = fitted(model, x, y, batch_size=8, epochs=2, shuffle=False)
    by_hand = classifier()
    net, optimizer = by_hand.net, by_hand.optimizer
    inputs, targets = sg.tensor(x), sg.tensor(y)
    means = []
    for _ in range(2):
        total = 0.0
        for start in (0, 8, 16):
            part = slice(start, start + 8)
            optimizer.zero_grad()
            loss = F.cross_entropy(net(inputs[part]), targets[part])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(targets[part])
        means.append(total / 20)
    assert same(weights(model), weights(by_hand))
    assert history.history["loss"] == means


def test_it_learns():
    x, y = points(60)
    model = classifier()
    history = fitted(model, x, y, epochs=30, batch_size=16)
    assert history.history["loss"][-1] < 0.1 < history.history["loss"][0]
    assert model.evaluate(x, y, verbose=0, return_dict=True)["accuracy"] == 1.0


def test_results_count_every_example_once():
    """20 examples in batches of 8, 8 and 4: the mean of the batches' means would be another number."""
    x, y = points(20)
    model = classifier()
    prediction = model.net(sg.tensor(x)).detach()
    loss, accuracy = model.evaluate(x, y, batch_size=8, verbose=0)
    assert loss == pytest.approx(F.cross_entropy(prediction, sg.tensor(y)).item(), rel=1e-6)
    assert accuracy == (prediction.numpy().argmax(1) == y).mean()
    halves = [F.cross_entropy(prediction[i : i + 8], sg.tensor(y[i : i + 8])).item() for i in (0, 8, 16)]
    assert abs(loss - np.mean(halves)) > 1e-4


def test_shuffle_follows_the_seed_and_reaches_every_example_each_epoch():
    seen = []
    x = np.arange(10, dtype=np.float32).reshape(-1, 1)

    def loss(prediction, target):
        seen.extend(target.reshape(-1).tolist())
        return (prediction - target).pow(2).mean()

    for _ in range(2):
        fitted(regressor(loss=loss), x, x, batch_size=4, epochs=2)
    assert seen[:20] == seen[20:]
    first, second = seen[:10], seen[10:20]
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    assert first != list(range(10))


def test_shuffled_arrays_come_in_the_order_of_a_shuffled_loader():
    x, y = points(20)
    by_arrays = classifier()
    fitted(by_arrays, x, y, batch_size=8, epochs=2)
    by_loader = classifier()
    fitted(by_loader, DataLoader(TensorDataset(sg.tensor(x), sg.tensor(y)), batch_size=8, shuffle=True), epochs=2)
    assert same(weights(by_arrays), weights(by_loader))


def test_train_and_evaluation_modes():
    modes = []

    class Net(nn.Linear):
        def forward(self, x):
            modes.append(self.training)
            return super().forward(x)

    net = Net(1, 1)
    model = sg.Model(net, "sgd", "mse")
    net.eval()
    fitted(model, *line(4), batch_size=4, validation_split=0.5)
    model.evaluate(*line(4), verbose=0)
    net.train()
    model.predict(line(4)[0], verbose=0)
    model.predict_on_batch(line(4)[0])
    model.test_on_batch(*line(4))
    assert net.training
    net.eval()
    model.train_on_batch(*line(4))
    assert modes == [True, False, False, False, False, False, True]
    assert not net.training


def test_each_module_gets_its_own_mode_back():
    net = nn.Sequential(nn.Linear(1, 1), nn.Identity())
    net[1].eval()
    sg.Model(net).predict(sg.ones(2, 1), verbose=0)
    assert (net.training, net[0].training, net[1].training) == (True, True, False)


def test_validation_split_takes_the_last_before_shuffling():
    x = np.arange(10, dtype=np.float32).reshape(-1, 1)
    held_back = []

    def loss(prediction, target):
        if not prediction.requires_grad:
            held_back.extend(target.reshape(-1).tolist())
        return (prediction - target).pow(2).mean()

    fitted(regressor(loss=loss), x, x, validation_split=0.9)
    assert held_back == list(range(1, 10))
    held_back.clear()
    history = fitted(regressor(loss=loss), x, x, validation_split=0.3)
    assert held_back == [7, 8, 9]
    assert list(history.history) == ["loss", "val_loss"]


def test_validation_data_and_frequency():
    x, y = points()
    model = classifier()
    history = fitted(model, x, y, epochs=5, validation_data=(x[:7], y[:7]), validation_freq=2)
    assert {name: len(values) for name, values in history.history.items()} == {
        "loss": 5, "accuracy": 5, "val_loss": 2, "val_accuracy": 2,
    }  # fmt: skip
    assert history.to_dict()["val_loss"][::2] == [None, None, None]
    assert history.history["val_loss"][1] != model.evaluate(x[:7], y[:7], verbose=0)[0]  # epoch 4, and epoch 5 came after it
    again = fitted(model, x, y, validation_data=[(x[:7], y[:7])])
    assert again.history["val_loss"] == [model.evaluate(x[:7], y[:7], verbose=0)[0]]


def test_initial_epoch():
    model, done = regressor(), []
    seen = sg.training.LambdaCallback(on_train_batch_begin=lambda batch, logs: done.append(model.epochs_done))
    assert fitted(model, *line(), epochs=5, initial_epoch=3, callbacks=seen).epoch == [3, 4]
    fitted(model, *line(), callbacks=seen)
    assert done == [3, 4, 0]


# --- what data may be


class Stream(IterableDataset):
    def __init__(self, *columns):
        self.columns = columns

    def __iter__(self):
        return zip(*self.columns, strict=True)


def test_kinds_of_data_give_the_same():
    x, y = points(12)
    kinds = {
        "arrays": dict(x=x, y=y, batch_size=4, shuffle=False),
        "float64": dict(x=x.astype(np.float64), y=y.astype(np.int32), batch_size=4, shuffle=False),
        "tensors": dict(x=sg.tensor(x), y=sg.tensor(y), batch_size=4, shuffle=False),
        "lists": dict(x=x.tolist(), y=y.tolist(), batch_size=4, shuffle=False),
        "list of batches": dict(x=[(x[i : i + 4], y[i : i + 4]) for i in (0, 4, 8)]),
        "list of lists": dict(x=[[x[i : i + 4], y[i : i + 4]] for i in (0, 4, 8)]),
        "loader": dict(x=DataLoader(TensorDataset(sg.tensor(x), sg.tensor(y)), batch_size=4)),
        "dataset": dict(x=TensorDataset(sg.tensor(x), sg.tensor(y)), batch_size=4, shuffle=False),
        "stream": dict(x=Stream(x, y), batch_size=4),
        "generator": dict(x=([x[i : i + 4], y[i : i + 4]] for i in (0, 4, 8))),
        "column": dict(x=x, y=y.reshape(-1, 1), batch_size=4, shuffle=False),
        "one-hot": dict(x=x, y=np.eye(3)[y], batch_size=4, shuffle=False),
        "weighted": dict(x=x, y=y, batch_size=4, shuffle=False, sample_weight=np.ones(12)),
    }
    results = {}
    for name, data in kinds.items():
        model = classifier()
        fitted(model, **data)
        results[name] = np.concatenate([w.reshape(-1) for w in weights(model)])
    for name, found in results.items():
        np.testing.assert_allclose(found, results["arrays"], rtol=1e-5, atol=1e-6, err_msg=name)


class Sum(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(sg.ones(1))

    def forward(self, first, second):
        return {"sum": self.scale * (first + second), "difference": first - second}


def test_several_inputs_and_outputs():
    first, second = sg.ones(5, 1), sg.arange(5.0).reshape(5, 1)
    model = sg.Model(Sum(), "sgd", loss=lambda p, t: F.mse_loss(p["sum"], t), metrics=[lambda p, t: (p["sum"] - t).abs()])
    by_place = model.predict((first, second), batch_size=2, verbose=0)
    by_name = model.predict({"second": second, "first": first}, batch_size=2, verbose=0)
    for found in (by_place, by_name):
        assert found["sum"].reshape(-1).tolist() == [1, 2, 3, 4, 5]
        assert found["difference"].reshape(-1).tolist() == [1, 0, -1, -2, -3]
        assert not found["sum"].requires_grad
    history = fitted(model, {"first": first, "second": second}, first + second + 1, epochs=2)
    assert list(history.history) == ["loss", "lambda"]
    assert history.history["loss"][1] < history.history["loss"][0]


def test_steps_go_on_where_the_epoch_before_stopped():
    seen = []
    batches = [(sg.full((1, 1), float(i)), sg.full((1, 1), float(i))) for i in range(5)]

    def loss(prediction, target):
        seen.append(int(target.item()))
        return (prediction - target).pow(2).mean()

    fitted(regressor(loss=loss), batches, epochs=4, steps_per_epoch=2)
    assert seen == [0, 1, 2, 3, 4, 0, 1, 2]


def test_a_generator_that_runs_out_ends_the_training():
    model = regressor()
    begun = []
    seen = sg.training.LambdaCallback(on_epoch_begin=lambda epoch, logs: begun.append(epoch))
    with pytest.warns(UserWarning, match="ran out before an epoch of 2 steps"):
        history = fitted(model, (line() for _ in range(5)), epochs=9, steps_per_epoch=2, callbacks=seen)
    assert history.epoch == begun == [0, 1, 2]
    with pytest.warns(UserWarning, match="ran out"):
        assert fitted(model, (line() for _ in range(4)), epochs=9, steps_per_epoch=2).epoch == [0, 1]


def test_validation_begins_afresh():
    seen = []
    batches = [(sg.full((1, 1), float(i)), sg.full((1, 1), float(i))) for i in range(5)]

    def loss(prediction, target):
        if not prediction.requires_grad:
            seen.append(int(target.item()))
        return (prediction - target).pow(2).mean()

    model = regressor(loss=loss)
    fitted(model, *line(), epochs=2, validation_data=batches, validation_steps=3)
    model.evaluate(batches, steps=2, verbose=0)
    model.evaluate(batches, steps=9, verbose=0)
    assert seen == [0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="generator can be read once only: for more epochs give validation_steps"):
        fitted(model, *line(), epochs=2, validation_data=(batch for batch in batches))
    assert len(fitted(model, *line(), epochs=2, validation_data=(b for b in batches), validation_steps=2).history["val_loss"]) == 2


def test_what_is_no_array_reaches_the_net_as_it_is():
    Pair = namedtuple("Pair", "first second name")

    class Named(nn.Linear):
        def forward(self, pair):
            assert isinstance(pair, Pair)
            assert pair.name == "ours"
            assert isinstance(pair.second, sg.Tensor)
            return super().forward(pair.first)

    model = sg.Model(Named(1, 1), "sgd", "mse")
    batch = (Pair(sg.ones(3, 1), np.ones(3), "ours"), sg.ones(3, 1))
    assert fitted(model, [batch, batch]).epoch == [0]


def test_without_targets_the_loss_is_of_the_prediction():
    model = regressor(loss=lambda prediction: prediction.pow(2).mean())
    history = fitted(model, sg.ones(4, 1), epochs=20)
    assert history.history["loss"][-1] < 0.1 * history.history["loss"][0]


def test_evaluate_steps_and_predictions_of_a_loader():
    batches = [(sg.full((2, 1), float(i)), sg.zeros(2, 1)) for i in range(3)]
    model = regressor()
    with sg.no_grad():
        model.net.weight.fill_(1.0)
        model.net.bias.fill_(0.0)
    assert model.evaluate(batches, steps=2, verbose=0) == 0.5
    assert model.evaluate(batches, verbose=0) == pytest.approx(5 / 3)
    assert model.predict(batches, verbose=0).reshape(-1).tolist() == [0, 0, 1, 1, 2, 2]
    assert model.predict((x for x, _ in batches), verbose=0).shape == (6, 1)
    assert model.predict([[3.0], (4.0,)], verbose=0).reshape(-1).tolist() == [3, 4]


# --- weights


def test_weights_of_examples_and_classes():
    x, y = points(9)
    model = classifier(metrics=())
    each = F.cross_entropy(model.net(sg.tensor(x)), sg.tensor(y), reduction="none").detach().numpy()
    weight = np.arange(9.0)
    assert model.evaluate(x, y, sample_weight=weight, verbose=0) == pytest.approx((weight * each).mean(), rel=1e-6)
    module = sg.Model(model.net, "sgd", nn.MSELoss())
    squares = (model.net(sg.tensor(x)).detach().numpy() ** 2).mean(1)
    assert module.evaluate(x, np.zeros((9, 3)), sample_weight=weight, verbose=0) == pytest.approx((weight * squares).mean(), rel=1e-6)
    assert module.loss.reduction == "mean"
    first = fitted(classifier(metrics=()), x, y, class_weight={0: 3.0, 2: 0.0}, batch_size=9).history["loss"][0]
    assert first == pytest.approx((np.array([3.0, 1.0, 0.0])[y] * each).mean(), rel=1e-5)


def test_weights_need_a_loss_for_each_example():
    with pytest.raises(ValueError, match="reduction='none'"):
        regressor(loss=lambda p, t: (p - t).pow(2).mean()).evaluate(*line(), sample_weight=np.ones(10), verbose=0)


# --- single batches


def test_single_batches():
    x, y = line(4)
    model = regressor(metrics=["mae"])
    before = model.test_on_batch(x, y, return_dict=True)
    assert list(before) == ["loss", "mae"]
    assert model.train_on_batch(x, y) == [before["loss"], before["mae"]]
    assert model.test_on_batch(x, y)[0] < before["loss"]
    assert model.predict_on_batch(x.numpy()).tolist() == model.net(x).tolist()
    assert isinstance(regressor().train_on_batch(x, y), float)


# --- names


@pytest.mark.parametrize(
    ("name", "function"),
    [("mse", F.mse_loss), ("mean_absolute_error", F.l1_loss), ("huber", F.huber_loss), ("smooth_l1", F.smooth_l1_loss)],
)
def test_losses_of_numbers(name, function):
    x, y = line(5)
    model = regressor(loss=name)
    expected = function(model.net(x), y).item()
    assert model.test_on_batch(x, y) == expected
    assert model.test_on_batch(x, y.reshape(5)) == expected  # (N,) beside (N, 1) does not broadcast to (N, N)


def test_losses_of_probabilities_are_those_of_keras():
    probabilities = sg.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])
    expected = -(np.log(0.7) + np.log(0.3)) / 2
    for name, target in (("sparse_categorical_crossentropy", [0, 1]), ("categorical_crossentropy", [[1, 0, 0], [0, 1, 0]])):
        model = sg.Model(nn.Identity(), loss=name)
        assert model.test_on_batch(probabilities, sg.tensor(target)) == pytest.approx(expected, rel=1e-6)
        assert model.test_on_batch(2 * probabilities, sg.tensor(target)) == pytest.approx(expected, rel=1e-6)  # brought to the sum 1
        with pytest.raises(ValueError, match="loss='cross_entropy', which is of logits"):
            model.test_on_batch(-probabilities, sg.tensor(target))
    binary = sg.Model(nn.Identity(), loss="binary_crossentropy")
    assert binary.test_on_batch(sg.tensor([[0.8], [0.4]]), sg.tensor([1, 0])) == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2, rel=1e-6)
    logits = sg.Model(nn.Identity(), loss="bce_with_logits")
    assert logits.test_on_batch(sg.tensor([[0.0]]), sg.tensor([1])) == pytest.approx(np.log(2), rel=1e-6)
    logs = sg.Model(nn.Identity(), loss="nll")
    assert logs.test_on_batch(probabilities.log(), sg.tensor([0, 1])) == pytest.approx(expected, rel=1e-6)


def test_optimizers():
    net = nn.Linear(1, 1)
    own = sg.optim.SGD(net.parameters(), lr=0.5)
    assert sg.Model(net, own).optimizer is own
    assert isinstance(sg.Model(net, "Adam").optimizer, sg.optim.Adam)
    assert isinstance(sg.Model(net, sg.optim.SGD).optimizer, sg.optim.SGD)
    assert sg.Model(net, functools.partial(sg.optim.SGD, lr=0.25)).optimizer.param_groups[0]["lr"] == 0.25


def test_an_optimizer_that_calls_the_loss_again():
    class Twice(sg.optim.SGD):
        def step(self, closure=None):
            closure()
            return super().step(closure)

    model = regressor()
    model.optimizer = Twice(model.net.parameters(), lr=0.1)
    before = model.test_on_batch(*line())
    assert model.train_on_batch(*line()) == before
    assert model.test_on_batch(*line()) < before


def test_lbfgs_by_name():
    model = regressor(optimizer="lbfgs")
    history = fitted(model, *line(), epochs=5)
    assert history.history["loss"][-1] < 1e-6 < history.history["loss"][0]


def test_another_step():
    class Clipped(sg.Model):
        def train_step(self, batch):
            self.optimizer.zero_grad()
            prediction = self(batch.x)
            loss = self.loss(prediction, batch.y)
            loss.backward()
            norms.append(nn.utils.clip_grad_norm_(self.net.parameters(), 0.1).item())
            self.optimizer.step()
            return self.measured(loss, prediction, batch)

    norms = []
    net = nn.Linear(1, 1)
    before = net.weight.item(), net.bias.item()
    history = fitted(Clipped(net, functools.partial(sg.optim.SGD, lr=1.0), "mse", ["mae"]), *line())
    assert list(history.history) == ["loss", "mae"]
    assert norms[0] > 0.1
    assert np.hypot(net.weight.item() - before[0], net.bias.item() - before[1]) == pytest.approx(0.1, rel=1e-4)


def test_compile_sets_the_same():
    model = sg.Model(nn.Linear(1, 1))
    assert repr(model) == "Model(Linear)"
    assert model.compile(optimizer="sgd", loss=nn.MSELoss(), metrics=["mae", "rmse"]) is None
    assert repr(model) == "Model(Linear, optimizer=SGD, loss=MSELoss, metrics=[mae, rmse])"
    assert len(model.evaluate(*line(), verbose=0)) == 3


# --- files


def test_weights_in_files(tmp_path):
    first, second = classifier(0), classifier(1)
    first.save_weights(tmp_path / "w.safetensors")
    second.load_weights(tmp_path / "w.safetensors")
    assert same(weights(first), weights(second))
    third = classifier(2)
    first.save(tmp_path / "all.safetensors")
    third.load_weights(tmp_path / "all.safetensors")
    assert same(weights(first), weights(third))


def test_a_resumed_training_is_the_uninterrupted_one(tmp_path):
    x, y = points()
    whole = classifier()
    fitted(whole, x, y, epochs=4, batch_size=8)
    half = classifier()
    fitted(half, x, y, epochs=2, batch_size=8)
    half.save(tmp_path / "half.safetensors")
    other = classifier(seed=5)
    done = other.load(tmp_path / "half.safetensors")
    assert done == 2
    history = fitted(other, x, y, epochs=4, batch_size=8, initial_epoch=done)
    assert history.epoch == [2, 3]
    assert same(weights(other), weights(whole))


def test_a_file_that_is_no_checkpoint(tmp_path):
    model = classifier()
    model.save_weights(tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=r"not a checkpoint of Model.save; load_weights"):
        model.load(tmp_path / "w.safetensors")
    sg.Model(model.net).save(tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match="has no optimizer"):
        model.load(tmp_path / "bare.safetensors")


# --- refusals


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more, got 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"epochs": -1}, "epochs must be a whole number"),
        ({"initial_epoch": -1}, "initial_epoch must be a whole number, 0 or more"),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be"),
        ({"validation_freq": 0}, "validation_freq must be"),
        ({"validation_split": 1.0}, r"validation_split=1.0 of 10 examples leaves none on one side"),
        ({"validation_split": -0.5}, "leaves none on one side"),
        ({"verbose": 3}, "verbose must be 'auto', 0, 1 or 2, got 3"),
        ({"y": np.zeros(9)}, r"same number of examples, got inputs Tensor\(10, 1\) torch.float32, targets Tensor\(9,\) torch.float32"),
        ({"x": np.zeros((0, 1)), "y": np.zeros((0, 1))}, "there are no examples"),
        ({"x": [], "y": None}, "there is no batch"),
        ({"x": np.array(["a"] * 10)}, "arrays of numbers are wanted"),
        ({"x": 5}, "one has no dimension"),
        ({"x": object()}, "x must be an array"),
        ({"x": iter([])}, "y and sample_weight belong to arrays"),
        ({"x": iter([]), "y": None, "validation_split": 0.5}, "validation_split cuts arrays"),
        ({"x": iter([]), "y": None, "epochs": 2}, "can be read once only"),
        ({"x": iter([]), "y": None}, "there is no batch"),
        ({"callbacks": [print]}, "a function goes into LambdaCallback"),
        ({"class_weight": {0: 1.0}, "y": (np.zeros(10),)}, "class_weight needs y as one array"),
        ({"sample_weight": np.ones((10, 2))}, "one number for each of 10 examples"),
    ],
)
def test_bad_arguments_change_nothing(options, message):
    model = regressor()
    before = weights(model)
    x, y = line()
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(**{"x": x, "y": y, "verbose": 0} | options)
    assert same(before, weights(model))
    assert model.net.training


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "mean"}, "there is no loss 'mean'; there are bce, "),
        ({"loss": 3}, "loss must be a name or a function"),
        ({"loss": nn.MSELoss}, r"loss must be an instance: MSELoss\(\)"),
        ({"optimizer": "best"}, "there is no optimizer 'best'; there are "),
        ({"optimizer": 0.1}, "optimizer must be an Optimizer, its class or its name, got float 0.1"),
        ({"optimizer": list}, "must make an Optimizer"),
        ({"optimizer": sg.optim.SGD(nn.Linear(1, 1).parameters())}, "holds no parameter of this net"),
        ({"metrics": ["area"]}, "there is no metric 'area'; there are accuracy"),
        ({"metrics": [3]}, "a metric is a name"),
        ({"metrics": [sg.training.Accuracy]}, r"must be an instance: Accuracy\(\)"),
        ({"metrics": ["mae", "mae"]}, r"metrics need names of their own.*: loss, mae, mae"),
        ({"metrics": [sg.training.Mean(F.l1_loss, "val_mae")]}, "do not start with val_"),
    ],
)
def test_bad_choices_change_nothing(options, message):
    model = regressor(metrics=["mae"])
    before = (model.optimizer, model.loss, model.results)
    with pytest.raises((ValueError, TypeError), match=message):
        model.compile(**{"optimizer": "sgd", "loss": "mse"} | options)
    assert before == (model.optimizer, model.loss, model.results)


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match="Model wraps a Module, got function"):
        sg.Model(lambda x: x)
    model = sg.Model(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="the model needs a loss"):
        model.fit(*line())
    model.compile(loss="mse")
    with pytest.raises(RuntimeError, match="the model needs an optimizer"):
        model.fit(*line())
    assert model.evaluate(*line(), verbose=0) > 0


def test_an_error_in_a_batch_names_the_step_and_the_shapes():
    x, y = points(6)
    batches = [(x, y), (x[:, :1], y)]
    model = classifier()
    model.net.eval()
    for call, where in ((model.fit, "fit, epoch 1, step 2"), (model.evaluate, "evaluate, step 2"), (model.predict, "predict, step 2")):
        with pytest.raises(RuntimeError) as caught:
            call(batches, verbose=0)
        targets = ", targets Tensor(6,) torch.int64"
        assert caught.value.__notes__ == [f"{where}: inputs Tensor(6, 1) torch.float32{targets}"]
    with pytest.raises(RuntimeError) as caught:
        fitted(model, x, y, validation_data=batches)
    assert caught.value.__notes__ == [f"fit, validation in epoch 1, step 2: inputs Tensor(6, 1) torch.float32{targets}"]
    assert not model.net.training


def test_a_loss_of_many_numbers_is_refused():
    with pytest.raises(ValueError, match=r"one number, got Tensor\(10, 1\) torch.float32; take its mean"):
        fitted(regressor(loss=lambda p, t: p - t), *line())


# --- memory


def test_no_graph_outlives_its_step():
    alive = []

    def loss(prediction, target):
        alive.append(weakref.ref(prediction.grad_fn))
        return (prediction - target).pow(2).mean()

    model = regressor(loss=loss, metrics=["mae", "accuracy", lambda p, t: p.mean()])
    gc.collect()
    gc.disable()
    try:
        fitted(model, *line(), epochs=3, batch_size=2, shuffle=False)
    finally:
        gc.enable()
    assert len(alive) == 15
    assert [ref() for ref in alive] == [None] * 15


# --- summary


def test_summary(capsys):
    model = classifier()
    model.net[0].bias.requires_grad_(False)
    model.summary()
    assert "?" in capsys.readouterr().out
    model.summary(np.zeros((5, 2)))
    assert capsys.readouterr().out == (
        "Layer (type)   Output shape   Parameters\n"
        "────────────────────────────────────────\n"
        "Sequential     (5, 3)                  -\n"
        "  0 (Linear)   (5, 8)                 24\n"
        "  1 (Tanh)     (5, 8)                  -\n"
        "  2 (Linear)   (5, 3)                 27\n"
        "────────────────────────────────────────\n"
        "Parameters:  51 (204 bytes)\n"
        "  trained:   43 (172 bytes)\n"
        "  frozen:    8 (32 bytes)\n"
    )
    fitted(model, *points())
    capsys.readouterr()
    model.summary()
    assert "(1, 8)" in capsys.readouterr().out
    assert all(not module._forward_hooks and module.training for module in model.net.modules())
