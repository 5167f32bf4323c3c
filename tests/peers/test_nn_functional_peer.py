"""nn.functional against PyTorch: values, types, names of nodes, and gradients of first and second order."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.peer

KINKS = np.array([[-7.0, -6.0, -3.0, -1.0, -0.5], [-0.0, 0.0, 0.5, 1.0, 3.0], [6.0, 7.0, 19.9, 20.0, 30.0]])


def real(*shape, low=-2.0, high=2.0, seed=0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape)


def whole(*shape, high, seed=0):
    return np.random.default_rng(seed).integers(0, high, shape)


def flags(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def signs(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 2, shape) * 2.0 - 1


@dataclass
class Case:
    """A call of one function. Float arrays among the arguments are differentiated, unless their place or name is in `fixed`."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fixed: tuple[Any, ...] = ()
    second: bool = True
    node: bool = True
    note: str = ""
    tolerance: float = 2e-10
    """In float64."""

    def __str__(self) -> str:
        said = [f"{k}={'x'.join(map(str, v.shape)) if isinstance(v, np.ndarray) else v}" for k, v in self.kwargs.items()]
        shapes = ["x".join(map(str, a.shape)) if isinstance(a, np.ndarray) else str(a) for a in self.args]
        return f"{self.name}({','.join(shapes + said)}){self.note}"


def case(name, *args, fixed=(), second=True, node=True, note="", tolerance=2e-10, **kwargs):
    return Case(name, args, kwargs, fixed, second, node, note, tolerance)


def activations():
    for x in (real(3, 4), KINKS, np.zeros((0, 3)), np.array(0.3)):
        for name in ("relu", "selu", "silu", "mish", "softsign", "hardswish", "relu6", "logsigmoid", "tanhshrink", "tanh", "sigmoid"):
            yield case(name, x)
        for slope in (0.01, 0.2, 0.0):
            yield case("leaky_relu", x, slope)
        for alpha in (1.0, 1.5):
            yield case("elu", x, alpha=alpha)
            yield case("celu", x, alpha=alpha)
        for approximate in ("none", "tanh"):
            yield case("gelu", x, approximate=approximate)
        yield case("hardsigmoid", x, second=False, tolerance=1e-7)  # PyTorch divides by a 6 in float32
        yield case("softplus", x)
        yield case("softplus", x, beta=2, threshold=6)
        yield case("hardtanh", x)
        yield case("hardtanh", x, -0.5, 3.0)
        yield case("softshrink", x)
        yield case("softshrink", x, 1.0)
        yield case("hardshrink", x)
        yield case("hardshrink", x, 1.0)
        yield case("threshold", x, 0.5, -7.0)
        yield case("rrelu", x, 0.1, 0.4, node=False)
        yield case("prelu", x, np.array([0.2]), second=x is not KINKS)  # at 0 PyTorch's mixed second derivative is not that of its first
    yield case("prelu", real(2, 3, 4), real(3))
    yield case("prelu", KINKS, real(5), second=False)
    for dim in (0, 1, -1):
        yield case("glu", real(4, 6), dim)
    for name in ("softmax", "log_softmax", "softmin"):
        for dim in (0, 1, -1):
            yield case(name, real(3, 4, 5), dim)
        yield case(name, real(5), 0)
        yield case(name, np.array(0.5), 0)
        yield case(name, np.zeros((0, 4)), 1)
        yield case(name, np.array([[0.0, 1e4, -1e4], [-np.inf, 0.0, 1.0]]), 1, second=False)


def layers():
    for x, w, b in (
        (real(3, 4), real(5, 4), real(5)),
        (real(2, 3, 4), real(5, 4), real(5)),
        (real(4), real(5, 4), real(5)),
        (real(0, 4), real(5, 4), real(5)),
    ):
        yield case("linear", x, w, b)
        yield case("linear", x, w, node=x.ndim > 1)
    yield case("linear", real(3, 4), real(4))
    yield case("bilinear", real(3, 4), real(3, 5), real(2, 4, 5), real(2), node=False)
    yield case("embedding", whole(2, 3, high=5), real(5, 4))
    yield case("embedding", whole(2, 3, high=5), real(5, 4), padding_idx=1, node=False)
    yield case("embedding", whole(2, 3, high=5), real(5, 4), padding_idx=-2, node=False)
    yield case("embedding", np.array(3), real(5, 4))
    yield case("embedding", np.zeros((0,), np.int64), real(5, 4))
    yield case("one_hot", whole(2, 3, high=5))
    yield case("one_hot", whole(2, 3, high=5), 7)
    for widths in ((1, 2), (1, 2, 0, 3), (-1, 2), (-1, -1, 1, 0), (0, 0)):
        yield case("pad", real(2, 3, 4), widths)
        yield case("pad", real(2, 3, 4), widths, "constant", 1.5)
    for mode in ("reflect", "replicate", "circular"):
        yield case("pad", real(2, 3, 4), (1, 2), mode, node=False)
        yield case("pad", real(2, 3, 4, 5), (1, 2, 2, 0), mode, node=False)
        yield case("pad", real(3, 4), (2, 1), mode, node=False)
    yield case("normalize", real(3, 4))
    yield case("normalize", real(3, 4), p=1.0, dim=0)
    yield case("normalize", real(3, 4, 2), dim=(0, 2))
    yield case("normalize", np.zeros((2, 3)), second=False)
    for eps in (1e-8, 2.0):
        yield case("cosine_similarity", real(3, 4), real(3, 4, seed=1), eps=eps, node=False)
    yield case("cosine_similarity", real(3, 4), real(1, 4, seed=1), dim=-1, node=False)
    yield case("cosine_similarity", real(4), real(4, seed=1), dim=0, node=False)
    yield case("pairwise_distance", real(3, 4), real(3, 4, seed=1), node=False)
    yield case("pairwise_distance", real(3, 4), real(3, 4, seed=1), p=1.0, node=False)
    yield case("pairwise_distance", real(3, 4), real(4, seed=1), p=3.0, keepdim=True, node=False)
    yield case("pairwise_distance", real(4), real(4, seed=1), eps=0.1, node=False)


def attention():
    q, k, v = real(2, 3, 4, 5), real(2, 3, 6, 5, seed=1), real(2, 3, 6, 2, seed=2)
    yield case("scaled_dot_product_attention", q, k, v, node=False)
    yield case("scaled_dot_product_attention", q, k, v, scale=0.3, node=False)
    yield case("scaled_dot_product_attention", q, k, v, is_causal=True, node=False)
    yield case("scaled_dot_product_attention", q, k, v, attn_mask=real(4, 6), node=False)
    mask = flags(4, 6)
    mask[:, 0] = True
    yield case("scaled_dot_product_attention", q, k, v, attn_mask=mask, node=False)
    mask = mask.copy()
    mask[1] = False
    yield case("scaled_dot_product_attention", q, k, v, attn_mask=mask, node=False, second=False, note="a row of nothing")
    yield case("scaled_dot_product_attention", real(4, 5), real(6, 5), real(6, 2), node=False)
    yield case(
        "scaled_dot_product_attention",
        real(2, 4, 4, 5),
        real(2, 2, 6, 5, seed=1),
        real(2, 2, 6, 5, seed=2),
        enable_gqa=True,
        node=False,
        second=False,
    )


def norms():
    for shape in ((3, 4), (2, 3, 4)):
        n = shape[-1]
        for eps in (1e-5, 0.1):
            yield case("layer_norm", real(*shape), (n,), real(n), real(n, seed=1), eps)
        yield case("layer_norm", real(*shape), (n,))
        yield case("layer_norm", real(*shape), (n,), real(n))
        yield case("layer_norm", real(*shape), shape[-2:], real(*shape[-2:]), real(*shape[-2:], seed=1))
        yield case("rms_norm", real(*shape), (n,), node=False)
        yield case("rms_norm", real(*shape), (n,), real(n), node=False)
        yield case("rms_norm", real(*shape), shape[-2:], real(*shape[-2:]), 0.1, node=False)
    yield case("layer_norm", real(0, 4), (4,), real(4), real(4))
    for shape in ((6, 3), (4, 3, 5), (4, 3, 5, 2)):
        yield case("batch_norm", real(*shape), None, None, training=True)
        yield case("batch_norm", real(*shape), None, None, real(3), real(3, seed=1), True, 0.1, 1e-2)
        yield case("batch_norm", real(*shape), real(3), real(3, low=0.5, seed=3), real(3), real(3, seed=1), True, 0.3, fixed=(1, 2))
        yield case("batch_norm", real(*shape), real(3), real(3, low=0.5, seed=3), real(3), real(3, seed=1), fixed=(1, 2))
        yield case("batch_norm", real(*shape), real(3), real(3, low=0.5, seed=3), fixed=(1, 2))
        yield case("group_norm", real(4, 6, *shape[2:]), 3, real(6), real(6, seed=1))
        yield case("group_norm", real(4, 6, *shape[2:]), 2)
    for shape in ((4, 3, 5), (4, 3, 5, 2)):
        yield case("instance_norm", real(*shape), node=False)
        yield case("instance_norm", real(*shape), None, None, real(3), real(3, seed=1), node=False)
        yield case("instance_norm", real(*shape), real(3), real(3, low=0.5), real(3), real(3, seed=1), True, 0.3, fixed=(1, 2), node=False)
        yield case("instance_norm", real(*shape), real(3), real(3, low=0.5), real(3), real(3, seed=1), False, fixed=(1, 2), node=False)


def convolutions():
    for n, size in ((1, (8,)), (2, (6, 7))):
        name, kernel = f"conv{n}d", (3, 2)[:n]
        x, w, b = real(2, 4, *size), real(6, 4, *kernel), real(6)
        yield case(name, x, w, b)
        yield case(name, x, w)
        yield case(name, x, w, b, stride=2, padding=1)
        yield case(name, x, w, b, padding=(2,) * n, dilation=2)
        yield case(name, x, real(6, 2, *kernel), b, groups=2)
        yield case(name, x, real(4, 1, *kernel), real(4), 2, 1, 1, 4)
        yield case(name, x, w, b, padding="same", node=False)
        yield case(name, x, w, b, padding="same", dilation=2, node=False)
        yield case(name, x, w, b, padding="valid")
        yield case(name, x[0], w, b, node=False)
        yield case(name, x[:0], w, b)
        yield case(name, x, real(6, 4, *(1,) * n), b)
        yield case(f"conv_transpose{n}d", x, real(4, 3, *kernel), real(3))
        yield case(f"conv_transpose{n}d", x, real(4, 3, *kernel), real(3), 2, 1, 1)
        yield case(f"conv_transpose{n}d", x, real(4, 3, *kernel), None, 1, 0, 0, 2, 2)
        yield case(f"conv_transpose{n}d", x[0], real(4, 3, *kernel), real(3), node=False)
        yield case("max_pool1d" if n == 1 else "max_pool2d", x, 2, node=n == 2)
        for options in (
            {"stride": 1},
            {"padding": 1},
            {"stride": 2, "ceil_mode": True},
            {"dilation": 2},
            {"padding": 1, "stride": 3, "ceil_mode": True},
        ):
            yield case(f"max_pool{n}d", x, 3, **options, node=n == 2)
            yield case(f"max_pool{n}d", x, 3, **options, return_indices=True, node=n == 2)
            if "dilation" not in options:
                yield case(f"avg_pool{n}d", x, 3, **options, node=n == 2)
                yield case(f"avg_pool{n}d", x, 3, **options, count_include_pad=False, node=n == 2)
        yield case(f"max_pool{n}d", x[0], 2, node=False)
        yield case(f"max_pool{n}d", np.round(x), 3, 1, node=n == 2, note="ties")
        yield case(f"avg_pool{n}d", x[0], 2, node=False)
        yield case(f"max_pool{n}d", x[:0], 2, node=n == 2)
        yield case(f"avg_pool{n}d", x[:0], 2, node=n == 2)
        for sizes in (1, 3, (4, 3)[:n], 5):
            yield case(f"adaptive_avg_pool{n}d", x, sizes, node=n == 2 and sizes != 1)
        yield case(f"adaptive_avg_pool{n}d", x[0], 2, node=False)
    yield case("avg_pool2d", x, 2, divisor_override=3)
    yield case("avg_pool2d", x, (2, 3), (1, 2), (1, 0))
    yield case("adaptive_avg_pool2d", x, (None, 3))


REDUCTIONS = ("none", "mean", "sum")


def losses():
    x, y, w = real(3, 4), real(3, 4, seed=1), real(3, 4, low=0.2, seed=2)
    p, q = real(3, 4, low=0.05, high=0.95), real(3, 4, low=0.05, high=0.95, seed=1)
    grid = np.array([[-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]])
    for r in REDUCTIONS:
        yield case("mse_loss", x, y, reduction=r)
        yield case("mse_loss", x, y, reduction=r, weight=w, fixed=("weight",), node=False)
        yield case("l1_loss", x, y, reduction=r)
        yield case("l1_loss", grid, 0 * grid, reduction=r)
        for beta in (1.0, 0.5, 0.0):
            yield case("smooth_l1_loss", x, y, reduction=r, beta=beta)
            yield case("smooth_l1_loss", grid, 0 * grid, reduction=r, beta=beta, second=False)
        for delta in (1.0, 0.5):
            yield case("huber_loss", x, y, reduction=r, delta=delta)
            yield case("huber_loss", grid, 0 * grid, reduction=r, delta=delta, second=False)
        yield case("huber_loss", x, y, reduction=r, weight=w, fixed=("weight",), node=False)
        yield case("binary_cross_entropy", p, q, reduction=r)
        yield case("binary_cross_entropy", p, q, w, reduction=r, fixed=(2,))
        yield case(
            "binary_cross_entropy",
            np.array([0.0, 1.0, 0.0, 1.0, 0.5]),
            np.array([0.0, 1.0, 1.0, 0.0, 0.5]),
            reduction=r,
            fixed=(1,),
            second=False,
        )
        yield case("binary_cross_entropy_with_logits", x, q, reduction=r)
        yield case("binary_cross_entropy_with_logits", 100 * x, q, reduction=r)
        yield case("binary_cross_entropy_with_logits", x, q, w, reduction=r, fixed=(2,))
        yield case("binary_cross_entropy_with_logits", x, q, reduction=r, pos_weight=real(4, low=0.5), fixed=("pos_weight",))
        yield case("binary_cross_entropy_with_logits", x, q, w, reduction=r, pos_weight=real(4, low=0.5), fixed=(2, "pos_weight"))
        yield case("hinge_embedding_loss", x, signs(3, 4), reduction=r, fixed=(1,))
        yield case("hinge_embedding_loss", grid, np.ones_like(grid), 0.5, reduction=r, fixed=(1,), second=False)
        yield case("hinge_embedding_loss", grid, -np.ones_like(grid), 0.5, reduction=r, fixed=(1,), second=False)
        yield case("margin_ranking_loss", real(5), real(5, seed=1), signs(5), 0.3, reduction=r, fixed=(2,))
        yield case("soft_margin_loss", x, signs(3, 4), reduction=r, fixed=(1,))
        yield case("triplet_margin_loss", x, y, real(3, 4, seed=5), reduction=r)
        yield case("triplet_margin_loss", x, y, real(3, 4, seed=5), 2.0, 3, reduction=r, swap=True)
        yield case("cosine_embedding_loss", x, y, signs(3), 0.1, reduction=r, fixed=(2,))
        yield case("cosine_embedding_loss", real(4), real(4, seed=1), np.array(-1.0), reduction=r, fixed=(2,))
        for options in ({}, {"log_input": False}, {"full": True}):
            yield case("poisson_nll_loss", real(3, 4, low=0.1), real(3, 4, low=0.1, high=4.0), reduction=r, **options)
        for full in (False, True):
            yield case("gaussian_nll_loss", x, y, real(3, 4, low=0.1), full, reduction=r)
            yield case("gaussian_nll_loss", x, y, real(3, low=0.1), full, reduction=r)
            yield case("gaussian_nll_loss", x, y, real(3, 1, low=-0.0, high=0.5), full, 0.2, reduction=r)
        yield case("gaussian_nll_loss", x, y, 0.7, reduction=r)
        yield case("kl_div", np.log(p), q, reduction=r)
        yield case("kl_div", np.log(p), np.log(q), reduction=r, log_target=True)
        yield case("kl_div", np.log(p), np.where(q > 0.5, q, 0.0), reduction=r, fixed=(1,), note="zeros")
        yield from class_losses(r)
    yield case("kl_div", np.log(p), q, reduction="batchmean")
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits"):
        for r in REDUCTIONS:
            yield case(name, np.zeros((0, 3)), np.zeros((0, 3)), reduction=r, note="empty")
    yield case("mse_loss", np.array(0.5), np.array(2.0))


def class_losses(r):
    for shape, target in (((4, 5), (4,)), ((2, 5, 3), (2, 3)), ((2, 5, 3, 2), (2, 3, 2)), ((5,), ())):
        x, t, w = real(*shape), whole(*target, high=5), real(5, low=0.2, seed=4)
        holes = np.where(whole(*target, high=3, seed=9) == 0, -100, t)
        for name in ("nll_loss", "cross_entropy"):
            node = len(shape) in (1, 2, 4)
            yield case(name, x, t, reduction=r, node=node)
            yield case(name, x, t, w, reduction=r, fixed=(2,), node=node)
            yield case(name, x, holes, w, reduction=r, fixed=(2,), node=node)
            yield case(name, x, np.where(t == 1, 2, t), reduction=r, ignore_index=2, node=node)
        yield case("cross_entropy", x, t, reduction=r, label_smoothing=0.1, node=False)
        yield case("cross_entropy", x, holes, w, reduction=r, label_smoothing=0.3, fixed=(2,), node=False)
        soft = np.exp(real(*shape, seed=6))
        soft /= soft.sum(1 if len(shape) > 1 else 0, keepdims=True)
        yield case("cross_entropy", x, soft, reduction=r, node=False)
        yield case("cross_entropy", x, soft, w, reduction=r, label_smoothing=0.2, fixed=(2,), node=False)
    yield case("nll_loss", real(0, 5), np.zeros((0,), np.int64), reduction=r, second=False)
    yield case("cross_entropy", real(3, 5), np.full((3,), -100), reduction=r, second=False, note="nothing counts")


CASES = [*activations(), *layers(), *attention(), *norms(), *convolutions(), *losses()]


def ours(array, dtype, grad):
    t = sg.tensor(array.astype(dtype) if array.dtype.kind == "f" else array)
    return t.requires_grad_() if grad else t


def theirs(array, dtype, grad):
    t = torch.tensor(array.astype(dtype) if array.dtype.kind == "f" else array)
    return t.requires_grad_() if grad else t


def tensors(c, make, dtype, module):
    """The arguments as tensors, and those of them that are differentiated."""
    leaves = []

    def convert(place, value):
        if not isinstance(value, np.ndarray):
            return value
        t = make(value, dtype, value.dtype.kind == "f" and place not in c.fixed)
        if t.requires_grad:
            leaves.append(t)
        return t

    args = [convert(i, a) for i, a in enumerate(c.args)]
    return args, {k: convert(k, v) for k, v in c.kwargs.items()}, leaves


def run(c, module, functional, make, dtype):
    args, kwargs, leaves = tensors(c, make, dtype, module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = getattr(functional, c.name)(*args, **kwargs)
    outs = out if isinstance(out, tuple) else (out,)
    result = {"values": outs, "after": [a for a in args if isinstance(a, (sg.Tensor, torch.Tensor))]}
    if not leaves:
        return result
    seed = make(np.random.default_rng(3).normal(size=tuple(outs[0].shape)), dtype, False)
    grads = module.autograd.grad(outs[0], leaves, seed, create_graph=c.second, allow_unused=True)
    result["node"] = outs[0].grad_fn.name()
    result["grads"] = grads
    if c.second:
        penalty = sum((g * g).sum() for g in grads if g is not None)
        if penalty.requires_grad:
            result["second"] = module.autograd.grad(penalty, leaves, allow_unused=True, materialize_grads=True)
        else:
            result["second"] = [t * 0 for t in leaves]
    return result


def close(mine, reference, tolerance, what):
    assert (mine is None) == (reference is None), what
    if mine is None:
        return
    assert tuple(mine.shape) == tuple(reference.shape), what
    assert str(mine.dtype).removeprefix("symgrad.") == str(reference.dtype), what
    wanted = reference.detach().numpy(force=True)
    scale = 1 + float(np.abs(np.where(np.isfinite(wanted), wanted, 0)).max(initial=0))
    np.testing.assert_allclose(mine.detach().numpy(), wanted, rtol=tolerance, atol=tolerance * scale, err_msg=what)


@pytest.mark.parametrize("c", CASES, ids=str)
def test_equal(c):
    for dtype in ("float64", "float32"):
        mine, reference = run(c, sg, F, ours, dtype), run(c, torch, torch.nn.functional, theirs, dtype)
        for what in ("values", "after", "grads", "second"):
            for a, b in zip(mine.get(what, ()), reference.get(what, ()), strict=True):
                close(a, b, c.tolerance if dtype == "float64" else 2e-4, f"{c} {dtype} {what}")
        if c.node:
            assert mine.get("node") == reference.get("node"), f"{mine.get('node')} should be {reference.get('node')}"


def test_every_function_of_the_list_is_compared():
    listed = (
        "relu leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish relu6 logsigmoid"
        " tanhshrink softshrink hardshrink threshold prelu glu softmax log_softmax softmin linear conv1d conv2d max_pool1d max_pool2d"
        " avg_pool1d avg_pool2d adaptive_avg_pool2d batch_norm layer_norm group_norm instance_norm rms_norm embedding pad normalize one_hot"
        " cosine_similarity pairwise_distance scaled_dot_product_attention mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy"
        " nll_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div hinge_embedding_loss margin_ranking_loss soft_margin_loss"
        " triplet_margin_loss poisson_nll_loss gaussian_nll_loss cosine_embedding_loss"
    )
    assert set(listed.split()) <= {c.name for c in CASES}
