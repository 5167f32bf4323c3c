"""The JAX column of the rows under nn.functional: what the emitter would write, run, and compared with the NumPy kernel."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.backends.xla.emit import _mentions
from symgrad.mode import local
from symgrad.ops import activation, normalization
from symgrad.ops.table import TABLE
from symgrad.testing.neural_samples import NEURAL
from symgrad.testing.samples import samples

jax = pytest.importorskip("jax")

ACTIVATIONS = [
    "celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "mish",
    "normal_cdf", "normalize_by", "prelu", "silu", "softplus", "softshrink", "threshold",
]  # fmt: skip


def lowered(row, *some):
    """The values of the row's text for some samples, computed as one program."""
    return jax.jit(lambda values: [expression(row, args, attrs, given) for (args, attrs), given in zip(some, values, strict=True)])(
        [{f"operand_{i}": a for i, a in enumerate(args) if a is not None} for args, _ in some]
    )


def expression(row, args, attrs, values):
    if isinstance(row.jax, str):
        function = jax
        for word in row.jax.replace("jnp.", "jax.numpy.").split(".")[1:]:
            function = getattr(function, word)
        return function(*values.values(), **attrs)
    text = row.jax(*(None if a is None else f"operand_{i}" for i, a in enumerate(args)), **attrs)
    _mentions(row.name, text, frozenset(values))  # refuses foreign names
    return eval(text, {"jax": jax, "jnp": jax.numpy, **values})


@pytest.mark.parametrize("name", [*ACTIVATIONS, *NEURAL])
def test_lowering(name):
    row, some = TABLE[name], samples(TABLE[name])
    with jax.enable_x64(True):
        results = lowered(row, *some)
    for got, (args, attrs) in zip(results, some, strict=True):
        expected = local.mode.run(row.numpy, *args, **attrs)
        pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
        for mine, wanted in pairs:
            assert mine.shape == np.shape(wanted)
            np.testing.assert_allclose(np.asarray(mine), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["max_pool", "avg_pool", "avg_unpool"])
def test_samples_of_pooling_have_windows_of_every_kind(name):
    windows = [attrs for _, attrs in samples(TABLE[name])]
    assert {"kernel", "stride", "padding", "ceil_mode"} <= windows[0].keys()
    assert {any(window["padding"]) for window in windows} == {window["ceil_mode"] for window in windows} == {True, False}
    assert all(len({*window["stride"]}) == len({*window["kernel"]}) == 2 for window in windows)  # rows are told from columns


def test_places_of_maxima_at_ties_and_nans():
    """Of equal values the first wins, of NaNs the last."""
    window = {"kernel": (2, 2), "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "ceil_mode": False}
    x = np.round(np.random.default_rng(0).normal(size=(2, 2, 5, 5)))
    x[0, 0, 1, 1:3] = np.nan
    x[1, 1, :2] = -np.inf
    with jax.enable_x64(True):
        ((values, places),) = lowered(TABLE["max_pool"], ((x,), window))
    expected, indices = TABLE["max_pool"].numpy(x, **window)
    np.testing.assert_array_equal(np.asarray(values), expected)
    np.testing.assert_array_equal(np.asarray(places), indices)


def test_every_row_of_the_two_files_is_here():
    entered = {
        name
        for name, row in TABLE.items()
        if row.vjp[:1] and getattr(row.vjp[0], "__module__", "") in (activation.__name__, normalization.__name__)
    }
    assert entered <= {*ACTIVATIONS, *NEURAL}
