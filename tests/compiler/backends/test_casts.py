"""Casts between all types of numbers are those of eager code on both back ends, also of numbers that the new type does not hold."""

import numpy as np
import pytest

import symgrad as sg

TYPES = [
    sg.float16, sg.bfloat16, sg.float32, sg.float64, sg.complex64, sg.complex128, sg.uint8, sg.int8, sg.int16, sg.int32, sg.int64, sg.bool,
]  # fmt: skip
NUMBERS = [0, 1, -1, 2.75, -2.75, 100, 280.5, -129.5, 30000, -30000]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_from_every_type(backend, dtype):
    x = sg.tensor(NUMBERS, dtype=sg.float64).to(dtype)
    x = x + x * 1j if dtype.is_complex else x
    found = sg.compile(lambda x: tuple(x.to(d) for d in TYPES), backend=backend)(x)
    for d, t in zip(TYPES, found, strict=True):
        assert t.dtype == d
        np.testing.assert_array_equal(t.to(sg.complex128).numpy(), x.to(d).to(sg.complex128).numpy(), err_msg=f"{dtype} to {d}")


def test_an_imaginary_number_is_true():
    assert sg.tensor([1j, 0j, 1 + 0j]).bool().tolist() == [True, False, True]
