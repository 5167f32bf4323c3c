"""Kernels on disk: found again by the next program and process, never by another program; the oldest go first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from kernel_folder import X, count_compiles, entries, own_folder, run

import symgrad as sg
from symgrad.compiler import cache
from symgrad.compiler.backends.xla import compilation_cache as hook


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def compiles(monkeypatch):
    return count_compiles(monkeypatch)


def test_the_second_time_nothing_is_compiled(folder, compiles):
    first = run()
    assert len(compiles) == len(entries(folder)) == 1
    assert run() == first
    assert len(compiles) == 1
    assert cache.size() == entries(folder)[0].stat().st_size > 100


def test_the_graph_is_part_of_the_name(folder, monkeypatch):
    """JAX's key tells programs apart already: what it leaves out of it one day is not to be a wrong result."""
    seen, original = [], hook.name_of
    monkeypatch.setattr(hook, "name_of", lambda *parts: seen.append(parts) or original(*parts))
    fast = sg.compile(lambda x: x * 2.25)
    fast(sg.tensor(X))
    assert {parts[0] for parts in seen} == {fast.graph().hash}


def test_gradients_are_kept_too(folder, compiles):
    x = sg.tensor(X, requires_grad=True)
    grads = []
    for _ in range(2):
        x.grad = None
        sg.compile(lambda x: x.exp().sum())(x).backward()
        grads.append(x.grad)
    assert len(compiles) == len(entries(folder)) == 2
    np.testing.assert_allclose(grads[1].numpy(), np.exp(X), rtol=1e-6)


def test_another_number_type_shape_or_op_is_another_kernel(folder, compiles):
    run()
    for again in (lambda: run(3.0), lambda: run(x=X.astype(np.float64)), lambda: run(x=X[:1]), lambda: run(x=X.T.copy())):
        before = len(compiles)
        again()
        assert len(compiles) == before + 1
    assert len(entries(folder)) == 5


def test_ops_of_users_with_one_name_and_two_meanings_are_two_kernels(folder):
    import sympy

    found = []
    for meaning in (sympy.sin, sympy.cos):
        op = sg.elementwise("wave", meaning)
        found.append(sg.compile(lambda x, op=op: op(x))(sg.tensor(X)).numpy())
    np.testing.assert_allclose(found, [np.sin(X), np.cos(X)], rtol=1e-6)


def test_versions_and_machine_are_part_of_the_name(monkeypatch):
    names = {hook.name_of("graph", "key"), hook.name_of("graph", "other"), hook.name_of("other", "key"), hook.name_of("graphkey", "")}
    versions = hook._versions()
    for i in range(len(versions)):
        changed = (*versions[:i], versions[i] + "x", *versions[i + 1 :])
        monkeypatch.setattr(hook, "_versions", lambda changed=changed: changed)
        names.add(hook.name_of("graph", "key"))
    assert len(names) == 4 + len(versions)
    assert len(versions) == 8


def test_the_oldest_go_first_and_use_makes_young(folder, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE_SIZE", "4K")
    for i in range(4):
        cache.write(f"{i}", bytes(900))
        os.utime(folder / f"{i}.kernel", (1000 + i, 1000 + i))
    assert cache.read("0") == bytes(900)
    cache.write("new", bytes(900))
    assert {p.stem for p in entries(folder)} == {"0", "2", "3", "new"}
    assert cache.size() <= 4096
    cache.write("too large", bytes(5000))
    assert len(entries(folder)) == 4
    assert cache.clear() == 4
    assert cache.size() == 0


def test_what_a_process_left_unfinished_goes_after_an_hour(folder, monkeypatch):
    cache.write("one", b"1")
    old, young = folder / "a.unfinished", folder / "b.unfinished"
    old.write_bytes(b"")
    young.write_bytes(b"")
    now = int(time.time())
    monkeypatch.setattr(cache.time, "time", lambda: now + 0.5)
    os.utime(old, (now - 3600,) * 2)
    os.utime(young, (now - 3599,) * 2)
    cache.write("two", b"2")
    assert not old.exists()
    assert young.exists()


def test_many_threads_write_and_read_one_kernel(folder):
    wrong = []
    contents = [bytes([i]) * 100_000 for i in range(4)]

    def work(i):
        for _ in range(50):
            cache.write("same", contents[i])
            found = cache.read("same")
            if found not in contents:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert [p.name for p in folder.iterdir()] == ["same.kernel"]


CODE = """
import sys
import numpy as np
import symgrad as sg
from symgrad.compiler.backends.xla import compilation_cache as cache
cache._WORTH = 0.0
from jax._src import compiler
seen, original = [], compiler.backend_compile_and_load
compiler.backend_compile_and_load = lambda *a, **k: seen.append(1) or original(*a, **k)
x = sg.tensor(np.linspace(-1, 1, 6).reshape(2, 3))
value, grad = sg.compile(lambda x, w: {"a": (x @ w).tanh().sum(), "b": w}["a"]).value_and_grad(x, sg.ones(3, 2, dtype=sg.float64))
print(len(seen), value.item(), grad[1].sum().item())
"""


def processes(seeds):
    env = {k: v for k, v in os.environ.items() if k != "SYMGRAD_CACHE"}
    command = [sys.executable, "-W", "error", "-c", CODE]
    runs = [
        subprocess.Popen(command, env={**env, "PYTHONHASHSEED": str(seed)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for seed in seeds
    ]
    found = [run.communicate() for run in runs]
    assert [errors for _, errors in found] == [""] * len(runs)  # quiet: no word of platforms or caches
    return [text.split() for text, _ in found]


def test_another_process_finds_the_kernel(folder):
    x = sg.tensor(np.linspace(-1, 1, 6).reshape(2, 3))
    value, grad = sg.compile(lambda first, second: (first @ second).tanh().sum()).value_and_grad(x, sg.ones(3, 2, dtype=sg.float64))
    ((compiled, *numbers),) = processes([7])
    assert compiled == "0"
    assert numbers == [str(value.item()), str(grad[1].sum().item())]
    assert len(entries(folder)) == 1


@pytest.mark.slow
def test_twenty_hash_seeds_two_at_a_time_find_one_kernel(folder):
    found = [run for start in range(0, 20, 2) for run in processes([start, start + 1])]
    assert [run[0] for run in found[2:]] == ["0"] * 18
    assert len({tuple(run[1:]) for run in found}) == 1
    assert len(entries(folder)) == 1
