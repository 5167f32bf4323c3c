"""Matrices for tests, the same on every call, and the check of first and second derivatives."""

from __future__ import annotations

import numpy as np

from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck


def array(*shape):
    return np.random.default_rng(len(shape) * 7 + sum(shape)).normal(size=shape)


def leaf(*shape):
    return wrap(array(*shape), requires_grad=True)


def regular(*shape):
    """Well-conditioned square matrices."""
    return wrap(array(*shape) + 3 * np.eye(shape[-1]), requires_grad=True)


def positive(x):
    """Positive-definite matrices, symmetric in the entries that central differences move."""
    return x @ x.mT + 2 * wrap(np.eye(x.shape[-1]))


def symmetric(x):
    return x + x.mT


def check(function, *args):
    assert gradcheck(function, args)
    assert gradgradcheck(function, args)
