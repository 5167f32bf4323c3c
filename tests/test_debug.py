"""debug.print and debug.nans, in eager code, in kernels, in training steps and in backward."""

from __future__ import annotations

import inspect
import warnings

import pytest

import symgrad as sg
from symgrad.mode import local


def root(x):
    y = x.sqrt()
    sg.debug.print("y is {}, in all {total:.2f} {}", y, "units", total=y.sum())
    return (2 * y).sum()


def printed(capsys):
    return capsys.readouterr().out.splitlines()


def test_print_in_eager_code(capsys):
    root(sg.tensor([1.0, 4.0], requires_grad=True))
    assert printed(capsys) == ["y is tensor([1., 2.]), in all 3.00 units"]


def test_print_in_a_kernel_at_every_run(capsys):
    fast = sg.compile(root)
    for values in ([1.0, 4.0], [9.0, 16.0], [25.0, 36.0]):
        fast(sg.tensor(values))
    assert printed(capsys) == [f"y is tensor([{a}., {b}.]), in all {a + b}.00 units" for a, b in ((1, 2), (3, 4), (5, 6))]
    x = sg.tensor([1.0, 4.0], requires_grad=True)
    fast(x).backward()
    assert len(printed(capsys)) == 1
    assert x.grad.tolist() == [1.0, 0.5]


def test_derivatives_and_formulas_do_not_print(capsys):
    fast = sg.compile(root)
    assert fast.grad(sg.tensor([1.0, 4.0]), wrt="x").tolist() == [1.0, 0.5]
    assert "sqrt" in str(sg.derive(root)(sg.spec(2)))
    assert printed(capsys) == []


def test_print_what_is_written_in_place_as_it_is_at_that_time(capsys):
    count = sg.zeros(())

    @sg.compile
    def counting(x):
        sg.debug.print("before {}", count)
        count.add_(x.sum())
        sg.debug.print("after {}", count)
        return count * 1

    for _ in range(3):
        counting(sg.ones(2))
    assert printed(capsys) == ["before 0.0", "after 2.0", "before 2.0", "after 4.0", "before 4.0", "after 6.0"]


def test_a_path_that_is_not_taken_prints_nothing(capsys):
    @sg.compile
    def branching(x):
        if x.sum() > 0:
            sg.debug.print("positive")
            return x.sum()
        sg.debug.print("negative {}", x)
        return -x.sum()

    for sign in (1, -1, 1, -1):
        branching(sign * sg.ones(1))
    assert printed(capsys) == ["positive", "negative tensor([-1.])"] * 2


def test_print_in_the_body_of_a_loop_is_refused():
    def body(i, x):
        sg.debug.print("{}", x)
        return x * 2

    @sg.compile
    def looping(x):
        return sg.fori_loop(0, 3, body, x)

    with pytest.raises(sg.errors.TraceError, match=r"test_debug.py:\d+: debug.print\(\) in the body of a loop"):
        looping(sg.ones(2))
    assert sg.fori_loop(0, 3, body, sg.ones(2)).tolist() == [8, 8]


def wrong(x):
    y = x.sin() - 2
    return y.log().exp().sum()


LINE = rf"test_debug.py:{inspect.getsourcelines(wrong)[1] + 2}: log made a NaN of float32\[3\] between -2 and -1.15853"


def test_nans_in_eager_code():
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=LINE + "$"):
        wrong(sg.tensor([0.0, 0.5, 1.0]))
    assert local.mode.capture is None
    assert local.mode.anomaly is None
    assert wrong(sg.ones(3)).isnan()


def test_nans_in_a_kernel():
    fast = sg.compile(wrong)
    x = sg.tensor([0.0, 0.5, 1.0])
    assert fast(x).isnan()
    assert fast.hessian(x, wrt="x").diagonal().isnan().all()  # traced by itself, before anybody looks for NaN
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=LINE + ", in the kernel of wrong$"):
        fast(x)
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=LINE + ", in the kernel of wrong, hessian"):
        fast.hessian(x, wrt="x")
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=LINE):
        sg.compile(wrong)(x)  # traced for the first time
    there_before = x * float("nan")
    with sg.debug.nans():
        assert fast(there_before).isnan()


def test_nans_that_no_result_depends_on_are_nobodys_concern():
    fast = sg.compile(lambda x: sg.where(x > 0, x.log(), 0 * x).sum())
    x = sg.tensor([-1.0, 1.0])
    fast(x)
    with sg.debug.nans():
        assert fast(x) == 0


def test_infinities():
    fast = sg.compile(lambda x: (1 / x).sum())
    fast(sg.zeros(2))
    with sg.debug.nans():
        assert fast(sg.zeros(2)).isinf()
    with sg.debug.nans(infinities=True), pytest.raises(FloatingPointError, match="made a NaN or an infinite value"):
        fast(sg.zeros(2))


def backward_of(function):
    x = sg.zeros(2, requires_grad=True)
    (0 * function(x)).backward()


def test_nans_in_backward():
    with sg.debug.nans(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(FloatingPointError, match="div made a NaN"):
            backward_of(lambda x: x.sqrt().sum())
    assert any("x.sqrt().sum()" in str(w.message) for w in told)


def test_nans_in_the_backward_of_a_kernel():
    fast = sg.compile(lambda x: x.sqrt().sum())
    with sg.debug.nans(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(FloatingPointError, match=r"test_debug.py:\d+: div made a NaN .* in the kernel of <lambda>_vjp"):
            backward_of(fast)


def test_nans_in_a_training_step_leave_its_state_alone():
    w = sg.ones(3, requires_grad=True)
    optimizer = sg.optim.SGD([w], lr=0.1)

    @sg.compile
    def step(x):
        optimizer.zero_grad()
        loss = (w * x).log().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(2):
        step(sg.ones(3))
    before = w.detach().clone()
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=r"log made a NaN of .*, in the kernel of step"):
        step(-sg.ones(3))
    assert (w == before).all()
    with sg.debug.nans():
        step(sg.ones(3))
    assert (w != before).all()


def test_nans_as_a_decorator():
    @sg.debug.nans()
    def checked(x):
        return x.log()

    with pytest.raises(FloatingPointError, match="log made a NaN"):
        checked(-sg.ones(2))
    assert checked(sg.ones(2)).tolist() == [0, 0]


def test_nans_in_loops_are_found_in_their_steps():
    def sinking(x):
        def step(c, _):
            c = c - 1
            return c.log(), None

        return sg.cond(x.sum() > 0, lambda: sg.scan(step, x, None, length=4)[0], lambda: x * 2)

    line = inspect.getsourcelines(sinking)[1] + 3
    words = rf"test_debug.py:{line}: log made a NaN of float32\[1\] = -0.30"
    x = sg.tensor([3.0])
    for prepare in (lambda f: None, lambda f: f(x)):  # traced for the first time, and a kernel
        fast = sg.compile(sinking)
        prepare(fast)
        with sg.debug.nans(), pytest.raises(FloatingPointError, match=words):
            fast(x)
    waiting = sg.compile(lambda x: sg.while_loop(lambda c: c > -5, lambda c: c.sqrt() - 2, x, max_steps=9))
    waiting(sg.tensor(1.0))
    with sg.debug.nans(), pytest.raises(FloatingPointError, match=r"test_debug.py:\d+: sqrt made a NaN of float32\[\] = -1, in the kernel"):
        waiting(sg.tensor(1.0))
