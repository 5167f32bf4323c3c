"""Compiling and running leaves JAX as the user has it: before, during, after, and when something goes wrong on the way."""

from __future__ import annotations

import contextlib
import gc
import logging
import threading

import jax
import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.backends.xla import kernel as kernels


def settings():
    found = {name: getattr(jax.config, name) for name in jax.config.values if hasattr(jax.config, name)}
    return {**found, "devices": jax.devices(), "x64": jax.numpy.ones(1, "float64").dtype == np.float64}


def work(tmp_path, number=1.5):
    """Something of everything."""
    x = sg.linspace(0, 1, 3, dtype=sg.float64).requires_grad_()
    fast = sg.compile(lambda x: (x * number).sin().sum())
    fast(x).backward()
    fast.value_and_grad(x.float())
    fast.export(tmp_path / "f.sgx")
    sg.load_compiled(tmp_path / "f.sgx")(x.float().detach())


@pytest.fixture
def kept(tmp_path, monkeypatch):
    from symgrad.compiler.backends.xla import compilation_cache

    monkeypatch.delenv("SYMGRAD_CACHE")
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compilation_cache, "_WORTH", 0.0)


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
def test_before_during_and_after(tmp_path, kept):
    before, seen, done = settings(), [], threading.Event()

    def watch():
        while not done.is_set():
            seen.append(settings())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work(tmp_path)
    finally:
        done.set()
        watcher.join()
    assert settings() == before
    assert len(seen) > 5
    assert all(s == before for s in seen)


def _raises(x):
    raise ZeroDivisionError


def _leaves(x):
    return x * x.sum().item()


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("function", [_raises, _leaves])
def test_when_tracing_fails(function):
    before = settings()
    with pytest.raises((ZeroDivisionError, sg.errors.TraceError)):
        sg.compile(function)(sg.ones(3, dtype=sg.float64))
    assert settings() == before


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("stage", ["lower", "compile"])
def test_when_xla_fails(stage, kept, monkeypatch):
    before = settings()

    def fail(*args, **kwargs):
        raise MemoryError("of XLA's")

    monkeypatch.setattr(jax.stages.Traced if stage == "lower" else jax.stages.Lowered, stage, fail)
    with pytest.raises(MemoryError):
        sg.compile(lambda x: x * 1.25)(sg.ones(3, dtype=sg.float64))
    monkeypatch.undo()
    assert settings() == before


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype")
@pytest.mark.parametrize("wide", [False, True])
def test_types_do_not_depend_on_the_users_setting(tmp_path, wide):
    with jax.enable_x64(wide):
        before = settings()
        for dtype in (sg.float32, sg.float64):
            x = sg.ones(3, dtype=dtype)
            assert sg.compile(lambda x: x * 2 + x.argmax())(x).dtype is dtype
            sg.compile(lambda x: (x * 2, x.argmax())).export(tmp_path / "f.sgx", x)
            y, place = sg.load_compiled(tmp_path / "f.sgx")(x)
            assert y.dtype is dtype
            assert place.dtype is sg.int64
        assert settings() == before


def test_nothing_is_said(tmp_path, caplog, capfd):
    work(tmp_path, 2.5)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert capfd.readouterr() == ("", "")


def test_kernels_do_not_depend_on_how_strict_the_user_has_set_jax():
    def f(x, w):
        return ((x + w) * sg.arange(2)).sum(0)

    x, w = sg.ones(3, 2), sg.ones(2)
    with jax.numpy_rank_promotion("raise"), jax.numpy_dtype_promotion("strict"):
        fast = sg.compile(f)
        assert fast(x, w).tolist() == [0, 6]
        assert fast.jacobian(x, w, wrt="w").tolist() == [[0, 0], [0, 3]]
        assert jax.jit(fast.as_jax())(x.numpy(), w.numpy()).tolist() == [0, 6]
        assert "stablehlo" in fast.hlo(optimized=False)


def test_kernels_are_compiled_where_the_user_has_switched_jit_off(tmp_path):
    """He wants to look into functions of JAX's own."""
    w = sg.ones(2, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.25)

    @sg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    fast = sg.compile(lambda xs: sg.scan(lambda c, x: (c * x, c), xs[0], xs)[0])
    with jax.disable_jit():
        assert [fast(sg.full((3,), 2.0, dtype=dtype)).item() for dtype in (sg.float32, sg.float64)] == [16, 16]
        assert fast.grad(sg.full((3,), 2.0), wrt=0).tolist() == [16, 8, 8]
        assert [step(sg.ones(2)).item() for _ in range(3)] == [2, 0.5, 0.125]
        fast.export(tmp_path / "f.sgx")
        assert sg.load_compiled(tmp_path / "f.sgx")(sg.full((3,), 2.0)).item() == 16
        assert jax.config.jax_disable_jit
    assert not jax.config.jax_disable_jit
    assert fast(sg.full((3,), 2.0)).item() == 16


@pytest.mark.parametrize("searching", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_the_search_for_garbage_is_as_it_was(searching, fails, monkeypatch):
    """It waits while a graph becomes a kernel, and not while XLA compiles."""
    seen = {}

    def watch(owner, name, failing=False):
        inner = getattr(owner, name)

        def watching(*args, **kwargs):
            seen[name] = gc.isenabled()
            if failing:
                raise MemoryError("no room")
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, watching)

    watch(kernels, "lowered")
    watch(kernels, "function", fails)
    watch(jax.stages.Lowered, "compile")
    before = gc.isenabled()
    (gc.enable if searching else gc.disable)()
    try:
        with pytest.raises(MemoryError) if fails else contextlib.nullcontext():
            sg.compile(lambda x: x.cos() + 1)(sg.ones(3))
        assert gc.isenabled() == searching
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == {"lowered": False, "function": False} | ({} if fails else {"compile": searching})


class InterruptedFlag:
    """JAX's flag, whose context manager is interrupted before it has put the earlier value back, or before it has set the new one."""

    def __init__(self, where):
        self.local, self.where = None, where

    def get_local(self):
        return self.local

    def set_local(self, value):
        self.local = value

    def __call__(self, enabled):
        self.enabled = enabled
        return self

    def __enter__(self):
        self.local = self.enabled
        if self.where == "enter":
            raise KeyboardInterrupt

    def __exit__(self, *_):
        if self.where == "exit":
            raise KeyboardInterrupt
        self.local = None


@pytest.mark.parametrize("where", ["enter", "exit"])
def test_an_interrupt_inside_jax_leaves_its_flag_as_it_was(monkeypatch, where):
    flag = InterruptedFlag(where)
    monkeypatch.setattr(jax, "enable_x64", flag)
    with pytest.raises(KeyboardInterrupt):
        kernels.in_x64(True, lambda: 1)
    assert flag.enabled is True
    assert flag.local is None
