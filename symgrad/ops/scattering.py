"""Rows that write along one dimension at places given by an index tensor; the rest of the shape is walked in step.

`scatter` and `scatter_add` take an index of as many dimensions as x, which may be smaller than x off the axis; `index_add`,
`index_copy` and `index_fill` take a vector of places on the axis. Reading back is `take_along` and `index_select`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.indexing import check_range, numbered, put
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def corner(indices: Any, x: Any, axis: int) -> tuple[tuple[int, int, int], ...]:
    """The basic index of the part of x that an index tensor reaches off its axis."""
    return tuple((0, x.shape[d] if d == axis else n, 1) for d, n in enumerate(indices.shape))


def grid(indices: Any, axis: int) -> tuple[Any, ...]:
    """NumPy's index for `out[i][j][indices[i][j][k]]` and the like."""
    shape = indices.shape
    ranges = [np.arange(n).reshape(-1, *(1,) * (len(shape) - d - 1)) for d, n in enumerate(shape)]
    return tuple(indices if d == axis else r for d, r in enumerate(ranges))


def _scatter(x, src, indices, *, axis):
    out = x.copy()
    scatter_into(out, src, indices, axis, False)
    return out


def _scatter_add(x, src, indices, *, axis):
    out = x.copy()
    scatter_into(out, src, indices, axis, True)
    return out


def scatter_into(out: Any, src: Any, indices: Any, axis: int, accumulate: bool) -> None:
    """The write itself, in place."""
    if not accumulate:
        out[grid(indices, axis)] = src
    else:
        np.add.at(out, grid(indices, axis), src)


def scatter_type(x: Any, src: Any, indices: Any, *, axis: int) -> Meta:
    if len(indices.shape) != len(x.shape):
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    small = all(d == axis or n <= m for d, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True)))
    given = getattr(src, "shape", None)
    fits = not given or (len(given) == len(x.shape) and all(n <= m for n, m in zip(indices.shape, given, strict=True)))
    if not small or not fits:
        raise RuntimeError(
            f"Expected index {list(indices.shape)} to be no larger than self {list(x.shape)} apart from dimension {axis}"
            + (f" and to be no larger size than src {list(given)}" if given else "")
        )
    check_range(indices, x.shape[axis], axis, RuntimeError)
    return Meta(x.shape, x.dtype)


def _read(xp, g, out, x, src, indices, *, axis):
    return xp.take_along(xp.getitem(g, index=corner(indices, g, axis)), indices, axis=axis)


def _keep_rest(xp, g, out, x, src, indices, *, axis):
    return xp.scatter(g, 0, indices, axis=axis)


def _text(operation: str) -> Any:
    def lower(x: str, src: str, indices: str, *, axis: int) -> str:
        grid = f"jnp.indices({indices}.shape, sparse=True)"
        given = f"jnp.asarray({src}, {x}.dtype)" if operation == "set" else src  # a number has a type of its own
        return f"{x}.at[{grid}[:{axis}] + ({indices},) + {grid}[{axis + 1}:]].{operation}({given})"

    return lower


row(
    "scatter", "x src indices / axis", _scatter, (_keep_rest, _read, None), saves=("indices", "indices", ""), policy="each",
    type=scatter_type, display=lambda node: "ScatterBackward0" if hasattr(node.inputs[1], "shape") else "ScatterBackward1",
    jax=_text("set"),
)  # fmt: skip
row(
    "scatter_add", "x src indices / axis", _scatter_add, (lambda xp, g, out, x, src, indices, *, axis: g, _read, None),
    saves=("", "indices", ""), policy="each", type=scatter_type, jax=_text("add"),
)  # fmt: skip


# --- a vector of places on one dimension ----------------------------------------------------------------------------------


def along_axis_type(name: str) -> Any:
    def rule(x: Any, source: Any, indices: Any, *, axis: int) -> Meta:
        check_range(indices, x.shape[axis], axis, RuntimeError)
        count, given = indices.shape[0], getattr(source, "shape", ())
        if name != "index_fill" and given[axis] != count:
            raise RuntimeError(
                f"{name}_(): Number of indices ({count}) should be equal to source.size(dim): ({given[axis]}), for dim: {axis}"
            )
        if name != "index_fill" and (*given[:axis], *given[axis + 1 :]) != (*x.shape[:axis], *x.shape[axis + 1 :]):
            raise RuntimeError(
                f"{name}_(): source of shape {list(given)} does not fit into {list(x.shape)} along dimension {axis}"
            )
        return Meta(x.shape, x.dtype)

    return rule


def _writer(accumulate: bool) -> Any:
    def kernel(x, source, indices, *, axis):
        out = x.copy()
        put(out, source, (indices,), (axis,), accumulate)
        return out

    return kernel


def _except_places(xp, g, out, x, source, indices, *, axis):
    return xp.index_fill(g, 0, indices, axis=axis)


def _at_places(xp, g, out, x, source, indices, *, axis):
    return xp.index_select(g, indices, axis=axis)


def _at_filled(xp, g, out, x, source, indices, *, axis):
    """A place counts once, however often it is named. `g != g` is False everywhere, in g's shape."""
    return xp.where(xp.index_fill(g != g, True, indices, axis=axis), g, 0)


def _places_text(operation: str) -> Any:
    return lambda x, source, indices, *, axis: f"{x}.at[{':, ' * axis}{indices}].{operation}({source})"


row(
    "index_add", "x source indices / axis", _writer(True), (lambda xp, g, out, x, source, indices, *, axis: g, _at_places, None),
    saves=("", "indices", ""), policy="each", type=along_axis_type("index_add"), jax=_places_text("add"),
)  # fmt: skip
row(
    "index_copy", "x source indices / axis", _writer(False), (_except_places, _at_places, None),
    saves=("indices", "indices", ""), policy="each", type=along_axis_type("index_copy"), jax=_places_text("set"),
)  # fmt: skip
row(
    "index_fill", "x source indices / axis", _writer(False), (_except_places, _at_filled, None),
    saves=("indices", "indices", ""), policy="each", type=along_axis_type("index_fill"),
    jax=lambda x, source, indices, *, axis: _places_text("set")(x, f"jnp.asarray({source}, {x}.dtype)", indices, axis=axis),
    display=numbered("IndexFillBackward", 1),
)  # fmt: skip
