"""Numbers that are too large for their type give in kernels what they give eagerly, with as many bits."""

from __future__ import annotations

import pytest

import symgrad as sg

LARGE = {
    sg.bool: [True, True, False, True], sg.uint8: [200, 200, 255, 3], sg.int8: [127, 127, -128, 3], sg.int16: [32767, 32767, -32768, 3],
    sg.int32: [2**31 - 1, 2**31 - 1, -(2**31), 3], sg.int64: [2**62, 2**62, 5, 3],
}  # fmt: skip
FORMS = {
    "cumsum": lambda x: x.cumsum(0), "cumprod": lambda x: x.cumprod(0), "sum": lambda x: x.sum(), "prod": lambda x: x.prod(),
    "truth": lambda x: (x.all(), x.any(), x.all(0, keepdim=True)), "power": lambda x: x**3,
    "extremes": lambda x: (x.cummax(0), x.cummin(0)),
    "sign": lambda x: x.sign(), "in a loop": lambda x: sg.scan(lambda c, _: (c, x.cumsum(0)), x, None, length=2)[1],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_numbers_that_are_too_large_for_their_type(form):
    function = FORMS[form]
    fast = sg.compile(function)
    for dtype, numbers in LARGE.items():
        x = sg.tensor(numbers, dtype=dtype)
        found, wanted = (_flat(f(x)) for f in (fast, function))
        assert [t.dtype for t in found] == [t.dtype for t in wanted]
        assert [t.tolist() for t in found] == [t.tolist() for t in wanted], dtype


def _flat(result):
    return [t for part in (result if isinstance(result, tuple) else (result,)) for t in (part if isinstance(part, tuple) else (part,))]


BEYOND = {
    "product": lambda x, n: x * n, "sum": lambda x, n: x + n, "quotient": lambda x, n: n / x, "comparison": lambda x, n: x < n,
    "choice": lambda x, n: sg.where(x > 0, x, n), "bound": lambda x, n: x.clamp(max=n), "power": lambda x, n: x**n,
    "filled": lambda x, n: sg.full_like(x, n), "remainder": lambda x, n: x % n, "extreme": lambda x, n: sg.maximum(x, sg.full_like(x, n)),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("number", [2**70, -(2**70), 2**63])
@pytest.mark.parametrize("form", BEYOND)
def test_python_integers_beyond_64_bits(form, number, backend):
    """Floats as in eager code, or refused as in eager code."""
    f, fast = BEYOND[form], sg.compile(BEYOND[form], backend=backend)
    for x in (sg.tensor([1.0, 2.0]), sg.tensor([1.0, 2.0], dtype=sg.float64), sg.tensor([1, 2])):
        try:
            wanted = f(x, number)
        except (RuntimeError, OverflowError, TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                fast(x, number)
            continue
        found = fast(x, number)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()


F = sg.nn.functional
BESIDE_FLOATS = {
    "operators": lambda x, n: (x * n, x + n, n - x, x / n, n / x, x > n, (-x) % n, x**-n), "where": lambda x, n: sg.where(x > 1, n, x),
    "settings": lambda x, n: (sg.add(x, x, alpha=n), sg.addcmul(x, x, x, value=n), x.clamp(min=n), x.var(correction=-n)),
    "activations": lambda x, n: (F.leaky_relu(-x, n), F.elu(-x, n), F.threshold(x, 5, n), F.softplus(x, n), F.hardtanh(x, -n, n)),
    "stored": lambda x, n: (x.masked_fill(x > 1, n), F.pad(x, (1, 1), value=n), (x / 0).nan_to_num(posinf=n)),
    "layers": lambda x, n: (F.layer_norm(x, (2,), eps=n), F.huber_loss(x, x * 2, delta=n)),
    "loops": lambda x, n: sg.fori_loop(0, 2, lambda i, c: c * n, x),
}  # fmt: skip


@pytest.mark.parametrize("number", [2**40])
@pytest.mark.parametrize("form", BESIDE_FLOATS)
def test_python_integers_beyond_32_bits_beside_floats(form, number):
    f = BESIDE_FLOATS[form]
    fast = sg.compile(lambda x: f(x, number))
    for dtype in (sg.float32, sg.float64):
        x = sg.tensor([1.0, 2.0], dtype=dtype)
        for found, wanted in zip(_flat(fast(x)), _flat(f(x, number)), strict=True):
            assert found.dtype == wanted.dtype
            assert sg.allclose(found.double(), wanted.double(), rtol=1e-5)
