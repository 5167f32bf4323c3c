"""What a Model may be given as data: arrays, tensors, datasets, loaders, generators, several inputs; and steps of an epoch."""

from __future__ import annotations

import linecache
from collections import namedtuple

import numpy as np
import pytest
from small_models import classifier, fitted, line, points, regressor, same, weights

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.utils.data import DataLoader, IterableDataset, TensorDataset


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
    with pytest.warns(UserWarning, match="ran out before an epoch of 2 steps") as warned:
        history = model.fit((line() for _ in range(5)), epochs=9, steps_per_epoch=2, callbacks=seen, verbose=0)
    assert "history = model.fit(" in linecache.getline(warned[0].filename, warned[0].lineno)
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


def test_a_dataset_is_shuffled_as_its_loader_would_be():
    x, y = points(12)
    dataset = TensorDataset(sg.tensor(x), sg.tensor(y))
    trained = {}
    for name, data in {"dataset": dict(x=dataset, batch_size=5), "loader": dict(x=DataLoader(dataset, 5, shuffle=True))}.items():
        model = classifier()
        fitted(model, **data)
        trained[name] = weights(model)
    assert same(trained["dataset"], trained["loader"])


def targets_seen(y):
    """What the loss is given for targets, batch by batch."""
    seen = []

    def noted(prediction, target):
        seen.append(target)
        return prediction.pow(2).mean()

    fitted(regressor(loss=noted), np.zeros((len(y), 1)), y, shuffle=False)
    return seen


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([True, False]), sg.bool), (np.array([1, 2], np.uint8), sg.int64), (np.array([1, 2], np.int16), sg.int64),
        (np.array([1.0, 2.0]), sg.float32), (np.array([1, 2j]), sg.complex128), (sg.tensor([1, 2], dtype=sg.int32), sg.int32),
        (sg.tensor([1.0, 2.0], dtype=sg.float64), sg.float64), ([1, 2], sg.int64), ([1.0, 2.0], sg.float32),
    ],
)  # fmt: skip
def test_types_of_data(given, expected):
    """Arrays of floats come in the type of the net, of integers as int64; other arrays and all tensors come in their own."""
    (seen,) = targets_seen(given)
    assert seen.dtype == expected
    assert seen.tolist() == list(given.tolist() if hasattr(given, "tolist") else given)


def test_lists_of_numbers_are_arrays_and_lists_of_arrays_are_several():
    (seen,) = targets_seen([[1.0, 2.0], [3.0, 4.0]])
    assert seen.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    inputs = [np.ones((2, 1)), np.full((2, 1), 2.0)]
    model = sg.Model(Sum())
    assert model.predict([(inputs, None)], verbose=0)["sum"].tolist() == [[3.0], [3.0]]
    assert model.predict([[inputs, None]], verbose=0)["difference"].tolist() == [[-1.0], [-1.0]]


@pytest.mark.parametrize(
    "y", [np.array([0, 2, 1, 2]), [0, 2, 1, 2], np.array([[0], [2], [1], [2]]), np.eye(3)[[0, 2, 1, 2]], sg.tensor([0, 2, 1, 2])]
)
def test_weights_of_classes_from_all_kinds_of_targets(y):
    """By hand: the logits are 0, so each example costs log 3 times the weights of its class and of itself."""
    sample_weight = np.array([1.0, 2.0, 3.0, 4.0])
    for given, expected in ((None, [5, 3, 1, 3]), (sample_weight, [5, 6, 3, 12])):
        model = sg.Model(nn.Linear(1, 3, bias=False), "sgd", "cross_entropy")
        options = {"class_weight": {0: 5.0, 2: 3.0}, "sample_weight": given}
        history = fitted(model, np.zeros((4, 1)), y, **options)
        assert history.history["loss"] == pytest.approx([np.mean(expected) * np.log(3)], rel=1e-6)


def test_batches_of_validation_and_of_the_last_epoch():
    sizes = []

    def loss(prediction, target):
        sizes.append((len(target), prediction.requires_grad))
        return (prediction - target).pow(2).mean()

    def fit(**options):
        sizes.clear()
        fitted(regressor(loss=loss), *line(6), batch_size=4, validation_data=line(5), **options)
        return [size for size, training in sizes if not training]

    assert fit() == [4, 1]
    assert fit(validation_batch_size=3) == [3, 2]
    assert fit(validation_batch_size=3, validation_steps=1) == [3]
    generator = ((x, y) for x, y in [line(2)] * 3)
    assert fitted(regressor(), generator, epochs=5, initial_epoch=4).epoch == [4]  # one epoch reads it once


def test_shapes_in_errors_are_those_of_the_containers():
    class Broken(nn.Linear):
        def forward(self, *args, **kwargs):
            raise RuntimeError("broken")

    model = sg.Model(Broken(1, 1), "sgd", "mse")
    for x, expected in (
        ((sg.ones(2, 1), sg.ones(2)), "inputs (Tensor(2, 1) torch.float32, Tensor(2,) torch.float32)"),
        ({"a": sg.ones(2, 1)}, "inputs {'a': Tensor(2, 1) torch.float32}"),
    ):
        with pytest.raises(RuntimeError) as caught:
            model.predict(x, verbose=0)
        assert caught.value.__notes__ == [f"predict, step 1: {expected}"]
