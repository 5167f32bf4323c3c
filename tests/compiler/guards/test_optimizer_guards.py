"""What compiled steps hold fixed of an optimizer is noticed when it changes, and what they read anew is not."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import symgrad as sg
from symgrad.mode import guard_epoch


def trained(change, steps=4):
    """A step, compiled, with something done to its optimizer after the second call; the lines of recompiles(), and the weights."""
    found = []
    for run in (lambda f: f, sg.compile):
        sg.manual_seed(0)
        net, extra = sg.nn.Linear(3, 2), sg.nn.Parameter(sg.ones(2))
        optimizer = sg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        def step(x, net=net, optimizer=optimizer, extra=extra):
            optimizer.zero_grad()
            ((net(x) * extra).square().sum()).backward()
            optimizer.step()

        run_it = run(step)
        for k in range(steps):
            run_it(sg.linspace(-1, 1, 12).reshape(4, 3))
            if k == 1:
                change(optimizer, extra)
        found.append([p.detach().numpy().copy() for p in (*net.parameters(), extra)])
    for mine, wanted in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5)
    return [str(record) for record in run_it.recompiles()]


def halve(optimizer, args, kwargs):
    with sg.no_grad():
        for p in optimizer.param_groups[0]["params"]:
            p.mul_(0.5)


def forget(optimizer):
    for p in optimizer.param_groups[0]["params"]:
        optimizer.state[p]["momentum_buffer"] = sg.zeros_like(p)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda o, p: o.param_groups[0].update(weight_decay=0.1), "optimizer, weight_decay: 0 -> 0.1"),
        (lambda o, p: o.param_groups[0].__setitem__("nesterov", True), "optimizer, nesterov: False -> True"),
        (lambda o, p: o.param_groups[0]["params"].append(p), "optimizer: other parameters in a group"),
        (lambda o, p: o.param_groups[0]["params"].pop(), "optimizer: other parameters in a group"),
        (lambda o, p: o.add_param_group({"params": [p]}), "SGD: other state, or other groups of parameters"),
        (lambda o, p: o.load_state_dict(o.state_dict()), "SGD: other state, or other groups of parameters"),
        (lambda o, p: o.state.clear(), "SGD: other state, or other groups of parameters"),
        (lambda o, p: forget(o), "SGD: other state, or other groups of parameters"),
        (lambda o, p: o.register_step_post_hook(halve), "SGD: other hooks of its steps"),
    ],
)
def test_whatever_changes_in_an_optimizer_is_noticed(change, why):
    assert why in trained(change)


@pytest.mark.parametrize("change", [lambda o, p: o.param_groups[0].update(lr=0.01), lambda o, p: o.param_groups[0].__setitem__("lr", 0.01)])
def test_another_learning_rate_is_no_reason_for_a_trace(change):
    before, after = trained(lambda o, p: None), trained(change)
    assert after == before


def test_a_schedule_does_not_have_modules_looked_at():
    optimizer = sg.optim.SGD(sg.nn.Linear(2, 2).parameters(), lr=0.1, momentum=0.9)
    before = guard_epoch.count
    optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"] = 0.2, 0.5
    assert guard_epoch.count == before
    optimizer.param_groups[0]["momentum"] = 0
    assert guard_epoch.count == before + 1


def test_what_counts_its_changes_is_copied_and_pickled_like_any_other():
    optimizer = sg.optim.Adam(sg.nn.Linear(2, 2).parameters(), lr=0.1)
    for again in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert again.param_groups[0]["lr"] == 0.1
        before = guard_epoch.count
        again.param_groups[0]["eps"] = 1.0
        again.state[again.param_groups[0]["params"][0]] = {}
        assert guard_epoch.count == before + 2
