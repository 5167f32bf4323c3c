"""The hash of a graph: the same for the same program in every process, another for any other program."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, application, input_value, literal
from symgrad.ops.spec import Meta
from symgrad.ops.table import TABLE

UNARY = ["sin", "cos", "tanh", "exp", "sigmoid", "abs", "neg", "floor", "erf", "sqrt"]


def program(shape=(2, 3), dtype=np.float64, op="tanh", power=3, number=2, axis=1, keepdims=False, swap=False, steps=1, extra=0, outputs=1):
    """A program with something of everything that one can differ in."""
    shape = tuple(shape)
    x, y = (input_value(i, shape, dtype) for i in range(2))
    value = xp.div(y, x) if swap else xp.div(x, y)
    for _ in range(steps):
        value = application(TABLE[op], (value,), {}, Meta(value.shape, value.dtype))
    value = application(TABLE["power"], (value,), {"exponent": power}, Meta(value.shape, value.dtype))
    value = application(TABLE["mul"], (value, literal(number, dtype)), {}, Meta(value.shape, value.dtype))
    value = xp.sum(value, axis=(axis,), keepdims=keepdims)
    inputs = [x, y, *(input_value(2 + i, (), dtype) for i in range(extra))]
    return Graph(inputs, [value] * outputs)


def variants(**others):
    """All programs that differ from one in one thing."""
    numbers = [1, 1.0, True, 2, 2.0, 0.0, -0.0, 0, False, 1e-300, float("inf"), float("nan"), np.nextafter(1.0, 2), 2**60, 2**60 + 1]
    yield from (program(**{**others, "shape": s}) for s in [(2, 3), (3, 2), (6, 1), (1, 6), (2, 3, 1), (1, 2, 3)])
    yield from (program(**{**others, "dtype": d}) for d in [np.float64, np.float32, np.float16])
    yield from (program(**{**others, "op": op}) for op in UNARY)
    yield from (program(**{**others, "power": p}) for p in numbers)
    yield from (program(**{**others, "number": n}) for n in numbers)
    yield from (program(**{**others, "axis": a}) for a in (0, 1))
    yield from (program(**{**others, "keepdims": k}) for k in (False, True))
    yield from (program(**{**others, "swap": s}) for s in (False, True))
    yield from (program(**{**others, name: n}) for name in ("steps", "extra", "outputs") for n in (1, 2, 3))


OTHERS = [
    {}, {"keepdims": True, "extra": 4}, {"op": "exp", "steps": 4}, {"dtype": np.float32, "outputs": 5}, {"swap": True, "power": 7},
    {"number": 11}, {"axis": 0, "shape": (4, 2)}, {"power": 2.5, "number": 3.5}, {"shape": (5, 5), "op": "cos"},
]  # fmt: skip


def test_programs_that_differ_in_one_thing_have_different_hashes():
    pairs = 0
    for others in OTHERS:
        base = program(**others)
        for other in variants(**others):
            assert (base.hash == other.hash) == (base == other)
            pairs += base != other
    assert pairs > 500


def test_order_of_inputs_and_operands():
    x, y = (input_value(i, (3,), np.float64) for i in range(2))
    z = input_value(1, (4,), np.float64)
    assert Graph([x, y], [x - y]).hash != Graph([x, y], [y - x]).hash
    assert Graph([x, y], [x, y]).hash != Graph([x, y], [y, x]).hash
    assert Graph([x, y], [x, y, x - y]).hash != Graph([x, y], [x, y, y - x]).hash
    assert Graph([x, y], [x]).hash != Graph([x, z], [x]).hash
    assert Graph([x], [literal(1, np.float32)]).hash != Graph([x], [literal(1, np.float64)]).hash


def test_the_names_of_inputs_do_not_count():
    x = input_value(0, (3,), np.float64)
    assert Graph([x], [xp.sin(x)], ["a"]).hash == Graph([x], [xp.sin(x)], ["b"]).hash


def test_the_hash_does_not_depend_on_what_else_was_built():
    first = program().hash
    kept = [program(number=n) for n in range(50)]
    assert program().hash == first
    assert len({g.hash for g in kept}) == 50


CODE = """
import numpy as np
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value
x = input_value(0, (2, 3), np.float32)
y = xp.sum(xp.tanh(x) ** 2.5 * 3, axis=(0, 1), keepdims=True) + xp.pad(x, widths=((0, 1), (2, 0)))
print(Graph([x], [y, *xp.max_along(x, axis=0, keepdims=False)]).hash)
"""


def hashes(seeds):
    runs = [
        subprocess.Popen([sys.executable, "-c", CODE], env={**os.environ, "PYTHONHASHSEED": str(seed)}, stdout=subprocess.PIPE, text=True)
        for seed in seeds
    ]
    return [run.communicate()[0].strip() for run in runs]


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 20), marks=pytest.mark.slow)], ids=["few", "many"])
def test_every_process_finds_the_same_hash(seeds):
    (found,) = set(hashes(seeds))
    assert len(found) == 32
