"""Tensors from outside that a compiled function writes to, or says something about: their histories and gradients are as in eager code."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import TraceError


def numbers(*values):
    return sg.tensor(np.array(values or (1.0, -2.0, 0.5)))


def weight():
    return numbers(2.0, 3.0, -1.0).requires_grad_()


def state(t):
    """All that can be seen of a tensor besides the name of its node."""
    return t.detach().numpy().copy(), t.requires_grad, t.is_leaf, None if t._grad is None else t._grad.detach().numpy().copy()


def both(scenario, backend="numpy"):
    """What a scenario gives eagerly and compiled; an error is a result, too."""
    found = []
    for wrap in (lambda f: f, lambda f: sg.compile(f, backend=backend)):
        try:
            found.append([state(x) if isinstance(x, sg.Tensor) else x for x in scenario(wrap)])
        except RuntimeError as error:
            found.append((type(error), str(error)))
    same(found[1], found[0])
    return found[0]


def same(x, y):
    if isinstance(x, (list, tuple)):
        assert len(x) == len(y), (x, y)
        for one, other in zip(x, y, strict=True):
            same(one, other)
    elif isinstance(x, np.ndarray):
        np.testing.assert_allclose(x, y, rtol=1e-14)
    else:
        assert x == y


WRITES = {
    "sub": lambda a, w: a.sub_(w),
    "product": lambda a, w: a.mul_(w),
    "itself": lambda a, w: a.mul_(a).mul_(w),
    "element": lambda a, w: a.__setitem__(0, w[1] * 2),
    "view": lambda a, w: a[1:].mul_(w[1:]),
    "copy": lambda a, w: a.copy_(w.exp()),
    "saves its result": lambda a, w: a.add_(w).exp_(),
    "zeros": lambda a, w: a.mul_(w).zero_(),
    "without history at the end": lambda a, w: (a.mul_(w), quiet(a)),
    "detached": lambda a, w: (a.mul_(w), a.detach().add_(1)),
    "detached at the end": lambda a, w: a.mul_(w).detach_(),
    "no history": lambda a, w: a.mul_(w.detach()),
}


def quiet(a):
    with sg.no_grad():
        a.mul_(10)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("name", WRITES)
def test_an_argument_that_is_written_to_has_the_history_of_eager_code(name, backend):
    def scenario(compiled):
        def f(a, w):
            WRITES[name](a, w)
            return (a * w).sum()

        run, w = compiled(f), weight()
        for _ in range(3):
            a = numbers()
            view = a[:2]
            result = run(a, w)
            yield from (a, view, result)
            if a.requires_grad:
                (a * a).sum().backward(retain_graph=True)
                yield w
            (view.sum() * w.sum() + result).backward()
            yield w

    both(scenario, backend)


@pytest.mark.parametrize("name", sorted(WRITES.keys() - {"saves its result", "itself"}))
def test_one_that_was_computed_goes_on_with_its_history(name):
    def scenario(compiled):
        def f(a, w):
            WRITES[name](a, w)

        run, w, v = compiled(f), weight(), weight()
        for _ in range(3):
            a = v * 2
            run(a, w)
            run(a, w)
            yield a
            (a * a * v).sum().backward()
            yield from (v, w)

    both(scenario)


@pytest.mark.parametrize("name", sorted(WRITES.keys() - {"saves its result", "itself"}))
def test_a_tensor_that_the_function_brings_along(name):
    def scenario(compiled):
        a, w = numbers(), weight()

        def f(x):
            WRITES[name](a, w)
            return a.sum() * x

        run = compiled(f)
        for i in range(4):
            yield from (run(numbers(float(i + 1))), a)
        (a * a * w).sum().backward()
        yield w

    both(scenario)


def test_why_it_is_traced_again():
    a, w = numbers(), weight()
    run = sg.compile(lambda x: a.mul_(w * x), backend="numpy")
    for _ in range(4):
        run(numbers())
    assert [str(r) for r in run.recompiles()] == [
        "first call", "a, which the function captures: float64[3] -> float64[3] that requires grad",
    ]  # fmt: skip


@pytest.mark.parametrize("recorded", [True, False])
def test_an_argument_that_is_a_view(recorded):
    def scenario(compiled):
        run, w, v = compiled(lambda a, w: a.mul_(w)), weight(), weight()
        for _ in range(3):
            owner = sg.stack([v, v * 2]) if recorded else sg.ones(2, 3, dtype=sg.float64)
            other = owner[:, 0]
            run(owner[1], w)
            yield from (owner, other)
            (owner * owner).sum().backward()
            yield from (v, w)

    both(scenario)


def test_views_that_may_not_be_written_to():
    def scenario(compiled):
        run, w = compiled(lambda a, w: a.mul_(w)), weight()
        run(numbers(), w)
        run(numbers(), w)
        leaf = weight()
        with sg.no_grad():
            view = leaf[:]
        run(view, w)

    assert "A view was created in no_grad mode" in both(scenario)[1]


def test_the_first_call_refuses_them_too_and_changes_nothing():
    leaf, w = weight(), weight()
    with sg.no_grad():
        view = leaf[:]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        sg.compile(lambda a, w: a.mul_(w), backend="numpy")(view, w)
    assert leaf.tolist() == weight().tolist()


def test_a_tensor_that_was_detached_from_another():
    def scenario(compiled):
        run, w, v = compiled(lambda a, w: a.mul_(w)), weight(), weight()
        for _ in range(3):
            a = v * 2
            d = a.detach()
            run(d, w)
            yield from (a, d)
            (d * w).sum().backward()
            yield from (v, w)

    both(scenario)


def test_the_same_tensor_twice():
    def scenario(compiled):
        run, w = compiled(lambda a, b, w: a.mul_(w).add_(b)), weight()
        for _ in range(3):
            a = numbers()
            run(a, a, w)
            yield a
            (a * w).sum().backward()
            yield w

    both(scenario)


@pytest.mark.parametrize("asked", [True, False])
def test_what_is_returned_after_it_was_written_to_is_the_tensor_itself(asked):
    w, kept = weight().detach().requires_grad_(asked), numbers()
    run = sg.compile(lambda a, w: (w * 1, a.mul_(w), kept.add_(a)), backend="numpy")
    for _ in range(3):
        a = numbers()
        _, first, second = run(a, w)
        assert first is a
        assert second is kept


def test_later_writes_do_no_harm_to_what_was_recorded():
    def scenario(compiled):
        def f(a, w):
            a.mul_(w)
            return a.sum()

        run, w = compiled(f), weight()
        for _ in range(3):
            a = numbers()
            run(a, w)
            a.add_(1)
            (a * 3).sum().backward()
            yield from (a, w)

    both(scenario)


def test_what_backward_has_gone_through_inside_cannot_be_gone_through_again():
    def scenario(compiled):
        def f(a, w):
            a.mul_(w)
            a.sum().backward()

        run, w = compiled(f), weight()
        for _ in range(3):
            a = numbers()
            run(a, w)
            yield from (a, w)
        a.sum().backward()

    assert "backward through the graph a second time" in both(scenario)[1]


def test_a_sum_of_losses_that_keeps_its_history():
    def scenario(compiled):
        w, total = weight(), sg.zeros((), dtype=sg.float64)
        optimizer = sg.optim.SGD([w], lr=0.01)

        def step(x):
            optimizer.zero_grad()
            loss = (w * x).square().sum()
            loss.backward()
            optimizer.step()
            total.add_(loss)

        run = compiled(step)
        for _ in range(5):
            run(numbers())
            yield from (total, w)

    both(scenario)


def test_backward_into_the_history_of_an_argument_is_refused_where_it_goes_there():
    def f(h, x, w):
        (x * w).sum().backward()
        return h * 2

    w, v = weight(), weight()
    run = sg.compile(f, backend="numpy")
    for _ in range(3):
        w.grad = v.grad = None
        result = run(v * 3, numbers(), w)
        result.sum().backward()
        assert w.grad.tolist() == numbers().tolist()
        assert v.grad.tolist() == [6.0] * 3
    with pytest.raises(TraceError, match="x was computed from tensors that require grad outside"):
        run(v * 3, v * 1, w)


def test_eager_writes_between_calls_are_seen():
    def scenario(compiled):
        a, w = numbers(), weight()
        run = compiled(lambda x: a * x)
        yield run(numbers())
        yield run(numbers())
        a.mul_(w)
        found = run(numbers())
        yield found
        found.sum().backward()
        yield w

    both(scenario)


class Doubling(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        ctx.mark_dirty(x)
        x.mul_(w)
        return x

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return g * w, g * 7


def test_a_function_with_a_backward_of_its_own_that_writes():
    def scenario(compiled):
        def f(a, w):
            Doubling.apply(a, w)

        run, w = compiled(f), weight()
        for _ in range(3):
            a = numbers()
            run(a, w)
            yield a
            (a * w).sum().backward()
            yield w

    both(scenario)


def test_a_call_that_fails_leaves_histories_alone():
    a, b, w = numbers(), numbers(), weight()

    def f(a):
        a.mul_(w)
        b.mul_(w)
        a.requires_grad_()
        a.grad = w.detach()
        raise KeyError("no")

    with pytest.raises(KeyError):
        sg.compile(f, backend="numpy")(a)
    np.testing.assert_equal([state(a), state(b)], [state(numbers())] * 2)


# saying that a tensor requires grad


def test_an_argument_that_requires_grad_from_inside():
    def scenario(compiled):
        def f(x, y):
            x.requires_grad_()
            y.mul_(x)
            return (x * x).sum()

        run = compiled(f)
        for _ in range(3):
            x, y = numbers(), numbers()
            result = run(x, y)
            yield from (x, y, result)
            (result + (y * y).sum()).backward()
            yield x

    both(scenario)


def test_a_tensor_brought_along_that_requires_grad_from_inside():
    def scenario(compiled):
        a = numbers()

        def f(x):
            a.requires_grad_(True)
            return (a * x).sum()

        run = compiled(f)
        for _ in range(3):
            yield from (run(numbers()), a)
        a.requires_grad_(False)
        yield from (run(numbers()), a)

    both(scenario)


# gradients of arguments that do not require grad


def test_a_gradient_that_was_set_by_hand_is_read():
    def scenario(compiled):
        run = compiled(lambda x: x if x.grad is None else x + x.grad)
        for i in range(4):
            x = numbers()
            yield run(x)
            x.grad = numbers() * i
            yield run(x)

    both(scenario)


def test_a_gradient_that_was_set_by_hand_is_added_to():
    def scenario(compiled):
        def f(x):
            x.grad += x * 2
            x.grad.mul_(3)

        run = compiled(f)
        for i in range(4):
            x = numbers()
            x.grad = kept = numbers() * i
            run(x)
            yield from (x, kept)

    both(scenario)


def test_a_gradient_that_is_left_or_cleared():
    def scenario(compiled):
        def f(x, y):
            x.grad = x * 2
            y.grad = None
            return x.sum()

        run = compiled(f)
        for i in range(4):
            x, y = numbers(), numbers()
            y.grad = numbers() * i
            run(x, y)
            yield from (x, y)

    both(scenario)


def test_gradients_by_backward_of_an_argument_that_requires_grad_from_inside():
    def scenario(compiled):
        def slopes(x):
            x.requires_grad_()
            (x**3).sum().backward()
            return x.grad * 1

        run = compiled(slopes)
        for i in range(4):
            x = numbers() * i
            if i == 3:
                x.grad = numbers()
            yield from (run(x), x)

    both(scenario)


def test_a_tensor_times_itself_is_refused_eagerly_as_in_pytorch_and_right_in_a_kernel():
    v, w = weight(), weight()
    a = v * 2
    WRITES["itself"](a, w)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        a.sum().backward()
    run = sg.compile(lambda a, w: WRITES["itself"](a, w) * 1, backend="numpy")
    for _ in range(3):
        v, w = weight(), weight()
        a = v * 2
        run(a, w)
        a.sum().backward()  # of 4 v² w
        np.testing.assert_allclose(v.grad.numpy(), (8 * v * w).detach().numpy())
        np.testing.assert_allclose(w.grad.numpy(), (4 * v * v).detach().numpy())


def test_other_memory_and_other_shapes_are_refused():
    """Later calls did not do it."""
    kept = sg.ones(2, 3)

    def put(x):
        kept.data = x * 2

    for f in (lambda x: x.t_(), lambda x: x.unsqueeze_(0) * 2, put):
        x = sg.ones(2, 3)
        with pytest.raises(TraceError, match=r"test_histories.py:\d+: .* makes another tensor of one that the program is to find"):
            sg.compile(f, backend="numpy")(x)
        assert x.shape == (2, 3)
    assert kept.tolist() == sg.ones(2, 3).tolist()
