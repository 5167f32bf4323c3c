"""Schedules beside PyTorch: rates, momenta, walks, state dicts, errors and warnings."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from optimizer_cases import objective, start
from scheduler_cases import SCHEDULES, advance, optimizer_of

import symgrad as sg

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

MAKERS = {name: make for name, (make, _) in SCHEDULES.items()}


def options(optimizer):
    """What schedules may change."""
    names = ("lr", "momentum", "betas", "initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum")
    return [group[name] for group in optimizer.param_groups for name in names if name in group]


def drive(lib, make, optimizer_name, steps=100):
    """Options and places after every step, and the schedule."""
    params = [start(lib), start(lib)]
    optimizer = optimizer_of(lib, params, optimizer_name)
    scheduler = make(lib.optim.lr_scheduler, optimizer)
    seen = []
    for n in range(steps):
        optimizer.zero_grad()
        for p in params:
            objective(lib, p, n).backward()
        optimizer.step()
        advance(scheduler, n)
        seen.append((options(optimizer), [p.tolist() for p in params]))
    return seen, scheduler


def same(mine, reference):
    assert type(mine) is type(reference)
    if isinstance(reference, dict) and not isinstance(reference, Counter):
        assert mine.keys() == reference.keys()
        for key in reference:
            same(mine[key], reference[key])
    elif isinstance(reference, (list, tuple)):
        assert len(mine) == len(reference)
        for a, b in zip(mine, reference, strict=True):
            same(a, b)
    elif isinstance(reference, float):
        assert mine == pytest.approx(reference, rel=1e-12, abs=1e-15)
    else:
        assert mine == reference


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", MAKERS)
def test_hundred_steps(name, optimizer):
    (mine, my_scheduler), (reference, scheduler) = (drive(lib, MAKERS[name], optimizer) for lib in (sg, torch))
    for (my_options, my_places), (wanted_options, wanted_places) in zip(mine, reference, strict=True):
        same(my_options, wanted_options)
        np.testing.assert_allclose(my_places, wanted_places, rtol=1e-8, atol=1e-10)
    same(my_scheduler.state_dict(), scheduler.state_dict())
    same(my_scheduler.get_last_lr(), scheduler.get_last_lr())


@pytest.mark.parametrize("optimizer", ["RMSprop", "Adagrad", "Adadelta", "NAdam", "AdamW"])
@pytest.mark.parametrize("name", ["OneCycleLR rate alone", "CosineAnnealingLR", "SequentialLR"])
def test_other_optimizers(name, optimizer):
    (mine, _), (reference, _) = (drive(lib, MAKERS[name], optimizer) for lib in (sg, torch))
    for (_, my_places), (_, wanted_places) in zip(mine, reference, strict=True):
        np.testing.assert_allclose(my_places, wanted_places, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_schedule_goes_on(name):
    """A state dict of PyTorch's is loaded here."""
    _, theirs = drive(torch, MAKERS[name], "SGD", 30)
    _, mine = drive(sg, MAKERS[name], "SGD", 1)
    mine.load_state_dict(theirs.state_dict())
    for ours, group in zip(mine.optimizer.param_groups, theirs.optimizer.param_groups, strict=True):
        ours.update({key: value for key, value in group.items() if key != "params"})
    for n in range(30, 60):
        for scheduler in (mine, theirs):
            scheduler.optimizer.step()
            advance(scheduler, n)
        same(options(mine.optimizer), options(theirs.optimizer))


@pytest.mark.parametrize("name", MAKERS)
def test_a_rate_that_is_a_tensor_stays_the_tensor(name):
    def run(lib):
        params = [start(lib), start(lib)]
        groups = [{"params": params[:1]}, {"params": params[1:], "lr": lib.tensor(0.02, dtype=lib.float64)}]
        optimizer = lib.optim.SGD(groups, lr=lib.tensor(0.4, dtype=lib.float64), momentum=0.9)
        rates = [group["lr"] for group in optimizer.param_groups]
        scheduler = MAKERS[name](lib.optim.lr_scheduler, optimizer)
        seen = []
        for n in range(20):
            optimizer.step()
            advance(scheduler, n)
            seen.append([float(rate) for rate in rates])
        assert all(group["lr"] is rate for group, rate in zip(optimizer.param_groups, rates, strict=True))
        return seen

    np.testing.assert_allclose(run(sg), run(torch), rtol=1e-12)


@pytest.mark.parametrize("last_epoch", [4, 17])
@pytest.mark.parametrize("name", ["StepLR(o, 3", "MultiStepLR(o, [2, 5, 9]", "ConstantLR(o", "LinearLR(o", "ExponentialLR(o, 0.9",
    "PolynomialLR(o, 20", "CosineAnnealingLR(o, 20", "CosineAnnealingWarmRestarts(o, 6", "LambdaLR(o, lambda n: 0.9 ** n",
    "MultiplicativeLR(o, lambda n: 0.9", "OneCycleLR(o, 0.5, 90", "CyclicLR(o, 0.1, 0.2, 5"])  # fmt: skip
def test_resumed(name, last_epoch):
    def run(lib):
        optimizer = optimizer_of(lib, [start(lib), start(lib)])
        for group in optimizer.param_groups:
            group.update(initial_lr=0.3, max_lr=0.5, min_lr=0.01, max_momentum=0.95, base_momentum=0.85)
        scheduler = eval(f"s.{name}, last_epoch={last_epoch})", {"s": lib.optim.lr_scheduler, "o": optimizer})
        seen = []
        for _ in range(12):
            seen.append(options(optimizer))
            optimizer.step()
            scheduler.step()
        return seen

    same(run(sg), run(torch))


@pytest.mark.parametrize("epoch", [0, 3, 11])
@pytest.mark.parametrize("name", [name for name in MAKERS if "Sequential" not in name and "Chained" not in name])
def test_a_given_epoch(name, epoch):
    def run(lib):
        optimizer = optimizer_of(lib, [start(lib), start(lib)])
        scheduler = MAKERS[name](lib.optim.lr_scheduler, optimizer)
        optimizer.step()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scheduler.step(1.0, epoch=epoch) if "Plateau" in name else scheduler.step(epoch)
        return options(optimizer), [str(w.message) for w in caught]

    same(run(sg), run(torch))


SCRIPTS = [
    "s.StepLR(3, 2)", "s.ConstantLR(o, 2)", "s.ConstantLR(o, -1)", "s.LinearLR(o, 0)", "s.LinearLR(o, 0.5, 2)",
    "s.StepLR(o, 2, last_epoch=3)", "s.LambdaLR(o, [abs])", "s.MultiplicativeLR(o, 3)", "s.SequentialLR(o, [], [])",
    "s.SequentialLR(o, [3], [])", "s.SequentialLR(o, [s.StepLR(o, 3)], [5])", "s.SequentialLR(o, [s.ReduceLROnPlateau(o)], [])",
    "s.SequentialLR(o, [s.StepLR(other, 1)], [])", "s.ChainedScheduler([])", "s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(other, 1)])",
    "s.ChainedScheduler([s.ReduceLROnPlateau(o)])", "s.ReduceLROnPlateau(o, factor=1)", "s.ReduceLROnPlateau(3)",
    "s.ReduceLROnPlateau(o, 'low')", "s.ReduceLROnPlateau(o, threshold_mode='x')", "s.ReduceLROnPlateau(o, min_lr=[1])",
    "s.CosineAnnealingWarmRestarts(o, 0)", "s.CosineAnnealingWarmRestarts(o, 2, 0)", "s.CosineAnnealingWarmRestarts(o, 2, eta_min='x')",
    "s.CosineAnnealingWarmRestarts(o, 2).step(-1)", "s.OneCycleLR(o, 1)", "s.OneCycleLR(o, 1, 0)", "s.OneCycleLR(o, 1, epochs=2)",
    "s.OneCycleLR(o, 1, epochs=2, steps_per_epoch=0)", "s.OneCycleLR(o, 1, 9, pct_start=2)", "s.OneCycleLR(o, 1, 9, anneal_strategy='x')",
    "s.OneCycleLR(o, [1], 9)", "s.OneCycleLR(plain, 1, 9)", "s.OneCycleLR(3, 1, 9)", "s.CyclicLR(3, 1, 2)",
    "s.CyclicLR(o, 1, 2, mode='x')", "s.CyclicLR(plain, 1, 2)", "s.CyclicLR(o, [1], 2)", "s.LRScheduler(o)",
    "[s.OneCycleLR(o, 1, 4).step() for _ in '1']", "c = s.OneCycleLR(o, 1, 4)\nfor _ in range(6): c.step()", "s.StepLR(o, 2).get_lr()",
    "c = s.StepLR(o, 2)\nc.step()", "c = s.StepLR(o, 2)\no.step()\nc.step()", "c = s.StepLR(o, 2)\no.step = lambda: None\nc.step()",
    "o.step()\nc = s.StepLR(o, 2)\nc.step()", "s.StepLR(o, 2)\no.step()\nc = s.StepLR(o, 2)\nc.step()",
]  # fmt: skip


def said(lib, script):
    """How it fails, and what it warns of."""
    optimizer, other = (optimizer_of(lib, [start(lib), start(lib)]) for _ in range(2))
    plain = lib.optim.Adagrad([start(lib)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(script, {"s": lib.optim.lr_scheduler, "o": optimizer, "other": other, "plain": plain})
            error = None
        except Exception as raised:
            error = type(raised).__name__, str(raised)
    return error, [str(w.message) for w in caught]


@pytest.mark.parametrize("script", SCRIPTS)
def test_words(script):
    assert said(sg, script) == said(torch, script)
