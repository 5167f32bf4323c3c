"""symgrad.utils.data beside torch.utils.data: the same seeds give the same batches, and the same mistakes the same errors."""

from __future__ import annotations

import importlib
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import symgrad as sg
from symgrad.utils import data as ours

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.utils.data")
pytestmark = pytest.mark.peer

Point = namedtuple("Point", "x y")


def plain(value):
    """Tensors as their type, shape and values; containers as they are."""
    if isinstance(value, (sg.Tensor, torch.Tensor)):
        return str(value.dtype), tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(item) for item in value]
    return value


def both(program, seed=0):
    """The program under both libraries, with what the default generator gives afterwards."""
    results = []
    for lib, data in ((sg, ours), (torch, theirs)):
        lib.manual_seed(seed)
        results.append((plain(program(lib, data)), lib.randint(10**6, (3,)).tolist()))
    return results


PROGRAMS = {
    "shuffle": lambda lib, data: list(data.DataLoader(range(23), batch_size=5, shuffle=True)),
    "two epochs": lambda lib, data: [list(loader) for loader in [data.DataLoader(range(9), batch_size=2, shuffle=True)] for _ in "ab"],
    "shuffle, drop_last": lambda lib, data: list(data.DataLoader(range(23), batch_size=5, shuffle=True, drop_last=True)),
    "in order": lambda lib, data: list(data.DataLoader(range(5), batch_size=2)),
    "generator": lambda lib, data: [
        list(loader)
        for loader in [data.DataLoader(range(9), batch_size=3, shuffle=True, generator=lib.Generator().manual_seed(5))]
        for _ in "abc"
    ],
    "tensors": lambda lib, data: list(
        data.DataLoader(data.TensorDataset(lib.arange(24.0).reshape(8, 3), lib.arange(8)), batch_size=3, shuffle=True)
    ),
    "subset of tensors": lambda lib, data: list(
        data.DataLoader(data.Subset(data.TensorDataset(lib.arange(8)), [7, 1, 3]), batch_size=2, shuffle=True)
    ),
    "split by length": lambda lib, data: [list(part.indices) for part in data.random_split(range(50), [30, 15, 5])],
    "split by fraction": lambda lib, data: [list(part.indices) for part in data.random_split(range(47), [0.3, 0.3, 0.4])],
    "split with generator": lambda lib, data: [
        list(part.indices) for part in data.random_split(range(10), [3, 7], generator=lib.Generator().manual_seed(42))
    ],
    "random": lambda lib, data: list(data.RandomSampler(range(31))),
    "random, more than there are": lambda lib, data: list(data.RandomSampler(range(7), num_samples=20)),
    "random, as many as there are, twice": lambda lib, data: list(data.RandomSampler(range(7), num_samples=14)),
    "random with replacement": lambda lib, data: list(data.RandomSampler(range(100), replacement=True, num_samples=70)),
    "random with replacement, few": lambda lib, data: list(data.RandomSampler(range(100), replacement=True, num_samples=5)),
    "subset": lambda lib, data: list(data.SubsetRandomSampler([5, 9, 2, 4])),
    "weighted": lambda lib, data: list(data.WeightedRandomSampler([0.1, 0.9, 0.4, 0.7, 3.0, 0.6], 50)),
    "weighted without replacement": lambda lib, data: list(data.WeightedRandomSampler([0.9, 0.4, 0.05, 0.2], 4, replacement=False)),
    "weighted batches": lambda lib, data: list(
        data.DataLoader(range(6), sampler=data.WeightedRandomSampler(lib.ones(6), 11), batch_size=4)
    ),
    "stack": lambda lib, data: list(
        data.DataLoader(data.StackDataset(a=data.TensorDataset(lib.arange(5)), b=range(5)), batch_size=2, shuffle=True)
    ),
    "concat": lambda lib, data: list(data.DataLoader(data.TensorDataset(lib.ones(3)) + data.TensorDataset(lib.zeros(2)), batch_size=2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_seed_gives_the_same_batches(name):
    for seed in (0, 123456789012345):
        mine, other = both(PROGRAMS[name], seed)
        assert mine == other


SAMPLES = [
    lambda lib: [1, 2],
    lambda lib: [1.5, 2],
    lambda lib: [True, False],
    lambda lib: ["a", "b"],
    lambda lib: [b"a", b"b"],
    lambda lib: [lib.ones(2), lib.zeros(2)],
    lambda lib: [lib.ones(2, 0), lib.zeros(2, 0)],
    lambda lib: [np.arange(3), np.arange(3)],
    lambda lib: [np.float32(1), np.float32(2)],
    lambda lib: [np.array(1.0), np.array(2.0)],
    lambda lib: [(1, "a", 2.0), (3, "b", 4.0)],
    lambda lib: [[1, [2, 3]], [4, [5, 6]]],
    lambda lib: [Point(1, 2.0), Point(3, 4.0)],
    lambda lib: [{"a": 1, "b": {"c": np.ones(2)}}, {"a": 3, "b": {"c": np.zeros(2)}}],
    lambda lib: [range(3), range(3)],
    lambda lib: [object()],
    lambda lib: [None],
    lambda lib: [{1, 2}],
    lambda lib: [np.array(["a"])],
    lambda lib: [[1], [1, 2]],
    lambda lib: [{"a": 1}, {"b": 1}],
]


def attempt(function, *args):
    try:
        return plain(function(*args))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
@pytest.mark.parametrize("name", ["default_collate", "default_convert"])
def test_collate_and_convert(name, number):
    mine, other = (attempt(getattr(data, name), SAMPLES[number](lib)) for lib, data in ((sg, ours), (torch, theirs)))
    assert str(mine).replace("symgrad", "torch").split(" object at ")[0] == str(other).split(" object at ")[0]


MISTAKES = [
    lambda lib, data: data.DataLoader([1], num_workers=-1),
    lambda lib, data: data.DataLoader([1], timeout=-1),
    lambda lib, data: data.DataLoader([1], prefetch_factor=2),
    lambda lib, data: data.DataLoader([1], prefetch_factor=-1, num_workers=1),
    lambda lib, data: data.DataLoader([1], persistent_workers=True),
    lambda lib, data: data.DataLoader([1], sampler=[0], shuffle=True),
    lambda lib, data: data.DataLoader([1], batch_sampler=[[0]], shuffle=True),
    lambda lib, data: data.DataLoader([1], batch_size=None, drop_last=True),
    lambda lib, data: data.DataLoader([1], batch_size=0),
    lambda lib, data: data.DataLoader([1], batch_size=2.5),
    lambda lib, data: data.DataLoader([1], multiprocessing_context="spawn"),
    lambda lib, data: data.DataLoader([1], multiprocessing_context="knife", num_workers=1),
    lambda lib, data: data.DataLoader([1], multiprocessing_context=3, num_workers=1),
    lambda lib, data: data.DataLoader([], shuffle=True),
    lambda lib, data: setattr(data.DataLoader([1]), "batch_size", 3),
    lambda lib, data: data.DataLoader(data.ChainDataset([]), shuffle=True),
    lambda lib, data: data.DataLoader(data.ChainDataset([]), sampler=[1]),
    lambda lib, data: data.Dataset()[0],
    lambda lib, data: data.ConcatDataset([]),
    lambda lib, data: data.ConcatDataset([range(3)])[-5],
    lambda lib, data: data.StackDataset(),
    lambda lib, data: data.StackDataset([1], a=[1]),
    lambda lib, data: data.random_split(range(3), [1.5, -0.5]),
    lambda lib, data: data.BatchSampler([1], True, False),
    lambda lib, data: data.BatchSampler([1], 1, None),
    lambda lib, data: data.RandomSampler([1], replacement="yes"),
    lambda lib, data: data.RandomSampler([1], num_samples=-3),
    lambda lib, data: data.WeightedRandomSampler([[1.0]], 1),
    lambda lib, data: data.WeightedRandomSampler([1.0], 0),
    lambda lib, data: data.WeightedRandomSampler([1.0], 1, replacement=None),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_mistakes(number):
    mine, other = (attempt(MISTAKES[number], lib, data) for lib, data in ((sg, ours), (torch, theirs)))
    assert isinstance(mine[0], type)
    assert mine == other


SIZES = [
    lambda lib, data: data.TensorDataset(lib.ones(2), lib.ones(3)),
    lambda lib, data: data.StackDataset([1], [1, 2]),
    lambda lib, data: data.random_split(range(3), [1, 1]),
]


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_here_the_sizes_are_named_after_pytorchs_words(number):
    mine, other = (attempt(SIZES[number], lib, data) for lib, data in ((sg, ours), (torch, theirs)))
    assert mine[0] is other[0]
    assert mine[1].startswith(other[1])


def test_names_are_there():
    missing = set(theirs.__all__) - set(dir(ours))
    pipes = {name for name in missing if "Pipe" in name or "datapipe" in name or "validation" in name}
    assert missing - pipes == {"DataChunk", "DistributedSampler", "_DatasetKind", "non_deterministic"}


def test_options_have_the_same_names_and_defaults():
    from inspect import signature

    for name in ("DataLoader", "RandomSampler", "WeightedRandomSampler", "SubsetRandomSampler", "BatchSampler", "random_split", "Subset"):
        mine, other = (signature(getattr(data, name)).parameters for data in (ours, theirs))
        assert list(mine) == list(other), name
        for key, parameter in mine.items():
            if key != "generator":
                assert parameter.default == other[key].default, (name, key)


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # if JAX is loaded, it does not like what PyTorch does
class TestWorkers:
    """PyTorch forks its workers, symgrad does not: what they send is the same."""

    PROGRAMS = (
        ("shuffle", lambda data, made: list(data.DataLoader(made.Squares(23), batch_size=4, shuffle=True, num_workers=2))),
        ("generators", lambda data, made: list(data.DataLoader(made.Draws(), batch_size=None, num_workers=2))),
        ("shares", lambda data, made: list(data.DataLoader(made.Shared(11), batch_size=2, num_workers=2))),
        ("uneven shares", lambda data, made: list(data.DataLoader(made.Uneven(), batch_size=None, num_workers=2, prefetch_factor=3))),
        ("drop_last", lambda data, made: list(data.DataLoader(made.Shared(11), batch_size=2, num_workers=2, drop_last=True))),
        (
            "persistent",
            lambda data, made: [
                list(loader)
                for loader in [data.DataLoader(made.Draws(), batch_size=None, shuffle=True, num_workers=2, persistent_workers=True)]
                for _ in range(2)
            ],
        ),
    )

    @pytest.mark.parametrize(("name", "program"), PROGRAMS)
    def test_batches(self, name, program):
        here = importlib.import_module("loaded_by_workers")
        source = Path(here.__file__).read_text().replace("import symgrad as sg", "import torch as sg").replace("symgrad.", "torch.")
        there = ModuleType("loaded_by_torch_workers")
        exec(compile(source, "loaded_by_torch_workers", "exec"), there.__dict__)
        results = []
        for lib, data, made in ((sg, ours, here), (torch, theirs, there)):
            lib.manual_seed(3)
            results.append((plain(program(data, made)), lib.randint(10**6, (3,)).tolist()))
        assert results[0] == results[1]

    def test_errors(self):
        mine, other = (
            attempt(list, data.DataLoader(range(3), batch_size=2, num_workers=1, collate_fn=divide, multiprocessing_context="fork"))
            for data in (ours, theirs)
        )
        assert mine[0] is other[0] is ZeroDivisionError
        assert mine[1].splitlines()[:2] == other[1].splitlines()[:2]
        assert mine[1].splitlines()[-1] == other[1].splitlines()[-1]


def divide(samples):
    return 1 // 0
