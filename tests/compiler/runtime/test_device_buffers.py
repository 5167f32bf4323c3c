"""Pooled buffers, their slices and donations in flight, one by one: what they hold, copy, count and remember."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import symgrad as sg
from symgrad.device_buffers import (
    BufferSlice,
    DonatedError,
    DonatedPlaceholder,
    DonationsInFlight,
    PooledBuffer,
    PoolState,
)
from symgrad.device_tensor import (
    begin_donation,
    donations_in_flight,
    has_grad,
    is_donated,
    is_donation_in_flight,
    is_on_device,
    is_unaliased,
    move_to_pool,
    pooled_tensor,
    storage_of,
    to_device,
    write_storage,
)


class Buffer:
    """A device buffer, of NumPy's."""

    def __init__(self, array, deleted=False):
        self.array, self.deleted = np.asarray(array), deleted
        self.shape, self.dtype = self.array.shape, self.array.dtype

    def is_deleted(self):
        return self.deleted

    def __array__(self, dtype=None, copy=None):
        return self.array


def pooled(array):
    buffer = PooledBuffer(np.shape(array), np.asarray(array).dtype, PoolState(), Buffer)
    buffer.buffer = Buffer(array)
    return buffer


def test_a_donation_is_ended_once_and_wakes_those_who_wait():
    donations, in_flight, done = DonationsInFlight(), [], threading.Event()
    donations.lock = threading.Lock()
    donations._change = threading.Condition(donations.lock)
    with donations.lock:
        donations.begin(in_flight)
    assert (donations.count, in_flight) == (1, [True])
    waiting = threading.Thread(target=lambda: (donations.wait(), done.set()))
    waiting.start()
    while not donations.waiters:
        pass
    assert not done.is_set()
    with donations.lock:
        donations.end(in_flight)
        donations.end(in_flight)
    waiting.join(60)
    assert done.is_set()
    assert (donations.count, donations.waiters, in_flight) == (0, 0, [])


def test_a_placeholder_has_a_type_and_no_values():
    placeholder = DonatedPlaceholder((2, 3), np.dtype(np.float32))
    assert (placeholder.shape, placeholder.dtype, placeholder.is_deleted()) == ((2, 3), np.float32, True)
    with pytest.raises(DonatedError, match="was donated"):
        np.asarray(placeholder)


def test_a_slice_reads_its_part_of_the_buffer():
    buffer = pooled(np.arange(6.0))
    part, whole = BufferSlice(buffer, (2, 2), np.dtype(float), slice(1, 5)), BufferSlice(buffer, (6,), np.dtype(float))
    assert np.asarray(part).tolist() == [[1, 2], [3, 4]]
    assert np.asarray(whole).tolist() == [0, 1, 2, 3, 4, 5]
    assert np.shares_memory(part.__array__(), buffer.buffer.array)
    assert not np.shares_memory(part.__array__(copy=True), buffer.buffer.array)
    assert part.__array__(np.float32).dtype == np.float32
    assert np.shares_memory(part.__array__(np.float64), buffer.buffer.array)
    assert not part.is_deleted()
    buffer.buffer.deleted = True
    assert part.is_deleted()


def test_a_slice_is_copied_once_for_each_buffer():
    buffer = pooled(np.arange(6.0))
    part, whole = BufferSlice(buffer, (2,), np.dtype(float), slice(1, 3)), BufferSlice(buffer, (6,), np.dtype(float))
    assert whole.materialize() is buffer.buffer
    first = part.materialize()
    assert first.array.tolist() == [1, 2]
    assert part.materialize() is first
    buffer.buffer = Buffer(np.arange(6.0) * 10)
    assert part.materialize().array.tolist() == [10, 20]


def test_a_new_pool_must_be_checked_first():
    state = PoolState()
    assert (state.intact, state.observed, state.runs) == (False, True, 0)


def test_a_pooled_tensor_says_when_it_was_read_or_replaced():
    buffer = pooled(np.arange(3.0))
    state = buffer.pool_state
    state.runs, state.observed, state.intact = 7, False, True
    t = pooled_tensor(BufferSlice(buffer, (3,), np.dtype(float)))
    assert (t._version, t.requires_grad, t.grad, t.is_leaf) == (0, False, None, True)
    assert (t.shape, t.ndim, t.dtype) == ((3,), 1, sg.float64)
    assert type(t).__name__ == "Tensor"
    assert t.__class__ is sg.Tensor
    assert not state.observed
    assert t._storage is buffer.buffer
    assert state.observed
    state.runs += 2
    assert t._writes == 2
    t._writes = 5
    assert t._writes == 5
    assert state.intact
    assert t.tolist() == [0, 1, 2]  # moved to the host
    assert not state.intact
    assert not is_on_device(t)
    assert t.__dict__["_writes"] == 5


def test_gradients_of_pooled_tensors_are_observed():
    owner = pooled_tensor(BufferSlice(pooled(np.zeros(2)), (2,), np.dtype(float)))
    gradients = pooled(np.ones(2))
    state = gradients.pool_state
    owner._grad = gradient = pooled_tensor(BufferSlice(gradients, (2,), np.dtype(float)))
    state.observed, state.intact = False, True
    assert has_grad(owner)
    assert not state.observed
    assert owner._grad is gradient
    assert state.observed
    assert state.intact
    owner._grad = None
    assert not state.intact
    assert not has_grad(owner)
    owner._grad, state.observed = gradient, False
    assert owner.tolist() == [0, 0]  # from now on reads of its gradient are not observed
    assert state.observed


def test_a_tensor_moves_to_the_pool_with_its_version():
    buffer = pooled(np.ones(2))
    buffer.pool_state.runs = 3
    for t in (sg.nn.Parameter(sg.zeros(2)), sg.zeros(2)):
        cls = type(t)
        t.detach().add_(1)
        before = t._version
        move_to_pool(t, BufferSlice(buffer, (2,), np.dtype(np.float32)))
        assert is_on_device(t)
        assert t.__class__ is cls
        assert t._version == before
        assert t.tolist() == [1, 1]
        assert type(t) is cls


def test_during_a_donation_a_tensor_holds_a_placeholder():
    t = sg.zeros(2)
    buffer, placeholder, in_flight = Buffer(np.ones(2, np.float32)), DonatedPlaceholder((2,), np.dtype(np.float32)), []
    to_device(t, buffer)
    assert not begin_donation([t], [Buffer(np.ones(2))], [placeholder], in_flight)
    assert in_flight == []
    assert storage_of(t) is buffer
    assert begin_donation([t], [buffer], [placeholder], in_flight)
    try:
        assert in_flight == [True]
        assert is_donation_in_flight(storage_of(t))
        assert not is_donated(t)
        assert not begin_donation([t], [placeholder], [placeholder], [])
    finally:
        t._storage = buffer
        with donations_in_flight.lock:
            donations_in_flight.end(in_flight)
    assert t.tolist() == [1, 1]


def test_what_was_donated_for_good_is_gone():
    t = sg.zeros(2)
    assert not is_donated(t)
    to_device(t, Buffer(np.ones(2, np.float32)))
    assert not is_donated(t)
    storage_of(t).deleted = True
    assert is_donated(t)


def test_only_what_nothing_else_refers_to_is_unaliased():
    t = sg.tensor([1.0, 2.0])
    assert is_unaliased(t)
    view = t[:1]
    assert not is_unaliased(view)
    assert not is_unaliased(t)
    del view
    array = t.numpy()
    assert not is_unaliased(t)
    assert array.tolist() == [1, 2]


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("from_device", [False, True])
def test_new_values_replace_the_storage_wherever_they_are(on_device, from_device):
    t = sg.zeros(2)
    if on_device:
        to_device(t, Buffer(np.zeros(2, np.float32)))
    before = t._version
    write_storage(t, (Buffer if from_device else np.array)(np.ones(2, np.float32)))
    assert is_on_device(t) == from_device
    assert t._version == before + 1
    assert t.tolist() == [1, 1]


def test_aliases_see_new_values():
    t = sg.zeros(2)
    array = t.numpy()
    before = t._version
    write_storage(t, Buffer(np.ones(2, np.float32)))
    assert array.tolist() == [1, 1]
    assert not is_on_device(t)
    assert t._version == before + 1
