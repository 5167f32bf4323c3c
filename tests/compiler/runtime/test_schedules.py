"""Schedules of learning rates, momentum and betas: a compiled training step reads them anew and is compiled once."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

S = sg.optim.lr_scheduler
X = sg.tensor(np.random.default_rng(0).normal(size=(8, 3)))
Y = X.sin().sum(1, keepdim=True)

OPTIMIZERS = {
    "SGD": lambda ps: sg.optim.SGD(ps, lr=0.1, momentum=0.9),
    "Nesterov": lambda ps: sg.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "RMSprop": lambda ps: sg.optim.RMSprop(ps, lr=0.1, momentum=0.9, centered=True),
    "Adam": lambda ps: sg.optim.Adam(ps, lr=0.1, amsgrad=True),
    "AdamW": lambda ps: sg.optim.AdamW(ps, lr=0.1),
    "Adamax": lambda ps: sg.optim.Adamax(ps, lr=0.1),
    "NAdam": lambda ps: sg.optim.NAdam(ps, lr=0.1),
    "RAdam": lambda ps: sg.optim.RAdam(ps, lr=0.1),
}
SCHEDULES = {
    "OneCycleLR": lambda o: S.OneCycleLR(o, 0.2, total_steps=20),
    "CyclicLR": lambda o: S.CyclicLR(o, 0.01, 0.2, step_size_up=3, base_momentum=0.7, max_momentum=0.95),
}


def trained(make, schedule, compiled, steps=16):
    sg.manual_seed(0)
    net = sg.nn.Linear(3, 1).double()
    optimizer = make(net.parameters())
    scheduler = schedule(optimizer)

    def step(x, y):
        optimizer.zero_grad()
        loss = (net(x).tanh() - y).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    run = sg.compile(step, backend=compiled) if compiled else step
    losses = []
    for _ in range(steps):
        losses.append(run(X, Y).item())
        scheduler.step()
    return losses, [p.detach().numpy() for p in net.parameters()], run


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trajectories_are_those_of_eager_code(name, schedule):
    make, cycle = OPTIMIZERS[name], SCHEDULES[schedule]
    found, ours, run = trained(make, cycle, "xla" if (name, schedule) in (("Adam", "OneCycleLR"), ("Nesterov", "CyclicLR")) else "numpy")
    wanted, theirs, _ = trained(make, cycle, None)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert len(run.recompiles()) <= 2  # the first call makes the optimizer's state


def test_options_that_change_by_hand():
    """Without momentum there is another program; a beta of zero is a number like others."""
    w = sg.ones(2, dtype=sg.float64, requires_grad=True)
    v = w.detach().clone().requires_grad_()
    one, other = sg.optim.SGD([w], lr=0.1, momentum=0.5), sg.optim.SGD([v], lr=0.1, momentum=0.5)

    def stepper(x, optimizer):
        def step():
            optimizer.zero_grad()
            loss = (x * x).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step

    fast, slow = sg.compile(stepper(w, one)), stepper(v, other)
    for momentum in (0.5, 0.5, 0.9, 0.0, 0.3, 0.0, 0.8):
        one.param_groups[0]["momentum"] = other.param_groups[0]["momentum"] = momentum
        fast()
        slow()
        np.testing.assert_allclose(w.tolist(), v.tolist(), rtol=1e-14)
    assert len(fast.recompiles()) <= 4
    adam = sg.optim.Adam([w], lr=0.1)
    fast = sg.compile(stepper(w, adam))
    v = w.detach().clone().requires_grad_()
    slow = stepper(v, other := sg.optim.Adam([v], lr=0.1))
    for betas in ((0.9, 0.999), (0.9, 0.99), (0.0, 0.5), (0.5, 0.0)):
        adam.param_groups[0]["betas"] = other.param_groups[0]["betas"] = betas
        fast()
        slow()
        np.testing.assert_allclose(w.tolist(), v.tolist(), rtol=1e-12)
    assert len(fast.recompiles()) <= 2


def test_the_inputs_have_their_names():
    w = sg.ones(2, requires_grad=True)
    optimizer = sg.optim.Adam([w], lr=0.1)

    @sg.compile
    def step():
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    assert all(name in step.source() for name in ("rate", "beta1", "beta2"))


def test_the_functional_step_sees_options_that_change():
    w = sg.ones(2, dtype=sg.float64)
    optimizer = sg.optim.SGD([w], lr=0.1, momentum=0.5)
    fast = sg.compile(lambda p, g: optimizer.functional_step([p], [g])[0][0])
    for lr in (0.1, 0.1, 0.5):
        optimizer.param_groups[0]["lr"] = lr
        np.testing.assert_allclose(fast(w, w).tolist(), [1 - lr] * 2, rtol=1e-12)
        np.testing.assert_allclose(fast.vjp(w, w, wrt=1)(w).tolist(), [-lr] * 2, rtol=1e-12)


def test_a_differentiable_step_sees_them_as_well():
    w, rate = sg.ones(2, dtype=sg.float64, requires_grad=True), sg.tensor(0.1, dtype=sg.float64)
    adam = sg.optim.Adam([w], lr=0.1)
    adam.param_groups[0]["lr"] = rate
    fast = sg.compile(lambda p, g: adam.functional_step([p], [g])[0][0].sum())
    for betas in ((0.9, 0.999), (0.9, 0.999), (0.5, 0.9)):
        adam.param_groups[0]["betas"] = betas
        g = w.detach() * 2
        wanted = adam.functional_step([w.detach()], [g])[0][0].sum()
        np.testing.assert_allclose(fast(w.detach(), g).item(), wanted.item(), rtol=1e-12)


def test_a_schedule_that_goes_on_inside_the_function_is_done_by_python():
    w = sg.ones(2, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=1.0)
    schedule = S.StepLR(optimizer, step_size=2, gamma=0.5)
    fails = False

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()
        if fails:
            raise ValueError("stop")

    fast = sg.compile(step)
    with pytest.warns(UserWarning, match=r"scheduler.step\(\) at .*test_schedules.py:\d+ is done by Python.*run as they are written"):
        fast(sg.ones(2))
    rates = [1.0]
    for _ in range(4):
        fast(sg.ones(2))
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == [1, 0.5, 0.5, 0.25, 0.25]
    assert w.tolist() == [1 - 1 - 1 - 0.5 - 0.5 - 0.25] * 2
    fails = True
    with pytest.raises(ValueError, match="stop"):
        fast(sg.ones(2))
    assert (optimizer.param_groups[0]["lr"], schedule.last_epoch, w.tolist()) == (0.25, 5, [-2.25] * 2)


def test_a_rate_that_the_function_changes_is_changed_at_every_call():
    w = sg.ones(2, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=1.0)

    def step(x):
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] *= 0.5

    fast = sg.compile(step)
    with pytest.warns(UserWarning, match="the function itself changes lr of an optimizer"):
        fast(sg.ones(2))
    for _ in range(2):
        fast(sg.ones(2))
    assert (w.tolist(), optimizer.param_groups[0]["lr"]) == ([-0.75, -0.75], 0.125)
