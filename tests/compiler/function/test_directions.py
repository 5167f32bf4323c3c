"""VJPs and JVPs at a point: what they say of themselves, which directions they take, and what happens to arguments meanwhile."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import symgrad as sg

X, W = sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])


@pytest.fixture(scope="module", params=["program", "eager"])
def wave(request):
    """A compiled function, and one that cannot be traced, which falls back to eager code."""

    def wave(x, w):
        return x * x * w * (1.0 if request.param == "program" else x.sum().item() * 0 + 1)

    return sg.compile(wave, backend="numpy", fallback="eager")


pytestmark = pytest.mark.filterwarnings("ignore:derivatives of")


def test_they_say_what_they_are(wave):
    assert repr(wave.vjp(X, W, wrt=("x", "w"))) == "<vjp of wave in x, w: call it with cotangents>"
    assert repr(wave.jvp(X, W, wrt="w")) == "<jvp of wave in w: call it with tangents>"
    assert wave.vjp(X, W).value.tolist() == wave.jvp(X, W).value.tolist() == [3, 16]


@pytest.mark.parametrize("v", [
    [1, 2], [1.0, 2.0], np.array([1, 2]), np.array([1.0, 2.0]), [Fraction(1), Fraction(2)], sg.tensor([1, 2]),
    sg.tensor([1.0, 2.0], dtype=sg.float64), X,
], ids=repr)  # fmt: skip
def test_directions_may_be_any_real_numbers(wave, v):
    assert wave.vjp(X, W, wrt="w")(v).tolist() == [1, 8]
    assert wave.jvp(X, W, wrt="w")(v).tolist() == [1, 8]


@pytest.mark.parametrize("v", [[1.0], [[1.0, 2.0]], 1.0, [1j, 2.0], ["a", "b"], [None, 1.0], sg.ones(3), sg.ones(2, 1)], ids=repr)
def test_other_directions_are_refused(wave, v):
    for begun, name in ((wave.vjp(X, W, wrt="w"), "the cotangent"), (wave.jvp(X, W, wrt="w"), "the tangent of w")):
        with pytest.raises(ValueError, match=rf"{name} must be float32\[2\], got "):
            begun(v)


def test_an_argument_that_was_written_to_is_named():
    fast = sg.compile(lambda x, w: x * x * w, backend="numpy")
    for _ in range(2):  # by the slow path, then by the fast one
        x = X.clone()
        begun = [fast.vjp(x, W, wrt="w"), fast.jvp(x, W, wrt="w")]
        x.add_(1)
        for each in begun:
            with pytest.raises(RuntimeError, match="x has been written to in place since this derivative was begun"):
                each(W)


def test_an_array_may_be_written_to_after_a_derivative_was_begun(wave):
    x = np.array([1.0, 2.0], np.float32)
    begun = wave.vjp(x, W, wrt="w"), wave.jvp(x, W, wrt="w")
    x[:] = 100
    assert [each(X).tolist() for each in begun] == [[1, 8], [1, 8]]


def test_arrays_alone_give_arrays_and_tensors_among_the_directions_tensors(wave):
    x, w = X.numpy().copy(), W.numpy().copy()
    assert isinstance(wave.vjp(x, w, wrt="w")(x), np.ndarray)
    assert isinstance(wave.vjp(x, w, wrt="w")(X), sg.Tensor)
    assert isinstance(wave.vjp(x, w).value, np.ndarray)
    assert isinstance(wave.vjp(X, w, wrt="w")(x), sg.Tensor)


def test_derivatives_own_their_memory(wave):
    """Also the value, and the gradient of a sum, whose elements are one number in memory."""
    x = X.clone()
    found = wave.jacobian(x, W, wrt="x")
    found.add_(1)
    assert x.tolist() == [1, 2]
    value = wave.vjp(x, W).value
    value.add_(1)
    assert wave.vjp(x, W).value.tolist() == [3, 16]


def test_complex_results_have_no_jacobian_in_eager_code_either():
    for f in (lambda x: x * 1j, lambda x: x * 1j * (x.sum().item() * 0 + 1)):
        fast = sg.compile(f, backend="numpy", fallback="eager")
        for ask in (fast.jacobian, fast.hessian):
            with pytest.raises(sg.errors.GraphError, match=r"Jacobian|Hessian"):
                ask(X, wrt="x")


def test_a_hundred_requests_leave_the_answers_right():
    fast = sg.compile(lambda x, w: (x * x * w).sum(), backend="numpy")
    kept = []
    for i in range(100):
        wrt = "".join(["x"]) if i % 2 else ("w", "x"[: 1 + i])  # new objects, of which many are remembered
        kept.append(wrt)
        found = fast.grad(X, W, wrt=wrt)
        if wrt == "x":
            assert found.tolist() == [6, 16]
        else:
            assert [g.tolist() for g in found] == [[1, 4], [6, 16]]
    assert len(fast._program_cache.fast._aliases) <= 64
    request = ["x"]
    assert fast.grad(X, W, wrt=request)[0].tolist() == [6, 16]
    request[0] = "w"  # a list may change
    assert fast.grad(X, W, wrt=request)[0].tolist() == [1, 4]
