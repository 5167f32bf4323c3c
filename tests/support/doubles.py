"""Drawn tensors in float64, and when two of them count as the same."""

import numpy as np

import symgrad as sg


def tensor(*shape, seed=0, grad=True):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), dtype=sg.float64, requires_grad=grad)


def close(found, expected, tolerance=1e-9):
    found, expected = (x.detach().numpy() if isinstance(x, sg.Tensor) else np.asarray(x) for x in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def gradients(f, args):
    """What backward() leaves in each of the arguments."""
    for a in args:
        a.grad = None
    f(*args).backward()
    return [sg.zeros_like(a) if a.grad is None else a.grad.clone() for a in args]
