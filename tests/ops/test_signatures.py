"""The table and the public functions are one list: every row is what some public call records, or a helper that rules are written with.

The programs that the other tests of rows share are run, and what they record is noted. Any other row is called under its own name
with its samples, or as CALLS says, if its public signature is another one.
"""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
from row_programs import PROGRAMS

import symgrad as sg
import symgrad.nn.functional as F
from symgrad import ops
from symgrad.compiler.ir.pattern import Pattern
from symgrad.compiler.ir.printer import text
from symgrad.compiler.rewrite.stable import stabilise
from symgrad.compiler.trace.trace import trace
from symgrad.mode import local
from symgrad.observer import Observer
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.samples import samples

HELPERS = (
    "adaptive_avg_unpool", "assemble", "avg_unpool", "cofactor", "cofactor_derivative", "convolution_weight", "cosine", "embed",
    "index_back", "log1p_square_slope", "nll_spread", "normal_cdf", "pool_gather", "pool_scatter", "prod_rest", "recurrence",
    "scatter_along", "share", "shift", "sinc_derivative", "tanh_backward", "unfold_transpose",
)  # fmt: skip
"""Rows that only rules use."""
REWRITTEN = ("bose", "exprel", "log1mexp", "log1p_square", "log_cosh", "power1pm1", "sech_square", "xlogx")
"""Rows that stable rules put in the place of others."""
TRACED = ("detach",)
"""Eager code shares the memory and records nothing."""
ENGINE = ("tied",)
"""What the engine records itself."""


def real(*shape):
    return wrap(np.random.default_rng(0).uniform(0.1, 0.9, size=shape))


X, SQUARE, IMAGE = real(2, 3), real(3, 3), real(1, 2, 4, 4)
WHOLE, COMPLEX = wrap(np.array([1, 2, 2, 5])), wrap(np.array([1 + 2j, 3 - 1j]))

CALLS = {
    "bincount": lambda: sg.bincount(WHOLE),
    "bitwise_and": lambda: WHOLE & 1,
    "bitwise_left_shift": lambda: WHOLE << 1,
    "bitwise_not": lambda: ~WHOLE,
    "bitwise_or": lambda: WHOLE | 1,
    "bitwise_right_shift": lambda: WHOLE >> 1,
    "bitwise_xor": lambda: WHOLE ^ 1,
    "cast": lambda: X.to(sg.float32),
    "clamp_between": lambda: sg.clamp(X, X, X + 1),
    "conj": lambda: COMPLEX.conj(),
    "convolution_transpose": lambda: F.conv_transpose2d(IMAGE, real(2, 3, 2, 2)),
    "div_rounded": lambda: sg.div(X, X, rounding_mode="floor"),
    "elu": lambda: F.elu(X),
    "eye": lambda: sg.matrix_power(SQUARE, 0),
    "hardtanh": lambda: F.hardtanh(X),
    "imag": lambda: COMPLEX.imag,
    "log_sigmoid": lambda: F.logsigmoid(X),
    "normalize_by": lambda: F.batch_norm(IMAGE, real(2), real(2)),
    "one_hot": lambda: F.one_hot(WHOLE),
    "polygamma": lambda: sg.polygamma(1, X),
    "power": lambda: X**3,
    "prelu": lambda: F.prelu(X, real(3)),
    "rdiv": lambda: 1 / X,
    "real": lambda: COMPLEX.real,
    "round_to": lambda: sg.round(X, decimals=1),
    "unique": lambda: sg.unique(WHOLE),
    "unique_consecutive": lambda: sg.unique_consecutive(WHOLE),
    "view_write": lambda: sg.select_scatter(X, X[0], 0, 1),
    "zero": lambda: X.clone().requires_grad_().exp().zero_(),
}


class Rows(Observer):
    """The names of the rows that were run."""

    def __init__(self):
        super().__init__(None)
        self.names = set()

    def on_op(self, row, args, attrs, result):
        self.names.add(row.name)


def rows_of(program):
    before = local.mode.swap_capture(Rows())
    try:
        program()
        return local.mode.capture.names
    finally:
        local.mode.swap_capture(before)


def own_call(name):
    """The public function of the row's name, called with the row's samples."""
    homes = (sg, sg.special, sg.linalg, F, sg.Tensor)
    function = next((getattr(home, name) for home in homes if hasattr(home, name)), None)
    assert function is not None, f"row {name!r} has no public function: give it one, or name it in CALLS or HELPERS"
    args, attrs = samples(TABLE[name])[0]
    return lambda: function(*(wrap(a) if isinstance(a, np.ndarray) else a for a in args), **attrs)


def with_leaves(function, arrays):
    return lambda: function(*(wrap(x.copy(), requires_grad=True) for x in arrays))


@pytest.fixture(scope="module")
def used_by_programs():
    return set().union(*(rows_of(with_leaves(function, arrays)) for function, *arrays in PROGRAMS.values()))


@pytest.mark.parametrize("name", [name for name in TABLE if name not in HELPERS + REWRITTEN + TRACED + ENGINE])
def test_a_public_function_records_the_row(name, used_by_programs):
    assert name in used_by_programs or name in rows_of(CALLS.get(name) or own_call(name))


@pytest.mark.parametrize("name", TRACED)
def test_a_public_function_has_the_row_in_its_trace(name):
    function = getattr(sg, name)
    assert name in text(trace(lambda args: function(args[0] * 2) * args[0], [X], ["x"]).graph)


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_records_the_row(name):
    x = wrap(np.ones((1, 1, 2, 2)), requires_grad=True)
    (g,) = sg.autograd.grad(sg.max_pool2d(x, 2).sum(), x, create_graph=True)
    assert g.grad_fn.row is TABLE[name]


@pytest.mark.parametrize("name", HELPERS)
def test_a_helper_is_used_by_rules_and_not_public(name):
    rules = "".join(path.read_text() for path in pathlib.Path(ops.__file__).parent.glob("*.py"))
    assert re.search(rf"\bxp\.{name}\b", rules)
    assert not any(hasattr(home, name) for home in (sg, F, sg.linalg, sg.special))


@pytest.mark.parametrize("name", REWRITTEN)
def test_a_stable_row_is_made_by_a_rule_and_not_public(name):
    assert name in {op for rule in stabilise if isinstance(rule.result, Pattern) for op in rule.result.ops}
    assert not any(hasattr(home, name) for home in (sg, F, sg.linalg, sg.special))


def test_calls_and_helpers_name_rows():
    assert CALLS.keys() | {*HELPERS, *REWRITTEN, *TRACED, *ENGINE} <= TABLE.keys()
    assert not CALLS.keys() & {*HELPERS, *TRACED}
