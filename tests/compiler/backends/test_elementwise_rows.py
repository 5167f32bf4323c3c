"""Every elementwise row through all columns: kernel in NumPy, meaning in SymPy, lowering to JAX; values, and derivatives to order 2."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
import sympy as sp

from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.backends.xla.kernel import XlaKernel
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.verify import verify
from symgrad.compiler.symbolic import lower
from symgrad.compiler.symbolic.to_sympy import number
from symgrad.ops.table import TABLE
from symgrad.testing.samples import samples

NEEDS_COMPLEX = {"imag", "complex"}
NO_DERIVATIVE = {"floor_divide", "heaviside"}
ROWS = sorted(n for n, row in TABLE.items() if row.elementwise and n not in NEEDS_COMPLEX and (samples(row) or not row.attrs))
BATCHES = [ROWS[i::6] for i in range(6)]


def operands(row, start=0):
    rng = np.random.default_rng(zlib.crc32(row.name.encode()))
    arrays = [rng.uniform(*row.domain, size=3) for _ in row.args]
    if row.policy == "where":
        arrays[0] = arrays[0] > np.mean(row.domain)
    if "f" not in row.kinds:
        arrays = [(4 * a).astype(np.int64) if "i" in row.kinds else a > 0 for a in arrays]
    return [input_value(start + i, a.shape, a.dtype) for i, a in enumerate(arrays)], arrays


def outputs(row, inputs, order=2):
    """The value, the gradients of the sum of its squares, and the gradients of the sum of theirs."""
    value = apply(row, tuple(inputs), samples(row)[-1][1] if row.attrs else {})
    found = [value]
    wrt = [i for i, x in enumerate(inputs) if x.dtype.kind == "f" and row.rule(i) is not None]
    if not wrt or value.dtype.kind != "f" or row.name in NO_DERIVATIVE:
        return found
    places = [inputs[i].attrs["index"] for i in wrt]
    everything = [input_value(i, (3,), np.float64) for i in range(inputs[0].attrs["index"])] + list(inputs)
    current = [value]
    for _ in range(order):
        squares = [xp.sum(v * v, axis=(0,), keepdims=False) for v in current]
        total = sum(squares[1:], squares[0])
        current = list(grad(Graph(everything, [total]), places).outputs)
        found += current
    return found


@pytest.mark.parametrize("name", ROWS)
def test_formula(name):
    row = TABLE[name]
    inputs, arrays = operands(row)
    graph = verify(Graph(inputs, outputs(row, inputs), row.args))
    for found, wanted in zip(lower(graph).evaluate(arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_rules_have_exact_constants(name):
    """Value and derivatives to order 2 mention no float, unless a setting is one, or the row has a number of its own."""
    row = TABLE[name]
    inputs, _ = operands(row)
    program = lower(Graph(inputs, outputs(row, inputs), row.args))
    settings = [number(x) for x in (samples(row)[-1][1] if row.attrs else {}).values() if isinstance(x, float)]
    found = {e for expression in program.outputs + tuple(e for _, e in program.bindings) for e in expression.atoms(sp.Float)}
    assert not found or name == "gelu" or any(isinstance(x, sp.Float) for x in settings)


@pytest.mark.parametrize("order", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("batch", BATCHES, ids=range(6))
def test_kernel(batch, order):
    """Several rows in one kernel, to save time. Derivatives are made of rows, so that lowering each of them says nearly all."""
    inputs, arrays, results, names = [], [], [], []
    for name in batch:
        some, values = operands(TABLE[name], len(inputs))
        inputs, arrays = inputs + some, arrays + values
        found = outputs(TABLE[name], some, order)
        results, names = results + found, names + [f"{name}, output {i}" for i in range(len(found))]
    graph = verify(Graph(inputs, results))
    for found, wanted, name in zip(XlaKernel(graph)(arrays), evaluate(graph, arrays), names, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11, err_msg=name)


def test_nearly_all_rows_are_covered():
    left_out = {n for n, row in TABLE.items() if row.elementwise} - set(ROWS)
    assert left_out == NEEDS_COMPLEX
