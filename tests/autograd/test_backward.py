"""backward() and grad(): arguments, accumulation, errors that leave everything as it was."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.autograd import Variable, backward, grad
from symgrad.tensor import wrap

MISMATCH = (
    r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[2, 1\]\)"
    r" and output\[0\] has a shape of torch.Size\(\[2\]\)"
)


@pytest.fixture
def x():
    return sg.tensor([1.0, 2.0], requires_grad=True)


def same(t, values):
    np.testing.assert_array_equal(t._array, values)


def test_gradients_accumulate_in_place(x):
    (x * 3).sum().backward()
    first = x.grad
    (x * 4).sum().backward()
    assert x.grad is first
    same(first, [7, 7])
    assert first._version == 1
    assert not first.requires_grad


def test_gradients_of_two_leaves_do_not_share_memory(x):
    y = sg.tensor([3.0, 4.0], requires_grad=True)
    seed = sg.tensor([1.0, 1.0])
    (x + y).backward(seed)
    x.grad.mul_(5)
    same(y.grad, [1, 1])
    same(seed, [1, 1])
    leaf = sg.tensor([1.0, 1.0], requires_grad=True)
    leaf.backward(seed)
    leaf.grad.mul_(7)
    same(seed, [1, 1])


def test_the_gradient_argument_weighs_the_outputs(x):
    (x * x).backward(sg.tensor([0.1, 10.0], dtype=sg.float64))
    np.testing.assert_allclose(x.grad._array, [0.2, 40], rtol=1e-6)
    assert x.grad.dtype == sg.float32


def test_several_outputs_at_once(x):
    backward([x * 2, (x * 3).sum()], [sg.tensor([1.0, 10.0]), None])
    same(x.grad, [5, 23])
    same(grad([x * 2, x.sum()], [x], [sg.tensor([1.0, 1.0]), None])[0], [3, 3])


def test_the_same_output_twice(x):
    y = (x * x).sum()
    same(grad([y, y], x)[0], 4 * x._array)


def test_inputs_restrict_backward(x):
    w = sg.tensor([3.0, 4.0], requires_grad=True)
    y = x * w
    z = (y * y).sum()
    z.backward(inputs=[w, y], retain_graph=True)
    assert x.grad is None
    same(w.grad, 2 * (x._array**2) * w._array)
    same(y.grad, 2 * y._array)
    z.backward(inputs=x)
    same(x.grad, 2 * x._array * w._array**2)


def test_grad_leaves_grad_alone_and_differentiates_in_inner_tensors(x):
    y = x * 2
    z = (y * y).sum()
    gy, gx = grad(z, (y, x))
    same(gy, 2 * y._array)
    same(gx, 8 * x._array)
    assert x.grad is None


def test_an_output_may_be_its_own_input(x):
    same(grad(x, x, sg.tensor([5.0, 6.0]))[0], [5, 6])
    y = (x * 2).sum()
    same(grad(y, y)[0], 1)


def test_unused_inputs(x):
    other = sg.tensor([1.0], requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(RuntimeError, match="The differentiated Tensor at index 1 appears to not have been used in the graph"):
        grad(y, (x, other), retain_graph=True)
    assert grad(y, (x, other), retain_graph=True, allow_unused=True)[1] is None
    same(grad(y, (x, other), materialize_grads=True)[1], [0])


def test_gradient_in_one_output_of_a_node_with_several(x):
    a, b = (x * 2).unbind()
    y = a * b + a * a
    same(grad(y, a, retain_graph=True)[0], 2 * a._array + b._array)
    same(grad(y, (b, x))[0], a._array)


def test_batched_cotangents_of_unused_inputs(x):
    other = sg.tensor([1.0], requires_grad=True)
    rows, unused = grad(x * x, (x, other), sg.tensor([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True, allow_unused=True)
    same(rows, np.diag(2 * x._array))
    assert unused is None
    same(grad(x * x, x, sg.ones(1, 2), is_grads_batched=True)[0], [2 * x._array])


def test_batched_cotangents(x):
    y = x * x
    (rows,) = grad(y, x, sg.tensor([[1.0, 0.0], [0.0, 1.0]]), is_grads_batched=True)
    same(rows, np.diag(2 * x._array))
    with pytest.raises(ValueError, match="one common size"):
        grad([x * 2, x * 3], x, [sg.tensor([[1.0, 0.0]]), sg.tensor([[1.0, 0.0]] * 2)], is_grads_batched=True)


def test_create_graph_records_and_accumulates_without_aliases(x):
    y = sg.tensor([3.0, 4.0], requires_grad=True)
    with pytest.warns(UserWarning, match="create_graph=True will create a reference cycle"):
        (x * x + y).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    assert x.grad is not y.grad
    (g,) = grad(x.grad.sum(), x)
    same(g, [2, 2])
    x.grad = y.grad = None


def test_second_order_of_what_was_cast():
    x = sg.tensor([1.5, 2.5], requires_grad=True)
    w = wrap(np.array([2.0, 3.0]), True)
    (g,) = grad((x * w * x).sum(), x, create_graph=True)
    assert g.dtype == sg.float32
    found = grad(g.sum(), (x, w))
    np.testing.assert_allclose(found[0]._array, 2 * w._array)
    np.testing.assert_allclose(found[1]._array, 2 * x._array)


def test_replacing_data_between_the_passes_keeps_the_old_values(x):
    (g,) = grad((x * x * x).sum(), x, create_graph=True)
    kept = x._array.copy()
    x.data = sg.tensor([10.0, 20.0])
    np.testing.assert_allclose(g._array, 3 * kept**2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: (x * 2).backward(), RuntimeError, "grad can be implicitly created only for scalar outputs"),
        (lambda x: grad(x * 2, x), RuntimeError, "grad can be implicitly created only for scalar outputs"),
        (lambda x: sg.tensor(1.0).backward(), RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn"),
        (lambda x: backward([x.sum(), sg.tensor(1.0)]), RuntimeError, "element 1 of tensors does not require grad"),
        (lambda x: (x * 2).backward(sg.tensor([[1.0], [1.0]])), RuntimeError, MISMATCH),
        (lambda x: (x * 2).backward([1.0, 1.0]), RuntimeError, "got 1 tensors and 2 gradients"),
        (lambda x: (x * 2).backward(["a"]), TypeError, "gradients can be either Tensors or None, but got str"),
        (lambda x: (x * 2).backward([1.0]), RuntimeError, "Mismatch in shape"),
        (lambda x: backward([x * 2, x * 3], [sg.tensor([1.0, 1.0])]), RuntimeError, "got 2 tensors and 1 gradients"),
        (lambda x: x.sum().backward(inputs=[]), RuntimeError, "`inputs` argument to `backward\\(\\)` cannot be empty"),
        (lambda x: grad(x.sum(), []), RuntimeError, "`inputs` argument to `grad\\(\\)` cannot be empty"),
        (lambda x: grad(x.sum(), sg.tensor(1.0)), RuntimeError, "One of the differentiated Tensors does not require grad"),
        (lambda x: grad(x.sum(), x, allow_unused=False, materialize_grads=True), ValueError, "allow_unused to be True or not passed"),
    ],
)  # fmt: skip
def test_bad_calls_change_nothing(x, call, error, text):
    with pytest.raises(error, match=text):
        call(x)
    assert x.grad is None
    assert sg.is_grad_enabled()
    (x * 2).sum().backward()
    same(x.grad, [2, 2])


def test_an_error_half_way_leaves_the_rest_of_the_graph_usable(x):
    y = x * x
    z = y.sin()
    handle = y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        z.sum().backward(retain_graph=True)
    assert sg.is_grad_enabled()
    assert x.grad is None
    handle.remove()
    z.sum().backward()
    np.testing.assert_allclose(x.grad._array, 2 * x._array * np.cos(x._array**2), rtol=1e-6)


def test_infinities_meet_without_a_warning():
    class Huge(sg.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            infinite = wrap(np.array([np.inf, 1e300]))
            return infinite, infinite

    x = sg.tensor([1.0, 2.0], requires_grad=True)
    for sign in (1.0, -1.0):
        (x * sign * np.inf).sum().backward()
    Huge.apply(x, x).sum().backward()
    assert np.isnan(x.grad._array[0])
    y = sg.tensor([1.0, 2.0], requires_grad=True)
    Huge.apply(y * -1e30, y).sum().backward()
    assert not np.isfinite(y.grad._array).any()


def test_backward_inside_a_hook(x):
    other = sg.tensor([5.0], requires_grad=True)
    y = x * 2

    @sg.enable_grad()
    def hook(g):
        (other * other).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    same(other.grad, [10])
    same(x.grad, [2, 2])


def test_freed_graphs_say_how_to_keep_them(x):
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"Trying to backward through the graph a second time .*Specify retain_graph=True"):
        grad(y, x)
    z = (x + 1).sum()  # saves nothing, so nothing is freed
    z.backward()
    z.backward()
    same(x.grad, 2 * x._array + 2)


@pytest.mark.parametrize("order", [1, 2])
def test_a_saved_tensor_that_was_written_to_is_named(x, order):
    y = x * 2
    z = (y * y * y).sum()
    if order == 2:
        (g,) = grad(z, x, create_graph=True)
        z = g.sum()
    y.add_(1)
    y.add_(1)
    text = (
        r"modified by an inplace operation: \[torch.FloatTensor \[2\]\], which is output 0 of MulBackward0, is at version 2;"
        r" expected version 0 instead. Hint: enable anomaly detection to find"
    )
    with pytest.raises(RuntimeError, match=text):
        z.backward()


def test_what_only_the_second_pass_reads_is_guarded_too(x):
    y = x * 2
    (g,) = grad(y.sin().sum(), x, create_graph=True)
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"output 0 of MulBackward0, is at version 1; expected version 0 instead"):
        g.sum().backward()


def test_a_constant_that_was_written_to_is_named(x):
    constant = sg.tensor([1.0, 2.0])
    constant.mul_(2)
    z = (x * constant).sum()
    constant.mul_(2)
    with pytest.raises(RuntimeError, match=r"\[torch.FloatTensor \[2\]\] is at version 2; expected version 1 instead"):
        z.backward()


def test_retain_grad_follows_a_write(x):
    y = x * 2
    y.retain_grad()
    y.mul_(3)
    assert y.retains_grad
    (y * y).sum().backward()
    same(y.grad, 2 * y._array)


def test_retain_grad_of_a_base_follows_a_write_through_a_view(x):
    y = x * 2
    y.retain_grad()
    y[0].mul_(3)
    (y * y).sum().backward()
    same(y.grad, 2 * y._array)
    same(x.grad, [72, 16])


def test_variable_is_a_tensor_of_the_same_memory(x):
    data = sg.tensor([1.0, 2.0])
    v = Variable(data, requires_grad=True)
    assert isinstance(v, Variable)
    assert isinstance(data, Variable)
    assert v is not data
    assert np.shares_memory(v._array, data._array)
    (v * v).sum().backward()
    same(v.grad, [2, 4])
    assert not Variable(x * 2).requires_grad
    with pytest.warns(UserWarning, match="volatile was removed and now has no effect"):
        Variable(data, volatile=True)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        Variable([1.0])


@pytest.mark.parametrize("name", ["relu", "leaky_relu", "hardtanh", "hardshrink", "softshrink", "relu6", "max_pool1d", "avg_pool1d"])
def test_the_second_derivative_of_a_piecewise_linear_function_is_zero_not_missing(name):
    x = sg.tensor([[0.3, -1.2, 2.0, 1.1]], requires_grad=True)
    function = getattr(sg.nn.functional, name)
    y = function(x, 2) if "pool" in name else function(x)
    (first,) = sg.autograd.grad(y.sum(), x, create_graph=True)
    assert first.requires_grad
    (second,) = sg.autograd.grad((first * first).sum(), x)
    assert second.tolist() == [[0.0, 0.0, 0.0, 0.0]]
