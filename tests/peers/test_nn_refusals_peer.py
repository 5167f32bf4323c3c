"""Calls of nn.functional that PyTorch refuses, and some that it nearly does: the same type of error, or none."""

from __future__ import annotations

import math
import warnings

import pytest

import symgrad as sg
import symgrad.nn.functional as F

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

CALLS = """
F.softmax(r(2, 3), 2)
F.softmax(i(2, 3), 0)
F.log_softmax(r(2), -2)
F.glu(r(3))
F.glu(torch.tensor(1.0))
F.glu(r(2, 2), 3)
F.gelu(r(2), approximate='x')
F.celu(r(2), alpha=0.0)
F.hardtanh(r(2), 1, -1)
F.softshrink(r(2), -1.0)
F.prelu(r(2, 3), r(2))
F.prelu(r(2, 3), r(2, 3))
F.elu(i(2))
F.gelu(i(2))
F.silu(i(2))
F.softplus(i(2))
F.logsigmoid(i(2))
F.mish(i(2))
F.linear(r(2, 3), r(4, 5))
F.linear(r(2, 3), r(4, 3), r(5))
F.linear(r(2, 3), r(4, 3).double())
F.linear(i(2, 3), r(4, 3))
F.conv2d(r(1, 3, 5, 5), r(2, 4, 3, 3))
F.conv2d(r(1, 3, 2, 2), r(2, 3, 3, 3))
F.conv2d(r(3, 5), r(2, 3, 3, 3))
F.conv1d(r(1, 3, 5), r(2, 3, 3, 3))
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), r(3))
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), stride=0)
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), padding=-1)
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), padding='same', stride=2)
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), padding='some')
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3).double())
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), dilation=0)
F.conv2d(r(1, 4, 5, 5), r(3, 2, 3, 3), groups=2)
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), groups=0)
F.conv2d(r(1, 3, 5, 5), r(2, 3, 3, 3), stride=(1, 2, 3))
F.conv_transpose2d(r(1, 3, 5, 5), r(2, 3, 3, 3))
F.conv_transpose2d(r(1, 3, 5, 5), r(3, 2, 3, 3), output_padding=1)
F.max_pool2d(r(1, 2, 4, 4), 5)
F.max_pool2d(r(4, 4), 2)
F.max_pool2d(r(1, 2, 4, 4), 2, padding=2)
F.max_pool2d(r(1, 2, 4, 4), 2, stride=0)
F.max_pool2d(r(1, 2, 4, 4), 0)
F.avg_pool2d(r(1, 2, 4, 4), 5)
F.avg_pool2d(r(1, 2, 4, 4), 2, padding=2)
F.avg_pool2d(r(1, 2, 4, 4), 2, divisor_override=0)
F.avg_pool1d(r(3), 1)
F.adaptive_avg_pool2d(r(4, 4), 2)
F.adaptive_avg_pool2d(r(1, 2, 4, 4), (1, 2, 3))
F.adaptive_avg_pool2d(r(1, 2, 4, 4), -1)
F.batch_norm(r(4, 3), r(2), r(2))
F.batch_norm(r(1, 3), None, None, training=True)
F.batch_norm(r(4, 3), None, None)
F.batch_norm(r(4, 3), None, None, r(2), training=True)
F.layer_norm(r(2, 3), (2,))
F.layer_norm(r(2, 3), ())
F.layer_norm(r(2, 3), (3,), r(2))
F.layer_norm(i(2, 3), (3,))
F.rms_norm(r(2, 3), (2,))
F.rms_norm(r(2, 3), (3,), r(2))
F.group_norm(r(2, 3), 2)
F.group_norm(r(3), 1)
F.group_norm(r(2, 4), 2, r(3))
F.instance_norm(r(2, 3, 1))
F.instance_norm(r(2, 3, 4), use_input_stats=False)
F.dropout(r(2), 1.5)
F.dropout(r(2), -0.1)
F.embedding(i(2), r(2, 3).long()[0])
F.embedding(torch.tensor([5]), r(3, 2))
F.embedding(torch.tensor([-1]), r(3, 2))
F.embedding(r(2), r(3, 2))
F.embedding(i(2) * 0, r(3, 2), padding_idx=3)
F.one_hot(r(2))
F.one_hot(torch.tensor([-1]))
F.one_hot(torch.tensor([3]), 2)
F.one_hot(i(0))
F.one_hot(torch.tensor([1]).int())
F.pad(r(2), (1, 1, 1, 1))
F.pad(r(2), (1,))
F.pad(r(2, 2, 3), (3, 3), 'reflect')
F.pad(r(2, 2, 3), (1, 1), 'other')
F.pad(r(2, 3), (-3, -1))
F.pad(r(3), (1, 1), 'reflect')
F.pad(r(2, 2, 3), (4, 4), 'circular')
F.cosine_similarity(r(2, 3), r(2, 4))
F.pairwise_distance(r(2, 3), r(2, 4))
F.normalize(r(2, 3), dim=4)
F.scaled_dot_product_attention(r(2, 3, 4), r(2, 3, 5), r(2, 3, 4))
F.scaled_dot_product_attention(r(2, 3, 4), r(2, 3, 4), r(2, 3, 4), attn_mask=r(3, 3), is_causal=True)
F.scaled_dot_product_attention(r(4), r(4), r(4))
F.mse_loss(r(2), r(3))
F.mse_loss(r(2), r(2), reduction='x')
F.l1_loss(r(2), r(3))
F.l1_loss(r(2), r(2), reduction='x')
F.smooth_l1_loss(r(2), r(2), beta=-1.0)
F.huber_loss(r(2), r(2), delta=0.0)
F.mse_loss(r(2), r(2), weight=r(3))
F.cross_entropy(r(2, 3), i(3))
F.cross_entropy(r(2, 3), torch.tensor([0, 3]))
F.cross_entropy(r(2, 3), r(2))
F.cross_entropy(r(2, 3), i(2, 2) * 0)
F.cross_entropy(r(2, 3), i(2) * 0, label_smoothing=2.0)
F.cross_entropy(r(2, 3), i(2) * 0, r(4))
F.nll_loss(r(2, 3), i(3))
F.nll_loss(r(2, 3), torch.tensor([0, -1]))
F.nll_loss(r(2, 3), r(2))
F.nll_loss(torch.tensor(1.0), i(1))
F.nll_loss(r(2, 3), i(2).int() * 0)
F.nll_loss(r(2, 3), i(2) * 0, reduction='x')
F.binary_cross_entropy(r(2), r(3))
F.binary_cross_entropy(r(2) * 5 + 2, r(2))
F.binary_cross_entropy_with_logits(r(2), r(3))
F.binary_cross_entropy(r(2).sigmoid(), r(2), reduction='x')
F.kl_div(r(2), r(3))
F.kl_div(r(2), r(2), reduction='x')
F.hinge_embedding_loss(r(2), r(3))
F.margin_ranking_loss(r(2), r(3), r(2))
F.margin_ranking_loss(r(2, 2), r(2), r(2))
F.soft_margin_loss(r(2), r(3))
F.triplet_margin_loss(r(2, 3), r(2, 3), r(2, 3), margin=-1.0)
F.triplet_margin_loss(r(2, 3), r(3), r(2, 3))
F.cosine_embedding_loss(r(2, 3), r(2, 4), r(2))
F.cosine_embedding_loss(r(2, 3), r(2, 3), r(2, 2))
F.poisson_nll_loss(r(2), r(2), reduction='x')
F.gaussian_nll_loss(r(2, 3), r(2, 3), -r(2, 3) ** 2)
F.gaussian_nll_loss(r(2, 3), r(2, 3), r(4) ** 2)
F.gaussian_nll_loss(r(2), r(2), r(2) ** 2, reduction='x')
F.gaussian_nll_loss(r(2), r(2), -1.0)
"""


def attempt(module, functional, script):
    """How a call fails, None if it does not."""
    names = {
        "torch": module, "F": functional, "r": lambda *shape: module.linspace(-1, 1, math.prod(shape)).reshape(shape),
        "i": lambda *shape: module.arange(math.prod(shape)).reshape(shape),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(script, names)
        except Exception as error:
            return type(error), str(error)
    return None, ""


@pytest.mark.parametrize("script", CALLS.strip().splitlines())
def test_errors(script):
    mine, words = attempt(sg, F, script)
    reference, theirs = attempt(torch, torch.nn.functional, script)
    assert mine is not None or reference is None, f"should be {reference} {theirs}"
    assert mine is reference, f"{mine} {words} should be {reference} {theirs}"
