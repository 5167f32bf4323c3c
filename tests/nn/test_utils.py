"""nn.utils: gradients clipped by norm and by value; parameters as one vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn import utils


def with_gradients(*rows):
    parameters = [nn.Parameter(sg.zeros(len(row))) for row in rows]
    for p, row in zip(parameters, rows, strict=True):
        p.grad = sg.tensor(row)
    return [*parameters, nn.Parameter(sg.zeros(2))]  # the last one has no gradient


@pytest.mark.parametrize(("order", "norm"), [(2, 13.0), (1.0, 19.0), (math.inf, 12.0), ("inf", 12.0), (3, (27 + 64 + 1728) ** (1 / 3))])
def test_the_norm_of_all_gradients_together_is_cut_to_the_limit(order, norm):
    parameters = with_gradients([3.0, -4.0], [12.0])
    total = utils.clip_grad_norm_(iter(parameters), 2.0, norm_type=order, foreach=True)
    assert total.item() == pytest.approx(norm, rel=1e-6)
    np.testing.assert_allclose(parameters[0].grad.numpy(), np.array([3.0, -4.0]) * 2 / norm, rtol=1e-6)
    np.testing.assert_allclose(parameters[1].grad.numpy(), np.array([12.0]) * 2 / norm, rtol=1e-6)
    assert parameters[2].grad is None


def test_small_gradients_are_left_alone():
    parameters = with_gradients([3.0, 4.0])
    assert utils.clip_grad_norm_(parameters, 100).item() == 5
    assert parameters[0].grad.tolist() == [3, 4]
    assert utils.clip_grad_norm_(parameters[0], 100).item() == 5


def test_a_norm_that_is_not_finite_raises_when_asked_to_and_changes_nothing():
    parameters = with_gradients([math.inf, 1.0], [2.0])
    with pytest.raises(RuntimeError, match=r"The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
    assert parameters[1].grad.tolist() == [2]
    assert utils.clip_grad_norm_(parameters, 1.0).item() == math.inf
    assert parameters[1].grad.tolist() == [0]


def test_without_gradients_there_is_nothing_to_clip():
    assert utils.clip_grad_norm_([nn.Parameter(sg.ones(2))], 1.0).item() == 0
    assert utils.get_total_norm([]).item() == 0
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        utils.clip_grad_norm_((p for p in ()), 1.0)
    with pytest.warns(FutureWarning, match="deprecated"):
        utils.clip_grad_norm([], 1.0)


def test_the_two_halves_of_clipping():
    parameters = with_gradients([3.0, 4.0])
    total = utils.get_total_norm(p.grad for p in parameters if p.grad is not None)
    utils.clip_grads_with_norm_(parameters, 1.0, total)
    np.testing.assert_allclose(parameters[0].grad.numpy(), [0.6, 0.8], rtol=1e-6)


def test_clipping_by_value():
    parameters = with_gradients([3.0, -4.0, 0.5])
    kept = parameters[0].grad
    utils.clip_grad_value_(parameters, 1)
    assert parameters[0].grad is kept
    assert kept.tolist() == [1, -1, 0.5]


def test_parameters_as_a_vector_and_back():
    net = nn.Linear(2, 1)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.tolist() == [*net.weight.flatten().tolist(), *net.bias.tolist()]
    vector.sum().backward()
    assert net.weight.grad.tolist() == [[1, 1]]
    weight = net.weight
    utils.vector_to_parameters(sg.tensor([1.0, 2.0, 3.0]), net.parameters())
    assert net.weight is weight
    assert (net.weight.tolist(), net.bias.tolist()) == ([[1, 2]], [3])


def test_a_vector_that_does_not_fit_changes_nothing():
    net = nn.Linear(2, 1)
    before = net.weight.tolist()
    with pytest.raises(RuntimeError, match="shape"):
        utils.vector_to_parameters(sg.tensor([1.0, 2.0]), net.parameters())
    assert net.weight.tolist() == before
    with pytest.raises(TypeError, match=r"expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], net.parameters())
