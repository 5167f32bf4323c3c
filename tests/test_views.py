"""Views and writing in place: shared memory, shared versions, and histories that follow every write, or a refusal."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
import view_programs as programs

import symgrad as sg
from symgrad.views import inplace


def leaf(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_random_programs_are_right_or_refused(first):
    outcomes = {"right": 0, "refused": 0}
    for seed in range(first, first + 100):
        program = programs.Program(seed)
        try:
            found = programs.run(sg, program)
        except RuntimeError:
            outcomes["refused"] += 1
            continue
        np.testing.assert_allclose(found, programs.expected(program), rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}: {program.steps}")
        outcomes["right"] += 1
    assert outcomes["right"] > 60  # refusing everything would be right, too


def test_views_share_memory_both_ways():
    x = sg.tensor(np.arange(12.0).reshape(3, 4))
    for view in (x[1], x[:, 1], x.t()[1], x.view(-1), x[::2], x.unsqueeze(0), x.diagonal(), x.split(1)[0], x.detach(), x.expand(2, 3, 4)):
        assert np.shares_memory(view._array, x._array)
    x[1].fill_(7)
    assert x[1].tolist() == [7.0] * 4
    x.zero_()
    assert x.view(-1)[5].item() == 0


def test_a_copy_is_no_view():
    x = sg.tensor(np.arange(6.0).reshape(2, 3))
    for copy in (x.t().reshape(-1), x.clone(), x.t().contiguous(), x.flip(0), x[[0, 1]], x[x > 0], x.tile((1, 1)), sg.cat([x])):
        assert not np.shares_memory(copy._array, x._array)
        assert copy._base is None


def test_a_write_through_a_view_reaches_base_siblings_and_views_of_views():
    a, w = leaf(2, 3), leaf(3, seed=1)
    y = a * 2
    row, column, corner = y[0], y[:, 0], y[0][:1]
    row.mul_(w)
    factors = 2 * np.stack([w.detach().numpy(), np.ones(3)])
    parts = {y: [[1, 1, 1], [1, 1, 1]], row: [[1, 1, 1], [0, 0, 0]], column: [[1, 0, 0], [1, 0, 0]], corner: [[1, 0, 0], [0, 0, 0]]}
    for tensor, part in parts.items():
        a.grad = None
        tensor.sum().backward(retain_graph=True)
        np.testing.assert_allclose(a.grad.numpy(), part * factors)


def test_a_write_makes_a_base_require_grad():
    w = leaf()
    y = sg.zeros(3, dtype=sg.float64)
    before = y[:2]
    v = y[0]
    v.copy_(w)
    assert y.requires_grad
    assert before.requires_grad
    assert v.requires_grad
    (before * before).sum().backward()
    assert w.grad.item() == pytest.approx(2 * w.item())


def test_a_write_to_a_base_updates_the_history_of_its_views():
    a = leaf(4)
    y = a * 1
    v = y[1:3]
    y.mul_(3)
    v.sum().backward()
    assert a.grad.tolist() == [0, 3, 3, 0]


def test_replacing_values_cuts_their_gradient():
    a = leaf(4)
    for write in (lambda y: y.zero_(), lambda y: y.fill_(2), lambda y: y.copy_(sg.ones(4, dtype=sg.float64)), lambda y: y[:].zero_()):
        y = a * 2
        write(y)
        assert y.requires_grad
        a.grad = None
        y.sum().backward()
        assert a.grad.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda a, y: a.add_(1), "a leaf Variable that requires grad is being used in an in-place operation"),
        (lambda a, y: a.__setitem__(0, 1.0), "a view of a leaf Variable that requires grad is being used in an in-place operation"),
        (lambda a, y: a[0].add_(1), "a view of a leaf Variable that requires grad is being used in an in-place operation"),
        (lambda a, y: a.t_(), "a leaf Variable that requires grad"),
        (lambda a, y: y.split(1)[0].mul_(2), "Output 0 of Split is a view and is being modified inplace. This view is the output of"),
        (lambda a, y: y.unbind()[1].mul_(2), "Output 1 of Unbind is a view and is being modified inplace"),
        (lambda a, y: y.chunk(2)[0][0].mul_(2), "is a view and is being modified inplace"),
        (lambda a, y: y[:1].expand(2, 3).mul_(2), "more than one element of the written-to tensor refers to a single memory location"),
        (lambda a, y: y.unfold(1, 2, 1).mul_(2), "more than one element of the written-to tensor refers to a single memory location"),
    ],
)
def test_writes_that_are_refused(write, message):
    a = leaf(2, 3)
    y = a * 2
    before = a.detach().numpy().copy(), y.detach().numpy().copy()
    with pytest.raises(RuntimeError, match=message):
        write(a, y)
    np.testing.assert_array_equal(a.detach().numpy(), before[0])
    np.testing.assert_array_equal(y.detach().numpy(), before[1])


def test_several_views_may_be_written_to_when_nothing_is_recorded():
    x = sg.zeros(2, 2)
    first, second = x.split(1)
    first.add_(1)
    with sg.no_grad():
        second.add_(2)
    assert x.tolist() == [[1, 1], [2, 2]]


def test_views_made_under_no_grad():
    y = leaf(3) * 2
    with sg.no_grad():
        v = y[0]
        v.add_(1)
    assert not v.requires_grad
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode enabled"):
        v.add_(1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace with grad mode enabled"):
        v * 2


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("write", [lambda y: y.add_(1), lambda y: y[0].add_(1), lambda y: y.detach().add_(1), lambda y: y.t()[0].zero_()])
def test_a_write_to_what_was_saved_is_noticed(write, quiet):
    y = leaf(3, 2) * 2
    z = (y * y).sum()
    with sg.set_grad_enabled(not quiet):
        write(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_write_through_data_is_not_noticed():
    a = leaf(3)
    y = a * 2
    z = (y * y).sum()
    y.data.mul_(0)
    z.backward()
    assert a.grad.tolist() == [0, 0, 0]


def test_a_write_to_a_saved_result_is_noticed_and_one_before_is_not():
    a = leaf(3)
    y = a * 1
    y.tanh_()
    y.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 1 - np.tanh(a.detach().numpy()) ** 2)
    y = a * 1
    y.tanh_()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_op_in_place_keeps_what_it_overwrites_if_its_rule_reads_it():
    a, b = leaf(3), leaf(3, seed=1)
    y = a * 1
    y.mul_(b)
    y.sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), a.detach().numpy())


def test_detach_shares_version_and_memory_but_no_history():
    a = leaf(3)
    y = a * 2
    d = y.detach()
    assert not d.requires_grad
    d.copy_(a)
    assert d.requires_grad
    y.sum().backward()
    assert a.grad.tolist() == [2, 2, 2]


def test_overlapping_assignment_reads_before_it_writes():
    x = sg.arange(5)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3]
    a = leaf(4)
    y = a * 1
    y[1:] = y[:-1]
    y.sum().backward()
    assert a.grad.tolist() == [2, 1, 1, 0]


def test_shape_in_place_and_views_made_before():
    a = leaf(2, 3)
    y = a * 1
    row = y[0]
    y.t_()
    assert y.shape == (3, 2)
    row.mul_(5)
    y.sum().backward()
    assert a.grad.tolist() == [[5, 5, 5], [1, 1, 1]]
    a.grad = None
    y = a * 1
    y.unsqueeze_(1).squeeze_().transpose_(0, 1)
    y[0].mul_(2)
    y.sum().backward()
    assert a.grad.tolist() == [[2, 1, 1], [2, 1, 1]]


def test_a_view_whose_base_was_written_to_is_a_source_like_any_other():
    a, w = leaf(3), leaf(seed=1)
    y, target = a * 1, leaf(2, seed=2) * 1
    v = y[1:]
    y[1] = w
    target.copy_(v)
    target.sum().backward()
    assert a.grad.tolist() == [0, 0, 1]
    assert w.grad.item() == 1


def test_a_write_through_a_view_of_another_layout():
    a, w = leaf(2, 3), leaf(6, seed=1)
    y = a * 1
    flat = y.view(-1)
    y.t_()
    flat.mul_(w)
    (y * y).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * w.detach().numpy() * a.detach().numpy().reshape(-1) ** 2)
    np.testing.assert_allclose(a.grad.numpy(), 2 * a.detach().numpy() * w.detach().numpy().reshape(2, 3) ** 2)
    a.grad = w.grad = None
    y = a.t() * 1  # lies in memory as a does
    y.t().view(-1)[1:3] = w[:2]
    y.sum().backward()
    assert a.grad.tolist() == [[1, 0, 0], [1, 1, 1]]
    assert w.grad.tolist() == [1, 1, 0, 0, 0, 0]


def test_an_op_in_place_without_a_derivative_cuts_the_history():
    a = leaf(3)
    y = a * 2
    inplace(lambda x: x.detach() * 3)(y)
    assert y.grad_fn.name() == "CopyBackwards"
    (y * a).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), 6 * a.detach().numpy())


def test_a_write_to_a_saved_constant_is_noticed():
    x, w = sg.ones(3, dtype=sg.float64), leaf(3)
    first, arithmetic = (lambda: x.__setitem__(0, 5.0), lambda: x.__setitem__(0, x[1])), (lambda: x.add_(1), lambda: x.view(-1).mul_(2))
    for write in (*first, *arithmetic, lambda: x.fill_(1)):
        z = (x * w).sum()
        write()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_writes_are_differentiable_twice():
    a, w = leaf(3), leaf(2, seed=1)

    def loss():
        y = a * a
        y[:2] = w * w * y[1:].clone()
        y[[2, 0]] = y[[0, 1]] * 3
        y.view(-1)[1].mul_(w[0])
        return (y * y).sum()

    grads = sg.autograd.grad(loss(), [a, w], create_graph=True)
    second = sg.autograd.grad(sum((g * g).sum() for g in grads), [a, w])
    for tensor, g in zip((a, w), second, strict=True):
        for i in range(len(tensor)):
            values = []
            for step in (1e-6, -1e-6):
                with sg.no_grad():
                    tensor[i] += step
                firsts = sg.autograd.grad(loss(), [a, w])
                values.append(sum(float((f * f).sum().item()) for f in firsts))
                with sg.no_grad():
                    tensor[i] -= step
            assert g[i].item() == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_a_failed_write_changes_nothing():
    a = leaf(2, 3)
    y = a * 1
    node = y.grad_fn
    one = sg.ones(2)
    for wrong in (
        lambda: y.copy_(sg.ones(4)), lambda: y.__setitem__([0, 9], 1.0), lambda: y.add_(sg.ones(2, 2, 3)), lambda: y.__setitem__(0, one),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, IndexError)):
            wrong()
        assert y.grad_fn is node
        assert y._writes == 0


def test_views_leave_no_reference_cycles():
    gc.disable()
    try:
        a = leaf(3)
        y = a * 2
        v = y[0]
        v.mul_(2)
        y[1:].add_(v)
        seen = [weakref.ref(y), weakref.ref(v), weakref.ref(y.grad_fn)]
        del y, v
        assert [ref() for ref in seen] == [None] * 3
    finally:
        gc.enable()


def test_a_detached_tensor_does_not_keep_the_graph_alive():
    gc.disable()
    try:
        y = (leaf(3) * 2).exp()
        before = y[0].detach()
        z = (y * y).sum()
        d = y.detach()
        node = weakref.ref(y.grad_fn)
        d.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
        assert (y._version, d._version, before._version) == (1, 1, 1)
        del y, z
        assert node() is None
        assert before.item() == d[0].item()
    finally:
        gc.enable()


def test_layout():
    x = sg.zeros(3, 4)
    assert (x.stride(), x.t().stride(), x[:, 1].stride(), x.stride(0)) == ((4, 1), (1, 4), (4,), 4)
    assert (x.is_contiguous(), x.t().is_contiguous(), x[1:].is_contiguous()) == (True, False, True)
    assert (x[1, 2].storage_offset(), x[1:].storage_offset(), x.t()[1].storage_offset()) == (6, 4, 1)
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.t().view(-1)
    assert x.t().contiguous().view(-1).shape == (12,)
