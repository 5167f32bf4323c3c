"""Numbers that an optimizer keeps for each parameter, and that are the same for all, are one input of a step; and what if they are not."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.device_tensor import storage_of
from symgrad.mode import local

optim = sg.optim
MAKERS = {
    "Adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05),
    "NAdam": lambda p: optim.NAdam(p, lr=0.05),
    "RAdam": lambda p: optim.RAdam(p, lr=0.05),
    "Adamax": lambda p: optim.Adamax(p, lr=0.05),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.05),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05),
    "Rprop": lambda p: optim.Rprop(p, lr=0.05),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05, t0=2),
}
X = np.linspace(-1, 1, 3)


def parameters():
    return [sg.tensor(np.array([1.0, -2.0, 0.5]) + i).requires_grad_() for i in range(3)]


def made(make, params, of=None):
    """An optimizer, and a step that moves some of its parameters."""
    optimizer = make(params)

    def step(x):
        optimizer.zero_grad()
        loss = sum(((p - x) ** 2).sum() for p in (params if of is None else [params[i] for i in of]))
        loss.backward()
        optimizer.step()
        return loss

    return optimizer, step


def state(optimizer, params):
    return [x.detach().numpy().copy() for p in params for x in (p, *optimizer.state[p].values()) if isinstance(x, sg.Tensor)]


def same(scenario, **options):
    """What a scenario leaves, eagerly and compiled; and the compiled functions."""
    functions = []

    def compiled(f):
        functions.append(sg.compile(f, **options))
        return functions[-1]

    eager, found = scenario(lambda f: f), scenario(compiled)
    for a, b in zip(eager, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)
    return functions


def counters(optimizer):
    return [kept["step"] for kept in optimizer.state.values()]


@pytest.mark.parametrize("backend", ["xla", "numpy"])
@pytest.mark.parametrize("name", MAKERS)
def test_equal_numbers_are_one_input(name, backend):
    def scenario(compiled):
        params = parameters()
        optimizer, step = made(MAKERS[name], params)
        run = compiled(step)
        for i in range(4):
            run(sg.tensor(X + i))
        return state(optimizer, params)

    (function,) = same(scenario, backend=backend)
    assert len(function.recompiles()) == 1
    kept = {"NAdam": 2, "ASGD": 3}.get(name, 1)
    inputs = function._latest.graph.inputs
    written = [i for i, _ in function._latest.effects.writes if not inputs[i].shape]
    assert len(written) == kept


def test_counters_hold_one_buffer_and_are_tensors_of_their_own():
    params = parameters()
    optimizer, step = made(MAKERS["Adam"], params)
    run = sg.compile(step)
    for i in range(4):
        run(sg.tensor(X + i))
    a, b, c = counters(optimizer)
    assert storage_of(a) is storage_of(b) is storage_of(c)
    a.fill_(10)
    assert [t.item() for t in (a, b, c)] == [10, 4, 4]


def test_on_the_host_they_do_not_share_memory():
    params = parameters()
    optimizer, step = made(MAKERS["Adam"], params)
    run = sg.compile(step, backend="numpy")
    for i in range(4):
        run(sg.tensor(X + i))
    counters(optimizer)[1].fill_(7)
    assert [t.item() for t in counters(optimizer)] == [4, 7, 4]


@pytest.mark.parametrize("which", range(3))
def test_a_counter_that_somebody_sets(which):
    def scenario(compiled):
        params = parameters()
        optimizer, step = made(MAKERS["Adam"], params)
        run = compiled(step)
        for i in range(7):
            if i == 3:
                counters(optimizer)[which].fill_(0)
            if i == 5:
                counters(optimizer)[which].add_(3)  # equal again
            run(sg.tensor(X + i))
        return state(optimizer, params)

    (function,) = same(scenario)
    assert len(function.recompiles()) == 2
    assert "counters of steps that were equal are not" in str(function.recompiles())


@pytest.mark.parametrize("which", range(3))
def test_a_counter_that_somebody_sets_is_noticed_on_the_fast_path(which):
    params = [sg.tensor([1.0, -2.0, 0.5]).requires_grad_() for _ in range(3)]
    optimizer, step = made(MAKERS["Adam"], params)
    run, x = sg.compile(step, backend="xla"), sg.tensor(X.astype(np.float32))
    for _ in range(4):
        run(x)
    assert run._fast_entries[1].step is not None
    assert len(run.recompiles()) == 1
    counters(optimizer)[which].fill_(0)
    run(x)
    assert [t.item() for t in counters(optimizer)] == [1.0 if i == which else 5.0 for i in range(3)]
    assert "counters of steps that were equal are not" in str(run.recompiles())


def test_a_counter_that_the_step_itself_sets():
    def scenario(compiled):
        params = parameters()
        optimizer, step = made(MAKERS["Adam"], params)

        def resets(x):
            loss = step(x)
            counters(optimizer)[1].fill_(5)
            return loss

        step(sg.tensor(X))
        run = compiled(resets)
        for i in range(4):
            run(sg.tensor(X + i))
        return state(optimizer, params)

    same(scenario)


def test_parameters_that_joined_later_have_counters_of_their_own():
    def scenario(compiled):
        params = parameters()
        optimizer, step = made(MAKERS["AdamW"], params, of=(0, 1))
        _, rest = made(lambda _: optimizer, params)
        first, later = compiled(step), compiled(rest)
        for i in range(3):
            first(sg.tensor(X + i))
        for i in range(3):
            later(sg.tensor(X + i))
            first(sg.tensor(X - i))  # donates nothing that others hold
        return state(optimizer, params)

    same(scenario)


def test_no_kernel_is_given_the_buffer_that_others_hold():
    params = parameters()
    optimizer, step = made(MAKERS["Adam"], params)
    run = sg.compile(step)
    run(sg.tensor(X))
    _, counter, _ = counters(optimizer)
    count = sg.compile(lambda: counter.add_(1) * 2)
    for _ in range(2):
        count()
    counter.sub_(2)
    for i in range(2):
        run(sg.tensor(X + i))
    assert len({id(storage_of(t)) for t in counters(optimizer)}) == 1
    count()
    assert [t.item() for t in counters(optimizer)] == [3, 4, 3]


def test_loaded_counters_are_alike():
    def scenario(compiled):
        params = parameters()
        optimizer, step = made(MAKERS["Adam"], params)
        run = compiled(step)
        for i in range(6):
            if i % 2:
                optimizer.load_state_dict(optimizer.state_dict())
            run(sg.tensor(X + i))
        return state(optimizer, params)

    same(scenario)


def test_a_step_that_fails_counts_nothing():
    params = parameters()
    optimizer, step = made(MAKERS["Adam"], params)

    def failing(x):
        step(x)
        raise ValueError("no")

    step(sg.tensor(X))
    with pytest.raises(ValueError, match="no"):
        sg.compile(failing)(sg.tensor(X))
    assert [t.item() for t in counters(optimizer)] == [1, 1, 1]


# an update is traced once for parameters of the same types


class Signs(optim.SGD):
    """An optimizer of the user's own: it need not treat all parameters alike."""

    def _move(self, param, grad, state, group):
        param.sub_(grad.sign() if param is group["params"][1] else grad, alpha=0.1)


@pytest.mark.parametrize("make", [Signs, lambda p: optim.SGD(p, lr=0.1, momentum=0.9, maximize=True), MAKERS["RAdam"]])
def test_gradients_of_every_form(make):
    """What is known of the gradient of one parameter, here that it is constant, says nothing of those of others."""

    def scenario(compiled):
        params = parameters()
        optimizer = make(params)

        def step(x):
            optimizer.zero_grad()
            loss = params[0].sum() + (params[1] * 0).sum() + ((params[2] - x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = compiled(step)
        for i in range(4):
            run(sg.tensor(X + i))
        return state(optimizer, params)

    same(scenario)


def test_parameters_of_one_type_are_traced_once():
    params = parameters()
    _, step = made(MAKERS["Adam"], params)
    captured = []

    @sg.compile
    def watched(x):
        loss = step(x)
        captured.append(len(local.mode.capture.patterns))
        return loss

    watched(sg.tensor(X))
    assert captured == [1]


def test_a_failing_update_changes_nothing():
    params = parameters()
    optimizer, step = made(MAKERS["Adam"], params)
    step(sg.tensor(X))
    optimizer.state[params[2]]["exp_avg"] = sg.zeros(3, dtype=sg.float64)[:2]
    before = state(optimizer, params)
    with pytest.raises(RuntimeError):
        sg.compile(step)(sg.tensor(X))
    for a, b in zip(before, state(optimizer, params), strict=True):
        np.testing.assert_equal(a, b)
