"""Norms of vectors and matrices, and distances: values against NumPy, gradients to order 2."""

from __future__ import annotations

import numpy as np
import pytest
from matrices import check, leaf

import symgrad as sg
from symgrad import linalg

INF = float("inf")


@pytest.mark.parametrize("ord", ["fro", "nuc", INF, -INF, 1, -1, 2, -2])
def test_matrix_norm(ord):
    a = leaf(3, 4)
    np.testing.assert_allclose(linalg.matrix_norm(a, ord)._array, np.linalg.norm(a._array, ord))
    np.testing.assert_allclose(linalg.norm(a, ord)._array, np.linalg.norm(a._array, ord))
    batch = leaf(3, 2, 4)
    for keepdim in (True, False):
        result = linalg.matrix_norm(batch, ord, dim=(2, 0), keepdim=keepdim)
        np.testing.assert_allclose(result._array, np.linalg.norm(batch._array, ord, axis=(2, 0), keepdims=keepdim))
    check(lambda x: linalg.matrix_norm(x, ord, dim=(2, 0)), batch)


@pytest.mark.parametrize("ord", [0, 1, 2, 3, 0.5, INF, -INF, -1])
def test_vector_norm(ord):
    x = leaf(3, 4)
    np.testing.assert_allclose(linalg.vector_norm(x, ord)._array, np.linalg.norm(x._array.ravel(), ord))
    for keepdim in (True, False):
        np.testing.assert_allclose(
            linalg.vector_norm(x, ord, dim=1, keepdim=keepdim)._array, np.linalg.norm(x._array, ord, axis=1, keepdims=keepdim)
        )
        np.testing.assert_array_equal(
            linalg.norm(x, ord, dim=1, keepdim=keepdim)._array, linalg.vector_norm(x, ord, dim=1, keepdim=keepdim)._array
        )


def test_the_nuclear_norm_at_top_level():
    a = leaf(3, 4)
    np.testing.assert_allclose(sg.norm(a, "nuc")._array, np.linalg.norm(a._array, "nuc"))


def test_norm_without_an_order_is_that_of_all_elements():
    x = leaf(2, 3, 2)
    np.testing.assert_allclose(linalg.norm(x)._array, np.sqrt((x._array**2).sum()))
    np.testing.assert_allclose(linalg.norm(x, dim=(0, 1))._array, np.sqrt((x._array**2).sum((0, 1))))
    assert linalg.norm(sg.tensor([3, 4]), dtype=sg.float64)._array == 5


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, INF])
def test_cdist(p):
    x, y = leaf(2, 3, 2), leaf(4, 2)
    expected = np.linalg.norm(x._array[..., None, :] - y._array, p, axis=-1)
    np.testing.assert_allclose(sg.cdist(x, y, p)._array, expected)
    check(lambda a, b: sg.cdist(a, b, p), x, y)


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist", "use_mm_for_euclid_dist_if_necessary", None])
def test_both_ways_to_euclidean_distances(mode):
    x, y = leaf(30, 2), leaf(3, 2)
    expected = np.linalg.norm(x._array[:, None] - y._array, axis=-1)
    np.testing.assert_allclose(sg.cdist(x, y, compute_mode=mode)._array, expected, rtol=1e-10)
    check(lambda a, b: sg.cdist(a, b, compute_mode=mode), leaf(2, 4, 2), y)
    with pytest.raises(ValueError, match="not a valid value for compute_mode"):
        sg.cdist(x, y, compute_mode="fast")


def test_the_distance_of_a_point_from_itself_has_gradient_0():
    x = leaf(1, 2)
    for p in (1.0, 2.0, 3.0):
        sg.cdist(x, x.detach(), p).sum().backward()
    np.testing.assert_array_equal(x.grad._array, [[0, 0]])
