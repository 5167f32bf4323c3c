"""`x[...]`, shapes and broadcasting against NumPy on drawn inputs; and what indexing promises beyond values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck
from symgrad.tensor import wrap

FEW = settings(max_examples=150, deadline=None)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def numbered(shape):
    return np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)


@st.composite
def basic_indices(draw):
    """A shape and an index of ints, slices with positive steps, None and an ellipsis."""
    shape = draw(SHAPES)
    items, dims = [], draw(st.integers(0, len(shape)))
    for n in shape[:dims]:
        choices = [st.builds(slice, bounds(n), bounds(n), st.none() | st.integers(1, 3))]
        if n:
            choices.append(st.integers(-n, n - 1))
        items.append(draw(st.one_of(choices)))
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()) and dims == len(shape):
        items.append(...)
    return shape, tuple(items)


def bounds(n):
    return st.none() | st.integers(-n - 2, n + 2)


@st.composite
def mixed_indices(draw):
    """A shape and an index of slices, None, and at least one index array or mask; PyTorch takes ints apart first, NumPy does not."""
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    common = draw(hnp.array_shapes(min_dims=1, max_dims=2, min_side=1, max_side=3))
    items: list = []
    for dim, n in enumerate(shape):
        kind = draw(st.sampled_from(["array", "slice", "none", "mask"])) if dim else "array"
        if kind == "slice":
            items.append(draw(st.builds(slice, bounds(n), bounds(n), st.none() | st.integers(1, 3))))
        elif kind == "none":
            items += [None, slice(None)]
        elif kind == "mask" and len(common) == 1 and common[0] <= n:
            mask = np.zeros(n, bool)
            mask[draw(st.permutations(range(n)))[: common[0]]] = True
            items.append(mask)
        else:
            items.append(draw(hnp.arrays(np.int64, common, elements=st.integers(-n, n - 1))))
    return shape, tuple(items)


@FEW
@given(basic_indices())
def test_basic_reading(case):
    shape, index = case
    array = numbered(shape)
    x = wrap(array)
    got = x[index]
    assert got.shape == array[index].shape
    np.testing.assert_array_equal(got._array, array[index])
    assert got._array.size == 0 or np.shares_memory(got._array, array)


@FEW
@given(basic_indices(), st.data())
def test_basic_writing(case, data):
    shape, index = case
    array = numbered(shape)
    x = wrap(array.copy())
    target = np.shape(array[index])
    value = -numbered(target) if data.draw(st.booleans()) else -1.0
    array[index] = value
    x[index] = wrap(value) if isinstance(value, np.ndarray) else value
    np.testing.assert_array_equal(x._array, array)


@FEW
@given(mixed_indices())
def test_mixed_reading_and_gradient(case):
    shape, index = case
    array = numbered(shape)
    x = wrap(array, requires_grad=True)
    got = x[index]
    wanted = array[index]
    np.testing.assert_array_equal(got._array, wanted)
    weights = numbered(wanted.shape)
    (got * wrap(weights)).sum().backward()
    expected = np.zeros(shape)
    np.add.at(expected, index, weights)
    if got._array.size:
        np.testing.assert_array_equal(x.grad._array, expected)


@FEW
@given(mixed_indices())
def test_mixed_writing(case):
    shape, index = case
    array = numbered(shape)
    x = wrap(array.copy())
    array[index] = -1.0
    x[index] = -1.0
    np.testing.assert_array_equal(x._array, array)


@FEW
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=3, min_side=0))
def test_broadcasting_and_its_transpose(shapes):
    (first, second), wanted = shapes.input_shapes, shapes.result_shape
    x, y = wrap(numbered(first), requires_grad=True), wrap(numbered(second), requires_grad=True)
    for t, other in ((x, y), (y, x)):
        assert t.expand(wanted).shape == wanted
        np.testing.assert_array_equal(sg.broadcast_tensors(t, other)[0]._array, np.broadcast_to(t._array, wanted))
    (x * y).sum().backward()
    copies = np.ones(wanted)
    np.testing.assert_allclose(x.grad._array, summed(copies * y._array, first))
    np.testing.assert_allclose(y.grad._array, summed(copies * x._array, second))


def summed(g, shape):
    g = g.sum(tuple(range(g.ndim - len(shape))))
    return g.sum(tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


@FEW
@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.data())
def test_shapes(shape, data):
    array = numbered(shape)
    x = wrap(array)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    np.testing.assert_array_equal(x.permute(axes)._array, array.transpose(axes))
    np.testing.assert_array_equal(x.permute(axes).reshape(-1)._array, array.transpose(axes).reshape(-1))
    axis, to = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.integers(-len(shape), len(shape) - 1))
    np.testing.assert_array_equal(x.movedim(axis, to)._array, np.moveaxis(array, axis, to))
    np.testing.assert_array_equal(x.flip(axis)._array, np.flip(array, axis))
    np.testing.assert_array_equal(x.roll(3, axis)._array, np.roll(array, 3, axis))
    np.testing.assert_array_equal(x.repeat_interleave(2, axis)._array, np.repeat(array, 2, axis))
    np.testing.assert_array_equal(sg.cat([x, x], axis)._array, np.concatenate([array, array], axis))
    np.testing.assert_array_equal(sg.stack([x, x], axis)._array, np.stack([array, array], axis))
    np.testing.assert_array_equal(x.squeeze()._array, array.squeeze())
    sections = data.draw(st.integers(1, 4))
    for mine, wanted in zip(x.tensor_split(sections, axis), np.array_split(array, sections, axis), strict=True):
        np.testing.assert_array_equal(mine._array, wanted)
    for mine, wanted in zip(x.unbind(axis), np.moveaxis(array, axis, 0), strict=True):
        np.testing.assert_array_equal(mine._array, wanted)


def test_functions_are_differentiable_twice():
    x, y = (wrap(np.random.default_rng(i).normal(size=(3, 4)), requires_grad=True) for i in (0, 1))
    mask = wrap(np.arange(12).reshape(3, 4) % 3 == 0)
    places = wrap(np.array([[0, 2], [1, 0]]))
    for f in (
        lambda x, y: x[mask] * y[mask], lambda x, y: x.masked_scatter(mask, y * y), lambda x, y: x.gather(1, places) ** 2,
        lambda x, y: x.scatter(0, places, y[:2, :2]) ** 2, lambda x, y: x.take(places) * y.take(places),
        lambda x, y: x.masked_fill(mask, y[0, 0]) ** 2,
        lambda x, y: x.index_add(1, places[0], y[:, :2], alpha=2) ** 2, lambda x, y: x.take_along_dim(places[:1, :1], 1) ** 2 * y[0, 0],
        lambda x, y: x.select_scatter(y[0] ** 2, 0, 1), lambda x, y: x.rot90() @ y.rot90(2) ** 2,
        lambda x, y: sg.cat(x.split(2, 1), 0) ** 2 * sg.stack(y.unbind(1)[:2], 1).repeat(2, 1),
    ):  # fmt: skip
        assert gradcheck(f, (x, y), rtol=1e-6, atol=1e-8)
        assert gradgradcheck(f, (x, y), rtol=1e-5, atol=1e-7)


def test_lists_masks_and_numbers_of_other_libraries():
    x = sg.tensor(np.arange(12.0).reshape(3, 4))
    assert x[[True, False, True]].shape == (2, 4)
    assert x[np.array([0, 2])].shape == (2, 4)
    assert x[np.int64(1), np.int32(2)].item() == 6
    assert x[sg.tensor(1), sg.tensor(2)].item() == 6
    assert x[sg.tensor(1) : sg.tensor(3)].shape == (2, 4)
    assert x[[]].shape == (0, 4)
    assert x[True].shape == (1, 3, 4)
    assert x[sg.tensor(False)].shape == (0, 3, 4)
    assert x[..., ...].shape == (3, 4)
    assert x[range(2)].shape == (2, 4)


def test_a_mask_counts_places_once_and_an_index_as_often_as_it_occurs():
    x = sg.zeros(3)
    x[[0, 0, 1]] += 1
    assert x.tolist() == [1, 1, 0]
    x.index_put_((sg.tensor([0, 0, 1]),), sg.tensor(1.0), accumulate=True)
    assert x.tolist() == [3, 2, 0]


@pytest.mark.parametrize(
    ("index", "kind", "message"),
    [
        (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
        ((0, -5), IndexError, "index -5 is out of bounds for dimension 1 with size 4"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        ([0, 3], IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (1.5, IndexError, "only integers, slices"),
        (([[0, 1], [0, 1, 2]],), ValueError, "sequence"),
        (([0, 1], [0, 1, 2]), IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes"),
        ([True, False], IndexError, "The shape of the mask .2. at index 0 does not match the shape of the indexed tensor"),
        ("a", TypeError, "'a'"),
    ],
)
def test_bad_indices(index, kind, message):
    x = sg.zeros(3, 4)
    with pytest.raises(kind, match=message):
        x[index]
    with pytest.raises(kind, match=message):
        x[index] = 1.0
    assert not x._array.any()


def test_an_index_that_is_a_tensor_stays_in_a_traced_graph():
    x = sg.tensor(np.arange(12.0).reshape(3, 4))

    def f(x, i):
        return x[i].sum() + 2 * x[:, i].sum() + 3 * x[i, i]

    kernel = sg.compile(f)
    for i in (0, 2, -1):
        assert kernel(x, sg.tensor(i)).item() == f(x, sg.tensor(i)).item()
    assert sg.compile(lambda x: x[x > 3].sum())(x).item() == 60


def test_zero_dimensions():
    x = sg.tensor(3.0)
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        x[0]
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(x)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(x)
    x[...] = 4
    assert x[None].tolist() == [4]


def test_many_places_in_rows_without_elements():
    x = sg.ones(2, 0, requires_grad=True)
    x[sg.zeros(3, 3, dtype=sg.int64)].sum().backward()
    assert x.grad.shape == (2, 0)


def test_iteration_and_membership():
    x = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    first, second = x
    assert (first.grad_fn.name(), len(x), 3.0 in x, 5 in x) == ("UnbindBackward0", 2, True, False)
    (first * second).sum().backward()
    assert x.grad.tolist() == [[3, 4], [1, 2]]
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        [1.0] in x  # noqa: B015  (it raises)


def test_many_places_add_up_as_slowly_written():
    index = np.random.default_rng(0).integers(-50, 50, size=3000)
    x = wrap(np.zeros((50, 3)), requires_grad=True)
    g = np.random.default_rng(1).normal(size=(3000, 3))
    (x[wrap(index)] * wrap(g)).sum().backward()
    expected = np.zeros((50, 3))
    np.add.at(expected, index, g)
    np.testing.assert_allclose(x.grad._array, expected, rtol=1e-12)


def test_a_place_that_is_filled_twice_counts_once():
    value = sg.tensor(2.0, dtype=sg.float64, requires_grad=True)
    x = sg.zeros(3, 2, dtype=sg.float64, requires_grad=True)
    filled = x.index_fill(0, sg.tensor([0, 0, 2]), value)
    filled.sum().backward()
    assert value.grad.item() == 4.0
    assert x.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
