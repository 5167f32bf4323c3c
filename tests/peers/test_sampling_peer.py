"""Random streams against PyTorch's own: the values, and after each call the bytes of the generator's state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from symgrad.ops import generator, sampling

pytestmark = pytest.mark.peer
torch = pytest.importorskip("torch")

SIZES = (0, 1, 2, 3, 15, 16, 17, 31, 32, 100, 1000, 100003)
SEEDS = (0, 1, 5, 42, 2**31, 2**32 - 1, 2**32 + 7, 2**63 + 11, 2**64 - 1)
Draw = Callable[[generator.Generator, int], np.ndarray]
TorchDraw = Callable[[int], Any]


def to_numpy(tensor: Any) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def name_of(dtype: Any) -> str:
    return np.dtype(dtype).name


def empty(n: int, dtype: Any) -> Any:
    return torch.empty(n, dtype=getattr(torch, name_of(dtype)))


FULL = ("int64", "bfloat16", "float32", "float64")  # have all of int64 as range
FLOATS = ("float16", ml_dtypes.bfloat16, "float32", "float64")
COMPLEX = ("complex64", "complex128")
EXACT: dict[str, tuple[Draw, TorchDraw]] = {}  # equal bit for bit
CLOSE: dict[str, tuple[Draw, TorchDraw]] = {}  # equal to 2 units in the last place

for d in (*FLOATS, *COMPLEX):
    for low, high in ((0, 1), (-0.1, 0.1), (2.0, 3.3), (-1, 1), (0, 0.7), (5, 5)):
        EXACT[f"uniform({low}, {high}) {name_of(d)}"] = (
            lambda g, n, d=d, low=low, high=high: sampling.uniform(g, n, d, low, high),
            lambda n, d=d, low=low, high=high: empty(n, d).uniform_(low, high),
        )
    for mean, std in ((0, 1), (0, 0.02), (0.3, 1.7), (5, 0)):
        wide = name_of(d) in ("float64", "complex128")
        (CLOSE if wide else EXACT)[f"normal({mean}, {std}) {name_of(d)}"] = (
            lambda g, n, d=d, mean=mean, std=std: sampling.normal(g, n, d, mean, std),
            lambda n, d=d, mean=mean, std=std: empty(n, d).normal_(mean, std),
        )
for d in FLOATS:
    for rate in (1.0, 2.3):
        (CLOSE if d == "float64" else EXACT)[f"exponential({rate}) {name_of(d)}"] = (
            lambda g, n, d=d, rate=rate: sampling.exponential(g, n, d, rate),
            lambda n, d=d, rate=rate: empty(n, d).exponential_(rate),
        )
    EXACT[f"bernoulli(each) {name_of(d)}"] = (
        lambda g, n, d=d: sampling.bernoulli(g, np.linspace(0, 1, n).astype(d), n, d),
        lambda n, d=d: torch.bernoulli(torch.from_numpy(np.linspace(0, 1, n)).to(getattr(torch, name_of(d)))),
    )
for d in ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS):
    for bounds in ((), (None, 2), (0, 2), (-(2**63), None) if name_of(d) in FULL else (0, None)):
        arguments = tuple(b for b in bounds if bounds[:1] != (None,) or b is not None)
        EXACT[f"random_{bounds} {name_of(d)}"] = (
            lambda g, n, d=d, b=bounds: sampling.random_(g, n, d, *b),
            lambda n, d=d, b=arguments: empty(n, d).random_(*b),
        )
    EXACT[f"bernoulli(0.3) {name_of(d)}"] = (
        lambda g, n, d=d: sampling.bernoulli(g, 0.3, n, d),
        lambda n, d=d: empty(n, d).bernoulli_(0.3),
    )
for low, high in ((-5, 7), (0, 2**28 - 1), (0, 2**28), (-(2**31), 2**31), (0, 2**33), (-(2**63), 2**63 - 1), (3, 4)):
    EXACT[f"randint({low}, {high})"] = (
        lambda g, n, low=low, high=high: sampling.randint(g, low, high, n, "int64"),
        lambda n, low=low, high=high: torch.randint(low, high, (n,)),
    )
for p in (0, 0.1, 0.5, 0.9, 1):
    EXACT[f"dropout({p})"] = (
        lambda g, n, p=p: sampling.dropout_mask(g, n, p),
        lambda n, p=p: torch.nn.functional.dropout(torch.ones(n), p) > 0,
    )
for d in ("int64", "int32", "float64", "float32"):
    EXACT[f"randperm {d}"] = (
        lambda g, n, d=d: sampling.randperm(g, n, d),
        lambda n, d=d: torch.randperm(n, dtype=getattr(torch, d)),
    )


def weights(n: int) -> np.ndarray:
    return np.abs(np.sin(np.arange(1, n + 2))).astype("float32")


for k, replacement in ((1, False), (1, True), (7, True), (1000, True)):
    EXACT[f"multinomial({k}, {replacement})"] = (
        lambda g, n, k=k, r=replacement: sampling.multinomial(g, weights(n), k, r),
        lambda n, k=k, r=replacement: torch.multinomial(torch.from_numpy(weights(n)), k, r),
    )
EXACT["multinomial(half, False)"] = (  # in float64, where there are no ties
    lambda g, n: sampling.multinomial(g, weights(n).astype("f8"), n // 2 + 1),
    lambda n: torch.multinomial(torch.from_numpy(weights(n)).double(), n // 2 + 1),
)
EXACT["multinomial(rows, True)"] = (
    lambda g, n: sampling.multinomial(g, weights(3 * (n % 50) + 2).reshape(3, -1).astype("f8"), 5, True),
    lambda n: torch.multinomial(torch.from_numpy(weights(3 * (n % 50) + 2).reshape(3, -1).astype("f8")), 5, True),
)
CASES = EXACT | CLOSE


def same_state(gen: generator.Generator) -> None:
    ours, theirs = gen.get_state().view(generator.STATE), torch.get_rng_state().numpy().view(generator.STATE)
    for field in generator.STATE.names or ():
        np.testing.assert_array_equal(ours[field], theirs[field], err_msg=field)


def compare(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), name
    if name in EXACT:
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
    elif theirs.size:
        ours, theirs = ours.view("f8"), theirs.view("f8")
        # scaling rounds once more, and a mean can cancel a sample, which the sample's own unit must then measure
        allowed = 2 if name == "normal(0, 1) float64" or "exponential" in name else 4
        size = np.maximum(np.abs(theirs), 0.5) if "normal(0.3" in name else np.abs(theirs)
        assert (np.abs(ours - theirs) <= allowed * np.spacing(size)).all(), name


@pytest.mark.parametrize("name", CASES)
def test_every_size(name: str) -> None:
    ours, theirs = CASES[name]
    gen = generator.Generator()
    for n in SIZES:
        gen.manual_seed(n)
        torch.manual_seed(n)
        for _ in range(2):
            compare(name, ours(gen, n), to_numpy(theirs(n)))
            same_state(gen)


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_in_any_order_stay_in_step(seed: int) -> None:
    gen = generator.Generator().manual_seed(seed)
    torch.manual_seed(seed if seed < 2**63 else seed - 2**64)
    order = np.random.default_rng(seed)
    names = list(CASES)
    for _ in range(300):
        name, n = names[order.integers(len(names))], int(order.choice(SIZES[:-1]))
        ours, theirs = CASES[name]
        compare(name, ours(gen, n), to_numpy(theirs(n)))
    same_state(gen)


def test_state_goes_both_ways() -> None:
    gen = generator.Generator().manual_seed(3)
    torch.manual_seed(3)
    torch.randn(5)  # leaves a spare number behind
    gen.set_state(torch.get_rng_state().numpy())
    np.testing.assert_array_equal(sampling.normal(gen, 3, "f8"), torch.randn(3, dtype=torch.float64).numpy())
    sampling.normal(gen, 4, "f8")
    torch.set_rng_state(torch.from_numpy(gen.get_state()))
    np.testing.assert_array_equal(sampling.normal(gen, 700, "f4"), torch.randn(700).numpy())


def test_default_seed() -> None:
    assert generator.Generator().initial_seed() == torch.Generator().initial_seed()


def test_two_million_normals_differ_in_no_bit() -> None:
    torch.manual_seed(0)
    ours = sampling.normal(generator.Generator().manual_seed(0), 2_000_000, "f4")
    np.testing.assert_array_equal(ours, torch.randn(2_000_000).numpy())


WRONG: dict[str, tuple[Callable[[generator.Generator], Any], Callable[[], Any]]] = {
    "empty range": (lambda g: sampling.randint(g, 5, 5, 3), lambda: torch.randint(5, 5, (3,))),
    "to too large": (lambda g: sampling.randint(g, 0, 300, 3, "u1"), lambda: empty(3, "u1").random_(0, 300)),
    "from too small": (lambda g: sampling.randint(g, -1, 3, 3, "u1"), lambda: empty(3, "u1").random_(-1, 3)),
    "not bool": (lambda g: sampling.randint(g, 0, 3, 3, "?"), lambda: empty(3, "?").random_(0, 3)),
    "not half": (lambda g: sampling.randint(g, 0, 70000, 3, "f2"), lambda: empty(3, "f2").random_(0, 70000)),
    "not int64": (lambda g: sampling.randint(g, 0, 2**63, 3), lambda: torch.randint(0, 2**63, (3,))),
    "all of int64": (lambda g: sampling.random_(g, 3, "i4", -(2**63)), lambda: empty(3, "i4").random_(-(2**63), None)),
    "float bound": (lambda g: sampling.randint(g, 0, 2.5, 3), lambda: torch.randint(0, 2.5, (3,))),
    "complex integers": (lambda g: sampling.random_(g, 3, "c8"), lambda: empty(3, "c8").random_()),
    "uint16": (lambda g: sampling.random_(g, 3, "u2"), lambda: empty(3, "u2").random_()),
    "high < low": (lambda g: sampling.uniform(g, 3, "f4", 2, 1), lambda: empty(3, "f4").uniform_(2, 1)),
    "too wide": (lambda g: sampling.uniform(g, 3, "f4", -3e38, 3e38), lambda: empty(3, "f4").uniform_(-3e38, 3e38)),
    "infinite": (lambda g: sampling.uniform(g, 3, "f4", 0, 1e39), lambda: empty(3, "f4").uniform_(0, 1e39)),
    "uniform int": (lambda g: sampling.uniform(g, 3, "i8"), lambda: empty(3, "i8").uniform_()),
    "normal int": (lambda g: sampling.normal(g, 3, "i8"), lambda: empty(3, "i8").normal_()),
    "negative std": (lambda g: sampling.normal(g, 3, "f4", 0, -1), lambda: empty(3, "f4").normal_(0, -1)),
    "nan std": (lambda g: sampling.normal(g, 3, "f4", 0, np.nan), lambda: empty(3, "f4").normal_(0, np.nan)),
    "zero rate": (lambda g: sampling.exponential(g, 3, "f4", 0), lambda: empty(3, "f4").exponential_(0)),
    "exponential int": (lambda g: sampling.exponential(g, 3, "i8", 1), lambda: empty(3, "i8").exponential_()),
    "p > 1": (lambda g: sampling.bernoulli(g, 1.5, 3, "f4"), lambda: empty(3, "f4").bernoulli_(1.5)),
    "nan p": (lambda g: sampling.bernoulli(g, np.array([np.nan]), 1, "f4"), lambda: torch.tensor([np.nan]).bernoulli()),
    "int p": (lambda g: sampling.bernoulli(g, np.array([1]), 1, "f4"), lambda: torch.bernoulli(torch.tensor([1]))),
    "dropout": (lambda g: sampling.dropout_mask(g, 3, 1.5), lambda: torch.nn.functional.dropout(torch.ones(3), 1.5)),
    "randperm -1": (lambda g: sampling.randperm(g, -1), lambda: torch.randperm(-1)),
    "randperm u1": (lambda g: sampling.randperm(g, 257, "u1"), lambda: torch.randperm(257, dtype=torch.uint8)),
    "randperm f2": (lambda g: sampling.randperm(g, 2050, "f2"), lambda: torch.randperm(2050, dtype=torch.float16)),
    "randperm bool": (lambda g: sampling.randperm(g, 2, "?"), lambda: torch.randperm(2, dtype=torch.bool)),
    "size -1": (lambda g: sampling.uniform(g, (2, -1), "f4"), lambda: torch.rand(2, -1)),
    "seed 2**64": (lambda g: g.manual_seed(2**64), lambda: torch.Generator().manual_seed(2**64)),
    "seed 1.5": (lambda g: g.manual_seed(1.5), lambda: torch.Generator().manual_seed(1.5)),
    "seed True": (lambda g: g.manual_seed(True), lambda: torch.Generator().manual_seed(True)),
    "short state": (lambda g: g.set_state(b"abc"), lambda: torch.set_rng_state(torch.zeros(3).byte())),
    "zero state": (lambda g: g.set_state(bytes(5056)), lambda: torch.set_rng_state(torch.zeros(5056).byte())),
    "float state": (lambda g: g.set_state(np.zeros(3)), lambda: torch.set_rng_state(torch.zeros(3))),
}  # fmt: skip
for values, k, replacement in (
    *(([1, 2], 1, False), ([1.0, 2], 3, False), ([1.0, 2], 0, False), ([1.0, -2], 1, False), ([1.0, -2], 2, True)),
    *(([1.0, np.inf], 2, True), ([np.nan, 1], 1, True), ([0.0, 0], 2, False), ([[1.0, 1], [0, 0]], 2, True)),
    *((1.0, 1, True), ([[[1.0]]], 1, True), ([], 2, True)),
):
    WRONG[f"multinomial({values}, {k}, {replacement})"] = (
        lambda g, v=values, k=k, r=replacement: sampling.multinomial(g, np.array(v), k, r),
        lambda v=values, k=k, r=replacement: torch.multinomial(torch.tensor(v), k, r),
    )


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_of_the_same_type(name: str) -> None:
    ours, theirs = WRONG[name]
    gen = generator.Generator().manual_seed(1)
    before = gen.get_state()
    with pytest.raises(Exception) as expected:  # noqa: PT011  (whichever PyTorch raises)
        theirs()
    with pytest.raises(expected.type):
        ours(gen)
    np.testing.assert_array_equal(gen.get_state(), before)


@pytest.mark.filterwarnings("ignore:.*out of bounds")
@pytest.mark.parametrize("bounds", [(0, 3000), (-3000, 5000), (0, 65504), (7, None), (4097, 4201), (-4101, 9)])
@pytest.mark.parametrize("dtype", ["float16", ml_dtypes.bfloat16])
def test_integers_beyond_the_significand(bounds: tuple[int, int | None], dtype: Any) -> None:
    torch.manual_seed(2)
    ours = sampling.random_(generator.Generator().manual_seed(2), 1000, dtype, *bounds)
    np.testing.assert_array_equal(ours, to_numpy(empty(1000, dtype).random_(*bounds)))
