"""Sums, products and extremes along dimensions; scans; softmax and log_softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symgrad.compiler.ir.elements.registry import element


def _over(x: Any, at: Any, axis: Any, keepdims: bool) -> tuple[Callable[..., Any], list[int]]:
    """Return the element of x as a function of the indices along `axis`, and the sizes of these axes."""
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    rest = iter(i for d, i in enumerate(at) if not (keepdims and d in axes))
    outer = {d: next(rest) for d in range(x.ndim) if d not in axes}

    def inner(*k: Any) -> Any:
        along = dict(zip(axes, k, strict=True))
        return x(*(along[d] if d in along else outer[d] for d in range(x.ndim)))

    return inner, [x.shape[d] for d in axes]


@element("sum")
def _(ix: Any, at: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    inner, sizes = _over(x, at, axis, keepdims)
    return ix.sum(lambda *k: ix.counted(inner(*k)), *sizes)


@element("nansum")
def _(ix: Any, at: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    inner, sizes = _over(x, at, axis, keepdims)
    return ix.sum(lambda *k: ix.unless_nan(inner(*k)), *sizes)


@element("count_nonzero")
def _(ix: Any, at: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
    inner, sizes = _over(x, at, axis, keepdims)
    return ix.sum(lambda *k: ix.nonzero(inner(*k)), *sizes)


def _folded(row: str, name: str, output: int | None = None) -> None:
    @element(row, output=output)
    def _(ix: Any, at: Any, x: Any, *, axis: Any, keepdims: bool) -> Any:
        inner, sizes = _over(x, at, axis, keepdims)
        return ix.fold(name, inner, *sizes)


for _row, _name in {"amax": "max", "amin": "min", "prod": "prod", "logsumexp": "logsumexp", "all": "all", "any": "any"}.items():
    _folded(_row, _name)
for _row, _name, _output in (("aminmax", "min", 0), ("aminmax", "max", 1), ("max_along", "max", 0), ("min_along", "min", 0)):
    _folded(_row, _name, _output)


@element("prod_rest")
def _(ix: Any, at: Any, x: Any, *, axis: int) -> Any:
    """The product of all other elements along the axis."""
    n = x.shape[axis]
    return ix.fold("prod", lambda k: ix.where(ix.delta(k, at[axis]), 1, x(*at[:axis], k, *at[axis + 1 :])), n)


@element("softmax")
def _(ix: Any, at: Any, x: Any, *, axis: Any) -> Any:
    return ix.exp(_log_softmax(ix, at, x, axis=axis))


@element("log_softmax")
def _log_softmax(ix: Any, at: Any, x: Any, *, axis: Any) -> Any:
    inner, sizes = _over(x, at, axis, True)
    return x(*at) - ix.fold("logsumexp", inner, *sizes)


def _scan(row: str, name: str | None) -> None:
    @element(row)
    def _(ix: Any, at: Any, x: Any, *, axis: int, reverse: bool) -> Any:
        """Combine the elements up to this one; reversed, from this one on."""
        if not x.ndim:
            return x()
        n = x.shape[axis]
        ends = {"first": at[axis], "last": n - 1} if reverse else {"first": 0, "last": at[axis]}
        body = lambda k: ix.counted(x(*at[:axis], k, *at[axis + 1 :]))
        return ix.partial_sum(body, n, **ends) if name is None else ix.fold(name, body, n, **ends)


for _row, _name in {"cumsum": None, "cumprod": "prod", "logcumsumexp": "logsumexp"}.items():  # type: ignore[assignment]
    _scan(_row, _name)


@element("cummax", output=0)
def _(ix: Any, at: Any, x: Any, *, axis: int) -> Any:
    return ix.fold("max", lambda k: x(*at[:axis], k, *at[axis + 1 :]), x.shape[axis], first=0, last=at[axis]) if x.ndim else x()


@element("cummin", output=0)
def _(ix: Any, at: Any, x: Any, *, axis: int) -> Any:
    return ix.fold("min", lambda k: x(*at[:axis], k, *at[axis + 1 :]), x.shape[axis], first=0, last=at[axis]) if x.ndim else x()


@element("recurrence")
def _(ix: Any, at: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    """s[i] = x[i] s[i-1] + y[i], so each y[k] is multiplied by all x after k."""
    n, i = max(x.shape[axis], y.shape[axis]), at[axis]
    along = lambda t, k: t(*at[:axis], k, *at[axis + 1 :])

    def term(k: Any) -> Any:
        ends = {"first": i, "last": k - 1} if reverse else {"first": k + 1, "last": i}
        return along(y, k) * ix.fold("prod", lambda m: along(x, m), n, **ends)

    return ix.partial_sum(term, n, **({"first": i, "last": n - 1} if reverse else {"first": 0, "last": i}))
