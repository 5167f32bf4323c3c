"""Numbers of subclasses of int, float and complex leave the dtype to the tensor, as the plain numbers do."""

import enum

import pytest

import symgrad as sg


class Level(enum.IntEnum):
    TWO = 2


class Meters(float):
    pass


class Phase(complex):
    pass


CALLS = {
    "mul": lambda x, k: x * k, "rsub": lambda x, k: k - x, "div": lambda x, k: x / k, "pow": lambda x, k: x**k, "rpow": lambda x, k: k**x,
    "add_": lambda x, k: x.clone().add_(k), "alpha": lambda x, k: sg.add(x, x, alpha=k), "where": lambda x, k: sg.where(x > 0, x, k),
    "eq": lambda x, k: x == k, "stored": lambda x, k: x.clone().fill_(k), "masked_fill": lambda x, k: x.masked_fill(x > 1, k),
    "addcmul": lambda x, k: sg.addcmul(x, x, x, value=k), "full_like": lambda x, k: sg.full_like(x, k),
}
REAL = {
    "clamp": lambda x, k: x.clamp(min=k), "remainder": lambda x, k: x % k, "lt": lambda x, k: x < k,
    "leaky_relu": lambda x, k: sg.nn.functional.leaky_relu(-x, k), "norm": lambda x, k: x.norm(k),
}


@pytest.mark.parametrize("dtype", [sg.float32, sg.float16, sg.float64])
@pytest.mark.parametrize(("number", "plain"), [(Level.TWO, 2), (Meters(2.5), 2.5), (Phase(1 + 2j), 1 + 2j)])
def test_a_subclass_is_its_number(number, plain, dtype):
    x = sg.tensor([1.0, 3.0], dtype=dtype)
    for name, call in (CALLS if isinstance(plain, complex) else CALLS | REAL).items():
        try:
            wanted = call(x, plain)
        except RuntimeError:  # a complex number does not fit
            with pytest.raises(RuntimeError):
                call(x, number)
            continue
        found = call(x, number)
        assert (name, found.dtype, found.tolist()) == (name, wanted.dtype, wanted.tolist())
