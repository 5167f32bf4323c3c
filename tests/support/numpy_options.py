"""Every option of NumPy's functions that have adapters, with values that are not its default: walked by test_numpy_options.py.

The arguments of a call are found by the names of the parameters, or stand in `CALLS`; values of options stand in `VALUES`, by name.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.interop import numpy_functions
from symgrad.interop.table import FUNCTIONS

M = np.array([[2.9, 0.31, 0.5], [0.12, 2.3, 0.7], [0.45, 0.25, 1.75]])
N = np.array([[0.7, 0.25, 1.5], [0.15, 1.6, 0.2], [0.9, 0.35, 1.2]])
V, W = np.array([0.72, 0.31, 0.54]), np.array([0.93, 0.42, 0.29])
H = np.array([[1.0, np.nan, 3.0], [4.0, 2.5, np.nan], [0.5, 6.0, 7.0]])
C = np.array([[1 + 2j, 3 - 1j], [2 + 0j, -1 + 1j]])
WHOLE = np.array([3, 1, 2, 1])
D = np.arange(24.0).reshape(2, 3, 4)
MASK = np.array([[True, False, True], [False, True, True], [True, True, False]])
FIRST, SECOND = M, N
"""What parameters without a default are given, unless a call stands in the table."""

CALLS: dict[str, tuple[Any, ...]] = {
    "apply_along_axis": (np.cumsum, 0, M), "apply_over_axes": (np.sum, M, [0, 1]), "arange": (V[0], 4.0), "argpartition": (M, 1),
    "array_split": (M, 2), "bincount": (WHOLE,), "block": ([[M, N], [N, M]],), "broadcast_to": (V, (3, 3)), "can_cast": (M, np.float32),
    "column_stack": ([V, W],), "compress": ([True, False, True], M), "concatenate": ([M, N],), "convolve": (V, W), "correlate": (V, W),
    "copyto": (M, N), "cross": (M, N), "linalg.cross": (M, N), "delete": (M, 1), "digitize": (V, np.array([0.31, 0.5, 0.72])),
    "dsplit": (D, 2), "dstack": ([M, N],), "einsum": ("ij,jk", M, N), "expand_dims": (M, 0),
    "extract": (M > 1, M), "fill_diagonal": (np.zeros((7, 3)), V[0]), "full_like": (M, 1.5), "geomspace": (V[:2], 9.0, 5),
    "hsplit": (M, 3), "hstack": ([M, N],), "insert": (M, 1, V), "interp": (np.linspace(-1, 3, 9), np.array([0.0, 1.0, 1.5]), V),
    "lexsort": (np.stack([M, N]),), "linspace": (V, 2.0, 4), "logspace": (V, 2.0, 4),
    "linalg.matrix_power": (M, 2), "meshgrid": (V, np.array([1.0, 2.0])), "moveaxis": (M, 0, 1), "linalg.multi_dot": ([M, N, M],),
    "nan_to_num": (np.array([np.nan, np.inf, -np.inf, 1.0]),), "nanpercentile": (H, 40.0), "nanquantile": (H, 0.4),
    "pad": (M, 1), "partition": (M, 1), "percentile": (M, [40.0, 70.0]), "quantile": (M, [0.4, 0.7]),
    "piecewise": (V, [V < 0.5], [np.sin, np.cos]), "polyfit": (np.arange(5.0), np.sin(np.arange(5.0)), 2), "repeat": (M, 2),
    "reshape": (M, (9,)), "roll": (M, 1), "rollaxis": (D, 1),
    "searchsorted": (np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.5])), "select": ([V > 0.6, V > 0.5], [V, W]), "split": (M, 3),
    "squeeze": (M.reshape(1, 3, 1, 3),), "stack": ([M, N],), "swapaxes": (M, 0, 1), "take": (M, np.array([1, 2, -2])),
    "take_along_axis": (M, np.argsort(M)), "linalg.tensorinv": ((np.eye(4) + 0.1).reshape(4, 2, 2),), "tensordot": (M, N),
    "linalg.tensorsolve": ((np.eye(6) + 0.1).reshape(6, 2, 3), np.ones((2, 3))), "linalg.outer": (V, W), "linalg.tensordot": (M, N),
    "tile": (M, 2),
    "trim_zeros": (np.array([0.0, 0.0, 1.0, 2.0, 0.0]),), "unwrap": (np.array([[0.0, 2.0, 5.5, 11.0], [9.0, 1.0, 4.0, 20.0]]),),
    "vander": (V,), "vsplit": (M, 3),
    "vstack": ([M, N],), "where": (MASK, M, N), "ix_": (WHOLE, WHOLE), "isclose": (H, np.where(MASK, H, H + 0.5)),
    "allclose": (H, H + 0.5), "all": (MASK,), "any": (~MASK,), "diagonal": (D,), "trace": (D,), "linalg.svd": (M[:, :2],),
    "array_equal": (H, H), "isin": (M, [0.5, 2.3]), "linalg.lstsq": (M[:, :2], V), "gradient": (M * M,),
    "setxor1d": (V, W), "intersect1d": (V, V[1:]), "setdiff1d": (np.array([2.0, 1.0, 3.0]), np.array([1.0])),
    "round": (M,), "diag": (M,), "real_if_close": (C.real + 1e-12j,), "polyder": (V,), "polyint": (V,), "poly": (V,), "polyval": (V, W),
    "polyadd": (V, W), "polysub": (V, W), "polymul": (V, W), "polydiv": (V, W[:2]), "roots": (V,), "angle": (C,), "trapezoid": (M,),
    "linalg.vecdot": (M, N), "histogram": (M,), "histogram_bin_edges": (M,), "average": (M,),
    "unique": (np.array([2.0, np.nan, 1.0, 2.0, np.nan]),),
    "cumulative_sum": (M,), "cumulative_prod": (M,), "linalg.eigh": (M,), "linalg.pinv": (M,),
    "linalg.matrix_rank": (np.array([[1.0, 5.0], [1.0, 1.0]]),),
    "ediff1d": (V,), "linalg.cholesky": (M @ M.T,), "linalg.norm": (M,), "cov": (M,), "corrcoef": (M,), "fft.irfft": (M,), "diff": (M,),
}  # fmt: skip
"""Data for functions that take more than matrices, or other numbers."""

AXES = (0, -1, (0, 1), (), None)
ORDERS = ("C", "F", "A", "K")
CASTS = ("no", "equiv", "safe", "same_kind", "unsafe")
VALUES: dict[str, tuple[Any, ...]] = {
    "axis": AXES, "axes": (0, (1, 0), [(0,), (0,)]), "keepdims": (True, False), "dtype": (np.float32, np.int64, np.complex128),
    "where": (MASK,), "initial": (9.0,),
    "order": ORDERS, "ddof": (1,), "correction": (1,), "casting": CASTS, "sparse": (True,), "copy": (True, False), "indexing": ("ij",),
    "side": ("right",),
    "kind": ("stable", "heapsort"), "stable": (True, False), "weights": (N,), "deg": (True,), "rtol": (0.5,), "atol": (2.0,),
    "equal_nan": (True,),
    "offset": (1, -1), "axis1": (1,), "axis2": (0,), "mean": (M.mean(0, keepdims=True),), "device": ("cpu", "gpu"),
    "subok": (True, False),
    "shape": ((2, 5),), "decimals": (1,), "k": (1, -1, 2), "n": (2, 5), "s": ((2, 5),), "norm": ("ortho", "forward", "backward"),
    "prepend": (0.5,),
    "append": (0.5,), "right": (True, 7.0), "left": (7.0,), "period": (1.5, 3.0), "to_end": (9.0,), "to_begin": (9.0,),
    "endpoint": (False,),
    "retstep": (True,), "num": (4,), "base": (2.0,), "edge_order": (2,), "bins": (4, np.array([0.0, 0.5, 1.0, 3.0])),
    "range": ((0.0, 2.0),),
    "density": (True,), "minlength": (7,), "assume_unique": (True,), "return_indices": (True,), "return_index": (True,),
    "return_inverse": (True,),
    "return_counts": (True,), "sorted": (False,), "invert": (True,), "tol": (0.5, 1e6), "hermitian": (True,), "rcond": (0.5,),
    "full_matrices": (False,),
    "compute_uv": (False,), "UPLO": ("U",), "upper": (True,), "ord": (1, np.inf, "nuc"), "p": (1, "fro", -2), "ind": (1,),
    "nan": (5.0,), "posinf": (6.0,),
    "neginf": (7.0,), "overwrite_input": (True,), "method": ("lower", "higher", "midpoint", "nearest", "hazen"), "m": (2,),
    "full": (True,),
    "w": (np.array([1.0, 2.0, 3.0, 1.0, 2.0]),), "cov": (True,), "returned": (True,), "mode": ("full", "same", "valid"),
    "start": (3, -1), "sorter": (np.array([0, 1, 2]),),
    "default": (5.0, V * 2), "axisa": (0,), "axisb": (0,), "axisc": (0,), "trim": ("f", "b"), "discont": (4.0,), "N": (2, 5),
    "increasing": (True,),
    "include_initial": (True,), "wrap": (True,), "a_min": (0.4,), "a_max": (0.9,), "min": (0.4,), "max": (0.9,), "stop": (7.0,),
    "step": (0.5,),
    "y": (N,), "x": (np.array([0.0, 1.0, 4.0]),), "dx": (0.5,), "rowvar": (False,), "bias": (True,), "fweights": (np.array([1, 2, 3]),),
    "aweights": (V,), "optimize": (True, "greedy"),
    "max_line_width": (20,), "precision": (2,), "suppress_small": (True,), "separator": (", ",), "prefix": ("abc",),
    "formatter": ({"float": "{:.1f}".format},),
    "threshold": (2,), "edgeitems": (1,), "sign": ("+",), "floatmode": ("fixed",), "suffix": ("abc",), "legacy": ("1.13",),
    "reflect_type": ("odd",),
}  # fmt: skip
BY_FUNCTION: dict[str, tuple[Any, ...]] = {
    "amax.where": (~MASK,), "max.where": (~MASK,), "nanmin.where": (~MASK,), "amin.initial": (-1.0,), "min.initial": (-1.0,),
    "nanmin.initial": (-1.0,), "cov.ddof": (0, 2), "linalg.lstsq.rcond": (0.9,), "diagonal.axis1": (2,), "diagonal.axis2": (2,),
    "trace.axis1": (2,),
    "trace.axis2": (2,), "partition.axis": (0, -1), "argpartition.axis": (0, -1), "cumulative_sum.axis": (0, 1),
    "cumulative_prod.axis": (0, 1),
    **{f"fft.{name}.axes": ((0,), (1, 0)) for name in ("fft2", "ifft2", "fftn", "ifftn")},
    "unique.equal_nan": (False,), "take.mode": ("wrap", "clip"), "linalg.qr.mode": ("r", "complete", "raw"),
    "pad.mode": ("edge", "reflect", "wrap", "linear_ramp", "mean", "empty"),
    "bincount.weights": (np.array([0.5, 1.0, 2.0, 4.0]),), "searchsorted.sorter": (np.array([2, 1, 0]),), "isclose.rtol": (2.0,),
    "allclose.equal_nan": (True,),
    "copyto.where": (MASK,), "polyint.k": (2.0,), "rot90.k": (2, 3), "rot90.axes": ((1, 0),), "transpose.axes": ((0, 1), (1, 0)),
    "permute_dims.axes": ((0, 1),),
    "linalg.tensorsolve.axes": ((0,),), "tensordot.axes": (1, ([0], [1])), "linalg.tensordot.axes": (1,), "cov.y": (N,),
    "vector_norm.ord": (1, 3, np.inf),
    "linalg.norm.axis": (0, -1, (0, 1)), "argsort.order": ("f",), "sort.order": ("f",), "partition.order": ("f",),
    "argpartition.order": ("f",),
    "partition.kind": ("introselect",), "argpartition.kind": ("introselect",), "isin.kind": ("sort", "table"), "diff.n": (2,),
    "linalg.cond.p": (1, -2, "fro", np.inf),
    "rollaxis.start": (3, 0), "average.weights": (N, ), "average.axis": (0, (0, 1)), "cross.axis": (0,),
    "median.axis": AXES, "meshgrid.copy": (False,),
    "size.axis": (0, 1, (0, 1)), "unstack.axis": (1,), "interp.right": (7.0,), "digitize.right": (True,),
    "arange.stop": (7.0,), "linalg.svd.hermitian": (True,), "round.decimals": (1, -1), "arange.dtype": (np.float32,),
    "reshape.order": ("C", "F", "A"),
    "expand_dims.axis": ((0, 2), -1), "stack.axis": (1, -1), "insert.axis": (0, 1), "repeat.axis": (0, 1), "polyder.m": (2,),
    "gradient.axis": (0, 1, (0, 1)), "gradient.edge_order": (2,),
    "linalg.matrix_norm.ord": (1, np.inf, "nuc"), "linalg.vector_norm.ord": (1, 3), "lexsort.axis": (0,), "take_along_axis.axis": (0,),
    "flip.axis": (0, (0, 1)), "unique.axis": (0,),
}  # fmt: skip
EXTRA = {
    "einsum": {"dtype": (np.float32,), "casting": ("unsafe",), "order": ORDERS}, "pad": {"constant_values": (2.0, (1.0, 2.0)),
    "stat_length": (1,), "reflect_type": ("odd",)},
    "clip": {"dtype": (np.float32,), "where": (MASK,), "casting": ("unsafe",)},
}  # fmt: skip
"""Options that stand for `**kwargs`."""
BESIDE: dict[str, dict[str, Any]] = {
    **{f"{name}.where": {"initial": -9.0} for name in ("amax", "max", "nanmax")},
    **{f"{name}.where": {"initial": 9.0} for name in ("amin", "min", "nanmin")},
    **{f"{name}.weights": {"method": "inverted_cdf"} for name in ("quantile", "percentile", "nanquantile", "nanpercentile")},
    **{f"{name}.casting": {"dtype": np.float32} for name in ("concatenate", "stack", "hstack", "vstack", "einsum", "clip")},
    "clip.a_min": {"a_max": 5.0}, "clip.a_max": {"a_min": 0.1}, "clip.where": {"min": 0.4, "out": np.zeros((3, 3))},
    "clip.dtype": {"min": 0.4, "casting": "unsafe"}, "einsum.dtype": {"casting": "unsafe"}, "pad.reflect_type": {"mode": "reflect"},
    "pad.stat_length": {"mode": "mean"}, "allclose.rtol": {"equal_nan": True}, "allclose.atol": {"equal_nan": True},
    "allclose.equal_nan": {"atol": 2.0},
    **{f"cumulative_{name}.{word}": {"axis": 0} for name in ("sum", "prod") for word in ("dtype", "include_initial")},
}  # fmt: skip
"""Options without which another one means nothing."""


@dataclass(frozen=True)
class Call:
    """A function with one option."""

    name: str
    function: Callable[..., Any]
    option: str
    value: Any
    place: int | None
    """Where the option stands if it has no name."""

    @property
    def title(self) -> str:
        return self.function.__name__

    @property
    def options(self) -> list[str]:
        """This option, and what stands beside it."""
        return [self.option, *BESIDE.get(f"{self.name}.{self.option}", {})]

    def data(self) -> list[Any]:
        return [copied(x) for x in given(self.name, self.function)]

    def __call__(self, args: list[Any], value: Any) -> Any:
        if self.place is None:
            return self.function(*args, **{self.option: value}, **BESIDE.get(f"{self.name}.{self.option}", {}))
        between = list(inspect.signature(self.function).parameters.values())[len(args) : self.place]
        return self.function(*args[: self.place], *(p.default for p in between), value)

    def __str__(self) -> str:
        value = f"array{self.value.shape}" if isinstance(self.value, np.ndarray) else getattr(self.value, "__name__", repr(self.value))
        return f"{self.name}({'' if self.place is None else 'positional '}{self.option}={value})"


def copied(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else [copied(y) for y in x] if isinstance(x, list) else x


def functions() -> dict[str, Callable[..., Any]]:
    """All functions with adapters."""
    same = [f for f in (getattr(np, name) for name in numpy_functions.SAME) if f not in FUNCTIONS]
    found = {f"{f.__module__}.{f.__name__}".removeprefix("numpy."): f for f in (*FUNCTIONS, *same)}
    return dict(sorted(found.items()))


def given(name: str, function: Any) -> tuple[Any, ...]:
    """The data of a call."""
    if name in CALLS:
        return CALLS[name]
    parameters = inspect.signature(function).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
    first = H if name.startswith("nan") else FIRST
    return (first, SECOND)[: len(needed)]


def _places(name: str, function: Any, option: str) -> Iterator[int | None]:
    """By its name, and by its place."""
    parameters = inspect.signature(function).parameters
    parameter = parameters.get(option)
    kinds = [p.kind for p in parameters.values()]
    if parameter is None or parameter.kind != parameter.POSITIONAL_ONLY:
        yield None
    if f"{name}.{option}" in BESIDE:
        return
    if parameter is not None and parameter.kind == parameter.POSITIONAL_OR_KEYWORD and parameter.VAR_POSITIONAL not in kinds:
        yield list(parameters).index(option)


def _options(name: str, function: Any) -> dict[str, tuple[Any, ...]]:
    """The options that the data leaves open, with their values."""
    parameters = inspect.signature(function).parameters
    several = any(p.kind == p.VAR_POSITIONAL for p in parameters.values())
    behind = list(parameters)[0 if several else len(given(name, function)) :]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    asked = [n for n in behind if parameters[n].kind in kinds and parameters[n].default is not inspect.Parameter.empty]
    return {n: BY_FUNCTION.get(f"{name}.{n}") or VALUES[n] for n in asked if n not in ("out", "like")} | EXTRA.get(name, {})


def calls() -> Iterator[Call]:
    """All options of all functions; one without a value in the tables is an error."""
    for name, function in functions().items():
        for option, values in _options(name, function).items():
            for value in values:
                for place in _places(name, function, option):
                    yield Call(name, function, option, value, place)


def with_tensors(x: Any) -> Any:
    """The same data with tensors for arrays."""
    if isinstance(x, np.ndarray):
        return sg.from_numpy(x.copy())
    return [with_tensors(y) for y in x] if isinstance(x, list) else x


def quiet(run: Callable[[], Any]) -> Any:
    """The result, or the error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return run()
        except Exception as error:  # whatever it is: it is compared
            return error
