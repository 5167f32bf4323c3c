"""Every formula is typeset by pdflatex, MathJax and KaTeX without an error. Run by `tox -e latex`, where a missing tool is a failure."""

from __future__ import annotations

import pytest

import symgrad as sg
from tests.support.textbook import KINDS
from tests.support.typeset import browser_errors, pdflatex_errors

pytestmark = pytest.mark.latex
NAMES = ("W_q", "x_hat", "lam", "theta1", "mu_", "x_hat_1", "é", "中", "Δx", "learning_rate", "e", "pi", "I", "H", "δ")
"""Names of arguments: with subscripts, accents, Greek letters, letters that LaTeX does not have, words of our notation."""


def _named(name: str) -> sg.Tensor:
    """Return the derivations of functions whose arguments have a name from NAMES, in each notation."""
    scope: dict[str, object] = {}
    derivations = []
    for function in (lambda x: (x * x.exp()).sin() / x, lambda x: x**x):
        scope[name] = sg.tensor(0.5, dtype=sg.float64, requires_grad=True, name=name)
        derivations.append(function(scope[name]).formula((name,), order=2))
    x = sg.tensor([[0.5, 2.0, 1.0]] * 3, dtype=sg.float64, requires_grad=True, name=name)
    eye = sg.eye(3, dtype=sg.float64)
    for result in ((x @ x.T).sum(), x.softmax(1).square().sum() + (x @ x).cumsum(0).prod(), x.norm() * sg.linalg.det(x + eye)):
        derivations.append(result.formula((name,)))
    return derivations


def _formulas() -> dict[str, str]:
    derivations = {f"{kind} {n}: {entry.source}": entry.derivation for kind, entries in KINDS.items() for n, entry in enumerate(entries)}
    derivations |= {f"{name} {n}": d for name in NAMES for n, d in enumerate(_named(name))}
    formulas = {name: d.latex() for name, d in derivations.items()}
    formulas |= {f"{name} (steps)": d.steps().latex() for name, d in derivations.items()}
    return formulas | {f"{name} (forward steps)": d.steps("forward", explain=True).latex() for name, d in derivations.items()}


@pytest.fixture(scope="module")
def formulas():
    return _formulas()


def test_pdflatex(formulas, tmp_path):
    errors = pdflatex_errors(list(formulas.values()), tmp_path)
    assert not errors, [(list(formulas)[n], text, list(formulas.values())[n]) for n, text in errors[:5]]


def test_mathjax_and_katex(formulas):
    errors = browser_errors(list(formulas.values()))
    assert not errors, [(list(formulas)[n], renderer, text, list(formulas.values())[n]) for n, renderer, text in errors[:5]]


def test_formulas_are_ascii(formulas):
    assert not [name for name, text in formulas.items() if not text.isascii()]


@pytest.mark.parametrize("wrong", ["x_1_2", "x^2^3", r"\undefined", r"\left(x", "中"])
def test_errors_are_found(wrong, tmp_path):
    assert [n for n, _ in pdflatex_errors(["x", wrong], tmp_path)][:1] == [1]
    assert {n for n, _, _ in browser_errors(["x", wrong])} == {1}
