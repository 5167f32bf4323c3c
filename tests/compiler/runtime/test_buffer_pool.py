"""Steps of training keep what they write to, and the gradients that they leave, on the device from run to run."""

from __future__ import annotations

import signal
import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.runtime.step_fast_path import make_step_fast_path
from symgrad.device_buffers import donations_in_flight
from symgrad.device_tensor import is_on_device, storage_of

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


def test_state_stays_on_the_device_from_step_to_step():
    net, step = trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(3):
        fast(x)
    assert is_on_device(net.weight)
    assert is_on_device(net.weight.grad)
    held = storage_of(net.weight).parent.buffer
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


def test_a_gradient_that_somebody_keeps_is_not_written_over():
    (net, step), (other, eager) = trainer(sg.float64), trainer(sg.float64)
    fast, x = sg.compile(step), sg.ones(4, 3, dtype=sg.float64)
    for _ in range(3):
        fast(x)
        eager(x)
    kept, expected = net.weight.grad, other.weight.grad
    net.weight.grad = other.weight.grad = None  # as many hold it as before: not the tensor, but somebody else
    fast(x)
    eager(x)
    np.testing.assert_allclose(kept, expected, rtol=1e-10)
    np.testing.assert_allclose(net.weight.grad, other.weight.grad, rtol=1e-10)


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
    assert is_on_device(state) is False
    grow(sg.ones(3))
    assert grow(kernel_result(3)).tolist() == [6.0] * 3


def growing():
    state = sg.ones(3)

    def grow(x):
        state.add_(x)
        return x * 3

    return state, grow


@pytest.mark.parametrize("view", [False, True])
def test_the_state_itself_as_an_argument_is_read_as_it_is_now(view):
    (state, grow), (other, eager) = growing(), growing()
    fast = sg.compile(grow)
    for _ in range(4):
        fast(sg.ones(3)), eager(sg.ones(3))
    assert fast._fast_entries[1].step is not None
    with pytest.warns(UserWarning, match="x and state share memory"):
        found = fast(state[:] if view else state)
    assert found.tolist() == eager(other[:] if view else other).tolist() == [30.0] * 3
    assert state.tolist() == other.tolist()


def test_an_array_of_another_type_is_not_taken_for_one_of_the_last_type():
    state, grow = growing()
    fast = sg.compile(grow)
    for _ in range(4):
        fast(np.ones(3, np.float32))
    assert fast._fast_entries[1].step is not None
    assert fast(np.ones(3)).dtype == np.float64
    assert state.tolist() == [6.0] * 3


@pytest.mark.parametrize("short", [False, True])
def test_an_interrupt_between_run_and_new_values_finishes_the_step(short, monkeypatch):
    (net, step), (other, eager) = trainer(), trainer()
    fast, x = sg.compile(step), sg.ones(4, 3)
    for _ in range(4):
        fast(x)
        eager(x)
    program, interrupts = fast._latest, [KeyboardInterrupt]
    renew = program.runner.pool._gradients.refresh

    def interrupted():
        if interrupts:
            raise interrupts.pop()
        renew()

    monkeypatch.setattr(program.runner.pool._gradients, "refresh", interrupted)
    assert net.weight.grad is not None  # whoever asks may keep it, so there will be another
    entry = fast._fast_entries[1]
    entry.step = make_step_fast_path(program, None) if short else None
    with pytest.raises(KeyboardInterrupt):
        fast(x)
    eager(x)
    assert not interrupts
    assert not donations_in_flight.count
    assert sg.allclose(net.weight, other.weight, rtol=1e-5)
    assert sg.allclose(net.weight.grad, other.weight.grad, rtol=1e-5)
    fast(x)


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_interrupts_at_any_moment_leave_a_step_done_or_not_done(dtype):
    """By real signals, while the kernel runs and before and after that; float64 from the host takes the slow path, and needs a context."""
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
            assert not donations_in_flight.count
            assert not jax.config.jax_enable_x64
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 300
    assert all(sg.isfinite(p).all() and sg.isfinite(p.grad).all() for p in net.parameters())


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
    program = fast._latest

    def fails(*held):
        raise MemoryError

    held = storage_of(net.weight)
    program.runner.kernel._execute = fails
    entry = fast._fast_entries[1]
    entry.step = make_step_fast_path(program, None) if short else None
    with pytest.raises(MemoryError):
        fast(x)
    assert storage_of(net.weight) is held
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


def test_a_name_that_stands_for_another_tensor_is_noticed_between_steps():
    total, scale = sg.zeros(3), sg.full((3,), 2.0)

    def add(x):
        total.add_(x)
        return x * scale

    fast = sg.compile(add, backend="xla")
    for _ in range(4):
        assert fast(sg.ones(3)).tolist() == [2.0] * 3
    scale = sg.full((3,), 5.0)
    assert fast(sg.ones(3)).tolist() == [5.0] * 3
    assert total.tolist() == [5.0] * 3


@pytest.mark.parametrize(("dtype", "fast"), [(np.float32, True), (np.complex64, True), (np.float64, False), (np.complex128, False)])
def test_host_arrays_take_the_fast_path_unless_they_need_the_x64_flag(dtype, fast, monkeypatch):
    from symgrad.compiler.runtime.program import CACHE_MISS
    from symgrad.compiler.runtime.step_fast_path import StepFastPath

    run, hits = StepFastPath.run, []

    def seen(self, args):
        result = run(self, args)
        hits.append(result is not CACHE_MISS)
        return result

    monkeypatch.setattr(StepFastPath, "run", seen)
    total, x = sg.tensor(np.zeros(3, dtype)), np.array([1, 2, 3], dtype)
    step = sg.compile(lambda x: (total.add_(x), x * 2)[1])
    for _ in range(4):
        assert step(x).tolist() == (x * 2).tolist()
    assert hits == [fast] * len(hits) != []
    assert total.tolist() == (x * 4).tolist()
