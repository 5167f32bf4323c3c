"""When results of symgrad and of PyTorch count as the same."""

from __future__ import annotations

import numpy as np

import symgrad as sg


def array(t):
    return t._array if isinstance(t, sg.Tensor) else t.detach().numpy()


def agree(ours, theirs, our_grads, their_grads):
    """Shapes, types and values of the results, and the gradients, which are arrays or None."""
    for mine, other in zip(ours, theirs, strict=True):
        assert tuple(mine.shape) == tuple(other.shape)
        assert str(mine.dtype) == str(other.dtype)
        np.testing.assert_allclose(array(mine), array(other), rtol=1e-12)
    for mine, other in zip(our_grads, their_grads, strict=True):
        assert (mine is None) == (other is None)
        if other is not None:
            np.testing.assert_allclose(mine, other, rtol=1e-12, atol=1e-12)
