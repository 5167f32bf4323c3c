"""Optimizers: trajectories (the numbers are PyTorch's), groups, state, closures, errors."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad import optim

TRAJECTORIES = [
    ("SGD", {"lr": 0.05}, [-0.24049208785352486, -0.24521721967785493, -0.2423117308679236]),
    ("SGD", {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
     [-0.23689733986808767, -0.2373634720535864, -0.2369791574174519]),
    ("SGD", {"lr": 0.02, "momentum": 0.8, "dampening": 0.3}, [-0.2426574383311788, -0.24268020874107185, -0.24268643394966555]),
    ("SGD", {"lr": 0.01, "maximize": True, "weight_decay": 0.5}, [-0.7818687969475097, -7.037751980333056, -1.3022246519559146]),
    ("Adam", {"lr": 0.05, "amsgrad": True}, [-0.24260056004711086, -0.24171739539446435, -0.2445921161835794]),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.2},
     [-0.23177673847665678, -0.23154287267275833, -0.23179899078544747]),
    ("Adam", {"lr": 0.01, "maximize": True}, [2.1335193425205214, -3.0243815460749293, 1.6585266332276818]),
]  # fmt: skip


def start():
    return sg.tensor([1.0, -2.0, 0.5], dtype=sg.float64, requires_grad=True)


def objective(p):
    return (p**2).sum() + (p * p.roll(1)).sum() + p.sin().sum()


def walk(p, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        objective(p).backward()
        optimizer.step()


@pytest.mark.parametrize(("name", "options", "end"), TRAJECTORIES, ids=lambda value: str(value)[:40])
def test_hundred_steps_end_where_pytorchs_do(name, options, end):
    p = start()
    walk(p, getattr(optim, name)([p], **options), 100)
    np.testing.assert_allclose(p.tolist(), end, rtol=1e-10)


@pytest.mark.parametrize(("name", "options"), [("SGD", {"lr": 0.02, "momentum": 0.9}), ("Adam", {"lr": 0.05, "amsgrad": True})])
def test_state_goes_on_in_another_optimizer(name, options):
    whole, p = start(), start()
    walk(whole, getattr(optim, name)([whole], **options), 20)
    first = getattr(optim, name)([p], **options)
    walk(p, first, 10)
    second = getattr(optim, name)([p], lr=99)
    second.load_state_dict(first.state_dict())
    walk(p, second, 10)
    assert p.tolist() == whole.tolist()
    assert second.param_groups[0]["lr"] == options["lr"]


def test_loaded_state_is_a_copy():
    p = start()
    first = optim.SGD([p], lr=0.1, momentum=0.9)
    walk(p, first, 1)
    second = optim.SGD([p], lr=0.1, momentum=0.9)
    second.load_state_dict(first.state_dict())
    before = first.state[p]["momentum_buffer"].tolist()
    walk(p, second, 1)
    assert first.state[p]["momentum_buffer"].tolist() == before


def test_groups_have_their_own_options():
    p, q = start(), start()
    optimizer = optim.SGD([{"params": [p], "lr": 0.5}, {"params": [q]}], lr=0.25)
    p.grad, q.grad = sg.ones_like(p), sg.ones_like(q)
    optimizer.step()
    assert p.tolist() == [0.5, -2.5, 0.0]
    assert q.tolist() == [0.75, -2.25, 0.25]


def test_what_has_no_gradient_stays():
    p, q = start(), start()
    p.grad = sg.ones_like(p)
    optim.Adam([p, q]).step()
    assert q.tolist() == start().tolist()
    assert p.tolist() != start().tolist()


def test_a_step_is_not_recorded_and_keeps_the_tensor():
    p = start()
    kept = p.detach()
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.1)
    walk(p, optimizer, 3)
    assert p.is_leaf
    assert p.requires_grad
    assert kept.tolist() == p.tolist()
    assert optimizer.state[p]["momentum_buffer"].grad_fn is None


def test_a_closure_is_evaluated_with_recording_on():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = objective(p)
        loss.backward()
        return loss

    with sg.no_grad():
        assert optimizer.step(closure).item() == objective(start()).item()
    assert p.tolist() != start().tolist()


def test_zero_grad_to_none_or_zero():
    p = start()
    optimizer = optim.SGD([p], lr=0.1)
    objective(p).backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0, 0]
    optimizer.zero_grad()
    assert p.grad is None


def test_printed_form():
    assert repr(optim.SGD([start()], lr=0.5)).startswith("SGD (\nParameter Group 0\n    dampening: 0\n")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda p: optim.SGD([p], lr=1, nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), ValueError, "Invalid beta parameter at index 1: 1.0"),
        (lambda p: optim.SGD([], lr=1), ValueError, "optimizer got an empty parameter list"),
        (lambda p: optim.SGD(p, lr=1), TypeError, "params argument given to the optimizer should be an iterable"),
        (lambda p: optim.SGD([3], lr=1), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
        (lambda p: optim.SGD([p * 2], lr=1), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}], lr=1), ValueError, "appear in more than one parameter group"),
    ],
)
def test_refused(make, error, words):
    with pytest.raises(error, match=words):
        make(start())
