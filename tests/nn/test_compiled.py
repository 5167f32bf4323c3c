"""Networks compiled: one program of the rows of nn agrees with running them one by one, values and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.nn import functional as F


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape))


def images(x, kernel, w):
    h = F.max_pool2d(F.relu(F.conv2d(x, kernel, padding=1)), 3, 2, 1, ceil_mode=True)
    h = F.avg_pool2d(F.group_norm(F.batch_norm(h, None, None, training=True), 2), 2, count_include_pad=False)
    return F.cross_entropy(F.linear(h.flatten(1), w), sg.tensor([1, 3]), label_smoothing=0.1)


def words(table, w, scale):
    h = F.layer_norm(F.embedding(sg.tensor([0, 2, 1, 2]), table, padding_idx=0), (6,), scale, scale)
    h = F.glu(F.gelu(F.scaled_dot_product_attention(h, h @ w, h, is_causal=True)))
    return F.smooth_l1_loss(F.log_softmax(h, -1), F.pad(h[:, 1:], (1, 0)))


def slopes(x, y):
    curves = F.silu(x) + F.softplus(x) + F.elu(x) + F.mish(x) + F.celu(x, 0.7) + F.hardswish(x) + F.logsigmoid(x) + F.leaky_relu(x)
    losses = F.binary_cross_entropy_with_logits(x, y.sigmoid()) + F.huber_loss(x, y, delta=0.5) + F.soft_margin_loss(x, y)
    return F.mse_loss(curves, y) + losses + F.nll_loss(x, sg.tensor([0, 1, 2]), ignore_index=1)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (images, (values(2, 3, 8, 8), values(4, 3, 3, 3, seed=1), values(5, 16, seed=2))),
        (words, (values(3, 6), values(6, 6, seed=1), values(6, seed=2))),
        (slopes, (values(3, 4), values(3, 4, seed=1))),
    ],
    ids=["images", "words", "slopes"],
)
def test_compiled(function, args):
    leaves = [a.clone().requires_grad_() for a in args]
    expected = function(*leaves)
    expected.backward()
    value, gradients = sg.compile(function).value_and_grad(*args)
    np.testing.assert_allclose(value.item(), expected.item(), rtol=1e-10)
    for mine, leaf in zip(gradients[: len(leaves)], leaves, strict=True):  # tensors that the function closes over come after
        np.testing.assert_allclose(mine.numpy(), leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


def chosen(seed, high, *shape):
    return sg.tensor(np.random.default_rng(seed).integers(0, high, shape))


@pytest.mark.parametrize(
    ("function", "draw"),
    [
        (lambda x, y: F.gaussian_nll_loss(x, y, x.square(), eps=0.3), lambda k: (values(3, 4, seed=k), values(3, 4, seed=k + 1))),
        (lambda x, y: F.cosine_similarity(x, y, eps=1.5).sum(), lambda k: (values(3, 4, seed=k), values(3, 4, seed=k + 1))),
        (lambda x, t: F.cross_entropy(x, t, ignore_index=1, label_smoothing=0.2), lambda k: (values(6, 4, seed=k), chosen(k, 4, 6))),
        (lambda x, m: F.batch_norm(x, m, m.square()).square().sum(), lambda k: (values(3, 4, seed=k), values(4, seed=k + 1))),
        (lambda x, m: F.scaled_dot_product_attention(x, x, x, m > 0).sum(), lambda k: (values(3, 4, seed=k), chosen(k, 2, 3, 3))),
    ],
    ids=["gaussian_nll_loss", "cosine_similarity", "cross_entropy", "batch_norm", "attention"],
)
def test_what_depends_on_values_is_not_frozen(function, draw):
    compiled = sg.compile(function)
    for seed in (0, 10, 20):
        args = draw(seed)
        np.testing.assert_allclose(compiled(*args).item(), function(*args).item(), rtol=1e-9)
