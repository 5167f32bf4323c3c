"""symgrad.fft, and eigenvalues of any matrix: NumPy's numbers, right derivatives of orders 1 and 2, the same on both back ends."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5))


@pytest.mark.parametrize("n", [None, 4, 7])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_numbers_are_numpys(name, n):
    got = getattr(sg.fft, name)(sg.tensor(X), n, norm="ortho")
    np.testing.assert_allclose(got.numpy(), getattr(np.fft, name)(X, n, norm="ortho"), atol=1e-14)


def spectrum(x):
    return (sg.fft.fft(x, 6).abs() * sg.arange(6)).sum() + sg.fft.irfft(x).prod()


def radius(x):
    values, vectors = sg.linalg.eig(x)
    return (values.abs() ** 2).sum() + (vectors.real * sg.tensor([[1.0, 2.0, 0.5]])).abs().sum()


@pytest.mark.parametrize(("function", "x"), [(spectrum, X), (radius, RNG.normal(size=(3, 3)))])
def test_derivatives(function, x):
    t = sg.tensor(x, requires_grad=True)
    assert gradcheck(function, (t,))
    assert gradgradcheck(function, (t,), atol=1e-4)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize(("function", "x"), [(spectrum, X), (radius, RNG.normal(size=(3, 3)))])
def test_compiled(function, x, backend):
    t = sg.tensor(x, requires_grad=True)
    value = function(t)
    value.backward()
    before = sg.compile(function, backend=backend)
    np.testing.assert_allclose(np.asarray(before.grad(x, wrt="x")), t.grad.numpy(), rtol=1e-9)
    np.testing.assert_allclose(float(before(x)), value.item(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(before.grad(x, wrt="x")), t.grad.numpy(), rtol=1e-9)
    u = sg.tensor(x, requires_grad=True)
    before(u).backward()
    np.testing.assert_allclose(u.grad.numpy(), t.grad.numpy(), rtol=1e-9)


def test_empty_and_bad_calls():
    assert sg.fft.fft(sg.zeros(0, 3)).shape == (0, 3)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        sg.fft.fft(sg.zeros(0))
    with pytest.raises(RuntimeError, match="rfft expects a real input tensor"):
        sg.fft.rfft(sg.zeros(2, dtype=sg.complex64))
