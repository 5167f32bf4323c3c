"""What people call: compile(), derive() and spec()."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from symgrad.compiler.compiled import Compiled
from symgrad.compiler.derive import Deriver, Plan
from symgrad.compiler.signature import Spec


def compile(function: Callable[..., Any]) -> Compiled:
    """`function` as XLA kernels: forward, gradients, and the VJP that backward() runs. Traced again for new shapes or dtypes."""
    return Compiled(function)


def spec(shape: int | Iterable[int], dtype: Any = None) -> Spec:
    """A tensor argument of which only shape and dtype are known: enough to derive a formula."""
    return Spec(shape, dtype)


def derive(function: Callable[..., Any], wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Deriver:
    """The closed form of `function` and of its derivatives up to `order` in `wrt` (names or positions): `derive(loss, wrt="w")(x, w)`."""
    return Deriver(function, Plan(wrt, order, notation))
