"""assert_close: the tolerances of PyTorch's documentation, and messages that say where and by how much."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.testing import assert_close

DOCUMENTED = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""The table in the documentation of torch.testing.assert_close: relative and absolute."""


def message(actual, expected, **options):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_default_tolerances(name):
    rtol, atol = DOCUMENTED[name]
    zeros, expected = sg.zeros(2, dtype=getattr(sg, name)), sg.full((2,), 1024.0, dtype=getattr(sg, name))
    assert_close(zeros + 0.9 * atol, zeros)
    assert f"(up to {atol} allowed)" in message(zeros + 2 * atol, zeros)
    assert f"(up to {rtol} allowed)" in message(expected * (1 + 4 * rtol), expected)
    assert_close(expected * (1 + rtol / 2), expected)


@pytest.mark.parametrize("name", ["bool", "uint8", "int8", "int64"])
def test_integers_and_booleans_are_equal_or_not(name):
    dtype = getattr(sg, name)
    x = sg.tensor([0, 1], dtype=dtype)
    assert_close(x, x.clone())
    text = message(x, sg.tensor([1, 1], dtype=dtype))
    assert text.startswith("Tensor-likes are not equal!")
    assert "Mismatched elements: 1 / 2 (50.0%)" in text
    assert "Greatest absolute difference: 1 at index (0,)\n" in text
    assert "Absolute difference: 1\n" in message(x[0], x[1])
    assert_close(x, 1 - x.long(), rtol=0.0, atol=1.0, check_dtype=False)
    assert_close(x, x.clone(), rtol=0.5, atol=0.5)


def test_types_of_different_tolerances_are_compared_by_the_larger():
    """0.001 is within 1.3e-6 of itself, but not of its float16."""
    half, single = sg.tensor([0.1], dtype=sg.float16), sg.tensor([0.1])
    assert_close(half, single, check_dtype=False)
    assert_close(single, half, check_dtype=False)
    for actual, expected in ((half, single), (single, half)):
        assert "The values for attribute 'dtype' do not match: torch.float" in message(actual, expected)


def test_both_tolerances_or_none():
    for option, missing in (("rtol", "atol"), ("atol", "rtol")):
        with pytest.raises(ValueError, match=f"must be either specified or omitted, but got no {missing}"):
            assert_close(1.0, 1.0, **{option: 0.1})
    assert_close(1.25, 1.0, rtol=0.25, atol=0)
    assert_close(1.25, 1.0, rtol=0, atol=0.25)
    assert_close(1.5, 1.0, rtol=0.25, atol=0.25)
    message(1.51, 1.0, rtol=0.25, atol=0.25)
    assert_close(1.0, 2.0, rtol=0.5, atol=0)  # relative to what is expected
    message(2.0, 1.0, rtol=0.5, atol=0)
    message(1.0 + 1e-12, 1.0, rtol=0, atol=0)


@pytest.mark.parametrize("tolerances", [{}, {"rtol": 0.0, "atol": 0.0}])
def test_nan_is_equal_only_if_told_so(tolerances):
    nan = sg.tensor([1.0, float("nan")])
    assert_close(nan, nan.clone(), equal_nan=True, **tolerances)
    assert "Greatest absolute difference: nan at index (1,)" in message(nan, nan.clone(), **tolerances)
    message(nan, sg.tensor([1.0, 2.0]), equal_nan=True, **tolerances)
    message(sg.tensor([float("inf")]), sg.tensor([-float("inf")]), **tolerances)
    assert_close(sg.tensor([float("inf")]), sg.tensor([float("inf")]), **tolerances)


def test_the_message_of_tensors():
    actual, expected = sg.tensor([[1.0, 2.0], [3.0, 6.0]]), sg.tensor([[1.0, 1.0], [3.0, 4.0]])
    assert message(actual, expected) == (
        "Tensor-likes are not close!\n\nMismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 2.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 1.0 at index (0, 1) (up to 1.3e-06 allowed)"
    )


def test_the_message_of_numbers():
    assert message(1.5, 1.0) == (
        "Scalars are not close!\n\nExpected 1.0 but got 1.5.\nAbsolute difference: 0.5 (up to 1e-07 allowed)\n"
        "Relative difference: 0.5 (up to 1e-07 allowed)"
    )
    assert message(3, 2).startswith("Scalars are not equal!\n\nExpected 2 but got 3.\nAbsolute difference: 1\n")
    assert_close(1, 1.0)  # numbers of any type


def test_containers_say_which_item_it_is():
    assert_close({"a": [1.0, None], "b": (sg.ones(2),)}, {"a": [1.0, None], "b": (sg.ones(2),)})
    assert message({"a": [1.0, sg.ones(2)]}, {"a": [1.0, sg.zeros(2)]}).endswith("\n\nThe failure occurred for item ['a'][1]")
    assert message([sg.ones(2)], [sg.ones(3)]) == (
        "The values for attribute 'shape' do not match: torch.Size([2]) != torch.Size([3]).\n\nThe failure occurred for item [0]"
    )
    assert message([1], [1, 2]) == "The length of the sequences mismatch: 1 != 2"
    assert message({"a": 1, "b": 2}, {"b": 2, "c": 3}) == (
        "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['c']\nAdditional keys in the actual mapping: ['a']"
    )
    assert "dtype" in message([sg.ones(1)], [sg.ones(1, dtype=sg.float64)])
    assert_close([sg.ones(1)], [sg.ones(1, dtype=sg.float64)], check_dtype=False)
    assert_close([float("nan")], [float("nan")], equal_nan=True)
    assert_close({"a": 1.5}, {"a": 1.0}, rtol=0.5, atol=0.0)


@pytest.mark.parametrize(("actual", "expected"), [("a", "a"), (b"a", b"a"), (None, 1.0), (sg.ones(1), [1.0]), ({"a": 1}, [1])])
def test_what_cannot_be_compared(actual, expected):
    with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
        assert_close(actual, expected)


def test_arrays_are_compared_with_tensors():
    assert_close(np.ones(2, np.float32), sg.ones(2))
    assert message(np.zeros(2, np.float32), sg.ones(2)).startswith("Tensor-likes are not close!")


def test_messages_of_ones_own():
    assert message(1.0, 2.0, msg="mine") == "mine"
    assert message(1.0, 2.0, msg=lambda text: text.splitlines()[0] + " Here.") == "Scalars are not close! Here."
    assert_close(1.0, 1.0, msg="mine")
