"""Model: fit, evaluate and predict give what a loop written by hand gives."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from small_models import classifier, fitted, line, points, regressor, same, weights

import symgrad as sg
from symgrad import nn
from symgrad.nn import functional as F
from symgrad.training.summary import _size
from symgrad.utils.data import DataLoader, TensorDataset

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


def test_summary_of_nested_modules(capsys):
    net = nn.Sequential(nn.Sequential(nn.Linear(100, 100)), nn.LSTM(100, 3))
    net[1].weight_hh_l0.requires_grad_(False)
    net.eval()
    sg.Model(net).summary(np.zeros((2, 100)))
    lines = capsys.readouterr().out.splitlines()
    assert [text[:16].rstrip() for text in lines[2:6]] == ["Sequential", "  0 (Sequential)", "    0 (Linear)", "  1 (LSTM)"]
    assert lines[4].split()[-3:] == ["(2,", "100)", "10,100"]
    assert "(2, 3), (1, 3), (1, 3)" in lines[5]  # the output, and the two states
    assert not any(module.training or module._forward_hooks for module in net.modules())
    frozen, trained = 12 * 3, 10_100 + 12 * 100 + 24
    assert lines[-3:] == [
        f"Parameters:  {trained + frozen:,} ({4 * (trained + frozen) / 1024:.1f} KB)",
        f"  trained:   {trained:,} ({4 * trained / 1024:.1f} KB)",
        f"  frozen:    {frozen} ({4 * frozen} bytes)",
    ]


def test_summary_computes_no_gradients_and_leaves_an_error_no_hooks():
    seen = []

    class Net(nn.Linear):
        def forward(self, x):
            seen.append((super().forward(x).requires_grad, self.training))
            return super().forward(x)

    model = sg.Model(Net(1, 1))
    model.summary(sg.ones(1, 1))
    assert seen == [(False, False)]
    with pytest.raises(RuntimeError):
        model.summary(sg.ones(1, 2))
    assert not model.net._forward_hooks
    assert model.net.training


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KB"),
        (1536, "1.5 KB"),
        (1024**2, "1.0 MB"),
        (1024**3 * 2, "2.0 GB"),
        (1024**4, "1024.0 GB"),
    ],
)
def test_sizes_in_bytes(count, text):
    assert _size(count) == text


def test_an_example_is_kept_apart_from_the_data():
    x, y = line(4)
    model = regressor()
    fitted(model, x, y, shuffle=False)
    first = x[:1].tolist()
    x.zero_()
    assert model.example.tolist() == first
    fitted(model, x + 5, y)
    assert model.example.tolist() == first


def test_what_a_checkpoint_of_a_model_without_an_optimizer_restores(tmp_path):
    model = regressor()
    fitted(model, *line(), epochs=2)
    model.save(tmp_path / "all")
    sg.manual_seed(9)
    bare = sg.Model(nn.Linear(1, 1))
    assert (bare.load(tmp_path / "all"), bare.epochs_done) == (2, 2)
    assert same(weights(bare), weights(model))
    drawn = sg.rand(3).tolist()
    model.load(tmp_path / "all")
    assert sg.rand(3).tolist() == drawn
