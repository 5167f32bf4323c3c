"""Hooks: when they run, in which order, what they may change."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg


@pytest.fixture
def x():
    return sg.tensor([1.0, 2.0], requires_grad=True)


def test_hooks_run_in_pytorchs_order(x):
    seen = []
    y = x * 2
    end = y.grad_fn.next_functions[0][0]
    end.register_prehook(lambda gs: seen.append(("end before", len(gs))))
    end.register_hook(lambda gi, go: seen.append(("end after", gi, len(go))))
    x.register_hook(lambda g: seen.append("x"))
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(("accumulated", leaf.grad._array.tolist())))
    y.register_hook(lambda g: seen.append("y first"))
    y.grad_fn.register_prehook(lambda gs: seen.append(("node before", gs[0]._array.tolist())))
    y.grad_fn.register_hook(lambda gi, go: seen.append(("node after", gi[0]._array.tolist(), gi[1], go[0]._array.tolist())))
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    assert seen == [
        "y first", ("node before", [3, 3]), ("node after", [6, 6], None, [3, 3]), "x", ("end before", 1),
        ("accumulated", [6, 6]), ("end after", (), 1),
    ]  # fmt: skip


def test_newest_tensor_is_visited_first():
    """The tutorial's printed order: y2 before y1."""
    x = sg.tensor(3.0, requires_grad=True)
    y1, y2, order = x - 1, x - 2, []
    y1.register_hook(lambda g: order.append("y1"))
    y2.register_hook(lambda g: order.append("y2"))
    ((y1 - y2) ** 2).backward()
    assert order == ["y2", "y1"]


def test_a_leaf_is_visited_as_soon_as_its_last_use_is_done():
    x, w = (sg.tensor(v, requires_grad=True) for v in (3.0, 2.0))
    order = []
    y = x * 2
    z = y * w
    x.register_hook(lambda g: order.append("x"))
    y.register_hook(lambda g: order.append("y"))
    w.register_post_accumulate_grad_hook(lambda leaf: order.append("w"))
    z.backward()
    assert order == ["w", "y", "x"]


def test_a_hook_replaces_the_gradient_until_it_is_removed(x):
    handle = x.register_hook(lambda g: g * 10)
    (x * 1).sum().backward()
    handle.remove()
    handle.remove()
    (x * 1).sum().backward()
    np.testing.assert_array_equal(x.grad._array, [11, 11])


def test_handle_is_a_context(x):
    with x.register_hook(lambda g: g * 10):
        (x * 1).sum().backward()
    (x * 1).sum().backward()
    np.testing.assert_array_equal(x.grad._array, [11, 11])


def test_leaf_hook_sees_the_sum_once(x):
    seen = []
    x.register_hook(lambda g: seen.append(g._array.tolist()))
    (x * x + 3 * x).sum().backward()
    assert seen == [[5, 7]]


def test_node_hooks_may_replace_what_comes_in_and_out(x):
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0] + 1,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10, None))
    y.sum().backward()
    np.testing.assert_array_equal(x.grad._array, [40, 40])


def test_retain_grad_keeps_what_the_other_hooks_made_of_it(x):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    assert y.retains_grad
    assert not x.retains_grad
    y.sum().backward(retain_graph=True)
    np.testing.assert_array_equal(y.grad._array, [3, 3])
    y.sum().backward()
    np.testing.assert_array_equal(y.grad._array, [6, 6])


def test_retain_grad_of_an_output_that_gets_no_gradient(x):
    a, b = (x * 2).unbind()
    a.retain_grad()
    b.retain_grad()
    b.sum().backward()
    assert a.grad is None
    assert b.grad.item() == 1


def test_retain_grad_of_a_tensor_that_is_gone(x):
    y = x * 2
    y.retain_grad()
    z = y.sum()
    del y
    z.backward()
    np.testing.assert_array_equal(x.grad._array, [2, 2])


def test_retained_gradient_is_a_copy(x):
    y = x + 1
    z = y + 1
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    z.grad.mul_(0)
    np.testing.assert_array_equal(y.grad._array, [1, 1])


def test_grad_calls_hooks_of_what_it_differentiates(x):
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append("y") or g * 5)
    x.register_hook(lambda g: seen.append("x"))
    (g,) = sg.autograd.grad((y * y).sum(), y)
    assert seen == ["y"]
    np.testing.assert_array_equal(g._array, 5 * 2 * y._array)


@pytest.mark.parametrize(
    ("hook", "error", "text"),
    [
        (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
        (lambda g: g.sum(), RuntimeError, "hook '<lambda>' has changed the size of value"),
        (lambda g: sg.tensor([1, 2]), RuntimeError, "hook '<lambda>' has changed the type of value"),
    ],
)
def test_a_hook_must_return_a_gradient_like_the_one_it_got(x, hook, error, text):
    y = x * 2
    y.register_hook(hook)
    with pytest.raises(error, match=text):
        y.sum().backward()
    assert x.grad is None


def test_wrong_number_of_values_from_a_node_hook(x):
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: gi * 2)
    with pytest.raises(RuntimeError, match=r"incorrect number of values \(got 4, but expected 2\)"):
        y.sum().backward()


def test_refusals(x):
    plain = sg.tensor([1.0])
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        plain.register_hook(print)
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        plain.retain_grad()
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_the_graph_can_be_walked(x):
    y = (x * 2 + x).sum()
    ((add, zero),) = y.grad_fn.next_functions
    assert (add.name(), zero) == ("AddBackward0", 0)
    (mul, _), (end, _) = add.next_functions
    assert mul.next_functions[1] == (None, 0)
    assert end.variable is x
    assert mul.next_functions[0][0] is end
    assert end.next_functions == ()
    add.metadata["seen"] = 1
    assert y.grad_fn.next_functions[0][0].metadata == {"seen": 1}
