"""Training takes no more memory the longer it goes on, without any help of the garbage collector."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import pytest

import symgrad as sg
from symgrad import nn, optim


@pytest.fixture
def collector_off():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def training(make):
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = make(net.parameters())
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    x, y = sg.randn(16, 4), sg.randn(16, 1)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    return step


def grown(step, steps):
    """What many steps leave behind: garbage that only the collector would find, objects, bytes."""
    for _ in range(50):
        step()
    gc.collect()
    tracemalloc.start()
    step()
    bytes_before, objects_before = tracemalloc.get_traced_memory()[0], len(gc.get_objects())
    for _ in range(steps):
        step()
    objects_after = len(gc.get_objects())
    garbage = gc.collect()  # which also empties Python's lists of tuples to be used again
    bytes_after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return garbage, objects_after - objects_before, bytes_after - bytes_before


OPTIMIZERS = [
    lambda params: optim.Adam(params, lr=1e-3, amsgrad=True, weight_decay=0.1),
    lambda params: optim.SGD(params, lr=1e-3, momentum=0.9, nesterov=True),
]


@pytest.mark.parametrize("make", OPTIMIZERS, ids=["Adam", "SGD"])
def test_memory_is_flat(make, collector_off):
    garbage, objects, bytes_more = grown(training(make), 300)
    assert garbage == 0
    assert objects < 20
    assert bytes_more < 4000


@pytest.mark.slow
@pytest.mark.parametrize("make", OPTIMIZERS, ids=["Adam", "SGD"])
def test_memory_is_flat_over_ten_thousand_steps(make, collector_off):
    garbage, objects, bytes_more = grown(training(make), 10_000)
    assert garbage == 0
    assert objects < 20
    assert bytes_more < 4000


def test_nothing_of_a_step_is_kept(collector_off):
    step = training(OPTIMIZERS[0])
    step()
    loss = step()
    node = weakref.ref(loss.grad_fn)
    del loss
    assert node() is None


def test_an_optimizer_goes_with_its_last_reference(collector_off):
    net = nn.Linear(2, 1)
    optimizer = optim.Adam(net.parameters())
    scheduler = optim.lr_scheduler.StepLR(optimizer, 3)
    net(sg.ones(2)).sum().backward()
    optimizer.step()
    gone = weakref.ref(optimizer)
    del optimizer
    assert gone() is not None
    del scheduler
    assert gone() is None
