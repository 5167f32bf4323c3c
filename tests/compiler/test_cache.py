"""Kernels on disk: found again by the next process, never by another program, and never read if others could have written them."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler import cache
from symgrad.compiler.xla import cache as hook


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for kernels, and every kernel is worth keeping."""
    monkeypatch.delenv("SYMGRAD_CACHE")
    monkeypatch.delenv("SYMGRAD_CACHE_SIZE", raising=False)
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setattr(hook, "_WORTH", 0.0)
    return tmp_path / "cache" / "kernels"


@pytest.fixture
def compiles(monkeypatch):
    """How many programs XLA really compiled."""
    from jax._src import compiler

    seen = []
    original = compiler.backend_compile_and_load
    monkeypatch.setattr(compiler, "backend_compile_and_load", lambda *args, **kwargs: seen.append(1) or original(*args, **kwargs))
    return seen


X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def run(scale=2.0, x=X):
    """What a function compiled anew gives."""
    return sg.compile(lambda x: (x * scale).tanh().sum())(sg.tensor(x)).item()


def entries(folder):
    return sorted(folder.glob("*.kernel"))


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


def test_folder_and_files_are_private(folder):
    before = os.umask(0)
    try:
        run()
    finally:
        os.umask(before)
    assert [stat.S_IMODE(p.stat().st_mode) for p in (folder.parent, folder, *entries(folder))] == [0o700, 0o700, 0o600]


DAMAGES = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[:-1],
    "cut in the head": lambda whole: whole[:20],
    "longer": lambda whole: whole + b"\0",
    "first bit": lambda whole: bytes([whole[0] ^ 1]) + whole[1:],
    "a bit of the checksum": lambda whole: whole[:20] + bytes([whole[20] ^ 4]) + whole[21:],
    "a bit of the content": lambda whole: whole[:200] + bytes([whole[200] ^ 128]) + whole[201:],
    "last bit": lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_what_is_damaged_is_not_read(folder, damage):
    content = bytes(range(256))
    cache.write("name", content)
    assert cache.read("name") == content
    (path,) = entries(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("name") is None
    cache.write("name", content)
    assert cache.read("name") == content


@pytest.mark.parametrize("damage", [DAMAGES["cut"], DAMAGES["a bit of the content"]], ids=["cut", "bit"])
def test_a_damaged_kernel_is_compiled_again_and_replaced(folder, compiles, damage):
    first = run()
    (path,) = entries(folder)
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert run() == first
    assert len(compiles) == 2
    assert len(path.read_bytes()) > 100
    assert run() == first
    assert len(compiles) == 2


def test_a_kernel_under_another_name_is_not_read(folder, compiles):
    first, other = run(), run(5.0)
    one, two = entries(folder)
    content = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(content)
    assert (run(), run(5.0)) == (first, other)
    assert len(compiles) == 4


def _link(path):
    path.rename(path.with_suffix(".elsewhere"))
    path.symlink_to(path.with_suffix(".elsewhere"))


def _pipe(path):
    path.unlink()
    os.mkfifo(path)


def _directory(path):
    path.unlink()
    path.mkdir()


REFUSED = {
    "a link": _link,
    "writable for all": lambda path: path.chmod(0o666),
    "writable for a group": lambda path: path.chmod(0o620),
    "a pipe": _pipe,
    "a folder": _directory,
}


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_what_others_could_have_written_is_compiled_again(folder, compiles, caplog, change):
    first = run()
    change(entries(folder)[0])
    assert (run(), run()) == (first, first)
    assert len(compiles) == 2 + (change is _directory)
    assert len([r for r in caplog.records if r.name.startswith("symgrad") and "not used" in r.message]) == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
@pytest.mark.parametrize("place", [lambda folder: folder, lambda folder: entries(folder)[0]], ids=["folder", "file"])
def test_what_belongs_to_another_user_is_not_read(folder, compiles, monkeypatch, place):
    first = run()
    owned, real = place(folder).stat().st_ino, cache._not_ours

    def not_ours(status, kind):
        values = list(status)
        values[4] += status.st_ino == owned  # st_uid
        return real(os.stat_result(values), kind)

    monkeypatch.setattr(cache, "_not_ours", not_ours)
    assert run() == first
    assert len(compiles) == 2


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_a_folder_that_others_may_write_to_is_not_used(folder, compiles, caplog):
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    assert run() == run()
    assert len(compiles) == 2
    assert not entries(folder)
    assert [r.levelno for r in caplog.records if "not kept" in r.message] == [logging.WARNING]


@pytest.mark.parametrize("where", ["a file", "below a file", "a link to nothing"])
def test_a_folder_that_cannot_be_used_is_one_warning(folder, tmp_path, monkeypatch, caplog, where):
    place = tmp_path / "taken"
    place.symlink_to(tmp_path / "nothing" / "at all") if "link" in where else place.write_text("mine")
    monkeypatch.setenv("SYMGRAD_CACHE_DIR", str(place / "x" if "below" in where else place))
    assert run() == pytest.approx(np.tanh(2 * X).sum(), abs=1e-6)
    cache.write("another", b"kernel")
    assert len([r for r in caplog.records if "not kept" in r.message]) == 1


@pytest.mark.parametrize("failing", ["open", "replace"])
def test_a_full_or_read_only_disk_is_one_warning(folder, monkeypatch, caplog, failing):
    def fail(*args, **kwargs):
        if failing == "open" and args[1] == cache._READ:
            return original(*args, **kwargs)
        raise OSError(28, "No space left on device")

    original = getattr(os, failing)
    with monkeypatch.context() as m:
        m.setattr(cache.os, failing, fail)
        assert run() == run()
    assert [r.message.count("No space left") for r in caplog.records if r.name.startswith("symgrad")] == [1]
    assert not list(folder.iterdir())


def test_a_folder_that_can_only_be_read_is_read(folder, monkeypatch):
    cache.write("name", b"kernel")

    def fail(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(cache.os, "utime", fail)
    assert cache.read("name") == b"kernel"


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


def test_what_a_process_left_unfinished_goes(folder):
    cache.write("one", b"1")
    old, young = folder / "a.unfinished", folder / "b.unfinished"
    old.write_bytes(b"")
    young.write_bytes(b"")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.write("two", b"2")
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize(("text", "bytes_"), [("", 2**30), ("123", 123), ("2K", 2048), ("3m", 3 * 2**20), ("1GB", 2**30), ("0", 0)])
def test_limit(monkeypatch, text, bytes_):
    monkeypatch.setenv("SYMGRAD_CACHE_SIZE", text)
    assert cache.limit() == bytes_


@pytest.mark.parametrize("text", ["much", "-1", "1.5G", "G", "B", "٣"])
def test_a_limit_that_is_none(monkeypatch, caplog, text):
    monkeypatch.setattr(cache, "_warned", set())
    monkeypatch.setenv("SYMGRAD_CACHE_SIZE", text)
    assert cache.limit() == cache.limit() == 2**30
    assert len(caplog.records) == 1


@pytest.mark.parametrize(("word", "off"), [("0", True), ("off", True), ("No", True), ("false", True), ("", False), ("1", False)])
def test_switches(folder, monkeypatch, word, off):
    monkeypatch.setenv("SYMGRAD_CACHE", word)
    assert (cache.folder() is None) == off


def test_switched_off(folder, compiles, monkeypatch):
    monkeypatch.setenv("SYMGRAD_CACHE", "0")
    run()
    run()
    assert len(compiles) == 2
    assert cache.folder() is None
    assert cache.size() == cache.clear() == 0
    assert not folder.exists()


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.delenv("SYMGRAD_CACHE")
    monkeypatch.delenv("SYMGRAD_CACHE_DIR", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative: not to be used")
    assert cache.folder() == tmp_path / ".cache" / "symgrad" / "kernels"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "symgrad" / "kernels"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache.folder() == tmp_path / "Library" / "Caches" / "symgrad" / "kernels"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache.folder() == tmp_path / "local" / "symgrad" / "kernels"


def test_quick_compiles_are_not_kept(folder, monkeypatch):
    monkeypatch.setattr(hook, "_WORTH", 1000.0)
    run()
    assert not folder.exists()


def test_what_jax_compiles_for_others_is_not_kept(folder):
    import jax
    from jax._src import compilation_cache, config

    run()
    kept = len(entries(folder))
    assert compilation_cache._cache is None
    jax.jit(lambda x: x * 3.25)(X)
    inside = threading.Event(), threading.Event()

    def other():
        inside[0].wait()
        with config.persistent_cache_min_compile_time_secs(0.0):
            jax.jit(lambda x: x * 4.25)(X)
        inside[1].set()

    thread = threading.Thread(target=other)
    thread.start()
    with hook.kept("graph"):  # while ours is in place, another thread compiles
        inside[0].set()
        assert inside[1].wait(60)
    thread.join()
    assert len(entries(folder)) == kept
    assert compilation_cache._cache is None


def test_the_store_answers_only_inside_a_block(folder):
    cache.write(hook.name_of("key"), b"planted")
    assert hook._store.get("key") is None
    hook._store.put("other", b"content")
    assert len(entries(folder)) == 1
    with hook.kept():
        assert hook._store.get("key") == b"planted"


def test_a_cache_of_the_users_is_the_one_that_is_used(folder, tmp_path):
    import jax
    from jax._src import compilation_cache

    theirs = tmp_path / "theirs"
    before = jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs
    jax.config.update("jax_compilation_cache_dir", str(theirs))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    try:
        run(7.0)
        assert list(theirs.iterdir())
        assert not folder.exists()
    finally:
        jax.config.update("jax_compilation_cache_dir", before[0])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", before[1])
        compilation_cache.reset_cache()
    run(8.0)
    assert entries(folder)


def _config():
    import jax

    return {name: getattr(jax.config, name) for name in jax.config.values if hasattr(jax.config, name)}


def test_settings_of_jax_are_as_they_were_before_during_and_after(folder):
    from jax._src import compilation_cache

    before, seen = _config(), []

    def interrupted():
        with hook.kept("graph"):
            thread = threading.Thread(target=lambda: seen.append(_config()))
            thread.start()
            thread.join()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert len(before) > 50
    assert seen == [before]
    assert _config() == before
    assert compilation_cache._cache is None
    assert hook._store.users == 0


def test_blocks_may_be_nested_and_overlap(folder):
    from jax._src import compilation_cache

    first, second = hook.kept("a"), hook.kept("b")
    with first:
        with hook.kept("c"):
            assert hook._store.thread.parts == ("c",)
        assert hook._store.thread.parts == ("a",)
    second.__enter__()
    compilation_cache.reset_cache()  # the user's right
    second.__exit__(None, None, None)
    assert compilation_cache._cache is None
    assert hook._store.thread.parts is None


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
from symgrad.compiler.xla import cache
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


def test_the_tests_do_not_use_the_users_folder():
    assert os.environ["SYMGRAD_CACHE"] == "0"
    assert cache.folder() is None


def test_it_is_on_unless_switched_off(monkeypatch):
    monkeypatch.delenv("SYMGRAD_CACHE")
    assert isinstance(sg.compiler.cache.folder(), Path)
