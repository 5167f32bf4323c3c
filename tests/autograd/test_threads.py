"""Graphs built and differentiated in several threads at once."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap


def together(count, work):
    """Run work(i) in threads that start at the same time; an error in one is raised here."""
    barrier, errors = threading.Barrier(count), []

    def run(i):
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def test_graphs_of_their_own():
    results = {}

    def work(i):
        for _ in range(30):
            x = sg.tensor([float(i), 1.0], requires_grad=True)
            with sg.no_grad():
                assert not (x * 2).requires_grad
            y = x
            for _ in range(20):
                y = y * 1.0 + x
            (y * x).sum().backward()
            results[i] = x.grad._array.tolist()

    together(8, work)
    assert results == {i: [42.0 * i, 42.0] for i in range(8)}


def test_shared_leaves_lose_no_gradient():
    """NumPy lets another thread run while it adds large arrays."""
    leaf, seed = (sg.tensor(np.ones(400_000, np.float32)) for _ in range(2))
    leaf.requires_grad_()

    def work(i):
        for _ in range(10):
            leaf.backward(seed)

    together(8, work)
    np.testing.assert_array_equal(leaf.grad._array, np.full(400_000, 80.0))


def test_first_gradients_of_shared_leaves_are_not_lost(monkeypatch):
    """The moment between finding no gradient and putting one there, made long."""
    leaf, seed = sg.tensor([1.0], requires_grad=True), sg.tensor([1.0])

    def slow_wrap(array):
        time.sleep(0.002)
        return wrap(array)

    monkeypatch.setattr(sys.modules["symgrad.autograd.backward"], "wrap", slow_wrap)
    together(8, lambda i: leaf.backward(seed))
    assert leaf.grad._array.item() == 8.0


def test_one_graph_differentiated_in_many_threads():
    x = sg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x * x).sum()
    found = [None] * 8

    def work(i):
        for _ in range(20):
            (found[i],) = sg.autograd.grad(y, x, retain_graph=True)

    together(8, work)
    for g in found:
        np.testing.assert_array_equal(g._array, 3 * x._array**2)


def test_modes_are_each_threads_own():
    def work(i):
        for _ in range(50):
            with sg.set_grad_enabled(i % 2 == 0):
                assert sg.is_grad_enabled() is (i % 2 == 0)
            assert sg.is_grad_enabled()

    together(8, work)
