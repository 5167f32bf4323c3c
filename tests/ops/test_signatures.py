"""The table and the public functions are one list: every row is what some public call records, or a helper that rules are written with.

A row is called under its own name with its samples; PROGRAMS gives the call for those whose public signature is another one.
"""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

import symgrad as sg
import symgrad.nn.functional as F
from symgrad import ops
from symgrad.compiler.capture import trace
from symgrad.compiler.printer import text
from symgrad.mode import Observer, local
from symgrad.ops.table import TABLE
from symgrad.tensor import wrap
from symgrad.testing.samples import samples

HELPERS = (
    "adaptive_avg_unpool", "assemble", "avg_unpool", "cofactor", "cofactor_derivative", "convolution_weight", "embed", "fold",
    "index_back", "nll_spread", "normal_cdf", "pool_gather", "pool_scatter", "prod_rest", "recurrence", "scatter_along", "share",
    "shift", "sinc_derivative", "tanh_backward",
)  # fmt: skip
"""Rows that only rules use."""
TRACED = ("detach",)
"""Eager code shares the memory and records nothing."""


def real(*shape):
    return wrap(np.random.default_rng(0).uniform(0.1, 0.9, size=shape))


X, SQUARE, IMAGE, INDEX = real(2, 3), real(3, 3), real(1, 2, 4, 4), wrap(np.array([[0, 1, 1], [1, 0, 0]]))
WHOLE, COMPLEX = wrap(np.array([1, 2, 2, 5])), wrap(np.array([1 + 2j, 3 - 1j]))
ROWS, SYMMETRIC = wrap(np.array([1, 0])), SQUARE @ SQUARE.mT + sg.eye(3, dtype=sg.float64)

PROGRAMS = {
    "adaptive_avg_pool": lambda: F.adaptive_avg_pool2d(IMAGE, 2),
    "addmm": lambda: sg.addmm(SQUARE, SQUARE, SQUARE),
    "affine_norm": lambda: F.batch_norm(IMAGE, None, None, training=True),
    "aminmax": lambda: sg.aminmax(X, dim=1),
    "argmax": lambda: sg.argmax(X, 1),
    "argmin": lambda: sg.argmin(X, 1),
    "avg_pool": lambda: F.avg_pool2d(IMAGE, 2),
    "bincount": lambda: sg.bincount(WHOLE),
    "binary_cross_entropy_with_logits": lambda: F.binary_cross_entropy_with_logits(X, X),
    "bitwise_and": lambda: WHOLE & 1,
    "bitwise_left_shift": lambda: WHOLE << 1,
    "bitwise_not": lambda: ~WHOLE,
    "bitwise_or": lambda: WHOLE | 1,
    "bitwise_right_shift": lambda: WHOLE >> 1,
    "bitwise_xor": lambda: WHOLE ^ 1,
    "cast": lambda: X.to(sg.float32),
    "cat": lambda: sg.cat([X, X]),
    "cholesky": lambda: sg.linalg.cholesky(SYMMETRIC),
    "clamp_between": lambda: sg.clamp(X, X, X + 1),
    "conj": lambda: COMPLEX.conj(),
    "convolution": lambda: F.conv2d(IMAGE, real(3, 2, 2, 2)),
    "convolution_transpose": lambda: F.conv_transpose2d(IMAGE, real(2, 3, 2, 2)),
    "count_nonzero": lambda: sg.count_nonzero(X, 1),
    "crop": lambda: F.pad(X, (-1, 0)),
    "cross": lambda: sg.linalg.cross(X, X),
    "cumprod": lambda: sg.cumprod(X, 0),
    "cumsum": lambda: sg.cumsum(X, 0),
    "det": lambda: sg.det(SQUARE),
    "diag_embed": lambda: sg.diag_embed(X),
    "diagonal": lambda: sg.diagonal(SQUARE),
    "div_rounded": lambda: sg.div(X, X, rounding_mode="floor"),
    "eigh": lambda: sg.linalg.eigh(SYMMETRIC),
    "einsum": lambda: sg.einsum("ij,kj,lj->ikl", X, X, X),
    "elu": lambda: F.elu(X),
    "embedding": lambda: F.embedding(ROWS, SQUARE),
    "euclidean_distance": lambda: sg.cdist(X, X),
    "expand": lambda: X.expand(4, 2, 3),
    "eye": lambda: sg.matrix_power(SQUARE, 0),
    "flip": lambda: sg.flip(X, (0,)),
    "getitem": lambda: X[0],
    "glu": lambda: F.glu(IMAGE),
    "hardtanh": lambda: F.hardtanh(X),
    "imag": lambda: COMPLEX.imag,
    "index": lambda: X[ROWS],
    "index_add": lambda: sg.index_add(X, 0, ROWS, X),
    "index_copy": lambda: sg.index_copy(X, 0, ROWS, X),
    "index_fill": lambda: sg.index_fill(X, 0, ROWS, 1.0),
    "index_put": lambda: sg.index_put(X, (ROWS,), X),
    "index_select": lambda: sg.index_select(X, 0, ROWS),
    "inv": lambda: sg.linalg.inv(SQUARE),
    "linear": lambda: F.linear(X, SQUARE),
    "log_sigmoid": lambda: F.logsigmoid(X),
    "log_softmax": lambda: F.log_softmax(X, 1),
    "logcumsumexp": lambda: sg.logcumsumexp(X, 0),
    "masked_fill": lambda: X.masked_fill(X > 0.5, 0),
    "matmul": lambda: X @ SQUARE,
    "max_all": lambda: X.max(),
    "max_along": lambda: X.max(1),
    "max_pool": lambda: F.max_pool2d(IMAGE, 2),
    "median_all": lambda: X.median(),
    "median_along": lambda: X.median(1),
    "min_all": lambda: X.min(),
    "min_along": lambda: X.min(1),
    "nanmedian_all": lambda: X.nanmedian(),
    "nanmedian_along": lambda: X.nanmedian(1),
    "nll_loss": lambda: F.nll_loss(X, ROWS),
    "nonzero": lambda: sg.nonzero(X),
    "normalize_by": lambda: F.batch_norm(IMAGE, real(2), real(2)),
    "pad": lambda: F.pad(X, (1, 1)),
    "permute": lambda: X.permute(1, 0),
    "pinv": lambda: sg.linalg.pinv(SQUARE),
    "polygamma": lambda: sg.polygamma(1, X),
    "power": lambda: X**3,
    "prelu": lambda: F.prelu(X, real(3)),
    "prod": lambda: sg.prod(X, 1),
    "qr": lambda: sg.linalg.qr(SQUARE),
    "rdiv": lambda: 1 / X,
    "real": lambda: COMPLEX.real,
    "replace": lambda: X.clone().requires_grad_().exp().copy_(X),
    "roll": lambda: sg.roll(X, 1, 0),
    "round_to": lambda: sg.round(X, decimals=1),
    "scatter": lambda: sg.scatter(X, 0, INDEX, X),
    "scatter_add": lambda: sg.scatter_add(X, 0, INDEX, X),
    "slogdet": lambda: sg.linalg.slogdet(SQUARE),
    "softmax": lambda: F.softmax(X, 1),
    "solve": lambda: sg.linalg.solve(SQUARE, SQUARE),
    "solve_triangular": lambda: sg.linalg.solve_triangular(SQUARE, SQUARE, upper=True),
    "split": lambda: sg.split(X, 1),
    "split_with_sizes": lambda: sg.split(X, [1, 2], 1),
    "squeeze": lambda: X[None].squeeze(0),
    "stack": lambda: sg.stack([X, X]),
    "svd": lambda: sg.linalg.svd(SQUARE),
    "take_along": lambda: sg.take_along_dim(X, INDEX, 1),
    "tile": lambda: X.tile(2, 2),
    "topk": lambda: sg.topk(X, 1),
    "trace": lambda: sg.trace(SQUARE),
    "unfold": lambda: X.unfold(1, 2, 1),
    "unique": lambda: sg.unique(WHOLE),
    "unique_consecutive": lambda: sg.unique_consecutive(WHOLE),
    "view_as_complex": lambda: sg.view_as_complex(real(3, 2)),
    "view_as_real": lambda: sg.view_as_real(COMPLEX),
    "view_write": lambda: sg.select_scatter(X, X[0], 0, 1),
    "zero": lambda: X.clone().requires_grad_().exp().zero_(),
}


class Rows(Observer):
    """The names of the rows that were run."""

    def __init__(self):
        super().__init__(None)
        self.names = set()

    def seen(self, row, result):
        self.names.add(row.name)


def rows_of(program):
    before, local.mode.capture = local.mode.capture, Rows()
    try:
        program()
        return local.mode.capture.names
    finally:
        local.mode.capture = before


def own_call(name):
    """The public function of the row's name, called with the row's samples."""
    homes = (sg, sg.special, sg.linalg, F, sg.Tensor)
    function = next((getattr(home, name) for home in homes if hasattr(home, name)), None)
    assert function is not None, f"row {name!r} has no public function: give it one, or name it in PROGRAMS or HELPERS"
    args, attrs = samples(TABLE[name])[0]
    return lambda: function(*(wrap(a) if isinstance(a, np.ndarray) else a for a in args), **attrs)


@pytest.mark.parametrize("name", [name for name in TABLE if name not in HELPERS + TRACED])
def test_a_public_function_records_the_row(name):
    assert name in rows_of(PROGRAMS.get(name) or own_call(name))


@pytest.mark.parametrize("name", TRACED)
def test_a_public_function_has_the_row_in_its_trace(name):
    function = getattr(sg, name)
    assert name in text(trace(lambda args: function(args[0] * 2) * args[0], [X], ["x"]).graph)


@pytest.mark.parametrize("name", HELPERS)
def test_a_helper_is_used_by_rules_and_not_public(name):
    rules = "".join(path.read_text() for path in pathlib.Path(ops.__file__).parent.glob("*.py"))
    assert re.search(rf"\bxp\.{name}\b", rules)
    assert not any(hasattr(home, name) for home in (sg, F, sg.linalg, sg.special))


def test_programs_and_helpers_name_rows():
    assert PROGRAMS.keys() | {*HELPERS, *TRACED} <= TABLE.keys()
    assert not PROGRAMS.keys() & {*HELPERS, *TRACED}
