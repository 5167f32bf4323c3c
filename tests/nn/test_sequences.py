"""Sequences of different lengths: packed, padded, and back."""

from __future__ import annotations

import pytest

import symgrad as sg
from symgrad.nn.utils import rnn

X = sg.arange(12.0).reshape(4, 3)


def test_packed_steps_stand_one_after_another():
    packed = rnn.pack_padded_sequence(X, [4, 2, 1])
    assert packed.data.tolist() == [0, 1, 2, 3, 4, 6, 9]
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    assert packed.sorted_indices is None
    assert packed.unsorted_indices is None


def test_unsorted_sequences_are_sorted_and_sorted_back():
    packed = rnn.pack_padded_sequence(X, sg.tensor([1, 3, 3]), enforce_sorted=False)
    assert packed.data.tolist() == [1, 2, 0, 4, 5, 7, 8]
    assert packed.sorted_indices.tolist() == [1, 2, 0]
    assert packed.unsorted_indices.tolist() == [2, 0, 1]
    padded, lengths = rnn.pad_packed_sequence(packed, padding_value=-1)
    assert padded.tolist() == [[0, 1, 2], [-1, 4, 5], [-1, 7, 8]]
    assert lengths.tolist() == [1, 3, 3]


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
def test_packing_and_padding_are_inverse(batch_first, shape):
    lengths = [2, 5, 3]
    x = sg.randn(3, 5, *shape)
    mask = sg.arange(5)[None] < sg.tensor(lengths)[:, None]
    x = x * mask.reshape(3, 5, *(1,) * len(shape))
    given = x if batch_first else x.transpose(0, 1)
    packed = rnn.pack_padded_sequence(given, lengths, batch_first, enforce_sorted=False)
    padded, counts = rnn.pad_packed_sequence(packed, batch_first)
    assert padded.equal(given)
    assert counts.tolist() == lengths
    longer, _ = rnn.pad_packed_sequence(packed, batch_first, total_length=7)
    assert longer.shape[1 if batch_first else 0] == 7
    for mine, whole, length in zip(rnn.unpack_sequence(packed), x, lengths, strict=True):
        assert mine.equal(whole[:length])


def test_gradients_pass_the_places_that_are_there():
    x = X.clone().requires_grad_()
    packed = rnn.pack_padded_sequence(x, [4, 2, 1])
    padded, _ = rnn.pad_packed_sequence(packed)
    (padded.sum() + packed.data.sum()).backward()
    assert x.grad.tolist() == [[2, 2, 2], [2, 2, 0], [2, 0, 0], [2, 0, 0]]


def test_pad_sequence():
    parts = [X[:2], X[:1], X[:3]]
    assert rnn.pad_sequence(parts, padding_value=9).tolist() == [
        [[0, 1, 2], [0, 1, 2], [0, 1, 2]],
        [[3, 4, 5], [9, 9, 9], [3, 4, 5]],
        [[9, 9, 9], [9, 9, 9], [6, 7, 8]],
    ]
    assert rnn.pad_sequence([X[:2, 0], X[:1, 1]], batch_first=True, padding_side="left").tolist() == [[0, 3], [0, 1]]


def test_unpad_sequence_leaves_its_argument_alone():
    x = X.clone()
    assert [t.tolist() for t in rnn.unpad_sequence(x, sg.tensor([3, 2, 1]))] == [[0, 3, 6], [1, 4], [2]]
    assert x.shape == (4, 3)


def test_packed_sequences_change_their_type():
    packed = rnn.pack_sequence([X[:2, 0], X[:1, 1]])
    assert packed.double().data.dtype == sg.float64
    assert packed.to(sg.int64).batch_sizes is packed.batch_sizes
    assert packed.float() is packed
    assert rnn.PackedSequence((packed.data, packed.batch_sizes)).data is packed.data


REFUSALS = {
    "count": (RuntimeError, r"got 2 \(batch_size=3\)", lambda: rnn.pack_padded_sequence(X, [4, 2])),
    "order": (RuntimeError, "sorted in decreasing order", lambda: rnn.pack_padded_sequence(X, [2, 4, 1])),
    "zero": (RuntimeError, "greater than 0", lambda: rnn.pack_padded_sequence(X, [4, 2, 0])),
    "long": (RuntimeError, "a length of 5 in 'lengths', but the input has 4 steps", lambda: rnn.pack_padded_sequence(X, [5, 2, 1])),
    "rank of lengths": (RuntimeError, "1D CPU int64 tensor", lambda: rnn.pack_padded_sequence(X, sg.tensor([[3, 2, 1]]))),
    "rank": (IndexError, "at least 2 dimensions", lambda: rnn.pack_padded_sequence(X[:, 0], [4])),
    "empty": (RuntimeError, "Cannot pack empty", lambda: rnn.pack_padded_sequence(X[:0], [1, 1, 1])),
    "nothing": (RuntimeError, "empty list", lambda: rnn.pad_sequence([])),
    "number": (RuntimeError, "Expected iterable", lambda: rnn.pad_sequence(3)),
    "side": (RuntimeError, "one of left or right, but got top", lambda: rnn.pad_sequence([X], padding_side="top")),
    "short": (ValueError, "total_length=2 and max sequence length being 4",
              lambda: rnn.pad_packed_sequence(rnn.pack_padded_sequence(X, [4, 2, 1]), total_length=2)),
    "pair": (AssertionError, "list or tuple of length 2", lambda: rnn.PackedSequence(X)),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name):
    kind, words, call = REFUSALS[name]
    with pytest.raises(kind, match=words):
        call()
