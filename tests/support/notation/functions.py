"""What the words of printed formulas compute, on NumPy arrays."""

from __future__ import annotations

import ast
import functools
from typing import Any

import numpy as np
from scipy import special

from symgrad.compiler.ir.elements.registry import OUTPUTS
from symgrad.ops.table import TABLE

ELEMENTWISE = {
    "Abs": np.abs, "sign": np.sign, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "floor": np.floor, "ceiling": np.ceil, "erf": special.erf,
    "erfc": special.erfc, "sigmoid": special.expit, "softplus": lambda x: np.logaddexp(0, x), "log_sigmoid": special.log_expit,
    "log1p": np.log1p, "expm1": np.expm1, "gamma": special.gamma, "loggamma": special.gammaln, "digamma": special.digamma,
    "polygamma": lambda n, x: special.polygamma(np.asarray(n, int), x), "nan_to_zero": np.nan_to_num, "Mod": np.mod,
    "max": lambda *xs: functools.reduce(np.maximum, xs), "min": lambda *xs: functools.reduce(np.minimum, xs),
    "H": lambda x, middle=0.0: np.heaviside(x, middle), "step": lambda x, middle=0.0: np.heaviside(x, middle),
    "re": np.real, "im": np.imag, "conjugate": np.conj, "arg": np.angle, "normal_cdf": special.ndtr,
}  # fmt: skip
"""Functions of elements."""
REDUCING = {"sum": np.sum, "tr": np.trace, "det": np.linalg.det}
"""Functions of a matrix that give a number."""
ROWS = {
    "softmax": lambda x: special.softmax(x, 1), "log_softmax": lambda x: special.log_softmax(x, 1),
    "logsumexp": lambda x: special.logsumexp(x, 1, keepdims=True),
}  # fmt: skip
"""Functions of the rows of a matrix."""
HIDDEN = {"inv": {"check": False}}
"""Settings that say nothing about the value, and that formulas do not show."""
OF_SEVERAL = {name: (row, i) for row, names in OUTPUTS.items() for i, name in enumerate(names)}
"""Names for the outputs of rows that have several."""


def of_whole(name: str, arrays: list[Any], options: tuple[tuple[str, str], ...]) -> Any:
    """A row of the table under its own name, with the settings that the formula shows."""
    settings = {key: setting(text) for key, text in options} | HIDDEN.get(name, {})
    row, index = OF_SEVERAL.get(name, (name, None))
    if name in TABLE and isinstance(settings.get("axis"), tuple):  # argmax has several axes, the second output of max has one
        row, index = name, None
    result = TABLE[row].numpy(*map(np.asarray, arrays), **settings)
    return result if index is None else result[index]


def setting(text: str) -> Any:
    return np.dtype(text) if text in ("float32", "float64", "int32", "int64", "bool") else ast.literal_eval(text)
