"""Anomaly mode names the forward line."""

from __future__ import annotations

import contextlib

import pytest

import symgrad as sg
from symgrad.autograd import detect_anomaly, is_anomaly_enabled, set_detect_anomaly


@pytest.fixture
def x():
    return sg.tensor([0.0, 2.0], requires_grad=True)


def anomaly(**options):
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        return detect_anomaly(**options)


def test_a_nan_names_the_function_and_the_line(x):
    with anomaly():
        y = (x * x).log() * 0  # the line of the mistake
        with (
            pytest.warns(UserWarning, match="Error detected in LogBackward0(.|\n)*y = .*the line of the mistake"),
            pytest.raises(RuntimeError, match=r"Function 'LogBackward0' returned nan values in its 0th output."),
        ):
            y.sum().backward()
    assert not is_anomaly_enabled()


def test_nan_may_be_let_through(x):
    with anomaly(check_nan=False):
        ((x * x).log() * 0).sum().backward()
    assert x.grad._array[0] != x.grad._array[0]


def test_an_error_in_a_function_is_explained(x):
    class Broken(sg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("here")

    with anomaly():
        y = Broken.apply(x)  # called here
    with set_detect_anomaly(True):
        with pytest.warns(UserWarning, match="Error detected in BrokenBackward(.|\n)*called here"), pytest.raises(KeyError):
            y.sum().backward()
        z = x * 1
    assert not is_anomaly_enabled()
    z.sum().backward()


def test_what_was_recorded_before_has_no_line(x):
    y = x.log() * 0
    with (
        set_detect_anomaly(True),
        pytest.warns(UserWarning, match="Error detected in LogBackward0. No forward pass information available"),
        pytest.raises(RuntimeError, match="LogBackward0"),
    ):
        y.sum().backward()


def test_set_detect_anomaly_as_a_call():
    set_detect_anomaly(True)
    try:
        set_detect_anomaly(True, check_nan=False)
        assert is_anomaly_enabled()
        assert not sg.autograd.is_anomaly_check_nan_enabled()
    finally:
        set_detect_anomaly(False)
    assert not is_anomaly_enabled()
    assert sg.autograd.is_anomaly_check_nan_enabled() is False


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Rprop", "ASGD"])
@pytest.mark.parametrize("prepare", [lambda step: step, sg.compile], ids=["eager", "compiled"])
def test_optimizers_step_in_anomaly_mode(name, prepare):
    def trained(watched):
        w = sg.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(sg.optim, name)([w], lr=0.1)

        def step():
            optimizer.zero_grad()
            w.square().sum().backward()
            optimizer.step()

        run = prepare(step)
        for k in range(3):
            with anomaly() if k in watched else contextlib.nullcontext():
                run()
        return w.tolist()

    assert trained((0, 2)) == pytest.approx(trained(()), rel=1e-6)
