"""Samples of the rows that rearrange, join, cut, index and write."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.namespace import raw
from symgrad.ops.writing import follow


def _x(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).uniform(-2.0, 2.0, size=shape)


_I = np.array([0, 2, 0])
_PATHS = (
    (("getitem", (("index", (1, (0, 3, 2))),)),),
    (("t", ()), ("reshape", (("shape", (12,)),)), ("getitem", (("index", ((2, 7, 1),)),))),
    (("unsqueeze", (("axis", 1),)), ("permute", (("axes", (2, 0, 1)),)), ("diagonal", (("offset", 1), ("axis1", 0), ("axis2", 1)))),
)


def _written(path: Any) -> Any:
    """A value of the shape that a path leads to."""
    return _x(*follow(raw, _x(3, 4), path).shape, seed=1)


def shape_samples() -> dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Row name -> (arguments, attributes)."""
    x, c = _x(3, 4), _x(2, 3, 4)
    one = {name: [((c,), attrs) for attrs in choices] for name, choices in _OF_ONE.items()}
    places = np.array([[0, 2], [1, 1]])
    return {
        **one,
        "t": [((x,), {})],
        "squeeze": [((_x(1, 3, 1),), {"axes": None}), ((_x(1, 3, 1),), {"axes": (0,)})],
        "expand": [((_x(3, 1),), {"shape": (2, 3, 4)}), ((_x(),), {"shape": (2,)})],
        "unfold": [((x,), {"axis": 1, "size": 2, "step": 1}), ((x,), {"axis": 0, "size": 1, "step": 2})],
        "unfold_transpose": [((_x(3, 3, 2),), {"shape": (3, 4), "axis": 1, "size": 2, "step": 1})],
        "diag_embed": [
            ((_x(3),), {"shape": (4, 4), "offset": -1, "axis1": 0, "axis2": 1}),
            ((_x(2, 3),), {"shape": (3, 2, 5), "offset": 2, "axis1": 0, "axis2": 2}),
            ((_x(2, 3),), {"shape": (3, 2, 4), "offset": 0, "axis1": 2, "axis2": 0}),
        ],
        "clone": [((x,), {})],
        "replace": [((x, _x(4, seed=1)), {}), ((x, _x(seed=1)), {})],
        "view_write": [((x, _written(path)), {"path": path}) for path in _PATHS],
        "cat": [((x, _x(1, 4)), {"axis": 0}), ((x, x, _x(3, 2)), {"axis": 1})],
        "stack": [((x, _x(3, 4, seed=1)), {"axis": 1})],
        "assemble": [((_x(4), _x(2, 4)), {"shape": (3, 4), "places": ((0,), ((1, 3, 1),))})],
        "split": [((x,), {"axis": 1, "sizes": (1, 3)})],
        "split_with_sizes": [((x,), {"axis": 0, "sizes": (2, 1)})],
        "unbind": [((x,), {"axis": 1})],
        "embed": [((_x(2),), {"shape": (3, 4), "index": (1, (0, 3, 2))}), ((_x(1, 3),), {"shape": (3, 4), "index": (None, (0, 3, 1), 1)})],
        "index": [
            ((c, _I), {"dims": (1,)}), ((c, np.array([1, 0]), np.array([[3], [-1]])), {"dims": (0, 2)}),
            ((c, np.array([1, 0]), np.array([2, 0])), {"dims": (1, 2)}),
        ],
        "index_back": [
            ((_x(3, 4), _I), {"shape": (3, 4), "dims": (0,)}), ((_x(20, 4), np.arange(20) % 3 - 1), {"shape": (3, 4), "dims": (0,)}),
            ((_x(2, 2, 3), np.array([1, 0]), np.array([[3], [-1]])), {"shape": (2, 3, 4), "dims": (0, 2)}),
        ],
        "index_put": [
            ((x, _x(2, 4, seed=1), np.array([0, 2])), {"dims": (0,), "accumulate": False}),
            ((x, _x(4, seed=1), _I), {"dims": (0,), "accumulate": True}),
            ((c, _x(seed=1), np.array([1, 0]), np.array([3, 1])), {"dims": (0, 2), "accumulate": False}),
        ],
        "index_select": [((c, _I), {"axis": 1})],
        "scatter": [((x, _x(2, 2, seed=1), np.array([[0, 2], [1, 0]])), {"axis": 0}), ((x, _x(3, 1, seed=1), _I[:, None]), {"axis": 1})],
        "scatter_add": [((x, _x(2, 2, seed=1), places), {"axis": 0}), ((x, _x(2, 2, seed=1), places), {"axis": 1})],
        "index_add": [((x, _x(3, 4, seed=1), _I), {"axis": 0}), ((x, _x(3, 3, seed=1), _I), {"axis": 1})],
        "index_copy": [((x, _x(3, 2, seed=1), np.array([3, 0])), {"axis": 1})],
        "index_fill": [((x, _x(seed=1), np.array([3, 0])), {"axis": 1})],
    }  # fmt: skip


_OF_ONE: dict[str, list[dict[str, Any]]] = {
    "reshape": [{"shape": (4, 6)}, {"shape": (2, 1, 12)}],
    "transpose": [{"dim0": 0, "dim1": 2}, {"dim0": 1, "dim1": 1}],
    "permute": [{"axes": (2, 0, 1)}, {"axes": (0, 1, 2)}],
    "unsqueeze": [{"axis": 0}, {"axis": 3}],
    "diagonal": [{"offset": 0, "axis1": 0, "axis2": 1}, {"offset": 1, "axis1": 2, "axis2": 0}, {"offset": -2, "axis1": 1, "axis2": 2}],
    "flip": [{"axes": (1,)}, {"axes": (0, 2)}],
    "roll": [{"shifts": (1,), "axes": ()}, {"shifts": (1, -2), "axes": (0, 2)}],
    "tile": [{"reps": (1, 2, 2)}, {"reps": (2, 1, 1, 3)}],
    "tril": [{"diagonal": 0}, {"diagonal": -1}],
    "triu": [{"diagonal": 0}, {"diagonal": 2}],
    "getitem": [{"index": (1,)}, {"index": ((0, 1, 1), (0, 3, 2), 1)}, {"index": (None, 0, (1, 3, 1), None)}, {"index": ()}],
}
