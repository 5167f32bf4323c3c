"""Small models and data for the tests of training."""

from __future__ import annotations

import numpy as np

import symgrad as sg
from symgrad import nn


def points(count: int = 20, classes: int = 3, seed: int = 0):
    """Points around the corners of a triangle, and which corner."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    corners = np.array([[0, 0], [3, 0], [0, 3]])[:classes]
    return (corners[labels] + 0.3 * rng.normal(size=(count, 2))).astype(np.float32), labels


def line(count: int = 10):
    """y = 2x + 1 on a few points, as tensors."""
    x = sg.linspace(-1, 1, count).reshape(-1, 1)
    return x, 2 * x + 1


def classifier(seed: int = 0, **options) -> sg.Model:
    sg.manual_seed(seed)
    net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
    adam = sg.optim.Adam(net.parameters(), lr=0.05)
    return sg.Model(net, **{"optimizer": adam, "loss": "cross_entropy", "metrics": ["accuracy"]} | options)


def regressor(seed: int = 0, **options) -> sg.Model:
    sg.manual_seed(seed)
    net = nn.Linear(1, 1)
    return sg.Model(net, **{"optimizer": sg.optim.SGD(net.parameters(), lr=0.1), "loss": "mse"} | options)


def weights(model: sg.Model) -> list:
    return [p.detach().numpy().copy() for p in model.net.parameters()]


def same(first: list, second: list) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def fitted(model: sg.Model, *args, **options):
    """The history of a training that says nothing."""
    return model.fit(*args, **{"verbose": 0} | options)
