"""The checks that other tests lean on: they must see a wrong gradient."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.dispatch import recorded
from symgrad.ops.spec import Meta, Row
from symgrad.tensor import wrap
from symgrad.testing import GradcheckError, assert_close, gradcheck, gradgradcheck

LARGE = (
    r"Tensor-likes are not close!\n\nMismatched elements: 1 / 2 \(50.0%\)\n"
    r"Greatest absolute difference: 0.5 at index \(1,\) \(up to 1e-05 allowed\)\n"
    r"Greatest relative difference: 0.20000000298023224 at index \(1,\) \(up to 1.3e-06 allowed\)"
)


def leaf(*shape):
    return wrap(np.random.default_rng(1).uniform(0.5, 1.5, shape), requires_grad=True)


def odd(rule, saves="x"):
    """x² with the given rule."""
    type_rule = lambda x: Meta(x.shape, x.dtype)
    return recorded(Row("odd", ("x",), np.square, (rule,), (frozenset(saves.split()),), "each", type_rule))


def test_right_gradients_pass_to_second_order():
    f = lambda x, y: ((x * y).tanh(), (x / y).sum())
    assert gradcheck(f, (leaf(3, 2), leaf(2)))
    assert gradgradcheck(f, (leaf(3, 2), leaf(2)))


def test_complex_functions():
    z = wrap(np.array([0.5 + 0.25j, -1.0 + 0.5j]), requires_grad=True)
    for f in (lambda z, x: z * x, lambda z, x: (z * z).exp() * x, lambda z, x: z.real * x, lambda z, x: (z * x).abs()):
        assert gradcheck(f, (z, leaf(2)))
        assert gradgradcheck(f, (z, leaf(2)))
    wrong = odd(lambda xp, g, out, x: g * 2j * x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(wrong, (z,))


def test_wrong_gradient_is_named_with_both_jacobians():
    wrong = odd(lambda xp, g, out, x: g * x)
    with pytest.raises(
        GradcheckError, match=r"Jacobian mismatch for output 1 with respect to input 1,\nnumerical:tensor\((.|\n)*analytical:tensor\("
    ):
        gradcheck(lambda x, y: (x * y, wrong(y)), (leaf(2), leaf(2)))
    assert gradcheck(wrong, (leaf(2),), raise_exception=False) is False


def test_wrong_second_derivative_is_found():
    halves = odd(lambda xp, g, out, x: g * x)  # its own derivative is recorded as half of the right one

    def rule(xp, g, out, x):
        return g * 2 * (halves(x) / x if isinstance(x, sg.Tensor) else x)

    first_right = odd(rule)
    assert gradcheck(first_right, (leaf(2),))
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradgradcheck(first_right, (leaf(2),))


def test_gradient_that_ignores_its_cotangent_is_found():
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(odd(lambda xp, g, out, x: 2 * x), (leaf(1),))


def test_a_random_gradient_is_found():
    rng = np.random.default_rng(0)
    noisy = odd(lambda xp, g, out, x: g * 2 * x * (1 + 1e-9 * rng.normal()))
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(noisy, (leaf(2),))
    assert gradcheck(noisy, (leaf(2),), nondet_tol=1e-6)


def test_inputs_must_want_a_gradient_in_double():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(lambda x: x * 2, (sg.tensor([1.0]),))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(lambda x: x * 2, sg.tensor([1.0], requires_grad=True), raise_exception=False)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "text"),
    [
        (sg.tensor([1.0, 2.0]), sg.tensor([1.0, 2.5]), {}, LARGE),
        (sg.tensor(1.0), sg.tensor(2.0), {}, "Scalars are not close!\n\nExpected 2.0 but got 1.0."),
        (sg.tensor([1, 2]), sg.tensor([1, 3]), {}, "Tensor-likes are not equal!"),
        (sg.tensor([1.0]), sg.tensor([1.0], dtype=sg.float64), {}, "attribute 'dtype' do not match: torch.float32 != torch.float64"),
        (sg.tensor([1.0]), sg.tensor([1.0, 1.0]), {}, r"attribute 'shape' do not match: torch.Size\(\[1\]\) != torch.Size\(\[2\]\)"),
        ([sg.tensor(1.0)], [sg.tensor(3.0)], {}, r"The failure occurred for item \[0\]"),
        ({"a": sg.tensor(1.0)}, {"b": sg.tensor(1.0)}, {}, r"Missing keys in the actual mapping: \['b'\]"),
        ([1.0], [1.0, 2.0], {}, "The length of the sequences mismatch: 1 != 2"),
        (float("nan"), float("nan"), {}, "Scalars are not close!"),
        (sg.tensor([1.0]), sg.tensor([1.01]), {"rtol": 0, "atol": 1e-3}, "up to 0.001 allowed"),
        (1.0, 2.0, {"msg": "mine"}, "^mine$"),
        (1.0, 2.0, {"msg": lambda text: "so: " + text}, "^so: Scalars are not close!"),
    ],
)  # fmt: skip
def test_what_is_not_close(actual, expected, options, text):
    with pytest.raises(AssertionError, match=text):
        assert_close(actual, expected, **options)


def test_what_is_close():
    assert_close(sg.tensor([1.0, 2.0]), sg.tensor([1.0, 2.0 + 1e-6]))
    assert_close({"a": (1.0, None)}, {"a": (1.0 + 1e-9, None)})
    assert_close(sg.tensor([float("nan")]), sg.tensor([float("nan")]), equal_nan=True)
    assert_close(sg.tensor([1.0]), sg.tensor([1.0], dtype=sg.float64), check_dtype=False)
    with pytest.raises(TypeError, match="No comparison pair was able to handle"):
        assert_close("a", "a")
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted, but got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
