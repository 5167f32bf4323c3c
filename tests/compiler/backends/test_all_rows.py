"""Every row of the table, compiled, is what it is eagerly: value, VJP, JVP and second order; in every type of number that it takes.

Many rows are one function, since what compiling costs is mostly a kernel's own. The interpreter and NumPy run all of it at every time;
XLA runs values and VJPs of some that are not elementwise (for those see test_elementwise_rows.py), and all of it where slow tests run.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from fuzzing.world import interpreted
from row_functions import Together, batches, cases, slopes

import symgrad as sg
from symgrad.tensor import wrap

ALL = batches(cases(), 8)
TELLING = (
    "matmul", "view_write", "index_put", "scatter", "scatter_add", "index_back", "diagonal", "diag_embed", "getitem", "embed", "cumprod",
    "logcumsumexp", "sort", "max_along", "prod", "std", "vector_norm", "affine_norm", "softmax", "nll_loss", "max_pool", "avg_pool",
    "convolution", "cholesky", "einsum", "expand", "unfold", "split", "assemble", "roll", "embedding", "recurrence",
)  # fmt: skip
SOME = [case for case in cases(1) if case.name in TELLING]
MAGNIFIES = {"cofactor_derivative"}
"""Its second derivatives are what is left of numbers a million times as large."""
KINDS = {
    "float32": (np.float32, 1e-3), "float16": (np.float16, 3e-2), "bfloat16": (ml_dtypes.bfloat16, 2e-1),
    "complex128": (np.complex128, 1e-9),
}  # fmt: skip
WHOLE = ("bool", "int8", "uint8", "int32", "int64")


def close(found, wanted, names, rtol, least=1e-12):
    for a, b, name in zip(found, wanted, names, strict=True):
        if b is None or a is None:
            assert not np.any(0 if a is None and b is None else (b if a is None else a)._array), name
            continue
        assert a._array.dtype == b._array.dtype, name
        x, y = (np.asarray(t._array, complex if t.is_complex() else float) for t in (a, b))
        scale = np.abs(y[np.isfinite(y)]).max(initial=0)
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * scale + least, err_msg=name)


def agree(some, order=1, rtol=1e-9, **options):
    together = Together(some)
    fast = sg.compile(together, **options)
    leaves = together.leaves()
    wanted = together(*leaves)
    close(fast(*leaves), wanted, together.names, rtol)
    for n in range(1, order + 1):
        if n > 1:
            together = Together([case for case in some if case.name not in MAGNIFIES])
            fast, leaves = sg.compile(together, **options), together.leaves()
        close(slopes(fast, leaves, n), slopes(together, leaves, n), together.inputs(), rtol * 10**n)


def agree_forwards(some, rtol=1e-9, **options):
    """The JVP, along directions of their own for all inputs."""
    together = Together(some)
    leaves = [t.detach() for t in together.leaves()]
    along = [wrap(np.cos(np.arange(t.numel()) + k).reshape(t.shape).astype(t._array.dtype)) for k, t in enumerate(leaves)]
    asked = [k for k, t in enumerate(leaves) if t.is_floating_point() or t.is_complex()]

    def only(*given):
        full = list(leaves)
        for k, t in zip(asked, given, strict=True):
            full[k] = t
        return tuple(t for t in together(*full) if t.is_floating_point() or t.is_complex())

    values, tangents = [leaves[k] for k in asked], [along[k] for k in asked]
    _, wanted = sg.func.jvp(only, tuple(values), tuple(tangents))
    found = sg.compile(only, **options).jvp(*values)(*tangents)
    close(found, wanted, [f"output {k}" for k in range(len(wanted))], rtol)


def of_kind(name, some):
    dtype, rtol = KINDS[name]
    return [case for case in (case.cast(dtype) for case in some) if case is not None], rtol


@pytest.mark.parametrize("batch", range(8))
def test_values_and_two_orders_of_derivatives(batch):
    with interpreted():
        agree(ALL[batch], 2)


@pytest.mark.parametrize("batch", range(8))
def test_values_and_two_orders_of_derivatives_by_numpy(batch):
    agree(ALL[batch], 2, backend="numpy")


@pytest.mark.parametrize("batch", range(8))
def test_forward_derivatives(batch):
    with interpreted():
        agree_forwards(ALL[batch])


@pytest.mark.parametrize("name", KINDS)
def test_other_types(name):
    for batch in ALL:
        with interpreted():
            some, rtol = of_kind(name, batch)
            assert len(some) > 20
            agree(some, 1, rtol)


def agree_in_whole_numbers(name, some, **options):
    """Counts and sums of integers are exact. Functions of them are floats, whose error is that of numbers near 1."""
    together = Together([case for case in (case.cast(np.dtype(name)) for case in some) if case is not None])
    leaves, fast = together.leaves(), sg.compile(together, **options)
    wanted = together(*leaves)
    for i, (x, y) in enumerate(zip(fast(*leaves), wanted, strict=True)):
        close([x], [y], [together.names[i]], 1e-4 if y.is_floating_point() or y.is_complex() else 0, 1e-6 if y.is_floating_point() else 0)
    assert len(together.cases) > 30


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers(name):
    for batch in ALL:
        agree_in_whole_numbers(name, batch, backend="numpy")


def test_values_and_slopes_through_xla():
    assert {case.name for case in SOME} == set(TELLING)
    agree(SOME)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_values_and_two_orders_of_derivatives_through_xla(batch):
    agree(ALL[batch], 2)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_forward_derivatives_through_xla(batch):
    agree_forwards(ALL[batch])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("batch", range(8))
def test_other_types_through_xla(batch, name):
    agree(*of_kind(name, ALL[batch])[:1], 1, KINDS[name][1])


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("batch", range(8))
def test_whole_numbers_through_xla(batch, name):
    agree_in_whole_numbers(name, ALL[batch])
