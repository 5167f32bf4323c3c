"""ReduceLROnPlateau: when it lowers the rate, and what it keeps."""

from __future__ import annotations

import math

import pytest

import symgrad as sg
from symgrad import optim
from symgrad.optim import lr_scheduler


def sgd(lr=0.4, **options):
    return optim.SGD([sg.ones(2, requires_grad=True)], lr=lr, **options)


@pytest.mark.parametrize(
    ("options", "metrics", "wanted"),
    [
        ({"patience": 1}, [5, 4, 4, 4, 4, 4], [1, 1, 1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "cooldown": 2}, [5, 5, 5, 5, 5, 5], [1, 0.1, 0.1, 0.1, 0.01, 0.01]),
        ({"patience": 0, "mode": "max"}, [5, 6, 6, 7, 1], [1, 1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "threshold": 0.5}, [8, 5, 2, 2], [1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "threshold": 2, "threshold_mode": "abs"}, [8, 7, 5, 4], [1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "threshold": 2, "threshold_mode": "abs", "mode": "max"}, [1, 2, 4, 5], [1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "mode": "max", "threshold": 0.5}, [2, 2.5, 3.5, 4], [1, 0.1, 0.1, 0.01]),
        ({"patience": 0, "min_lr": 0.05}, [1, 1, 1], [1, 0.1, 0.05]),
        ({"patience": 0, "eps": 0.95}, [1, 1, 1], [1, 1, 1]),
        ({"patience": 0, "factor": 0.5}, [1, float("nan"), sg.tensor(0.5)], [1, 0.5, 0.5]),
    ],
)
def test_a_plateau_lowers_the_rate(options, metrics, wanted):
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd(1.0), **options)
    seen = []
    for metric in metrics:
        scheduler.step(metric)
        seen.append(scheduler.get_last_lr()[0])
    assert seen == pytest.approx(wanted)


def test_a_group_that_comes_later_has_the_same_least_rate():
    optimizer = sgd(1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.5)
    each = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.5])
    optimizer.add_param_group({"params": sg.ones(1, requires_grad=True), "lr": 2.0})
    scheduler.step(1)
    scheduler.step(1)
    assert scheduler.get_last_lr() == [0.5, 0.5]
    each.step(1)
    with pytest.raises(RuntimeError, match="Please modify the `min_lrs` field"):
        each.step(1)


def test_a_plateau_counts_epochs():
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd(1.0), patience=1, cooldown=2)
    seen = []
    for metric in (5, 6, 7, 7, 7, 7, 3):
        scheduler.step(metric)
        seen.append((scheduler.best, scheduler.num_bad_epochs, scheduler.cooldown_counter, scheduler.in_cooldown))
    assert seen == [(5, 0, 0, False), (5, 1, 0, False), (5, 0, 2, True), (5, 0, 1, True), (5, 0, 0, False), (5, 1, 0, False),
                    (3, 0, 0, False)]  # fmt: skip
    assert scheduler.last_epoch == 7


def test_a_plateau_goes_to_an_epoch():
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd())
    with pytest.warns(UserWarning, match="The epoch parameter"):
        scheduler.step(1.0, 5)
    assert scheduler.last_epoch == 5
    scheduler.step(1.0)
    assert scheduler.last_epoch == 6


@pytest.mark.parametrize(("mode", "worst"), [("min", math.inf), ("max", -math.inf)])
def test_a_plateau_begins_with_the_worst(mode, worst):
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd(), mode)
    assert (scheduler.best, scheduler.mode_worse) == (worst, worst)
    other = lr_scheduler.ReduceLROnPlateau(sgd(), "min" if mode == "max" else "max")
    other.load_state_dict(scheduler.state_dict())
    assert (other.mode, other.mode_worse) == (mode, worst)


@pytest.mark.parametrize(
    ("options", "best", "equal"),
    [
        ({"threshold": 0.5}, 8.0, 4.0),
        ({"threshold": 2, "threshold_mode": "abs"}, 8.0, 6.0),
        ({"threshold": 0.5, "mode": "max"}, 8.0, 12.0),
        ({"threshold": 2, "threshold_mode": "abs", "mode": "max"}, 8.0, 10.0),
    ],
)
def test_a_metric_at_the_threshold_is_no_better(options, best, equal):
    scheduler = lr_scheduler.ReduceLROnPlateau(sgd(), **options)
    scheduler.step(best)
    scheduler.step(equal)
    assert (scheduler.best, scheduler.num_bad_epochs) == (best, 1)


def test_a_reduction_of_eps_is_too_small():
    for eps, wanted in ((0.5, 1.0), (0.4999, 0.5)):
        scheduler = lr_scheduler.ReduceLROnPlateau(sgd(1.0), patience=0, factor=0.5, eps=eps)
        scheduler.step(1.0)
        scheduler.step(1.0)
        assert scheduler.get_last_lr() == [wanted]
