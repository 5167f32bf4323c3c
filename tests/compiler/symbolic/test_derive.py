"""derive(): formulas as people read them, their parts, and what is refused."""

from __future__ import annotations

import time

import numpy as np
import pytest
import sympy as sp

import symgrad as sg
from symgrad.compiler.symbolic.label_text import latex_label
from symgrad.compiler.symbolic.lower import _LOWERINGS as lowerings
from symgrad.errors import FormulaError, TraceError


def values(*shape, seed=0):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def loss(x, w1, w2, y):
    return ((x @ w1).relu() @ w2 - y).pow(2).sum()


SHAPES = ((64, 1000), (1000, 100), (100, 10), (64, 10))


def test_the_two_layer_net_reads_as_in_a_textbook():
    assert str(sg.derive(loss, wrt=("w1", "w2"))(*map(sg.spec, SHAPES))) == (
        "loss(x, w1, w2, y) = ‖max(0, x w1) w2 - y‖²\n"
        "∂loss/∂w1 = 2 xᵀ (((max(0, x w1) w2 - y) w2ᵀ) ∘ H(x w1))\n"
        "∂loss/∂w2 = 2 max(0, x w1)ᵀ (max(0, x w1) w2 - y)\n"
        "(H(t) is 1 for t > 0, else 0)"
    )


def test_the_two_layer_net_in_latex():
    derivation = sg.derive(loss, wrt="w1")(*map(sg.spec, SHAPES))
    assert derivation.latex() == (
        "\\begin{aligned}\n"
        "\\mathrm{loss} &= \\left\\|\\max\\left(0, x w_{1}\\right) w_{2} - y\\right\\|^{2} \\\\\n"
        "\\frac{\\partial \\mathrm{loss}}{\\partial w_{1}} &= 2 x^{\\top}"
        " \\left(\\left(\\left(\\max\\left(0, x w_{1}\\right) w_{2} - y\\right)"
        " w_{2}^{\\top}\\right) \\circ H\\left(x w_{1}\\right)\\right)\n"
        "\\end{aligned}"
    )
    assert derivation._repr_latex_() == f"$$\n{derivation.latex()}\n$$"


def test_powers_in_latex():
    """TeX refuses two superscripts in a row, and readers one on the last of several factors."""
    formula = sg.derive(lambda x, a: (x * x).sum() ** -1.5 + 3 * (x @ a) ** 2, wrt="a")(sg.spec(3), sg.spec(3))
    assert formula.latex().splitlines()[1:-1] == [
        r"f &= 3 \left(x^{\top} a\right)^{2} + \frac{1}{\left\|x\right\|^{3}} \\",
        r"\frac{\partial f}{\partial a} &= 6 \left(x^{\top} a\right) x",
    ]


@pytest.mark.parametrize(
    ("function", "shapes", "wanted"),
    [
        (lambda a: a.trace() ** 2 + a.inverse().sum(), [(3, 3)],
         r"2 \operatorname{tr}\left(a\right) I - a^{-\top} \mathbf{1} \mathbf{1}^{\top} a^{-\top}"),
        (lambda a, b: (3 * sg.linalg.solve(a @ a.T, b)).sum(), [(3, 3), (3, 2)], None),
        (lambda a, b: sg.linalg.solve(2 * a.T, b).square().sum() / (a @ a).trace(), [(3, 3), (3, 2)], None),
        (lambda a, b: (a.inverse().T @ b).exp().sum(), [(3, 3), (3,)], None),
    ],
)  # fmt: skip
def test_traces_and_inverses_run(function, shapes, wanted):
    args = [values(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    derivation = sg.derive(function)(*args)
    assert derivation.program.notation == "matrix"
    function(*args).backward()
    for gradient, arg in zip(derivation(*args)[1], args, strict=True):
        np.testing.assert_allclose(gradient.numpy(), arg.grad.numpy(), rtol=1e-10)
    if wanted is not None:
        assert wanted in derivation.latex()


def test_what_is_not_called_yet_says_how():
    assert repr(sg.derive(loss)) == "<derive loss(x, w1, w2, y): call it with tensors, or with spec(shape), to see the formula>"


def test_a_number_in_place_of_a_tensor_is_named():
    with pytest.raises(AttributeError, match="has no attribute 'sin'") as caught:
        sg.derive(lambda x, n: x * n.sin())(1.0, 2)
    assert caught.value.__notes__ == ["n is int 2: only tensors and arrays become inputs of the graph; pass tensor(...)"]


def test_modules_are_called_with_their_own_names():
    assert lines(sg.nn.MSELoss(), sg.spec(3), sg.spec(3), wrt="input")[1] == "∂f/∂input = 2/3 (input - target)"


def test_parameters_of_modules_keep_their_names():
    class Net(sg.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = sg.nn.Linear(3, 2)

        def forward(self, x):
            return self.inner(x).sum()

    derivation = sg.derive(Net(), wrt="inner")(sg.spec((4, 3)))
    assert str(derivation).splitlines() == [
        "f(x) = sum(x inner.weightᵀ + 𝟏 inner.biasᵀ)", "∂f/∂inner.weight = 𝟏 𝟏ᵀ x", "∂f/∂inner.bias = 4 𝟏",
    ]  # fmt: skip


def lines(function, *args, **options):
    return str(sg.derive(function, **options)(*args)).splitlines()


@pytest.mark.parametrize(
    ("function", "args", "wanted"),
    [
        (lambda x: x * x.sin(), [()], ["f(x) = x*sin(x)", "∂f/∂x = x*cos(x) + sin(x)"]),
        (lambda x: x**3 / 2 + 0.1, [()], ["f(x) = x**3/2 + 0.1", "∂f/∂x = 3*x**2/2"]),
        (lambda x: (1 + x.exp()).log(), [()], ["f(x) = softplus(x)", "∂f/∂x = sigmoid(x)"]),
        (lambda x: x.abs(), [()], ["f(x) = Abs(x)", "∂f/∂x = sign(x)"]),
        (lambda x: sg.where(x > 1, x * x, x), [()],
         ["f(x) = (x**2 if x > 1 else x)", "∂f/∂x = (2*x if x > 1 else 1)"]),
        (lambda x, a: (a @ x) @ x, [(3,), (3, 3)], ["f(x, a) = xᵀ aᵀ x", "∂f/∂x = (a + aᵀ) x", "∂f/∂a = x xᵀ"]),
        (lambda a, x, b: ((a @ x - b) ** 2).sum(), [(4, 3), (3,), (4,)],
         ["f(a, x, b) = ‖a x - b‖²", "∂f/∂a = 2 (a x - b) xᵀ", "∂f/∂x = 2 aᵀ (a x - b)", "∂f/∂b = 2 (b - a x)"]),
        (lambda a, x: (a @ x).exp().sum(), [(4, 3), (3,)],
         ["f(a, x) = sum(exp(a x))", "∂f/∂a = exp(a x) xᵀ", "∂f/∂x = aᵀ exp(a x)"]),
        (lambda a, b: (a @ b).trace(), [(3, 4), (4, 3)], ["f(a, b) = tr(a b)", "∂f/∂a = bᵀ", "∂f/∂b = aᵀ"]),
        (lambda a: (2 * a).trace() ** 2, [(3, 3)], ["f(a) = 4*tr(a)**2", "∂f/∂a = 8*tr(a) I"]),
        (lambda a: (2 * a).inverse().trace(), [(3, 3)], ["f(a) = tr(a⁻¹)/2", "∂f/∂a = -a⁻ᵀ a⁻ᵀ/2"]),
        (lambda a, b: b @ sg.linalg.solve(a, b), [(3, 3), (3,)],
         ["f(a, b) = bᵀ a⁻¹ b", "∂f/∂a = -a⁻ᵀ b bᵀ a⁻ᵀ", "∂f/∂b = (a⁻¹ + a⁻ᵀ) b"]),
        (lambda x, m: -m / (x * x).sum().sqrt(), [(3,), ()],
         ["f(x, m) = -m/‖x‖", "∂f/∂x = m x/‖x‖³", "∂f/∂m = -1/‖x‖", "for ‖x‖ ≠ 0"]),
        (lambda x: x.norm(), [(3,)], ["f(x) = ‖x‖", "∂f/∂x = x/‖x‖", "for ‖x‖ ≠ 0"]),
        (lambda x: (x * x).sum() ** 2, [(3,)], ["f(x) = ‖x‖⁴", "∂f/∂x = 4*‖x‖² x"]),
        (lambda x, a: (x @ a @ x) ** 2, [(3,), (3, 3)],
         ["f(x, a) = (xᵀ a x)**2", "∂f/∂x = 2*(xᵀ a x) (a + aᵀ) x", "∂f/∂a = 2*(xᵀ a x) x xᵀ"]),
    ],
)  # fmt: skip
def test_formulas(function, args, wanted):
    assert lines(function, *(sg.spec(shape, sg.float64) for shape in args)) == wanted


def test_an_element_is_the_same_in_tensors_of_all_shapes():
    """Also under a function that formulas have only a name for."""
    assert lines(lambda x: x[0] * (x.long()[0] - x[0].long()), sg.spec(3)) == ["f(x) = 0", "∂f/∂x = [0, 0, 0]"]


def test_elements():
    assert lines(lambda x, w: (x @ w).tanh().sum(), sg.spec((1, 2)), sg.spec((2, 1)), wrt="w", notation="elements") == [
        "f(x, w) = tanh(x[0, 0]*w[0, 0] + x[0, 1]*w[1, 0])",
        "∂f/∂w = [[x[0, 0]*(1 - tanh(x[0, 0]*w[0, 0] + x[0, 1]*w[1, 0])**2)], [x[0, 1]*(1 - tanh(x[0, 0]*w[0, 0] + x[0, 1]*w[1, 0])**2)]]",
    ]


def test_parts_are_sympys():
    derivation = sg.derive(lambda x: x**2 * x.cos(), wrt="x")(2.0)
    (x,) = derivation.value.free_symbols
    assert sp.simplify(derivation["x"] - sp.diff(derivation.value, x)) == 0
    matrices = sg.derive(loss, wrt="w1")(*map(sg.spec, SHAPES))
    assert isinstance(matrices["w1"], sp.MatrixExpr)
    assert matrices["w1"].shape == (1000, 100)
    assert list(matrices.gradients) == ["w1"]
    with pytest.raises(KeyError, match="w1"):
        matrices["w2"]


def test_a_formula_runs_on_other_values_and_captured_tensors_are_read_again():
    scale = sg.tensor([2.0, 2.0, 2.0], dtype=sg.float64)
    x, other = values(3), values(3, seed=1)
    derivation = sg.derive(lambda x: (x * x * scale).sum(), wrt="x")(x)
    scale.fill_(5.0)
    value, gradient = derivation(other)
    np.testing.assert_allclose(gradient.numpy(), 10 * other.detach().numpy(), rtol=1e-15)
    np.testing.assert_allclose(value.numpy(), 5 * (other.detach().numpy() ** 2).sum(), rtol=1e-15)


def test_stable_functions_stay_whole():
    def f(x):
        return x.sigmoid().log() + x.expm1()

    derivation = sg.derive(f)(sg.tensor(-800.0, dtype=sg.float64, requires_grad=True))
    assert "sigmoid(x)" in str(derivation)
    assert "expm1(x)" in str(derivation)


def test_any_rank_has_a_formula():
    assert lines(lambda x: (x.permute(2, 0, 1) * 2).sum(), sg.spec((2, 3, 4)))[0] == (
        "f(x) = 2*Σ_{i, j, k} x[j, k, i]"
    )


def test_shared_parts_get_names_so_that_size_stays_linear():
    def chain(depth):
        def f(x):
            for _ in range(depth):
                x = x * x.sin() + 1
            return x

        return f

    start = time.perf_counter()
    lengths = [len(str(sg.derive(chain(n))(0.3))) for n in (20, 40, 80)]
    assert time.perf_counter() - start < 20
    assert lengths[2] - lengths[1] < 2.5 * (lengths[1] - lengths[0])
    x = sg.tensor(0.3, dtype=sg.float64, requires_grad=True)
    y = chain(40)(x)
    y.backward()
    value, (gradient,) = sg.derive(chain(40))(x)(x)
    np.testing.assert_allclose(value.numpy(), y.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=1e-7)


HOSTILE = [
    "__import__('os').system('x')", "x\ny", "a$b", "\\input{/etc/passwd}", "x;y", "}{", "%s", "lambda", "λ", "", " ", "x" * 300, "\x1b[31m",
]  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_labels_are_only_printed(name):
    bias = sg.tensor([1.0, 2.0], dtype=sg.float64)
    bias.name = name
    derivation = sg.derive(lambda x: ((x + bias) ** 2).sum(), wrt="x")(values(2))
    assert all(symbol.name.isidentifier() for symbol in derivation.value.free_symbols)
    assert "\x1b" not in str(derivation)
    assert "\\input" not in derivation.latex()
    braces = [derivation.latex().count(brace) - derivation.latex().count(f"\\{brace}") for brace in "{}"]
    assert braces[0] == braces[1]


def test_labels_in_latex():
    given = ["x", "w1", "theta", "theta_2", "weight", "x[0, 1]", "layers.0.w_1"]
    wanted = ["x", "w_{1}", r"\theta", r"\theta_{2}", r"\mathrm{weight}", "x_{0,1}", r"\mathrm{layers.0.w\_1}"]
    assert [latex_label(label) for label in given] == wanted


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sg.derive(loss, wrt="w3")(*map(sg.spec, SHAPES)), ValueError, "wrt='w3': the tensor arguments are x, w1, w2, y"),
        (lambda: sg.derive(loss, wrt=7)(*map(sg.spec, SHAPES)), ValueError, r"there are 4 arguments \(x, w1, w2, y\)"),
        (lambda: sg.derive(lambda x: x > 2)(sg.spec((3,))), TraceError, "only floating-point results have a derivative"),
        (lambda: sg.derive(loss, order=0), ValueError, "order must be 1 or more"),
        (lambda: sg.derive(lambda x: (x, x))(sg.spec(())), TraceError, "one result, this one returns 2"),
        (lambda: sg.derive(lambda n: n)(sg.spec((), sg.int64)), TraceError, "nothing to differentiate in"),
        (lambda: sg.derive(3), TypeError, "expected a function of tensors, got int 3"),
        (lambda: sg.derive(loss, notation="poetry")(*map(sg.spec, SHAPES)), ValueError, "notation must be one of auto, scalar"),
        (lambda: sg.derive(loss, notation="scalar")(*map(sg.spec, SHAPES)), FormulaError, "scalar notation is for elementwise functions"),
        (lambda: sg.derive(loss, notation="elements")(*map(sg.spec, SHAPES)), FormulaError, "elements notation is for small tensors"),
        (lambda: sg.derive(lambda x: x.sum(), notation="matrix")(sg.spec((2, 2, 2))), FormulaError, "at most two dimensions"),
        (lambda: sg.derive(loss)(*map(sg.spec, SHAPES))(*map(sg.spec, SHAPES)), TypeError, "a spec has no values"),
        (lambda: sg.derive(lambda x: x.sum())(values(3))(values(4)), FormulaError, "derived for x of type float64.3., got float64.4."),
    ],
)  # fmt: skip
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda x: 3, {}),
        (lambda x: (x, x), {}),
        (lambda x: x, {"wrt": "y"}),
        (lambda x: x, {"wrt": 5}),
        (lambda x: x > 0, {}),
        (lambda x: x * x.sum().item(), {}),
    ],
)
def test_refusals_name_the_line(function, options):
    with pytest.raises((TraceError, ValueError), match=r"^\S*test_derive\.py:\d+: "):
        sg.derive(function, **options)(values(3))


def test_truth_values_that_are_repeated_have_no_matrix_form():
    def f(x, y):
        return sg.where((x > 0).reshape(5, 1), y, -y).sum()

    assert sg.derive(f)(values(5), values(5, 4)).program.notation == "index"
    with pytest.raises(FormulaError, match="truth values that are moved or repeated"):
        sg.derive(f, notation="matrix")(values(5), values(5, 4))


def test_what_is_too_deep_for_sympy_is_no_form(monkeypatch):
    def deep(job):
        raise RecursionError

    monkeypatch.setitem(lowerings, "matrix", deep)
    assert sg.derive(lambda x, w: (x @ w).sum())(values(5, 4), values(4, 5)).program.notation == "index"
    with pytest.raises(FormulaError, match="nested too deeply"):
        sg.derive(lambda x, w: (x @ w).sum(), notation="matrix")(values(5, 4), values(4, 5))
