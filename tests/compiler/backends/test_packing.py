"""Small tensors in shared arrays: which are packed together, where, and what stays alone."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.backends import packing
from symgrad.compiler.backends.packing import Packing, places, types
from symgrad.compiler.ir.graph import Graph, input_value


def graph_of(*sizes, dtypes=None):
    """A graph whose outputs are its inputs, of these sizes."""
    dtypes = dtypes or [np.float32] * len(sizes)
    values = tuple(input_value(i, (n,), np.dtype(d)) for i, (n, d) in enumerate(zip(sizes, dtypes, strict=True)))
    return Graph(values, values, tuple(f"x{i}" for i in range(len(values))))


def test_by_default_every_tensor_has_its_own_array():
    assert Packing.unpacked(graph_of(1, 2, 3)) == Packing(((0,), (1,), (2,)), ((0,), (1,), (2,)))


def test_written_tensors_and_gradients_are_packed_behind_the_others():
    graph = graph_of(4, 4, 4, 4, 4, 4)
    found = Packing.of(graph, {1: 3, 2: 4}, [0, 5])
    assert found == Packing(((0,), (3,), (4,), (5,), (1, 2)), ((1,), (2,), (3, 4), (0, 5)))


def test_tensors_up_to_the_limit_are_small():
    """16 KiB are 4096 numbers in 32 bits, and 2048 in 64."""
    graph = graph_of(4096, 4097, 1, 2048, 2049, 1, dtypes=[np.float32] * 3 + [np.float64] * 3)
    found = Packing.of(graph, {i: i for i in range(6)}, [])
    assert found.inputs == found.outputs == ((1,), (4,), (0, 2), (3, 5))
    assert Packing.of(graph, {i: i for i in range(6)}, [], small=0).inputs == tuple((i,) for i in range(6))


@pytest.mark.parametrize("count", [8, 9, 17])
def test_eight_tensors_are_in_one_array_at_most(count):
    found = Packing.of(graph_of(*[2] * count), {i: i for i in range(count)}, [])
    assert [len(group) for group in found.inputs] == [8] * (count // 8) + ([count % 8] if count % 8 else [])
    assert [i for group in found.inputs for i in group] == list(range(count))
    assert packing.MAX_PER_BUFFER == 8


def test_places_and_types_of_a_group():
    graph = graph_of(2, 3, 4)
    assert places(graph.inputs, (0, 2, 1)) == [slice(0, 2), slice(2, 6), slice(6, 9)]
    assert places(graph.inputs, (1,)) == [None]
    assert types(graph.inputs, [(0, 2, 1), (1,)]) == [((9,), np.dtype(np.float32)), ((3,), np.dtype(np.float32))]
    matrix = Graph((input_value(0, (2, 3), np.dtype(np.float64)),), (), ("x",))
    assert types(matrix.inputs, [(0,)]) == [((2, 3), np.dtype(np.float64))]
