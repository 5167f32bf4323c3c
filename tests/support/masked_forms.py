"""Functions whose eager gradient is NaN or infinite at a point because an untaken branch is, or because a root has a kink there, as in
PyTorch. Compiled code and formulas have the finite gradients that stand here.

The comparisons of eager with compiled code read `EAGER_IS_NOT_FINITE`: only these may differ.
"""

from __future__ import annotations

import numpy as np

import symgrad as sg


def _squares(x):
    return (x * x).sum()


FORMS = {
    # name: (function, point, gradient)
    "sqrt beside 0 * x": (lambda x: sg.where(x > 0, sg.sqrt(x), 0 * x).sum(), [0.0, -1.0, 4.0], [0, 0, 0.25]),
    "sqrt beside 0": (lambda x: sg.where(x > 0, sg.sqrt(x), sg.zeros_like(x)).sum(), [0.0, -1.0, 4.0], [0, 0, 0.25]),
    "sin(x) / x": (lambda x: sg.where(x != 0, sg.sin(x) / x, sg.ones_like(x)).sum(), [0.0, 1.0], [0, np.cos(1) - np.sin(1)]),
    "log": (lambda x: sg.where(x > 0, sg.log(x), sg.zeros_like(x)).sum(), [0.0, -1.0, 2.0], [0, 0, 0.5]),
    "exp that overflows": (lambda x: sg.where(x < 1, x, sg.exp(1000 * x)).sum(), [0.5, 0.9], [1, 1]),
    "x / abs(x)**0.5": (lambda x: sg.where(x == 0, sg.zeros_like(x), x / abs(x) ** 0.5).sum(), [0.0, 4.0], [0, 0.25]),
    "x / abs(x)": (lambda x: sg.where(x == 0, sg.zeros_like(x), x / abs(x)).sum(), [0.0, 4.0], [0, 0]),
    "norm by hand": (lambda x: sg.sqrt(_squares(x)), [0.0, 0.0], [0, 0]),
    "guarded norm by hand": (lambda x: sg.where(_squares(x) > 0, sg.sqrt(_squares(x)), sg.zeros_like(_squares(x))), [0.0, 0.0], [0, 0]),
    "linalg.norm": (lambda x: sg.linalg.norm(x), [0.0, 0.0], [0, 0]),
    "x**y": (lambda x: (x ** (0 * x + 2.0)).sum(), [0.0], [0]),
    "(x**2)**0.5": (lambda x: ((x**2) ** 0.5).sum(), [0.0], [0]),
    "abs": (lambda x: abs(x).sum(), [0.0], [0]),
    "x log x": (lambda x: sg.where(x > 0, x * sg.log(x), sg.zeros_like(x)).sum(), [0.0, 1.0], [0, 1]),
    "a mask inside the root": (lambda x: sg.sqrt(sg.where(x > 0, x, sg.zeros_like(x))).sum(), [0.0, 4.0], [0, 0.25]),
    "a reciprocal under a mask and a scale": (
        lambda x: (3 * sg.where(x != 0, 1 / x, sg.zeros_like(x)) * sg.exp(x)).sum(), [0.0, 1.0], [0, 0],
    ),
}  # fmt: skip
EAGER_IS_NOT_FINITE = (
    "sqrt beside 0 * x", "sqrt beside 0", "sin(x) / x", "log", "exp that overflows",
    "x / abs(x)**0.5", "x / abs(x)", "norm by hand", "guarded norm by hand",
    "(x**2)**0.5", "x log x", "a reciprocal under a mask and a scale",
)  # fmt: skip
