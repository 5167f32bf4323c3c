"""Order statistics, covariances and histograms of NumPy: adapters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad import functional
from symgrad.interop.operands import constant, floating, inexact, lines, option, tensor
from symgrad.interop.table import implements, refuses
from symgrad.tensor import Tensor

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantiles(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: Any, weights: Any) -> Any:
    """Quantiles along any axes; those of `q` stand in front."""
    if method not in _METHODS or weights is not None:
        raise option(f"numpy.{name}", f"takes the methods {', '.join(_METHODS)}, and no weights")
    x = floating(a)
    row, kept = lines(x, axis)
    levels = tensor(q).to(row.dtype)
    find = functional.nanquantile if name.startswith("nan") else functional.quantile
    found = find(row, levels.reshape(-1), -1, interpolation=method)
    shape = kept if keepdims is True else tuple(found.shape[1:])
    return found.reshape(*levels.shape, *shape)


def _quantile(name: str, parts: float) -> Callable[..., Any]:
    def adapter(
        a: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: Any = False, *, weights: Any = None
    ) -> Any:
        levels = tensor(q).to(floating(a).dtype) / parts if parts != 1 else q
        return _quantiles(name, a, levels, axis, method, keepdims, weights)

    return adapter


for _name, _parts in {"quantile": 1, "nanquantile": 1, "percentile": 100, "nanpercentile": 100}.items():
    implements(getattr(np, _name))(_quantile(_name, _parts))


def _median(name: str) -> Callable[..., Any]:
    def adapter(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
        return _quantiles(name, a, 0.5, axis, "linear", keepdims, None)

    return adapter


implements(np.median)(_median("median"))
implements(np.nanmedian)(_median("nanmedian"))


@implements(np.cov)
def _cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None, aweights: Any = None,
    *, dtype: Any = None,
) -> Any:  # fmt: skip
    x = _variables(m, rowvar)
    if y is not None:
        x = functional.cat([x, _variables(y, rowvar)])
    x = inexact("numpy.cov", x, dtype)
    correction = ddof if ddof is not None else 0 if bias else 1
    weights = (None if w is None else tensor(w) for w in (fweights, aweights))
    return functional.cov(x, correction=correction, **dict(zip(("fweights", "aweights"), weights, strict=True))).squeeze()


def _variables(m: Any, rowvar: bool) -> Any:
    """One variable in each row."""
    x = floating(m)
    x = x.reshape(1, -1) if x.ndim < 2 else x
    return x if rowvar or x.shape[0] == 1 else x.transpose(0, 1)


@implements(np.corrcoef)
def _corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = _cov(x, y, rowvar)
    c = inexact("numpy.corrcoef", c, dtype)
    if not c.ndim:
        return c / c
    scale = functional.diagonal(c).sqrt()
    found = c / scale.unsqueeze(1) / scale.unsqueeze(0)
    return functional.clamp(found, -1, 1)


@implements(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    if side not in ("left", "right"):
        raise ValueError(f"side must be one of 'left' or 'right', not {side!r}")
    sequence = tensor(a)
    if sorter is not None:
        sequence = sequence[tensor(sorter)]
    return functional.searchsorted(sequence, tensor(v), right=side == "right")


@implements(np.digitize)
def _digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """Which way the bins go is asked of their numbers: a guard."""
    edges, values = tensor(bins), tensor(x)
    apart = functional.diff(edges)
    if bool((apart >= 0).all()):
        return functional.searchsorted(edges, values, right=not right)
    if not bool((apart <= 0).all()):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return edges.numel() - functional.searchsorted(functional.flip(edges, [0]), values, right=right)


def _edges(x: Tensor, bins: Any, range: Any) -> Any:
    if isinstance(bins, str):
        raise option("numpy.histogram", f"takes the number of bins, or their edges, not {bins!r}")
    if not isinstance(bins, (int, np.integer)):
        return floating(bins)
    low, high = (functional.amin(x), functional.amax(x)) if range is None else (tensor(end).to(x.dtype) for end in range)
    flat = low == high
    low, high = functional.where(flat, low - 0.5, low), functional.where(flat, high + 0.5, high)
    steps = constant(np.arange(bins + 1) / bins, x)
    return functional.where(constant(np.arange(bins + 1) == bins, x) != 0, high, low + (high - low) * steps)


@implements(np.histogram_bin_edges)
def _histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    return _edges(floating(a).reshape(-1), bins, range)


@implements(np.histogram)
def _histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """Counts are constant between edges; weights, densities and edges have derivatives."""
    x = floating(a).reshape(-1)
    edges = _edges(x, bins, range)
    n = edges.numel() - 1
    place = functional.searchsorted(edges, x, right=True) - 1
    place = functional.where(x == edges[n], n - 1, place)
    member = place.unsqueeze(0) == tensor(np.arange(n)).unsqueeze(1)
    counts = member.sum(1) if weights is None else (member * floating(weights).reshape(1, -1)).sum(1)
    return (counts / (counts.sum() * functional.diff(edges)) if density else counts), edges


@implements(np.bincount)
def _bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    return functional.bincount(tensor(x), None if weights is None else floating(weights), minlength)


refuses("histograms of one variable are recorded, not of several", np.histogram2d, np.histogramdd)
