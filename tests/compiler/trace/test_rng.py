"""Random numbers that a compiled function draws at every call: the same as eager code draws, in arrays of every shape."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg

F = sg.nn.functional


def of_one_number(x, factors):
    return F.dropout(F.dropout(x.sum(), 0.1), 0.3) * factors.sum()


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_dropout_of_one_number_with_a_numpy_argument(backend):
    """What is drawn for a result without dimensions is an array, too, of which the history may keep a copy."""

    def run(f):
        sg.manual_seed(3)
        found = []
        for _ in range(6):
            x = sg.tensor([1 / 3, 2.0], dtype=sg.float64, requires_grad=True)
            y = f(x, np.ones(2))
            y.backward()
            found.append((y.item(), x.grad.tolist()))
        return found

    assert run(sg.compile(of_one_number, backend=backend)) == run(of_one_number)
