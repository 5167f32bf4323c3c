"""Polynomials of NumPy, highest power first: adapters. How many leading zeros there are is a guard, as NumPy leaves them out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional, linalg
from symgrad.interop.numpy_calculus import convolved
from symgrad.interop.numpy_grids import _vander
from symgrad.interop.numpy_linalg import _are_real, _lstsq
from symgrad.interop.operands import constant, floating, tensor
from symgrad.interop.table import implements
from symgrad.tensor import Tensor


def _coefficients(p: Any) -> Tensor:
    x = tensor(p)
    if x.ndim > 1:
        raise ValueError("a polynomial is one sequence of coefficients")
    return x if x.ndim else x.reshape(1)


def _shortened(p: Any) -> Tensor:
    """Without leading zeros."""
    x = _coefficients(p)
    there = (x != 0).long()
    return x[int(there.argmax()) :] if bool((there > 0).any()) else x[-1:]


@implements(np.polyval)
def _polyval(p: Any, x: Any) -> Any:
    x = tensor(x)
    result = x * 0
    for c in tensor(p):
        result = result * x + c
    return result


def _sum(sign: int) -> Callable[..., Any]:
    def adapter(a1: Any, a2: Any) -> Any:
        x, y = _coefficients(a1), _coefficients(a2)
        n = max(x.numel(), y.numel())
        x, y = (functional.cat([t.new_zeros(n - t.numel()), t]) if t.numel() < n else t for t in (x, y))
        return x + y if sign > 0 else x - y

    return adapter


implements(np.polyadd)(_sum(1))
implements(np.polysub)(_sum(-1))


@implements(np.polymul)
def _polymul(a1: Any, a2: Any) -> Any:
    return convolved(_shortened(a1), _shortened(a2), "full")


@implements(np.polyder)
def _polyder(p: Any, m: int = 1) -> Any:
    x = _coefficients(p)
    for _ in range(m):
        n = x.numel() - 1
        x = x[:-1] * constant(np.arange(n, 0, -1), x)
    return x


@implements(np.polyint)
def _polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    x = floating(_coefficients(p))
    constants = [0.0] * m if k is None else [k] * m if np.ndim(k) == 0 else list(k) * (m if len(k) == 1 else 1)
    for c in constants:
        x = functional.cat([x / constant(np.arange(x.numel(), 0, -1), x), tensor(c).to(x.dtype).reshape(1)])
    return x


@implements(np.polydiv)
def _polydiv(u: Any, v: Any) -> Any:
    """Long division; as in NumPy the remainder loses leading numbers that are nearly 0, which is a guard."""
    rest, divisor = floating(_coefficients(u)), floating(_coefficients(v))
    n, found = divisor.numel(), []
    steps = max(rest.numel() - n + 1, 1)
    if rest.numel() < n:
        found, steps = [rest[:1] * 0], 0
    for k in range(steps):
        factor = rest[k : k + 1] / divisor[:1]
        found.append(factor)
        rest = functional.cat([rest[:k], rest[k : k + n] - factor * divisor, rest[k + n :]])
    while rest.numel() > 1 and bool(rest[0].abs() <= 1e-8):
        rest = rest[1:]
    return functional.cat(found), rest


@implements(np.poly)
def _poly(seq_of_zeros: Any) -> Any:
    x = floating(seq_of_zeros)
    zeros = linalg.eigvals(x) if x.ndim == 2 else x
    result = zeros[:1] * 0 + 1
    for i in range(zeros.numel()):
        result = convolved(result, functional.cat([zeros[:1] * 0 + 1, -zeros[i : i + 1]]), "full")
    return result.real if x.ndim == 2 and not x.is_complex() else result


@implements(np.roots)
def _roots(p: Any) -> Any:
    """Eigenvalues of the companion matrix; zeros at the end are roots at 0."""
    x = _shortened(floating(p))
    there = (x != 0).long()
    zeros = int(functional.flip(there, [0]).argmax())
    x = x[: x.numel() - zeros]
    n = x.numel() - 1
    if n < 1:
        return x.new_zeros(zeros)
    below = constant(np.eye(n - 1, n), x)
    companion = functional.cat([(-x[1:] / x[0]).unsqueeze(0), below])
    found = linalg.eigvals(companion)
    found = found.real if _are_real(companion, found) else found
    return functional.cat([found, found.new_zeros(zeros)]) if zeros else found


@implements(np.polyfit)
def _polyfit(x: Any, y: Any, deg: int, rcond: Any = None, w: Any = None) -> Any:
    nodes, values = floating(x), floating(y)
    left = _vander(nodes, deg + 1)
    right = values
    if w is not None:
        weights = floating(w)
        left, right = left * weights.unsqueeze(1), right * (weights.unsqueeze(1) if right.ndim == 2 else weights)
    scale = left.square().sum(0).sqrt()
    found = _lstsq(left / scale, right, nodes.numel() * np.finfo(nodes._array.dtype).eps if rcond is None else rcond)[0]
    return (found.transpose(0, 1) / scale).transpose(0, 1) if found.ndim == 2 else found / scale
