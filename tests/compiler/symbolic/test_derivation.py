"""What can be done with a derivation: steps, certificates, formulas of recorded results and of modules, paths through Python's branches."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.errors import FormulaError, TraceError


def normal(*shape, seed=0, **options):
    return sg.tensor(np.random.default_rng(seed).normal(size=shape), **options)


# steps


def test_steps_of_a_net():
    def loss(x, w, y):
        return ((x @ w).relu() - y).square().sum()

    steps = sg.derive(loss, wrt="w")(sg.spec((4, 3)), sg.spec((3, 2)), sg.spec((4, 2))).steps()
    assert [(s.name, s.text) for s in steps.values] == [
        ("v1", "x w"), ("v2", "max(0, v1)"), ("v3", "v2 - y"), ("v4", "v3^∘2"), ("v5", "sum(v4)"),
    ]  # fmt: skip
    assert [(s.name, s.text, s.rule) for s in steps.derivatives] == [
        ("v̄5", "1", "∂f/∂f = 1"),
        ("v̄4", "v̄5 𝟏 𝟏ᵀ", "every term has slope 1"),
        ("v̄3", "2 (v3 ∘ v̄4)", "square′(u) = 2*u"),
        ("v̄2", "v̄3", "sum rule"),
        ("v̄1", "(0 if v2 <= 0 else v̄2)", "relu′(u) = H(u)"),
        ("w̄", "xᵀ v̄1", "product of matrices"),
    ]
    assert str(steps).splitlines()[6] == "derivatives, from the result back: v̄ is ∂loss/∂v"


def test_a_value_that_is_used_twice_gets_both_parts():
    steps = sg.derive(lambda x: x * x.sin())(sg.spec(())).steps()
    assert str(steps).splitlines()[-1] == "  x̄ = v1*v̄2 + v̄1*cos(x)   product rule; sin′(u) = cos(u)"
    assert r"\bar{x} &= v_{1} \bar{v}_{2} + \bar{v}_{1} \cos{\left(x \right)}" in steps.latex()


def test_what_is_broadcast_is_summed_in_its_step():
    steps = sg.derive(lambda x, b: (x + b).exp().sum(), wrt="b")(sg.spec((4, 3)), sg.spec(3)).steps()
    assert steps[-1].text == "v̄1ᵀ 𝟏"
    assert steps[-1].rule == "sum rule"


def test_ops_without_a_closed_form_have_steps_too():
    f = lambda x, y: (sg.logsumexp(x * y, 0) + (x.sort()[0] * y).sum()) / (1 + y.square().sum())
    steps = sg.derive(f)(sg.spec(4), sg.spec(4)).steps()
    rules = {s.name: s.rule for s in steps.derivatives}
    assert rules["x\N{COMBINING MACRON}"] == "derivative of sort; product rule"
    assert all(s.text and s.rule for s in steps)
    assert len(steps) == len(steps.values) + len(steps.derivatives)


# certificates


def test_a_certificate_says_by_how_much_ways_differ():
    certificate = sg.derive(lambda x, w: (x @ w).exp().sum(), order=2)(sg.spec((2, 3)), sg.spec((3, 2))).certify()
    assert certificate
    assert {c.beside for c in certificate.comparisons} == {"eager", "complex step"}
    assert [c.formula for c in certificate.comparisons if c.beside == "eager"] == [
        "f", "∂f/∂x", "∂f/∂w", "∂²f/∂x∂x", "∂²f/∂x∂w", "∂²f/∂w∂w",
    ]  # fmt: skip
    assert str(certificate).startswith("the formula agrees; relative differences:\n  f and eager: ")


def test_what_is_not_analytic_is_certified_by_differences():
    certificate = sg.derive(lambda x: x.relu().sum() * x.abs().max())(normal(5)).certify()
    assert certificate.ok
    assert {c.beside for c in certificate.comparisons} == {"eager", "central differences"}


def test_a_wrong_formula_is_not_certified(monkeypatch):
    derivation = sg.derive(lambda x: (x**3).sum())(normal(4))
    right = derivation.program.evaluate
    monkeypatch.setattr(type(derivation.program), "evaluate", lambda self, arrays, wide=False: [right(arrays, wide)[0], arrays[0] ** 2])
    certificate = derivation.certify()
    assert not certificate
    assert [c.ok for c in certificate.comparisons] == [True, False, False]
    assert "does NOT agree" in str(certificate)


def test_a_module_is_certified_in_its_own_precision():
    net = sg.nn.Sequential(sg.nn.Linear(3, 4), sg.nn.Tanh(), sg.nn.Linear(4, 1))
    assert net.formula(sg.spec((5, 3)), wrt="0.weight").certify().ok


# formulas of what was recorded


def test_a_result_knows_its_formula_after_backward_too():
    x, a = normal(3, requires_grad=True), normal(3, 3, seed=1)
    x.name = "x"
    y = (a @ x).tanh().sum()
    y.backward()
    assert str(y.formula()) == "y(c1, x) = sum(tanh(c1 x))\nwith c1: float64[3, 3]"
    formula = y.formula(wrt=x)
    assert str(formula).splitlines()[1] == "∂y/∂x = c1ᵀ (1 - tanh(c1 x)^∘2)"
    assert str(y.formula(wrt="x")) == str(formula)
    value, gradient = formula(c1=a)
    np.testing.assert_allclose(gradient.numpy(), x.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(value.numpy(), y.detach().numpy(), rtol=1e-12)
    with pytest.raises(FormulaError, match=r"values of the constant c1 were not kept: give them by name"):
        formula()
    with pytest.raises(ValueError, match="begins at c1, x"):
        y.formula(wrt=a)


def test_leaves_are_read_again():
    x = normal(2, requires_grad=True)
    formula = (x * x).sum().formula(wrt=x)
    with sg.no_grad():
        x.fill_(3.0)
    value, gradient = formula()
    assert value.item() == 18
    assert gradient.tolist() == [6, 6]


def test_a_module_has_a_formula_with_the_names_of_its_parameters():
    net = sg.nn.Sequential(sg.nn.Linear(3, 4, bias=False), sg.nn.ReLU(), sg.nn.Linear(4, 1, bias=False))
    assert str(net.formula(sg.spec((5, 3)))) == "f(input) = max(0, input 0.weightᵀ) 2.weightᵀ"
    x = normal(5, 3).float()
    np.testing.assert_allclose(net.formula(x)(x).numpy(), net(x).detach().numpy(), rtol=1e-5)


# branches


def branching(x):
    if x.sum() > 0:
        return (x * x).sum()
    return x.exp().sum()


def test_the_path_that_was_taken_is_shown_with_its_condition():
    taken = sg.derive(branching)(sg.tensor([1.0, 2.0]))
    assert str(taken).splitlines() == ["branching(x) = ‖x‖²", "∂branching/∂x = 2 x", "for sum(x) > 0"]
    other = sg.derive(branching)(sg.tensor([-1.0, -2.0]))
    assert str(other).splitlines()[-1] == "for sum(x) <= 0"
    assert r"\text{for } \operatorname{sum}\left(x\right) > 0" in taken.latex()
    assert taken(sg.tensor([3.0, -1.0]))[1][0].tolist() == [6, -2]
    with pytest.raises(FormulaError, match=r"this formula is for sum\(x\) > 0, which does not hold"):
        taken(sg.tensor([-3.0, 1.0]))


def test_a_loop_shows_how_often_it_ran():
    def halved(x):
        while x > 1:
            x = x / 2
        return x

    assert str(sg.derive(halved)(sg.tensor(5.0))).splitlines() == [
        "halved(x) = x/8", "∂halved/∂x = 1/8", "for x > 1 and x/2 > 1 and x/4 > 1 and x/8 <= 1",
    ]  # fmt: skip


def test_without_values_there_is_no_path():
    with pytest.raises(TraceError, match=r"test_derivation.py:\d+: bool\(tensor\)"):
        sg.derive(branching)(sg.spec(2))


def test_notebooks_get_text_and_mathematics():
    bundle = sg.derive(lambda x: x.sin())(sg.spec(()))._repr_mimebundle_()
    assert bundle["text/plain"].startswith("f(x) = sin(x)")
    assert bundle["text/latex"].startswith("$$\n\\begin{aligned}")


# long computations, in single precision


W = sg.tensor([[0.6, -0.3], [0.2, 0.5]])
R = sg.tensor([3.7, 3.6])
START = sg.tensor([0.3, 0.4])


def contracting(x):
    """Its derivative is below 1e-38, where single precision ends."""
    for _ in range(55):
        x = (x * R).tanh() * 0.05
    return x.sum()


def chaotic(x):
    for _ in range(25):
        x = R * x * (1 - x)
    return x.sum()


@pytest.mark.parametrize("f", [contracting, chaotic])
def test_long_computations_in_single_precision_are_certified(f):
    assert sg.derive(f)(START).certify()


def test_a_formula_that_is_wrong_is_not(monkeypatch):
    """Also where digits are lost: by a tenth, or by a sign."""
    for f in (lambda x: (x @ W).sin().sum(), chaotic):
        for factor in (0.9, -1.0):
            d = sg.derive(f)(START)
            own = type(d).evaluate
            with monkeypatch.context() as patch:
                patch.setattr(type(d), "evaluate", lambda *args, own=own, factor=factor, **how: [a * factor for a in own(*args, **how)])
                certificate = d.certify()
            assert not certificate
            assert "does NOT agree" in str(certificate)
            assert not any(c.ok for c in certificate.comparisons), certificate


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a @ b / (a.norm() * b.norm()),
        lambda a, b: a @ b / a.norm(),
        lambda a, b: (a.norm() * b).sum(),
        lambda a, b: (a.abs() * b).sum(),
    ],
)
def test_certify_takes_no_complex_step_through_norms(f):
    """A norm is the root of a sum of squares in the graph, but not analytic in eager code."""
    certificate = sg.derive(f)(sg.spec(3), sg.spec(3)).certify()
    assert certificate.ok, certificate
    assert {c.beside for c in certificate.comparisons} == {"eager", "central differences"}


CONJUGATED = {
    "conj": lambda a: (a.conj() * a).sum(),
    "conj_physical": lambda a: (a.conj_physical() ** 2).sum(),
    "mH": lambda a: (a.mH @ a).exp().sum(),
    "vdot": lambda a: sg.vdot(a[0], a[1]),
    "vecdot": lambda a: sg.linalg.vecdot(a, a).sum(),
    "cov": lambda a: sg.cov(a).sum(),
    "corrcoef": lambda a: sg.corrcoef(a).sum(),
    "real": lambda a: (a.real * a).sum(),
}


@pytest.mark.parametrize("name", CONJUGATED)
def test_certify_takes_no_complex_step_through_conjugates(name):
    """The conjugate of a real number is itself, and has no row in the graph."""
    certificate = sg.derive(CONJUGATED[name], order=2)(sg.spec((2, 3))).certify()
    assert certificate.ok, certificate
    assert {c.beside for c in certificate.comparisons} == {"eager", "central differences"}


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("f", [lambda a: 3 * a.sum(), lambda a: a, lambda a: (a * a).sum(), lambda a: sg.ones(3).sum()])
def test_certify_of_derivatives_that_are_zero(f, order):
    certificate = sg.derive(f, order=order)(sg.spec(3)).certify()
    assert certificate.ok, certificate
    assert len({c.formula for c in certificate.comparisons}) == order + 1


def test_certify_takes_the_complex_step_of_analytic_functions():
    certificate = sg.derive(lambda a: a.sin().sum() / (a * a).sum().sqrt())(sg.spec(3)).certify()
    assert certificate.ok, certificate
    assert {c.beside for c in certificate.comparisons} == {"eager", "complex step"}


NUMBERS = {
    "a number": (lambda x: x * x, 0.7),
    "two numbers": (lambda x, y: x * y + y, 0.7, 0.1),
    "numbers in a list": (lambda xs: xs[0] * xs[1], [0.7, 0.1]),
    "beside float32": (lambda x, y: (x * y).sum(), 0.7, sg.ones(3)),
    "beside a scalar of float32": (lambda x, y: x * y, 0.7, sg.tensor(0.3)),
    "beside float64": (lambda x, y: (x * y).sum(), 0.1, sg.ones(3, dtype=sg.float64)),
    "beside float16": (lambda x, y: (x * y).sum(), 0.5, sg.ones(3, dtype=sg.float16)),
    "a number of NumPy's": (lambda x: x * x, np.float64(0.7)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_the_type_that_they_have_in_compiled_functions(name):
    f, *args = NUMBERS[name]
    derivation = sg.derive(f)(*args)
    value, *_ = derivation(*args)
    wanted = sg.compile(f, backend="numpy")(*args)
    assert value.dtype == wanted.dtype
    np.testing.assert_allclose(value.numpy(), wanted.numpy(), rtol=1e-12 if wanted.dtype == sg.float64 else 1e-6)
    assert derivation.certify()


def test_a_number_keeps_its_digits_beside_a_captured_tensor():
    wide = sg.ones(2, dtype=sg.float64)
    f = lambda x: (x * wide).sum()
    assert sg.derive(f)(0.1)(0.1)[0].item() == 0.2


IDENTITIES = {
    "x": lambda x: x, "x + 1": lambda x: x + 1, "x - 1": lambda x: x - 1, "positive": sg.positive, "frac": lambda x: x.frac(),
    "view": lambda x: x.reshape(-1), "clone": lambda x: x.clone(), "x + x": lambda x: x + x,
}  # fmt: skip
IN_FLOAT32 = {
    "log2": sg.log2, "log10": sg.log10, "log1p": sg.log1p, "expm1": sg.expm1, "sinc": sg.sinc, "logit": sg.logit, "digamma": sg.digamma,
    "selu": sg.nn.functional.selu, "softplus": lambda x: sg.nn.functional.softplus(x, 2.0), "erf": sg.erf,
    "gelu": lambda x: sg.nn.functional.gelu(x, approximate="tanh"), "xlogy in x": lambda x: sg.xlogy(x, 2 * x + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", [*IDENTITIES, *IN_FLOAT32])
@pytest.mark.parametrize("x", [sg.tensor(0.7), sg.tensor([0.3, 0.6])], ids=["a number", "a vector"])
def test_certify_agrees_with_right_formulas(name, x):
    """Of x + 1 the cotangent is handed back as it is; rows under their own names are computed in float64, as eager code is here."""
    certificate = sg.derive((IDENTITIES | IN_FLOAT32)[name])(x).certify()
    assert certificate.ok, certificate


@pytest.mark.parametrize("f", [sg.xlogy, sg.special.xlog1py], ids=["xlogy", "xlog1py"])
def test_the_slope_of_a_function_that_keeps_its_name_is_written_out(f):
    x, y = sg.tensor([1.0, 2.0]), sg.tensor([2.0, 3.0])
    d = sg.derive(f, wrt="input")(x, y)
    assert "Derivative" not in str(d)
    assert "log(y" in str(d) or "log(other" in str(d)
    assert d.certify().ok


@pytest.mark.parametrize("power", [-3, -2, -1, 2, 0.5, -0.5])
def test_powers_of_complex_numbers(power):
    z = sg.tensor([1 + 2j, 3 - 1j], dtype=sg.complex128)
    found = sg.derive(lambda z: z**power)(z)(z)[0]
    np.testing.assert_allclose(np.asarray(found), z.numpy() ** power, rtol=1e-12)


# steps, in detail


def test_steps_are_a_sequence_and_names_of_the_user_are_not_reused():
    steps = sg.derive(lambda v1, v3: v1.sin() * v3.cos())(sg.spec(()), sg.spec(())).steps()
    assert [s.name for s in steps.values] == ["v2", "v4", "v5"]
    assert [s.text for s in steps.values] == ["sin(v1)", "cos(v3)", "v2*v4"]
    assert list(steps) == [*steps.values, *steps.derivatives]
    assert steps[0] is steps.values[0]
    assert steps[-1] is steps.derivatives[-1]
    assert steps[1:3] == steps.values[1:3]
    assert repr(steps) == str(steps)
    assert steps._repr_latex_() == f"$$\n{steps.latex()}\n$$"
    assert steps.latex().count(r"\\") == len(steps) - 1


def test_rules_stand_in_one_column_whatever_bars_are_before_them():
    lines = str(sg.derive(lambda x: x.sin().exp())(sg.spec(())).steps()).splitlines()
    shown = [line.replace("\N{COMBINING MACRON}", "") for line in lines if line.startswith("  ")]
    rules = ["sin", "exp", "∂f/∂f = 1", "exp′(u) = exp(u)", "sin′(u) = cos(u)"]
    assert [line.endswith("   " + rule) for line, rule in zip(shown, rules, strict=True)] == [True] * 5
    assert len({len(line) - len(rule) for line, rule in zip(shown, rules, strict=True)}) == 1
    assert lines[0] == "values"


def test_a_result_of_several_elements_begins_with_a_weight_for_each():
    steps = sg.derive(lambda x: x.sin())(sg.spec(3)).steps()
    first = steps.derivatives[0]
    assert (first.name, first.text, first.rule) == ("v\N{COMBINING MACRON}1", "g", "given: a weight for each result")
    one = sg.derive(lambda x: x.sin().reshape(1))(sg.spec(())).steps().derivatives[0]
    assert (one.name, one.text, one.rule) == ("v\N{COMBINING MACRON}2", "1", "∂f/∂f = 1")


def test_without_wrt_there_are_only_values():
    x = sg.tensor(0.5, requires_grad=True)
    x.name = "x"
    steps = x.sin().formula().steps()
    assert str(steps) == "values\n  v1 = sin(x)   sin"
    assert (len(steps), steps.derivatives) == (1, [])


def test_a_difference_is_written_with_a_minus():
    steps = sg.derive(lambda x: x.sin() - x)(sg.spec(())).steps()
    assert steps[-1].text == "-v̄2 + v̄1*cos(x)"


def test_loops_have_no_steps():
    def f(x):
        return sg.fori_loop(0, 1000, lambda i, x: x.sin(), x)

    with pytest.raises(FormulaError, match="steps name the rule of each operation, and scan is a loop of many"):
        sg.derive(f)(sg.tensor(1.0)).steps()


# formulas of what was recorded, in detail


def test_names_of_leaves_are_made_unique_and_constants_are_counted_apart():
    x, y, z = normal(requires_grad=True), normal(seed=1, requires_grad=True), normal(seed=2, requires_grad=True)
    x.name = y.name = "w"
    text = str((x * normal(2, seed=3) * y * z * normal(2, seed=4)).formula())
    assert text.splitlines()[0].partition(" = ")[0] == "y(w, c1, w_, x3, c2)"
    assert text.splitlines()[1] == "with c1: float64[2], c2: float64[2]"


def test_what_a_formula_of_a_recorded_result_refuses():
    x = normal(3, requires_grad=True)
    x.name = "x"
    formula = (x.sin() * 2).sum().formula(wrt="x")
    assert formula(x=np.zeros(3))[0].item() == 0
    with pytest.raises(TypeError, match="with its leaves as they are now, or with values by name"):
        formula(x)
    with pytest.raises(TypeError, match="no leaf is called a, b: there are x"):
        formula(b=1, a=2)
    with pytest.raises(FormulaError, match=r"x is float64\[3\], got an array of shape \[2\]"):
        formula(x=np.zeros(2))
    with pytest.raises(FormulaError, match="a recorded result has no function to compare with"):
        formula.certify()
    with pytest.raises(ValueError, match=r"wrt='q' is no leaf of the recorded history, which begins at x$"):
        (x * 2).sum().formula(wrt="q")


def test_one_name_gives_a_tensor_and_a_list_of_names_a_tuple():
    x = normal(requires_grad=True)
    y = x * x
    assert isinstance(y.formula(wrt=x)()[1], sg.Tensor)
    (gradient,) = y.formula(wrt=[x])()[1]
    assert gradient.item() == 2 * x.item()
    f = lambda x, y: (x * y).sum()
    assert isinstance(sg.derive(f, wrt=("x",))(normal(2), normal(2))(normal(2), normal(2))[1], tuple)


def test_derivatives_by_name():
    d = sg.derive(lambda x, y: x**2 * y, order=2)(sg.spec(()), sg.spec(()))
    assert list(d.derivatives) == [("x",), ("y",), ("x", "x"), ("x", "y"), ("y", "y")]
    assert list(d.gradients) == ["x", "y"]
    assert str(d["x", "y"]) == str(d[["x", "y"]])
    assert d["x"] == d.gradients["x"] == d.derivatives["x",]
    with pytest.raises(KeyError, match="this derivation has the derivatives in x; y; x, x; x, y; y, y"):
        d["z"]
    with pytest.raises(KeyError, match="nothing: ask for wrt"):
        normal(requires_grad=True).sin().formula()["x"]


def test_mixed_third_derivatives_have_their_dimensions_in_the_order_of_the_inputs():
    """Of Σ xᵢ² Σ yⱼ³: ∂³f/∂xᵢ∂yⱼ∂xₖ is 2 δᵢₖ 3 yⱼ²."""
    f = lambda x, y: (x**2).sum() * (y**3).sum()
    x, y = normal(2), normal(3, seed=1)
    *_, third = sg.derive(f, order=3)(x, y)(x, y)
    a, b = x.numpy(), y.numpy()
    wanted = np.einsum("ik,j->ijk", 2 * np.eye(2), 3 * b**2)
    np.testing.assert_allclose(third[0][1][0].numpy(), wanted, rtol=1e-12)
    np.testing.assert_allclose(third[1][0][0].numpy(), wanted.transpose(1, 0, 2), rtol=1e-12)
    np.testing.assert_allclose(third[0][0][1].numpy(), wanted.transpose(0, 2, 1), rtol=1e-12)
    np.testing.assert_allclose(third[1][1][0].numpy(), np.einsum("jk,i->jki", np.diag(6 * b), 2 * a), rtol=1e-12)


def test_results_of_a_derivation_share_no_memory():
    f = lambda x, y: (x * y).sum()
    x = normal(2)
    *_, second = sg.derive(f, order=2)(x, x)(x, x)
    second[0][1].fill_(7.0)
    assert second[1][0].tolist() == [[1, 0], [0, 1]]


def test_the_formula_of_a_recorded_view_follows_writes_to_its_base():
    x = normal(4, requires_grad=True)
    x.name = "x"
    y = x * 1.0
    view = y[:2]
    y.mul_(2.0)
    np.testing.assert_allclose(view.formula()().numpy(), 2 * x.detach().numpy()[:2])
