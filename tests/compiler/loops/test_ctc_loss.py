"""ctc_loss in compiled functions: one loop over time, whatever its length, with eager code's numbers and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.nn import functional as F

rng = np.random.default_rng(5)
TARGETS, LENGTHS = sg.tensor(rng.integers(1, 6, (3, 4))), sg.tensor([4, 3, 1])


def loss(x):
    times = [len(x), len(x) - 1, len(x)]
    return F.ctc_loss(x.log_softmax(2), TARGETS, times, LENGTHS)


def scores(steps):
    return sg.tensor(np.random.default_rng(steps).standard_normal((steps, 3, 6)))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_numbers_and_gradients_are_those_of_eager_code(backend):
    x = scores(20)
    leaf = x.clone().requires_grad_()
    wanted = loss(leaf)
    wanted.backward()
    fast = sg.compile(loss, backend=backend)
    np.testing.assert_allclose(fast.grad(x, wrt="x").numpy(), leaf.grad.numpy(), rtol=1e-9, atol=1e-12)
    assert float(fast(x)) == pytest.approx(wanted.item(), rel=1e-12)
    np.testing.assert_allclose(fast.grad(x, wrt="x").numpy(), leaf.grad.numpy(), rtol=1e-9, atol=1e-12)
    other = x.clone().requires_grad_()
    fast(other).backward()
    np.testing.assert_allclose(other.grad.numpy(), leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_the_program_does_not_grow_with_time():
    """Written out, 50 steps kept XLA busy for more than 30 s."""
    lengths = []
    for steps in (10, 50):
        fast = sg.compile(loss, backend="numpy")
        fast.grad(scores(steps), wrt="x")
        lengths.append(len(fast.source("grad", wrt="x").splitlines()))
    assert max(lengths) < 60


def test_no_steps_are_refused():
    with pytest.raises(RuntimeError, match="log_probs tensor must not be empty"):
        F.ctc_loss(sg.zeros(0, 3, 6), TARGETS, [0, 0, 0], LENGTHS)
