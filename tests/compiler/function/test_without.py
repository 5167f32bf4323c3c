"""compile(without=...): rewrite rules are switched off in programs, kernels, formulas, exported files; explain() shows what they did."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad as sg
from symgrad.compiler.backends.base import BACKENDS
from symgrad.compiler.backends.xla.compilation_cache import name_of
from symgrad.compiler.rewrite.pipeline import OF_ASSUMPTIONS, PIPELINES, switches


def naive(x):
    return (1 + x.exp()).log().sum()


X = sg.tensor([0.5, 1.0, 2.0], dtype=sg.float64)


@pytest.mark.parametrize("backend", ["xla", "numpy"])
@pytest.mark.parametrize("without", ["softplus", ("softplus",), {"stable"}, ["softplus", "log_sigmoid"]])
def test_a_rule_is_switched_off(backend, without):
    plain, fast = sg.compile(naive, backend=backend, without=without), sg.compile(naive, backend=backend)
    assert sg.allclose(plain(X), fast(X), rtol=1e-14)
    assert sg.allclose(plain.grad(X, wrt="x"), fast.grad(X, wrt="x"), rtol=1e-14)
    for what in ("forward", "grad"):
        assert "softplus" not in plain.source(what)
    assert {"log", "log1p"} & plain.graph().ops
    assert "softplus" in fast.graph().ops
    assert np.isinf(plain(X * 1000).item())
    assert np.isfinite(fast(X * 1000).item())


def test_programs_with_effects_and_backward_follow():
    count = sg.tensor(0)

    def step(x):
        count.add_(1)
        return naive(x)

    plain = sg.compile(step, without="softplus")
    plain(X)
    assert "softplus" not in plain.graph().ops
    x = X.clone().requires_grad_()
    plain(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + np.exp(-X.numpy())), rtol=1e-14)


def test_formulas_follow():
    fast, plain = sg.compile(naive), sg.compile(naive, without="softplus")
    fast(X), plain(X)
    assert "softplus" in str(fast.formula())
    assert "softplus" not in str(plain.formula())
    a = sg.tensor([[2.0, 1.0], [0.0, 3.0]], dtype=sg.float64)
    fast, plain = sg.compile(lambda a: a.logdet()), sg.compile(lambda a: a.logdet(), without="domain")
    fast(a), plain(a)
    assert "log(det(a))" in str(fast.formula(order=0)).replace("|", "")
    assert str(plain.formula(order=0)) != str(fast.formula(order=0))


def test_exported_functions_and_jax_follow(tmp_path):
    plain = sg.compile(naive, without="softplus")
    plain(X)
    plain.export(tmp_path / "f.symgrad")
    loaded = sg.load_compiled(tmp_path / "f.symgrad")
    assert sg.allclose(loaded(X), naive(X), rtol=1e-12)
    assert np.isinf(loaded(X * 1000).item())


def test_kernels_of_both_are_different_in_the_disk_cache():
    fast, plain = sg.compile(naive), sg.compile(naive, without="softplus")
    hashes = [made._kernel("forward", None).graph.hash for made in (fast, plain) if made(X) is not None]
    assert len({name_of(each) for each in hashes}) == 2
    assert sg.compile(naive, without="softplus").options != sg.compile(naive).options


@pytest.mark.parametrize(
    ("name", "hint"), [("softpls", "did you mean 'softplus'"), ("decompose", ""), (3, "there are stable, sigmoid_quotient"), ("", "")]
)
def test_unknown_names_are_an_error_that_lists_the_names(name, hint):
    with pytest.raises(ValueError, match=f"no rewrite rule or table is called {name!r}") as error:
        sg.compile(naive, without=(name,))
    assert hint in str(error.value)
    assert all(known in str(error.value) for known in switches())


def test_explain_lists_passes_and_rules():
    fast = sg.compile(lambda x: naive(x) + naive(2 * x))
    fast(X)
    rows = dict(fast.explain()["passes"].rows)
    lowered = [each.name for each in PIPELINES["xla"].lowered.passes if each.name not in OF_ASSUMPTIONS]
    assert list(rows) == ["stable", "masks", "spectral", "hoist", *lowered]
    assert rows["stable"] == "log(1 + exp(x)) -> softplus(x) (2x, rule 'softplus')"
    assert rows["widen_half"] == "-"
    fast.grad(X)
    assert dict(fast.explain("grad")["passes"].rows)["stable"] == rows["stable"]
    off = sg.compile(naive, without="stable", backend="numpy")
    off(X)
    assert off.explain()["passes"].rows[0] == ("stable", "switched off")


def test_back_ends_name_their_pipelines():
    assert {name: BACKENDS[name].pipeline for name in ("numpy", "xla", "auto")} == {"numpy": "numpy", "xla": "xla", "auto": ""}
    assert all(not each.pipeline or each.pipeline in PIPELINES for each in BACKENDS.values())
