"""The spine: about fifteen rows, first and second order, against central differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap


def network(x, w, b):
    h = ((x @ w) + b).tanh()
    return (h.relu() * h / 2 + h.exp() * h.sin() - h**3 + (h * h + 1).log()).sum()


def leaves(*shapes):
    rng = np.random.default_rng(0)
    return [wrap(rng.normal(size=shape), requires_grad=True) for shape in shapes]


def numeric(f, args, i, eps=1e-6):
    array, g = args[i]._array, np.zeros(args[i].shape)
    for index in np.ndindex(*array.shape):
        kept = array[index]
        array[index] = kept + eps
        up = float(f(*args)._array)
        array[index] = kept - eps
        down = float(f(*args)._array)
        array[index] = kept
        g[index] = (up - down) / (2 * eps)
    return g


@pytest.mark.parametrize("i", range(3))
def test_gradient(i):
    args = leaves((4, 5), (5, 3), (3,))
    network(*args).backward()
    np.testing.assert_allclose(args[i].grad._array, numeric(network, args, i), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("i", range(3))
def test_gradient_of_the_gradient(i):
    def penalty(*args):
        grads = sg.autograd.grad(network(*args), args, create_graph=True)
        return sum(((g * g).sum() for g in grads), start=sg.tensor(0.0, dtype=sg.float64))

    args = leaves((4, 5), (5, 3), (3,))
    penalty(*args).backward()
    np.testing.assert_allclose(args[i].grad._array, numeric(penalty, args, i), rtol=1e-5, atol=1e-6)


def test_write_through_a_view_changes_the_history_of_its_base():
    x = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = x * 2
    y.t().mul_(3)
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad._array, 72 * x._array)


def test_second_backward_is_refused():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_writing_to_a_saved_tensor_is_noticed():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
