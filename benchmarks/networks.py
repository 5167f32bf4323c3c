"""Whole training steps and epochs: the two-layer net of the tutorials, convolutions and a conv net, LSTMs written out and as layers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from harness import Task

import symgrad as sg


def two_layer():
    rng = np.random.default_rng(0)
    shapes = ((64, 1000), (64, 10), (1000, 100), (100, 10))
    data = [rng.normal(size=s).astype(np.float32) for s in shapes]
    lr = 1e-12  # so that every call does the same work

    def by_hand(x, y, w1, w2):
        """As the tutorial has it."""

        def step():
            h = x.dot(w1)
            h_relu = np.maximum(h, 0)
            y_pred = h_relu.dot(w2)
            np.square(y_pred - y).sum()
            grad_y_pred = 2.0 * (y_pred - y)
            grad_w2 = h_relu.T.dot(grad_y_pred)
            grad_h_relu = grad_y_pred.dot(w2.T)
            grad_h = grad_h_relu.copy()
            grad_h[h < 0] = 0
            grad_w1 = x.T.dot(grad_h)
            w1.__isub__(lr * grad_w1)
            w2.__isub__(lr * grad_w2)
            return grad_w1, grad_w2

        return step

    def eager(lib, x, y, w1, w2):
        def step():
            w1.grad = w2.grad = None
            loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
            loss.backward()
            with lib.no_grad():
                w1.sub_(lr * w1.grad)
                w2.sub_(lr * w2.grad)
            return w1.grad, w2.grad

        return step

    def prepared(lib):
        x, y, w1, w2 = (lib.from_numpy(a.copy()) for a in data)
        return eager(lib, x, y, w1.requires_grad_(), w2.requires_grad_())

    yield Task(
        "two-layer net (64, 1000, 100, 10), forward + backward + update, float32",
        {"numpy by hand": by_hand(*(a.copy() for a in data)), "symgrad": prepared(sg), "torch": prepared(torch)},
        targets={"numpy by hand": 1.1, "torch": 0.65}, unit="ms", rtol=1e-3,
    )


def convolution():
    rng = np.random.default_rng(0)
    for x_shape, w_shape, options in (
        ((64, 1, 8, 8), (16, 1, 3, 3), {"padding": 1}),
        ((64, 16, 8, 8), (32, 16, 3, 3), {"padding": 1}),
        ((16, 64, 28, 28), (64, 64, 3, 3), {"padding": 1}),
        ((32, 3, 32, 32), (32, 3, 3, 3), {"stride": 2}),
    ):
        data = [rng.normal(size=s).astype(np.float32) for s in (x_shape, w_shape)]

        def prepared(lib, data=data, options=options):
            x, w = (lib.from_numpy(a.copy()).requires_grad_() for a in data)

            def step():
                x.grad = w.grad = None
                lib.nn.functional.conv2d(x, w, **options).relu().sum().backward()
                return x.grad, w.grad

            return step

        yield Task(
            f"conv2d {x_shape} * {w_shape} {options}, forward + backward", {"torch": prepared(torch), "symgrad": prepared(sg)},
            targets={"torch": 3.0}, unit="ms", rtol=1e-3,
        )


def lstm():
    """One layer of 64 units over 32 steps of a batch of 32, written with the ops."""
    rng = np.random.default_rng(0)
    data = [rng.normal(size=s).astype(np.float32) * 0.1 for s in ((32, 32, 64), (64, 256), (64, 256), (256,))]

    def prepared(lib):
        x, w, u, b = (lib.from_numpy(a.copy()).requires_grad_() for a in data)

        def step():
            w.grad = u.grad = b.grad = None
            h = c = lib.zeros(32, 64)
            for i in range(x.shape[0]):
                gates = x[i] @ w + h @ u + b
                i_gate, f_gate, g_gate, o_gate = gates.chunk(4, 1)
                c = f_gate.sigmoid() * c + i_gate.sigmoid() * g_gate.tanh()
                h = o_gate.sigmoid() * c.tanh()
            h.sum().backward()
            return w.grad, u.grad, b.grad

        return step

    yield Task(
        "LSTM written out, 32 steps, batch 32, 64 units, forward + backward", {"torch": prepared(torch), "symgrad": prepared(sg)},
        targets={"torch": 3.0}, unit="ms", rtol=1e-3,
    )


def layers_of_lstm():
    """An epoch of ten batches of characters: embedding, two layers, a linear one, from the same weights."""
    rng = np.random.default_rng(0)
    for batch, steps, units in ((32, 50, 128), (16, 32, 64)):
        text = rng.integers(0, 60, (10, steps + 1, batch))

        def prepared(lib, text=text, units=units):
            nn = lib.nn
            lib.manual_seed(0)
            embed, lstm, last = nn.Embedding(60, 32), nn.LSTM(32, units, 2), nn.Linear(units, 60)
            net = nn.ModuleList([embed, lstm, last])
            optimizer = lib.optim.Adam(net.parameters(), lr=1e-3)
            batches = lib.from_numpy(text)

            def epoch():
                losses = []
                for x in batches:
                    loss = nn.functional.cross_entropy(last(lstm(embed(x[:-1]))[0]).flatten(0, 1), x[1:].flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
                return np.array(losses)

            return epoch

        yield Task(
            f"2-layer LSTM, one epoch of 10 batches, {steps} steps, batch {batch}, {units} units, Adam",
            {"torch": prepared(torch), "symgrad": prepared(sg)}, targets={"torch": 3.0}, unit="ms", rtol=1e-4,
        )


def digits():
    """An epoch of examples/digits.py: 1347 images in batches of 64, from the same weights and with the same numbers for dropout."""
    rng = np.random.default_rng(0)
    images, labels = rng.random((1347, 1, 8, 8), np.float32), rng.integers(0, 10, 1347)

    def prepared(lib):
        nn = lib.nn
        lib.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Dropout(0.5), nn.Linear(32 * 4 * 4, 10),
        )  # fmt: skip
        optimizer = lib.optim.Adam(net.parameters(), lr=1e-3)
        x, y = lib.from_numpy(images), lib.from_numpy(labels)

        def epoch():
            losses = []
            for start in range(0, len(x), 64):
                loss = nn.functional.cross_entropy(net(x[start : start + 64]), y[start : start + 64])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return np.array(losses)

        return epoch

    yield Task(
        "digits conv net with batch norm, one epoch, batch 64, Adam", {"torch": prepared(torch), "symgrad": prepared(sg)},
        targets={"torch": 3.0}, unit="ms", rtol=1e-4,
    )


def perceptrons():
    """Linear and ReLU layers with an optimizer: the whole step, and the optimizer's part of it."""

    def prepared(lib, sizes, name, options, whole):
        nn = lib.nn
        lib.manual_seed(0)
        layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
        net = nn.Sequential(*layers[:-1])
        optimizer = getattr(lib.optim, name)(net.parameters(), **options)
        x, y = lib.randn(64, sizes[0]), lib.randn(64, sizes[-1])

        def step():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        def update():
            optimizer.step()
            return next(net.parameters()).detach()

        step()
        return step if whole else update

    for sizes in ((10, 16, 16, 1), (784, 256, 256, 10), (1000, 2000, 10)):
        for name, options in (("SGD", {"lr": 1e-7}), ("SGD", {"lr": 1e-7, "momentum": 0.9}), ("Adam", {"lr": 1e-7})):
            for whole in (True, False):
                words = f"{name}{' with momentum' if 'momentum' in options else ''}, {'training step' if whole else 'optimizer.step'}"
                contenders = {lib.__name__: prepared(lib, sizes, name, options, whole) for lib in (torch, sg)}
                yield Task(f"MLP {sizes}, {words}, batch 64, float32", contenders, targets={"torch": 1.0}, rtol=1e-3)


def tasks():
    yield from two_layer()
    yield from perceptrons()
    yield from convolution()
    yield from lstm()
    yield from layers_of_lstm()
    yield from digits()
