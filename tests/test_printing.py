"""Printed text, letter by letter; every expected string was printed by PyTorch 2.13."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad import printing
from symgrad.printing import format_array, get_printoptions, printoptions, set_printoptions, tensor_str

NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def default_options() -> Iterator[None]:
    yield
    set_printoptions(profile="default")


def printed(
    array: NDArray[Any], *, default: str = "float32", grad_fn: str | None = None, leaf: bool = False, **more: Any
) -> str:
    return tensor_str(
        array,
        dtype_name=f"torch.{array.dtype.name}",
        default_dtype_name=f"torch.{default}",
        requires_grad=leaf or grad_fn is not None,
        grad_fn_name=grad_fn,
        **more,
    )


def floats(*values: Any) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def lines(*parts: str) -> str:
    return "\n".join(parts)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), "tensor(3)"),
        (np.bool_(True), "tensor(True)"),
        (np.float32(-2.5), "tensor(-2.5000)"),
        (np.float32(2), "tensor(2.)"),
        (np.float32(-0.0), "tensor(-0.)"),
        (np.float32(NAN), "tensor(nan)"),
        (np.float32(-INF), "tensor(-inf)"),
        (np.float32(1e-5), "tensor(1.0000e-05)"),
        (np.complex64(1.5 + 2j), "tensor(1.5000+2.j)"),
    ],
)
def test_scalars(value: Any, expected: str) -> None:
    assert printed(np.array(value)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2, 3), "tensor([1., 2., 3.])"),
        ((1.5, -2.25, 300), "tensor([  1.5000,  -2.2500, 300.0000])"),
        ((0.0, -0.0, 5), "tensor([0., -0., 5.])"),
        ((0, NAN, -INF), "tensor([0., nan, -inf])"),
        ((1, NAN, INF), "tensor([1., nan, inf])"),
        ((0.5, NAN, INF, 0), "tensor([0.5000,    nan,    inf, 0.0000])"),
    ],
)
def test_zeros_and_nonfinite_follow_the_others(values: tuple[float, ...], expected: str) -> None:
    assert printed(floats(*values)) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 1000), "tensor([   1., 1000.])"),
        ((1, 1001), "tensor([1.0000e+00, 1.0010e+03])"),
        ((0.5, 500.5), "tensor([5.0000e-01, 5.0050e+02])"),
        ((1e8,), "tensor([100000000.])"),
        ((1.1e8,), "tensor([1.1000e+08])"),
        ((9.9e-5,), "tensor([9.9000e-05])"),
        ((1e-10, 0, NAN, INF), "tensor([1.0000e-10, 0.0000e+00,        nan,        inf])"),
    ],
)
def test_scientific_notation_starts_where_torch_starts_it(values: tuple[float, ...], expected: str) -> None:
    assert printed(floats(*values)) == expected


def test_the_decision_is_taken_in_double() -> None:
    assert printed(np.array([1e-4])) == "tensor([0.0001], dtype=torch.float64)"
    assert printed(np.array([1e308, 5e-324]), default="float64") == "tensor([1.0000e+308, 4.9407e-324])"


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([1, -20, 300]), "tensor([  1, -20, 300])"),
        (np.array([-(2**63), 1]), "tensor([-9223372036854775808,                    1])"),
        (np.array([True, False]), "tensor([ True, False])"),
        (np.array([1, 255], np.uint8), "tensor([  1, 255], dtype=torch.uint8)"),
        (np.array([0.1, INF], np.float16), "tensor([0.1000,    inf], dtype=torch.float16)"),
        (np.array([1, 0.1], ml_dtypes.bfloat16), "tensor([1.0000, 0.1001], dtype=torch.bfloat16)"),
        (np.array([1 + 2j, -0.5 - 3j], np.complex64), "tensor([ 1.0000+2.j, -0.5000-3.j])"),
        (np.array([complex(NAN, INF), complex(-0.0, -0.0)], np.complex64), "tensor([nan+infj, -0.-0.j])"),
        (np.array([1e-6 + 2j, 10 + 300j]), "tensor([1.0000e-06+2.j, 1.0000e+01+300.j], dtype=torch.complex128)"),
    ],
)
def test_dtypes(array: NDArray[Any], expected: str) -> None:
    assert printed(array) == expected


def test_dtype_is_named_unless_default() -> None:
    assert printed(np.ones(1), default="float64") == "tensor([1.])"
    assert printed(np.ones(1, complex), default="float64") == "tensor([1.+0.j])"
    assert printed(np.ones(1, np.complex64), default="float64") == "tensor([1.+0.j], dtype=torch.complex64)"
    assert printed(floats(1), default="float64") == "tensor([1.], dtype=torch.float32)"


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (floats(), "tensor([])"),
        (np.empty((0, 3), np.float32), "tensor([], size=(0, 3))"),
        (np.empty((2, 0), np.int64), "tensor([], size=(2, 0), dtype=torch.int64)"),
        (np.empty(0, np.complex64), "tensor([], dtype=torch.complex64)"),
    ],
)
def test_empty(array: NDArray[Any], expected: str) -> None:
    assert printed(array) == expected


def test_matrix_is_aligned() -> None:
    assert printed(np.array([[1, -2], [30, 4]])) == lines(
        "tensor([[ 1, -2],",
        "        [30,  4]])",
    )


def test_blocks_are_set_apart_by_blank_lines() -> None:
    assert printed(np.arange(8, dtype=np.float32).reshape(2, 2, 2) / 4) == lines(
        "tensor([[[0.0000, 0.2500],",
        "         [0.5000, 0.7500]],",
        "",
        "        [[1.0000, 1.2500],",
        "         [1.5000, 1.7500]]])",
    )
    assert printed(np.arange(8).reshape(2, 1, 2, 2)) == lines(
        "tensor([[[[0, 1],",
        "          [2, 3]]],",
        "",
        "",
        "        [[[4, 5],",
        "          [6, 7]]]])",
    )


def test_long_rows_wrap() -> None:
    assert printed(np.arange(12, dtype=np.float32) / 3) == lines(
        "tensor([0.0000, 0.3333, 0.6667, 1.0000, 1.3333, 1.6667, 2.0000, 2.3333, 2.6667,",
        "        3.0000, 3.3333, 3.6667])",
    )
    assert printed((np.arange(6) * (1 + 1j) / 7).astype(np.complex64)) == lines(
        "tensor([0.0000+0.0000j, 0.1429+0.1429j, 0.2857+0.2857j, 0.4286+0.4286j,",
        "        0.5714+0.5714j, 0.7143+0.7143j])",
    )


def test_large_tensors_are_summarised() -> None:
    assert printed(np.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    assert printed(np.arange(1200).reshape(40, 30)) == lines(
        "tensor([[   0,    1,    2,  ...,   27,   28,   29],",
        "        [  30,   31,   32,  ...,   57,   58,   59],",
        "        [  60,   61,   62,  ...,   87,   88,   89],",
        "        ...,",
        "        [1110, 1111, 1112,  ..., 1137, 1138, 1139],",
        "        [1140, 1141, 1142,  ..., 1167, 1168, 1169],",
        "        [1170, 1171, 1172,  ..., 1197, 1198, 1199]])",
    )


def test_short_axes_of_a_large_tensor_are_shown_whole() -> None:
    assert printed(np.arange(2000, dtype=np.float32).reshape(2, 1000) / np.float32(7)) == lines(
        "tensor([[0.0000e+00, 1.4286e-01, 2.8571e-01,  ..., 1.4243e+02, 1.4257e+02,",
        "         1.4271e+02],",
        "        [1.4286e+02, 1.4300e+02, 1.4314e+02,  ..., 2.8529e+02, 2.8543e+02,",
        "         2.8557e+02]])",
    )


def test_hidden_items_have_no_say() -> None:
    values = np.ones(2000, np.float32)
    values[1000] = 1e-30
    assert printed(values) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_only_shown_items_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    cells = printing._cells
    monkeypatch.setattr(printing, "_cells", lambda shown: read.append(shown.size) or cells(shown))
    printed(np.ones((1000, 1000), np.float32).T)
    assert read == [36]


def test_autograd_suffixes() -> None:
    assert printed(floats(1, 2), leaf=True) == "tensor([1., 2.], requires_grad=True)"
    assert printed(floats(2, 3), grad_fn="AddBackward0") == "tensor([2., 3.], grad_fn=<AddBackward0>)"
    assert printed(np.array(94.5, np.float32), grad_fn="MeanBackward0") == "tensor(94.5000, grad_fn=<MeanBackward0>)"


def test_parameter() -> None:
    assert printed(floats([1, 2]), leaf=True, is_parameter=True) == lines(
        "Parameter containing:",
        "tensor([[1., 2.]], requires_grad=True)",
    )


def test_device_comes_first() -> None:
    assert printed(floats(0, 0), leaf=True, device="cpu") == "tensor([0., 0.], device='cpu', requires_grad=True)"
    text = printed(np.empty((0, 2)), leaf=True, device="cpu")
    assert text == "tensor([], device='cpu', size=(0, 2), dtype=torch.float64, requires_grad=True)"


def test_suffixes_go_to_a_new_line_when_the_last_is_full() -> None:
    assert printed(np.full(6, -1.7918), grad_fn="LogSoftmaxBackward0") == lines(
        "tensor([-1.7918, -1.7918, -1.7918, -1.7918, -1.7918, -1.7918],",
        "       dtype=torch.float64, grad_fn=<LogSoftmaxBackward0>)",
    )
    assert printed(np.full(14, 1 / 3, np.float32), grad_fn="DivBackward0") == lines(
        "tensor([0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333, 0.3333,",
        "        0.3333, 0.3333, 0.3333, 0.3333, 0.3333], grad_fn=<DivBackward0>)",
    )


def test_prefix_sets_the_indentation() -> None:
    assert format_array(np.eye(2, dtype=int), prefix="Mask(") == "Mask([[1, 0],\n      [0, 1]])"


def test_print_options() -> None:
    values = floats(1.12345, 20)
    with printoptions(precision=2):
        assert printed(values) == "tensor([ 1.12, 20.00])"
    with printoptions(sci_mode=True):
        assert printed(values) == "tensor([1.1235e+00, 2.0000e+01])"
    with printoptions(sci_mode=False):
        assert printed(floats(1e9, 1.5)) == "tensor([1000000000.0000,          1.5000])"
    with printoptions(threshold=5, edgeitems=1):
        assert printed(np.arange(10)) == "tensor([0,  ..., 9])"
    with printoptions(edgeitems=0):
        assert printed(np.zeros((50, 50), np.float32)) == "tensor([...], size=(50, 50))"
        assert printed(floats(0)) == "tensor([0.], size=(1,))"
    with printoptions(linewidth=20):
        assert printed(np.arange(7)) == "tensor([0, 1, 2, 3,\n        4, 5, 6])"
    assert printed(values) == "tensor([ 1.1235, 20.0000])"


def test_profiles() -> None:
    default = get_printoptions()
    assert default == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
    set_printoptions(profile="short", linewidth=100)
    assert get_printoptions() == {**default, "precision": 2, "edgeitems": 2, "linewidth": 100}
    set_printoptions(profile="full")
    assert get_printoptions() == {**default, "threshold": INF}
    set_printoptions(profile="default", sci_mode=True)
    assert get_printoptions() == {**default, "sci_mode": True}
    set_printoptions(precision=4)
    assert get_printoptions() == default


def test_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="got 'long' as profile, expected one of default, short, full"):
        set_printoptions(profile="long")
