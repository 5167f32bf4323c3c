"""Function: gradients that the user writes."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import Function, grad
from symgrad.autograd.function import once_differentiable
from symgrad.tensor import wrap
from symgrad.testing import gradcheck, gradgradcheck


@pytest.fixture
def x():
    return sg.tensor([1.0, 2.0], requires_grad=True)


def close(t, values):
    np.testing.assert_allclose(t._array, values, rtol=1e-6)


class Scale(Function):
    """a·b·c with a number c."""

    @staticmethod
    def forward(ctx, a, b, c):
        ctx.save_for_backward(a, b)
        ctx.c = c
        return a * b * c

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b * ctx.c, g * a * ctx.c, None


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, a):
        out = a.exp()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Split(Function):
    """Several outputs: two tensors, one of integers, and something else; ctx filled in setup_context."""

    @staticmethod
    def forward(a, extra):
        return a * 2, a * 3, sg.tensor([1, 2]), extra

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.extra = inputs[1]

    @staticmethod
    def backward(ctx, first, second, third, extra):
        assert (ctx.extra, extra) == ("extra", None)
        assert third._array.dtype == np.int64
        return first * 2 + second * 3, None


def test_gradients_of_first_and_second_order():
    a, b = (wrap(np.array([0.5, 1.5]) + i, True) for i in range(2))
    f = lambda a, b: Scale.apply(Exp.apply(a) * b, b, 3.0)
    assert gradcheck(f, (a, b))
    assert gradgradcheck(f, (a, b))


def test_node_shows_what_ctx_has(x):
    y = Scale.apply(x, x, 2.0)
    assert y.grad_fn.name() == "ScaleBackward"
    assert repr(y).endswith("grad_fn=<ScaleBackward>)")
    assert y.grad_fn.c == 2.0
    assert y.grad_fn.needs_input_grad == (True, True, False)
    assert y.grad_fn.saved_tensors[0] is x
    assert [f.variable is x for f, _ in y.grad_fn.next_functions] == [True, True]
    with pytest.raises(AttributeError, match="nothing"):
        _ = y.grad_fn.nothing


def test_several_outputs_and_setup_context(x):
    p, q, integers, extra = Split.apply(x, "extra")
    assert (integers.requires_grad, extra) == (False, "extra")
    q.sum().backward(retain_graph=True)
    close(x.grad, [3, 3])
    (p * q).sum().backward()
    close(x.grad, 3 + 12 * x._array)


def test_unused_outputs_are_zeros_or_none_as_asked(x):
    class Ask(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.set_materialize_grads(False)
            constant = a * 3
            ctx.mark_non_differentiable(constant)
            return a * 2, a * 5, constant

        @staticmethod
        def backward(ctx, *gs):
            assert gs[1:] == (None, None)
            return gs[0] * 2

    first, second, constant = Ask.apply(x)
    assert second.requires_grad
    assert not constant.requires_grad
    first.sum().backward()
    close(x.grad, [2, 2])


def test_changing_an_input_in_place(x):
    class Double(Function):
        @staticmethod
        def forward(ctx, a):
            a.mul_(2)
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = x * 3
    z = Double.apply(y)
    assert z is y
    assert y.grad_fn.name() == "DoubleBackward"
    z.sum().backward()
    close(x.grad, [6, 6])
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Double.apply(x)


def test_a_write_that_only_the_function_knows_of_is_noticed(x):
    class ByNumPy(Function):
        @staticmethod
        def forward(ctx, a):
            a.detach().numpy()[...] *= 2
            ctx.mark_dirty(a)
            return a

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = x * 1
    z = y.sin()
    ByNumPy.apply(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_what_is_dirty_must_be_returned(x):
    class Forgetful(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a * 1

    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned"):
        Forgetful.apply(x * 1)


def test_an_input_returned_as_it_is_is_another_tensor(x):
    class Reverse(Function):
        @staticmethod
        def forward(ctx, a):
            return a

        @staticmethod
        def backward(ctx, g):
            return -g

    y = Reverse.apply(x)
    assert y is not x
    y.sum().backward()
    close(x.grad, [-1, -1])
    assert x.is_leaf


def test_a_view_of_an_input_may_be_returned():
    class Flip(Function):
        @staticmethod
        def forward(ctx, a):
            return a.t()

        @staticmethod
        def backward(ctx, g):
            return g.t() * 10

    x = sg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = Flip.apply(x)
    assert y.grad_fn.name() == "FlipBackward"
    (y * sg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    close(x.grad, [[10, 30], [20, 40]])
    base = x * 1
    y = Flip.apply(base)
    base.mul_(2)
    assert y.grad_fn.name() == "FlipBackward"


def test_once_differentiable(x):
    class Square(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    y = Square.apply(x)
    (g,) = grad((y * y).sum(), x, create_graph=True)
    close(g, 4 * x._array**3)
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


def test_oldest_style_with_an_instance_for_each_call(x):
    class MyReLU(Function):
        def __init__(self, slope):
            self.slope = slope

        def forward(self, a):
            self.save_for_backward(a)
            return a.relu() * self.slope

        def backward(self, g):
            (a,) = self.saved_tensors
            return g * (a > 0) * self.slope

    relu = MyReLU(3.0)
    (relu(x - 1.5) + relu(x)).sum().backward()
    close(x.grad, [3, 6])
    with pytest.raises(RuntimeError, match="Legacy autograd function with non-static forward method is deprecated"):
        Exp()(x)


def test_nothing_is_recorded_without_need(x):
    with sg.no_grad():
        assert Exp.apply(x).is_leaf
    assert Exp.apply(sg.tensor([1.0])).is_leaf


def test_forward_does_not_record(x):
    class Inner(Function):
        @staticmethod
        def forward(ctx, a):
            assert not sg.is_grad_enabled()
            assert a.requires_grad
            with sg.enable_grad():
                return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 7

    y = Inner.apply(x)
    assert sg.is_grad_enabled()
    assert y.grad_fn.name() == "InnerBackward"
    y.sum().backward()
    close(x.grad, [7, 7])


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda g: (g, g, g), r"function BadBackward returned an incorrect number of gradients \(expected 2, got 3\)"),
        (lambda g: g, r"function BadBackward returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: [g, None], r"returned an incorrect number of gradients \(expected 2, got 1\)"),
        (lambda g: (g, g), "returned a gradient different than None at position 2, but the corresponding forward input was not"),
        (lambda g: (sg.tensor([1.0, 1.0, 1.0]), None), r"returned an invalid gradient at index 0 - got \[3\] but expected .* \[2\]"),
        (lambda g: (g.sum(), None), r"returned an invalid gradient at index 0 - got \[\] but expected .* \[2\]"),
        (lambda g: (sg.ones(2, 3), None), r"returned an invalid gradient at index 0 - got \[2, 3\] but expected .* \[2\]"),
        (lambda g: (1.0, None), r"expected Variable or None \(got float\)"),
    ],
)  # fmt: skip
def test_what_backward_returns_is_checked(x, result, text):
    class Bad(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * b

        @staticmethod
        def backward(ctx, g):
            return result(g)

    with pytest.raises(RuntimeError, match=text):
        Bad.apply(x, 2.0).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(("shape", "of"), [((3, 2), (2,)), ((3, 2), (1, 2)), ((3, 2), (3, 1)), ((2,), ())])
def test_a_gradient_that_the_input_broadcasts_to_is_summed(shape, of):
    class Wide(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            return sg.ones(shape)

    x = sg.ones(of, requires_grad=True)
    Wide.apply(x).sum().backward()
    assert tuple(x.grad.shape) == of
    close(x.grad, np.full(of, np.prod(shape) / np.prod(of)))


def test_a_gradient_that_broadcasts_is_summed_and_extra_nones_are_ignored(x):
    class Wide(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return sg.tensor([[1.0, 1.0], [2.0, 2.0]]), None, None

    Wide.apply(x).sum().backward()
    close(x.grad, [3, 3])


def test_missing_methods_say_so(x):
    class Half(Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        Half.apply(x).sum().backward()
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        Function.apply(x)


def test_saved_tensors_are_freed_guarded_and_must_be_tensors(x):
    y = Exp.apply(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.sum().backward()
    y = Exp.apply(x)
    y.add_(1)
    with pytest.raises(RuntimeError, match="which is output 0 of ExpBackward, is at version 1; expected version 0 instead"):
        y.sum().backward()

    class Wrong(Function):
        @staticmethod
        def forward(ctx, a):
            ctx.save_for_backward(3)

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        Wrong.apply(x)
