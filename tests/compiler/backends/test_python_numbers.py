"""Python numbers get into programs as they are: 1e300 and 0.1 into float64, 2**60 + 1 into int64, complex ones into complex128."""

from __future__ import annotations

import numpy as np
import pytest
from number_functions import ALL, WRITES

import symgrad as sg
from symgrad.errors import TraceError

NUMBERS = [
    (sg.float64, 1e300), (sg.float64, 0.1), (sg.float64, 2**53 + 1), (sg.complex128, 1e300), (sg.complex128, 0.1 + 0.2j),
    (sg.int64, 2**60 + 1), (sg.int64, 2.7), (sg.float32, 0.1), (sg.float32, 1e-30), (sg.float64, np.float64(0.1)), (sg.int32, 3),
    (sg.bool, True),
]  # fmt: skip
numbers = pytest.mark.parametrize(("dtype", "c"), NUMBERS, ids=[f"{d.name}-{c}" for d, c in NUMBERS])


def point(dtype):
    return sg.tensor([1, 2, 3, 4]).to(dtype) if dtype in (sg.int64, sg.int32) else sg.tensor([0.5, 1.5, 2.5, 3.5]).to(dtype)


def eager(dtype, c):
    """What the functions give that take such numbers."""
    found = {}
    for name, f in ALL.items():
        try:
            found[name] = f(point(dtype), c)
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            continue
    return found


def assert_equal(found, expected, name=""):
    found, expected = found.detach().numpy(), expected.detach().numpy()
    assert found.dtype == expected.dtype, name
    tolerance = {"rtol": 4 * np.finfo(expected.dtype).eps, "atol": 0} if expected.dtype.kind in "fc" and name not in WRITES else {"rtol": 0}
    np.testing.assert_allclose(found, expected, **tolerance, err_msg=name)


@numbers
def test_numpy(dtype, c):
    expected = eager(dtype, c)
    assert len(expected) > 15
    for name, value in expected.items():
        f = ALL[name]
        assert_equal(sg.compile(lambda x, f=f: f(x, c), backend="numpy")(point(dtype)), value, name)
        try:
            found = sg.compile(f, backend="numpy")(point(dtype), c)
        except TraceError:  # a number that decides a shape
            continue
        assert_equal(found, value, name)


@numbers
def test_xla(dtype, c):
    expected = eager(dtype, c)
    found = sg.compile(lambda x: {name: ALL[name](x, c) for name in expected}, backend="xla")(point(dtype))
    for name, value in expected.items():
        assert_equal(found[name], value, name)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_arguments_are_written_as_they_are(backend):
    x, compiled = point(sg.float64), sg.compile(lambda x, c: {name: f(x, c) for name, f in WRITES.items()}, backend=backend)
    for c in (1e300, 0.1, -0.0, 1e-300):
        for name, found in compiled(x, c).items():
            assert_equal(found, WRITES[name](x, c), name)


@pytest.mark.parametrize("c", [1e300, 0.1])
def test_derivatives_and_formulas(c):
    """Before a call, after it, and by the formula."""
    x = point(sg.float64)
    for name, f in WRITES.items():

        def total(x, f=f):
            return (f(x, c) / c).sum()

        leaf = x.clone().requires_grad_()
        total(leaf).backward()
        compiled = sg.compile(total, backend="numpy")
        assert_equal(compiled.grad(x, wrt="x"), leaf.grad, name)
        assert_equal(compiled(x), total(x), "value of " + name)
        assert_equal(compiled.grad(x, wrt="x"), leaf.grad, name)
        value, slope = sg.derive(total, wrt="x")(x)(x)
        assert_equal(value, total(x), "formula of " + name)
        assert_equal(slope, leaf.grad, "formula of " + name)


def test_files(tmp_path):
    x = point(sg.float64)
    for i, c in enumerate((1e300, 0.1)):
        sg.compile(lambda x, c=c: {name: f(x, c) for name, f in WRITES.items()}).export(tmp_path / f"{i}.sgx", x)
        for name, found in sg.load_compiled(tmp_path / f"{i}.sgx")(x).items():
            assert_equal(found, WRITES[name](x, c), name)
