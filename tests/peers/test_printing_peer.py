"""Printed text against PyTorch's own, over thousands of generated arrays: not one character may differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from symgrad import printing

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")

CASES = 40
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
DTYPES = FLOATS + COMPLEX + INTEGERS
SHAPES = (
    *((), (1,), (2,), (7,), (23,), (60,), (1, 1), (3, 4), (5, 1), (2, 30), (7, 8), (2, 3, 4), (1, 2, 2, 3)),
    *((2, 1, 3, 1, 2), (0,), (0, 3), (3, 0), (2, 0, 3), (1001,), (10, 101), (2, 600), (600, 2), (8, 2, 9, 8)),
)
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 0.5, 1e-4, 9.99e-5, 1e8, 1.1e8, 1000.0, 1001.0)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"precision": 0},
    {"precision": 8},
    {"threshold": 5},
    {"threshold": 0, "edgeitems": 1},
    {"threshold": 10, "edgeitems": 0},
    {"threshold": 0, "edgeitems": 0},
    {"threshold": 23, "edgeitems": 2},  # exactly as many items as one of the shapes
    {"edgeitems": 5, "threshold": 20},
    {"linewidth": 20},
    {"linewidth": 120, "precision": 2},
    {"linewidth": 5, "threshold": 6},
    {"profile": "short"},
    {"profile": "full"},
    {"profile": "short", "threshold": 30},
    {"sci_mode": True},
    {"sci_mode": False},
    {"sci_mode": True, "precision": 0, "linewidth": 40},
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    default_dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(default_dtype)
    set_both(profile="default")


def set_both(**options: Any) -> None:
    printing.set_printoptions(**options)
    torch.set_printoptions(**options)


def drawn_reals(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Values of one of several kinds, so that every notation and every limit between two comes up."""
    scale = 10.0 ** rng.integers(-12, 13)
    spread = 10.0 ** rng.uniform(-4, 4, shape)
    kinds = (
        rng.normal(size=shape),
        rng.normal(size=shape) * scale,
        rng.normal(size=shape) * spread,
        np.rint(rng.normal(size=shape) * 30),
        np.rint(rng.normal(size=shape) * spread * 10),
        np.rint(rng.uniform(-1, 1, shape) * 1.5e8),
        rng.choice(SPECIAL, shape),
        np.exp(rng.uniform(-700, 700, shape)),
        np.full(shape, rng.choice(SPECIAL)),
    )
    values = np.array(kinds[rng.integers(len(kinds))])
    if rng.random() < 0.3:
        values[rng.random(shape) < 0.3] = rng.choice(SPECIAL)
    return values


def drawn_integers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    bound = int(10.0 ** rng.uniform(0, 20))
    low, high = max(limits.min, -bound), min(limits.max, bound)
    return np.array(rng.integers(low, high, shape, dtype=dtype, endpoint=True))


def drawn(rng: np.random.Generator, dtype: str) -> NDArray[Any]:
    shape = SHAPES[rng.integers(len(SHAPES))]
    if dtype == "bool":
        return np.array(rng.random(shape) < 0.5)
    if dtype in INTEGERS:
        return drawn_integers(rng, shape, dtype)
    values: NDArray[Any] = drawn_reals(rng, shape)
    if dtype in COMPLEX:
        real, values = values, np.empty(shape, np.complex128)
        values.real, values.imag = real, drawn_reals(rng, shape)
    with np.errstate(all="ignore"):
        return values.astype(_numpy_dtype(dtype))


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    if dtype == "bfloat16":
        return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    return np.dtype(dtype)


def as_torch(array: NDArray[Any]) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array)


def printed(array: NDArray[Any], tensor: Any, **more: Any) -> str:
    """What symgrad prints for an array in the state that the torch tensor is in."""
    return printing.tensor_str(
        array,
        dtype_name=str(tensor.dtype),
        default_dtype_name=str(torch.get_default_dtype()),
        requires_grad=tensor.requires_grad,
        grad_fn_name=None if tensor.grad_fn is None else type(tensor.grad_fn).__name__,
        is_parameter=isinstance(tensor, torch.nn.Parameter),
        **more,
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_under_every_option(dtype: str, options: dict[str, Any]) -> None:
    set_both(**options)
    rng = np.random.default_rng([DTYPES.index(dtype), OPTIONS.index(options)])
    for _ in range(CASES):
        array = drawn(rng, dtype)
        tensor = as_torch(array)
        assert printed(array, tensor) == str(tensor)


@pytest.mark.parametrize("seed", range(20))
def test_random_options(seed: int) -> None:
    rng = np.random.default_rng([1, seed])
    for _ in range(CASES):
        set_both(
            precision=int(rng.integers(0, 10)),
            threshold=int(rng.integers(0, 1200)),
            edgeitems=int(rng.integers(0, 6)),
            linewidth=int(rng.integers(1, 140)),
            sci_mode=(None, True, False)[rng.integers(3)],
        )
        array = drawn(rng, DTYPES[rng.integers(len(DTYPES))])
        tensor = as_torch(array)
        assert printed(array, tensor) == str(tensor)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("state", ["leaf", "recorded", "parameter"])
def test_suffixes_wrap_alike(state: str, seed: int) -> None:
    rng = np.random.default_rng([2, seed])
    for _ in range(CASES):
        set_both(linewidth=int(rng.integers(20, 100)))
        array = drawn(rng, (FLOATS + COMPLEX)[rng.integers(6)])
        tensor = as_torch(array).requires_grad_()
        if state == "recorded":
            tensor = tensor.view_as(tensor)
        if state == "parameter":
            tensor = torch.nn.Parameter(tensor.detach())
        assert printed(array, tensor) == str(tensor)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("default", ["float16", "bfloat16", "float64"])
def test_dtype_is_named_unless_default(default: str, dtype: str) -> None:
    torch.set_default_dtype(getattr(torch, default))
    for shape in ((), (2,), (0,), (0, 2)):
        array = np.zeros(shape, _numpy_dtype(dtype))
        tensor = as_torch(array)
        assert printed(array, tensor) == str(tensor)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_length_and_width_of_row(dtype: str) -> None:
    for length in range(1, 90):
        array = np.linspace(-2, 3, length).astype(_numpy_dtype(dtype))
        tensor = as_torch(array)
        assert printed(array, tensor) == str(tensor)


def test_device_that_is_not_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch._C, "_get_default_device", lambda: "cuda")
    rng = np.random.default_rng(4)
    for _ in range(CASES):
        array = drawn(rng, "float64")
        tensor = as_torch(array)
        assert printed(array, tensor, device="cpu") == str(tensor)


def test_subclass_gives_the_prefix() -> None:
    class Mask(torch.Tensor):
        pass

    rng = np.random.default_rng(5)
    for _ in range(CASES):
        array = drawn(rng, "int32")
        tensor = as_torch(array)
        assert printed(array, tensor, prefix="Mask(") == str(tensor.as_subclass(Mask))


def test_strided_and_transposed() -> None:
    base = np.random.default_rng(3).normal(size=(40, 6, 50)).astype(np.float32)
    for view in (base.T, base[::2, :, ::3], base[:, 0, :].T, base[:2, :2, :3].transpose(1, 0, 2)):
        tensor = as_torch(view)
        assert printed(view, tensor) == str(tensor)


def test_options_read_back_alike() -> None:
    for options in OPTIONS:
        set_both(**options)
        assert printing.get_printoptions() == torch._tensor_str.get_printoptions()
