"""Half precision with Python numbers, beside PyTorch: which rows round the number first."""

import operator

import numpy as np
import pytest
import torch

import symgrad as sg

pytestmark = pytest.mark.peer
NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne", "imul", "iadd")
OPS = {
    **{name: getattr(operator, name) for name in NAMES}, "rsub": lambda a, n: n - a, "rpow": lambda a, n: abs(n) ** a,
    "fmod": lambda a, n: a.fmod(n), "lerp": lambda a, n: a.lerp(a * 2, n), "where": lambda a, n: a.where(a > 1, n),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPS)
def test_as_in_pytorch(name, dtype):
    for n in (1e5, -1e5, 0.1, 3.3, 1e-9, 2049.0, 70000, 1 / 3, 1.001):
        ours, theirs = (OPS[name](lib.tensor([0.5, 1.0, 0.1, 3.0, 250.0], dtype=getattr(lib, dtype)), n) for lib in (sg, torch))
        np.testing.assert_array_equal(ours.tolist(), theirs.tolist(), err_msg=str(n))
