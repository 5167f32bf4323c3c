"""Where the numbers of tensors are: results and state of kernels stay on the device until somebody looks, and nobody sees stale ones."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import stepping as stepping_module
from symgrad.compiler.shortcut import no_shortcut
from symgrad.compiler.stepping import stepping
from symgrad.resident import giving, is_alone, is_resident, memory, move, resident, write

nn, optim = sg.nn, sg.optim


def double(x):
    return x * 2


def kernel_result(*shape):
    return sg.compile(double)(sg.ones(*shape))


def trainer(dtype=sg.float32):
    sg.manual_seed(0)
    net = nn.Linear(3, 2).to(dtype)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    return net, step


# a resident tensor is a tensor like any other


def test_a_result_stays_on_the_device_until_it_is_looked_at():
    y = kernel_result(2, 3)
    assert is_resident(y)
    assert (y.shape, y.dtype, y.ndim, y.requires_grad) == ((2, 3), sg.float32, 2, False)
    assert is_resident(y)
    assert (y + 1).tolist() == [[3.0] * 3] * 2
    assert not is_resident(y)
    assert type(y) is sg.Tensor


@pytest.mark.parametrize(
    "look",
    [repr, lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t[0], lambda t: t.detach(), lambda t: t.data, np.asarray, lambda t: t.T],
)
def test_whoever_looks_gets_numbers(look):
    y, like = kernel_result(2, 2), sg.full((2, 2), 2.0)
    assert str(look(y)) == str(look(like))


def test_what_was_looked_at_can_be_written_to():
    y = kernel_result(3)
    y.numpy()[0] = 5
    y += 1
    assert y.tolist() == [6.0, 3.0, 3.0]


def test_a_resident_parameter_is_a_parameter():
    p = nn.Parameter(sg.zeros(2))
    move(p, memory(kernel_result(2)))
    assert is_resident(p)
    assert p.__class__ is nn.Parameter
    assert isinstance(p, nn.Parameter)
    assert repr(p) == "Parameter containing:\ntensor([2., 2.], requires_grad=True)"
    assert type(p) is nn.Parameter


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t)), nn.Parameter])
def test_copies_of_resident_tensors_are_ordinary_ones(duplicate):
    p = nn.Parameter(sg.zeros(2))
    move(p, memory(kernel_result(2)))
    q = duplicate(p)
    assert type(q) is nn.Parameter
    assert q.tolist() == [2.0, 2.0]


def test_a_class_of_ones_own_comes_back():
    class Mine(sg.Tensor):
        def twice(self):
            return self * 2

    t = sg.zeros(2).as_subclass(Mine)
    t._base = None
    move(t, memory(kernel_result(2)))
    assert isinstance(t, Mine)
    assert t.twice().tolist() == [4.0, 4.0]
    assert type(t) is Mine


def test_threads_that_look_at_once_see_the_same_memory():
    for _ in range(20):
        y, seen = kernel_result(8), []
        barrier = threading.Barrier(4)

        def look(y=y, seen=seen, barrier=barrier):
            barrier.wait()
            seen.append(y._array)

        threads = [threading.Thread(target=look) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len({id(a) for a in seen}) == 1


# who else sees the memory


def test_alone_is_who_shares_memory_with_nobody():
    x = sg.randn(3, 2)
    assert is_alone(x)
    for sharing in (x.detach(), x[0], x.numpy(), x.T, x.data, x.reshape(6)):
        assert not is_alone(x)
        del sharing
    assert is_alone(x)
    assert not is_alone(x[0])


def test_writing_is_seen_by_all_who_share_the_memory():
    x, held = sg.zeros(3), memory(kernel_result(3))
    view, array = x[1:], x.numpy()
    write(x, held)
    assert x.tolist() == [2.0] * 3
    assert view.tolist() == [2.0] * 2
    assert array.tolist() == [2.0] * 3


def test_writing_to_who_is_alone_moves_it():
    x = sg.zeros(3)
    before = x._version
    write(x, memory(kernel_result(3)))
    assert is_resident(x)
    assert x._version == before + 1
    write(x, np.ones(3, np.float32))
    assert not is_resident(x)
    assert x.tolist() == [1.0] * 3


# training steps


def test_state_stays_on_the_device_from_step_to_step():
    net, step = trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(3):
        fast(x)
    assert is_resident(net.weight)
    assert is_resident(net.weight.grad)
    held = memory(net.weight)
    fast(x)
    assert held.is_deleted()  # its memory was used for the new value: no copy


def test_eager_code_between_steps_sees_and_changes_the_state():
    (net, step), (other, eager) = trainer(sg.float64), trainer(sg.float64)
    fast = sg.compile(step)
    x = sg.linspace(-1, 1, 12, dtype=sg.float64).reshape(4, 3)
    view, array = net.bias[:1].detach(), net.bias.detach().numpy()
    for i in range(8):
        assert fast(x).item() == pytest.approx(eager(x).item(), rel=1e-12)
        if i == 3:
            with sg.no_grad():
                for n in (net, other):
                    n.weight.mul_(0.5)
                    n.bias += 1
        if i == 5:
            other.bias.detach().numpy()[0] = array[0] = 7
        assert view[0].item() == array[0] == net.bias[0].item()
    assert np.allclose(net.weight.detach().numpy(), other.weight.detach().numpy(), rtol=1e-12)
    assert np.allclose(array, other.bias.detach().numpy(), rtol=1e-12)


def test_a_state_dict_taken_between_steps_is_that_moment():
    net, step = trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(3):
        fast(x)
    kept = {k: v.clone() for k, v in net.state_dict().items()}
    fast(x)
    assert not sg.equal(kept["weight"], net.weight)
    net.load_state_dict(kept)
    assert sg.equal(kept["weight"], net.weight)
    fast(x)
    assert not sg.equal(kept["weight"], net.weight)


def test_the_same_state_under_two_names_is_not_given_away_while_it_is_read():
    state = sg.ones(3)

    @sg.compile
    def grow(x):
        state.add_(x)
        return x * 3

    for expected in (2.0, 4.0, 8.0, 16.0):
        result = grow(state.detach().clone())
        assert state.tolist() == [expected] * 3
    assert result.tolist() == [24.0] * 3
    assert is_resident(state) is False
    grow(sg.ones(3))
    assert grow(kernel_result(3)).tolist() == [6.0] * 3


def test_an_interrupt_between_run_and_rebinding_finishes_the_step(monkeypatch):
    (net, step), (other, eager) = trainer(sg.float64), trainer(sg.float64)
    fast, x = sg.compile(step), sg.ones(4, 3, dtype=sg.float64)
    for _ in range(4):
        fast(x)
        eager(x)
    path, interrupts = next(iter(fast._steps.values()))[0], [KeyboardInterrupt]
    leave = path._leave

    def interrupted(*args):
        if interrupts:
            raise interrupts.pop()
        leave(*args)

    monkeypatch.setattr(path, "_leave", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fast(x)
    eager(x)
    assert sg.allclose(net.weight, other.weight, rtol=1e-12)
    fast(x)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_interrupts_at_any_moment_leave_a_step_done_or_not_done(dtype):
    """By real signals, while the kernel runs and before and after that; float64 from the host takes the long way, and needs a context."""
    import jax

    net, step = trainer(dtype)
    fast, x = sg.compile(step), sg.ones(4, 3, dtype=dtype)
    for _ in range(3):
        fast(x)

    def interrupt(*_):
        raise KeyboardInterrupt

    before, caught = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for k in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + 2e-6 * k)
                while True:
                    fast(x)
            except KeyboardInterrupt:
                caught += 1
            assert sg.isfinite(fast(x))
            assert not giving.count
            assert not jax.config.jax_enable_x64
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 300
    assert all(sg.isfinite(p).all() and sg.isfinite(p.grad).all() for p in net.parameters())


def test_an_interrupt_on_the_shortest_way_finishes_the_step(monkeypatch):
    (net, step), (other, eager) = trainer(), trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(4):
        fast(x)
        eager(x)
    interrupts = [KeyboardInterrupt]

    def interrupted(held):
        if interrupts:
            raise interrupts.pop()
        return resident(held)

    monkeypatch.setattr(stepping_module, "resident", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fast(x)
    eager(x)
    assert not interrupts
    assert sg.allclose(net.weight, other.weight, rtol=1e-5)
    assert sg.allclose(net.weight.grad, other.weight.grad, rtol=1e-5)


def test_a_step_that_gives_nothing_but_new_values():
    state = sg.ones(3)

    @sg.compile
    def grow(x):
        state.add_(x)

    for k in range(5):
        assert grow(sg.ones(3)) is None
        if k % 2:  # looked at now and then
            assert state[0].item() == k + 2
    assert state.tolist() == [6.0] * 3


@pytest.mark.parametrize("short", [False, True])
def test_a_run_that_fails_gives_everything_back(short):
    net, step = trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(3):
        fast(x)
    before = net.weight.detach().clone()
    fast(x)
    after = net.weight.detach().clone()
    net.load_state_dict({"weight": before, "bias": net.bias.detach().clone()})
    fast(x)
    path = next(iter(fast._steps.values()))[0]

    def fails(*held):
        raise MemoryError

    held = memory(net.weight)
    path.kernel._execute = fails
    fast._shortcut = stepping(path) if short else no_shortcut
    with pytest.raises(MemoryError):
        fast(x)
    assert memory(net.weight) is held
    assert sg.isfinite(net.weight).all()
    assert not sg.equal(before, after)


def test_threads_that_train_and_look_at_the_same_parameters():
    net, step = trainer()
    fast, predict, x = sg.compile(step), sg.compile(net), sg.ones(4, 3)
    for _ in range(3):
        fast(x)
    predict(x)
    failures = []

    def repeat(run):
        try:
            for _ in range(60):
                run()
        except Exception as error:
            failures.append(error)

    runs = [lambda: fast(x), lambda: fast(x), lambda: predict(x), lambda: net.weight.sum().item(), lambda: net.weight.grad.sum().item()]
    threads = [threading.Thread(target=repeat, args=(run,)) for run in runs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert sg.isfinite(net.weight).all()


def test_parameters_that_kernels_read_move_to_the_device_unless_they_keep_coming_back():
    net = nn.Linear(3, 2)
    fast, x = sg.compile(net), sg.ones(4, 3)
    fast(x)
    assert is_resident(net.weight)
    for _ in range(4):
        net.weight.sum()
        assert not is_resident(net.weight)
        fast(x)
    assert not is_resident(net.weight)
    assert is_resident(net.bias)
    with sg.no_grad():
        net.weight.zero_()
        net.bias.zero_()
    assert fast(x).sum().item() == 0


def test_arguments_on_the_device_are_there_again_after_tracing():
    x = kernel_result(4)
    for use in (sg.compile(lambda x: x + 1), sg.compile(lambda x: x.sum()).grad, sg.compile(lambda x: x + sg.rand(4))):
        use(x)
        assert is_resident(x)
    seen = []
    sg.compile(lambda x: seen.append(x.detach()) or x + 1, fallback="eager")(x)
    assert not is_resident(x)
    assert x.tolist() == seen[0].tolist() == [2.0] * 4


# recorded results


def test_backward_through_kernels_whose_arguments_are_on_the_device():
    fast = sg.compile(lambda x, w: (x * w).sin())
    x, w = sg.linspace(0, 1, 4, dtype=sg.float64), sg.linspace(1, 2, 4, dtype=sg.float64).requires_grad_()
    h = fast(x, w)
    y = fast(h, h)
    (first,) = sg.autograd.grad(y.sum(), w, create_graph=True)
    (second,) = sg.autograd.grad(first.sum(), w)
    eager = lambda x, w: (x * w).sin()
    v = w.detach().clone().requires_grad_()
    (first_,) = sg.autograd.grad(eager(eager(x, v), eager(x, v)).sum(), v, create_graph=True)
    (second_,) = sg.autograd.grad(first_.sum(), v)
    assert sg.allclose(first, first_)
    assert sg.allclose(second, second_)


def test_a_saved_argument_that_was_written_to_is_noticed():
    fast = sg.compile(lambda x, w: x * w)
    w = sg.ones(3, requires_grad=True)
    x = kernel_result(3)
    y = fast(x, w)
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_going_back_twice_needs_retain_graph():
    w = sg.ones(3, requires_grad=True)
    y = sg.compile(lambda w: (w * w).sum())(w)
    y.backward(retain_graph=True)
    y.backward()
    assert w.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="a second time"):
        y.backward()


def test_results_are_new_memory_also_if_they_are_arguments():
    x = sg.ones(4)
    same, again = sg.compile(lambda x: (x, x))(x)
    x += 1
    same += 5
    assert (x.tolist(), same.tolist(), again.tolist()) == ([2.0] * 4, [6.0] * 4, [1.0] * 4)


def test_new_tensors_hold_what_they_are_given():
    assert not is_resident(resident(np.ones(2)))
    assert is_resident(resident(memory(kernel_result(2))))


# donated arguments


def test_a_donated_argument_is_gone_and_its_memory_used():
    fast = sg.compile(lambda x, y: (x + 1, y.sum()), donate=True)
    fast(sg.ones(4), sg.ones(5))
    x, y = kernel_result(4), kernel_result(5)
    where = memory(x).unsafe_buffer_pointer()
    more, total = fast(x, y)
    assert memory(more).unsafe_buffer_pointer() == where
    assert (more.tolist(), total.item()) == ([3.0] * 4, 10.0)
    assert y.tolist() == [2.0] * 5  # fits no result
    for use in (lambda: x + 1, lambda: fast(x, y)):
        with pytest.raises(RuntimeError, match=r"donated to a compiled function.*clone\(\)"):
            use()


def test_what_is_needed_is_not_given_away():
    fast = sg.compile(lambda x, y: (x * y, x + y), donate=True)
    x = kernel_result(4)
    assert fast(x, x)[0].tolist() == [4.0] * 4  # twice the same
    w, h = sg.ones(4, requires_grad=True), kernel_result(4)
    product, _ = fast(h, w)  # recorded: backward needs it
    product.sum().backward()
    assert w.grad.tolist() == [2.0] * 4
    array = np.ones(4, np.float32)
    fast(sg.from_numpy(array), sg.ones(4))
    assert array.tolist() == [1.0] * 4  # memory of the host's


def test_devices_have_names():
    with pytest.raises(ValueError, match=r"device='tpu' is not there: JAX sees cpu:0"):
        sg.compile(double, device="tpu")(sg.ones(2))
    assert memory(sg.compile(double, device="cpu:0")(sg.ones(2))).device.platform == "cpu"


def test_kernels_run_on_several_devices():
    code = """
import symgrad as sg
from symgrad.resident import memory
net, x = sg.nn.Linear(3, 3), sg.ones(2, 3)
there, here = sg.compile(net, device="cpu:2"), sg.compile(net)
y = there(x)
assert memory(y).device.id == 2 and memory(net.weight).device.id == 2
z = here(y)
assert memory(z).device.id == 0
assert sg.allclose(z, net(net(x)))
"""
    flags = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    subprocess.run([sys.executable, "-P", "-c", code], check=True, env=flags)


def test_a_step_that_gets_what_is_gone_says_so():
    state = sg.ones(4)
    shown = state.numpy()

    @sg.compile
    def grow(x):
        state.add_(x)
        return x * 2

    for _ in range(3):
        grow(sg.ones(4))
    x, double_it = kernel_result(4), sg.compile(double, donate=True)
    double_it(sg.ones(4))
    double_it(x)
    with pytest.raises(RuntimeError, match="donated to a compiled function"):
        grow(x)
    assert shown.tolist() == [4.0] * 4
