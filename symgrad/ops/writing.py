"""Rows for copies and for what writing in place does to history: a value replaced, wholly or in a region."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import TABLE, row


def _like(x: Any, *rest: Any, **attrs: Any) -> Meta:
    return Meta(x.shape, x.dtype)


def replace_type(x: Any, value: Any) -> Meta:
    if hasattr(value, "shape") and broadcast_shapes("copy_", x.shape, value.shape) != tuple(x.shape):
        raise RuntimeError(f"output with shape {list(x.shape)} doesn't match the broadcast shape {list(value.shape)}")
    return Meta(x.shape, x.dtype)


def _nothing(xp, g, out, *args, **attrs):
    return xp.zero(g)


def _replace(x, value):
    out = np.empty(x.shape, x.dtype)
    np.copyto(out, value, casting="unsafe")
    return out


def follow(xp: Any, x: Any, path: Any) -> Any:
    """Apply the view rows of a path, which is a tuple of (name, attributes as pairs)."""
    for name, attrs in path:
        x = getattr(xp, name)(x, **dict(attrs))
    return x


def _view_write(base, value, *, path):
    from symgrad.ops.namespace import raw

    out = np.asarray(base.copy())  # of a number without dimensions, too
    if any(name in _LAYOUT for name, _ in path):
        places = follow(raw, np.arange(base.size).reshape(base.shape), path)
        out.reshape(-1)[places] = value
    else:
        follow(raw, out, path)[...] = value
    return out


_LAYOUT = frozenset(("reshape", "expand"))
"""Rows that give a view of one layout and a copy of another."""


def _view_write_text(base: str, value: str, *, path: Any) -> str:
    """Follow the path on the numbers of the elements, and write there."""
    places = f"jnp.arange({base}.size).reshape({base}.shape)"
    for name, attrs in path:
        lower = TABLE[name].jax
        keywords = "".join(f", {key}={item!r}" for key, item in attrs)
        places = lower(places, **dict(attrs)) if callable(lower) else f"{lower}({places}{keywords})"
    return f"{base}.reshape(-1).at[{places}].set({value}).reshape({base}.shape)"


def _outside(xp, g, out, base, value, *, path):
    return xp.view_write(g, xp.zero(follow(xp, g, path)), path=path)


row("clone", "x", lambda x: x.copy(), (lambda xp, g, out, x: g,), policy="each", type=_like, jax="jnp.copy")
row(
    "replace", "x value", _replace, (_nothing, lambda xp, g, out, x, value: g), policy="each", type=replace_type,
    display=lambda node: "CopyBackwards" if hasattr(node.inputs[1], "shape") else "FillBackward2",
    jax=lambda x, value: f"jnp.broadcast_to({value}, {x}.shape).astype({x}.dtype)",
)  # fmt: skip
row(
    "view_write", "base value / path", _view_write, (_outside, lambda xp, g, out, base, value, *, path: follow(xp, g, path)),
    policy="first", type=_like, display="CopySlices", jax=_view_write_text,
)  # fmt: skip
