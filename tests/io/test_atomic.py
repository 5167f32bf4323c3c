"""A file is written wholly or not at all, whatever happens meanwhile."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import tempfile
import threading
import tracemalloc

import numpy as np
import pytest

import symgrad as sg
from symgrad.io import load, save
from symgrad.tensor import wrap

OLD, NEW = wrap(np.ones(2)), wrap(np.zeros(500_000))


def left_alone(folder):
    """The old file is whole, and nothing lies beside it."""
    assert load(folder / "x").tolist() == [1, 1]
    assert os.listdir(folder) == ["x"]


def run(code, *arguments):
    start = "import errno, os, resource, signal, sys, symgrad as sg\n"
    return subprocess.run([sys.executable, "-c", start + code, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_a_refused_object_changes_nothing(tmp_path):
    save(OLD, tmp_path / "x")
    with pytest.raises(TypeError, match="cannot store a object"):
        save({"a": NEW, "b": object()}, tmp_path / "x")
    left_alone(tmp_path)


def test_a_full_disk_changes_nothing(tmp_path):
    save(OLD, tmp_path / "x")
    code = """
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    sg.save(sg.zeros(500_000), sys.argv[1])
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    assert run(code, tmp_path / "x").stdout == "EFBIG\n"
    left_alone(tmp_path)


@pytest.mark.parametrize("function", ["fsync", "replace", "chmod"])
def test_a_failing_system_changes_nothing(tmp_path, monkeypatch, function):
    save(OLD, tmp_path / "x")

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(OSError, match="No space left on device"):
        save(NEW, tmp_path / "x")
    left_alone(tmp_path)


def test_an_interrupt_changes_nothing(tmp_path, monkeypatch):
    save(OLD, tmp_path / "x")

    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(NEW, tmp_path / "x")
    left_alone(tmp_path)


def test_a_killed_process_leaves_the_old_file(tmp_path):
    save(OLD, tmp_path / "x")
    code = "os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)\nsg.save(sg.zeros(500_000), sys.argv[1])"
    assert run(code, tmp_path / "x").returncode == -9
    assert load(tmp_path / "x").tolist() == [1, 1]
    (rest,) = (name for name in os.listdir(tmp_path) if name != "x")
    assert rest.startswith(".symgrad-")
    save(NEW, tmp_path / "x")
    assert load(tmp_path / "x").shape == NEW.shape


def test_numbers_and_name_reach_the_disk_in_this_order(tmp_path, monkeypatch):
    steps = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (steps.append((name, *map(kind, args))), real(*args)))

    def kind(given):
        path = f"/proc/self/fd/{given}" if isinstance(given, int) else given
        return "folder" if os.path.isdir(path) else "file"

    save(NEW, tmp_path / "x")
    assert [step[:2] for step in steps] == [("fsync", "file"), ("replace", "file"), ("fsync", "folder")]


def test_a_folder_that_cannot_be_synchronized_is_no_error(tmp_path, monkeypatch):
    real = os.open

    def no_folders(path, flags, *rest):
        if path == str(tmp_path):
            raise PermissionError(errno.EACCES, "as on Windows")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", no_folders)
    save(OLD, tmp_path / "x")
    left_alone(tmp_path)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_are_those_of_open(tmp_path, mask):
    before = os.umask(mask)
    try:
        save(OLD, tmp_path / "new")
        (tmp_path / "plain").write_bytes(b"")
        (tmp_path / "old").write_bytes(b"")
        os.chmod(tmp_path / "old", 0o640)
        save(OLD, tmp_path / "old")
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "new").st_mode == os.stat(tmp_path / "plain").st_mode
    assert os.stat(tmp_path / "old").st_mode & 0o777 == 0o640


def test_a_file_that_may_not_be_written_is_not_replaced():
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x")
        save(OLD, path)
        os.chmod(path, 0o444)
        os.chmod(folder, 0o777)
        try:
            if user == 0:
                os.seteuid(65534)  # the superuser may write everything
            with pytest.raises(PermissionError):
                save(NEW, path)
        finally:
            os.seteuid(user)
        assert load(path).tolist() == [1, 1]
        assert os.listdir(folder) == ["x"]


def test_links_stay_and_their_targets_are_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real" / "x", tmp_path / "link")
    for value in (OLD, NEW):  # a target that is not there yet, and one that is
        save(value, tmp_path / "link")
        assert os.path.islink(tmp_path / "link")
        assert load(tmp_path / "real" / "x").shape == value.shape
    assert os.listdir(tmp_path / "real") == ["x"]


def test_devices_and_pipes_are_written_to_and_never_replaced(tmp_path):
    """With a pipe in a folder of its own: a fault here must not cost the machine that runs the tests its /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        save(OLD, tmp_path / "pipe")
        received = os.read(end, 10_000)
    finally:
        os.close(end)
    assert load(io.BytesIO(received)).tolist() == [1, 1]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(RuntimeError, match=f"Parent directory {tmp_path}/missing does not exist."):
        save(OLD, tmp_path / "missing" / "x")
    with pytest.raises(IsADirectoryError):
        save(OLD, tmp_path)
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        load(tmp_path / "x")
    with pytest.raises(AttributeError, match="write"):
        save(OLD, 5)
    assert os.listdir(tmp_path) == []


def test_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(OLD, "x")
    left_alone(tmp_path)


def test_two_threads_that_save_to_one_name_leave_one_whole_file(tmp_path):
    objects = [wrap(np.full(20_000, i)) for i in range(8)]
    threads = [threading.Thread(target=lambda obj=obj: [save(obj, tmp_path / "x") for _ in range(5)]) for obj in objects]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(tmp_path / "x").unique().numel() == 1
    assert os.listdir(tmp_path) == ["x"]


def test_saving_takes_the_memory_of_one_tensor_at_most_and_loading_of_the_file_once(tmp_path):
    def peak(function, *args, **options):
        tracemalloc.start()
        try:
            kept = function(*args, **options)
            return tracemalloc.get_traced_memory()[1] / 1e6, kept
        finally:
            tracemalloc.stop()

    save(OLD, tmp_path / "x")  # imports what it needs
    load(tmp_path / "x")
    plain = [sg.rand(1000, 250) for _ in range(10)]  # a megabyte each
    assert peak(save, plain, tmp_path / "x")[0] < 0.2
    assert 10 <= peak(load, tmp_path / "x")[0] < 10.3
    assert peak(load, tmp_path / "x", mmap=True)[0] < 0.2
    assert 1 <= peak(save, [x.T for x in plain], tmp_path / "x")[0] < 1.3
