"""Whole numbers that an integer type cannot hold: operands wrap around, and what is stored is refused, in eager code and compiled."""

import operator

import pytest

import symgrad as sg

TYPES = {"int8": 200, "uint8": -1, "int16": 40000, "int32": 2**33, "uint8 ": 300}
COMPUTED = {
    "add": operator.add, "rsub": lambda a, n: n - a, "mul": operator.mul, "floordiv": lambda a, n: a // (n - 2),
    "mod": lambda a, n: a % (n - 2),
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
    "and": operator.and_, "xor": operator.xor, "add_": lambda a, n: a.clone().add_(n), "mul_": lambda a, n: a.clone().mul_(n),
}  # fmt: skip
STORED = {
    "clamp": lambda a, n: a.clamp(min=1, max=n), "clamp_min": lambda a, n: a.clamp(min=n), "clamp_max": lambda a, n: a.clamp_max(n),
    "fill_": lambda a, n: a.clone().fill_(n), "masked_fill": lambda a, n: a.masked_fill(a > 3, n), "full_like": sg.full_like,
    "masked_fill_": lambda a, n: a.clone().masked_fill_(a > 3, n), "where": lambda a, n: sg.where(a > 3, a, n),
}  # fmt: skip


def same(f, n, given):
    wanted = f(given, n)
    for backend in ("xla", "numpy"):
        found = sg.compile(lambda a: f(a, n), backend=backend)(given)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
        as_argument = sg.compile(f, backend=backend)(given, n)
        assert as_argument.tolist() == wanted.tolist()


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("dtype", TYPES)
def test_operands_wrap_around(name, dtype):
    same(COMPUTED[name], TYPES[dtype], sg.tensor([1, 5, 127], dtype=getattr(sg, dtype.strip())))


def test_wrapped_values():
    t = sg.tensor([1, 5], dtype=sg.int8)
    assert (t < 200).tolist() == [False, False]  # 200 is -56
    assert (t + 200).tolist() == [-55, -51]
    assert (sg.tensor([1], dtype=sg.uint8) < -1).tolist() == [True]
    assert (sg.tensor([7], dtype=sg.int32) + 2**33).tolist() == [7]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("backend", [None, "xla", "numpy"])
def test_stored_numbers_have_to_fit(name, backend):
    f = STORED[name]
    for dtype, n in (("int8", 200), ("uint8", 300), ("uint8", -256), ("int16", -40000), ("int32", 2**33)):
        run = (lambda a: f(a, n)) if backend is None else sg.compile(lambda a: f(a, n), backend=backend)  # noqa: B023
        with pytest.raises(RuntimeError, match=f"converted to type {dtype} without overflow"):
            run(sg.tensor([1, 5], dtype=getattr(sg, dtype)))


@pytest.mark.parametrize("name", STORED)
def test_negative_numbers_in_unsigned_types(name):
    same(STORED[name], -1, sg.tensor([1, 5, 127], dtype=sg.uint8))
