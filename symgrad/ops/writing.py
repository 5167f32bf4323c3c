"""Rows for copies and for what writing in place does to history: a value replaced, wholly or in a region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from symgrad.ops.shapes import broadcast_shapes
from symgrad.ops.spec import Meta
from symgrad.ops.table import TABLE, row
from symgrad.ops.variants import is_complex

if TYPE_CHECKING:
    from symgrad.ops.signatures import Namespace

T = TypeVar("T")


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


def follow(xp: Namespace[T], x: T, path: Any) -> T:
    """Apply the view rows of a path, which is a tuple of (name, attributes as pairs)."""
    for name, attrs in path:
        x = getattr(xp, name)(x, **dict(attrs))
    return x


def _view_write(base, value, *, path):
    from symgrad.ops.namespace import raw

    parted = write_parts(raw, base, value, path)
    if parted is not None:
        return parted
    out = np.asarray(base.copy())  # of a number without dimensions, too
    if any(name in _LAYOUT for name, _ in path):
        places = follow(raw, np.arange(base.size).reshape(base.shape), path)
        out.reshape(-1)[places] = value
    else:
        follow(raw, out, path)[...] = value
    return out


def write_parts(xp: Namespace[T], base: T, value: T, path: Any) -> T | None:
    """A write through a view of real or imaginary parts, as writes that change no type; None if the path has no such view."""
    step = next((i for i, (name, _) in enumerate(path) if name in _PARTS), None)
    if step is None:
        return None
    part, rest = follow(xp, base, path[:step]), path[step + 1 :]
    write = lambda x: xp.view_write(x, value, path=rest) if rest else value
    whole: T = _PARTS[path[step][0]](xp, part, write)
    return xp.view_write(base, whole, path=path[:step]) if step else whole


_PARTS: dict[str, Any] = {
    "real": lambda xp, x, write: xp.complex(write(xp.real(x)), xp.imag(x)) if is_complex(x) else write(x),
    "imag": lambda xp, x, write: xp.complex(xp.real(x), write(xp.imag(x))),
    "view_as_real": lambda xp, x, write: xp.view_as_complex(write(xp.view_as_real(x))),
    "view_as_complex": lambda xp, x, write: xp.view_as_real(write(xp.view_as_complex(x))),
}
"""Views of another type, and how their base is made of what is written to them."""
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
    policy="each", type=_like, complex="own", display="CopySlices", jax=_view_write_text,
)  # fmt: skip
