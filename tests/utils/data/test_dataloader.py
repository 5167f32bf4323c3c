"""DataLoader without workers: which batches come, in which order, and which options go together."""

import pickle
import random
import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import symgrad as sg
from symgrad.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
    random_split,
)


class Stream(IterableDataset):
    def __init__(self, n, said=None):
        self.n, self.said = n, n if said is None else said

    def __len__(self):
        return self.said

    def __iter__(self):
        return iter(range(self.n))


def values(loader):
    return [batch.tolist() for batch in loader]


def test_batches_in_order():
    loader = DataLoader(range(7), batch_size=3)
    assert values(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert values(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3
    assert len(iter(loader)) == 3
    loader = DataLoader(range(7), batch_size=3, drop_last=True)
    assert values(loader) == [[0, 1, 2], [3, 4, 5]]
    assert len(loader) == 2
    assert values(DataLoader(range(2))) == [[0], [1]]


def test_shuffles_of_pytorch():
    sg.manual_seed(0)
    assert values(DataLoader(range(10), batch_size=4, shuffle=True)) == [[6, 7, 1, 4], [2, 0, 9, 8], [3, 5]]
    assert sg.randint(1000, (2,)).tolist() == [963, 379]  # what was drawn meanwhile is the same, too
    generator = sg.Generator().manual_seed(1)
    loader = DataLoader(range(6), batch_size=3, shuffle=True, generator=generator)
    assert values(loader) + values(loader) == [[0, 4, 5], [1, 2, 3], [1, 0, 4], [3, 2, 5]]


def test_a_pass_in_order_takes_a_seed_too():
    sg.manual_seed(0)
    values(DataLoader(range(3)))
    assert sg.randint(1000, (2,)).tolist() == [933, 760]


@given(n=st.integers(1, 40), size=st.integers(1, 12), drop=st.booleans(), shuffle=st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_sample_once(n, size, drop, shuffle):
    loader = DataLoader(TensorDataset(sg.arange(n)), batch_size=size, shuffle=shuffle, drop_last=drop)
    batches = [batch.tolist() for (batch,) in loader]
    seen = [i for batch in batches for i in batch]
    assert len(batches) == len(loader)
    assert len(set(seen)) == len(seen) == (n - n % size if drop else n)


def test_samplers():
    assert values(DataLoader(range(5), sampler=[4, 0, 2], batch_size=2)) == [[4, 0], [2]]
    assert values(DataLoader(range(5), batch_sampler=[[1, 3], [0]])) == [[1, 3], [0]]
    loader = DataLoader(range(5), batch_sampler=BatchSampler(SequentialSampler(range(5)), 2, True))
    assert values(loader) == [[0, 1], [2, 3]]
    assert loader.batch_size is None


def test_without_batches():
    batch = list(DataLoader({"a": 1, "b": (2, 3)}, batch_size=None, sampler=["b", "a"]))
    assert batch == [[2, 3], 1]


def test_collate_fn():
    assert list(DataLoader(range(4), batch_size=2, collate_fn=tuple)) == [(0, 1), (2, 3)]
    assert list(DataLoader(range(2), batch_size=None, collate_fn=str)) == ["0", "1"]


def test_datasets_are_asked_once_for_a_batch():
    class Whole(Dataset):
        def __len__(self):
            return 4

        def __getitems__(self, indices):
            return [10 * i for i in indices]

    assert values(DataLoader(Whole(), batch_size=3)) == [[0, 10, 20], [30]]


def test_batches_of_tensors_are_those_that_collating_gives():
    data = TensorDataset(sg.randn(10, 3), sg.arange(10), sg.zeros(10, 0))
    part = Subset(Subset(data, list(range(9, -1, -1))), [5, 0, 2])
    for dataset in (data, part):
        fast, plain = (list(DataLoader(dataset, batch_size=2, collate_fn=f)) for f in (None, lambda s: sg.utils.data.default_collate(s)))
        assert len(fast) == len(plain)
        for a, b in zip(fast, plain, strict=True):
            assert isinstance(a, list)
            assert all(sg.equal(x, y) and x.dtype is y.dtype for x, y in zip(a, b, strict=True))
    ((_, labels, _),) = DataLoader(data, sampler=[-1, sg.tensor(3)], batch_size=2)
    assert labels.tolist() == [9, 3]
    ((_, labels, _),) = DataLoader(data, sampler=[slice(0, 2), slice(4, 6)], batch_size=2)
    assert labels.tolist() == [[0, 1], [4, 5]]
    with pytest.raises(IndexError):
        list(DataLoader(data, sampler=[10]))


def test_a_batch_is_a_copy():
    x = sg.zeros(4)
    (batch,) = next(iter(DataLoader(TensorDataset(x), batch_size=4)))
    batch.fill_(1)
    assert x.tolist() == [0, 0, 0, 0]


def test_a_subclass_of_tensor_dataset_is_asked_for_every_sample():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * t for t in super().__getitem__(index))

    assert [b.tolist() for (b,) in DataLoader(Doubled(sg.arange(3)), batch_size=2)] == [[0, 2], [4]]


def test_gradients_flow_through_batches():
    x = sg.arange(4.0).requires_grad_()
    for (batch,) in DataLoader(TensorDataset(x), batch_size=3):
        (batch * batch).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]


def test_random_split_and_loader_together():
    sg.manual_seed(0)
    train, test = random_split(TensorDataset(sg.arange(10)), [0.8, 0.2])
    seen = [i for part in (train, test) for (b,) in DataLoader(part, batch_size=3, shuffle=True) for i in b.tolist()]
    assert sorted(seen) == list(range(10))


def test_streams():
    assert values(DataLoader(Stream(5), batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert values(DataLoader(Stream(5), batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert values(DataLoader(Stream(4), batch_size=2)) == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert [len(DataLoader(Stream(5), batch_size=2, drop_last=drop)) for drop in (False, True)] == [3, 2]
    assert len(DataLoader(Stream(5), batch_size=None)) == 5


def test_a_stream_longer_than_it_said():
    loader = DataLoader(Stream(3, said=2))
    assert values(loader) == [[0], [1], [2]]  # nobody has asked for the length
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2 .*but 3 samples have been fetched"):
        values(loader)


def test_pinned_memory_is_accepted_with_a_warning():
    loader = DataLoader(range(2), pin_memory=True)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        assert values(loader) == [[0], [1]]


def test_there_is_no_worker_here():
    assert get_worker_info() is None


def test_what_is_fixed_and_what_is_not():
    loader = DataLoader(range(3))
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.collate_fn = tuple
    assert list(loader) == [(0,), (1,), (2,)]


def test_an_iterator_is_not_pickled():
    with pytest.raises(NotImplementedError, match="SingleProcessIterator cannot be pickled"):
        pickle.dumps(iter(DataLoader(range(3))))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"num_workers": -1}, ValueError, "num_workers option should be non-negative; use num_workers=0 to disable multiprocessing."),
        ({"timeout": -1}, ValueError, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, ValueError, "prefetch_factor option could only be specified in multiprocessing"),
        ({"prefetch_factor": -2, "num_workers": 1}, ValueError, "prefetch_factor option should be non-negative"),
        ({"persistent_workers": True}, ValueError, "persistent_workers option needs num_workers > 0"),
        ({"sampler": [1], "shuffle": True}, ValueError, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, ValueError, "batch_sampler option is mutually exclusive with batch_size, shuffle"),
        ({"batch_sampler": [[1]], "shuffle": True}, ValueError, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "sampler": [1]}, ValueError, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "drop_last": True}, ValueError, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
        ({"multiprocessing_context": "spawn"}, ValueError, r"can only be used with multi-process loading \(num_workers > 0\)"),
        ({"multiprocessing_context": "knife", "num_workers": 1}, ValueError, "should specify a valid start method in .*'knife'"),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError, "should be a valid context object or a string"),
    ],
)
def test_options_that_do_not_go_together(options, error, text):
    with pytest.raises(error, match=text):
        DataLoader(range(4), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [1]}, {"batch_sampler": [[1]]}])
def test_a_stream_has_its_own_order(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}="):
        DataLoader(Stream(3), **options)


def test_without_workers_nothing_can_time_out():
    with pytest.raises(AssertionError, match="timeout=1 needs num_workers > 0"):
        iter(DataLoader(range(3), timeout=1))


def test_loading_data_loads_no_processes(tmp_path):
    import subprocess
    import sys

    code = "import sys, symgrad.utils.data; print('multiprocessing' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_options_that_go_together():
    """Constructing a loader starts no process."""
    assert DataLoader(range(4), num_workers=1).prefetch_factor == 2
    assert DataLoader(range(4), num_workers=1, prefetch_factor=0).prefetch_factor == 0
    assert DataLoader(range(4)).prefetch_factor is None
    assert DataLoader(range(4), num_workers=1, multiprocessing_context="spawn").multiprocessing_context.get_start_method() == "spawn"
    assert DataLoader(range(4), num_workers=1).multiprocessing_context is None
    assert DataLoader(range(4), sampler=[1], shuffle=False).batch_size == 1
    assert values(DataLoader(Stream(2), shuffle=False)) == [[0], [1]]  # as in PyTorch, False is no order of the loader's


def test_more_workers_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1}, raising=False)
    DataLoader(range(4), num_workers=2)
    with pytest.warns(UserWarning, match="will create 3 worker processes in total. Our suggested max number of worker .* is 2"):
        DataLoader(range(4), num_workers=3)


def _one_more_than_said():
    loader = DataLoader(Stream(1, said=0))
    assert len(loader) == 0
    return loader


WARNINGS = {
    "pinned memory": (lambda: DataLoader(range(2), pin_memory=True), lambda loader: iter(loader)),
    "too many workers": (lambda: None, lambda _: DataLoader(range(2), num_workers=10**6)),
    "a longer stream": (lambda: iter(_one_more_than_said()), lambda iterator: next(iterator)),
    "an empty split": (lambda: range(1), lambda data: random_split(data, [0.5, 0.5])),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_point_at_the_line_that_causes_them(name):
    make, cause = WARNINGS[name]
    given = make()
    with warnings.catch_warnings(record=True, action="always") as warned:
        cause(given)
    (warning,) = warned
    assert (warning.filename, warning.lineno) == (__file__, cause.__code__.co_firstlineno)


def test_a_stream_that_is_as_long_as_it_said_is_no_reason_to_warn():
    loader = DataLoader(Stream(3))
    assert len(loader) == 3
    assert values(loader) == values(loader) == [[0], [1], [2]]


def test_a_loader_draws_its_seed_from_its_generator():
    before, generator = sg.get_rng_state(), sg.Generator().manual_seed(3)
    state = generator.get_state()
    values(DataLoader(range(3), generator=generator))
    assert sg.equal(sg.get_rng_state(), before)
    assert not sg.equal(generator.get_state(), state)


def test_splits_at_the_limits():
    """Fractions of 0 and 1 are fractions, and the whole may be split into lengths with nothing in one."""
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        assert [len(part) for part in random_split(range(3), [1.0, 0.0])] == [3, 0]
    assert [len(part) for part in random_split(range(3), [3, 0])] == [3, 0]
    assert [len(part) for part in random_split(range(5), [0.5, 0.5])] == [3, 2]
    assert [len(part) for part in random_split(range(8), [0.3, 0.3, 0.4])] == [3, 2, 3]


@pytest.mark.parametrize(
    ("base_seed", "worker", "state"),
    [
        (7, 0, [1369798745, 2153889110, 378758007, 1154287536]),
        (2**40 + 5, 3, [3453014069, 1603536151, 2410470037, 3509082754]),
        (2**63 - 1, 1, [2076502041, 3474872666, 590866098, 3454868545]),
    ],
)
def test_seeds_of_numpy_are_pytorchs(base_seed, worker, state):
    """The numbers are those of `torch.utils.data._utils.worker._generate_state`."""
    from symgrad.utils.data.worker import _seeded

    before = random.getstate(), np.random.get_state(), sg.get_rng_state()
    try:
        assert _seeded(base_seed, worker) == base_seed + worker
        found = np.random.randint(2**31), random.random(), sg.rand(()).item()
        np.random.seed(state)
        sg.manual_seed(base_seed + worker)
        assert found == (np.random.randint(2**31), random.Random(base_seed + worker).random(), sg.rand(()).item())
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        sg.set_rng_state(before[2])
