"""Every row program in every notation, and step by step: a formula that runs, or an error that says which op and what to use instead."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import FormulaError, TraceError
from tests.support.row_programs import PROGRAMS

MORE = {
    "max of a vector": (lambda x: x.max(), np.array([0.5, -0.3, 1.2])),
    "prod of a vector": (lambda x: x.prod(), np.array([0.5, -0.3, 1.2])),
    "det of a diagonal": (lambda x: (x.diag() + 1).det(), np.array([0.5, -0.3, 1.2])),
    "logsumexp of a vector": (lambda x: x.logsumexp(0), np.array([0.5, -0.3, 1.2])),
    "eigvalsh": (lambda x: sg.linalg.eigvalsh(sg.eye(3, dtype=sg.float64) + x.diag())[0], np.array([0.5, -0.3, 1.2])),
    "chosen indices": (lambda x: x[sg.tensor([0, 0, 2])].sum(), np.array([0.5, -0.3, 1.2])),
    "elementwise": (lambda x: x.sin() * x, np.array([0.5, -0.3, 1.2])), "nansum of a vector": (lambda x: x.nansum(), np.array([0.5, 1.2])),
}  # fmt: skip
CASES = {name: case for name, case in {**PROGRAMS, **MORE}.items() if all(a.dtype.kind == "f" for a in case[1:])}
NO_FORMULA = {"fft"}
"""Of all of whose elements the derivative has no closed form."""
INNER = re.compile(r"ufunc|NoneType|object has no|<class|casting rule|truth value|dtype\('|SymPy cannot write|'object'")
SAYS_INSTEAD = re.compile(r"(try|use) (notation=)?'(index|elements|matrix)'|print the derivation instead|derive one number of it")


def check(error, name="", notation=""):
    """`auto` finds a notation for nearly all functions."""
    text = str(error)
    assert notation != "auto" or name in NO_FORMULA, text
    assert not INNER.search(text), text
    assert SAYS_INSTEAD.search(text), text


@pytest.mark.parametrize("notation", ["scalar", "elements", "matrix", "index", "auto"])
@pytest.mark.parametrize("name", CASES)
def test_notation(name, notation):
    f, *arrays = CASES[name]
    args = [sg.tensor(a) for a in arrays]
    try:
        derivation = sg.derive(f, notation=notation)(*args)
    except TraceError:  # a shape that depends on values, or a result of integers
        return
    except FormulaError as error:
        check(error, name, notation)
        return
    assert str(derivation)
    assert derivation.latex()
    value = derivation(*args)[0]
    np.testing.assert_allclose(value.numpy(), f(*args).numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_steps(name):
    f, *arrays = CASES[name]
    try:
        derivation = sg.derive(f)(*(sg.tensor(a) for a in arrays))
        steps = derivation.steps()
    except TraceError:
        return
    except FormulaError as error:
        check(error)
        return
    assert str(steps)
    assert steps.latex()
