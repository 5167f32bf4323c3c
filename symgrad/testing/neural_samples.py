"""Samples for the rows under nn.functional that are not elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.ops.table import TABLE

Sample = tuple[tuple[Any, ...], dict[str, Any]]


def _real(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> Any:
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape)


def _windows(kernel: tuple[int, int], *choices: dict[str, Any]) -> list[dict[str, Any]]:
    usual = {"kernel": kernel, "stride": (2, 1), "padding": (0, 0), "ceil_mode": False}
    return [{**usual, **choice} for choice in choices]


PLAIN = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
GROUPED = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}


PICKS = np.array([[0, 2], [2, 4]])


def _convolution() -> list[Sample]:
    x, w, bias = _real(2, 4, 5, 6), _real(6, 4, 3, 2), _real(6)
    return [((x, w, None), PLAIN), ((x, w, bias), PLAIN), ((x, w[:, :2], bias), GROUPED)]


def _convolution_transpose() -> list[Sample]:
    g, w, bias = _real(2, 6, 3, 4), _real(6, 2, 3, 2), _real(4)
    return [((g, w, None), {**PLAIN, "output_shape": (5, 5)}), ((g, w, bias), {**GROUPED, "output_shape": (5, 2)})]


def _convolution_weight() -> list[Sample]:
    x = _real(2, 4, 5, 6)
    return [((x, _real(2, 6, 3, 5)), {**PLAIN, "kernel_shape": (3, 2)}), ((x, _real(2, 6, 3, 8)), {**GROUPED, "kernel_shape": (3, 2)})]


def _max_pool() -> list[Sample]:
    choices: list[dict[str, Any]] = [{}, {"padding": (1, 0)}, {"dilation": (2, 1)}, {"ceil_mode": True, "stride": (3, 4)}]
    x = _real(2, 3, 5, 6)
    return [((x,), {"dilation": (1, 1), **window}) for window in _windows((2, 3), *choices)]


def _averages() -> list[dict[str, Any]]:
    choices = _windows((2, 3), {}, {"padding": (1, 1)}, {"padding": (1, 1), "stride": (3, 4), "ceil_mode": True})
    counts = ({"count_include_pad": True, "divisor_override": None}, {"count_include_pad": False, "divisor_override": None})
    return [{**window, **count} for window in choices for count in (*counts, {"count_include_pad": True, "divisor_override": 5})]


def _avg_pool() -> list[Sample]:
    return [((_real(2, 3, 5, 6),), window) for window in _averages()]


def _avg_unpool() -> list[Sample]:
    sizes = [TABLE["avg_pool"].type(_real(2, 3, 5, 6), **window).shape for window in _averages()]
    return [((_real(*size),), {"input_shape": (5, 6), **window}) for size, window in zip(sizes, _averages(), strict=True)]


def _places() -> Any:
    return np.random.default_rng(0).integers(0, 30, (2, 3, 2, 3))


def _affine_norm() -> list[Sample]:
    x, attrs = _real(3, 4, 5), {"eps": 1e-3, "shape": None, "title": "NativeLayerNormBackward0"}
    return [
        ((x, _real(5), _real(5, seed=1)), {**attrs, "axes": (2,)}),
        ((x, 1, 0), {**attrs, "axes": (1, 2)}),
        ((x, _real(1, 4, 1), _real(1, 4, 1, seed=1)), {**attrs, "axes": (0, 2)}),
        ((x, _real(1, 2, 2, 1), _real(1, 2, 2, 1, seed=1)), {**attrs, "axes": (2, 3), "shape": (3, 2, 2, 5)}),
    ]


def _lookup(first: Any, **more: Any) -> list[Sample]:
    target, weight = np.array([0, 2, 4, 2]), _real(5, low=0.5)
    choices = ((None, {"ignore_index": -100, "reduction": "mean"}), (weight, {"ignore_index": 2, "reduction": "mean"}))
    return [((first, target, w), {"axis": 1, **attrs, **more}) for w, attrs in choices]


def _nll(spread: bool) -> list[Sample]:
    first, more = (np.array(0.7), {"classes": 5}) if spread else (_real(4, 5), {})
    target, full = np.array([[1, 3, 0], [4, 0, 2]]), (_real(2, 3) if spread else _real(2, 5, 3))
    each = [((full, target, _real(5, low=0.5)), {"axis": 1, "ignore_index": 0, "reduction": "none", **more})]
    return _lookup(first, **more) + each


def _losses(weights: int, low: float = -2.0, high: float = 2.0, **attrs: Any) -> Callable[[], list[Sample]]:
    x, y, weight = _real(3, 4, low=low, high=high), _real(3, 4, low=low, high=high, seed=1), _real(3, 4, low=0.5, seed=2)
    filled = [(None,) * weights, *([(weight,) * weights] if weights else [])]
    return lambda: [((x, y, *w), {"reduction": r, **attrs}) for w in filled for r in ("none", "mean", "sum")]


NEURAL: dict[str, Callable[[], list[Sample]]] = {
    "softmax": lambda: [((_real(3, 4),), {"axis": (axis,)}) for axis in (0, 1)],
    "log_softmax": lambda: [((_real(3, 4),), {"axis": (axis,)}) for axis in (0, 1)],
    "glu": lambda: [((_real(4, 6),), {"axis": axis}) for axis in (0, 1)],
    "affine_norm": _affine_norm,
    "convolution": _convolution,
    "convolution_transpose": _convolution_transpose,
    "convolution_weight": _convolution_weight,
    "max_pool": _max_pool,
    "pool_gather": lambda: [((_real(2, 3, 5, 6), _places()), {})],
    "pool_scatter": lambda: [((_real(2, 3, 2, 3), _places()), {"input_shape": (5, 6)})],
    "avg_pool": _avg_pool,
    "avg_unpool": _avg_unpool,
    "adaptive_avg_pool": lambda: [((_real(2, 3, 5, 6),), {"output_size": (2, 4)})],
    "adaptive_avg_unpool": lambda: [((_real(2, 3, 2, 4),), {"input_shape": (5, 6)})],
    "pad": lambda: [((_real(3, 4),), {"widths": ((1, 0), (0, 2)), "value": 1.5})],
    "crop": lambda: [((_real(3, 4),), {"widths": ((1, 0), (0, 2))})],
    "embedding": lambda: [((_real(5, 3), PICKS, scale), {"padding": padding}) for padding in (None, 2) for scale in (None, _real(2, 2))],
    "one_hot": lambda: [((PICKS,), {"classes": 6}), ((PICKS,), {"classes": 2})],
    "nll_loss": lambda: _nll(False),
    "nll_spread": lambda: _nll(True),
    "mse_loss": _losses(0),
    "huber_loss": _losses(0, delta=0.75),
    "smooth_l1_loss": _losses(0, beta=0.75),
    "soft_margin_loss": _losses(0),
    "binary_cross_entropy": _losses(1, 0.1, 0.9),
    "binary_cross_entropy_with_logits": _losses(2),
}
