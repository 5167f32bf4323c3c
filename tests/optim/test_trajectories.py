"""Where optimizers go: PyTorch's numbers for every option, and the ways to run a step that must lead to the same place."""

from __future__ import annotations

import numpy as np
import pytest
from optimizer_cases import CASES, objective, start, walk

import symgrad as sg
from symgrad import optim
from symgrad.optim import pieces

NAMES = sorted({name for name, _, _ in CASES})
RICHEST = {name: next(options for other, options, _ in reversed(CASES) if other == name) for name in NAMES}


def end(name, options, steps=100):
    p = start(sg)
    walk(sg, p, getattr(optim, name)([p], **options), steps)
    return p.tolist()


@pytest.mark.parametrize(("name", "options", "wanted"), CASES, ids=str)
def test_hundred_steps_end_where_pytorchs_do(name, options, wanted):
    np.testing.assert_allclose(end(name, options), wanted, rtol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_no_step_counter_leaves_the_tensors_when_capturable(name):
    options = RICHEST[name]
    other = {"differentiable": False} if name in ("SGD", "Adagrad") else {"capturable": True}
    np.testing.assert_allclose(end(name, {**options, **other}, 30), end(name, options, 30), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_rate_may_be_a_tensor(name):
    options = {"lr": 0.0078125, **RICHEST[name]}
    exact = {**options, "lr": sg.tensor([options["lr"]], dtype=sg.float64)}
    np.testing.assert_allclose(end(name, exact, 20), end(name, options, 20), rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_large_parameter_is_moved_in_pieces(name, monkeypatch):
    options = RICHEST[name]

    def moved():
        p = sg.linspace(-1, 2, 60, dtype=sg.float64).reshape(6, 10).t().requires_grad_()
        optimizer = getattr(optim, name)([p], **options)
        for n in range(5):
            p.grad = (p.detach() * (n + 1)).sin()
            optimizer.step()
        return p.tolist()

    whole = moved()
    monkeypatch.setattr(pieces, "ELEMENTS", 13)
    assert moved() == whole


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Rprop"])
def test_complex_numbers_are_pairs_of_real_ones(name):
    options = RICHEST[name]
    z = sg.tensor([1.0 + 2.0j, -0.5 - 1.0j], dtype=sg.complex128, requires_grad=True)
    x = sg.view_as_real(z.detach().clone()).clone().requires_grad_()
    first, second = (getattr(optim, name)([p], **options) for p in (z, x))
    for n in range(10):
        x.grad = (x.detach() + n).cos()
        z.grad = sg.view_as_complex((x.detach() + n).cos())
        first.step()
        second.step()
    np.testing.assert_allclose(sg.view_as_real(z.detach()).numpy(), x.detach().numpy(), rtol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_stays_single(name):
    p = start(sg).detach().float().requires_grad_()
    q = start(sg)
    for t, optimizer in ((p, getattr(optim, name)([p], **RICHEST[name])), (q, getattr(optim, name)([q], **RICHEST[name]))):
        for n in range(10):
            t.grad = (t.detach() * n).cos()
            optimizer.step()
    assert p.dtype is sg.float32
    assert all(value.dtype is sg.float32 for value in optimizer.state.get(p, {}).values())
    np.testing.assert_allclose(p.tolist(), q.tolist(), rtol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_no_rate_no_step(name):
    if name in ("Rprop", "ASGD"):  # their own step sizes are not below a bound; they decay weights
        return
    p = start(sg)
    p.grad = sg.tensor([0.0, 1.0, -1.0], dtype=sg.float64)
    getattr(optim, name)([p], lr=0.0).step()
    assert p.tolist() == start(sg).tolist()


def differentiable(name):
    options = {**RICHEST[name], "lr": 0.05}
    return {**options, "dampening": 0, "nesterov": True} if name == "SGD" else options


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Rprop"])
def test_derivatives_go_through_steps_in_place(name):
    """Of where training ends with respect to where it began, against differences."""

    def trained(x):
        p = x.clone()
        optimizer = getattr(optim, name)([p], **differentiable(name), differentiable=True)
        for n in range(3):
            p.grad = sg.autograd.grad(objective(sg, p.clone(), n), p, create_graph=True)[0]
            optimizer.step()
        return p

    assert sg.autograd.gradcheck(trained, (start(sg),))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "Rprop"])
def test_derivatives_go_through_functional_steps(name):
    leaf = start(sg)
    optimizer = getattr(optim, name)([leaf], **differentiable(name))

    def trained(x):
        params, state = [x], None
        for n in range(3):
            grads = sg.autograd.grad(objective(sg, params[0], n), params, create_graph=True)
            params, state = optimizer.functional_step(params, grads, state)
        return params[0]

    assert sg.autograd.gradcheck(trained, (start(sg),))
    after = start(sg)
    walk(sg, after, getattr(optim, name)([after], **differentiable(name)), 3)
    np.testing.assert_allclose(trained(start(sg)).tolist(), after.tolist(), rtol=1e-6)
    assert leaf.tolist() == start(sg).tolist()


def test_derivatives_go_through_a_rate():
    p, rate = start(sg), sg.tensor(0.05, dtype=sg.float64, requires_grad=True)
    optimizer = optim.Adam([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = rate
    (moved,), _ = optimizer.functional_step([p.detach()], [sg.ones_like(p)])
    moved.sum().backward()
    assert rate.grad.item() == pytest.approx(-3)  # the first step of Adam is the rate against the sign of the gradient


def test_a_large_parameter_stays_whole_for_derivatives_and_its_writes_are_noticed(monkeypatch):
    monkeypatch.setattr(pieces, "ELEMENTS", 1)
    x, g = start(sg), start(sg)
    (moved,), _ = optim.SGD([x], lr=0.5, momentum=0.5).functional_step([x], [g])
    moved.sum().backward()
    assert (x.grad.tolist(), g.grad.tolist()) == ([1, 1, 1], [-0.5, -0.5, -0.5])
    loss = (x * x).sum()
    optim.SGD([x], lr=0.1, momentum=0.5).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_the_average_of_asgd_begins_at_t0():
    p = sg.zeros(1, dtype=sg.float64, requires_grad=True)
    optimizer = optim.ASGD([p], lr=1.0, lambd=0.0, alpha=0.0, t0=2)
    averages = []
    for _ in range(6):
        p.grad = -sg.ones_like(p)
        optimizer.step()
        averages.append(optimizer.state[p]["ax"].item())
    assert averages == pytest.approx([1, 2, 3, 4, 4.5, 5], rel=1e-6)
