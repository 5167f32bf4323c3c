"""Number types: names, limits, promotion, defaults."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import symgrad as sg

NAMES = {
    "float64": "double", "float32": "float", "float16": "half", "int64": "long", "int32": "int", "int16": "short",
    "complex64": "cfloat", "complex128": "cdouble",
}  # fmt: skip


@pytest.mark.parametrize(("name", "other"), NAMES.items())
def test_both_names_are_one_object(name, other):
    assert getattr(sg, name) is getattr(sg, other)
    assert repr(getattr(sg, name)) == f"torch.{name}"


def test_attributes():
    assert (sg.float32.is_floating_point, sg.bfloat16.is_floating_point, sg.int8.is_floating_point) == (True, True, False)
    assert (sg.complex64.is_complex, sg.float32.is_complex) == (True, False)
    assert (sg.int8.is_signed, sg.uint8.is_signed, sg.bool.is_signed) == (True, False, False)
    assert (sg.float64.itemsize, sg.bfloat16.itemsize) == (8, 2)
    assert (sg.complex64.to_real(), sg.float64.to_complex()) == (sg.float32, sg.complex128)
    assert np.ones(2, sg.float16).dtype == np.float16


def test_limits():
    info = sg.finfo(sg.float32)
    assert (info.eps, info.max, info.bits, info.dtype) == (2**-23, float(np.finfo(np.float32).max), 32, "float32")
    assert sg.finfo().eps == info.eps
    assert sg.finfo(sg.complex128).tiny == float(np.finfo(np.float64).tiny)
    assert sg.finfo(sg.bfloat16).eps == 2**-7
    assert (sg.iinfo(sg.uint8).max, sg.iinfo(sg.int16).min) == (255, -32768)
    assert repr(sg.iinfo(sg.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"
    for limits, dtype, text in ((sg.finfo, sg.int32, "floating point"), (sg.iinfo, sg.float32, "integer"), (sg.iinfo, sg.bool, "bool")):
        with pytest.raises(TypeError, match=text):
            limits(dtype)


def test_promotion():
    assert sg.promote_types(sg.int64, sg.float16) is sg.float16
    assert sg.promote_types(sg.bfloat16, sg.float16) is sg.float32
    assert sg.promote_types(sg.uint8, sg.int8) is sg.int16
    assert sg.result_type(sg.tensor([1]), 1.5) is sg.float32
    assert sg.result_type(sg.tensor(1.0, dtype=sg.float64), sg.ones(2)) is sg.float32
    assert sg.result_type(1, 2.0) is sg.float32
    assert (sg.can_cast(sg.double, sg.half), sg.can_cast(sg.double, sg.int), sg.can_cast(sg.int, sg.bool)) == (True, False, False)
    with pytest.raises(TypeError, match=r"argument 'type2' \(position 2\) must be torch.dtype, not int"):
        sg.promote_types(sg.int32, 3)


def test_default():
    assert sg.get_default_dtype() is sg.float32
    for wrong in (sg.int32, sg.complex64, "float32"):
        with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
            sg.set_default_dtype(wrong)
    assert sg.get_default_dtype() is sg.float32


def test_bfloat16_computes_and_differentiates():
    x = sg.tensor([1.5, 2.0], dtype=sg.bfloat16, requires_grad=True)
    y = (x * x + 1).sum()
    assert y.dtype is sg.bfloat16
    y.backward()
    assert x.grad.tolist() == [3, 4]
    assert repr(x.detach()) == "tensor([1.5000, 2.0000], dtype=torch.bfloat16)"


def test_ml_dtypes_is_loaded_when_bfloat16_is_first_used():
    code = (
        "import sys, symgrad as sg; print('ml_dtypes' in sys.modules); sg.bfloat16, sg.ones(2).half();"
        " print('ml_dtypes' in sys.modules); sg.ones(2).bfloat16(); print('ml_dtypes' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True"]
