"""What a Model is told: losses and optimizers by name, steps of one's own; bad choices are refused before any work."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from small_models import classifier, fitted, line, points, regressor, same, weights

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.training import losses

# --- names


@pytest.mark.parametrize("name", ["Optimizer", "lr_scheduler", "swa_utils", "__name__", "", "adams"])
def test_names_that_are_no_optimizer(name):
    with pytest.raises(ValueError, match=r"there is no optimizer .*; there are adadelta"):
        regressor(loss="mse", optimizer=name)


@pytest.mark.parametrize("name", [name for name, value in vars(sg.optim).items() if isinstance(value, type) and name != "Optimizer"])
def test_names_of_optimizers(name):
    assert type(regressor(loss="mse", optimizer=name.lower()).optimizer) is getattr(sg.optim, name)


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
        ({"validation_steps": 0}, "validation_steps must be"),
        ({"validation_batch_size": 0}, "validation_batch_size must be"),
        ({"epochs": True}, "epochs must be a whole number, 1 or more, got True"),
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


CALLS = {
    "fit": lambda model, **options: model.fit(*line(), verbose=0, **options),
    "train_on_batch": lambda model: model.train_on_batch(*line()),
    "evaluate": lambda model, **options: model.evaluate(*line(), verbose=0, **options),
    "test_on_batch": lambda model: model.test_on_batch(*line()),
    "predict": lambda model, **options: model.predict(line()[0], verbose=0, **options),
    "predict_on_batch": lambda model: model.predict_on_batch(line()[0]),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_each_call_needs(call):
    """Training needs a loss and an optimizer, testing a loss, predicting neither."""
    bare, without_optimizer = sg.Model(nn.Linear(1, 1)), sg.Model(nn.Linear(1, 1), loss="mse")
    if "predict" in call:
        assert CALLS[call](bare).shape == (10, 1)
        return
    with pytest.raises(RuntimeError, match="the model needs a loss"):
        CALLS[call](bare)
    if call in ("evaluate", "test_on_batch"):
        assert CALLS[call](without_optimizer) > 0
        return
    with pytest.raises(RuntimeError, match="the model needs an optimizer"):
        CALLS[call](without_optimizer)


@pytest.mark.parametrize("option", ["batch_size", "steps"])
@pytest.mark.parametrize("call", ["evaluate", "predict"])
def test_counts_are_checked_by_name(call, option):
    with pytest.raises(ValueError, match=f"{option} must be a whole number, 1 or more, got 0"):
        CALLS[call](regressor(), **{option: 0})
    CALLS[call](regressor(), **{option: 1})


@pytest.mark.parametrize("call", CALLS)
def test_only_training_leaves_gradients_and_results_without_a_graph(call):
    model = regressor()
    result = CALLS[call](model)
    trained = call in ("fit", "train_on_batch")
    assert (model.net.weight.grad is not None) == trained
    assert not getattr(result, "requires_grad", False)


def test_results_of_a_batch_are_of_that_batch_alone():
    model = regressor(metrics=["mae"])
    x, y = line()
    first = model.test_on_batch(x, y)
    model.test_on_batch(x, y + 100)
    assert model.test_on_batch(x, y) == first
    model.evaluate(x, y + 100, verbose=0)
    assert model.evaluate(x, y, verbose=0) == pytest.approx(first, rel=1e-6)
    model.test_on_batch(x, y + 100)
    assert model.train_on_batch(x, y) == first


def test_metrics_alone_are_a_list_of_one():
    for given, names in ((None, []), ("mae", ["mae"]), (F.l1_loss, ["l1_loss"]), (("mae", "mse"), ["mae", "mse"])):
        assert [metric.name for metric in regressor(metrics=given).metrics] == names


def test_a_kernel_that_is_refused_changes_nothing():
    model = regressor(metrics=["mae"])
    before = (model.optimizer, model.loss, model.results)
    with pytest.raises(ValueError, match="jit_compile: LBFGS"):
        model.compile("lbfgs", "mae", jit_compile=True)
    assert before == (model.optimizer, model.loss, model.results)


# --- losses by hand


@pytest.mark.parametrize(("reduction", "expected"), [("mean", 1.5), ("sum", 3.0), ("none", [1.0, 2.0])])
@pytest.mark.parametrize("name", ["categorical_crossentropy", "sparse_categorical_crossentropy"])
def test_reductions_of_losses_of_probabilities(name, reduction, expected):
    """Probabilities are powers of e: the losses are 1 and 2."""
    probabilities = sg.tensor([[np.exp(-1), 1 - np.exp(-1)], [1 - np.exp(-2), np.exp(-2)]])
    for target in (sg.tensor([0, 1]), sg.tensor([[0], [1]]), sg.tensor([[1, 0], [0, 1]])):
        assert losses.LOSSES[name](probabilities, target, reduction=reduction).tolist() == pytest.approx(expected)


def test_probabilities_are_kept_away_from_zero_and_one():
    """As in Keras, whose epsilon is 1e-7; the limits have gradients of their own."""
    impossible = sg.tensor([[0.0, 1.0]], dtype=sg.float64)
    for target, expected in ((0, -np.log(1e-7)), (1, -np.log(1 - 1e-7))):
        assert losses.LOSSES["sparse_categorical_crossentropy"](impossible, sg.tensor([target])).item() == pytest.approx(
            expected, rel=1e-12
        )
    one = losses.LOSSES["categorical_crossentropy"](
        sg.tensor([0.25, 0.75]), sg.tensor([1.0, 0.0])
    )  # one example without an axis of batches
    assert one.item() == pytest.approx(np.log(4))
    pictures = sg.tensor([[[0.25, 0.5], [0.75, 0.5]]])  # classes on axis 1
    assert losses.LOSSES["categorical_crossentropy"](pictures, sg.tensor([[[1, 0], [0, 1]]])).item() == pytest.approx(np.log(8) / 2)


@pytest.mark.parametrize("name", sorted(losses.LOSSES))
def test_every_loss_by_name_can_be_weighted(name):
    """The mean of weight times loss is the mean of the losses of examples one by one, times their weights."""
    loss = losses.loss_of(name.upper())
    prediction = sg.tensor([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    target = sg.tensor([0, 1, 1]) if "nll" in name or ("cross" in name and "binary" not in name) else sg.tensor([[0.0, 1], [1, 0], [1, 1]])
    weight = sg.tensor([1.0, 2.0, 4.0])
    one_by_one = [loss(prediction[i : i + 1], target[i : i + 1]).item() for i in range(3)]
    expected = np.mean(np.array([1.0, 2.0, 4.0]) * one_by_one)
    assert losses.weighted(loss, prediction, target, weight).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(4,), (4, 1), (1, 4), (4, 2)])
def test_targets_take_the_shape_of_the_prediction_only_if_a_last_axis_of_one_is_all_they_differ_by(shape):
    target = sg.zeros(4, dtype=sg.int64)
    found = losses.matched(sg.zeros(shape), target)
    assert found.shape == (shape if shape in ((4,), (4, 1)) else (4,))
    assert found.dtype == sg.float32
    assert losses.matched(sg.zeros(4), sg.zeros(4, 1)).shape == (4,)
    assert losses.matched(sg.zeros(1), sg.zeros(1, 1)).shape == (1,)


def test_targets_of_classes():
    logits = sg.zeros(2, 3)
    assert losses.classes(logits, sg.tensor([1.0, 2.0])).tolist() == [1, 2]
    assert losses.classes(logits, sg.tensor([[1], [2]], dtype=sg.uint8)).dtype == sg.int64
    assert losses.classes(sg.zeros(2, 3, 4), sg.zeros(2, 1, 4)).shape == (2, 4)
    assert losses.classes(logits, sg.zeros(2, 3, dtype=sg.int64)).dtype == sg.float32  # probabilities
    assert losses.classes(sg.zeros(3), sg.zeros(3)).dtype == sg.int64
