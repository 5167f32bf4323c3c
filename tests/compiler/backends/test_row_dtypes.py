"""Every row in every type of number that it takes: value, gradient at a cotangent of ones, tangent, and with Python numbers for operands.

The interpreter runs the rows' own kernels on arrays of the graph's types: it says what is right. NumPy's programs run all graphs at every
time, XLA's a sample of them, and all where slow tests run. That the interpreter agrees with eager code is shown in test_all_rows.py.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from typed_graphs import DTYPES, FLOATS, graphs, typed_cases

import symgrad as sg
from symgrad.compiler.backends.numpy.kernel import HostKernel as HostKernel
from symgrad.compiler.backends.xla.kernel import XlaKernel as XlaKernel
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.subgraph import inline


def assert_close(found, wanted, graph, dtype, name):
    for a, b, v in zip(found, wanted, graph.outputs, strict=True):
        assert a.dtype == b.dtype == v.dtype, name
        x, y = (np.asarray(t, complex if t.dtype.kind == "c" else float) for t in (a, b))
        rtol = 100 * float(ml_dtypes.finfo(DTYPES[dtype]).eps) if dtype in FLOATS else 1e-4
        scale = np.abs(y[np.isfinite(y)]).max(initial=0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale + 1e-12, err_msg=f"{name} in {dtype}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy(dtype):
    count = 0
    for case in typed_cases(dtype):
        for name, graph, arrays in graphs(case):
            assert_close(HostKernel(graph)(arrays), evaluate(graph, arrays), graph, dtype, name)
            count += 1
    assert count > (1000 if dtype in FLOATS else 200)


def together(some):
    """Many graphs as one, to save compiles: the graph, its arrays, the name of each output."""
    inputs, outputs, arrays, names = [], [], [], []
    for name, graph, given in some:
        own = [input_value(len(inputs) + i, x.shape, x.dtype) for i, x in enumerate(graph.inputs)]
        found = inline(graph, own)
        inputs, outputs, arrays, names = [*inputs, *own], [*outputs, *found], [*arrays, *given], names + [name] * len(found)
    return Graph(inputs, outputs), arrays, names


def check_xla(some, dtype):
    graph, arrays, names = together(some)
    wanted, found = evaluate(graph, arrays), XlaKernel(graph)(arrays)
    for a, b, v, name in zip(found, wanted, graph.outputs, names, strict=True):
        assert_close([a], [b], Graph(graph.inputs, (v,)), dtype, name)


SAMPLE = ("share", "where", "pow", "tanh_backward", "floor_divide", "lerp", "masked_fill", "view_as_real", "cumprod", "mean", "sign")


@pytest.mark.parametrize("dtype", ["float16", "complex64", "bool"])
def test_xla(dtype):
    some = [g for case in typed_cases(dtype) if case.name in SAMPLE and case.number == 0 for g in graphs(case)]
    assert len(some) > 2
    check_xla(some, dtype)


@pytest.mark.parametrize("batch", [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_large_numbers_of_half_precision_do_not_overflow_on_the_way(batch):
    """Squares of 300 are more than float16 holds: what eager code computes in float32, XLA must, too."""
    found = []
    with np.errstate(all="ignore"):
        for case in typed_cases("float16")[batch::4]:
            name, graph, arrays = next(iter(graphs(case)))
            found.append((name, graph, [a * np.float16(200) if a.dtype == np.float16 else a for a in arrays]))
        check_xla(found, "float16")


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_through_xla(dtype, batch):
    check_xla([g for case in typed_cases(dtype)[batch::8] for g in graphs(case)], dtype)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gradients_of_extrema(backend, dtype):
    """Their cotangent is the number 1, before and after a call and by backward()."""
    x, y = (sg.tensor(v, dtype=getattr(sg, dtype)) for v in ([1.0, 2.0, 3.0], [2.0, 2.0, 1.0]))

    def f(x):
        return sg.minimum(x, y).sum() + sg.maximum(x, x[0]).sum() + sg.minimum(x[0], x[1])

    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    f(leaf).backward()
    fast = sg.compile(f, backend=backend)
    before, _, after = fast.grad(x, wrt="x"), fast(other).backward(), fast.grad(x, wrt="x")
    for found in (before, after, other.grad):
        assert found.dtype == x.dtype
        assert found.tolist() == leaf.grad.tolist() == [3.0, 1.5, 1.0]
