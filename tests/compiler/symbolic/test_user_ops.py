"""Operations of the user's own: made from expressions of SymPy's, and Functions that say what they mean."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.errors import FormulaError, GraphError
from symgrad.ops.table import TABLE

swish = sg.elementwise("swish", lambda x: x / (1 + sp.exp(-x)))


def T(*values, **options):
    return sg.tensor(values, dtype=sg.float64, requires_grad=True, **options)


def gradients(f, *args):
    return [g.numpy() for g in sg.autograd.grad(f(*args).sum(), args)]


def test_value_and_derivatives():
    x = T(-1.0, 0.0, 2.0)
    s = 1 / (1 + np.exp(-x.detach().numpy()))
    np.testing.assert_allclose(swish(x).detach().numpy(), x.detach().numpy() * s, rtol=1e-15)
    np.testing.assert_allclose(gradients(swish, x)[0], s + x.detach().numpy() * s * (1 - s), rtol=1e-14)
    assert sg.autograd.gradgradcheck(swish, (x,))


def test_it_is_one_node_which_saves_what_is_read():
    x = T(1.0, 2.0)
    y = swish(x)
    assert y.grad_fn.name() == "SwishBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    linear = sg.elementwise("linear", lambda x, y: 3 * x + y / 2)(x, T(1.0, 2.0))
    assert all(not isinstance(a, np.ndarray) for a in linear.grad_fn.saved)
    exponential = sg.elementwise("exponential", lambda x: sp.exp(2 * x))(x)
    assert not isinstance(exponential.grad_fn.saved[0], np.ndarray)
    assert exponential.grad_fn.out is exponential._array


def test_formula_and_kernel():
    x = T(-1.0, 0.5, 2.0)
    d = sg.derive(swish, order=2)(sg.tensor(1.5, dtype=sg.float64))
    assert str(d).splitlines()[:2] == ["swish(x) = x*sigmoid(x)", "∂swish/∂x = (x*sigmoid(-x) + 1)*sigmoid(x)"]
    assert d.certify().ok
    _value, (g,) = sg.compile(lambda x: swish(x).sum()).value_and_grad(x)
    np.testing.assert_allclose(g.numpy(), gradients(swish, x)[0], rtol=1e-14)
    assert str(swish(x).sum().formula()) == "y(x1) = sum(x1 ∘ sigmoid(x1))"


def test_an_expression_with_its_symbols_in_order():
    a, b = sp.symbols("a b")
    op = sg.elementwise("quotient", a / b, (b, a))
    assert op.__doc__ == "quotient(b, a) = a/b, of every element."
    assert op(2.0, sg.tensor([8.0])).tolist() == [4.0]


def test_operands_broadcast_and_meet_as_in_other_ops():
    op = sg.elementwise("op", lambda x, y: x * y + y**2)
    x, y = T([1.0], [2.0]), T(1.0, 2.0, 3.0)
    assert op(x, y).shape == (2, 3)
    assert [g.shape for g in gradients(op, x, y)] == [(2, 1), (3,)]
    assert op(sg.tensor([1, 2]), 2).dtype == sg.float32
    assert op(x.detach().float(), sg.tensor(2.0, dtype=sg.float64)).dtype == sg.float32
    assert op(x.detach().half(), 1.5).dtype == sg.float16
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(2\).*op: cannot broadcast"):
        op(sg.ones(3), sg.ones(2))
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        op(sg.tensor([1j]), 1)


def everything(a, b):
    """Every kind of expression that there is a translation of."""
    yield sp.Max(a, b, 0) * sp.sqrt(2) * a / 3
    yield sp.Min(a, 2 * b) - sp.Abs(b) ** 3 * a
    yield sp.Piecewise((1, a > 0), (sp.pi, b >= 1), (sp.Rational(1, 3), True)) * a * b
    yield sp.Piecewise((a, sp.And(a > 0, sp.Not(b > 1))), (b**2, sp.Or(a < -1, sp.Ne(b, 2))), (a * b, True))
    yield sp.Heaviside(a, sp.Rational(1, 4)) * b + sp.sign(b) * a + sp.floor(a) * b + sp.ceiling(b) * a
    yield sp.loggamma(a**2 + 1) + sp.erf(b) + sp.digamma(b**2 + 1) + sp.atan2(a, b)
    yield a ** sp.Rational(4, 3) + (a**2 + 1) ** b + 2**b / (a**2 + 1) ** 2 - 1 / sp.sqrt(b**2 + 1)
    yield sp.E * a + sp.exp(sp.Rational(1, 2)) * b + sp.log(2) * a * b + sp.Float(0.3) * a - sp.sin(1) * b
    yield sp.tan(a) + sp.cosh(b) + sp.asinh(a) * sp.atan(b) + sp.erfinv(b / 9)


A, B = sp.symbols("a b", real=True)
OPS = [sg.elementwise(f"op{i}", e, (A, B)) for i, e in enumerate(everything(A, B))]


@pytest.mark.parametrize("op", OPS, ids=[op.__name__ for op in OPS])
def test_eager_formula_and_numbers_agree(op):
    i = OPS.index(op)
    x, y = T(0.3, 1.7), T(0.9, -0.4)
    meaning = list(everything(A, B))[i]
    for k in range(2):
        wanted = float(meaning.xreplace({A: sp.Float(x[k].item(), 30), B: sp.Float(y[k].item(), 30)}).evalf(20))
        np.testing.assert_allclose(op(x, y)[k].item(), wanted, rtol=1e-13)
    assert sg.autograd.gradcheck(op, (x, y))
    assert sg.autograd.gradgradcheck(op, (x, y))
    d = sg.derive(lambda a, b: op(a, b).sum(), order=2)(x, y)
    assert d.certify().ok


def test_at_kinks_the_conventions_are_the_tables():
    x = T(0.0, 0.0)
    pairs = {
        lambda a: sp.Abs(a): lambda x: x.abs(),
        lambda a: sp.Max(a, 0): lambda x: sg.maximum(x, sg.zeros_like(x)),
        lambda a: sp.Min(a, 0): lambda x: sg.minimum(x, sg.zeros_like(x)),
        lambda a: sp.sign(a): lambda x: x.sign(),
    }
    for i, (expression, own) in enumerate(pairs.items()):
        assert gradients(sg.elementwise(f"kink{i}", expression), x)[0].tolist() == gradients(own, x)[0].tolist()
    three = sg.elementwise("three", lambda a, b, c: sp.Max(a, b, c))
    tie = [T(1.0), T(1.0), T(1.0)]
    assert sum(g.item() for g in gradients(three, *tie)) == 1
    _, shown = sg.derive(lambda *xs: three(*xs).sum(), wrt=(0, 1, 2))(*tie)(*tie)
    assert [g.item() for g in shown] == [g.item() for g in gradients(three, *tie)]


def test_two_ops_of_one_name_do_not_meet():
    rows = dict(TABLE)
    mine, yours = sg.elementwise("sin", lambda x: x**2), sg.elementwise("sin", lambda x: x**3)
    assert rows == TABLE
    x = T(2.0)
    assert mine(x).item() == 4
    assert yours(x).item() == 8
    assert sg.sin(x).item() == np.sin(2.0)
    assert str((mine(x) + yours(x) + sg.sin(x)).formula()).endswith("= x1**3 + x1**2 + sin(x1)")
    assert sg.compile(lambda x: mine(x) + yours(x) + sg.sin(x))(x).item() == 12 + np.sin(2.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sg.elementwise("a b", lambda x: x), ValueError, "a name that is an identifier"),
        (lambda: sg.elementwise("lambda", lambda x: x), ValueError, "a name that is an identifier"),
        (lambda: sg.elementwise("f", "x + 1"), TypeError, "takes a function of SymPy's symbols"),
        (lambda: sg.elementwise("f", lambda x: "x + 1"), TypeError, "must be an expression of SymPy's"),
        (lambda: sg.elementwise("f", lambda x: x > 0), TypeError, "must be an expression of SymPy's"),
        (lambda: sg.elementwise("f", A + B), TypeError, "symbols in the order of the arguments"),
        (lambda: sg.elementwise("f", A + B, (A,)), FormulaError, "mentions b"),
        (lambda: sg.elementwise("f", lambda x, y: x), FormulaError, "does not depend on argument 1"),
        (lambda: sg.elementwise("f", lambda x: sp.zeta(x)), FormulaError, "no row of the table means zeta"),
        (lambda: sg.elementwise("f", lambda x: sp.Function("g")(x)), FormulaError, "no row of the table means g"),
        (lambda: sg.elementwise("f", lambda x: sp.I * x), FormulaError, "I is no real number"),
    ],
)
def test_what_is_no_op_is_said(make, error, words):
    with pytest.raises(error, match=words):
        make()


# --- Functions


class Scaled(sg.autograd.Function):
    """factor xⁿ and x + y, with a forward that no trace can follow."""

    slope_of_y = 1.0

    @staticmethod
    def forward(ctx, x, n, y):
        ctx.save_for_backward(x)
        ctx.n = n
        return sg.from_numpy(x.detach().numpy() ** n) * 2, x + y

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return 2 * ctx.n * x ** (ctx.n - 1) * g + h, None, h * Scaled.slope_of_y

    @staticmethod
    def symbolic(x, n, y):
        return 2 * x**n, x + y


def loss(x, y):
    first, second = Scaled.apply(x, 3, y)
    return (first * second).sum()


def test_a_function_is_what_its_symbolic_says():
    x, y = T(1.0, 2.0), T(0.5, -3.0)
    d = sg.derive(loss)(x, y)
    assert d.certify().ok
    assert str(d).startswith("loss(x, y) = 2*")
    recorded = loss(x, y).formula(wrt=(x, y))
    wanted = sg.autograd.grad(loss(x, y), (x, y))
    for found in (d(x, y)[1], recorded()[1], sg.compile(loss).value_and_grad(x, y)[1]):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-14)
    assert str(sg.derive(loss)(sg.spec(2, sg.float64), sg.spec(2, sg.float64))) == str(d)


def test_a_wrong_backward_is_found(monkeypatch):
    monkeypatch.setattr(Scaled, "slope_of_y", 1.001)
    certificate = sg.derive(loss)(T(1.0, 2.0), T(0.5, -3.0)).certify()
    assert not certificate.ok
    assert "∂loss/∂y and eager" in str(certificate)
    assert "does NOT agree" in str(certificate)


class Square(sg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * g * ctx.saved_tensors[0]


def test_without_symbolic_its_own_backward_is_the_derivative():
    x = T(1.0, 2.0)
    f = lambda x: Square.apply(x).sum()
    assert str(sg.derive(f)(x)) == "f(x) = ‖x‖²\n∂f/∂x = 2 x"
    value, gradient = sg.compile(f).value_and_grad(x, wrt=0)
    assert (value.item(), gradient.tolist()) == (5, [2, 4])
    fast, w = sg.compile(f), x.detach().requires_grad_()
    (first,) = sg.autograd.grad(fast(w), w, create_graph=True)
    (second,) = sg.autograd.grad(first.square().sum(), w)
    assert (first.tolist(), second.tolist()) == ([2, 4], [8, 16])
    assert sg.compile(f).hessian(x, wrt=0).tolist() == [[2, 0], [0, 2]]
    assert sg.compile(f)(x.detach()).item() == 5
    with pytest.raises(GraphError, match=r"Square is a Function of the user's.*symbolic\(\*args\)"):
        f(x).formula()  # the history of a call knows no backward


class Halves(sg.autograd.Function):
    """Several results, of which one has no slope, an argument that is no tensor, and a backward that is none of forward's."""

    @staticmethod
    def forward(ctx, x, y, power):
        ctx.power = power
        product = x * y
        ctx.save_for_backward(product)
        count = (x > 0).sum()
        ctx.mark_non_differentiable(count)
        return product, count, x + 1

    @staticmethod
    def backward(ctx, g, _, h):
        (product,) = ctx.saved_tensors
        return g * product**ctx.power + 3 * h, None, None


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_a_backward_that_is_not_the_derivative_is_what_runs(backend):
    def f(x, y):
        product, count, more = Halves.apply(x, y, 2)
        return (product * more).sum() * count

    x, y = T(1.0, -2.0, 3.0), T(0.5, 4.0, 2.0)
    expected = sg.autograd.grad(f(x, y), x)[0]
    fast = sg.compile(f, backend=backend)
    assert fast(x, y).item() == f(x, y).item()
    assert sg.allclose(fast.grad(x, y, wrt="x"), expected, rtol=1e-14)
    w = x.detach().requires_grad_()
    fast(w, y.detach()).backward()
    assert sg.allclose(w.grad, expected, rtol=1e-14)
    assert fast.grad(x, y, wrt="y").tolist() == [0, 0, 0]  # its backward gives None
    graph = fast.graph()
    assert type(graph).parse(str(graph)) == graph


def test_a_backward_that_leaves_the_graph_is_named_when_a_derivative_is_asked_for():
    class Leaves(sg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * g.sum().item()

    f = lambda x: Leaves.apply(x).sum()
    assert sg.compile(f)(T(1.0, 2.0)).item() == 6
    with pytest.raises(GraphError, match=r"Leaves is a Function of the user's.*test_user_ops\.py:\d+: item\(\)"):
        sg.compile(f).grad(T(1.0, 2.0))


def test_what_symbolic_gives_is_checked():
    class Bad(Square):
        @staticmethod
        def symbolic(x):
            return "x**2"

    with pytest.raises(TypeError, match=r"Bad\.symbolic\(\) must be an expression of SymPy's"):
        sg.derive(lambda x: Bad.apply(x).sum())(T(1.0))
