"""A call that passes one tensor in several places, where it is a single input of its program, is never a pattern for calls that do not."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


def plain(x, y):
    return x * 2 + y


def branching(x, y):
    if x.sum() > 0:
        return x * 2 + y
    return x - y


def conditional(x, y, scale=2.0):
    return x * scale + y if scale > 1 else y


def make_writing():
    total = sg.zeros(2)

    def writing(x, y):
        total.add_(x - y)
        return x * 2 + y

    return writing


def make_training():
    w = sg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = sg.optim.Adam([w], lr=0.0)

    def training(x, y):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        return x * 2 + y

    return training


def make_drawing():
    def drawing(x, y):
        return x * 2 + y + 0 * sg.rand(2)

    return drawing


def writing_to_an_argument(x, y):
    x.mul_(1)
    return x * 2 + y


def keywords(f):
    return lambda x, y: f(x=x, y=y)


def containers(f):
    return lambda x, y: f([x, y])


def gradients(f):
    return lambda x, y: sum(f.grad(x, y, wrt=(0, 1)))


FUNCTIONS = {
    "plain": lambda: plain,
    "branching": lambda: branching,
    "conditional": lambda: conditional,
    "writing": make_writing,
    "training": make_training,
    "drawing": make_drawing,
    "writing to an argument": lambda: writing_to_an_argument,
}


def other_in_same_memory(a):
    return a[:]


@pytest.mark.filterwarnings("ignore:.* share memory:UserWarning")
@pytest.mark.parametrize("of", [sg.tensor, lambda values: np.array(values, np.float32)], ids=["tensors", "arrays"])
@pytest.mark.parametrize("again", [lambda a: a, other_in_same_memory], ids=["itself", "view"])
@pytest.mark.parametrize(("form", "backend"), [("positional", "numpy"), ("positional", "xla"), ("keywords", "xla"), ("containers", "xla")])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_with_one_tensor_twice_and_with_two(name, form, backend, again, of):
    function = FUNCTIONS[name]()
    if form == "containers":
        call = containers(sg.compile(lambda pair: function(*pair), backend=backend))
    else:
        fast = sg.compile(function, backend=backend)
        call = fast if form == "positional" else keywords(fast)
    a, b = of([1.0, 2.0]), of([10.0, 20.0])
    for _ in range(2):
        for _ in range(4):
            assert call(a, again(a)).tolist() == [3.0, 6.0]
        for _ in range(4):
            assert call(a, b).tolist() == [12.0, 24.0]
        for _ in range(2):
            assert call(b, again(b)).tolist() == [30.0, 60.0]
            assert call(b, a).tolist() == [21.0, 42.0]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("function", [lambda x, y: (x * x * y).sum(), lambda x, y: (x * x * y).sum() if x.sum() > 0 else y.sum()])
def test_gradients_at_one_tensor_twice_and_at_two(function, backend):
    grad = gradients(sg.compile(function, backend=backend))
    a, b = sg.tensor([1.0, 2.0]), sg.tensor([10.0, 20.0])
    for _ in range(2):
        for _ in range(3):
            assert grad(a, a).tolist() == [3.0, 12.0]
        for _ in range(3):
            assert grad(a, b).tolist() == [21.0, 84.0]
