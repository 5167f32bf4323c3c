"""Reductions in a compiled function give the value and gradient of the eager one, at ties, zeros and NaN, too."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

nan = float("nan")
TIED = [[2.0, 1.0, 2.0], [3.0, 3.0, 3.0]]


@pytest.mark.parametrize(
    ("f", "data"),
    [
        (lambda x: x.max() + x.amin(1).sum() + x.max(1).values.sum(), TIED),
        (lambda x: x.std(1).sum() + x.norm() + x.var(), TIED),
        (lambda x: x.prod(1).sum() + x.cumprod(0).sum() + x.prod(), [[0.0, 3.0, 2.0], [1.0, 0.0, 5.0]]),
        (lambda x: (x.sort(1).values * sg.tensor([1.0, 2.0, 3.0])).sum() + x.topk(2).values.sum(), [[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]]),
        (lambda x: x.logsumexp(1).sum() + x.logcumsumexp(0).sum() + x.nansum(), [[1.0, 900.0, 3.0], [-900.0, 2.0, 0.5]]),
        (lambda x: x.nanquantile(0.4, 1).sum() + x.nanmedian(), [[3.0, nan, 2.0], [1.0, 5.0, nan]]),
    ],
)  # fmt: skip
def test_compiled_is_eager(f, data):
    x = wrap(np.array(data), requires_grad=True)
    want = f(x)
    want.backward()
    value, grad = sg.compile(f).value_and_grad(wrap(np.array(data), requires_grad=True))
    np.testing.assert_allclose(np.asarray(value._array), want._array, rtol=1e-12)
    np.testing.assert_allclose(np.asarray((grad[0] if isinstance(grad, tuple) else grad)._array), x.grad._array, rtol=1e-12, atol=1e-15)


def test_a_nan_that_comes_later_is_seen():
    f = sg.compile(lambda x: x.quantile(0.5, 1))
    f(wrap(np.array([[1.0, 2.0, 4.0]])))
    assert np.isnan(np.asarray(f(wrap(np.array([[1.0, nan, 4.0]])))._array)).all()
