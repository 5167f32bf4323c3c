"""Loss rows: a function of prediction x and target y, reduced in the same node, as PyTorch keeps them (name and memory)."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def _loss_type(name: str) -> Any:
    def rule(x: Any, y: Any, *, reduction: str, **attrs: Any) -> Meta:
        shape = broadcast_shapes(name, tuple(x.shape), tuple(y.shape))
        return Meta(shape if reduction == "none" else (), x.dtype)

    return rule


def _reduced(kernel: Any) -> Any:
    def reduce(x, y, *, reduction, **attrs):
        value = kernel(x, y, **attrs)
        if reduction == "none":
            return value
        total = np.add.reduce(value, axis=None)
        return total / value.size if reduction == "mean" else total

    return reduce


def _spread(rule: Any) -> Any:
    """The rule of the unreduced loss, with the mean's 1/n on the scalar side."""

    def spread(xp, g, out, x, y, *, reduction, **attrs):
        if reduction == "mean":
            g = g / int(np.prod(np.broadcast_shapes(x.shape, y.shape), dtype=np.int64))
        return rule(xp, g, x, y, **attrs)

    return spread


def loss_row(name: str, attrs: str, kernel: Any, rule_x: Any, rule_y: Any, saves: str | tuple[str, ...], title: str) -> None:
    """`kernel(x, y, **attrs)` is the unreduced loss; `rule(xp, g, x, y, **attrs)` its derivative times g."""
    row(
        name, f"x y / reduction {attrs}", _reduced(kernel), (_spread(rule_x), _spread(rule_y)), saves=saves, policy="float",
        type=_loss_type(name), display=title,
    )  # fmt: skip


def _negated(rule: Any) -> Any:
    """The derivative in y of a function of x - y."""
    return lambda xp, g, x, y, **attrs: -rule(xp, g, x, y, **attrs)


def _square(x, y):
    d = x - y
    d *= d
    return d


def _square_rule(xp, g, x, y):
    return (2 * g) * (x - y)


def _huber(x, y, *, delta):
    d = np.abs(x - y)
    return np.where(d <= delta, d * d * 0.5, delta * (d - 0.5 * delta))


def _huber_rule(xp, g, x, y, *, delta):
    d = x - y
    return g * xp.where(d < -delta, -delta, xp.where(d > delta, delta, d))


def _smooth_l1(x, y, *, beta):
    d = np.abs(x - y)
    return d if beta == 0 else np.where(d < beta, d * d * (0.5 / beta), d - 0.5 * beta)


def _smooth_l1_rule(xp, g, x, y, *, beta):
    d = x - y
    return g * xp.sign(d) if beta == 0 else g * xp.where(d <= -beta, -1, xp.where(d >= beta, 1, d / beta))


loss_row("mse_loss", "", _square, _square_rule, _negated(_square_rule), "x y", "MseLossBackward0")
loss_row("huber_loss", "delta", _huber, _huber_rule, _negated(_huber_rule), "x y", "HuberLossBackward0")
loss_row("smooth_l1_loss", "beta", _smooth_l1, _smooth_l1_rule, _negated(_smooth_l1_rule), "x y", "SmoothL1LossBackward0")


def _entropy(x, y):
    """Logarithms are held above -100, as in PyTorch, so that a certain and wrong prediction costs 100."""
    return -(y * np.maximum(np.log(x), -100) + (1 - y) * np.maximum(np.log1p(-x), -100))


def _entropy_rule(xp, g, x, y):
    return g * (x - y) / xp.clamp_min((1 - x) * x, 1e-12)


def _logits(x, y):
    return (1 - y) * x + np.maximum(-x, 0) + np.log1p(np.exp(-np.abs(x)))


loss_row(
    "binary_cross_entropy", "", _entropy, _entropy_rule, lambda xp, g, x, y: g * (xp.log(1 - x) - xp.log(x)), ("x y", "x"),
    "BinaryCrossEntropyBackward0",
)  # fmt: skip
loss_row(
    "binary_cross_entropy_with_logits", "", _logits, lambda xp, g, x, y: g * (xp.sigmoid(x) - y), lambda xp, g, x, y: -g * x, ("x y", "x"),
    "BinaryCrossEntropyWithLogitsBackward0",
)  # fmt: skip
