"""Worker processes: the same batches as without them, and a clean end whatever happens to them or to the main process."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import loaded_by_workers as loaded
import pytest

import symgrad as sg
from symgrad.utils.data import DataLoader, TensorDataset, workers
from symgrad.utils.data.transfer import INLINE, Parcel, receive, send

pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    # where other tests have loaded JAX, or Python is 3.12 or newer, the way to start that is called fork is warned of
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]


@pytest.fixture(scope="module", autouse=True)
def fork_server():
    """Started once; it stays."""
    next(iter(DataLoader(range(2), num_workers=1)))


@pytest.fixture(autouse=True)
def nothing_is_left(fork_server):
    """No process, and no descriptor: batches that nobody holds are gone."""
    gc.collect()
    before = descriptors()
    yield
    gc.collect()
    assert multiprocessing.active_children() == []
    assert descriptors() == before


def descriptors() -> int:
    """How many are open, where that can be known."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def plain(batches):
    return [[part.tolist() if isinstance(part, sg.Tensor) else part for part in batch] for batch in batches]


def test_batches_are_those_of_the_main_process():
    data = TensorDataset(sg.arange(20).reshape(10, 2), sg.arange(10))
    batches = []
    for count in (0, 2):
        sg.manual_seed(0)
        batches.append([*plain(DataLoader(data, batch_size=3, shuffle=True, num_workers=count)), sg.rand(2).tolist()])
    assert batches[0] == batches[1]


def test_large_batches_go_through_files_and_can_be_written_to():
    loader = DataLoader(loaded.Images(5), batch_size=2, num_workers=2)
    batches = list(loader)
    assert [names for _, _, names in batches] == [("image 0", "image 1"), ("image 2", "image 3"), ("image 4",)]
    for images, numbers, _ in batches:
        assert images.numpy().nbytes > INLINE
        assert (images == numbers.reshape(-1, 1, 1)).all()
        images += 1
        assert (images == 1 + numbers.reshape(-1, 1, 1)).all()
    if os.path.exists("/proc/self/maps"):
        assert Path("/proc/self/maps").read_text().count("memfd:symgrad") == 3
        del batches, images, numbers
        assert Path("/proc/self/maps").read_text().count("memfd:symgrad") == 0


@pytest.mark.slow
def test_who_collects_many_batches_gets_copies_of_the_later_ones(monkeypatch):
    monkeypatch.setattr("symgrad.utils.data.transfer.MAX_MAPPINGS", 2)
    before = descriptors()
    batches = list(DataLoader(loaded.Images(5), num_workers=1))
    assert [images[0, 99, 99].item() for images, *_ in batches] == [0, 1, 2, 3, 4]
    assert descriptors() == before + 2 * bool(before)


def test_every_worker_has_a_copy_of_the_dataset_and_the_first_is_untouched():
    data = TensorDataset(sg.zeros(100_000))  # more than fits inline: mapped by all workers
    loader = DataLoader(data, batch_size=50_000, num_workers=2, worker_init_fn=loaded.write_worker)
    assert [batch.sum().item() for (batch,) in loader] == [50_001, 50_002]
    assert data.tensors[0].sum().item() == 0


def test_streams_are_shared_out():
    assert [b.tolist() for b in DataLoader(loaded.Shared(7), batch_size=2, num_workers=2)] == [[0, 2], [1, 3], [4, 6], [5]]
    loader = DataLoader(loaded.Uneven(), batch_size=None, num_workers=2, prefetch_factor=1)
    assert list(loader) == [0, 100, 101, 102, 103, 104]


def test_seeds_and_what_a_worker_knows():
    sg.manual_seed(7)
    samples = list(DataLoader(loaded.Draws(), num_workers=2, batch_size=None))[:2]
    # written by PyTorch 2.13: seed, random, numpy, torch
    assert [sample[:4] for sample in samples] == [[i, 2, 1407639518939636932 + i, 1407639518939636932 + i] for i in range(2)]
    expected = [0.9290632898373887, 0.03541536592796235, 0.11662513017654419], [0.5574193789609411, 0.240715442815568, 0.3148404359817505]
    assert [sample[4:] for sample in samples] == list(expected)


def test_persistent_workers_serve_every_epoch():
    loader = DataLoader(loaded.Pids(), num_workers=2, batch_size=None, persistent_workers=True, worker_init_fn=loaded.shift)
    first, second = list(loader), list(loader)
    assert first == second
    assert first[0] // 10**9 == 1
    assert first[1] // 10**9 == 2
    assert len(multiprocessing.active_children()) == 2
    dropped = iter(loader)
    next(dropped)
    assert list(loader) == first  # what the pass before had asked for is not seen
    del dropped, loader


@pytest.mark.slow
def test_persistent_workers_start_streams_again():
    loader = DataLoader(loaded.Shared(5), num_workers=2, batch_size=None, persistent_workers=True)
    assert list(loader) == list(loader) == [0, 1, 2, 3, 4]


@pytest.mark.slow
def test_out_of_order_gives_every_batch_once():
    loader = DataLoader(loaded.Squares(9), batch_size=2, num_workers=2, in_order=False)
    assert sorted(i for batch in loader for i in batch.tolist()) == [i * i for i in range(9)]


@pytest.fixture
def no_force(monkeypatch):
    """Workers end by themselves, with code 0, however slow the machine is: neither they (see `take_your_time`) nor we hurry them."""
    codes = []
    monkeypatch.setattr("symgrad.utils.data.workers.GRACE", 60)
    monkeypatch.setattr("symgrad.utils.data.workers._end", lambda process, until: end(process, until) or codes.append(process.exitcode))
    yield
    gc.collect()
    assert len(codes) >= 2
    assert set(codes) == {0}


end = workers._end


def test_a_pass_dropped_half_way_leaves_nothing(no_force):
    iterator = iter(DataLoader(loaded.Images(50), batch_size=5, num_workers=2, worker_init_fn=loaded.take_your_time))
    next(iterator), next(iterator)  # both have begun
    assert len(multiprocessing.active_children()) == 2
    del iterator


def doomed(deed, **options):
    return DataLoader(loaded.Doomed(8, deed), batch_size=2, num_workers=2, **options)


def test_exceptions_arrive_with_type_text_and_traceback():
    iterator = iter(doomed(loaded.raise_value_error))
    assert next(iterator).tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"^Caught ValueError in DataLoader worker process 1\.\nOriginal Traceback") as caught:
        next(iterator)
    assert "in raise_value_error\n" in str(caught.value)
    assert str(caught.value).endswith("ValueError: sample three is broken\n")
    assert [batch.tolist() for batch in iterator] == [[16, 25], [36, 49]]  # the others are still there


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "kind", "text"),
    [
        (loaded.raise_key_error, KeyError, "\nKeyError: 'three'\n"),
        (loaded.raise_two_words, RuntimeError, r"TwoWords: \('one', 'other'\)"),
        (loaded.raise_local_error, RuntimeError, "Hidden: nobody can import me"),
    ],
)
def test_exceptions_that_cannot_travel_as_they_are(deed, kind, text):
    with pytest.raises(kind, match=text):
        list(doomed(deed))


@pytest.mark.slow
def test_exceptions_around_the_dataset():
    with pytest.raises(ZeroDivisionError, match=r"Caught ZeroDivisionError in DataLoader worker process 0\.[\s\S]*: 3 samples"):
        list(DataLoader(range(3), batch_size=3, num_workers=1, collate_fn=loaded.broken_collate))
    with pytest.raises(OSError, match=r"Caught OSError in DataLoader worker process 0\.[\s\S]*worker 0 cannot start"):
        list(DataLoader(range(3), num_workers=1, worker_init_fn=loaded.fail_to_start))
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"Caught [\s\S]*pickle[\s\S]*lambda"):
        list(DataLoader(range(3), num_workers=1, collate_fn=loaded.collate_to_lambda))


@pytest.mark.parametrize(
    ("deed", "ending"),
    [
        (loaded.leave, "exit code 7"),
        (loaded.leave_politely, "exit code 9"),
        (loaded.be_killed, r"killed by signal SIGKILL \(exit code -9\)"),
    ],
)
def test_a_worker_that_dies_is_an_error_at_once(deed, ending):
    iterator = iter(doomed(deed))
    pids = {process.pid for process in multiprocessing.active_children()}
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: {ending}\.") as caught:
        list(iterator)
    assert int(str(caught.value).split()[3].strip(")")) in pids
    assert multiprocessing.active_children() == []
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.fixture
def little_grace(monkeypatch):
    """Do not wait long for workers that hang on purpose."""
    monkeypatch.setattr("symgrad.utils.data.workers.GRACE", 0.1)


def test_a_worker_killed_from_outside_while_everyone_waits(little_grace):
    iterator = iter(DataLoader(loaded.Doomed(4, loaded.hang), sampler=[3, 3, 3, 3], num_workers=2))
    victim = multiprocessing.active_children()[0]
    threading.Timer(0.2, os.kill, (victim.pid, signal.SIGKILL)).start()
    with pytest.raises(RuntimeError, match=rf"pid\(s\) {victim.pid}\) exited unexpectedly: killed by signal SIGKILL"):
        next(iterator)


def test_after_a_death_a_new_pass_has_new_workers():
    loader = doomed(loaded.leave, persistent_workers=True)
    reports = set()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="exit code 7") as caught:
            list(loader)
        reports.add(str(caught.value))
    assert len(reports) == 2  # of different processes


def test_timeout(little_grace):
    assert len(list(DataLoader(loaded.Squares(4), num_workers=2, timeout=60))) == 4
    iterator = iter(DataLoader(loaded.Doomed(4, loaded.hang), sampler=[3], num_workers=1, timeout=0.3))
    for _ in range(2):  # who wants may go on waiting
        with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.3 seconds"):
            next(iterator)


def test_workers_that_do_not_listen_are_ended(little_grace):
    iterator = iter(doomed(loaded.ignore_and_hang))
    next(iterator)
    del iterator


def test_what_cannot_be_sent_is_said_with_the_way_out():
    for bad in ({"collate_fn": lambda samples: samples}, {"worker_init_fn": lambda worker: None}):
        with pytest.raises((AttributeError, pickle.PicklingError), match=r"pickle[\s\S]*at the top level[\s\S]*num_workers=0"):
            iter(DataLoader(range(3), num_workers=2, **bad))
    with pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object[\s\S]*open files, locks and connections in the worker"):
        iter(DataLoader(TensorDataset(sg.ones(3)), num_workers=2, collate_fn=WithLock()))


class WithLock:
    def __init__(self):
        self.lock = threading.Lock()


@pytest.mark.slow
def test_what_a_worker_cannot_load_is_said_with_the_way_out():
    with pytest.raises(AttributeError, match=r"Can't get attribute 'Squares'[\s\S]*could not load what it was sent[\s\S]*num_workers=0"):
        list(DataLoader(loaded.Unloadable(), num_workers=1))


@pytest.fixture(scope="module")
def counter():
    """In memory of multiprocessing's own, which it keeps."""
    return multiprocessing.get_context("forkserver").Value("i", 0)


@pytest.mark.slow
def test_locks_of_multiprocessing_can_be_sent(counter):
    data = loaded.Counting(counter)
    assert sorted(DataLoader(data, batch_size=None, num_workers=2)) == [1, 2, 3, 4]
    assert data.counter.value == 4


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_other_ways_to_start(method, no_force):
    options = {"num_workers": 2, "worker_init_fn": loaded.take_your_time}
    loader = DataLoader(loaded.Squares(5), batch_size=2, multiprocessing_context=method, **options)
    assert [b.tolist() for b in loader] == [[0, 1], [4, 9], [16]]
    context = multiprocessing.get_context(method)
    iterator = iter(DataLoader(loaded.Squares(50), multiprocessing_context=context, **options))
    next(iterator), next(iterator)


@pytest.mark.slow
def test_a_forked_worker_needs_no_pickle():
    loader = DataLoader(range(4), num_workers=2, batch_size=2, collate_fn=lambda s: s[::-1], multiprocessing_context="fork")
    assert list(loader) == [[1, 0], [3, 2]]


@pytest.mark.slow
def test_the_users_fork_server_is_left_alone():
    from multiprocessing import forkserver

    assert forkserver._forkserver._preload_modules == ["__main__"]
    assert forkserver._forkserver._forkserver_pid is None


@pytest.mark.slow
def test_many_workers_are_warned_of():
    with pytest.warns(UserWarning, match=r"This DataLoader will create 999 worker processes in total\. Our suggested max number of worker"):
        DataLoader(range(3), num_workers=999)


@pytest.mark.slow
def test_prefetching_nothing():
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(range(3), num_workers=1, prefetch_factor=0))


@pytest.mark.parametrize("size", [0, pytest.param(10, marks=pytest.mark.slow), pytest.param(INLINE, marks=pytest.mark.slow), 3 * INLINE])
def test_what_is_sent_arrives(size):
    here, there = multiprocessing.Pipe()
    value = {"bytes": b"x" * size, "array": sg.arange(size), "empty": sg.zeros(0, 3), "turned": sg.ones(size, 2).t()}
    received = []
    reader = threading.Thread(target=lambda: received.append(receive(there)))
    reader.start()
    send(here, value)
    reader.join()
    (copy,) = received
    assert copy["bytes"] == value["bytes"]
    for name in ("array", "empty", "turned"):
        assert sg.equal(copy[name], value[name])
        assert copy[name].dtype is value[name].dtype
        assert copy[name].numpy().flags.writeable
        assert copy[name].numpy().flags.aligned
    here.close()
    there.close()


SCRIPT = """
import sys
sys.path.insert(0, {support!r})
import loaded_by_workers as loaded
from symgrad.utils.data import DataLoader

def main():
    {body}

{guard}
"""


def script(tmp_path, body, guard='if __name__ == "__main__":\n    main()'):
    support = str(Path(loaded.__file__).parent)
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(support=support, body=body.replace("\n", "\n    "), guard=guard))
    return [sys.executable, "-W", "error", "-W", "ignore:This DataLoader will create:UserWarning", str(file)]


def test_an_exception_in_the_main_process_ends_the_workers(tmp_path):
    body = """import multiprocessing
global kept
kept = DataLoader(loaded.Squares(10), batch_size=2, num_workers=1, persistent_workers=True)
assert len(list(kept)) == 5
for batch in DataLoader(loaded.Images(100), batch_size=10, num_workers=1):
    print(*[process.pid for process in multiprocessing.active_children()], flush=True)
    raise SystemExit("enough")"""
    done = subprocess.run(script(tmp_path, body), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "enough\n")
    assert_gone(done.stdout)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_main_process_is_interrupted_or_killed(tmp_path, number):
    body = """import multiprocessing
iterator = iter(DataLoader(loaded.Doomed(4, loaded.hang), num_workers=2))
next(iterator)
print(*[process.pid for process in multiprocessing.active_children()], flush=True)
list(iterator)"""
    command = script(tmp_path, body)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as main:
        pids = main.stdout.readline()
        os.killpg(main.pid, number) if number == signal.SIGINT else main.kill()
        _, errors = main.communicate(timeout=60)
    assert main.returncode == -number
    assert errors.count("Traceback") == (number == signal.SIGINT)
    assert_gone(pids)


def test_a_worker_leaves_interrupts_to_the_main_process_from_its_first_moment(tmp_path):
    body = "assert len(list(DataLoader(loaded.Squares(4), num_workers=1))) == 4"
    guard = """import signal
if __name__ == "__main__":
    main()
else:
    print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, flush=True)"""
    done = subprocess.run(script(tmp_path, body, guard), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_script_without_a_guard_is_told_so(tmp_path):
    body = "print(len(list(DataLoader(loaded.Squares(4), num_workers=1))))"
    done = subprocess.run(script(tmp_path, body, guard="main()"), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "that import started worker processes again" in done.stderr
    assert "exited unexpectedly: exit code 1. It ended before it fetched anything" in done.stderr
    assert 'that has to be a file, with `if __name__ == "__main__":` around what it does.' in done.stderr
    assert "EOFError" not in done.stderr


def assert_gone(pids):
    """The processes have ended, or do so within a few seconds."""
    numbers = [int(pid) for pid in pids.split()]
    assert len(numbers) == 2
    waited = threading.Event()
    for _ in range(100):
        if not any(os.path.exists(f"/proc/{pid}") for pid in numbers):
            return
        waited.wait(0.1)
    raise AssertionError(f"still running: {numbers}")


@pytest.mark.slow
@pytest.mark.parametrize(("descriptor", "wanted"), [(-1, []), (0, [0]), (7, [7])])
def test_a_parcel_closes_its_file_once(monkeypatch, descriptor, wanted):
    """The first free descriptor is 0 in a process without standard input."""
    closed = []
    parcel = Parcel(None)
    parcel._descriptor = descriptor
    with monkeypatch.context() as patched:
        patched.setattr(os, "close", closed.append)
        parcel.close()
        parcel.close()
    assert closed == wanted
