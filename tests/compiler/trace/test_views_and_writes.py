"""Views, second tensors around the same memory, and writes without history, inside compiled functions."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


def leaf(*values):
    return sg.tensor(values, dtype=sg.float64, requires_grad=True)


@pytest.mark.parametrize("part", [lambda y: y.split(2)[1], lambda y: y.chunk(2)[1], lambda y: y[2:].unbind()[0].unsqueeze(0)])
def test_one_of_several_views_sees_what_is_written_and_can_be_written_to(part):
    def f(x):
        y = x.detach() * 2
        piece = part(y)
        y.add_(1)
        with sg.no_grad():
            piece.mul_(10)
        return y, piece * 1

    fast, x = sg.compile(f), leaf(1, 2, 3, 4)
    for _ in range(2):
        for found, wanted in zip(fast(x), f(x), strict=True):
            assert found.tolist() == wanted.tolist()


def test_a_write_through_views_that_overlap():
    def f(x):
        y = x * 1
        y.unfold(0, 2, 1).diagonal().add_(1)
        return y

    x = sg.arange(4.0)
    assert sg.compile(f)(x).tolist() == f(x).tolist()


@pytest.mark.parametrize("second", [lambda t: t.data, lambda t: t.detach()])
def test_a_tensor_that_is_first_seen_without_its_history_gets_its_gradient(second):
    w = leaf(1, 2)
    fast = sg.compile(lambda x: second(w) * 2 + w * x)
    fast(sg.tensor([3.0, 4.0])).sum().backward()
    assert w.grad.tolist() == [3, 4]


@pytest.mark.parametrize("how", ["data", "detach", "no_grad", "part"])
def test_a_write_without_history_leaves_the_history_as_it_was(how):
    def f(x):
        y = x.sin()
        if how == "data":
            y.data.mul_(3)
        elif how == "detach":
            y.detach().mul_(3)
        else:
            with sg.no_grad():
                (y[1:] if how == "part" else y).mul_(3)
        return y + 1

    for run in (f, sg.compile(f)):
        x = leaf(0.5, 1)
        result = run(x)
        result.sum().backward()
        factors = np.array([1, 3]) if how == "part" else 3
        np.testing.assert_allclose(result.detach().numpy(), np.sin([0.5, 1]) * factors + 1)
        np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5, 1]))


def test_gradients_of_what_takes_no_other_part():
    w, v = leaf(1, 2), leaf(3)

    @sg.compile
    def f(x):
        w.backward(sg.ones_like(w) * x)
        v.grad = None
        return x * 2

    for _ in range(3):
        w.grad, v.grad = None, leaf(5).detach()
        f(sg.tensor([2.0, 3.0]))
        assert w.grad.tolist() == [2, 3]
        assert v.grad is None


def test_a_single_random_number_is_drawn_at_every_call():
    fast = sg.compile(lambda x: sg.nn.functional.dropout(x, 0.5) + sg.rand(()))
    sg.manual_seed(0)
    found = [fast(sg.tensor(1.0)).item() for _ in range(6)]
    sg.manual_seed(0)
    wanted = [(sg.nn.functional.dropout(sg.tensor(1.0), 0.5) + sg.rand(())).item() for _ in range(6)]
    assert found == pytest.approx(wanted, rel=1e-6)


def test_a_write_to_a_view_of_a_single_number_has_a_gradient():
    x = leaf(1, 2)
    y = x.mean()
    y.t().div_(2)
    y.view(-1)[0] = 3
    (y * 2).backward()
    assert x.grad.tolist() == [0, 0]


def test_what_no_result_depends_on_gets_no_gradient():
    """An optimizer leaves None alone, and decays what has a gradient of zeros."""
    x, w = leaf(1, 2), leaf(3, 4)
    fast = sg.compile(lambda x: (w * 2, x * 2 + w.detach(), (w > x) * 1.0)[1:])
    fast(x)[0].sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert w.grad is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        fast(x)[1].sum().backward()


@pytest.mark.parametrize("dtype", [sg.float32, sg.int64, sg.bool])
def test_what_backward_reads_of_another_type_is_read_anew(dtype):
    w = leaf(1, 2)

    @sg.compile
    def f(x):
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss

    for values in ([1, 0], [0, 1], [1, 1]):
        f(sg.tensor(values).to(dtype))
        assert w.grad.tolist() == values


def test_a_view_of_a_second_tensor_has_no_history_either():
    def f(x):
        y = x * 2
        y.detach()[:1].mul_(3)
        return y * y

    for run in (f, sg.compile(f)):
        x = leaf(1, 2)
        run(x).sum().backward()
        assert x.grad.tolist() == [24, 16]


def test_a_python_number_that_backward_reads_is_read_anew():
    w = leaf(1, 2)

    @sg.compile
    def f(x, factor):
        w.grad = None
        loss = (w * factor * x).sum()
        loss.backward()
        return loss

    for factor in (2.0, 3.0, 4.0):
        f(sg.ones(2), factor)
        assert w.grad.tolist() == [factor, factor]


def test_a_loss_of_single_numbers_has_two_derivatives():
    fast = sg.compile(lambda x: sg.nn.functional.mse_loss(x, sg.ones_like(x)))
    x = sg.tensor(3.0, requires_grad=True)
    (slope,) = sg.autograd.grad(fast(x), x, create_graph=True)
    assert slope.item() == 4
    assert sg.autograd.grad(slope, x)[0].item() == 2


def test_derivatives_inside_are_recorded_as_they_are_eagerly():
    def f(x, y):
        y += 1
        return sg.func.grad(lambda z: (z**3).sum())(x)

    fast = sg.compile(f)
    for x, wanted in ((leaf(1, 2), True), (leaf(1, 2).detach(), False)):
        for run in (f, fast, fast):
            assert run(x, leaf(1).detach()).requires_grad is wanted
        with sg.no_grad():
            assert not fast(x, leaf(1).detach()).requires_grad


def test_the_number_of_classes_is_a_condition():
    fast = sg.compile(lambda i: sg.nn.functional.one_hot(i) * 1)
    for values in ([0, 1], [1, 1], [0, 3], [1, 0]):
        i = sg.tensor(values)
        assert fast(i).tolist() == sg.nn.functional.one_hot(i).tolist()


@pytest.mark.parametrize("write", [lambda d, v: d.sub_(v), lambda d, v: d.mul_(v * 2), lambda d, v: d[:1].copy_(v[1:])])
def test_backward_reads_the_numbers_that_memory_holds(write):
    """A write through detach() has a history of its own: the tensor keeps its old history, and backward() saves the new numbers."""

    def f(a, s):
        h = a * 2
        v = h[1:]
        h.fill_(s)
        write(v.detach(), v)
        loss = (h * h).sum() + 3 * (v * v).sum()
        loss.backward()
        return loss

    found = []
    for function in (f, *(2 * [sg.compile(f, backend="numpy")])):
        a, s = leaf(1, 2, 4), sg.tensor(3.0, dtype=sg.float64, requires_grad=True)
        found.append((function(a, s).item(), a.grad.tolist(), s.grad.item()))
    assert found[0] == found[1] == found[2]
