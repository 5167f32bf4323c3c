"""Training steps that are compiled go where eager ones go: a hundred steps of every optimizer, with rates that change on the way."""

from __future__ import annotations

import numpy as np
import pytest
from fuzzing.world import interpreted
from optimizer_cases import CASES, start

import symgrad as sg
from symgrad import nn, optim

NAMES = sorted({name for name, _, _ in CASES})
RICHEST = [next((name, options) for other, options, _ in reversed(CASES) if other == name) for name in NAMES]
ALL = [(name, options) for name, options, _ in CASES]


def objective(p, noise):
    return (p**2).sum() + (p * p.roll(1)).sum() + p.sin().sum() + (noise * p).sum()


class Walkers:
    """Several optimizers, each with a parameter of its own, moved by one step: it is compiled once for all of them."""

    def __init__(self, cases, schedule):
        self.traces = []
        self.pairs = []
        for name, options in cases:
            p = start(sg)
            self.pairs.append((p, getattr(optim, name)([p], **options)))
        self.schedules = [schedule(optimizer) for _, optimizer in self.pairs]

    def step(self, noise):
        self.traces.append(1)
        losses = []
        for p, optimizer in self.pairs:
            optimizer.zero_grad()
            loss = objective(p, noise)
            loss.backward()
            optimizer.step()
            losses.append(loss)
        return sg.stack(losses)

    def walk(self, run, steps):
        losses = []
        for n in range(steps):
            losses.append(run(sg.sin(sg.arange(3.0, dtype=sg.float64) + 5.0 * n)).detach().numpy())
            for schedule in self.schedules:
                schedule.step()
        return np.array(losses)

    def left(self):
        """Parameters, gradients, and what the optimizers remember."""
        found = {}
        for k, (p, optimizer) in enumerate(self.pairs):
            found[k, "p"], found[k, "grad"] = p.detach().numpy(), p.grad.numpy()
            found |= {(k, word): np.asarray(x) for word, x in optimizer.state[p].items()}
        return found


def fading(optimizer):
    return optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (1 + 0.01 * n))


def same_walk(cases, steps=100, schedule=fading):
    eager, fast = Walkers(cases, schedule), Walkers(cases, schedule)
    wanted = eager.walk(eager.step, steps)
    found = fast.walk(sg.compile(fast.step), steps)
    close = [1e-8 if name == "NAdam" else 1e-10 for name, _ in cases]  # which remembers a number in single precision, as PyTorch's does
    assert (np.abs(found - wanted) <= np.array(close) * np.abs(wanted)).all()
    for (k, word), value in eager.left().items():
        np.testing.assert_allclose(fast.left()[k, word], value, rtol=10 * close[k], atol=1e-12, err_msg=f"{cases[k]}: {word}")
    return fast


def test_a_hundred_steps_of_every_optimizer():
    """Rates change at every step, and no step is traced for it: the first makes the optimizers' state, the second is the program."""
    assert len(same_walk(RICHEST).traces) == 2


def test_a_hundred_steps_with_every_option():
    with interpreted():
        assert len(same_walk(ALL).traces) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_steps_with_every_option_through_xla(name):
    assert len(same_walk([case for case in ALL if case[0] == name]).traces) <= 3


@pytest.mark.parametrize("schedule", ["OneCycleLR", "CyclicLR", "CosineAnnealingWarmRestarts"])
def test_schedules_change_rates_without_a_trace(schedule):
    made = {
        "OneCycleLR": lambda o: optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=40, cycle_momentum=False),
        "CyclicLR": lambda o: optim.lr_scheduler.CyclicLR(o, 0.001, 0.05, step_size_up=5, cycle_momentum=False),
        "CosineAnnealingWarmRestarts": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 7),
    }[schedule]
    with interpreted():
        assert len(same_walk([("SGD", {"lr": 0.05, "momentum": 0.9}), ("AdamW", {"lr": 0.05})], 30, made).traces) == 1


def fitted(compiled, line_search):
    """A small net fitted by LBFGS, whose closure may be compiled; how often the closure's code ran."""
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)).to(sg.float64)
    optimizer = optim.LBFGS(net.parameters(), lr=0.5, max_iter=8, line_search_fn=line_search)
    x = sg.randn(12, 2, dtype=sg.float64)
    y, calls = (x * x).sum(1, keepdim=True), []

    def closure():
        calls.append(1)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        return loss

    run = sg.compile(closure) if compiled else closure
    losses = [optimizer.step(run).item() for _ in range(4)]
    return losses, [p.detach().numpy() for p in net.parameters()], len(calls)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_the_closure_of_lbfgs(line_search):
    wanted, weights, _ = fitted(False, line_search)
    found, others, calls = fitted(True, line_search)
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    for a, b in zip(others, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert calls <= 2


def test_float32_with_schedule_clipping_and_batch_norm():
    """As networks are trained: single precision, statistics, dropout, clipped gradients, accumulation over two batches."""

    def train(compiled):
        sg.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 1))
        optimizer = optim.AdamW(net.parameters(), lr=0.01)
        schedule = optim.lr_scheduler.StepLR(optimizer, 10, 0.5)
        traced = []

        def step(batches):
            traced.append(1)
            optimizer.zero_grad()
            total = 0
            for x, y in batches:
                loss = nn.functional.mse_loss(net(x), y) / len(batches)
                loss.backward()
                total = total + loss.detach()
            norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
            return {"loss": total, "norm": norm}

        run = sg.compile(step) if compiled else step
        losses = []
        for _ in range(100):
            x = sg.randn(2, 16, 3)
            found = run([(x[0], x[0].sum(1, keepdim=True)), (x[1], x[1].sum(1, keepdim=True))])
            losses.append([found["loss"].item(), found["norm"].item()])
            schedule.step()
        return np.array(losses), len(traced)

    wanted, _ = train(False)
    found, traced = train(True)
    np.testing.assert_allclose(found, wanted, rtol=5e-3)
    np.testing.assert_allclose(found[:10], wanted[:10], rtol=2e-5)
    assert traced == 1
