"""Samples of the arguments that rows get from public functions: first and second derivatives of small programs are run, and every row
that takes part is caught with its arguments."""

from __future__ import annotations

import functools

from row_programs import PROGRAMS

import symgrad as sg
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.rows import harvest


def squared(x):
    return ((x.abs() if x.is_complex() else x) ** 2).sum()


def to_second_order(f, arrays):
    """Value, gradient, and the gradient of a function of both."""
    leaves = [wrap(x.copy(), requires_grad=True) for x in arrays]
    loss = squared(f(*leaves))
    grads = sg.autograd.grad(loss, leaves, create_graph=True, materialize_grads=True)
    total = loss + sum(squared(g) for g in grads)
    sg.autograd.grad(total, leaves, materialize_grads=True, create_graph=True)


@functools.cache
def caught():
    """Up to four different samples of every row that is not elementwise."""
    found = harvest()
    for f, *arrays in PROGRAMS.values():
        with found:
            to_second_order(f, arrays)
    result = {}
    for name, many in found.samples.items():
        if not TABLE[name].elementwise:
            different = {(repr(attrs), tuple(getattr(x, "shape", x) for x in args)): (args, attrs) for args, attrs in many}
            result[name] = list(different.values())[:4]
    return result
