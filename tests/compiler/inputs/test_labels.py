"""What things are called in formulas, whatever that is."""

from __future__ import annotations

import ast
import re
from xml.etree import ElementTree

import numpy as np
import pytest

import symgrad as sg
from symgrad import nn
from symgrad.compiler.ir.graph import Graph

X = sg.tensor([1.0, 2.0], dtype=sg.float64)
A = sg.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=sg.float64)


def test_names_come_from_the_signature():
    def loss(weights, *rest, scale, **others):
        return (weights * rest[0] * rest[1][0] * scale * others["last"]).sum()

    d = sg.derive(loss)(X, X, [X], scale=X, last=X)
    assert d.graph.labels == ("weights", "rest.0", "rest.1.0", "scale", "last")
    assert str(d).startswith("loss(weights, rest.0, rest.1.0, scale, last) = ")


def test_names_are_given_to_tensors():
    b = sg.tensor([1.0, 2.0], dtype=sg.float64, name="b", requires_grad=True)
    assert b.name == "b"
    d = sg.derive(lambda x: ((x - b) ** 2).sum(), wrt="b")(X)
    assert str(d).splitlines() == ["f(x) = ‖x - b‖²", "∂f/∂b = 2 (b - x)"]
    later = X.clone().requires_grad_()
    later.name = "u"
    assert str((later * b).sum().formula(wrt="u")).splitlines() == ["y(u, b) = sum(u ∘ b)", "∂y/∂u = b"]
    with pytest.raises(TypeError, match="argument 'name' must be str, not int"):
        sg.tensor([1.0], name=3)


def test_names_of_parameters_are_their_paths():
    sg.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 1, bias=False)))
    assert set(model.formula(sg.ones(4, 2)).graph.labels) == {"input", "0.weight", "0.bias", "1.1.weight"}


def test_single_numbers_appear_as_such():
    half, tenth, three = sg.tensor(0.5), sg.tensor(0.1, dtype=sg.float64), sg.tensor(3)
    f = lambda x: (x * half * three + tenth).sum()
    x = X.clone().requires_grad_()
    assert str(sg.derive(f)(X)).splitlines()[1] == "∂f/∂x = 3/2 𝟏"
    assert str(f(x).formula(wrt=x)).splitlines()[1] == "∂y/∂x1 = 3/2 𝟏"
    assert "0.1" in str(f(x).formula())
    three.add_(1)
    assert str(f(x).formula(wrt=x)).splitlines()[1] == "∂y/∂x1 = 2 𝟏"
    assert str(sg.derive(lambda x: x * sg.tensor(True))(X)).splitlines()[0] == "f(x) = x"


def test_a_number_with_a_name_or_a_gradient_keeps_it():
    named, learnt = sg.tensor(0.5, dtype=sg.float64, name="rate"), sg.tensor(2.0, dtype=sg.float64, requires_grad=True)
    assert str(sg.derive(lambda x: (x * named).sum(), wrt="x")(X)).splitlines() == [
        "f(x) = rate*sum(x)", "∂f/∂x = rate 𝟏", "with rate: float64[]",
    ]  # fmt: skip
    assert str(sg.derive(lambda x: (x * learnt).sum())(X)).splitlines() == ["f(x) = learnt*sum(x)", "∂f/∂learnt = sum(x)"]


def test_other_tensors_are_constants_with_their_shapes():
    b = sg.tensor([1.0, 2.0])
    d = sg.derive(lambda x: A @ x - b)(X)
    assert str(d).splitlines() == ["f(x) = A x - b", "∂f/∂x = A", "with A: float64[2, 2], b: float32[2]"]
    assert r"&\text{with } A \text{: float64[2, 2]}" in d.latex()
    x = X.clone().requires_grad_()
    assert str((A @ x).sum().formula()).splitlines()[-1] == "with c1: float64[2, 2]"
    np.testing.assert_array_equal(d(X)[0].numpy(), (A @ X - b).numpy())


NET = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1))).double()
WS = [sg.ones(2, dtype=sg.float64), sg.zeros(2, dtype=sg.float64)]


class Model:
    def __init__(self):
        self.scale, self.net = sg.ones(2, dtype=sg.float64), nn.Linear(2, 1).double()

    def loss(self, x):
        return self.net(x * self.scale).sum()


def through(x):
    return NET(x * WS[0] + WS[1])


def test_tensors_that_are_brought_along_have_the_names_of_variables():
    scale, table = sg.ones(2, dtype=sg.float64), {"a": sg.ones(2, dtype=sg.float64)}
    x = sg.ones(4, 2, dtype=sg.float64)
    fast = sg.compile(lambda x: (through(x) * scale * table["a"]).sum())  # through is called by its name
    fast(x)
    labels = fast.graph().labels
    assert {"x", "scale", "table_a", "WS_0", "WS_1", "NET_0_weight", "NET_1_1_bias", "NET_1_0_running_mean"} <= set(labels)
    assert len(set(labels)) == len(labels)
    assert not any(re.fullmatch(r"c\d+", label) for label in labels)
    assert all(label.isidentifier() and label in fast.source() for label in labels)
    assert "NET_1_1_weight" in str(fast.explain())
    assert "NET_0_weight" in str(sg.derive(lambda x: NET[0](x).sum())(x))
    method = sg.compile(Model().loss)
    method(x)
    assert method.graph().labels == ("x", "scale", "net_weight", "net_bias")
    assert "net_weight" in str(method.formula())
    module = sg.compile(NET[0].forward)
    module(x)
    assert module.graph().labels == ("input", "self_weight", "self_bias")


def test_names_of_a_module_in_a_source():
    fast = sg.compile(NET)
    fast(sg.ones(4, 2, dtype=sg.float64))
    assert "def forward(\n    input, module_0_weight, module_0_bias, module_1_0_" in fast.source()
    assert "module_1_0_running_mean" in fast.source()


def test_names_are_unique_and_shadow_nothing():
    jnp, x, kernels = (sg.ones(2, dtype=sg.float64) * k for k in (2, 3, 5))
    hidden = lambda y: y * x
    fast = sg.compile(lambda x: hidden(x) + jnp * kernels)
    assert fast(X).tolist() == [13, 16]
    assert fast.graph().labels == ("x", "x_", "jnp", "kernels")
    for backend in ("xla", "numpy"):
        (function,) = (node for node in ast.parse(fast.source(backend=backend)).body if isinstance(node, ast.FunctionDef))
        names = [a.arg for a in function.args.args]
        assert len(set(names)) == 4
        assert "jnp" not in names if backend == "xla" else "kernels" not in names


def test_names_make_no_other_program():
    def using(w):
        return lambda x: x * w

    def also(other):
        return lambda x: x * other

    first, second = sg.compile(using(A)), sg.compile(also(A))
    first(X)
    second(X)
    assert first.graph().labels != second.graph().labels
    assert first.graph().hash == second.graph().hash


def test_the_state_of_an_optimizer_is_named_after_its_parameters():
    w = sg.ones(2, requires_grad=True)
    optimizer = sg.optim.Adam([w])

    @sg.compile
    def step():
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    assert {"w", "w_exp_avg", "w_exp_avg_sq", "w_step"} <= set(step.graph().labels)


def test_state_that_the_first_step_makes_has_its_names():
    net, taken = sg.nn.Linear(2, 1), sg.ones(())
    optimizer = sg.optim.Adam(net.parameters())

    @sg.compile
    def step(net_weight_exp_avg):
        optimizer.zero_grad()
        loss = (net(net_weight_exp_avg) * taken).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    step(sg.ones(3, 2))
    state = {"net_weight_exp_avg_", "net_weight_exp_avg_sq", "net_bias_exp_avg", "net_bias_exp_avg_sq"}
    assert {"net_weight_exp_avg", *state, "net_weight", "net_bias", "taken"} <= set(step.graph().labels)
    assert len(step.recompiles()) == 1


def test_a_compiled_function_reads_single_numbers_again():
    c = sg.tensor(2.0, dtype=sg.float64)
    f = sg.compile(lambda x: x * c)
    assert f(X).tolist() == [2, 4]
    c.fill_(3)
    assert f(X).tolist() == [3, 6]


HOSTILE = (
    "__import__('os').abort()", "x); raise SystemExit(", "a b", "", " ", "1", "lambda", "x\ny = 1", "\r\n", "\x00", "\x1b[31m", "$x$",
    r"\input{/etc/passwd}", r"}\end{aligned}", "{", "%", "^_&~#", '"', "'\"'''", "<script>alert(1)</script>",
    "]]>", "--> evil[", "sqrt", "\u202eevil", "x" * 3000,
)  # fmt: skip


def safe_latex(text):
    """Braces close, in order; every command and environment is one of the printer's."""
    assert "input" not in re.findall(r"\\([A-Za-z]+)", text)
    assert text.count(r"\begin{") == text.count(r"\end{")
    bare = re.sub(r"\\[\\{}$&#_%]", "", text)
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        assert depth >= 0
    assert depth == 0
    assert not set("$#%~") & set(bare)


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("notation", ["matrix", "index", "elements"])
def test_hostile_names_are_only_printed(name, notation):
    b = sg.tensor([2.0, 3.0], dtype=sg.float64, requires_grad=True)
    b.name = name

    def f(**given):
        return (given[name] * b * b).sum().sin()

    d = sg.derive(f, notation=notation)(**{name: X})
    for text in (str(d), str(d.steps()), str((X * b).sum().formula())):
        assert all(c.isprintable() or c == "\n" for c in text)
        assert len(text.splitlines()) == len(text.split("\n"))
    for text in (d.latex(), d.steps().latex()):
        safe_latex(text)
    assert d.certify().ok
    assert Graph.parse(str(d.graph)).labels == d.graph.labels
    ElementTree.fromstring(d.graph.draw(format="svg"))
    mermaid = d.graph.draw(format="mermaid")
    assert "<script" not in mermaid
    assert "\x00" not in mermaid


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_do_not_reach_kernels(name):
    g = sg.compile(lambda **given: given[name] * 2)
    assert g(**{name: X}).tolist() == [2, 4]
    (function,) = (node for node in ast.parse(g.source()).body if isinstance(node, ast.FunctionDef))
    assert [type(node) for node in function.body] == [ast.Expr, ast.Return]
    assert not [node for node in ast.walk(function.body[1]) if isinstance(node, ast.Call)]


def test_there_are_enough_hostile_names():
    assert len(set(HOSTILE)) >= 25
