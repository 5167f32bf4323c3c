"""Convolution and pooling kernels give PyTorch's values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.ops import kernels

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.peer

rng = np.random.default_rng(0)
CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}

# x shape, w shape, stride, padding, dilation, groups
CONVOLUTIONS = [
    ((32, 64, 128), (64, 64, 3), (1,), (0,), (1,), 1),
    ((4, 6, 31), (8, 3, 5), (3,), (2,), (2,), 2),
    ((64, 1, 8, 8), (16, 1, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((64, 16, 8, 8), (32, 16, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((32, 3, 32, 32), (32, 3, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    ((4, 64, 28, 28), (32, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    ((4, 16, 28, 28), (16, 16, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    ((4, 16, 14, 14), (32, 16, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ((4, 16, 14, 14), (32, 16, 1, 1), (2, 2), (0, 0), (1, 1), 1),
    ((4, 8, 14, 13), (8, 1, 3, 3), (1, 1), (1, 1), (1, 1), 8),
    ((4, 8, 15, 13), (12, 2, 3, 2), (2, 1), (2, 1), (1, 3), 4),
    ((2, 3, 6, 7, 8), (4, 3, 2, 3, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2), 1),
]
POOLS = [
    ((4, 3, 20), (2,), (2,), (0,), (1,)),
    ((4, 3, 21), (4,), (3,), (2,), (2,)),
    ((4, 3, 28, 28), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((4, 3, 29, 27), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((4, 3, 15, 11), (3, 2), (4, 3), (1, 1), (1, 2)),
    ((2, 3, 8, 7, 9), (2, 3, 2), (2, 2, 1), (1, 1, 0), (1, 1, 1)),
]


def tensor(array, requires_grad=True):
    return torch.from_numpy(np.array(array)).requires_grad_(requires_grad)


def assert_close(ours, theirs, rtol=2e-4):
    """Float32 sums in another order: errors relative to the largest value."""
    theirs = theirs.detach().numpy()
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * max(1e-3, np.abs(theirs).max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("x_shape", "w_shape", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
def test_convolution(x_shape, w_shape, stride, padding, dilation, groups, dtype):
    x, w = rng.normal(size=x_shape).astype(dtype), rng.normal(size=w_shape).astype(dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    tx, tw = tensor(x), tensor(w)
    wanted = CONVOLVE[len(stride)](tx, tw, **options)
    g = rng.normal(size=wanted.shape).astype(dtype)
    gx, gw = torch.autograd.grad(wanted, (tx, tw), torch.from_numpy(g))
    assert_close(kernels.convolution(x, w, **options), wanted)
    assert_close(kernels.convolution_transpose(g, w, **options, output_shape=x_shape[2:]), gx)
    assert_close(kernels.convolution_weight(x, g, **options, kernel_shape=w_shape[2:]), gw)


@pytest.mark.parametrize(("x_shape", "w_shape", "stride", "padding", "dilation", "groups"), CONVOLUTIONS)
def test_transposed_convolution_and_its_gradients(x_shape, w_shape, stride, padding, dilation, groups):
    """The same kernel is PyTorch's conv_transpose, and the other two are its gradients."""
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    w = rng.normal(size=w_shape)
    g = rng.normal(size=kernels.convolution(np.zeros(x_shape), w, **options).shape)
    tg, tw = tensor(g), tensor(w)
    smallest = TRANSPOSE[len(stride)](tg, tw, **options).shape[2:]
    extra = tuple(size - least for size, least in zip(x_shape[2:], smallest, strict=True))
    wanted = TRANSPOSE[len(stride)](tg, tw, **options, output_padding=extra)
    v = rng.normal(size=x_shape)
    vg, vw = torch.autograd.grad(wanted, (tg, tw), torch.from_numpy(v))
    assert_close(kernels.convolution_transpose(g, w, **options, output_shape=x_shape[2:]), wanted, 1e-10)
    assert_close(kernels.convolution(v, w, **options), vg, 1e-10)
    assert_close(kernels.convolution_weight(v, g, **options, kernel_shape=w_shape[2:]), vw, 1e-10)


@pytest.mark.parametrize("special", [None, 0.0, np.nan, -np.inf])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(("shape", "kernel", "stride", "padding", "dilation"), POOLS)
def test_max_pool(shape, kernel, stride, padding, dilation, ceil_mode, special):
    x = rng.normal(size=shape).astype(np.float32)
    if special is not None:
        x[rng.random(shape) < 0.5] = special  # ties, and windows full of it
    tx = tensor(x)
    pool = MAX_POOL[len(kernel)]
    wanted, places = pool(tx, kernel, stride, padding, dilation, ceil_mode=ceil_mode, return_indices=True)
    values, indices = kernels.max_pool(
        x, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )
    np.testing.assert_array_equal(values, wanted.detach().numpy())
    np.testing.assert_array_equal(indices, places.numpy())
    g = rng.normal(size=values.shape).astype(np.float32)
    (gx,) = torch.autograd.grad(wanted, tx, torch.from_numpy(g))
    assert_close(kernels.pool_scatter(g, indices, input_shape=shape[2:]), gx)


@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding", "divisor_override"),
    [(*pool[:4], divisor) for pool in POOLS for divisor in (None, 5) if len(pool[1]) > 1 or divisor is None],
)
def test_avg_pool(shape, kernel, stride, padding, divisor_override, ceil_mode, count_include_pad):
    x = rng.normal(size=shape).astype(np.float32)
    tx = tensor(x)
    counting = {"count_include_pad": count_include_pad, "divisor_override": divisor_override}
    theirs = counting if len(kernel) > 1 else {"count_include_pad": count_include_pad}  # no divisor in one dimension
    wanted = AVG_POOL[len(kernel)](tx, kernel, stride, padding, ceil_mode=ceil_mode, **theirs)
    options = {"kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode, **counting}
    assert_close(kernels.avg_pool(x, **options), wanted)
    g = rng.normal(size=wanted.shape).astype(np.float32)
    (gx,) = torch.autograd.grad(wanted, tx, torch.from_numpy(g))
    assert_close(kernels.avg_unpool(g, **options, input_shape=shape[2:]), gx)


@pytest.mark.parametrize(
    ("shape", "size"), [((4, 3, 20), (7,)), ((4, 3, 14, 14), (7, 7)), ((4, 3, 9, 7), (1, 1)), ((4, 3, 9, 3), (4, 5))]
)
def test_adaptive_avg_pool(shape, size):
    x = rng.normal(size=shape).astype(np.float32)
    tx = tensor(x)
    wanted = ADAPTIVE[len(size)](tx, size)
    assert_close(kernels.adaptive_avg_pool(x, output_size=size), wanted)
    g = rng.normal(size=wanted.shape).astype(np.float32)
    (gx,) = torch.autograd.grad(wanted, tx, torch.from_numpy(g))
    assert_close(kernels.adaptive_avg_unpool(g, input_shape=shape[2:]), gx)
