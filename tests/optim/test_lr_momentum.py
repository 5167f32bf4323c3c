"""Schedules that move the momentum against the rate: cycles."""

from __future__ import annotations

import pytest
from scheduler_cases import advance, optimizer_of

import symgrad as sg
from symgrad import optim
from symgrad.optim import lr_scheduler


def sgd(lr=0.4, **options):
    return optim.SGD([sg.ones(2, requires_grad=True)], lr=lr, **options)


def rates(scheduler, steps=100):
    """The rate of the first group before every step."""
    seen = []
    for n in range(steps):
        seen.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.optimizer.step()
        advance(scheduler, n)
    return seen


def two_groups(name="SGD"):
    return optimizer_of(sg, [sg.ones(2, requires_grad=True) for _ in range(2)], name)


def test_momentum_goes_the_other_way():
    optimizer = sgd(momentum=0.5)
    scheduler = lr_scheduler.OneCycleLR(optimizer, 1.0, total_steps=11, pct_start=6 / 11, anneal_strategy="linear")
    momenta = []
    for _ in range(11):
        momenta.append(optimizer.param_groups[0]["momentum"])
        optimizer.step()
        scheduler.step()
    assert momenta == pytest.approx([0.95 - 0.02 * (5 - abs(n - 5)) for n in range(11)])


def test_the_first_beta_is_the_momentum_of_adam():
    optimizer = optim.Adam([sg.ones(1, requires_grad=True)])
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.2, step_size_up=2)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["betas"] == pytest.approx((0.85, 0.999))


@pytest.mark.parametrize(("name", "read"), [("SGD", lambda g: g["momentum"]), ("Adam", lambda g: g["betas"][0])])
@pytest.mark.parametrize(
    ("make", "top", "base"),
    [
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.2, base_momentum=[0.5, 0.6], max_momentum=[0.8, 0.9]), [0.8, 0.9], [0.5, 0.6]),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 9, base_momentum=0.5, max_momentum=[0.8, 0.9]), [0.8, 0.9], [0.5, 0.5]),
    ],
)
def test_the_limits_of_the_momentum_are_options_of_the_groups(make, top, base, name, read):
    optimizer = two_groups(name)
    make(optimizer)
    assert [group["max_momentum"] for group in optimizer.param_groups] == top
    assert [group["base_momentum"] for group in optimizer.param_groups] == base
    assert [read(group) for group in optimizer.param_groups] == pytest.approx(top)


def test_a_resumed_cycle_sets_no_limits_again():
    optimizer = sgd(momentum=0.7)
    optimizer.param_groups[0].update(initial_lr=0.1, max_momentum=0.7, base_momentum=0.6)
    scheduler = lr_scheduler.CyclicLR(optimizer, 0.1, 0.5, 4, base_momentum=0.5, max_momentum=0.9, last_epoch=1)
    group = optimizer.param_groups[0]
    assert (group["max_momentum"], group["base_momentum"]) == (0.7, 0.6)
    assert scheduler.get_last_lr() == pytest.approx([0.1 + 0.4 * 2 / 4])
    assert group["momentum"] == pytest.approx(0.9 - 0.4 * 2 / 4)


def test_options_that_one_cycle_keeps_in_the_groups():
    optimizer = sgd(momentum=0.5)
    lr_scheduler.OneCycleLR(optimizer, 0.8, 20, div_factor=4.0, final_div_factor=10.0)
    group = optimizer.param_groups[0]
    assert (group["initial_lr"], group["max_lr"], group["min_lr"]) == pytest.approx((0.2, 0.8, 0.02))


def test_the_function_of_a_cycle_is_not_saved_but_its_attributes_are():
    class Fade:
        def __init__(self, base):
            self.base = base

        def __call__(self, x):
            return self.base**x

    def cycle(base):
        return lr_scheduler.CyclicLR(sgd(), 0.0, 1.0, 1, scale_fn=Fade(base), scale_mode="iterations", cycle_momentum=False)

    first, second = cycle(0.5), cycle(0.9)
    assert first.state_dict()["_scale_fn_custom"] == {"base": 0.5}
    second.load_state_dict(first.state_dict())
    assert rates(second, 4) == pytest.approx([0, 0.5, 0, 0.125])
    plain = lr_scheduler.CyclicLR(sgd(), 0.0, 1.0, 1, cycle_momentum=False)
    assert plain.state_dict()["_scale_fn_custom"] is None
    assert plain.scale_mode == "cycle"
