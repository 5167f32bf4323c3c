"""What holds for every row of the table: it saves what its rules read, its rules are the derivatives of its meaning, its type rule
tells the truth."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.application import apply
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Row
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.rows import cotangent, describe, is_needed, ones, rules_of, run, unsaved
from symgrad.testing.samples import samples

ROWS = list(TABLE.values())
KNOWN = [row for row in ROWS if samples(row)]
ELEMENTWISE = [row for row in ROWS if row.elementwise]
STEPS = (sp.floor, sp.ceiling, sp.sign, sp.Mod, sp.Heaviside, sp.arg)


def refuses(row: Row) -> bool:
    """PyTorch has no derivative for it either."""
    return any(getattr(rule, "refuses", False) for rule in row.vjp)


RULED = [row for row in KNOWN if row.differentiable and row.pullback is None and not refuses(row)]
MEANT = [row for row in RULED if row.elementwise and row.sympy is not None and row.name != "complex"]


def by_name(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: row.name)


# --- saves


@by_name(RULED)
def test_rules_read_nothing_that_is_not_saved(row):
    for sample in samples(row):
        for i in rules_of(row, sample):
            assert cotangent(row, i, sample, ones(row, sample), unsaved(row, i, sample)) is not None


@by_name(RULED)
def test_nothing_is_saved_that_no_rule_reads(row):
    some = samples(row)
    for i in rules_of(row, some[0]):
        for name in row.reads(i):
            assert any(is_needed(row, i, sample, name) for sample in some), f"{name} is saved for argument {i}, and never read"


# --- meaning


@by_name(ELEMENTWISE)
def test_an_elementwise_row_has_a_meaning(row):
    assert row.sympy is not None


def symbols_of(row, args):
    """A real symbol for each argument; a condition is what it is in the sample."""
    return [sp.sympify(bool(a.all())) if a.dtype == bool else sp.Symbol(f"v{i}", real=True) for i, a in enumerate(args)]


def derivative(expression, symbol):
    """Steps have the derivative 0; SymPy leaves it open."""
    steps = {step: sp.Dummy(real=True) for step in expression.atoms(*STEPS)}
    back = {dummy: step for step, dummy in steps.items()}
    return sp.diff(expression.xreplace(steps), symbol).xreplace(back)


def evaluated(expression, symbols, args):
    words = {"Heaviside": lambda x, at=0.5: mpmath.mpf(x > 0) if x else at}
    names = [s if isinstance(s, sp.Symbol) else sp.Dummy() for s in symbols]
    f = sp.lambdify(names, expression, [words, "mpmath"])
    with mpmath.workdps(30):
        return np.array([float(mpmath.re(f(*(mpmath.mpf(float(v)) for v in values)))) for values in zip(*args, strict=True)])


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-13)


@by_name(MEANT)
def test_value_and_derivatives_are_those_of_the_meaning(row):
    for args, attrs in samples(row):
        if any(a.dtype.kind == "c" for a in args):
            continue  # a formula is about real numbers
        symbols = symbols_of(row, args)
        meaning = sp.sympify(row.sympy(sp, *symbols, **attrs))
        leaves = [wrap(a.copy(), requires_grad=a.dtype != bool) for a in args]
        wanted = [(leaf, symbol) for leaf, symbol in zip(leaves, symbols, strict=True) if leaf.requires_grad]
        out = apply(row, tuple(leaves), attrs)
        close(out._array, evaluated(meaning, symbols, args))
        firsts = sg.autograd.grad(out, [leaf for leaf, _ in wanted], wrap(np.ones(6)), create_graph=True, materialize_grads=True)
        for first, (_, symbol) in zip(firsts, wanted, strict=True):
            slope = derivative(meaning, symbol)
            close(first._array, evaluated(slope, symbols, args))
            check_second_order(first, slope, wanted, symbols, args)


def check_second_order(first, slope, wanted, symbols, args):
    leaves = [leaf for leaf, _ in wanted]
    seconds = [None] * len(leaves)
    if first.requires_grad:
        seconds = sg.autograd.grad(first, leaves, wrap(np.ones(6)), allow_unused=True, retain_graph=True)
    for second, (_, symbol) in zip(seconds, wanted, strict=True):
        close(0 if second is None else second._array, evaluated(derivative(slope, symbol), symbols, args))


# --- types

NUMBERS = [np.dtype(t) for t in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_, np.complex64)]


def kinds_of(row):
    """The types to try: an elementwise row takes any that it says it takes."""
    return [t for t in NUMBERS if kind(t) in row.kinds] if row.elementwise and row.name not in ("where", "complex") else NUMBERS[:2]


def cast(a, dtype):
    if not hasattr(a, "dtype") or kind(a.dtype) != "f":
        return a
    return np.ones(a.shape, dtype) if kind(dtype) in "bi" else a.astype(dtype)


@by_name(KNOWN)
def test_the_type_rule_agrees_with_the_kernel(row):
    for args, attrs in samples(row):
        for dtype in kinds_of(row):
            given = tuple(cast(a, dtype) for a in args)
            if kind(dtype) in "bi" and attrs.get("exponent", 0) < 0:
                continue  # refused, as in PyTorch
            assert describe(run(row, (given, attrs))) == describe(row.type(*given, **attrs)), dtype


@by_name([row for row in KNOWN if row.elementwise and len(row.args) > 1 and "f" in row.kinds])
def test_operands_broadcast(row):
    args, attrs = samples(row)[0]
    args = (args[0].reshape(2, 3), *(a[:2].reshape(2, 1) for a in args[1:]))
    result = run(row, (args, attrs))
    whole = run(row, (tuple(np.broadcast_to(a, (2, 3)).copy() for a in args), attrs))
    assert describe(result) == describe(row.type(*args, **attrs))
    np.testing.assert_array_equal(result._array, whole._array)


def test_every_differentiable_elementwise_row_is_among_the_samples():
    assert [row.name for row in ELEMENTWISE if row.differentiable and not samples(row)] == []
