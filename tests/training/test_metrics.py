"""Metrics: batch by batch they give what the whole data gives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn, training
from symgrad.training.metrics import metric_of

LOGITS = np.array([[2.0, 1, 0], [0, 3, 1], [1, 0, 4], [5, 1, 2], [0, 1, 2], [1, 2, 0], [0, 2, 1]], dtype=np.float32)
TRUE = np.array([0, 1, 2, 1, 1, 1, 0])  # predicted are 0 1 2 0 2 1 1


def gathered(metric, prediction, target, size=3):
    """The result of batches of `size`, after a reset that must forget what came before."""
    metric.update(sg.tensor(prediction[:1]), sg.tensor(target[:1]))
    metric.reset()
    for start in range(0, len(target), size):
        metric.update(sg.tensor(prediction[start : start + size]), sg.tensor(target[start : start + size]))
    return metric.result()


def test_accuracy_of_classes():
    assert gathered(training.Accuracy(), LOGITS, TRUE) == pytest.approx(4 / 7)
    assert gathered(training.Accuracy(), LOGITS, TRUE.reshape(-1, 1)) == pytest.approx(4 / 7)
    assert gathered(training.Accuracy(), LOGITS, np.eye(3)[TRUE]) == pytest.approx(4 / 7)


def test_accuracy_of_pictures():
    """Classes on axis 1, as in cross_entropy."""
    prediction = np.array([[[0.0, 1], [1, 0]], [[3, 3], [1, 4]]])  # (2, 2, 2): classes [1, 0] and [0, 1]
    assert gathered(training.Accuracy(), prediction, np.array([[1, 1], [0, 1]]), 1) == 0.75


def test_accuracy_of_one_output():
    prediction, target = np.array([[0.2], [0.7], [0.5], [0.9]]), np.array([0, 1, 1, 0])
    assert gathered(training.Accuracy(), prediction, target) == 0.5
    assert gathered(training.BinaryAccuracy(), prediction, target.reshape(-1, 1)) == 0.5
    assert gathered(training.BinaryAccuracy(threshold=0.1), prediction, target) == 0.5
    assert gathered(training.BinaryAccuracy(threshold=0.45), prediction, target) == 0.75


def test_top_k():
    assert gathered(training.TopKAccuracy(2), LOGITS, TRUE) == pytest.approx(5 / 7)
    assert gathered(training.TopKAccuracy(1), LOGITS, TRUE) == pytest.approx(4 / 7)
    assert gathered(training.TopKAccuracy(9), LOGITS, TRUE) == 1.0
    assert training.TopKAccuracy(3).name == "top_3_accuracy"


def test_precision_recall_and_f1_of_classes_are_means_over_the_classes():
    """Predicted 2, 3, 2; true 2, 4, 1; both 1, 2, 1."""
    precision, recall = [1 / 2, 2 / 3, 1 / 2], [1 / 2, 2 / 4, 1 / 1]
    f1 = [2 * p * r / (p + r) for p, r in zip(precision, recall, strict=True)]
    assert gathered(training.Precision(), LOGITS, TRUE) == pytest.approx(np.mean(precision))
    assert gathered(training.Recall(), LOGITS, TRUE) == pytest.approx(np.mean(recall))
    assert gathered(training.F1Score(), LOGITS, TRUE) == pytest.approx(np.mean(f1))


def test_precision_recall_and_f1_of_one_output_are_of_the_positives():
    prediction, target = np.array([[0.9], [0.8], [0.7], [0.2], [0.1]]), np.array([1, 0, 0, 1, 0])
    assert gathered(training.Precision(), prediction, target) == pytest.approx(1 / 3)
    assert gathered(training.Recall(), prediction, target) == pytest.approx(1 / 2)
    assert gathered(training.F1Score(), prediction, target) == pytest.approx(2 / 5)
    nothing = np.zeros((3, 1))
    assert [gathered(m(), nothing, np.zeros(3)) for m in (training.Precision, training.Recall, training.F1Score)] == [0.0, 0.0, 0.0]


def test_errors_of_numbers():
    prediction, target = np.array([[1.0], [2.0], [3.0], [7.0]]), np.array([1.0, 1, 1, 1])
    assert gathered(metric_of("mae", None), prediction, target) == pytest.approx(9 / 4)
    assert gathered(metric_of("mean_squared_error", None), prediction, target) == pytest.approx(41 / 4)
    assert gathered(metric_of("rmse", None), prediction, target) == pytest.approx(math.sqrt(41 / 4))  # not the mean of the batches' roots


def test_functions_return_a_number_or_one_for_each_example():
    prediction, target = np.arange(4.0), np.zeros(4)
    assert gathered(training.Mean(lambda p, t: (p - t).mean()), prediction, target) == 1.5
    assert gathered(training.Mean(lambda p, t: p - t), prediction, target) == 1.5
    assert gathered(training.Mean(lambda p, t: float(len(p))), prediction, target) == (3 * 3 + 1) / 4


def test_nothing_gathered_is_nan():
    for metric in (training.Accuracy(), training.F1Score(), training.RootMeanSquaredError()):
        assert math.isnan(metric.result())


@pytest.mark.parametrize("name", ["accuracy", "acc", "binary_accuracy", "precision", "recall", "f1", "f1_score"])
def test_a_name_goes_by_the_loss(name):
    """Logits are split at 0, probabilities at 0.5."""
    logits = sg.tensor([[0.3, -1.0]])  # two labels, both right
    target = sg.tensor([[1.0, 0.0]])
    losses = {"bce_with_logits": 0.0, "bce": 0.5, nn.functional.binary_cross_entropy_with_logits: 0.0}
    for loss, threshold in losses.items():
        model = sg.Model(nn.Identity(), loss=loss, metrics=[name])
        assert model.metrics[0].threshold == threshold
        assert model.metrics[0].name == name
    if name in ("accuracy", "acc"):
        model = sg.Model(nn.Identity(), loss="bce_with_logits", metrics=[name])
        assert model.test_on_batch(logits, target)[1] == 1.0
        assert model.test_on_batch(logits, sg.tensor([[1.0, 1.0]]))[1] == 0.5


def test_names_of_metrics():
    for name in ("top_5_accuracy", "sparse_categorical_accuracy", "categorical_accuracy", "root_mean_squared_error"):
        assert metric_of(name, None).name == name
    assert metric_of("top_7_accuracy", None).k == 7
    with pytest.raises(ValueError, match="there is no metric 'top_0_accuracy'"):
        metric_of("top_0_accuracy", None)


def test_any_object_with_the_methods_will_do():
    class Largest:
        name = "largest"

        def reset(self):
            self.value = -math.inf

        def update(self, prediction, target):
            assert not prediction.requires_grad
            self.value = max(self.value, prediction.max().item())

        def result(self):
            return self.value

    model = sg.Model(nn.Linear(1, 1), "sgd", "mse", metrics=[Largest()])
    with sg.no_grad():
        model.net.weight.fill_(1.0)
        model.net.bias.fill_(0.0)
    x = sg.arange(6.0).reshape(6, 1)
    assert model.evaluate(x, x, batch_size=2, verbose=0) == [0.0, 5.0]
    assert list(model.fit(x, x, verbose=0).history) == ["loss", "largest"]


@pytest.mark.parametrize("make", [training.Precision, training.Recall, training.F1Score])
def test_one_output_in_all_shapes_and_two_classes_are_the_same(make):
    """Positive are the second class of two, and what exceeds the threshold, itself not included."""
    prediction, target = np.array([0.9, 0.8, 0.5, 0.2, 0.1, 0.6]), np.array([1, 0, 1, 1, 0, 1])
    expected = gathered(make(), prediction, target)
    assert 0 < expected < 1
    assert gathered(make(), prediction.reshape(-1, 1), target) == expected
    assert gathered(make(), np.stack([1 - prediction, prediction - 1e-9], axis=1), target) == expected
    assert gathered(make(threshold=0.4), prediction, target) > expected


def test_a_class_that_is_never_predicted_or_never_true_counts_as_zero():
    """Predicted are the classes 0, 0 and 1; true are 0, 2 and 1."""
    prediction, target = np.eye(4)[[0, 0, 1]], np.array([0, 2, 1])
    assert gathered(training.Precision(), prediction, target) == pytest.approx((0.5 + 1 + 0 + 0) / 4)
    assert gathered(training.Recall(), prediction, target) == pytest.approx((1 + 1 + 0 + 0) / 4)
    assert gathered(training.F1Score(), prediction, target) == pytest.approx((2 / 3 + 1 + 0 + 0) / 4)


def test_predictions_at_the_threshold_are_negative():
    half = np.array([[0.5], [0.5]])
    for metric in (training.Accuracy(), training.BinaryAccuracy()):
        assert gathered(metric, half, np.array([0, 1]), 1) == 0.5
        assert gathered(metric, half, np.array([0.5, 0.5]), 1) == 1.0  # and so are targets at a half


@pytest.mark.parametrize(
    ("name", "threshold"), [("accuracy", 0.5), ("binary_accuracy", 0.5), ("precision", 0.5), ("recall", 0.5), ("f1", 0.5)]
)
def test_metrics_have_their_names_and_thresholds(name, threshold):
    made = {"accuracy": training.Accuracy, "binary_accuracy": training.BinaryAccuracy, "precision": training.Precision,
            "recall": training.Recall, "f1": training.F1Score}[name]  # fmt: skip
    assert (made().name, made().threshold) == (name, threshold)
    assert (made("mine", 0.25).name, made("mine", 0.25).threshold) == ("mine", 0.25)


def test_names_of_functions():
    def relative(prediction, target):
        return (prediction - target).abs()

    assert training.Mean(relative).name == "relative"
    assert training.Mean(relative, "other").name == "other"
    assert training.Mean(lambda p, t: p).name == "lambda"
    assert training.Mean(nn.MSELoss()).name == "MSELoss"


def test_examples_are_counted_in_the_first_output():
    """A batch without an axis is one example."""
    mean = training.Mean(lambda p, t: p[0].sum())
    mean.update((sg.ones(3), sg.ones(5)), None)
    assert (mean.total, mean.count) == (9.0, 3)
    single = training.Mean(lambda p, t: p)
    single.update(sg.tensor(7.0), None)
    assert (single.total, single.count) == (7.0, 1)


def test_means_are_of_double_precision():
    """16 million and one is no float32."""
    mean = training.Mean(lambda p, t: p)
    mean.update(sg.tensor([16777216.0, 1.0]), None)
    assert mean.result() == 16777217 / 2
