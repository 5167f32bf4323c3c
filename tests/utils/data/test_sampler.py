"""Samplers: every index where it belongs, and the order that PyTorch has for the same seed."""

import pytest
from hypothesis import given, settings, strategies as st

import symgrad as sg
from symgrad.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

sizes = st.integers(1, 60)


def test_orders_of_pytorch():
    sg.manual_seed(5)
    drawn = list(RandomSampler(range(1000), replacement=True, num_samples=35))
    assert drawn[:4] == [557, 364, 179, 234]
    assert drawn[30:] == [666, 339, 444, 505, 164]  # beyond the first 32
    sg.manual_seed(5)
    assert list(RandomSampler(range(5), num_samples=7)) == [2, 1, 0, 3, 4, 1, 3]
    sg.manual_seed(5)
    assert list(SubsetRandomSampler([10, 20, 30, 40])) == [40, 20, 10, 30]
    sg.manual_seed(5)
    weights = [0.1, 0.9, 0.4, 3.0]
    assert list(WeightedRandomSampler(weights, 6)) == [3, 2, 3, 2, 2, 3]
    assert list(WeightedRandomSampler(weights, 3, replacement=False)) == [3, 1, 2]


def test_with_a_generator_epochs_follow_each_other():
    sampler = RandomSampler(range(4), generator=sg.Generator().manual_seed(2))
    assert [list(sampler), list(sampler)] == [[0, 1, 3, 2], [2, 0, 1, 3]]


def test_without_a_generator_an_epoch_takes_one_draw_of_the_default_one():
    sg.manual_seed(11)
    list(RandomSampler(range(100)))
    after = sg.rand(())
    sg.manual_seed(11)
    sg.empty((), dtype=sg.int64).random_()
    assert sg.equal(after, sg.rand(()))


def test_with_replacement_32_are_drawn_when_the_first_is_needed():
    generator = sg.Generator().manual_seed(4)
    iterator = iter(RandomSampler(range(100), replacement=True, num_samples=50, generator=generator))
    same = sg.Generator().manual_seed(4)
    assert next(iterator) == sg.randint(100, (32,), generator=same)[0]
    assert sg.equal(generator.get_state(), same.get_state())
    list(iterator)
    sg.randint(100, (18,), generator=same)
    assert sg.equal(generator.get_state(), same.get_state())


@given(n=sizes, seed=st.integers(0, 2**63 - 1))
@settings(max_examples=40, deadline=None)
def test_a_shuffle_has_every_index_once(n, seed):
    order = list(RandomSampler(range(n), generator=sg.Generator().manual_seed(seed)))
    assert sorted(order) == list(range(n))


@given(n=sizes, total=sizes, replacement=st.booleans())
@settings(max_examples=40, deadline=None)
def test_num_samples(n, total, replacement):
    sampler = RandomSampler(range(n), replacement, total)
    drawn = list(sampler)
    assert len(drawn) == len(sampler) == total
    assert set(drawn) <= set(range(n))
    if not replacement:
        for start in range(0, total, n):
            assert len(set(drawn[start : start + n])) == len(drawn[start : start + n])


@given(n=st.integers(0, 60), size=st.integers(1, 20), drop=st.booleans())
@settings(max_examples=60, deadline=None)
def test_batches_cut_the_order_and_lose_only_what_is_dropped(n, size, drop):
    sampler = BatchSampler(SequentialSampler(range(n)), size, drop)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    joined = [i for batch in batches for i in batch]
    assert joined == list(range(n - n % size if drop else n))
    assert all(len(batch) == size for batch in batches[:-1])
    assert all(0 < len(batch) <= size for batch in batches)


def test_batches_of_any_iterable():
    assert list(BatchSampler("abcde", 2, False)) == [["a", "b"], ["c", "d"], ["e"]]


def test_weights_of_zero_are_never_drawn():
    sg.manual_seed(0)
    assert set(WeightedRandomSampler(sg.tensor([0.0, 1.0, 0.0, 2.0]), 200)) == {1, 3}


@pytest.mark.parametrize("weights", [[1, 3], [1.0, 3.0], (0.5, 1.5), sg.tensor([2, 6])])
def test_weights_are_taken_in_double_precision(weights):
    sg.manual_seed(0)
    sampler = WeightedRandomSampler(weights, 1000)
    assert sampler.weights.dtype is sg.float64
    assert sum(sampler) / 1000 == pytest.approx(0.75, abs=0.05)


def test_a_sampler_without_iter():
    with pytest.raises(NotImplementedError, match="Sampler is a Sampler without __iter__"):
        iter(Sampler())


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: RandomSampler([]), ValueError, "num_samples should be a positive integer value, but got num_samples=0"),
        (lambda: RandomSampler([1], num_samples=2.5), ValueError, "got num_samples=2.5"),
        (lambda: RandomSampler([1], replacement=1), TypeError, "replacement should be a boolean value, but got replacement=1"),
        (lambda: WeightedRandomSampler([1.0], True), ValueError, "got num_samples=True"),
        (lambda: WeightedRandomSampler([1.0], 2, "no"), ValueError, "replacement should be a boolean value"),
        (lambda: WeightedRandomSampler([[1.0]], 2), ValueError, r"weights should be a 1d sequence but given weights have shape \(1, 1\)"),
        (lambda: BatchSampler([1], 0, False), ValueError, "batch_size should be a positive integer value, but got batch_size=0"),
        (lambda: BatchSampler([1], 1, 0), ValueError, "drop_last should be a boolean value, but got drop_last=0"),
    ],
)
def test_refusals(make, error, text):
    with pytest.raises(error, match=text):
        make()


SAMPLERS = {
    "shuffled": lambda generator: RandomSampler(range(20), generator=generator),
    "with replacement": lambda generator: RandomSampler(range(20), True, 40, generator),
    "subset": lambda generator: SubsetRandomSampler(range(20), generator),
    "weighted": lambda generator: WeightedRandomSampler([1.0] * 20, 15, generator=generator),
    "weighted, each once": lambda generator: WeightedRandomSampler([1.0] * 20, 15, False, generator),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_draws_from_its_own_generator(name):
    """The same seed gives the same order, another seed another one, and the default generator is left alone."""
    before = sg.get_rng_state()
    first, again, other = (list(SAMPLERS[name](sg.Generator().manual_seed(seed))) for seed in (1, 1, 2))
    assert first == again != other
    assert sg.equal(sg.get_rng_state(), before)


@pytest.mark.parametrize("name", SAMPLERS)
def test_the_length_of_a_sampler_is_how_many_it_gives(name):
    sampler = SAMPLERS[name](None)
    assert len(sampler) == len(list(sampler))


def test_the_length_of_a_sampler_in_order():
    assert len(SequentialSampler(range(7))) == 7
    assert list(SequentialSampler("abc")) == [0, 1, 2]


@pytest.mark.parametrize("replacement", [True, False])
def test_weighted_draws_repeat_only_if_told_to(replacement):
    sg.manual_seed(0)
    drawn = list(WeightedRandomSampler([1.0, 1.0, 1.0], 3 if not replacement else 30, replacement))
    assert (len(set(drawn)) == len(drawn)) == (not replacement)
