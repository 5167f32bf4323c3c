"""Interpolation, differences, integrals and convolutions of NumPy: adapters."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import floating, given, option, tensor
from symgrad.interop.table import implements, refuses
from symgrad.tensor import Tensor


@implements(np.interp)
def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    x, nodes, values = floating(x), floating(xp), floating(fp)
    if period is not None:
        x, nodes, values = _periodic(x, nodes, values, abs(period))
        left = right = None
    n = nodes.numel()
    first, last = values[0] if left is None else tensor(left), values[n - 1] if right is None else tensor(right)
    if n > 1:
        i = functional.clamp(functional.searchsorted(nodes, x, right=True) - 1, 0, n - 2)
        width = nodes[i + 1] - nodes[i]
        slope = (values[i + 1] - values[i]) / functional.where(width == 0, 1, width)
        inside = values[i] + slope * (x - nodes[i])
    else:
        inside = values[0] + x * 0
    inside = functional.where(x == nodes[n - 1], values[n - 1], inside)
    return functional.where(x < nodes[0], first, functional.where(x > nodes[n - 1], last, inside))


def _periodic(x: Tensor, nodes: Tensor, values: Tensor, period: Any) -> tuple[Tensor, Tensor, Tensor]:
    """One period, with a node before and behind it."""
    x, nodes = functional.remainder(x, period), functional.remainder(nodes, period)
    order = functional.argsort(nodes)
    nodes, values = nodes[order], values[order]
    around = functional.cat([nodes[-1:] - period, nodes, nodes[:1] + period])
    return x, around, functional.cat([values[-1:], values, values[:1]])


def _part(x: Tensor, axis: int, start: int, stop: int) -> Any:
    """`x[start:stop]` along an axis."""
    n = x.shape[axis]
    start, stop = (i + n if i < 0 else i for i in (start, stop))
    return functional.narrow(x, axis, start, stop - start)


@implements(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = floating(y)
    axis %= y.ndim
    n = y.shape[axis]
    width = dx
    if x is not None:
        nodes = floating(x)
        width = functional.diff(nodes, dim=0 if nodes.ndim == 1 else axis)
        if nodes.ndim == 1:
            width = width.reshape([-1 if i == axis else 1 for i in range(y.ndim)])
    return ((_part(y, axis, 1, n) + _part(y, axis, 0, n - 1)) * width / 2).sum(axis)


@implements(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = np._NoValue, append: Any = np._NoValue) -> Any:
    x = tensor(a)
    ends = [_end(x, end, axis) if given(end) else None for end in (prepend, append)]
    return functional.diff(x, n, axis, *ends)


def _end(x: Tensor, end: Any, axis: int) -> Any:
    t = tensor(end).to(x.dtype)
    return t if t.ndim else t.expand([1 if i == axis % x.ndim else n for i, n in enumerate(x.shape)])


@implements(np.ediff1d)
def _ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    x = tensor(ary).reshape(-1)
    parts = [None if end is None else tensor(end).to(x.dtype).reshape(-1) for end in (to_begin, to_end)]
    parts.insert(1, functional.diff(x))
    return functional.cat([t for t in parts if t is not None])


@implements(np.gradient)
def _gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    y = floating(f)
    axes = list(range(y.ndim)) if axis is None else [a % y.ndim for a in ((axis,) if isinstance(axis, int) else axis)]
    spacings = list(varargs) * (len(axes) if len(varargs) == 1 else 1) if varargs else [1.0] * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    found = [_slope(y, a, h, edge_order) for a, h in zip(axes, spacings, strict=True)]
    return found[0] if len(found) == 1 else tuple(found)


def _slope(y: Tensor, axis: int, spacing: Any, edge_order: int) -> Any:
    """Second-order differences inside, and differences of `edge_order` at the ends."""
    n = y.shape[axis]
    if n < edge_order + 1 or edge_order not in (1, 2):
        raise ValueError("Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required.")
    h = floating(spacing) if np.ndim(spacing) else spacing
    if np.ndim(spacing):
        steps = functional.diff(h).reshape([-1 if i == axis else 1 for i in range(y.ndim)])
        before, behind = _part(steps, axis, 0, n - 2), _part(steps, axis, 1, n - 1)
        ends = [(_part(steps, axis, 0, 1), _part(steps, axis, 1, 2) if n > 2 else None), (_part(steps, axis, -1, n - 1), None)]
        ends[1] = (ends[1][0], _part(steps, axis, n - 3, n - 2) if n > 2 else None)
    else:
        before = behind = h
        ends = [(h, h), (h, h)]
    low, mid, high = (_part(y, axis, i, n - 2 + i) for i in range(3))
    inner = (high - mid) * (before / (behind * (before + behind))) + (mid - low) * (behind / (before * (before + behind)))
    first = _edge([_part(y, axis, i, i + 1) for i in range(edge_order + 1)], *ends[0])
    last = -_edge([_part(y, axis, n - 1 - i, n - i) for i in range(edge_order + 1)], *ends[1])
    return functional.cat([first, inner, last] if n > 2 else [first, last], dim=axis)


def _edge(values: list[Tensor], near: Any, far: Any) -> Any:
    """The slope at the first of two or three values."""
    if len(values) == 2:
        return (values[1] - values[0]) / near
    a, b, c = -(2 * near + far) / (near * (near + far)), (near + far) / (near * far), -near / (far * (near + far))
    return a * values[0] + b * values[1] + c * values[2]


def convolved(a: Tensor, v: Tensor, mode: str) -> Any:
    """Sums of products as one number sequence slides over another."""
    if a.ndim != 1 or v.ndim != 1 or not a.numel() or not v.numel():
        raise ValueError("numpy.convolve on tensors takes two sequences that are not empty")
    if v.numel() > a.numel():
        a, v = v, a
    m = v.numel()
    before, behind = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    a, v = (t.to(functional.add(a[:1], v[:1]).dtype) for t in (a, v))
    wide = functional.cat([a.new_zeros(before), a, a.new_zeros(behind)]) if m > 1 and mode != "valid" else a
    return wide.unfold(0, m, 1) @ functional.flip(v, [0])


@implements(np.convolve)
def _convolve(a: Any, v: Any, mode: str = "full") -> Any:
    return convolved(tensor(a), tensor(v), _mode(mode))


@implements(np.correlate)
def _correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    x, y = tensor(a), functional.conj(tensor(v))
    if y.numel() > x.numel():
        return functional.flip(convolved(y, functional.flip(x, [0]), _mode(mode)), [0])
    return convolved(x, functional.flip(y, [0]), _mode(mode))


def _mode(mode: Any) -> str:
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be one of 'full', 'same' or 'valid', not {mode!r}")
    return str(mode)


@implements(np.unwrap)
def _unwrap(p: Any, discont: Any = None, axis: int = -1, *, period: Any = 2 * np.pi) -> Any:
    x = floating(p)
    axis %= x.ndim
    half = period / 2
    steps = functional.diff(x, dim=axis)
    short = functional.remainder(steps + half, period) - half
    short = functional.where((short == -half) & (steps > 0), half, short)
    turn = functional.where(steps.abs() < (half if discont is None else discont), 0, short - steps)
    n = x.shape[axis]
    return functional.cat([_part(x, axis, 0, 1), _part(x, axis, 1, n) + functional.cumsum(turn, axis)], dim=axis) if n > 1 else x


@implements(np.einsum)
def _einsum(*operands: Any, optimize: Any = False) -> Any:
    if not isinstance(operands[0], str):
        raise option("numpy.einsum", "takes the subscripts as a string, first")
    return functional.einsum(operands[0], *(tensor(x) for x in operands[1:]))


@implements(np.dot)
def _dot(a: Any, b: Any) -> Any:
    x, y = tensor(a), tensor(b)
    if not x.ndim or not y.ndim:
        return x * y
    return functional.tensordot(x, y, dims=([-1], [-2])) if y.ndim > 2 else x @ y


@implements(np.vdot)
def _vdot(a: Any, b: Any, /) -> Any:
    return functional.conj(tensor(a).reshape(-1)) @ tensor(b).reshape(-1)


refuses("the table has no Bessel functions", np.i0)
