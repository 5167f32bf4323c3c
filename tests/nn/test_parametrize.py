"""Parameters that are computed from others: parametrizations, weight and spectral normalization."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.nn.utils import parametrizations, parametrize, remove_weight_norm, weight_norm


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT


class Twice(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, y):
        return y / 2


class FirstRow(nn.Module):
    def forward(self, x):
        return x[:1]


class Halved(Twice):
    def forward(self, x):
        return x[:1]


class Plus(nn.Module):
    def forward(self, x):
        return x + 1

    def right_inverse(self, y):
        return y - 1


def test_the_weight_is_computed_and_the_original_is_trained():
    layer = nn.Linear(2, 2)
    original = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert layer.weight.tolist() == layer.weight.T.tolist()
    assert layer.parametrizations.weight.original is original
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    layer(sg.ones(2)).sum().backward()
    assert original.grad.tolist() == [[1, 2], [0, 1]]
    assert isinstance(layer, nn.Linear)
    assert type(layer).__name__ == "ParametrizedLinear"
    assert parametrize.type_before_parametrizations(layer) is nn.Linear


def test_assigning_goes_through_the_inverse():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    layer.weight = sg.full((2, 2), 6.0)
    assert layer.parametrizations.weight.original.tolist() == [[3, 3], [3, 3]]
    parametrize.register_parametrization(layer, "weight", Plus())
    layer.weight = sg.full((2, 2), 7.0)
    assert layer.parametrizations.weight.original.tolist() == [[3, 3], [3, 3]]
    parametrize.register_parametrization(layer, "weight", Symmetric())
    with pytest.raises(RuntimeError, match="parametrization Symmetric does not implement right_inverse"):
        layer.weight = sg.ones(2, 2)
    assert layer.weight.tolist() == [[7, 7], [7, 7]]


@pytest.mark.parametrize(("leave", "value"), [(True, 6), (False, 3)])
def test_removing_leaves_what_was_computed_or_the_original(leave, value):
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    layer.weight = sg.full((2, 2), 6.0)
    original = layer.parametrizations.weight.original
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert layer.weight is original
    assert layer.weight.tolist() == [[value, value]] * 2
    assert type(layer) is nn.Linear
    assert not parametrize.is_parametrized(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]


def test_two_tensors_of_one_module():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    parametrize.register_parametrization(layer, "bias", Twice())
    parametrize.remove_parametrizations(layer, "weight")
    assert parametrize.is_parametrized(layer, "bias")
    assert not parametrize.is_parametrized(layer, "weight")
    assert type(layer).__name__ == "ParametrizedLinear"


def test_a_change_of_shape_is_refused_and_changes_nothing():
    layer = nn.Linear(2, 2)
    weight, before = layer.weight, layer.weight.tolist()
    with pytest.raises(ValueError, match="may not change the shape of the tensor, unless `unsafe` flag is enabled"):
        parametrize.register_parametrization(layer, "weight", FirstRow())
    assert layer.weight is weight
    assert layer.weight.tolist() == before
    assert type(layer) is nn.Linear
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", Halved())
    assert layer.weight.tolist() == before
    parametrize.register_parametrization(layer, "weight", FirstRow(), unsafe=True)
    assert layer.weight.shape == (1, 2)


def test_what_is_not_there_cannot_be_parametrized():
    with pytest.raises(ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'zero'"):
        parametrize.register_parametrization(nn.Linear(2, 2), "zero", Twice())
    with pytest.raises(ValueError, match="does not have a parametrization on weight"):
        parametrize.remove_parametrizations(nn.Linear(2, 2), "weight")


def test_inside_cached_it_is_computed_once():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    with parametrize.cached(), parametrize.cached():
        first = layer.weight
        assert layer.weight is first
    assert layer.weight is not first


def test_copies_are_independent_and_pickles_are_refused():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    other = copy.deepcopy(layer)
    other.weight = sg.zeros(2, 2)
    assert layer.weight.abs().sum().item() > 0
    with pytest.raises(RuntimeError, match="Serialization of parametrized modules is only supported through state_dict"):
        pickle.dumps(layer)


@pytest.mark.parametrize(("dim", "shape"), [(0, (2, 1)), (1, (1, 3)), (None, ())])
def test_weight_norm_splits_lengths_and_directions(dim, shape):
    layer = nn.Linear(3, 2)
    before = layer.weight.detach().clone()
    parametrizations.weight_norm(layer, dim=dim)
    lengths, directions = layer.parametrizations.weight.original0, layer.parametrizations.weight.original1
    assert lengths.shape == shape
    np.testing.assert_allclose(layer.weight.detach().numpy(), before.numpy(), rtol=1e-6)
    with sg.no_grad():
        lengths.mul_(3)
        directions.mul_(5)  # has no effect: only directions count
    np.testing.assert_allclose(layer.weight.detach().numpy(), 3 * before.numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="parametrized in terms of a sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.is_leaf


def test_the_older_weight_norm():
    layer = nn.Linear(3, 2)
    before = layer(sg.ones(3)).tolist()
    with pytest.warns(FutureWarning, match="deprecated"):
        weight_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    np.testing.assert_allclose(layer(sg.ones(3)).tolist(), before, rtol=1e-6)
    layer(sg.ones(3)).sum().backward()
    assert layer.weight_g.grad.shape == (2, 1)
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="Cannot register two weight_norm hooks on the same parameter"):
        weight_norm(layer)
    newer = parametrizations.weight_norm(nn.Linear(3, 2))
    newer.load_state_dict(layer.state_dict())
    np.testing.assert_allclose(newer(sg.ones(3)).tolist(), before, rtol=1e-6)
    remove_weight_norm(layer)
    np.testing.assert_allclose(layer(sg.ones(3)).tolist(), before, rtol=1e-6)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"):
        remove_weight_norm(layer)


def test_spectral_norm_makes_the_largest_singular_value_one():
    sg.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Conv2d(3, 4, 2))
    for _ in range(20):
        layer(sg.ones(1, 3, 2, 2))
    values = np.linalg.svd(layer.weight.detach().numpy().reshape(4, -1))[1]
    assert values[0] == pytest.approx(1, abs=1e-3)
    layer.eval()
    assert layer.weight.tolist() == layer.weight.tolist()  # in training each reading improves the vectors
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (4, 3, 2, 2)
    assert parametrizations.spectral_norm(nn.ConvTranspose2d(2, 5, 3)).parametrizations.weight[0]._u.shape == (5,)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        parametrizations.spectral_norm(nn.Linear(2, 2), n_power_iterations=0)


def test_the_older_spectral_norm():
    sg.manual_seed(0)
    layer = nn.utils.spectral_norm(nn.Linear(3, 4))
    assert list(layer.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    for _ in range(20):
        layer(sg.ones(3))
    values = np.linalg.svd(layer.weight.detach().numpy())[1]
    assert values[0] == pytest.approx(1, abs=1e-3)
    before = layer.eval()(sg.ones(3))
    assert before.tolist() == layer(sg.ones(3)).tolist()
    before.sum().backward()
    assert layer.weight_orig.grad.shape == (4, 3)
    with pytest.raises(RuntimeError, match="Cannot register two spectral_norm hooks on the same parameter weight"):
        nn.utils.spectral_norm(layer)
    nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(layer(sg.ones(3)).tolist(), before.tolist(), rtol=1e-6)
    with pytest.raises(ValueError, match="spectral_norm of 'weight' not found"):
        nn.utils.remove_spectral_norm(layer)
    with pytest.raises(ValueError, match="Expected n_power_iterations to be positive"):
        nn.utils.spectral_norm(layer, n_power_iterations=0)
    assert isinstance(layer.weight, nn.Parameter)


# --- modes, steps of power iteration, flags


@pytest.mark.parametrize("training", [True, False])
def test_a_parametrization_takes_the_mode_of_its_module(training):
    layer = nn.Linear(2, 2).train(training)
    part = Twice().train(not training)
    parametrize.register_parametrization(layer, "weight", part)
    assert part.training is training
    second = Twice().train(not training)
    parametrize.register_parametrization(layer, "weight", second)
    assert second.training is training


def vectors(layer):
    part = layer.parametrizations.weight[0]
    return part._u.clone(), part._v.clone()


@pytest.mark.parametrize("steps", [1, 3])
def test_power_iteration_by_hand(steps):
    sg.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(3, 4).double(), n_power_iterations=steps)
    matrix = layer.parametrizations.weight.original.detach().numpy()
    layer.parametrizations.weight[0]._v.copy_(sg.tensor([1.0, 2.0, 2.0]) / 3)
    u, v = (x.numpy() for x in vectors(layer))
    for _ in range(steps):
        u = matrix @ v / np.linalg.norm(matrix @ v)
        v = matrix.T @ u / np.linalg.norm(matrix.T @ u)
    np.testing.assert_allclose(layer.weight.detach().numpy(), matrix / (u @ matrix @ v), rtol=1e-9)
    np.testing.assert_allclose([*vectors(layer.eval())[0].numpy()], u, rtol=1e-9)
    layer.weight  # noqa: B018  (reads it, without a step outside of training)
    np.testing.assert_allclose(vectors(layer)[0].numpy(), u, rtol=1e-9)


def test_the_older_power_iteration_by_hand():
    layer = nn.utils.spectral_norm(nn.Linear(3, 4).double(), n_power_iterations=2)
    matrix = layer.weight_orig.detach().numpy()
    u = layer.weight_u.clone().numpy()
    for _ in range(2):
        v = matrix.T @ u / np.linalg.norm(matrix.T @ u)
        u = matrix @ v / np.linalg.norm(matrix @ v)
    layer(sg.ones(3, dtype=sg.float64))
    np.testing.assert_allclose(layer.weight.detach().numpy(), matrix / (u @ matrix @ v), rtol=1e-9)
    layer.eval()(sg.ones(3, dtype=sg.float64))
    np.testing.assert_allclose(layer.weight_u.numpy(), u, rtol=1e-9)
    transposed = nn.utils.spectral_norm(nn.ConvTranspose1d(2, 5, 3))
    assert (transposed.weight_u.shape, transposed.weight_v.shape) == ((5,), (6,))
    assert nn.utils.spectral_norm(nn.Linear(3, 4), dim=1).weight_u.shape == (3,)


def test_the_spectral_norm_of_a_vector_is_its_length():
    layer = nn.Module()
    layer.weight = nn.Parameter(sg.tensor([3.0, 4.0]))
    parametrizations.spectral_norm(layer)
    assert layer.weight.tolist() == pytest.approx([0.6, 0.8])
    other = nn.Module()
    other.weight = nn.Parameter(sg.ones(2))
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\] but got 1"):
        parametrizations.spectral_norm(other, dim=1)
    with pytest.raises(ValueError, match="has no parameter or buffer with name 'zero'"):
        parametrizations.spectral_norm(nn.Linear(2, 2), "zero")


def test_unsafe_is_remembered_once_it_was_said():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    assert layer.parametrizations.weight.unsafe is False
    parametrize.register_parametrization(layer, "weight", FirstRow(), unsafe=True)
    assert layer.parametrizations.weight.unsafe is True
    parametrize.register_parametrization(layer, "weight", Twice())
    assert layer.parametrizations.weight.unsafe is True
    assert layer.weight.shape == (1, 2)


def test_a_second_parametrization_that_changes_the_shape_is_refused():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(layer, "weight", FirstRow())
    assert len(layer.parametrizations.weight) == 1


def test_buffers_can_be_parametrized_and_stay_buffers():
    layer = nn.BatchNorm1d(2)
    parametrize.register_parametrization(layer, "running_mean", Twice())
    assert "original" in layer.parametrizations.running_mean._buffers
    assert parametrize.type_before_parametrizations(layer) is nn.BatchNorm1d
    parametrize.remove_parametrizations(layer, "running_mean")
    assert "running_mean" in layer._buffers
    assert parametrize.type_before_parametrizations(layer) is nn.BatchNorm1d is type(layer)


def test_frozen_weights_are_split_into_frozen_tensors():
    layer = nn.Linear(2, 2).requires_grad_(False)
    parametrizations.weight_norm(layer)
    assert [p.requires_grad for p in layer.parameters()] == [False] * 3
    parametrize.remove_parametrizations(layer, "weight")
    assert not layer.weight.requires_grad


def test_the_cache_is_emptied_after_an_error():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Twice())
    seen = []
    with pytest.raises(TypeError), parametrize.cached():
        layer(seen.append(layer.weight))
    assert layer.weight is not seen[0]
