"""What is done to an optimizer between compiled steps is taken up as in eager code: twenty steps, and something happens on the way."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from fuzzing.world import interpreted

import symgrad as sg
from symgrad import optim

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "dampened": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3, foreach=True, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True, weight_decay=0.1, maximize=True),
    "rate in a tensor": lambda p: optim.Adam(p, lr=sg.tensor(0.05, dtype=sg.float64)),
    "fused": lambda p: optim.AdamW(p, lr=0.05, fused=True),
    "capturable": lambda p: optim.RAdam(p, lr=0.05, weight_decay=0.1, capturable=True),
    "NAdam": lambda p: optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.05),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.9, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.01),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05, t0=5, lambd=0.01),
    "Rprop": lambda p: optim.Rprop(p, lr=0.05),
}


def at(i, action):
    return lambda n, world: action(world) if n == i else None


def group(world):
    return world.optimizer.param_groups[0]


def each(world):
    return [(kept, k, v) for kept in world.optimizer.state.values() for k, v in kept.items() if isinstance(v, sg.Tensor)]


def replaced(world):
    for kept, k, v in each(world):
        kept[k] = v * 0.5 if v.ndim else v * 0 + 100


def edited(world):
    for _, _, v in each(world):
        v.mul_(0.5 if v.ndim else 2)


def saved(world):
    world.saved = copy.deepcopy(world.optimizer.state_dict())


def another_rate(n, world):
    if not isinstance(group(world)["lr"], sg.Tensor):
        group(world)["lr"] = 0.05 / (n + 1)
    elif n % 5 == 4:
        group(world)["lr"] = sg.tensor(0.05 / (n + 1), dtype=sg.float64)
    else:
        group(world)["lr"].mul_(0.9)


def frozen(world):
    world.q.requires_grad_(False)
    world.q.grad = None


EVENTS = {
    "nothing": lambda n, world: None,
    "rate": another_rate,
    "decay": lambda n, world: group(world).update(weight_decay=0.01 * (n // 7)),
    "direction": at(10, lambda world: group(world).update(maximize=not group(world)["maximize"])),
    "cleared": at(9, lambda world: world.optimizer.state.clear()),
    "forgotten": at(9, lambda world: world.optimizer.state.pop(world.p, None)),
    "replaced": at(9, replaced),
    "edited": at(9, edited),
    "loaded": lambda n, world: saved(world) if n == 5 else world.optimizer.load_state_dict(world.saved) if n == 12 else None,
    "added": at(7, lambda world: world.optimizer.add_param_group({"params": [world.r], "lr": 0.01})),
    "frozen": lambda n, world: frozen(world) if n == 6 else world.q.requires_grad_(True) if n == 12 else None,
    "zeros": lambda n, world: world.optimizer.zero_grad(set_to_none=n % 3 != 0),
    "data": at(9, lambda world: setattr(world.p, "data", (world.p * 0.5).detach())),
    "eager": lambda n, world: world.step(sg.ones(3, dtype=sg.float64)) if n % 4 == 3 else None,
    "hook": at(0, lambda world: world.optimizer.register_step_post_hook(lambda *_: None)),
}

SCHEDULES = {
    "StepLR": lambda o, s: s.StepLR(o, 3), "MultiStepLR": lambda o, s: s.MultiStepLR(o, [3, 8]), "ConstantLR": lambda o, s: s.ConstantLR(o),
    "LinearLR": lambda o, s: s.LinearLR(o), "ExponentialLR": lambda o, s: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda o, s: s.PolynomialLR(o, 10), "CosineAnnealingLR": lambda o, s: s.CosineAnnealingLR(o, 5),
    "CosineAnnealingWarmRestarts": lambda o, s: s.CosineAnnealingWarmRestarts(o, 4),
    "LambdaLR": lambda o, s: s.LambdaLR(o, lambda n: 0.95**n),
    "MultiplicativeLR": lambda o, s: s.MultiplicativeLR(o, lambda n: 0.95), "OneCycleLR": lambda o, s: s.OneCycleLR(o, 0.1, total_steps=25),
    "CyclicLR": lambda o, s: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=o.defaults.get("momentum", 0) > 0),
    "ReduceLROnPlateau": lambda o, s: s.ReduceLROnPlateau(o, patience=1),
    "SequentialLR": lambda o, s: s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)], [4]),
    "ChainedScheduler": lambda o, s: s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.ExponentialLR(o, 0.9)]),
}  # fmt: skip


class World:
    def __init__(self, make, keep=False):
        self.p, self.q, self.r = (sg.tensor(np.array(v), requires_grad=True) for v in ([1.0, -2.0, 0.5], [[1.0, 2.0]], [0.3, 0.4]))
        self.optimizer, self.keep = make([self.p, self.q]), keep

    def step(self, x):
        loss = ((self.p - x) ** 2).sum() + (self.q * self.q * x.sum()).sum() * 0.1 + (self.r * self.r).sum()
        if not self.keep:
            self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def walk(self, run, event, schedule=None):
        losses = []
        for n in range(20):
            event(n, self)
            losses.append(run(sg.tensor(np.array([1.0, 2.0, n / 3]))).item())
            if schedule is not None:
                schedule.step(*[losses[-1]] * isinstance(schedule, optim.lr_scheduler.ReduceLROnPlateau))
        return losses

    def left(self):
        """Parameters, gradients, and what the optimizer remembers."""
        tensors = [self.p, self.q, self.r, *(p.grad for p in (self.p, self.q, self.r) if p.grad is not None), *(v for *_, v in each(self))]
        return [t.detach().numpy().copy() for t in tensors]


def same(make, event, schedule=lambda o: None):
    found, traces = [], 0
    for wrap in (lambda f: f, sg.compile):
        world = World(make, keep=event is EVENTS["zeros"])
        run = wrap(world.step)
        found.append((world.walk(run, event, schedule(world.optimizer)), world.left()))
        traces = len(run.recompiles()) if wrap is sg.compile else 0
    close = 1e-7 if isinstance(world.optimizer, optim.NAdam) else 1e-10  # it remembers a number in single precision, as PyTorch's does
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=close)
    assert len(found[0][1]) == len(found[1][1])
    for x, y in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(y, x, rtol=close * 10, atol=1e-12)
    return traces


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_what_happens_between_steps(name, event):
    with interpreted():
        same(OPTIMIZERS[name], EVENTS[event])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", ["SGD", "Adam", "rate in a tensor"])
def test_every_schedule(name, schedule):
    with interpreted():
        traces = same(OPTIMIZERS[name], EVENTS["nothing"], lambda o: SCHEDULES[schedule](o, optim.lr_scheduler))
    assert traces == 2  # .grad of r is added to: there is none at first
