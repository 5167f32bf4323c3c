"""Taylor coefficients in JAX by the recurrences of the textbooks, written by hand for each function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

Series = list[Any]
"""The coefficients of one value; a number where they are the same at all points."""


def line(x: Any, n: int) -> Series:
    return [x, 1.0, *[0.0] * (n - 1)]


def square(x: Any, n: int, factor: float) -> Series:
    return [factor * x * x, 2 * factor * x, factor, *[0.0] * (n - 2)]


def product(a: Series, b: Series) -> Series:
    return [sum(a[j] * b[k - j] for j in range(k + 1)) for k in range(len(a))]


def plus_one(a: Series) -> Series:
    return [1 + a[0], *a[1:]]


def _weighted(u: Series, y: Series, k: int) -> Any:
    return sum(j / k * u[j] * y[k - j] for j in range(1, k + 1))


def exp(u: Series) -> Series:
    y = [jnp.exp(u[0])]
    for k in range(1, len(u)):
        y.append(_weighted(u, y, k))
    return y


def sin(u: Series) -> Series:
    s, c = [jnp.sin(u[0])], [jnp.cos(u[0])]
    for k in range(1, len(u)):
        s, c = [*s, _weighted(u, c, k)], [*c, -_weighted(u, s, k)]
    return s


def tanh(u: Series) -> Series:
    y, slope = [jnp.tanh(u[0])], list[Any]()
    for k in range(1, len(u)):
        slope.append((k == 1) - sum(y[j] * y[k - 1 - j] for j in range(k)))
        y.append(_weighted(u, slope, k))
    return y


def reciprocal(u: Series) -> Series:
    y = [1 / u[0]]
    for k in range(1, len(u)):
        y.append(-sum(u[j] * y[k - j] for j in range(1, k + 1)) * y[0])
    return y


def log(u: Series) -> Series:
    y, inverse = [jnp.log(u[0])], 1 / u[0]
    for k in range(1, len(u)):
        y.append((u[k] - sum(j / k * y[j] * u[k - j] for j in range(1, k))) * inverse)
    return y


BY_RECURRENCE: dict[str, Callable[[Any, int], Series]] = {
    "exp(sin x) tanh x": lambda x, n: product(exp(sin(line(x, n))), tanh(line(x, n))),
    "1 / (1 + x²)": lambda x, n: reciprocal(plus_one(square(x, n, 1.0))),
    "exp(-x²/2)": lambda x, n: exp(square(x, n, -0.5)),
    "log(1 + exp(sin² x))": lambda x, n: log(plus_one(exp(product(sin(line(x, n)), sin(line(x, n)))))),
}
"""The coefficients 0 to n of each function of the benchmark at points x."""
