"""Rows that are not elementwise, on the arguments that they get from public functions: first and second derivatives of small programs
are run, every row that takes part is caught with its arguments, and each is checked for itself. As the rules are made of rows, derivatives
of any order are right if every row's are."""

from __future__ import annotations

import numpy as np
import pytest
from row_samples import caught

from symgrad.ops.table import TABLE
from symgrad.testing.rows import cotangent, describe, exact, is_needed, ones, outputs_of, rules_of, run, slopes, unsaved

SAMPLES = caught()
SYMMETRIC = ("cholesky", "eigh")  # of a symmetric matrix, of which the kernel reads one half and the rule moves both
RULED = [name for name in SAMPLES if TABLE[name].differentiable]


@pytest.mark.parametrize("name", RULED)
def test_rules_save_what_they_read(name):
    row = TABLE[name]
    for i in range(max(len(sample[0]) for sample in SAMPLES[name])):
        some = [sample for sample in SAMPLES[name] if i in rules_of(row, sample)]
        for sample in some:
            assert cotangent(row, i, sample, ones(row, sample), unsaved(row, i, sample)) is not None
        for word in row.reads(i) if some else ():
            assert any(is_needed(row, i, sample, word) for sample in some), f"{word} is saved for argument {i}, and never read"


@pytest.mark.parametrize("name", RULED)
def test_rules_are_derivatives(name):
    row = TABLE[name]
    for sample in SAMPLES[name]:
        outs = outputs_of(row, sample)
        if np.complex128 in [getattr(x, "dtype", None) for x in (*sample[0], *outs)]:
            continue  # differences are of real numbers
        if name == "embedding" and sample[0][2] is not None:
            continue  # scale_grad_by_freq is meant not to be the derivative
        g = tuple(np.random.default_rng(3).normal(size=o.shape) if o.dtype.kind == "f" else None for o in outs)
        noise = 1e-9 * sum(float(np.abs(o * c).sum()) for o, c in zip(outs, g, strict=True) if c is not None)
        for i in rules_of(row, sample):
            pair = exact(row, i, sample, g), slopes(row, i, sample, g)
            if name in SYMMETRIC:
                pair = tuple(m + m.mT for m in pair)
            np.testing.assert_allclose(*pair, rtol=1e-5, atol=1e-7 + noise)


@pytest.mark.parametrize("name", [name for name in SAMPLES if name != "nonzero"])  # whose shape only values tell
def test_the_type_rule_agrees_with_the_kernel(name):
    for args, attrs in SAMPLES[name]:
        for dtype in (np.float64, np.float32):
            given = tuple(x.astype(dtype) if getattr(x, "dtype", None) == np.float64 else x for x in args)
            assert describe(run(TABLE[name], (given, attrs))) == describe(TABLE[name].type(*given, **attrs))


def test_every_row_with_a_derivative_takes_part():
    missing = [name for name, row in TABLE.items() if row.differentiable and not row.elementwise and name not in SAMPLES]
    assert missing == [], f"enter a program in tests/support/row_programs.py that uses {missing}"
