"""Whole numbers and truth values through XLA, which does not have all operations for them; and the pass that finds a way."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F
from symgrad.compiler import Graph
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.rewrite.legalize_dtypes import legalize_dtypes

TRUTHS = {
    "sign": lambda b: b.sign(), "sgn": lambda b: sg.sgn(b), "cumsum": lambda b: b.cumsum(0), "cumprod": lambda b: b.cumprod(0),
    "cummin": lambda b: b.cummin(0), "cummax": lambda b: b.cummax(0), "scatter_add": lambda b: b.scatter_add(0, sg.tensor([0, 0, 1]), b),
    "index_add": lambda b: b.index_add(0, sg.tensor([0, 0, 1]), b), "fold": lambda b: F.fold(b.reshape(1, 3, 1), (3, 1), (3, 1)),
    "index_put": lambda b: b.index_put((sg.tensor([0, 0, 1]),), b, accumulate=True),
}  # fmt: skip
INTEGERS = {
    "cumsum": lambda i: (i * 25).cumsum(0), "cumprod": lambda i: (i + 3).cumprod(0), "avg_pool": lambda i: F.avg_pool1d(i[None], 2),
    "transpose": lambda i: F.conv_transpose1d(i[None, None], i[None, None]), "heaviside": lambda i: sg.heaviside(i, i * 2),
    "hardtanh": lambda i: F.hardtanh(i), "threshold": lambda i: F.threshold(i, 1.5, 2.5), "clamp": lambda i: i.clamp(0.5, 1.5),
    "addcmul": lambda i: sg.addcmul(i, i, i, value=1.5), "scatter": lambda i: i.scatter(0, sg.tensor([0, 2]), 3),
    "trunc": lambda i: (i * 7).div(i.abs() * 2 + 1, rounding_mode="trunc"), "floor": lambda i: (i * 7).div(3, rounding_mode="floor"),
    "all": lambda i: i.to(sg.uint8).all(), "any": lambda i: i.to(sg.uint8).any(0, keepdim=True),
}  # fmt: skip


def flat(results):
    return [t for r in results for t in (r if isinstance(r, tuple) else (r,))]


def agree(functions, x):
    def f(x):
        return [g(x) for g in functions.values()]

    found, wanted = flat(sg.compile(f)(x)), flat(f(x))
    assert [(t.dtype, t.tolist()) for t in found] == [(t.dtype, t.tolist()) for t in wanted]


def test_truth_values():
    agree(TRUTHS, sg.tensor([True, False, True]))


@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_integers(dtype):
    agree(INTEGERS, sg.tensor([3, -1, 2, 5], dtype=getattr(sg, dtype)))


def test_integers_wrap_as_they_do_eagerly():
    agree({"transpose": INTEGERS["transpose"]}, sg.tensor([100, -7, 90], dtype=sg.int8))


WAYS = [
    (
        "graph(%x: bool[3]) {\n  %1 = sign(%x) : bool[3]\n  return %1\n}",
        "graph(%x: bool[3]) {\n  %1 = cast(%x; dtype=int32) : int32[3]\n  %2 = sign(%1) : int32[3]\n"
        "  %3 = cast(%2; dtype=bool) : bool[3]\n  return %3\n}",
    ),
    (
        "graph(%x: int64[3]) {\n  %1 = clamp(%x; max=None, min=0.5) : float32[3]\n  return %1\n}",
        "graph(%x: int64[3]) {\n  %1 = cast(%x; dtype=float32) : float32[3]\n  %2 = clamp(%1; max=None, min=0.5) : float32[3]\n"
        "  return %2\n}",
    ),
    (
        "graph(%x: uint8[3]) {\n  %1 = all(%x; axis=(0,), keepdims=False) : uint8[]\n  return %1\n}",
        "graph(%x: uint8[3]) {\n  %1 = ne(%x, uint8(0)) : bool[3]\n  %2 = all(%1; axis=(0,), keepdims=False) : bool[]\n"
        "  %3 = cast(%2; dtype=uint8) : uint8[]\n  return %3\n}",
    ),
]


@pytest.mark.parametrize(("before", "after"), WAYS, ids=["sign", "clamp", "all"])
def test_another_type_is_found(before, after):
    graph = Graph.parse(before)
    assert str(legalize_dtypes(graph)) == after
    array = np.array([1, 0, 3]).astype(graph.inputs[0].dtype)
    np.testing.assert_array_equal(evaluate(legalize_dtypes(graph), [array])[0], evaluate(graph, [array])[0])


@pytest.mark.parametrize(
    "text",
    [
        "graph(%x: int32[3]) {\n  %1 = sign(%x) : int32[3]\n  return %1\n}",
        "graph(%x: float32[3]) {\n  %1 = hardtanh(%x; high=1, low=-1) : float32[3]\n  return %1\n}",
        "graph(%x: int64[3]) {\n  %1 = clamp(%x; max=None, min=0) : int64[3]\n  return %1\n}",
        "graph(%x: int64[3]) {\n  %1 = div_rounded(%x, %x; rounding_mode=\"floor\") : int64[3]\n  return %1\n}",
        "graph(%x: bool[3]) {\n  %1 = all(%x; axis=(0,), keepdims=False) : bool[]\n  return %1\n}",
    ],
)  # fmt: skip
def test_what_xla_has_stays(text):
    assert str(legalize_dtypes(Graph.parse(text))) == text


def test_functions_that_have_no_whole_numbers_say_so():
    with pytest.raises(NotImplementedError, match=r"max_pool2d.* not implemented for 'Bool'"):
        F.max_pool2d(sg.ones(1, 2, 2, dtype=sg.bool), 2)
    with pytest.raises(NotImplementedError, match=r"nll_loss_out_frame.* not implemented for 'Long'"):
        F.nll_loss(sg.ones(1, 2, dtype=sg.int64), sg.tensor([1]))


def test_integers_that_no_float_holds():
    def f(i):
        return F.threshold(i, -1.5, 2.5), sg.heaviside(i * 0, i), sg.heaviside(i, i)

    i = sg.tensor([-(2**63), -1, 0, 2**53 + 1, 2**63 - 1])
    for run in (f, sg.compile(f, backend="numpy"), sg.compile(f)):
        assert [t.tolist() for t in run(i)] == [[2, 2, 0, 2**53 + 1, 2**63 - 1], i.tolist(), [0, 0, 0, 1, 1]]
