"""Which memory the NumPy back end reuses: large results, by liveness; what the caller gets belongs to the caller."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.backends.numpy.buffers import LARGE, MemoryPlan, schedule, unshaped
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value

FLOAT = np.dtype(np.float64)
LIMIT = LARGE // 8
"""Numbers in 64 bits from which memory is worth reusing."""


def value(i, *shape):
    return input_value(i, shape, FLOAT)


def plan(inputs, *outputs):
    return MemoryPlan(Graph(tuple(inputs), outputs, tuple(f"x{i}" for i in range(len(inputs)))))


@pytest.mark.parametrize(("size", "large"), [(LIMIT - 1, False), (LIMIT, True)])
def test_memory_is_reused_from_8192_bytes_on(size, large):
    x = value(0, size)
    y = xp.sin(x)
    found = plan([x], xp.sum(y, axis=(0,), keepdims=False))
    assert found.large(y) == large
    assert len(found.buffers) == int(large)


def test_views_and_single_numbers_have_no_memory_of_their_own():
    x = value(0, LIMIT, 2)
    view = xp.transpose(x, dim0=0, dim1=1)
    assert not plan([x], view).large(view)
    y = xp.sin(value(0))
    assert not plan([value(0)], y).large(y)


def test_a_chain_of_elementwise_operations_has_one_memory_that_the_caller_gets():
    x = value(0, LIMIT)
    a = xp.sin(x)
    b = xp.cos(a)
    c = xp.exp(b)
    found = plan([x], c)
    assert found.storage[a] is found.storage[b] is found.storage[c]
    assert (found.before[a], found.before[b], found.before[c]) == (None, a, b)
    assert found.storage[c].fresh
    assert found.buffers == []


def test_an_operand_that_is_read_later_is_not_overwritten():
    x = value(0, LIMIT)
    a = xp.sin(x)
    b = xp.cos(a)
    c = xp.add(a, b)
    found = plan([x], c)
    assert found.storage[b] is not found.storage[a]
    assert found.before[b] is None
    assert found.before[c] in (a, b)


def test_an_operand_that_is_read_through_a_view_is_not_overwritten():
    x = value(0, 100, 100)
    a = xp.sin(x)
    b = xp.add(a, xp.transpose(a, dim0=0, dim1=1))
    found = plan([x], b)
    assert found.storage[b] is not found.storage[a]


def test_two_results_have_two_memories():
    x = value(0, LIMIT)
    a, b = xp.sin(x), xp.cos(x)
    found = plan([x], a, b)
    assert found.storage[a] is not found.storage[b]
    assert found.storage[a].fresh
    assert found.storage[b].fresh


def test_a_reshaped_result_is_returned_and_a_result_that_is_returned_twice_is_not():
    x = value(0, LIMIT)
    a = xp.sin(x)
    r = xp.reshape(a, shape=(2, LIMIT // 2))
    assert unshaped(r) is a
    assert plan([x], r).returned == {a}
    assert plan([x], a, r).returned == set()


def test_products_are_written_into_memory_of_their_own():
    x = value(0, 100, 100)
    a = xp.sin(x)
    b = xp.matmul(a, a)
    found = plan([x], b)
    assert found.storage[b] is not found.storage[a]


def test_memory_that_a_product_takes_over_is_in_c_order():
    x = value(0, 100, 100)
    a = xp.sin(x)
    total = lambda v: xp.sum(v, axis=(0, 1), keepdims=False)
    product = xp.matmul(x, x)
    found = plan([x], total(a), total(product))
    assert found.before[product] is a
    assert found.storage[a].rows
    assert not plan([x], total(xp.cos(a))).storage[a].rows
    assert len(found.buffers) == 1


def test_the_longest_history_is_computed_first():
    x = value(0, 2)
    long = xp.exp(xp.cos(xp.sin(x)))
    short = xp.tan(x)
    out = xp.add(short, long)
    order = [v.op for v in schedule(Graph((x,), (out,), ("x",)))]
    assert order == ["sin", "cos", "exp", "tan", "add"]


def test_what_is_read_once_is_written_inline():
    x = value(0, 2)
    a = xp.sin(x)
    b = xp.cos(x)
    found = plan([x], xp.add(xp.mul(b, b), a))
    assert a in found.inline
    assert b not in found.inline
