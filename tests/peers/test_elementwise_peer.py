"""Elementwise functions beside PyTorch's: values, derivatives, types, names of nodes, errors."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import symgrad as sg
from symgrad.tensor import wrap

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore")]

inf, nan = math.inf, math.nan
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, 1.5, -2.5, 0.3, inf, -inf, nan, 1e300, 100.0, -100.0]
PAIRS = [list(v) for v in zip(*itertools.product([0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, inf, -inf, nan, 3.0], repeat=2), strict=True)]
TRIPLES = [list(v) for v in zip(*itertools.product([0.0, 1.0, -1.0, 0.5, nan], repeat=3), strict=True)]

UNARY = [
    "abs",
    "neg",
    "reciprocal",
    "square",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "relu",
    "sigmoid",
    "erf",
    "erfc",
    "erfinv",
    "sinc",
    "deg2rad",
    "rad2deg",
    "floor",
    "ceil",
    "trunc",
    "frac",
    "sign",
    "sgn",
    "round",
    "logit",
    "nan_to_num",
    "angle",
]
BINARY = [
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "pow",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "xlogy",
    "fmod",
    "remainder",
    "copysign",
]
TESTS = (
    ["isnan", "isinf", "isfinite", "isposinf", "isneginf", "isreal", "signbit", "logical_not", "bitwise_not"],
    ["lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"],
)
TYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64", "complex128"]
MORE = {
    **{f"x ** {e}": (lambda m, x, e=e: x**e, [POINTS]) for e in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 2.0)},
    "1 - x": (lambda m, x: 1 - x, [POINTS]),
    "2 / x": (lambda m, x: 2 / x, [POINTS]),
    "2 ** x": (lambda m, x: 2**x, [POINTS]),
    "0 ** x": (lambda m, x: 0**x, [POINTS]),
    "x ** x": (lambda m, x: x**x, [POINTS]),
    "x % 2": (lambda m, x: x % 2, [POINTS]),
    "clamp(0, 1)": (lambda m, x: m.clamp(x, 0, 1), [POINTS]),
    "clamp(min)": (lambda m, x: x.clamp(min=0), [POINTS]),
    "clamp(max)": (lambda m, x: x.clamp(max=1), [POINTS]),
    "clamp(tensors)": (lambda m, x, y, z: m.clamp(x, y, z), TRIPLES),
    "clamp(min tensor)": (lambda m, x, y: m.clamp(x, min=y), PAIRS),
    "clamp_max(tensor)": (lambda m, x, y: m.clamp_max(x, y), PAIRS),
    "logit(eps)": (lambda m, x: m.logit(x, 0.2), [POINTS]),
    "round(decimals)": (lambda m, x: m.round(x, decimals=1), [POINTS]),
    "div trunc": (lambda m, x, y: m.div(x, y, rounding_mode="trunc"), PAIRS),
    "div floor": (lambda m, x, y: m.div(x, y, rounding_mode="floor"), PAIRS),
    "lerp": (lambda m, x, y, z: m.lerp(x, y, z), TRIPLES),
    "lerp(number)": (lambda m, x, y: m.lerp(x, y, 0.3), PAIRS),
    "addcmul": (lambda m, x, y, z: m.addcmul(x, y, z, value=2), TRIPLES),
    "addcdiv": (lambda m, x, y, z: m.addcdiv(x, y, z, value=2), TRIPLES),
    "where": (lambda m, x, y: m.where(x > y, x * y, y), PAIRS),
    "add(alpha)": (lambda m, x, y: m.add(x, y, alpha=2), PAIRS),
    "sub(alpha)": (lambda m, x, y: m.sub(x, y, alpha=0.5), PAIRS),
    "xlog1py": (lambda m, x, y: m.special.xlog1py(x, y), PAIRS),
    **{name: (lambda m, x, name=name: getattr(m.special, name)(x), [POINTS]) for name in ("ndtr", "ndtri", "entr", "expit")},
}
CASES = {
    **{name: (lambda m, x, name=name: getattr(m, name)(x), [POINTS]) for name in UNARY},
    **{name: (lambda m, x, y, name=name: getattr(m, name)(x, y), PAIRS) for name in BINARY},
    **MORE,
}


def value(t):
    return t.detach().resolve_conj().numpy(force=True) if isinstance(t, torch.Tensor) else t._array


def derivatives(module, f, inputs):
    out = f(module, *inputs)
    ones = torch.ones_like(out) if module is torch else wrap(np.ones_like(out._array))
    return [out, *module.autograd.grad(out, inputs, ones)]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_at_ordinary_and_special_points(name):
    f, points = CASES[name]
    ours = derivatives(sg, f, [sg.tensor(p, dtype=sg.float64, requires_grad=True) for p in points])
    theirs = derivatives(torch, f, [torch.tensor(p, dtype=torch.float64, requires_grad=True) for p in points])
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(value(a), value(b), rtol=1e-12, atol=1e-15)


# --- types


def outcome(module, f):
    """The type and the values, or that it was refused."""
    try:
        result = f(module)
    except (RuntimeError, TypeError):
        return "refused", None
    if module is torch:
        return str(result.dtype), value(result.to(torch.complex128 if result.dtype.is_complex else torch.float64))
    return str(result.dtype), result._array.astype(np.complex128 if result.dtype.is_complex else np.float64)


def compare(f):
    (type_a, a), (type_b, b) = outcome(sg, f), outcome(torch, f)
    assert type_a == type_b
    if a is not None:
        tolerance = {"torch.float16": 1e-3, "torch.bfloat16": 8e-3, "torch.float32": 1e-6, "torch.complex64": 5e-6}.get(type_a, 1e-12)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance / 10)


def made(module, data, dtype):
    return module.tensor(data, dtype=getattr(module, dtype))


@pytest.mark.parametrize("name", [*UNARY, *TESTS[0]])
@pytest.mark.parametrize("dtype", TYPES)
def test_type_of_a_function_of_one_tensor(name, dtype):
    if (name, dtype) != ("square", "bool"):  # refused, where PyTorch squares into integers
        compare(lambda m: getattr(m, name)(made(m, [1, 0, 3], dtype)))


@pytest.mark.parametrize("name", [*BINARY, *TESTS[1], "floor_divide", "float_power", "clamp_min"])
def test_type_of_a_function_of_two_tensors(name):
    for x, y in itertools.product(TYPES, TYPES):
        if "complex" in x + y and (name in ("logaddexp", "logaddexp2") or "float16" in (x, y)):
            continue  # refused here, but not by PyTorch; there is no complex32
        compare(lambda m, x=x, y=y: getattr(m, name)(made(m, [1, 2, 3], x), made(m, [2, 1, 3], y)))
        compare(lambda m, x=x, y=y: getattr(m, name)(made(m, [1, 2, 3], x), made(m, 2, y)))


@pytest.mark.parametrize("word", [
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor", "lshift", "rshift", "lt", "le", "gt", "ge", "eq",
    "ne",
])
def test_type_of_an_operator_with_a_number(word):
    op = getattr(operator, word)
    for dtype, number in itertools.product(TYPES, (2, 2.5, True)):
        if (word, dtype) == ("pow", "bool") and number != 2.5:
            continue  # refused, where PyTorch has integers
        compare(lambda m, dtype=dtype, number=number: op(made(m, [1, 2, 3], dtype), number))
        compare(lambda m, dtype=dtype, number=number: op(number, made(m, [1, 2, 3], dtype)))


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_divide_as_there(dtype):
    x, y = [7, 8, 0, 1], [2, 3, 5, 1]
    signed = dtype != "uint8"
    for sx, sy in itertools.product((1, -1), repeat=2) if signed else ((1, 1),):
        for f in (
            lambda m, a, b: a // b, lambda m, a, b: a % b, lambda m, a, b: m.fmod(a, b),
            lambda m, a, b: m.div(a, b, rounding_mode="trunc"), lambda m, a, b: m.div(a, b, rounding_mode="floor"), lambda m, a, b: a / b,
        ):  # fmt: skip
            compare(lambda m, f=f, sx=sx, sy=sy: f(m, made(m, [sx * v for v in x], dtype), made(m, [sy * v for v in y], dtype)))


# --- names


def expressions(m, x, y):
    return {
        "1 - x": 1 - x, "x - 1": x - 1, "2 / x": 2 / x, "2 ** x": 2**x, "x ** 2": x**2, "x ** 0.5": x**0.5, "x ** y": x**y,
        "square": x.square(), "rsub": m.rsub(x, y), "clamp": m.clamp(x, 0, 1), "clamp min": x.clamp(min=0), "clamp_min": x.clamp_min(0),
        "clamp_min tensor": x.clamp_min(y), "clamp tensors": x.clamp(y, y), "x % y": x % y, "x % 2": x % 2,
        "div floor": m.div(x, y, rounding_mode="floor"), "round": x.round(), "round decimals": x.round(decimals=2),
        "lerp": m.lerp(x, y, 0.5), "lerp tensor": m.lerp(x, y, y), "addcmul": m.addcmul(x, y, y), "addcdiv": m.addcdiv(x, y, y),
        "float_power": x.float_power(2), "fmod": m.fmod(x, y), "fmod 2": m.fmod(x, 2),
        "xlogy": m.xlogy(x, y), "xlogy number": m.xlogy(x, 2.0),
        "number xlogy": m.xlogy(2.0, x), "logit": x.logit(), "nan_to_num": x.nan_to_num(), "where": m.where(x > y, x, y),
        "maximum": m.maximum(x, y), "-x": -x, "abs": abs(x), "add alpha": m.add(x, y, alpha=2), "deg2rad": m.deg2rad(x),
        "entr": m.special.entr(x), "xlog1py": m.special.xlog1py(x, y), "complex": m.complex(x, y), "angle": x.angle(),
        **{name: getattr(m, name)(x) for name in UNARY}, **{name: getattr(m, name)(x, y) for name in BINARY if name != "div"},
    }  # fmt: skip


def test_nodes_have_the_same_names():
    def named(m):
        x, y = (m.tensor([0.25, 0.75], requires_grad=True) for _ in range(2))
        return {key: t.grad_fn.name() for key, t in expressions(m, x, y).items()}

    assert named(sg) == named(torch)


def test_the_same_functions_are_methods_and_in_place_methods():
    from symgrad.functional import choosing, comparison, complexes, elementwise

    for name in [*elementwise.__all__, *choosing.__all__, *comparison.__all__, *complexes.__all__]:
        assert hasattr(torch, name), name
        for method in (name, f"{name}_"):
            assert hasattr(sg.Tensor, method) == hasattr(torch.Tensor, method), method


# --- complex numbers

COMPLEX = [1 + 2j, -0.5 + 0.25j, 0.3 - 0.7j, 2.0 + 0j, -1.5 - 1.5j]
ANALYTIC = [
    "neg", "reciprocal", "square", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "asin", "acos", "atan", "asinh", "sigmoid",
]  # fmt: skip
COMPLEX_CASES = {
    **{name: lambda m, z, w, name=name: getattr(m, name)(z) for name in ANALYTIC},
    "mul": lambda m, z, w: z * w, "div": lambda m, z, w: z / w, "sub": lambda m, z, w: z - 2 * w, "pow": lambda m, z, w: z**w,
    "power": lambda m, z, w: z**3, "rdiv": lambda m, z, w: 2j / z, "abs": lambda m, z, w: abs(z), "angle": lambda m, z, w: z.angle(),
    "sgn": lambda m, z, w: m.sgn(z), "conj": lambda m, z, w: z.conj() * w, "real": lambda m, z, w: m.real(z * w),
    "imag": lambda m, z, w: m.imag(z * w), "view_as_real": lambda m, z, w: m.view_as_real(z * w), "lerp": lambda m, z, w: m.lerp(z, w, 0.3),
    "addcmul": lambda m, z, w: m.addcmul(z, z, w, value=2j), "where": lambda m, z, w: m.where(m.real(z) > 0, z * z, w),
    "polar": lambda m, z, w: m.polar(abs(z), m.angle(w)), "complex": lambda m, z, w: m.complex(m.real(z), m.imag(w)) * z,
    "real times complex": lambda m, z, w: m.real(z) * w * 1j,
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX_CASES)
def test_complex_gradients_first_and_second_order(name):
    def run(m):
        z, w = (m.tensor(v, dtype=m.complex128, requires_grad=True) for v in (COMPLEX, COMPLEX[::-1]))
        out = COMPLEX_CASES[name](m, z, w)
        weights = np.linspace(1, 2, value(out).size).reshape(value(out).shape) * (1 if not out.dtype.is_complex else 1 + 0.5j)
        seed = torch.tensor(weights) if m is torch else wrap(weights)
        firsts = m.autograd.grad(out, (z, w), seed, create_graph=True, allow_unused=True)
        loss = sum((abs(g) ** 2).sum() for g in firsts if g is not None)
        seconds = m.autograd.grad(loss, (z, w), allow_unused=True) if loss.requires_grad else ()
        return [np.zeros(5) if t is None else value(t) for t in (out, *firsts, *seconds)]

    for a, b in zip(run(sg), run(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# --- half precision


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_gradients_are_rounded_once(dtype):
    def run(m):
        x = m.tensor([0.5, 1.25, 0.8125], dtype=getattr(m, dtype), requires_grad=True)
        y = x.erf() * x.exp() + (x * 300).sigmoid() / x.lgamma().exp()
        seed = m.tensor([1.0, 1.0, 1.0], dtype=getattr(m, dtype))
        (g,) = m.autograd.grad(y, [x], seed)
        assert str(g.dtype) == f"torch.{dtype}"
        return [value(t.float()) if m is torch else t._array.astype(np.float32) for t in (y, g)]

    for a, b in zip(run(sg), run(torch), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-2 if dtype == "bfloat16" else 2e-3)


# --- errors

ERRORS = {
    "-bool": lambda m: -m.tensor([True]), "bool - bool": lambda m: m.tensor([True]) - m.tensor([True]),
    "bool - 1": lambda m: m.tensor([True]) - 1, "~float": lambda m: ~m.tensor([1.0]),
    "float & float": lambda m: m.tensor([1.0]) & m.tensor([1.0]),
    "complex < complex": lambda m: m.tensor([1j]) < m.tensor([1j]), "int // 0": lambda m: m.tensor([1]) // 0,
    "int % 0": lambda m: m.tensor([1]) % 0,
    "int ** -1": lambda m: m.tensor([2]) ** -1, "clamp()": lambda m: m.clamp(m.tensor([1.0])),
    "where(int)": lambda m: m.where(m.tensor([1]), m.tensor([1.0]), m.tensor([2.0])), "x + None": lambda m: m.tensor([1.0]) + None,
    "x < None": lambda m: m.tensor([1.0]) < None, "x + 'a'": lambda m: m.tensor([1.0]) + "a",
    "div(bad)": lambda m: m.div(m.tensor([1.0]), 2, rounding_mode="bad"),
    "int add alpha": lambda m: m.add(m.tensor([1]), m.tensor([1]), alpha=0.5),
    "int.sqrt_": lambda m: m.tensor([1]).sqrt_(), "int.add_(0.5)": lambda m: m.tensor([1]).add_(0.5),
    "int.div_": lambda m: m.tensor([1]).div_(2),
    "shapes": lambda m: m.tensor([1.0, 2.0]) + m.tensor([1.0, 2.0, 3.0]), "addcdiv int": lambda m: m.addcdiv(*[m.tensor([1])] * 3),
    "isclose dtypes": lambda m: m.isclose(m.tensor([1.0]), m.tensor([1])),
    "complex maximum": lambda m: m.maximum(m.tensor([1j]), m.tensor([1j])),
    "lerp dtypes": lambda m: m.lerp(m.tensor([1.0]), m.tensor([1]), 0.5), "imag of real": lambda m: m.imag(m.tensor([1.0])),
    "leaf in place": lambda m: m.tensor([1.0], requires_grad=True).exp_(),
    "broadcast in place": lambda m: m.tensor([1.0]).mul_(m.tensor([1.0, 2.0])),
    "floor_divide backward": lambda m: (m.tensor([1.0], requires_grad=True) // 2).backward(),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_of_the_same_type(name):
    with pytest.raises(Exception) as theirs:  # noqa: PT011  (whatever PyTorch raises)
        ERRORS[name](torch)
    with pytest.raises(Exception) as ours:  # noqa: PT011  (compared with PyTorch's below)
        ERRORS[name](sg)
    assert isinstance(ours.value, theirs.type) or isinstance(theirs.value, ours.type), (ours.value, theirs.value)


TYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("alpha", [2, True, 2.5])
@pytest.mark.parametrize("name", ["add", "sub", "rsub"])
def test_scaled_second_operands_of_every_pair_of_types(name, alpha):
    def outcome(library, pair):
        x, y = (library.tensor([k, k + 1]).to(getattr(library, word)) for k, word in enumerate(pair))
        try:
            found = getattr(library, name)(x, y, alpha=alpha)
        except RuntimeError:
            return "refused"
        return str(found.dtype).rpartition(".")[2], found.tolist()

    for pair in itertools.product(TYPES, repeat=2):
        assert outcome(sg, pair) == outcome(torch, pair), pair
