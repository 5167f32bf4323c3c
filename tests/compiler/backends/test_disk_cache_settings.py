"""What is set about kernels on disk: whether they are kept, where, how many; and JAX's own settings and cache, which are left alone."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

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
    with hook.kept_on_disk("graph"):  # while ours is in place, another thread compiles
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
    with hook.kept_on_disk():
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
        with hook.kept_on_disk("graph"):
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

    first, second = hook.kept_on_disk("a"), hook.kept_on_disk("b")
    with first:
        with hook.kept_on_disk("c"):
            assert hook._store.thread.parts == ("c",)
        assert hook._store.thread.parts == ("a",)
    second.__enter__()
    compilation_cache.reset_cache()  # the user's right
    second.__exit__(None, None, None)
    assert compilation_cache._cache is None
    assert hook._store.thread.parts is None


def test_the_tests_do_not_use_the_users_folder():
    assert os.environ["SYMGRAD_CACHE"] == "0"
    assert cache.folder() is None


def test_it_is_on_unless_switched_off(monkeypatch):
    monkeypatch.delenv("SYMGRAD_CACHE")
    assert isinstance(sg.compiler.cache.folder(), Path)
