"""Kernels on disk that are damaged, or that others could have written, are not read; a disk that cannot be used is one warning."""

from __future__ import annotations

import logging
import os
import stat

import numpy as np
import pytest
from kernel_folder import X, count_compiles, entries, own_folder, run

from symgrad.compiler import cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return own_folder(tmp_path, monkeypatch)


@pytest.fixture
def compiles(monkeypatch):
    return count_compiles(monkeypatch)


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
def test_what_is_damaged_is_not_read(folder, damage, caplog):
    caplog.set_level(logging.INFO)
    content = bytes(range(256))
    cache.write("name", content)
    assert cache.read("name") == content
    (path,) = entries(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.read("name") is None
    (message,) = caplog.messages
    assert str(path) in message
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
