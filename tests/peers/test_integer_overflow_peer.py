"""Whole numbers that an integer type cannot hold, beside PyTorch."""

import operator

import pytest
import torch

import symgrad as sg

pytestmark = pytest.mark.peer
OPS = {
    **{n: getattr(operator, n) for n in ("add", "sub", "mul", "lt", "le", "gt", "ge", "eq", "ne", "and_", "or_", "xor")},
    "clamp_min": lambda a, n: a.clamp(min=n), "clamp_max": lambda a, n: a.clamp(max=n), "fill_": lambda a, n: a.clone().fill_(n),
    "masked_fill": lambda a, n: a.masked_fill(a > 3, n), "where": lambda a, n: a.where(a > 3, n), "add_": lambda a, n: a.clone().add_(n),
    "new_full": lambda a, n: a.new_full((2,), n),
}  # fmt: skip


def outcome(f, *args):
    try:
        return f(*args).tolist()
    except RuntimeError as error:
        return "without overflow" in str(error)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_as_in_pytorch(name, dtype):
    data = [1, 5, 127]
    for n in (-1, -255, -256, 200, 300, -300, 40000, -40000, 2**31, 2**33, -(2**33)):
        wanted = outcome(OPS[name], torch.tensor(data, dtype=getattr(torch, dtype)), n)
        assert outcome(OPS[name], sg.tensor(data, dtype=getattr(sg, dtype)), n) == wanted
