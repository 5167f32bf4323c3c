"""Defects of compiled functions that the eager suite found when it ran under the compiler."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import symgrad as sg


@pytest.mark.parametrize("backend", ["numpy", "xla"])
@pytest.mark.parametrize("old", [np.inf, np.nan, 1.0])
def test_what_a_parameter_was_before_it_is_written_over_without_history_does_not_matter(backend, old):
    w = sg.tensor([old, 1.0], requires_grad=True)

    @sg.compile(backend=backend)
    def f(x):
        with sg.no_grad():
            w.fill_(2.0)
        return (w * w * x).sum()

    x = sg.tensor([3.0, 4.0])
    for _ in range(2):
        w.grad = None
        w.data.copy_(sg.tensor([old, 1.0]))
        result = f(x)
        result.backward()
        assert result.item() == 28
        assert w.grad.tolist() == [12, 16]


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_a_gradient_inside_of_numbers_in_two_types_has_both_derivatives(backend):
    """d/dx and d/dy of (2xy)², where backward had saved x as float64, and as a complex number."""
    for y0 in (sg.tensor([1.0, 5.0], dtype=sg.float64), sg.tensor([1.0 + 0j, 5.0 + 0j])):
        x, y = sg.tensor([2.0, 3.0], requires_grad=True), y0.requires_grad_()

        @sg.compile(backend=backend)
        def f(x, y):
            (g,) = sg.autograd.grad((x * y * y).real.sum() if y.is_complex() else (x * y * y).sum(), y, create_graph=True)
            return (g * g.conj()).real.sum() if g.is_complex() else (g * g).sum()

        for _ in range(2):
            gradients = sg.autograd.grad(f(x, y), (x, y))
            assert gradients[0].tolist() == pytest.approx([16, 600])
            assert gradients[1].tolist() == pytest.approx([32, 360])


@pytest.mark.parametrize("dtype", [sg.float32, sg.float64])
def test_batch_norm_without_momentum_is_compiled(dtype):
    norms = [sg.nn.BatchNorm1d(2, momentum=None).to(dtype) for _ in range(2)]
    fast = sg.compile(norms[1], backend="numpy")
    for k in range(3):
        x = sg.tensor([[1.0, 2.0], [3.0, 5.0 + k]], dtype=dtype)
        np.testing.assert_allclose(fast(x).detach().numpy(), norms[0](x).detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(norms[1].running_mean.numpy(), norms[0].running_mean.numpy(), rtol=1e-6)
    np.testing.assert_allclose(norms[1].running_var.numpy(), norms[0].running_var.numpy(), rtol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "xla"])
def test_a_view_is_written_to_by_indices_after_its_base_was(backend):
    """y[[0]] = s; y.t()[[0]] = s: the view's write has the base's write in its history."""

    def f(a, s):
        y = a * 2
        v = y.t()
        y[[0]] = s
        v[[0]] = s
        (y * y).sum().backward()
        return y

    for run in (f, sg.compile(f, backend=backend)):
        for _ in range(2):
            a = sg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
            s = sg.tensor(10.0, requires_grad=True)
            run(a, s)
            assert a.grad.tolist() == [[0, 0, 0], [0, 40, 48]]
            assert s.grad.item() == 80


def test_a_hook_that_returns_no_gradient_is_refused_where_it_is_called():
    def f(x):
        y = x * 2
        y.register_hook(lambda g: 3)
        y.sum().backward()
        return y

    for run in (f, sg.compile(f, backend="numpy")):
        with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
            run(sg.ones(2, requires_grad=True))


class Labelled(sg.Tensor):
    """A user's subclass."""


def copies_of_shared_memory(x):
    w = x.detach() * 1
    whole, part, second, turned = copy.deepcopy([w, w[1:], w.detach(), w.view(1, -1)])
    part.mul_(x[1:])
    second.add_(x)
    turned[0, 0] = 9
    return (whole * whole).sum() + (part * part).sum() + (second * second * x).sum() + (turned * x).sum() + w.sum()


def copies_with_attributes(x):
    t = sg.Tensor._make_subclass(Labelled, x.detach() * 1, True)
    t.label, t.name = "mine", "w"
    t.grad = x.detach() * 3
    c = copy.deepcopy(t)
    known = type(c) is Labelled and (c.label, c.name, c.requires_grad) == ("mine", "w", True)
    c.grad.add_(1)
    return (c.detach() * (2 if known else 5) + c.grad + t.grad * x).sum()


@pytest.mark.parametrize("f", [copies_of_shared_memory, copies_with_attributes])
def test_deep_copies_inside(f):
    fast = sg.compile(f, backend="numpy")
    for k in range(3):
        x = sg.tensor([1.0 + k, 2.0, 4.0], requires_grad=True)
        (wanted,) = sg.autograd.grad(f(x), x)
        before = sg.compile(f, backend="numpy").grad(x, wrt="x")
        result = fast(x)
        (through,) = sg.autograd.grad(result, x)
        assert result.item() == f(x).item()
        assert before.tolist() == fast.grad(x, wrt="x").tolist() == through.tolist() == wanted.tolist()


def test_a_deep_copy_of_memory_that_no_tensor_owns_is_refused():
    memory = np.arange(4.0)
    a, b = sg.from_numpy(memory), sg.from_numpy(memory[1:])
    with pytest.raises(sg.errors.TraceError, match=r"test_eager_suite_regressions.py:\d+: copy.deepcopy\(\) of tensors that share memory"):
        sg.compile(lambda x: copy.deepcopy([a, b])[1] * x, backend="numpy")(sg.ones(3))


FOLDED = {
    "power": lambda x: (x**0).sum(),
    "in place": lambda x: (x * 1).pow_(0).sum(),
    "where": lambda x: sg.where(sg.ones(2, dtype=sg.bool), sg.ones(2), x).sum(),
    "matmul": lambda x: (sg.zeros(3, 2) @ x).sum(),
    "cast": lambda x: (x.to(sg.float64) ** 0).sum(),
}


@pytest.mark.parametrize("f", FOLDED.values(), ids=FOLDED.keys())
def test_a_constant_result_requires_grad_as_eagerly(f):
    fast = sg.compile(f, backend="numpy")
    for function in (f, fast, fast):
        x = sg.tensor([2.0, 3.0], requires_grad=True)
        result = function(x)
        result.backward()
        assert x.grad.tolist() == [0, 0]
    assert fast.grad(x, wrt="x").tolist() == [0, 0]
    assert not fast(x.detach()).requires_grad


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0, -1.0, "each"])
def test_lerp_is_exact_at_both_ends(weight):
    """1e8 + 1 * (-3 - 1e8) is 0 in float32."""
    x, y = sg.tensor([0.1, 1e8, 2.0, -np.inf]), sg.tensor([0.7, -3.0, np.inf, 1.0])
    w = sg.tensor([1.0, 1.0, 0.5, 0.25]) if weight == "each" else weight
    wanted = sg.lerp(x, y, w)
    for backend in ("numpy", "xla"):
        np.testing.assert_allclose(sg.compile(lambda x, y: sg.lerp(x, y, w), backend=backend)(x, y).numpy(), wanted.numpy(), rtol=1e-6)


WHOLE_POWERS = {
    "negative": ([1, -1, 2, -1, 0, 2**63 - 1, 1 - 2**63], [-3, -3, -1, -2, -1, -2, -2], [1, -1, 0, 1, 0, 0, 0]),
    "large": ([3, -1, 2, 1, 0], [64, 65, 64, 2**62, 100], [3**64 - 2**63 * (3**64 // 2**63), -1, 0, 1, 0]),
    "usual": ([3, -2, 5, 0], [4, 3, 0, 0], [81, -8, 1, 1]),
}


@pytest.mark.parametrize("case", WHOLE_POWERS.values(), ids=WHOLE_POWERS.keys())
@pytest.mark.parametrize("run", [lambda f: f, lambda f: sg.compile(f, backend="numpy"), sg.compile], ids=["eager", "numpy", "xla"])
def test_whole_numbers_to_whole_powers(run, case):
    x, y, wanted = case
    assert run(sg.pow)(sg.tensor(x), sg.tensor(y)).tolist() == wanted


@pytest.mark.parametrize("dtype", [sg.int8, sg.uint8, sg.int64])
def test_a_number_to_powers_that_are_whole_numbers_has_their_type(dtype):
    y = sg.tensor([[0, 1, 5], [6, 7, 100]], dtype=dtype)
    found, wanted = sg.compile(lambda y: (2**y, y[0] ** y))(y), (2**y, y[0] ** y)
    assert [(t.dtype, t.tolist()) for t in found] == [(t.dtype, t.tolist()) for t in wanted]


def test_a_parameter_may_be_called_powers():
    fast = sg.compile(lambda powers, rows: powers**rows)
    assert fast(sg.tensor([2, 3]), sg.tensor([3, 2])).tolist() == [8, 9]
    assert "powers" in fast.source()
