"""compile() of functions that change the world: whole training steps, branches on values, random numbers."""

from __future__ import annotations

import copy
import gc
import weakref

import numpy as np
import pytest
from training_steps import training_step

import symgrad as sg
from symgrad.compiler.trace import tracer

nn, optim = sg.nn, sg.optim


def normal(*shape, seed=0, dtype=np.float64):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def trainer(make, dropout=0.0, dtype=sg.float64):
    """A net, its optimizer, and a training step as people write it."""
    sg.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(dropout), nn.Linear(8, 1)).to(dtype)
    optimizer = make(net.parameters())
    return net, optimizer, training_step(net, optimizer)


def trained(make, compiled, steps=6, **options):
    net, optimizer, step = trainer(make, **options)
    run = sg.compile(step) if compiled else step
    sg.manual_seed(1)
    losses = []
    for i in range(steps):
        losses.append(run(normal(16, 4, seed=i), normal(16, 1, seed=100 + i)).item())
        if i == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
    return net, optimizer, losses, run


OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.05),
    "momentum": lambda p: optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: optim.Adam(p, lr=0.01, amsgrad=True, maximize=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, centered=True, momentum=0.9),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.01, lr_decay=0.1),
    "adadelta": lambda p: optim.Adadelta(p),
    "nadam": lambda p: optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_is_what_it_is_eagerly(name):
    """Parameters, running statistics, gradients, the optimizer's state, and the learning rate that is changed on the way."""
    net, optimizer, losses, _ = trained(OPTIMIZERS[name], compiled=False)
    fast, other, found, run = trained(OPTIMIZERS[name], compiled=True)
    np.testing.assert_allclose(found, losses, rtol=1e-6)
    assert run._program_cache.counts() in ((1, 1), (1, 2))
    for key, wanted in net.state_dict().items():
        np.testing.assert_allclose(fast.state_dict()[key].numpy(), wanted.numpy(), rtol=1e-5, atol=1e-7, err_msg=key)
    for p, q in zip(net.parameters(), fast.parameters(), strict=True):
        np.testing.assert_allclose(q.grad.numpy(), p.grad.numpy(), rtol=1e-5, atol=1e-7)
        for kept, value in optimizer.state[p].items():
            np.testing.assert_allclose(other.state[q][kept].numpy(), value.numpy(), rtol=1e-5, atol=1e-7, err_msg=kept)


def test_random_numbers_are_drawn_from_the_same_stream():
    _, _, losses, _ = trained(OPTIMIZERS["adam"], compiled=False, dropout=0.5)
    state = sg.get_rng_state()
    _, _, found, _ = trained(OPTIMIZERS["adam"], compiled=True, dropout=0.5)
    np.testing.assert_allclose(found, losses, rtol=1e-6)
    assert sg.equal(sg.get_rng_state(), state)
    sg.manual_seed(3)
    draw = sg.compile(lambda x: x + sg.randn(3, dtype=sg.float64) * sg.rand(3, dtype=sg.float64) + sg.randint(9, (3,)))
    found = [draw(sg.zeros(3, dtype=sg.float64)).tolist() for _ in range(3)]
    sg.manual_seed(3)
    wanted = [(sg.randn(3, dtype=sg.float64) * sg.rand(3, dtype=sg.float64) + sg.randint(9, (3,))).tolist() for _ in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_a_step_is_traced_once():
    """The first call makes the optimizer's state, as if it had been there; the others are kernels: no code of the user's runs."""
    _, _, step = trainer(OPTIMIZERS["adam"])
    calls = []
    run = sg.compile(lambda x, y: calls.append(1) or step(x, y))
    for i in range(5):
        run(normal(16, 4, seed=i), normal(16, 1, seed=i))
    assert len(calls) == 1


def test_eager_code_may_touch_state_between_calls():
    total = sg.zeros(3, dtype=sg.float64)
    view = total[1:]

    @sg.compile
    def add(x):
        total.add_(x)
        return total * 2

    x = sg.ones(3, dtype=sg.float64)
    for _ in range(2):
        add(x)
    assert total.tolist() == [2, 2, 2]
    total[0] = 10
    assert add(x).tolist() == [22, 6, 6]
    assert total.tolist() == [11, 3, 3]
    assert view.tolist() == [3, 3]


def test_writes_to_what_the_function_makes_stay_inside():
    @sg.compile
    def f(x):
        y = sg.zeros(3, dtype=sg.float64)
        y[1:] += x[1:]
        part = y[:2]
        y.mul_(3)
        part.add_(1)
        return y + part.sum()

    x = sg.tensor([1.0, 2.0, 3.0], dtype=sg.float64)
    for _ in range(3):
        assert f(x).tolist() == [1 + 8, 7 + 8, 9 + 8]
    x.requires_grad_()
    f(x).sum().backward()
    assert x.grad.tolist() == [0, 3 + 3 * 3, 3]


def test_an_argument_that_is_written_to():
    @sg.compile
    def shift(x, y):
        x += y
        return x.sum()

    for _ in range(3):
        x, y = normal(4, seed=1), normal(4, seed=2)
        wanted = (x + y).tolist()
        assert shift(x, y).item() == pytest.approx(sum(wanted))
        assert x.tolist() == wanted


def test_gradients_add_up_if_nobody_sets_them_back():
    w = sg.tensor([1.0, 2.0], requires_grad=True)

    def silent(x):
        (w * x).sum().backward()

    def accumulate(x):
        loss = (w * x).sum()
        loss.backward()
        return loss

    for fast in (sg.compile(silent), sg.compile(accumulate)):
        w.grad = None
        for n in range(1, 6):
            fast(sg.tensor([1.0, 3.0]))
            assert w.grad.tolist() == [n, 3 * n]


def test_both_ways_of_a_branch_are_kept():
    calls = []

    @sg.compile
    def branches(x):
        calls.append(1)
        return (x * x).sum() if x.sum() > 0 else -x.sum()

    for _ in range(3):
        for x in (sg.tensor([1.0, 2.0]), sg.tensor([-1.0, -4.0])):
            assert branches(x).item() == 5
    assert len(calls) == 2
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    branches(x).backward()
    assert x.grad.tolist() == [2, 4]


def test_a_path_that_is_not_taken_changes_nothing():
    count = sg.zeros((), dtype=sg.float64)

    @sg.compile
    def step(x):
        noise = sg.rand((), dtype=sg.float64)
        count.add_(1)
        return x + noise if x > 0 else x - noise

    sg.manual_seed(0)
    found = [step(sg.tensor(x, dtype=sg.float64)).item() for x in (1.0, -1.0, 2.0, -2.0, 3.0)]
    sg.manual_seed(0)
    noise = [sg.rand((), dtype=sg.float64).item() for _ in range(5)]
    assert found == pytest.approx([1 + noise[0], -1 - noise[1], 2 + noise[2], -2 - noise[3], 3 + noise[4]], rel=1e-14)
    assert count.item() == 5


def test_many_paths_are_a_warning():
    @sg.compile
    def counted(x):
        n = 0
        while x > n:
            n += 1
        return x * n

    for n in range(8):
        assert counted(sg.tensor(n + 0.5)).item() == (n + 0.5) * (n + 1)
    with pytest.warns(UserWarning, match="more than 8 paths"):
        assert counted(sg.tensor(8.5)).item() == 8.5 * 9
    assert counted(sg.tensor(8.5)).item() == 8.5 * 9


def test_modes_of_modules_are_part_of_the_program():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(1.0))
    fast = sg.compile(lambda x: net(x))
    x = sg.ones(2, 3)
    assert fast(x).abs().sum().item() == 0
    net.eval()
    np.testing.assert_allclose(fast(x).detach().numpy(), net(x).detach().numpy(), rtol=1e-6)
    net.train()
    assert fast(x).abs().sum().item() == 0


def test_options_of_an_optimizer_are_part_of_the_program():
    w = sg.ones(2, dtype=sg.float64, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1, weight_decay=0.5)

    @sg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        return loss

    x = sg.tensor([1.0, 2.0], dtype=sg.float64)
    wanted = np.ones(2)
    for i in range(6):
        optimizer.param_groups[0]["weight_decay"] = decay = 0.5 if i < 4 else 0.0
        step(x)
        wanted = wanted - 0.1 * (np.array([1.0, 2.0]) + decay * wanted)
        np.testing.assert_allclose(w.detach().numpy(), wanted, rtol=1e-12)


def test_nothing_of_a_failed_trace_stays(monkeypatch):
    with pytest.raises(sg.errors.TraceError, match=r"item\(\)"):
        sg.compile(lambda x: x * x.sum().item())(sg.ones(2))
    assert not tracer.is_tracing()


def test_eager_graphs_notice_what_a_kernel_writes():
    w = sg.ones(2, dtype=sg.float64)
    x = sg.ones(2, dtype=sg.float64, requires_grad=True)

    @sg.compile
    def grow(y):
        w.add_(y)
        return w.sum()

    grow(sg.ones(2, dtype=sg.float64))
    product = (x * w).sum()
    grow(sg.ones(2, dtype=sg.float64))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_what_a_call_leaves_behind_is_left_behind_every_time():
    kept, total = [], sg.zeros(())

    @sg.compile
    def keep(x):
        kept.append(x * 2)
        total.add_(1)
        return x + 1

    for n in range(1, 4):
        keep(sg.tensor(float(n)))
    assert [t.item() for t in kept] == [2, 4, 6]
    assert total.item() == 3


def test_a_constant_that_is_written_to_begins_anew_at_every_call():
    @sg.compile
    def f(x):
        y = sg.tensor([1.0, 2.0])
        y += x
        return y

    for _ in range(3):
        assert f(sg.ones(2)).tolist() == [2, 3]


@pytest.mark.parametrize("effects", [False, True])
def test_nothing_of_the_traced_run_is_kept(effects):
    made, total = [], sg.zeros(())

    @sg.compile
    def f(x):
        y = x * 2
        made.append(weakref.ref(y))
        if effects:
            total.add_(1)
        return y.sum()

    f(sg.ones(3))
    gc.collect()
    assert len(made) == 1
    assert made[0]() is None


# results that have a history, and arguments that get gradients


def test_results_of_a_function_with_effects_have_gradients():
    sg.manual_seed(0)  # the slope of a bias before a batch norm is nothing but rounding, and large for some weights
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(0.5)).double()
    other = copy.deepcopy(net)
    fast = sg.compile(net)
    for i in range(4):
        x = normal(5, 2, seed=i)
        sg.manual_seed(i)
        fast(x).square().sum().backward()
        sg.manual_seed(i)
        other(x).square().sum().backward()
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            assert sg.allclose(p.grad, q.grad, rtol=1e-10, atol=1e-12)
    assert sg.allclose(net[1].running_mean, other[1].running_mean, rtol=1e-12)


def test_backward_of_what_read_state_before_it_was_written_to():
    state = sg.ones(3, dtype=sg.float64)
    shown = state.numpy()  # so that it is written to where it is

    @sg.compile
    def scaled(w):
        y = w * (state + 0)
        state.mul_(2)
        return y.sum()

    w = sg.ones(3, dtype=sg.float64, requires_grad=True)
    for expected in (1.0, 2.0, 4.0, 8.0):
        w.grad = None
        scaled(w).backward()
        assert w.grad.tolist() == [expected] * 3
    assert shown.tolist() == [16.0] * 3


def test_under_no_grad_nothing_is_recorded():
    net = sg.compile(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)))
    net(sg.ones(3, 2))
    with sg.no_grad():
        assert not net(sg.ones(3, 2)).requires_grad
    assert net(sg.ones(3, 2)).requires_grad


def test_backward_inside_leaves_gradients_on_arguments_at_every_call():
    @sg.compile
    def squares(a):
        (a * a).sum().backward()
        return a * 2

    for value in (0.5, 2.0, 3.0):
        a = sg.tensor([value], requires_grad=True)
        assert squares(a).tolist() == [2 * value]
        assert a.grad.tolist() == [2 * value]
    squares(a)
    squares(a)
    assert a.grad.tolist() == [18.0]  # added up, as in eager code


def test_results_of_a_traced_call_belong_to_the_arguments():
    @sg.compile
    def noisy(a):
        return a * sg.rand(2).detach()

    for _ in range(3):
        a = sg.ones(2, requires_grad=True)
        y = noisy(a)
        y.sum().backward()
        assert sg.equal(a.grad, y.detach())


def test_backward_into_what_was_computed_outside_is_refused():
    @sg.compile
    def inner(h):
        (h * h).sum().backward()
        return h

    w = sg.ones(2, requires_grad=True)
    with pytest.raises(sg.errors.TraceError, match=r"test_effects.py:\d+: backward\(\) is called .* pass h.detach\(\)"):
        inner(w * 2)
    assert w.grad is None
    assert inner((w * 2).detach().requires_grad_()).tolist() == [2.0, 2.0]
