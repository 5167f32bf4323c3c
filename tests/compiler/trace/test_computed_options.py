"""Numbers that a traced function has computed, or was given as floats, where an op takes a Python number: they stay inputs."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F = sg.nn.functional
CLIPPED = sg.ones(2, requires_grad=True)


def clipped(clip, limit):
    CLIPPED.grad = sg.tensor([3.0, -4.0])
    clip([CLIPPED], limit)
    return CLIPPED.grad * 1


KEPT = {
    "linspace": lambda x, t: sg.linspace(0, t, 5),
    "linspace from": lambda x, t: sg.linspace(t, 4, 6, dtype=sg.float64),
    "logspace": lambda x, t: sg.logspace(0, t, 4),
    "arange": lambda x, t: sg.arange(0, t * 4, t),
    "addcmul": lambda x, t: x.addcmul(x, x, value=t),
    "addcdiv": lambda x, t: sg.addcdiv(x, x, x * x + 1, value=t),
    "addcdiv_": lambda x, t: x.clone().addcdiv_(x, x * x + 1, value=t),
    "addmm": lambda x, t: sg.addmm(x, x, x, beta=t, alpha=t * 2),
    "clamp": lambda x, t: x.clamp(-t, t),
    "full": lambda x, t: sg.full((2, 3), t),
    "full_like": lambda x, t: sg.full_like(x, t),
    "new_full": lambda x, t: x.new_full((2,), t),
    "clip_grad_norm_": lambda x, t: clipped(sg.nn.utils.clip_grad_norm_, t),
    "clip_grad_value_": lambda x, t: clipped(sg.nn.utils.clip_grad_value_, t),
    "tensor": lambda x, t: sg.tensor([[t, 2.0], [1, t * 3]]),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("given", [float, sg.tensor])
def test_a_number_that_changes_is_no_new_program(name, given):
    fast, x = sg.compile(KEPT[name]), sg.tensor([[0.5, -2.0], [3.0, 0.25]])
    for number in (0.5, 0.75, 2.5):
        found, expected = fast(x, given(number)), KEPT[name](x, given(number))
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(fast.recompiles()) == 1


def test_how_many_numbers_a_range_has_is_a_condition():
    fast = sg.compile(lambda t: sg.arange(0, t, 0.5))
    for number in (1.0, 1.25, 2.0, 1.5):
        np.testing.assert_allclose(fast(sg.tensor(number)), sg.arange(0, number, 0.5), rtol=1e-6)
    assert len(fast.recompiles()) == 3
    with pytest.raises(RuntimeError, match="bound inconsistent with step sign"):
        fast(sg.tensor(-1.0))
    with pytest.raises(RuntimeError, match="step must be nonzero"):
        sg.compile(lambda t: sg.arange(0, 1.0, t))(sg.tensor(0.0))


WHOLE = {
    "roll": lambda x, n: x.roll(n, 0),
    "narrow": lambda x, n: x.narrow(0, 0, n),
    "diagonal": lambda x, n: x.diagonal(n),
    "softmax": lambda x, n: x.softmax(n - 1),
    "flip": lambda x, n: x.flip((n - 1,)),
    "tril": lambda x, n: x.tril(n),
    "pad": lambda x, n: F.pad(x, (n, 1)),
    "polygamma": lambda x, n: sg.polygamma(n, x),
    "group_norm": lambda x, n: F.group_norm(x[None], n),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_is_a_condition(name):
    fast, x = sg.compile(WHOLE[name]), sg.arange(1.0, 17).reshape(4, 4)
    for n in (1, 2, 1):
        np.testing.assert_allclose(fast(x, sg.tensor(n)), WHOLE[name](x, n), rtol=1e-5)
        np.testing.assert_allclose(WHOLE[name](x, sg.tensor(n)), WHOLE[name](x, n))
    assert len(fast.recompiles()) == 2


FLOATS = {
    "leaky_relu": lambda x, t: F.leaky_relu(x, t),
    "huber_loss": lambda x, t: F.huber_loss(x, x * 2, delta=t),
    "layer_norm": lambda x, t: F.layer_norm(x, (2,), eps=t),
    "pad": lambda x, t: F.pad(x, (1, 1), value=t),
}


@pytest.mark.parametrize("name", FLOATS)
def test_other_options_may_be_tensors_in_eager_code_and_are_named_where_a_program_would_hold_them_fixed(name):
    x = sg.tensor([[0.5, -2.0], [3.0, 0.25]])
    np.testing.assert_allclose(FLOATS[name](x, sg.tensor(0.5)), FLOATS[name](x, 0.5))
    with pytest.raises(sg.errors.TraceError, match=r"test_computed_options\.py:\d+: a tensor as option \w+ of \w+ takes a value out"):
        sg.compile(FLOATS[name])(x, sg.tensor(0.5))
