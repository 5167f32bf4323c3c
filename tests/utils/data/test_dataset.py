"""Datasets: what their samples are, how they are put together and taken apart."""

import pytest

import symgrad as sg
from symgrad.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Letters(Dataset):
    """Answers `__getitems__`, and remembers being asked."""

    def __init__(self, text):
        self.text = text
        self.asked = []

    def __len__(self):
        return len(self.text)

    def __getitem__(self, index):
        return self.text[index]

    def __getitems__(self, indices):
        self.asked.append(indices)
        return [self.text[i] for i in indices]


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(range(self.n))


def test_it_is_reached_as_in_pytorch():
    from symgrad.utils.data import dataloader, dataset, sampler

    assert sg.utils.data.Dataset is dataset.Dataset is Dataset
    assert sg.utils.data.DataLoader is dataloader.DataLoader
    assert sg.utils.data.Sampler is sampler.Sampler


def test_a_dataset_without_samples_says_what_is_missing():
    with pytest.raises(NotImplementedError, match=r"Subclasses of Dataset should implement __getitem__\."):
        Dataset()[0]


def test_tensor_dataset():
    x, y = sg.arange(12).reshape(4, 3), sg.arange(4)
    data = TensorDataset(x, y)
    assert len(data) == 4
    row, label = data[2]
    assert row.tolist() == [6, 7, 8]
    assert label.item() == 2
    assert [part.tolist() for part in data[1:3]] == [[[3, 4, 5], [6, 7, 8]], [1, 2]]
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors: their first dimensions are \[4, 5\]"):
        TensorDataset(x, sg.zeros(5))


def test_concatenation():
    joined = Letters("ab") + Letters("") + Letters("cde")
    assert isinstance(joined, ConcatDataset)
    assert [joined[i] for i in range(len(joined))] == list("abcde")
    assert joined[-1] == "e"
    assert joined[-5] == "a"
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        joined[-6]
    with pytest.raises(IndexError):
        joined[5]
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Letters("a"), Count(2)])


def test_chain():
    chain = Count(2) + Count(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5
    with pytest.raises(AssertionError, match="ChainDataset only supports IterableDataset, got Letters"):
        list(ChainDataset([Count(1), Letters("a")]))


def test_stack():
    letters = Letters("abc")
    pairs = StackDataset(letters, [10, 20, 30])
    assert len(pairs) == 3
    assert pairs[1] == ("b", 20)
    assert pairs.__getitems__([2, 0]) == [("c", 30), ("a", 10)]
    assert letters.asked == [[2, 0]]
    named = StackDataset(letter=letters, number=[10, 20, 30])
    assert named[1] == {"letter": "b", "number": 20}
    assert named.__getitems__([2]) == [{"letter": "c", "number": 30}]
    with pytest.raises(ValueError, match=r"Size mismatch between datasets: their lengths are \[3, 2\]"):
        StackDataset(letters, [1, 2])
    with pytest.raises(ValueError, match="both types are given"):
        StackDataset(letters, number=[1, 2, 3])
    with pytest.raises(ValueError, match="At least one dataset should be passed"):
        StackDataset()


def test_subset():
    letters = Letters("abcdef")
    part = Subset(letters, [5, 0, 2])
    assert len(part) == 3
    assert [part[i] for i in range(3)] == ["f", "a", "c"]
    assert part.__getitems__([2, 0]) == ["c", "f"]
    assert letters.asked == [[2, 5]]
    assert Subset([7, 8, 9], [2, 1]).__getitems__([0, 1]) == [9, 8]
    rows = Subset(TensorDataset(sg.arange(5)), [4, 3, 1])[[0, 2]]
    assert rows[0].tolist() == [4, 1]


def test_a_subset_that_changes_samples_has_to_change_batches():
    class Upper(Subset):
        def __getitem__(self, index):
            return super().__getitem__(index).upper()

    with pytest.raises(NotImplementedError, match="Upper overrides __getitem__ but not __getitems__"):
        Upper(Letters("abc"), [0])


def test_random_split_has_pytorchs_order():
    parts = random_split(range(10), [0.5, 0.3, 0.2], generator=sg.Generator().manual_seed(42))
    assert [list(part.indices) for part in parts] == [[2, 6, 1, 8, 4], [5, 0, 9], [3, 7]]
    sg.manual_seed(3)
    assert [list(part) for part in random_split(range(7), [4, 3])] == [[5, 3, 4, 6], [0, 2, 1]]


def test_what_rounding_leaves_goes_to_the_first():
    assert [len(part) for part in random_split(range(11), [0.25, 0.25, 0.5])] == [3, 3, 5]
    assert [len(part) for part in random_split(range(2), [1.0])] == [2]


def test_a_split_that_does_not_add_up():
    with pytest.raises(ValueError, match=r"Sum of input lengths does not equal the length of the input dataset! The lengths add up to 9"):
        random_split(range(10), [4, 5])
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])
