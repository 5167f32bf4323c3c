"""Loss rows: a function of prediction x and target y, reduced in the same node, as PyTorch keeps them (name and memory)."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.kernels.select import select
from symgrad.ops.promotion import compute_type
from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import row

TINY = float(np.float32(1e-12))  # PyTorch's guard against dividing by zero, which it keeps as a float32


def _loss_type(name: str) -> Any:
    def rule(x: Any, y: Any, *weights: Any, reduction: str, **attrs: Any) -> Meta:
        shape = broadcast_shapes(name, *(tuple(t.shape) for t in (x, y, *weights) if t is not None))
        return Meta(shape if reduction == "none" else (), compute_type("promote", (x, y)))

    return rule


def _reduced(kernel: Any) -> Any:
    def reduce(x, y, *weights, reduction, **attrs):
        value = kernel(x, y, *weights, **attrs)
        if reduction == "none":
            return value
        total = np.add.reduce(value, axis=None)
        return np.divide(total, value.size) if reduction == "mean" else total

    return reduce


def _spread(rule: Any) -> Any:
    """The rule of the unreduced loss, with the mean's 1/n on the scalar side."""

    def spread(xp, g, out, x, y, *weights, reduction, **attrs):
        if reduction == "mean":
            g = g / int(np.prod(np.broadcast_shapes(x.shape, y.shape), dtype=np.int64))
        return rule(xp, g, x, y, *weights, **attrs)

    return spread


def composed(meaning: Any) -> Any:
    """The column `compose`, given the unreduced loss as `meaning(xp, x, y, **attrs)`."""

    def compose(xp, x, y, *weights, reduction, **attrs):
        value = meaning(xp, x, y, *weights, **attrs)
        if reduction == "none":
            return value
        fold = xp.mean if reduction == "mean" else xp.sum
        return fold(value, axis=tuple(range(len(value.shape))), keepdims=False)

    return compose


def loss_row(name: str, args: str, kernel: Any, rules: tuple[Any, ...], saves: str | tuple[str, ...], jax: Any, **columns: Any) -> None:
    """`kernel(x, y, **attrs)` is the unreduced loss, `rule(xp, g, x, y, **attrs)` its derivative times g, `jax` its text."""
    around = {"none": "{}", "mean": "jnp.mean({})", "sum": "jnp.sum({})"}
    data, _, attrs = args.partition("/")
    row(
        name, f"{data} / reduction {attrs}", _reduced(kernel), tuple(rule and _spread(rule) for rule in rules), saves=saves,
        type=_loss_type(name), jax=lambda *texts, reduction, **more: around[reduction].format(jax(*texts, **more)), kinds="f", **columns,
    )  # fmt: skip


def difference_row(name: str, attrs: str, kernel: Any, rule: Any, jax: Any, **columns: Any) -> None:
    """A loss of x - y: its derivative in y is that in x, negated."""
    negated = lambda xp, g, x, y, **attrs: -rule(xp, g, x, y, **attrs)
    loss_row(name, f"x y / {attrs}", kernel, (rule, negated), "x y", jax, **columns)


def _square(x, y):
    d = x - y
    return np.multiply(d, d, out=d) if d.__class__ is np.ndarray else d * d


def _square_rule(xp, g, x, y):
    return (2 * g) * (x - y)


def _huber(x, y, *, delta):
    d = np.abs(x - y)
    return select(d <= delta, d * d * 0.5, (d - 0.5 * delta) * delta)


def _huber_rule(xp, g, x, y, *, delta):
    d = x - y
    return g * xp.where(d < -delta, -delta, xp.where(d > delta, delta, d))


def _huber_text(x: str, y: str, *, delta: float) -> str:
    d = f"jnp.abs({x} - {y})"
    return f"jnp.where({d} <= {delta!r}, {d} * {d} * 0.5, {delta!r} * ({d} - {0.5 * delta!r}))"


def _smooth_l1(x, y, *, beta):
    d = np.abs(x - y)
    return select(d < beta, d * d * (0.5 / beta), d - 0.5 * beta)


def _smooth_l1_rule(xp, g, x, y, *, beta):
    d = x - y
    return g * xp.where(d <= -beta, -1, xp.where(d >= beta, 1, d / beta))


def _smooth_l1_text(x: str, y: str, *, beta: float) -> str:
    d = f"jnp.abs({x} - {y})"
    return f"jnp.where({d} < {beta!r}, {d} * {d} * {0.5 / beta!r}, {d} - {0.5 * beta!r})"


def _huber_meaning(xp, x, y, *, delta):
    d = xp.abs(x - y)
    return xp.where(d <= delta, d * d / 2, (d - delta / 2) * delta)


def _smooth_l1_meaning(xp, x, y, *, beta):
    d = xp.abs(x - y)
    return xp.where(d < beta, d * d / (2 * beta), d - beta / 2)


difference_row(
    "mse_loss", "", _square, _square_rule, lambda x, y: f"jnp.square({x} - {y})",
    compose=composed(lambda xp, x, y: xp.power(x - y, exponent=2)),
)  # fmt: skip
difference_row("huber_loss", "delta", _huber, _huber_rule, _huber_text, compose=composed(_huber_meaning))
difference_row(
    "smooth_l1_loss", "beta", _smooth_l1, _smooth_l1_rule, _smooth_l1_text, display="SmoothL1LossBackward0",
    compose=composed(_smooth_l1_meaning),
)  # fmt: skip


def _softplus(x):
    e = np.exp(-np.abs(x))
    return np.maximum(x, 0) + np.log1p(e)


def _soft_margin_rule(of: int) -> Any:
    def rule(xp, g, x, y):
        other = y if of == 0 else x
        return -g * other * xp.sigmoid(-x * y)

    return rule


loss_row(
    "soft_margin_loss", "x y", lambda x, y: _softplus(-x * y), (_soft_margin_rule(0), _soft_margin_rule(1)), "x y",
    lambda x, y: f"jax.nn.softplus(-{x} * {y})", compose=composed(lambda xp, x, y: -xp.log_sigmoid(x * y)),
)  # fmt: skip


# The entropies take a weight for each element, or None; it is not differentiated, as in PyTorch.


def _weighted(value, weight):
    return value if weight is None else value * weight


def _entropy(x, y, weight):
    """Logarithms are held above -100, as in PyTorch, so that a certain and wrong prediction costs 100."""
    return _weighted((y - 1) * np.maximum(np.log1p(-x), -100) - y * np.maximum(np.log(x), -100), weight)


def _entropy_text(x: str, y: str, weight: str | None) -> str:
    value = f"(({y} - 1) * jnp.maximum(jnp.log1p(-{x}), -100) - {y} * jnp.maximum(jnp.log({x}), -100))"
    return value if weight is None else f"{value} * {weight}"


def _entropy_x(xp, g, x, y, weight):
    return _weighted(g, weight) * (x - y) / xp.clamp_min((1 - x) * x, TINY)


def _entropy_y(xp, g, x, y, weight):
    return _weighted(g, weight) * (xp.log(1 - x) - xp.log(x))


def _entropy_meaning(xp, x, y, weight):
    value = (y - 1) * xp.clamp_min(xp.log1p(-x), -100) - y * xp.clamp_min(xp.log(x), -100)
    return _weighted(value, weight)


loss_row(
    "binary_cross_entropy", "x y weight", _entropy, (_entropy_x, _entropy_y, None), ("x y weight", "x weight", ""), _entropy_text,
    compose=composed(_entropy_meaning),
)  # fmt: skip


# With logits there is also `pos`, a weight of the positive class: (1 - y) x + (1 + (pos - 1) y) softplus(-x).


def _logits(x, y, weight, pos):
    tail = _softplus(-x)
    if pos is not None:
        tail *= (pos - 1) * y + 1
    return _weighted((1 - y) * x + tail, weight)


def _logits_x(xp, g, x, y, weight, pos):
    if pos is None:
        return _weighted(g, weight) * (xp.sigmoid(x) - y)
    positive = pos * y
    return _weighted(g, weight) * ((positive + 1 - y) * xp.sigmoid(x) - positive)


def _logits_y(xp, g, x, y, weight, pos):
    slope = -x if pos is None else (1 - pos) * xp.log_sigmoid(x) - x
    return _weighted(g, weight) * slope


def _logits_text(x: str, y: str, weight: str | None, pos: str | None) -> str:
    tail = f"jax.nn.softplus(-{x})" if pos is None else f"(1 + ({pos} - 1) * {y}) * jax.nn.softplus(-{x})"
    value = f"((1 - {y}) * {x} + {tail})"
    return value if weight is None else f"{value} * {weight}"


def _logits_meaning(xp, x, y, weight, pos):
    tail = -xp.log_sigmoid(x)
    value = (1 - y) * x + (tail if pos is None else ((pos - 1) * y + 1) * tail)
    return _weighted(value, weight)


loss_row(
    "binary_cross_entropy_with_logits", "x y weight pos", _logits, (_logits_x, _logits_y, None, None),
    ("x y weight pos", "x weight pos", "", ""), _logits_text, compose=composed(_logits_meaning),
)  # fmt: skip
