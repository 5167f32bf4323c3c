"""Rolling back a call that failed, storage of views, and rows whose result size depends on values."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.trace.journal import Journal
from symgrad.compiler.trace.storage import TracedStorage, view_step


def test_rolling_back_restores_values_histories_random_numbers_and_python_state_in_reverse_order():
    journal = Journal()
    drawn = sg.rand(2)
    x = sg.tensor([1.0, 2.0])
    whole = sg.tensor([1.0, 2.0, 3.0])
    view = whole[1:]
    leaf = sg.tensor([5.0], requires_grad=True)
    done = []
    journal.before_write(x)
    x.fill_(7.0)
    journal.before_write(x)  # the first copy counts
    journal.before_write(view)
    view.fill_(9.0)
    journal.before_history_change(leaf)
    leaf.grad = sg.ones(1)
    journal.before_history_change(leaf)
    leaf.requires_grad = False
    journal.record_undo(lambda: done.append("first"))
    journal.record_undo(lambda: done.append("second"))
    version = x._version
    journal.roll_back()
    assert (x.tolist(), whole.tolist(), view.tolist()) == ([1, 2], [1, 2, 3], [2, 3])
    assert (leaf.grad, leaf.requires_grad) == (None, True)
    assert done == ["second", "first"]
    assert x._version > version  # graphs that saved x must not use it
    assert sg.rand(2).tolist() == drawn.tolist()
    x.fill_(8.0)
    journal.roll_back()  # nothing is left to restore
    assert x.tolist() == [8, 8]
    assert done == ["second", "first"]


def test_what_is_cleared_is_not_rolled_back():
    journal = Journal()
    x = sg.tensor([1.0])
    journal.before_write(x)
    journal.record_undo(lambda: pytest.fail("was cleared"))
    x.fill_(3.0)
    journal.clear()
    journal.roll_back()
    assert x.tolist() == [3]


def test_a_tensor_without_a_history_before_has_none_after():
    journal = Journal()
    x, w = sg.zeros(2), sg.ones(2, requires_grad=True)
    journal.before_write(x)
    x.add_(w)
    assert x.grad_fn is not None
    journal.roll_back()
    assert (x.grad_fn, x.requires_grad, x.tolist()) == (None, False, [0, 0])


# views


X = input_value(0, (4, 3), np.float64)
ARRAY = np.arange(12.0).reshape(4, 3)


def value(v):
    return evaluate(Graph([X], [v]), [ARRAY])[0]


def test_a_write_is_seen_through_views_of_views_and_the_other_way_round():
    root = TracedStorage(X)
    first = TracedStorage(X, root, (("getitem", (("index", ((1, 3, 1),)),)),))
    second = TracedStorage(X, first, (("getitem", (("index", (1,)),)),))
    assert second.root()[0] is root
    root.write(X * 2)
    np.testing.assert_array_equal(value(first.current()), 2 * ARRAY[1:3])
    np.testing.assert_array_equal(value(second.current()), 2 * ARRAY[2])
    assert second.write(xp.sum(X, axis=(0,), keepdims=False)) is root
    wanted = 2 * ARRAY
    wanted[2] = ARRAY.sum(0)
    np.testing.assert_array_equal(value(root.current()), wanted)
    np.testing.assert_array_equal(value(first.current()), wanted[1:3])
    assert second.current() is second.value
    assert first.current() is first.current()


def test_writes_without_history_change_values_only():
    root = TracedStorage(X)
    root.write(xp.sin(X), quiet=True)
    assert root.current() is xp.sin(X)
    assert root.grad_value is X
    root.write(xp.cos(X), quiet=True)
    assert root.grad_value is X  # the value before the first of them
    root.write(xp.exp(X))
    assert root.grad_value is None
    assert root.with_history() is xp.exp(X)
    whole = TracedStorage(input_value(1, (2,), np.int64))
    whole.write(input_value(2, (2,), np.int64), quiet=True)
    assert whole.grad_value is None  # integers have no derivatives


def test_a_detached_view_sees_writes_without_their_history():
    root = TracedStorage(X)
    view = TracedStorage(X, root, (("getitem", (("index", (0,)),)),))
    view.is_detached = True
    root.write(X * 3)
    assert view.current().op == "detach"
    assert TracedStorage(X, view).is_detached


@pytest.mark.parametrize(
    ("row", "attrs", "index", "wanted"),
    [
        ("unbind", {"axis": 0}, 2, ARRAY[2]), ("unbind", {"axis": 1}, 1, ARRAY[:, 1]),
        ("split", {"sizes": (1, 3), "axis": 0}, 1, ARRAY[1:]),
        ("split", {"sizes": (1, 1, 1), "axis": 1}, 2, ARRAY[:, 2:]), ("transpose", {"dim0": 0, "dim1": 1}, 0, ARRAY.T),
    ],
)  # fmt: skip
def test_one_of_several_views_is_a_step_of_its_own(row, attrs, index, wanted):
    root = TracedStorage(X)
    view = TracedStorage(X, root, (view_step(row, attrs, index, X.shape),))
    root.write(X * 1.5)
    np.testing.assert_array_equal(value(view.current()), 1.5 * wanted)


# rows whose result size depends on values


def outputs(f, *calls):
    compiled = sg.compile(f)
    for args in calls:
        wanted, found = f(*args), compiled(*args)
        wanted, found = (x if isinstance(x, tuple) else (x,) for x in (wanted, found))
        for a, b in zip(wanted, found, strict=True):
            assert a.tolist() == b.tolist()
            assert (a.dtype, a.shape) == (b.dtype, b.shape)


SIZES = {
    "nonzero of a scalar": (lambda x: x.nonzero(), [sg.tensor(2.0), sg.tensor(0.0), sg.tensor(-1.0)]),
    "nonzero of nothing": (lambda x: x.nonzero(), [sg.zeros(0, 3), sg.zeros(0, 3)]),
    "nonzero": (lambda x: x.nonzero(), [sg.tensor([[0, 3], [4, 0]]), sg.tensor([[1, 0], [0, 1]]), sg.tensor([[1, 1], [0, 1]])]),
    "bincount of nothing": (lambda x: x.bincount(minlength=3), [sg.zeros(0, dtype=sg.int64)]),
    "bincount": (lambda x: x.bincount(minlength=2), [sg.tensor([0, 3, 3]), sg.tensor([3, 1, 0]), sg.tensor([0, 0, 0])]),
    "unique": (lambda x: sg.unique(x, return_inverse=True, return_counts=True), [
        sg.tensor([3, 1, 3]), sg.tensor([1, 1, 2]), sg.tensor([5, 5, 5]),
    ]),
    "unique of one": (lambda x: sg.unique(x, return_inverse=True, return_counts=True), [sg.tensor([3]), sg.tensor([4])]),
    "unique_consecutive": (lambda x: sg.unique_consecutive(x, return_inverse=True, return_counts=True), [
        sg.tensor([1, 1, 2, 1]), sg.tensor([2, 2, 3, 2]), sg.tensor([2, 2, 2, 2]),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_depend_on_values_select_the_program(name):
    f, arguments = SIZES[name]
    outputs(f, *((x,) for x in arguments))


def test_weights_of_a_bincount_are_summed_in_their_type():
    first = sg.tensor([0, 2, 2]), sg.tensor([0.5, 1.0, 2.0])
    second = sg.tensor([2, 1, 0]), sg.tensor([1.0, 2.0, 4.0])
    outputs(lambda x, w: x.bincount(w), first, second)
