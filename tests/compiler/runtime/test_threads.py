"""Threads that compile and call at once; memory written to while a kernel may read it; what is kept; what JAX and NumPy are told."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
import warnings
import weakref

import jax
import numpy as np
import pytest

import symgrad as sg
from symgrad import nn, optim
from symgrad.compiler.backends.source import parsed
from symgrad.compiler.runtime.buffer_pool import BufferPool
from symgrad.compiler.runtime.step_fast_path import StepFastPath
from symgrad.device_buffers import donations_in_flight

THREADS, CALLS = 8, 500


def in_threads(work):
    """Run `work(number)` in all threads at once; their errors are raised here."""
    errors, barrier = [], threading.Barrier(THREADS)

    def run(number):
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def wave(x):
    return (x.sin() * x).sum()


def ways(x):
    return x * 2 if x.sum() > 0 else x - 1


def mixed(x, y):
    return x[:2] * y + x[1:]


def test_sources_are_parsed_in_eight_threads():
    """Objects that are let go of in the middle of it run Python code, and other threads."""

    class Cycle:
        def __init__(self):
            self.me = self

        def __del__(self):
            sum(range(50))

    def work(number):
        for _ in range(200):
            [Cycle() for _ in range(3)]
            parsed("jnp.sum(operand_0, axis=(0, 1), keepdims=False) + f(a, b, [c, (d, e)])")

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(1)
    sys.setswitchinterval(1e-6)
    try:
        in_threads(work)
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)


def test_mixed_calls_in_eight_threads():
    """One function for all, new shapes, both kinds of float, branches, back ends, gradients, state of each thread's own."""
    shared = {name: sg.compile(f) for name, f in (("wave", wave), ("ways", ways), ("mixed", mixed))}
    by_numpy = sg.compile(wave, backend="numpy")

    def work(number):
        rng = np.random.default_rng(number)
        total = sg.zeros(3, dtype=sg.float64)

        @sg.compile(backend="numpy")
        def count(x):
            total.add_(x)
            return total * 1

        wanted = np.zeros(3)
        for call in range(CALLS):
            dtype, size = (np.float32, np.float64)[call % 2], 3 + call % 3 if call < 60 else 3
            values = rng.normal(size=size).astype(dtype)
            x = sg.tensor(values, requires_grad=call % 5 == 0)
            kind = call % 5
            if kind == 0:
                (shared["wave"] if call % 2 else by_numpy)(x).backward()
                np.testing.assert_allclose(x.grad.numpy(), np.cos(values) * values + np.sin(values), rtol=2e-4, atol=1e-5)
            elif kind == 1:
                expected = values * 2 if values.sum() > 0 else values - 1
                if abs(values.sum()) > 1e-3:
                    np.testing.assert_allclose(shared["ways"](x).numpy(), expected, rtol=1e-5, atol=1e-6)
            elif kind == 2:
                y = sg.tensor(values[:3][:1] * 3)
                expected = values[:2] * values[0] * 3 + values[1:3]
                np.testing.assert_allclose(shared["mixed"](x[:3], y).numpy(), expected, rtol=1e-4, atol=1e-5)
            elif kind == 3:
                wanted += values[:3]
                np.testing.assert_allclose(count(x[:3].double()).numpy(), wanted, rtol=1e-6, atol=1e-6)
            else:
                np.testing.assert_allclose(shared["wave"](x).item(), (np.sin(values) * values).sum(), rtol=1e-4, atol=1e-5)

    in_threads(work)


def test_all_threads_compile_the_same_function_at_once():
    fast, calls = sg.compile(wave), []
    in_threads(lambda number: calls.append(fast(sg.ones(5, dtype=sg.float64) * number).item()))
    np.testing.assert_allclose(sorted(calls), sorted(5 * np.sin(n) * n for n in range(THREADS)), rtol=1e-12, atol=1e-12)


def test_training_in_threads():
    """Each with a net of its own: no state of one is seen by another."""

    def train(compiled):
        w = sg.ones(3, dtype=sg.float64, requires_grad=True)
        optimizer = optim.SGD([w], lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            loss = ((w * x).sum() - 1) ** 2
            loss.backward()
            optimizer.step()
            return loss

        run = sg.compile(step, backend="numpy") if compiled else step
        for k in range(20):
            run(sg.tensor([1.0, 0.5, 0.1 * k], dtype=sg.float64))
        return w.detach().numpy().copy()

    wanted, found = train(False), [None] * THREADS
    in_threads(lambda number: found.__setitem__(number, train(True)))
    for w in found:
        np.testing.assert_allclose(w, wanted, rtol=1e-10)


@pytest.mark.parametrize("size", [8, 64, 1000, 4096, 65_536, 1024**2])
@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_a_write_right_after_a_call_never_reaches_its_result(size, backend):
    """XLA reads NumPy's memory without a copy, and may do so after a call has returned."""
    fast = sg.compile(lambda x, y: (x * 2 + y, x - y), backend=backend)
    for run in range(40 if size < 10**6 else 10):
        array = np.full(size, float(run), np.float32)
        x, y = sg.from_numpy(array), sg.ones(size)
        first, second = fast(x, y)
        if run % 2:
            array[:] = 7
        else:
            x.fill_(7)
        y.zero_()
        assert (first.numpy() == 2 * run + 1).all()
        assert (second.numpy() == run - 1).all()


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_nothing_is_left_for_the_collector(backend):
    """A thousand calls with the collector off: what they made is gone, and there are as many objects as before."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.Adam(net.parameters())
    plain = sg.compile(lambda x: net(x), backend=backend)

    @sg.compile(backend=backend)
    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    def once():
        x = sg.ones(2, 3)
        loss = plain(x).sum()
        loss.backward()
        return [weakref.ref(t) for t in (x, loss, step(x))]

    for _ in range(5):
        once()
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        alive = [ref for _ in range(1000) for ref in once() if ref() is not None]
        after = len(gc.get_objects())
    finally:
        gc.enable()
    assert not alive
    assert after - before < 1100  # the list of weak references is not of the calls' making


def told():
    """What JAX and NumPy have been told."""
    config = {name: getattr(jax.config, name) for name in jax.config.values if hasattr(jax.config, name)}
    loggers = {name: (logging.getLogger(name).level, len(logging.getLogger(name).handlers)) for name in ("jax", "jax._src", "symgrad")}
    return config, np.geterr(), loggers, warnings.filters[:], jax.devices()[0]


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_nobody_is_told_anything(wide, dtype, caplog):
    """Before, while user code is traced, after, and when an exception passes; whatever the user has set."""
    seen = []

    def f(x):
        seen.append(told())
        return (1 / (x - x)).sum() + x.log().sum()

    def fails(x):
        seen.append(told())
        raise ZeroDivisionError("the user's own")

    with jax.enable_x64(wide), np.errstate(divide="raise", over="warn"):
        before = told()
        fast = sg.compile(f)
        x = sg.ones(3, dtype=dtype, requires_grad=True)
        fast(x).backward()
        seen.append(told())
        fast.jvp(x.detach())(x.detach())
        with pytest.raises(ZeroDivisionError, match="the user's own"):
            sg.compile(fails)(x)
        with pytest.raises(sg.errors.TraceError):
            sg.compile(lambda x: x * x.sum().item())(x)
        seen.append(told())
        assert fast(x).dtype == dtype
    assert all(now == before for now in seen)
    assert not [record for record in caplog.records if record.name.startswith("jax") and record.levelno >= logging.WARNING]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_no_update_of_a_parameter_is_lost(backend):
    p, x = sg.zeros(60_000, requires_grad=True), sg.ones(60_000)

    def add(x):
        p.data.add_(x)
        return p.sum()

    fast = sg.compile(add, backend=backend)
    fast(x)
    threads = [threading.Thread(target=lambda: [fast(x) for _ in range(50)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert p.min().item() == p.max().item() == 201


def step_of(net):
    opt = optim.SGD(net.parameters(), lr=0.01)

    def step(x):
        opt.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    return step


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("reads", [False, True], ids=["", "reads"])
@pytest.mark.parametrize("attempt", range(4))
def test_whole_steps_from_the_first_call_on(backend, reads, attempt):
    """Threads share the first trace, the second (once there are gradients) and the steps after them; reading a parameter makes its host
    memory aliased for a while."""
    net, twin, x = nn.Linear(3, 1), nn.Linear(3, 1), sg.randn(4, 3)
    twin.load_state_dict(net.state_dict())
    fast, eager = sg.compile(step_of(net), backend=backend), step_of(twin)

    def work(number):
        for _ in range(10):
            fast(x).item()
            if reads:
                assert np.isfinite(net.weight.detach().numpy()).all()

    in_threads(work)
    for _ in range(10 * THREADS):
        eager(x)
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        assert abs(p.detach() - q.detach()).max().item() < 1e-6


def test_no_run_begins_on_the_fast_path_during_a_trace(monkeypatch):
    """The paused thread has found its fast path before the other one traces; its run must not change what the trace has read."""
    w, found, traced = sg.ones(3, requires_grad=True), threading.Event(), threading.Event()
    opt = optim.SGD([w], lr=0.1)

    def let_the_other_run():
        traced.set()
        time.sleep(0.3)

    def step(x):
        opt.zero_grad()
        loss = (w * w).sum() + 0 * x.sum()
        if len(x) == 5:
            let_the_other_run()
        loss.backward()
        opt.step()
        return loss

    def paused_read(self, *args):
        result = read(self, *args)
        if threading.current_thread() is other:
            found.set()
            traced.wait(10)
        return result

    fast = sg.compile(step, backend="xla")
    kept = []
    for _ in range(4):
        fast(sg.ones(2))
        kept.append(w.detach().numpy())  # aliased host memory, for which no placeholder stands during a run
    read = StepFastPath._read
    monkeypatch.setattr(StepFastPath, "_read", paused_read)
    other = threading.Thread(target=lambda: fast(sg.ones(2)))
    other.start()
    assert found.wait(10)
    fast(sg.ones(5))
    other.join()
    np.testing.assert_allclose(w.detach().numpy(), 0.8**6, rtol=1e-5)


def test_guards_that_were_read_during_a_trace_do_not_start_a_run(monkeypatch):
    """The other thread reads its guards, which hold for a moment in the middle of a trace, and goes on when the trace has ended."""
    w = sg.ones(3, requires_grad=True)
    reading, middle, read_in_middle, ended = (threading.Event() for _ in range(4))

    def step(x):
        loss = (w * x.sum()).sum()
        if len(x) == 5:
            w.grad = None
            middle.set()
            read_in_middle.wait(10)
        loss.backward()
        w.data.mul_(1)
        return loss

    def paused_read(self, *args):
        if threading.current_thread() is not other:
            return read(self, *args)
        reading.set()
        middle.wait(10)
        result = read(self, *args)
        read_in_middle.set()
        ended.wait(10)
        return result

    fast = sg.compile(step, backend="xla")
    for _ in range(4):
        w.grad = None
        fast(sg.ones(2))
    read = StepFastPath._read
    monkeypatch.setattr(StepFastPath, "_read", paused_read)
    w.grad = None
    other = threading.Thread(target=lambda: fast(sg.ones(2)))
    other.start()
    assert reading.wait(10)
    fast(sg.ones(5))
    ended.set()
    other.join()
    np.testing.assert_allclose(w.grad.numpy(), 7)  # 5 of the trace, and 2 that are added


def test_a_commit_that_fails_leaves_no_thread_waiting(monkeypatch):
    w = sg.ones(3, requires_grad=True)
    opt = optim.SGD([w], lr=0.1)

    def step():
        opt.zero_grad()
        loss = w.square().sum()
        loss.backward()
        opt.step()
        return loss

    fast = sg.compile(step)
    for _ in range(3):
        fast()
    w.detach().numpy()  # the next run has versions to bump

    def fails(pool):
        raise RuntimeError("the commit failed")

    with monkeypatch.context() as patch:
        patch.setattr(BufferPool, "_bump_versions", fails)
        with pytest.raises(RuntimeError, match="the commit failed"):
            fast()
    assert donations_in_flight.count == 0
    assert not donations_in_flight.on_host
    assert np.isfinite(fast().item())
