"""Kernels against loops that spell out their definition, and their transposes by the identity <A x, y> == <x, Aᵀ y>."""

from __future__ import annotations

from itertools import product
from math import prod

import ml_dtypes
import numpy as np
import pytest

from symgrad.ops import kernels
from symgrad.ops.kernels import windows

Array = np.ndarray
rng = np.random.default_rng(0)

# x shape, w shape, stride, padding, dilation, groups
CONVOLUTIONS = [
    ((2, 3, 7), (4, 3, 3), (1,), (0,), (1,), 1),
    ((2, 4, 8), (6, 2, 3), (2,), (1,), (1,), 2),
    ((2, 2, 9), (2, 2, 3), (1,), (3,), (2,), 1),
    ((2, 3, 5), (3, 3, 1), (1,), (2,), (1,), 1),
    ((3, 2, 6, 5), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((3, 3, 6, 5), (2, 3, 2, 3), (1, 1), (0, 2), (1, 1), 1),
    ((3, 2, 8, 7), (3, 2, 3, 2), (2, 3), (1, 0), (1, 1), 1),
    ((3, 2, 9, 7), (3, 2, 3, 2), (1, 2), (2, 1), (2, 3), 1),
    ((3, 4, 5, 5), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4),
    ((3, 4, 6, 6), (8, 2, 3, 3), (2, 2), (1, 1), (1, 1), 2),
    ((3, 4, 5, 4), (3, 4, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((3, 4, 5, 4), (3, 4, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((2, 2, 4, 3, 5), (2, 2, 2, 3, 2), (1, 1, 2), (0, 1, 1), (1, 1, 2), 1),
    # batches of narrow images
    ((17, 2, 4, 4), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((16, 4, 5, 6), (6, 2, 2, 3), (2, 1), (0, 1), (1, 2), 2),
    ((40, 2, 7), (3, 2, 3), (2,), (1,), (1,), 1),
]

# spatial shape, kernel, stride, padding, dilation
POOLS = [
    ((8,), (2,), (2,), (0,), (1,)),
    ((9,), (3,), (2,), (1,), (2,)),
    ((6, 8), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((7, 5), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((7, 6), (3, 2), (2, 1), (1, 1), (1, 1)),
    ((5, 5), (2, 2), (3, 3), (1, 1), (1, 1)),
    ((9, 8), (3, 2), (1, 3), (1, 0), (2, 3)),
    ((4, 5, 3), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1)),
]


@pytest.fixture(params=[windows.BLOCK_BYTES, 2000], ids=["one block", "blocks"])
def _blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "BLOCK_BYTES", request.param)


def options(stride: tuple, padding: tuple, dilation: tuple, groups: int) -> dict:
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def places(window: tuple, tap: tuple, stride: tuple, padding: tuple, dilation: tuple) -> tuple:
    return tuple(o * s + k * d - p for o, k, s, p, d in zip(window, tap, stride, padding, dilation, strict=True))


def inside(place: tuple, shape: tuple) -> bool:
    return all(0 <= i < size for i, size in zip(place, shape, strict=True))


def naive_convolution(x: Array, w: Array, *, stride: tuple, padding: tuple, dilation: tuple, groups: int) -> Array:
    axes = zip(x.shape[2:], w.shape[2:], stride, padding, dilation, strict=True)
    counts = tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, p, d in axes)
    out = np.zeros((len(x), len(w), *counts), x.dtype)
    for o, c, window, tap in product(range(len(w)), range(w.shape[1]), np.ndindex(counts), np.ndindex(w.shape[2:])):
        place = places(window, tap, stride, padding, dilation)
        if inside(place, x.shape[2:]):
            channel = o // (len(w) // groups) * w.shape[1] + c
            out[(slice(None), o, *window)] += w[(o, c, *tap)] * x[(slice(None), channel, *place)]
    return out


def window_places(window: tuple, shape: tuple, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple) -> list:
    """The places of a window that are on the input, in order."""
    found = (places(window, tap, stride, padding, dilation) for tap in np.ndindex(kernel))
    return [place for place in found if inside(place, shape)]


def naive_max_pool(
    x: Array, counts: tuple, *, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple
) -> tuple[Array, Array]:
    shape = x.shape[2:]
    values, indices = np.empty((*x.shape[:2], *counts), x.dtype), np.empty((*x.shape[:2], *counts), np.int64)
    for n, c, window in product(range(len(x)), range(x.shape[1]), np.ndindex(counts)):
        best, *rest = window_places(window, shape, kernel, stride, padding, dilation)
        for place in rest:
            if x[(n, c, *place)] > x[(n, c, *best)] or np.isnan(x[(n, c, *place)]):
                best = place
        values[(n, c, *window)] = x[(n, c, *best)]
        indices[(n, c, *window)] = np.ravel_multi_index(best, shape)
    return values, indices


def inner(a: Array, b: Array) -> float:
    assert a.shape == b.shape
    return float(np.vdot(a, b))


def assert_kernel_result(out: Array, dtype: type) -> None:
    assert out.flags.c_contiguous
    assert out.dtype == dtype


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize(("x_shape", "w_shape", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
class TestConvolution:
    def test_equals_the_loops(self, x_shape, w_shape, stride, padding, dilation, groups):
        x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
        chosen = options(stride, padding, dilation, groups)
        out = kernels.convolution(x, w, **chosen)
        np.testing.assert_allclose(out, naive_convolution(x, w, **chosen), atol=1e-12)
        assert_kernel_result(out, np.float64)

    def test_derivatives_of_each_are_the_other_two(self, x_shape, w_shape, stride, padding, dilation, groups):
        """All three are linear in both arguments, so f itself is the derivative: <v, f(dx, w)> == <dx, rule(v, w)>."""
        chosen = options(stride, padding, dilation, groups)
        x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
        out = kernels.convolution(x, w, **chosen)
        g = rng.normal(size=out.shape)
        gx = kernels.convolution_transpose(g, w, **chosen, output_shape=x_shape[2:])
        gw = kernels.convolution_weight(x, g, **chosen, kernel_shape=w_shape[2:])
        assert_kernel_result(gx, np.float64)
        assert_kernel_result(gw, np.float64)
        assert inner(gx, x) == pytest.approx(inner(g, out))
        assert inner(gw, w) == pytest.approx(inner(g, out))

    def test_each_is_linear_in_both_arguments(self, x_shape, w_shape, stride, padding, dilation, groups):
        chosen = options(stride, padding, dilation, groups)
        x, w = rng.normal(size=x_shape), rng.normal(size=w_shape)
        g = rng.normal(size=kernels.convolution(x, w, **chosen).shape)
        for kernel, a, b, more in [
            (kernels.convolution, x, w, {}),
            (kernels.convolution_transpose, g, w, {"output_shape": x_shape[2:]}),
            (kernels.convolution_weight, x, g, {"kernel_shape": w_shape[2:]}),
        ]:
            whole = kernel(2 * a, b - 3 * b, **chosen, **more)
            np.testing.assert_allclose(whole, -4 * kernel(a, b, **chosen, **more), atol=1e-12)


PLAIN = options((1, 1), (1, 1), (1, 1), 1)


def test_transposed_convolution_leaves_zeros_where_no_window_was():
    x, w = np.ones((1, 1, 8)), np.ones((1, 1, 3))
    g = kernels.convolution(x, w, **options((4,), (0,), (1,), 1))
    gx = kernels.convolution_transpose(g, w, **options((4,), (0,), (1,), 1), output_shape=(8,))
    np.testing.assert_array_equal(gx[0, 0], [3, 3, 3, 0, 3, 3, 3, 0])


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32, np.float64])
def test_dtype_is_kept(dtype):
    x, w = rng.normal(size=(2, 3, 6, 6)).astype(dtype), rng.normal(size=(4, 3, 3, 3)).astype(dtype)
    out = kernels.convolution(x, w, **PLAIN)
    assert_kernel_result(out, dtype)
    assert_kernel_result(kernels.convolution_transpose(out, w, **PLAIN, output_shape=(6, 6)), dtype)
    assert_kernel_result(kernels.convolution_weight(x, out, **PLAIN, kernel_shape=(3, 3)), dtype)
    even = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "ceil_mode": False}
    values, indices = kernels.max_pool(x, dilation=(1, 1), **even)
    assert_kernel_result(values, dtype)
    assert_kernel_result(indices, np.int64)
    assert_kernel_result(kernels.pool_gather(x, indices), dtype)
    assert_kernel_result(kernels.pool_scatter(values, indices, input_shape=(6, 6)), dtype)
    means = kernels.avg_pool(x, **even, count_include_pad=True, divisor_override=None)
    assert_kernel_result(means, dtype)
    back = kernels.avg_unpool(means, **even, count_include_pad=True, divisor_override=None, input_shape=(6, 6))
    assert_kernel_result(back, dtype)
    for size in [(1, 1), (2, 3), (4, 5)]:
        means = kernels.adaptive_avg_pool(x, output_size=size)
        assert_kernel_result(means, dtype)
        assert_kernel_result(kernels.adaptive_avg_unpool(means, input_shape=(6, 6)), dtype)


def test_float16_sums_are_made_in_float32():
    x, w = np.full((1, 1, 4096), 1, np.float16), np.full((1, 1, 4096), 1, np.float16)
    assert kernels.convolution(x, w, **options((1,), (0,), (1,), 1)) == 4096  # adding 1 to 2048 in float16 gives 2048


def test_memory_layout_of_the_inputs_does_not_matter():
    x, w = rng.normal(size=(6, 5, 3, 2)).T, rng.normal(size=(4, 3, 3, 3))[::-1, :, ::-1, ::-1]
    g = np.broadcast_to(rng.normal(size=(4, 1, 1)), (2, 4, 5, 6))
    for kernel, a, b, more in [
        (kernels.convolution, x, w, {}),
        (kernels.convolution_transpose, g, w, {"output_shape": (5, 6)}),
        (kernels.convolution_weight, x, g, {"kernel_shape": (3, 3)}),
    ]:
        np.testing.assert_allclose(
            kernel(a, b, **PLAIN, **more), kernel(a.copy("C"), b.copy("C"), **PLAIN, **more), atol=1e-12
        )


def test_empty_batch():
    x, w, g = np.empty((0, 3, 6, 6)), np.ones((4, 3, 3, 3)), np.empty((0, 4, 6, 6))
    assert kernels.convolution(x, w, **PLAIN).shape == (0, 4, 6, 6)
    assert kernels.convolution_transpose(g, w, **PLAIN, output_shape=(6, 6)).shape == (0, 3, 6, 6)
    np.testing.assert_array_equal(kernels.convolution_weight(x, g, **PLAIN, kernel_shape=(3, 3)), np.zeros_like(w))


@pytest.mark.usefixtures("_blocks")
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation"), POOLS)
class TestMaxPool:
    def pool(self, x, kernel, stride, padding, dilation, ceil_mode):
        chosen = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
        counts = kernels.pooled_shape(x.shape[2:], **chosen, ceil_mode=ceil_mode)
        return kernels.max_pool(x, **chosen, ceil_mode=ceil_mode), naive_max_pool(x, counts, **chosen)

    @pytest.mark.parametrize("special", [0.5, np.nan, -np.inf, np.inf])
    def test_equals_the_loops(self, shape, kernel, stride, padding, dilation, ceil_mode, special):
        x = rng.integers(-3, 3, size=(5, 2, *shape)).astype(float)  # integers: many ties
        x[rng.random(x.shape) < 0.4] = special
        (values, indices), (wanted, places) = self.pool(x, kernel, stride, padding, dilation, ceil_mode)
        np.testing.assert_array_equal(values, wanted)
        np.testing.assert_array_equal(indices, places)

    def test_nothing_above_minus_infinity(self, shape, kernel, stride, padding, dilation, ceil_mode):
        for x in (np.full((1, 1, *shape), -np.inf), np.full((1, 1, *shape), np.iinfo(np.int32).min, np.int32)):
            (values, indices), (wanted, places) = self.pool(x, kernel, stride, padding, dilation, ceil_mode)
            np.testing.assert_array_equal(values, wanted)
            np.testing.assert_array_equal(indices, places)

    def test_scatter_is_the_transpose_of_gather(self, shape, kernel, stride, padding, dilation, ceil_mode):
        x = rng.normal(size=(5, 2, *shape))
        (values, indices), _ = self.pool(x, kernel, stride, padding, dilation, ceil_mode)
        np.testing.assert_array_equal(kernels.pool_gather(x, indices), values)
        g, other = rng.normal(size=values.shape), rng.normal(size=x.shape)
        scattered = kernels.pool_scatter(g, indices, input_shape=shape)
        assert inner(scattered, other) == pytest.approx(inner(g, kernels.pool_gather(other, indices)))


def test_windows_with_more_taps_than_a_byte_counts():
    x = np.arange(400.0).reshape(1, 1, 20, 20)
    same = {"kernel": (20, 20), "stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "ceil_mode": False}
    _, indices = kernels.max_pool(x, **same)
    assert indices == 399


@pytest.mark.parametrize("divisor_override", [None, 3])
@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding"), [pool[:4] for pool in POOLS])
class TestAvgPool:
    def test_equals_the_loops(self, shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
        x, ones = rng.normal(size=(2, 3, *shape)), (1,) * len(shape)
        chosen = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        counting = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
        out = kernels.avg_pool(x, **chosen, **counting)
        assert out.shape[2:] == kernels.pooled_shape(shape, **chosen, dilation=ones)
        beyond = tuple(size + 2 * p for size, p in zip(shape, padding, strict=True))  # padding that counts
        for window in np.ndindex(out.shape[2:]):
            total = sum(x[(..., *p)] for p in window_places(window, shape, kernel, stride, padding, ones))
            edges, within = ((0,) * len(shape), beyond) if count_include_pad else (padding, shape)
            count = divisor_override or len(window_places(window, within, kernel, stride, edges, ones))
            np.testing.assert_allclose(out[(..., *window)], total / count, atol=1e-12)

    def test_unpool_is_the_transpose(
        self, shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    ):
        chosen = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode}
        counting = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
        x = rng.normal(size=(2, 3, *shape))
        out = kernels.avg_pool(x, **chosen, **counting)
        g = rng.normal(size=out.shape)
        back = kernels.avg_unpool(g, **chosen, **counting, input_shape=shape)
        assert inner(back, x) == pytest.approx(inner(g, out))


@pytest.mark.parametrize(
    ("shape", "size"),
    [((7,), (3,)), ((8,), (4,)), ((3,), (7,)), ((6, 9), (1, 1)), ((6, 9), (3, 3)), ((7, 5), (3, 4)), ((4, 5), (1, 5))],
)
def test_adaptive_avg_pool_and_its_transpose(shape, size):
    x = rng.normal(size=(2, 3, *shape))
    out = kernels.adaptive_avg_pool(x, output_size=size)
    assert out.shape == (2, 3, *size)
    for window in np.ndindex(size):
        starts = [o * extent // count for o, extent, count in zip(window, shape, size, strict=True)]
        stops = [-(-(o + 1) * extent // count) for o, extent, count in zip(window, shape, size, strict=True)]
        seen = x[(..., *map(slice, starts, stops))]
        np.testing.assert_allclose(out[(..., *window)], seen.reshape(2, 3, -1).mean(-1), atol=1e-12)
    g = rng.normal(size=out.shape)
    assert inner(kernels.adaptive_avg_unpool(g, input_shape=shape), x) == pytest.approx(inner(g, out))


@pytest.mark.parametrize("size", [(2, 2), (3, 3)])
def test_infinity_stays_in_its_window(size):
    x = np.ones((1, 1, 4, 4))
    x[0, 0, 0, 0] = np.inf
    out = kernels.adaptive_avg_pool(x, output_size=size)
    assert np.isinf(out).sum() == 1


def test_unfolding_uses_bounded_memory():
    """Every block is unfolded into the same array, however large the batch."""
    x = np.zeros((1000, 3, 16, 16))
    unfolded = [columns for _, columns in windows.unfold(x, (3, 3), (1, 1), (1, 1), (1, 1))]
    assert len(unfolded) > 1
    assert max(columns.nbytes for columns in unfolded) <= windows.BLOCK_BYTES
    assert all(np.shares_memory(columns, unfolded[0]) for columns in unfolded)
    assert sum(prod(columns.shape) for columns in unfolded) == 1000 * 3 * 9 * 256


def test_a_kernel_of_one_tap_copies_nothing():
    x = rng.normal(size=(4, 3, 5, 5))
    for block, columns in windows.unfold(x, (1, 1), (1, 1), (0, 0), (1, 1)):
        assert np.shares_memory(columns, x[block])
