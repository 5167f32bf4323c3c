"""Writes to tensors that changed their shape in place, and through views of real and imaginary parts, are those of eager code."""

import numpy as np
import pytest
from derivative_modes import assert_same_in_all_lives

import symgrad as sg

X = np.array([0.7, -1.3, 0.4])
SHAPED = {
    "unsqueeze_": lambda h: h.unsqueeze_(0),
    "t_": lambda h: h.reshape(3, 1).clone().t_(),
    "squeeze_": lambda h: h.reshape(1, 3, 1).clone().squeeze_(-1),
    "transpose_": lambda h: h.reshape(3, 1).clone().transpose_(0, 1),
    "swapaxes_": lambda h: h.reshape(3, 1).clone().swapaxes_(0, 1),
    "of a view": lambda h: h.reshape(3, 1).transpose_(0, 1),
    "twice": lambda h: h.unsqueeze_(0).unsqueeze_(-1).squeeze_(2),
}


@pytest.mark.parametrize("shape", SHAPED.values(), ids=SHAPED)
def test_a_write_after_a_change_of_shape_keeps_the_history(shape):
    def f(x):
        h = shape(x * 1)
        h[0, 0] = x[1] * 5
        h[:, 1:] *= x[0]
        return h * h

    assert_same_in_all_lives(f, X)


def test_views_made_before_and_after_a_change_of_shape_see_each_other():
    def f(x):
        h = (x * 1).reshape(1, 3).clone()
        before = h[0]
        h.t_()
        after = h[1:]
        before.mul_(x)
        after[0] = x[0]
        h.unsqueeze_(0)
        h[0, 2] = before[0]
        return before * before, after**3, h.sin()

    assert_same_in_all_lives(f, X, backends=("numpy", "xla"))


def real(x, z):
    z.real.mul_(x)


def imag(x, z):
    z.imag[0] = x[1]


def part_of_a_part(x, z):
    z[1:].imag[0] = x[2] * x[0]
    z.real[:2].mul_(x[1])


def as_real(x, z):
    r = sg.view_as_real(z)
    r[1] = x[0]
    z *= 2
    r[:, 1].mul_(x)


def as_real_in_another_layout(x, z):
    sg.view_as_real(z).reshape(2, 3)[0] = x
    z.reshape(3, 1).real[:, 0].add_(x)


def back_and_forth(x, z):
    sg.view_as_complex(sg.view_as_real(z))[1:].mul_(x[0])


WRITES = [real, imag, part_of_a_part, as_real, as_real_in_another_layout, back_and_forth]


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_writes_through_real_and_imaginary_parts(write):
    def f(x):
        z = sg.complex(x, x * 2) * 1
        write(x, z)
        return z * z, z.real * z.imag

    assert_same_in_all_lives(f, X)


@pytest.mark.slow
def test_all_writes_through_parts_on_xla():
    def f(x):
        z = sg.complex(x, x * 2) * 1
        for write in WRITES:
            write(x, z)
        return z * z

    assert_same_in_all_lives(f, X, backends=("xla",))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_a_complex_write_through_a_view_of_real_numbers(backend):
    def f(x):
        r = sg.stack([x, x * 2], -1)
        z = sg.view_as_complex(r)
        z.mul_(sg.complex(x, 1 - x))
        z.imag[1:] = x[0]
        r[0, 0] = x[2]
        return r * r, z.abs()

    assert_same_in_all_lives(f, X, backends=(backend,))


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_hessians_with_an_argument_that_is_empty(backend):
    fast = sg.compile(lambda a, b, c: (b**3).sum() + a.sum() + (c * b).sum(), backend=backend)
    args = sg.zeros(0), sg.ones(2), sg.full((2,), 3.0)
    wanted = sg.func.hessian(lambda a, b, c: (b**3).sum() + a.sum() + (c * b).sum(), (0, 1, 2))(*args)
    for rows, expected in zip(fast.hessian(*args), wanted, strict=True):
        for block, other in zip(rows, expected, strict=True):
            np.testing.assert_array_equal(block._array, other._array)
    assert fast.hessian(*args)[1][1]._array.tolist() == [[6, 0], [0, 6]]


class OneSided(sg.autograd.Function):
    """a·b with a backward whose own derivatives are no symmetric matrix."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        _, b = ctx.saved_tensors
        return g * b * b, g * 0


def test_a_hessian_need_not_be_symmetric():
    f = lambda a, b: OneSided.apply(a, b).sum()
    a, b = sg.tensor([1.0, 2.0]), sg.tensor([3.0, 4.0])
    found, wanted = sg.compile(f).hessian(a, b), sg.func.hessian(f, (0, 1))(a, b)
    assert found[0][1]._array.tolist() == [[6, 0], [0, 8]]
    assert found[1][0]._array.tolist() == wanted[1][0]._array.tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("wrap", [lambda f: f, sg.compile], ids=["eager", "compiled"])
def test_a_change_of_shape_under_no_grad_keeps_the_history(wrap):
    def f(x):
        h = x * 2
        with sg.no_grad():
            h.t_()
            h.unsqueeze_(0).squeeze_(0)
        return h * sg.tensor([[1.0, 10.0], [100.0, 1000.0], [3.0, 4.0]])

    run = wrap(f)
    for _ in range(2):
        x = sg.ones(2, 3).requires_grad_()
        run(x).sum().backward()
        assert x.grad.tolist() == [[2, 200, 6], [20, 2000, 8]]
    leaf = sg.ones(2, 3).requires_grad_()
    with sg.no_grad():
        assert leaf.t_().is_leaf


S = sg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=sg.float64)


def turned_without_history(x):
    with sg.no_grad():
        v = x[:2].unsqueeze_(0).t_()
    return v * x


OUTSIDE = {
    "state": lambda x: S.view(-1).unsqueeze_(0) * x.sum(),
    "state, twice": lambda x: S.t().flatten(0, 1).unsqueeze_(1).transpose_(0, 1) * x.sum(),
    "detached": lambda x: x.detach().view(1, -1).t_() * x,
    "no_grad": turned_without_history,
}


@pytest.mark.parametrize("f", OUTSIDE.values(), ids=OUTSIDE)
def test_a_view_of_what_comes_from_outside_changes_its_shape(f):
    """No number is written, so that derivatives are those of a function without effects."""
    assert_same_in_all_lives(f, X, backends=("numpy", "xla"))
    assert S.shape == (2, 2)


def filled_twice(x):
    y = x * 2
    part = y[:1].expand(2, 2, 1)
    part.fill_(1 / 3)
    after = y + part.sum()
    part.zero_()
    return after, y, part


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_elements_that_share_memory_are_filled_with_one_number(backend):
    x = sg.tensor(X)
    fast = sg.compile(filled_twice, backend=backend)
    for _ in range(2):
        for found, wanted in zip(fast(x), filled_twice(x), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-15)
    for f in (filled_twice, fast):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
            f(sg.tensor(X, requires_grad=True))


@pytest.mark.parametrize("change", [lambda v: v.unsqueeze_(0), lambda v: v.unsqueeze_(1).squeeze_(), lambda v: v.unsqueeze_(0).t_()])
def test_a_write_after_a_change_of_shape_without_recording_has_a_history(change):
    """The tensor itself is no view, though its shape changed under no_grad."""

    def f(x, w):
        h = x * 2
        with sg.no_grad():
            change(h)
        h[0] += w[0] * 3
        return (h * h).sum()

    x, w = sg.tensor([0.5, -1.0, 2.0], dtype=sg.float64), sg.tensor([1.0, 2.0, 4.0], dtype=sg.float64, requires_grad=True)
    f(x, w).backward()
    expected, w.grad = w.grad, None
    fast = sg.compile(f, backend="numpy")
    for _ in range(2):
        fast(x, w).backward()
        sg.testing.assert_close(w.grad, expected)
        w.grad = None
    sg.testing.assert_close(fast.grad(x, w, wrt="w"), expected)
    (x_slope,) = sg.autograd.grad(f(y := x.clone().requires_grad_(), w), y)
    sg.testing.assert_close(fast.grad(x, w, wrt="x"), x_slope)
