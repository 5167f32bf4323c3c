"""What a compiled function finds besides values: gradients in `.grad`, memory without its history, arguments that are views of others."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from derivative_modes import assert_same_in_all_lives

import symgrad as sg


def reads_gradients(w, u):
    optimizer = sg.optim.SGD([w, u], lr=0.1)

    def zero(x):
        optimizer.zero_grad()
        return (w * x).sum()

    def zero_in_place(x):
        optimizer.zero_grad(set_to_none=False)
        return (w * x).sum()

    def sets(x):
        w.grad = None
        return (w * x).sum()

    def asks(x):
        return (w * x).sum() * (1 if w.grad is None else 2)

    def reads(x):
        return (w * x).sum() if w.grad is None else (w * x + w.grad).sum()

    def reads_only(x):
        return (u * x).sum() if w.grad is None else (u * x * w.grad).sum()

    def steps(x):
        loss = (w * x).sum()
        optimizer.step()
        return loss.detach() + u.sum()

    def clips(x):
        sg.nn.utils.clip_grad_norm_([w, u], 0.1)
        return (w * x).sum()

    def in_a_loop(x):
        (total,), _ = sg.scan(lambda carry, _: ((carry[0] + (x if w.grad is None else w.grad).sum(),), ()), (x.sum(),), None, length=3)
        return total * w.sum()

    return [zero, zero_in_place, sets, asks, reads, reads_only, steps, clips, in_a_loop]


NAMES = ["zero", "zero_in_place", "sets", "asks", "reads", "reads_only", "steps", "clips", "in_a_loop"]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_that_come_and_go(name):
    """backward() is called outside; later the gradients are set back, so that the next ones are other tensors."""

    def world(compiled):
        w, u = (sg.tensor([1.0, 2.0 * k], dtype=sg.float64, requires_grad=True) for k in (1, 2))
        (f,) = [f for f in reads_gradients(w, u) if f.__name__ == name]
        run, seen = sg.compile(f, backend="numpy") if compiled else f, []
        for i in range(7):
            if i == 4:
                w.grad = u.grad = None
            if name == "reads_only" and i not in (0, 4):
                w.grad = sg.full((2,), float(i), dtype=sg.float64)
            y = run(sg.tensor([1.0, 0.5 * i], dtype=sg.float64))
            seen.append([y.item(), *(t if t is None else t.tolist() for t in (w.grad, u.grad))])
            y.backward()
            seen.append([t if t is None else t.tolist() for t in (w.grad, u.grad)])
        return seen, run

    wanted, (found, run) = world(False)[0], world(True)
    np.testing.assert_equal(found, wanted)
    if name in ("zero", "sets"):  # whatever was there is replaced
        assert len(run.recompiles()) == 1
    else:
        assert len(run.recompiles()) <= 3
        assert ".grad of" in str(run.recompiles())


def test_the_gradient_of_an_argument_is_asked_for():
    fast = sg.compile(lambda x: x * (2 if x.grad is None else x.grad), backend="numpy")
    for value in (None, 5.0, None, 7.0):
        x = sg.ones(2, requires_grad=True)
        x.grad = None if value is None else sg.full((2,), value)
        assert fast(x).tolist() == [value or 2.0] * 2
    assert len(fast.recompiles()) == 2


def test_a_derivative_of_a_function_that_reads_a_gradient():
    w = sg.ones(2, requires_grad=True)
    fast = sg.compile(lambda x: (x * x * (1 if w.grad is None else w.grad)).sum(), backend="numpy")
    for value in (None, 5.0, 6.0, None):
        w.grad = None if value is None else sg.full((2,), value)
        assert fast.grad(sg.ones(2), wrt="x").tolist() == [2 * (value or 1.0)] * 2


def averages(w, x, state):
    state.data.mul_(0.5).add_(w * 0.5)
    return ((state - w) ** 2 * x).sum()


def writes_a_region(w, x, state):
    v = w * x
    d = v.detach()
    d[0] = v.sum()
    return v + d * 3


def writes_two_regions(w, x, state):
    v = w * x
    d = v.data
    d[:1].add_(v.sum())
    d[1:].mul_(w[0])
    return v + d * 3


def writes_and_goes_on(w, x, state):
    v = w * x
    d = v.detach()
    d.fill_(v.sum())
    e = d * 2
    d.mul_(w)
    with sg.no_grad():
        d.add_(1)
    return v + e + d + d[0]


def writes_to_a_view(w, x, state):
    v = (w * x).reshape(2, 1)
    u = v[1]
    d = u.detach()
    d.add_(w[0])
    return v.sum() * 2 + d * u


def writes_to_a_leaf(w, x, state):
    w.data.add_(w.sum())
    return w * x


def reads_through_a_view(w, x, state):
    v = w * x
    d = v.detach()
    seen = d.view(2, 1)
    d[0] = 2
    return v + seen.sum() * 3


def reads_a_new_history_through_a_view(w, x, state):
    v = w * x
    d = v.detach()
    seen, part = d.view(2, 1), d[1:]
    d[0] = w.sum()
    return v + seen.sum() * 3 + part


WRITERS = [
    averages, writes_a_region, writes_two_regions, writes_and_goes_on, writes_to_a_view, writes_to_a_leaf, reads_through_a_view,
    reads_a_new_history_through_a_view,
]  # fmt: skip


@pytest.mark.parametrize("f", WRITERS)
def test_what_is_written_to_memory_without_its_history(f):
    """Who sees the memory with its history keeps that; the other one has a history of its own."""

    def world(compiled):
        w, state = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True), sg.zeros(2, dtype=sg.float64)
        run, seen = sg.compile(lambda x: f(w, x, state), backend="numpy") if compiled else lambda x: f(w, x, state), []
        for i in range(3):
            w.grad = None
            y = run(sg.tensor([1.0, 3.0 + i], dtype=sg.float64))
            y.sum().backward()
            seen.append([t.tolist() for t in (y, w.grad, w, state)])
        return seen

    assert world(True) == world(False)


@pytest.mark.parametrize("view", [lambda a: a.view(-1), lambda a: a[:1], lambda a: a.detach()], ids=["view", "slice", "detached"])
def test_an_argument_that_is_a_view_of_another_has_a_part_in_its_history(view):
    w = sg.tensor([2.0], requires_grad=True)

    def f(x, y):
        x.add_(w)
        return y * 3 if y.requires_grad else y * w

    for run in (f, sg.compile(f, backend="numpy")):
        for _ in range(2):
            w.grad, x = None, sg.ones(1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                y = run(x, view(x))
            y.backward()
            assert (w.grad.item(), y.item(), x.requires_grad) == ((3, 9, True) if view(sg.ones(1))._owner is not None else (3, 6, True))


def test_a_result_that_got_its_history_through_a_view_of_it():
    w = sg.tensor([2.0], requires_grad=True)

    def f(x):
        turned = x.movedim(0, -1)
        turned.reshape(-1)[1:].add_(w)
        return turned

    fast = sg.compile(f, backend="numpy")
    for n in range(1, 4):
        fast(sg.ones(2)).sum().backward()
        assert w.grad.item() == n


@pytest.mark.parametrize("size", [2, 3])
def test_the_gradient_of_a_complex_determinant(size):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    ours, eager = sg.tensor(a, requires_grad=True), sg.tensor(a, requires_grad=True)
    (sg.compile(sg.linalg.det)(ours).abs() ** 2).backward()
    (sg.linalg.det(eager).abs() ** 2).backward()
    assert sg.allclose(ours.grad, eager.grad, rtol=1e-12)


def test_a_number_of_another_type_that_fills_places():
    x, places = sg.zeros(3, 2, dtype=sg.bfloat16), sg.tensor([0, 2])
    fast = sg.compile(lambda x, value: x.index_fill(0, places, value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fast(x, sg.tensor(1.5)).tolist() == [[1.5, 1.5], [0.0, 0.0], [1.5, 1.5]]


@pytest.mark.parametrize("view", [lambda v: v[:, 1:], lambda v: v.chunk(2, 1)[-1], lambda v: v[:, 1:].reshape(2), lambda v: v.detach()])
def test_a_view_made_under_no_grad_has_no_part_in_the_history(view):
    def f(x):
        v = x * 2
        with sg.no_grad():
            seen = view(v)
        v.tanh_()
        return seen, v

    x = sg.tensor([[-0.25, 0.5, 0.75]], dtype=sg.float64, requires_grad=True)
    fast = sg.compile(f, backend="numpy")
    for _ in range(2):
        (wanted, _), (found, v) = f(x), fast(x)
        assert found.tolist() == wanted.tolist()
        assert (found.requires_grad, wanted.requires_grad, v.requires_grad) == (False, False, True)


def test_results_ask_for_gradients_as_in_eager_code():
    def f(x, w):
        return x * w, (x * w).detach(), (x > w).float(), x * 2, w * 2, sg.ones(2), (x > w)

    fast = sg.compile(f, backend="numpy")
    for asking in ((False, False), (True, False), (False, True), (True, True)):
        given = [sg.ones(2, requires_grad=asks) for asks in asking]
        for _ in range(2):
            assert [t.requires_grad for t in fast(*given)] == [t.requires_grad for t in f(*given)]
    sum(t.sum() for t in fast(*given)).backward()
    assert [t.grad.tolist() for t in given] == [[3, 3], [3, 3]]


def test_a_detached_result_keeps_nothing_alive():
    x = sg.ones(3, requires_grad=True)
    loss, shown = sg.compile(lambda x: ((x * x).sum(), (x * x).detach()), backend="numpy")(x)
    assert loss.grad_fn is not None
    assert shown.grad_fn is None


def test_a_write_into_a_number_that_is_known():
    def f(x):
        one = x.sum() ** 0
        one.view(-1)[0] = 1.5
        return one * x

    assert sg.compile(f, backend="numpy")(sg.ones(2)).tolist() == [1.5, 1.5]


def test_a_write_into_what_is_one_number():
    def f(x):
        y = 2 / (0 * x.max() + 1)
        y.flatten()[0] = 3 * x[0]
        return y

    x = sg.tensor([1.0, 2.0], dtype=sg.float64)
    run = sg.compile(f, backend="numpy")
    assert [run(x).item(), run(x * 2).item(), f(x).item()] == [3.0, 6.0, 3.0]


def test_gradients_in_a_tensor_that_shares_the_memory_of_an_argument():
    """They were taken for something that the function leaves behind, and it was traced at every call."""
    def slopes(x):
        y = x.detach().requires_grad_()
        (y**3).sum().backward()
        return y.grad * 2

    run = sg.compile(slopes, backend="numpy")
    for i in range(6):
        assert run(sg.full((2,), float(i))).tolist() == [6.0 * i * i] * 2
    assert len(run.recompiles()) == 1


def test_a_cotangent_that_is_a_number_of_numpy():
    """A scaled loss, and a parameter whose memory is on the device since another kernel read it."""
    w = sg.tensor([1.0, 2.0], dtype=sg.float64, requires_grad=True)
    fast = sg.compile(lambda x: (w * w).sum() + x.sum())
    for n, dtype in enumerate((sg.float64, sg.float32), 1):
        (fast(sg.ones(1, dtype=dtype)) * 0.5).backward()
        assert w.grad.tolist() == [n * 1.0, n * 2.0]


def test_derivatives_of_sinc_beside_zero():
    """Sums of powers, where closed forms cancel; in half precision, and of complex numbers, too."""
    def derivatives(x):
        first = sg.func.grad(lambda x: sg.sinc(x).sum())
        return first(x), sg.func.grad(sg.func.grad(sg.sinc))(x[0]), sg.func.grad(sg.func.grad(sg.func.grad(sg.sinc)))(x[0])

    fast, x = sg.compile(derivatives), sg.tensor([1e-5, 0.7], dtype=sg.float64)
    for found, wanted in zip(fast(x), derivatives(x), strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-13)
    np.testing.assert_allclose([t.item() for t in fast(x)[1:]], [-3.289868132722362, 1.9481818204511466e-4], rtol=1e-13)
    half = sg.tensor(-0.1, dtype=sg.float16)
    np.testing.assert_allclose(sg.compile(sg.func.grad(sg.func.grad(sg.sinc)))(half).item(), -3.193, rtol=1e-3)
    z, same = (sg.tensor([0.3 + 0.2j, 1e-5j, 2 - 1j], dtype=sg.complex128, requires_grad=True) for _ in range(2))
    sg.compile(sg.sinc)(z).abs().sum().backward()
    sg.sinc(same).abs().sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), same.grad.numpy(), rtol=1e-12)


def test_functions_of_types_that_jax_leaves_out():
    half = sg.tensor([0.2, 0.9], dtype=sg.float16)
    np.testing.assert_allclose(sg.compile(sg.special.ndtri)(half).tolist(), [-0.8416, 1.281], rtol=1e-3)
    z = sg.tensor([1j, 0, 2], dtype=sg.complex128)
    assert sg.compile(lambda z: sg.linalg.vector_norm(z, 0))(z).item() == 2


def test_an_argument_that_the_function_also_brings_along_has_its_history():
    state = sg.ones(2, 2, dtype=sg.float64)

    def f(x, same, factor):
        state.select(1, 0).copy_(x)
        same.view(-1)[0] = 1.5
        return state * math.sqrt(factor)

    for run in (f, sg.compile(f, backend="numpy")):
        x = sg.tensor(0.25, dtype=sg.float64, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            y = run(x, state, 4.0)
        y.sum().backward()
        assert (x.grad.item(), y.tolist()) == (2, [[3, 2], [0.5, 2]])
        state.detach_()


def test_a_window_on_a_single_number():
    x = sg.tensor([0.5, -1.0], requires_grad=True)
    y = sg.compile(lambda x: x.sum().unfold(0, 1, 2) * 3)(x)
    y.sum().backward()
    assert (y.tolist(), x.grad.tolist()) == ([-1.5], [3, 3])


def test_what_made_xla_give_up():
    """A scatter of all elements, the derivative of x[None], that is read in reverse, ended the process: it is a reshape now."""
    def f(a):
        return (sg.zeros(3, 3, dtype=sg.float64) + a).index_add(0, sg.tensor([0]), a.cumprod(0)[None])

    x = sg.tensor([0.5, 1.5, 2.0], dtype=sg.float64, requires_grad=True)
    sg.compile(f)(x).sum().backward()
    wanted = sg.tensor([0.5, 1.5, 2.0], dtype=sg.float64, requires_grad=True)
    f(wanted).sum().backward()
    assert x.grad.tolist() == pytest.approx(wanted.grad.tolist(), rel=1e-12)


@pytest.mark.parametrize("wrap", [lambda f: f, sg.compile], ids=["eager", "compiled"])
def test_a_view_of_state_whose_history_was_dropped_is_written_to_under_no_grad(wrap):
    """Program 1597: neither has a history, so there is nothing to refuse."""
    state = sg.tensor([[2.0, 2.0], [1.5, 0.5]])

    def f(x):
        state[1:] *= 2
        state.select(0, 0).copy_(x)
        return state * 2

    run, x = wrap(f), sg.tensor([1.5, -1.5], requires_grad=True)
    run(x).sum().backward()
    state.detach_()
    with sg.no_grad():
        assert run(x).tolist() == [[3, -3], [12, 4]]
    assert x.grad.tolist() == [2, 2]


class Times(sg.autograd.Function):
    """x y, whose backward leaves it to autograd to sum what was broadcast, as PyTorch allows."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x


@pytest.mark.parametrize("shapes", [((2,), (3, 2)), ((3, 1), (3, 2)), ((), (2,)), ((1, 2), (3, 2))])
def test_a_gradient_of_a_function_that_is_too_large_is_summed(shapes):
    x, y = (sg.tensor(np.arange(1.0, 1 + np.prod(shape)).reshape(shape)) for shape in shapes)
    assert_same_in_all_lives(lambda x, y: (Times.apply(x, y) * 2).sin(), x, y, backends=("numpy", "xla"))


@pytest.mark.parametrize("x", [True, 2, 1.5])
def test_a_number_is_rolled_onto_itself(x):
    x = sg.tensor(x)
    assert sg.compile(lambda x: x.roll(1), backend="numpy")(x).shape == x.roll(1).shape == ()
