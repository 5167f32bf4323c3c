"""steps(style="forward"): every line is evaluated and compared with the derivative, and the last one is what the derivation prints."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.symbolic.teaching import differentials, rules
from symgrad.compiler.symbolic.teaching.reasons import REASONS
from symgrad.ops.table import TABLE
from tests.support.textbook import KINDS

F = sg.nn.functional
NUMBERS = (0.7, 0.4, -0.3)
SCALARS = {
    "product": lambda x: x**2 * sg.sin(x),
    "quotient": lambda x: sg.sin(x) / x,
    "logarithm": lambda x: sg.log(1 + sg.exp(x)),
    "gauss": lambda x: sg.exp(-(x**2) / 2),
    "sigmoid": lambda w, x, b: sg.sigmoid(w * x + b),
    "power of a variable": lambda x: x**x + 2 ** (x**2),
    "rational": lambda x: (3 * x**2 + 2 * x + 1) / (1 + x**2) ** 3 + 1 / sg.cos(x),
    "three factors": lambda x: x * sg.exp(x) * sg.cos(3 * x) * sg.tanh(x) * sg.sqrt(x),
    "relu": lambda w, x: F.relu(w * x) ** 2,
    "branches": lambda x: sg.where(x > 0, x**2, -x),
    "two arguments": lambda x, u: x * sg.logaddexp(x, u) + F.softplus(u),
    "constant": lambda x: 0 * x + 2,
}


def vectors(*shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.2, 1.0, shape) for shape in shapes]
    return [sg.tensor(a + np.eye(len(a)) if a.shape == (len(a),) * 2 else a) for a in arrays]


def binary_loss(w, X, y):
    return F.softplus(-(y * (X @ w))).sum()


TENSORS = {
    "least squares": (lambda w, X, y: ((X @ w - y) ** 2).sum(), [(3,), (5, 3), (5,)], 2),
    "quadratic form": (lambda x, A: x @ A @ x, [(3,), (3, 3)], 2),
    "logdet": (lambda A: sg.logdet(A), [(3, 3)], 1),
    "cross entropy": (lambda z, y: -(y * sg.log_softmax(z, 0)).sum(), [(3,), (3,)], 2),
    "rows": (lambda z, y: -(y * sg.log_softmax(z, 1)).sum(), [(2, 3), (2, 3)], 1),
    "logsumexp": (lambda z: sg.logsumexp(z, 0), [(3,)], 2),
    "logistic regression": (binary_loss, [(3,), (5, 3), (5,)], 2),
    "norm": (lambda x: x.norm() / x.sum(), [(3,)], 1),
    "inverse": (lambda A, b: sg.linalg.solve(A, b).sum(), [(3, 3), (3,)], 1),
    "frobenius": (lambda A, B: ((A @ B.T) ** 2).sum() + (A * A).mean(), [(2, 3), (4, 3)], 1),
    "net": (lambda W, x, v: v @ sg.tanh(W @ x), [(2, 3), (3,), (2,)], 1),
    "softmax": (lambda z: sg.softmax(z, 0), [(3,)], 1),
}


def close(found, wanted):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(wanted, float), rtol=1e-8, atol=1e-10)


def derived(f, args, **options):
    return sg.derive(f, **options)(*(sg.spec(a.shape, sg.float64) for a in args))


def right_sides(derivation):
    return [line.split(" = ", 1)[1] for line in str(derivation).splitlines() if line.startswith("∂")]


@pytest.mark.parametrize("name", SCALARS)
def test_lines_of_scalars_are_the_derivative(name):
    f = SCALARS[name]
    args = [sg.tensor(x, dtype=sg.float64) for x in NUMBERS[: f.__code__.co_argcount]]
    d = derived(f, args, order=1 if name == "three factors" else 2)
    steps = d.steps("forward")
    assert not steps.note
    values = d.evaluate([np.asarray(a) for a in args])[1:]
    for lines, section, value, printed in zip(steps.replay(*args), steps.sections, values, right_sides(d), strict=True):
        close(lines, [float(value)] * len(section.steps))
        assert section.steps[-1].text == printed or d.program.lines


@pytest.mark.parametrize("name", ["product", "quotient", "gauss", "sigmoid", "three factors"])
def test_text_of_lines_is_the_derivative(name):
    f = SCALARS[name]
    d = derived(f, [sg.tensor(x, dtype=sg.float64) for x in NUMBERS[: f.__code__.co_argcount]])
    checked = 0
    for section, wrt in zip(d.steps("forward").sections, d.gradients, strict=True):
        for step in section.steps:
            if "[" not in step.text:
                assert d.check(step.text, wrt).verdict == "equal"
                checked += 1
    assert checked >= len(d.gradients)


@pytest.mark.parametrize("name", TENSORS)
def test_lines_of_tensors_are_the_derivative(name):
    f, shapes, order = TENSORS[name]
    args = vectors(*shapes)
    d = derived(f, args, order=order, wrt=tuple(range(len(args))) if order == 1 else 0)
    steps = d.steps("forward")
    assert not steps.note
    values = d.evaluate([a.numpy() for a in args])
    for lines, value, derivative, printed in zip(steps.replay(*args), values[1:], d._derivatives, right_sides(d), strict=True):
        axes = tuple(range(-len(d.graph.inputs[derivative.wrt[-1]].shape), 0))
        for line in lines:
            close(line, value.sum(axis=axes))
        assert lines
        assert printed in [s.text for s in steps]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_lines_of_the_textbook_are_the_derivative(kind):
    """At least 170 of the textbook's derivations have forward steps."""
    least = {"scalar": 42, "matrix": 43, "Hessian": 29, "index": 18, "probability": 38}
    shown = 0
    for entry in KINDS[kind]:
        d = entry.derivation
        steps = d.steps("forward")
        shown += not steps.note
        arrays = d._source.given()
        for lines, value, derivative in zip(
            () if steps.note else steps.replay(**entry.arrays), d.evaluate(arrays)[1:], d._derivatives, strict=False
        ):
            axes = () if d.program.notation == "scalar" else tuple(range(-len(d.graph.inputs[derivative.wrt[-1]].shape), 0))
            for line in lines:
                np.testing.assert_allclose(np.asarray(line, float), value.sum(axis=axes), rtol=1e-6, atol=1e-8, err_msg=entry.source)
    assert shown >= least[kind]


def test_wrong_rules_are_found(monkeypatch):
    monkeypatch.setitem(rules.SLOPES, "sin", lambda u: u)
    monkeypatch.setitem(differentials._RULES, "det", (lambda run, v: (xp.trace(run.differential(v.args[0])), "wrong"),))
    with pytest.raises(AssertionError):
        test_lines_of_scalars_are_the_derivative("product")
    with pytest.raises(AssertionError):
        test_lines_of_tensors_are_the_derivative("logdet")


def test_the_printed_lesson():
    def f(x):
        return x**2 * sg.sin(x)

    assert str(sg.derive(f)(sg.spec(())).steps(style="forward")).splitlines() == [
        "f(x) = x**2*sin(x)",
        "  df/dx = x**2*d/dx[sin(x)] + sin(x)*d/dx[x**2]   product rule (u v)′ = u′ v + u v′, with u = x**2, v = sin(x)",
        "    = x**2*cos(x) + 2*x*sin(x)                    power rule; sin′(u) = cos(u)",
        "    = x*(x*cos(x) + 2*sin(x))                     take out the common factor",
    ]


def test_the_printed_lesson_of_matrices():
    def loss(X, w, y):
        return ((X @ w - y) ** 2).sum()

    assert str(sg.derive(loss, "w")(sg.spec((5, 3)), sg.spec(3), sg.spec(5)).steps("forward")).splitlines() == [
        "loss(X, w, y) = ‖X w - y‖²",
        "  dloss = 2 (X w - y)ᵀ d(X w - y)   sum of squares: d‖u‖² = 2 uᵀ du",
        "    = 2 (X w - y)ᵀ X dw             linear in w",
        "  ∂loss/∂w = 2 Xᵀ (X w - y)         read off from dloss = (∂loss/∂w)ᵀ dw",
    ]


@pytest.mark.parametrize("style", ["forward", "backward"])
def test_reasons(style):
    d = sg.derive(lambda z: sg.softmax(z, 0))(sg.spec(3))
    proof = REASONS["softmax"]
    assert proof in [s.reason for s in d.steps(style, explain=True)]
    assert f"      because {proof}" in str(d.steps(style, explain=True)).splitlines()
    assert proof not in str(d.steps(style))


def test_reasons_are_for_rows():
    assert set(REASONS) <= set(TABLE)


def test_fallbacks_say_why():
    def deep(x):
        for _ in range(45):
            x = sg.sin(x)
        return x

    long = sg.derive(deep)(sg.spec(())).steps("forward")
    assert long.note.startswith("forward style would take more than 40 steps")
    assert str(long).startswith(long.note)
    assert len(long) == len(sg.derive(deep)(sg.spec(())).steps()) == 91
    assert "matrix notation" in sg.derive(lambda A: sg.linalg.cholesky(A).sum())(sg.spec((3, 3))).steps("forward").note
    assert "complex" in sg.derive(lambda z: z * z)(sg.spec((), sg.complex128)).steps("forward").note
    with pytest.raises(ValueError, match="style must be one of 'backward', 'forward', got 'sideways'"):
        sg.derive(deep)(sg.spec(())).steps("sideways")


def test_html_has_foldable_parts():
    steps = sg.derive(lambda x: sg.tanh(x) ** 2)(sg.spec(())).steps("forward", explain=True)
    html = steps._repr_html_()
    assert html.count("<details") == html.count("</details>") == 1 + sum(bool(s.reason) for s in steps)
    assert html.count("<tr>") == len(steps)
    assert "<script" not in sg.derive(lambda x: x)(sg.spec(())).steps()._repr_html_()
    assert re.sub("<[^>]*>", "", html).count("<") == 0


def test_names_of_parts_are_not_those_of_inputs():
    steps = sg.derive(lambda u, v: sg.sin(u) * u / v, "u")(sg.spec(()), sg.spec(())).steps("forward")
    assert steps[0].where == "p = u, q = sin(u)"
    assert "(p q)′" in steps[0].rule


def test_a_constant_has_a_line():
    steps = sg.derive(lambda x, y: (x * x).sum(), order=2)(sg.spec(3), sg.spec(3)).steps("forward")
    assert "f does not depend on y" in [s.rule for s in steps]


@pytest.mark.parametrize("shape", [(), (2,)])
def test_hostile_names_are_only_printed(shape):
    name = "a\x1b[2J\n$<script>\\input{x}_^"
    d = sg.derive(lambda **given: (given[name] * given["b"]).sin().sum())(**{name: sg.spec(shape), "b": sg.spec(shape)})
    steps = d.steps("forward", explain=True)
    assert not steps.note
    assert all(c.isprintable() or c == "\n" for c in str(steps))
    assert str(steps).count("\n") == len(steps)
    assert r"\input" not in steps.latex()
    assert "<script" not in steps._repr_html_()


def test_latex_begins_with_the_function():
    text = sg.derive(lambda x: x * x.sin())(sg.spec(())).steps("forward").latex()
    assert r"\left(x\right) &= x \sin{\left(x \right)} \\" in text
    assert r"\frac{d}{d x}\left[\sin{\left(x \right)}\right]" in text
    assert text.isascii()
