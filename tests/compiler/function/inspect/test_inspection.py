"""What compiled functions show of themselves: formula, source, HLO, cost and explain(), of training steps too."""

from __future__ import annotations

import numpy as np
import pytest
from training_steps import training_step

import symgrad as sg
from symgrad.compiler.function.inspect.cost import Cost, count, size
from symgrad.compiler.function.inspect.explain import Explanation, Section
from symgrad.errors import FormulaError, TraceError


def loss(x, w, y):
    return ((x @ w).tanh() - y).square().sum()


sg.manual_seed(0)
X, W, Y = sg.randn(4, 3), sg.randn(3, 2), sg.randn(4, 2)


@pytest.fixture(scope="module")
def fast():
    compiled = sg.compile(loss)
    compiled(X, W, Y)
    return compiled


@pytest.fixture(scope="module")
def step():
    net = sg.nn.Sequential(sg.nn.Linear(3, 8), sg.nn.ReLU(), sg.nn.Dropout(0.1), sg.nn.Linear(8, 1))
    step = sg.compile(training_step(net, sg.optim.SGD(net.parameters(), lr=0.1)))
    for _ in range(3):
        step(sg.ones(5, 3), sg.ones(5, 1))
    return step


def test_formula_of_the_latest_program(fast):
    found = fast.formula(wrt="w")
    assert str(found).splitlines()[:2] == [
        "loss(x, w, y) = ‖tanh(x w) - y‖²",
        "∂loss/∂w = xᵀ ((1 - tanh(x w)^∘2) ∘ (2 (tanh(x w) - y)))",
    ]
    value, gradient = found(X, W, Y)
    np.testing.assert_allclose(gradient.numpy(), fast.grad(X, W, Y, wrt="w").numpy(), rtol=1e-5)
    np.testing.assert_allclose(value.numpy(), loss(X, W, Y).numpy(), rtol=1e-5)
    assert "∂²loss/∂w[i, j]∂w[k, l]" in str(fast.formula(wrt="w", order=2))
    assert found.certify().ok


def test_formula_of_one_of_several_results():
    both = sg.compile(lambda x: (x.sin(), x * x))
    both(sg.ones(()))
    with pytest.raises(FormulaError, match="a formula is of one result, and there are 2: say which"):
        both.formula()
    assert str(both.formula(output=1)).splitlines()[0] == "f(x) = x**2"
    with pytest.raises(FormulaError, match="output=2: there are 2 results"):
        both.formula(output=2)


def test_formula_of_a_path_names_its_condition():
    branching = sg.compile(lambda x: x.sin() if x > 0 else x * x)
    branching(sg.tensor(1.0))
    assert str(branching.formula()).splitlines() == ["f(x) = sin(x)", "∂f/∂x = cos(x)", "for x > 0"]
    branching(sg.tensor(-1.0))
    assert str(branching.formula()).splitlines()[0] == "f(x) = x**2"
    assert "jnp.cos(x)" not in branching.source("grad")
    branching.grad(sg.tensor(1.0))
    assert "jnp.cos(x)" in branching.source("grad")


def test_hlo_is_what_runs_or_what_it_was_made_from(fast):
    assert fast.hlo().startswith("HloModule")
    assert "stablehlo.dot_general" in fast.hlo(optimized=False)
    assert fast.hlo("grad", wrt="w", optimized=False) != fast.hlo(optimized=False)


def test_hlo_of_float64(fast):
    wide = sg.compile(loss)
    wide(*(t.double() for t in (X, W, Y)))
    assert "tensor<4x3xf64>" in wide.hlo(optimized=False)


def test_cost_counts_a_product():
    product = sg.compile(lambda a, b: a @ b)
    product(sg.ones(32, 64), sg.ones(64, 16))
    cost = product.cost()
    assert cost.flops == pytest.approx(2 * 32 * 64 * 16, rel=0.01)
    assert (cost.argument_bytes, cost.output_bytes) == (4 * (32 * 64 + 64 * 16), 4 * 32 * 16)
    assert cost.peak_bytes >= cost.argument_bytes + cost.output_bytes
    assert product.cost("vjp").flops > 1.5 * cost.flops
    assert str(cost).splitlines()[0].split()[0] == "flops"


def test_amounts_are_readable():
    assert [count(n) for n in (12, 1234, 5.6e6, 7e9, 2e12)] == ["12", "1,234", "5.6 million", "7 billion", "2 trillion"]
    assert [size(n) for n in (12, 1234, 5.6e6, 7e9)] == ["12 B", "1.23 kB", "5.6 MB", "7 GB"]
    assert str(Cost(argument_bytes=12)) == "argument        12 B\noutput          0 B"


def test_explain_says_it_all(fast):
    page = fast.explain()
    assert list(page.parts) == ["signature", "formula", "kernel", "cost", "passes", "times", "programs", "source"]
    assert dict(page["signature"].rows) == {"arguments": "x: float32[4, 3], w: float32[3, 2], y: float32[4, 2]", "results": "float32[]"}
    assert {"trace", "XLA"} <= dict(page["times"].rows).keys()
    assert page["source"].text == fast.source()
    assert "cpu:0" in dict(page["kernel"].rows)["device"]
    assert str(page).startswith("loss(x, w, y)\n\nsignature\n  arguments  x: float32[4, 3]")
    assert "hvp" in fast.explain("hvp", wrt="w").title
    assert dict(fast.explain("hvp", wrt="w")["signature"].rows)["directions"] == "v: float32[3, 2]"


def test_explain_as_html_escapes_what_it_shows(fast):
    html = fast.explain()._repr_html_()
    assert html.count("<details") == html.count("</details>") == 8
    assert "-&gt; float32[]" in html
    assert html.count("<pre") == html.count("overflow-x: auto") == 3  # long lines make their chapter scroll, not the page
    assert "<lambda>" not in sg.compile(lambda x: x + 1).explain.__doc__
    named = sg.compile(lambda x: x + 1)
    named(X)
    assert "<lambda>" not in named.explain()._repr_html_()


def test_a_training_step_shows_itself(step):
    assert "def forward(x, y," in step.source()
    assert "stop_gradient" not in step.source()
    assert step.hlo().startswith("HloModule")
    assert step.cost().flops > 0
    rows = dict(step.explain()["signature"].rows)
    assert rows["written to"].count(",") == 3
    assert rows["gradients left"].count(",") == 3
    assert rows["random draws"] == "1"
    assert len(step.graph().outputs) == 1 + 4 + 4
    assert str(step.formula(notation="index")).startswith("step(x, y) = (Σ_i ")
    slopes = [line.partition(" ")[0].partition("[")[0] for line in str(step.formula()).splitlines() if line.startswith("∂")]
    assert slopes == [f"∂step/∂{name}" for name in rows["gradients left"].split(", ")]  # what it computes, not what it could
    assert str(step.formula("x")).count("∂step/∂") == str(step.formula("x")).count("∂step/∂x") == 1
    with pytest.raises(FormulaError, match="there to be read"):
        step.formula()(sg.ones(5, 3), sg.ones(5, 1))
    with pytest.raises(TraceError, match="step has effects: its kernel is the whole step"):
        step.source("grad")


def test_before_the_first_program_there_is_nothing_to_show():
    for show in ("source", "graph", "formula", "hlo", "cost", "explain"):
        with pytest.raises(TraceError, match="loss has no program yet: call it"):
            getattr(sg.compile(loss), show)()


def test_other_kinds_of_source_are_refused(fast):
    with pytest.raises(ValueError, match=r"there is 'forward', 'vjp', .* and no 'slope'"):
        fast.source("slope")


def test_large_programs_are_shortened():
    deep = sg.compile(lambda x, *ws: [x := (x @ w).tanh() for w in ws][-1].sum())
    deep(sg.ones(2), *[sg.ones(2, 2) for _ in range(60)])
    page = deep.explain()
    assert page["formula"].text.startswith("left out: the graph has")
    assert dict(page["signature"].rows)["arguments"].startswith("61 tensors: x: float32[2], ")
    long = str(Explanation("f", {"source": Section("source", text="line\n" * 50)}))
    assert long.count("line\n") == 40
    assert long.endswith("... 10 more lines")


@pytest.mark.parametrize("backend", ["xla", "numpy"])
def test_many_names_are_on_several_lines(backend):
    fast = sg.compile(lambda **named: tuple(x.sin() for x in named.values()), backend=backend)
    given = {f"a_rather_long_name_of_a_tensor_{i}": sg.tensor([float(i)]) for i in range(20)}
    fast(**given)
    lines = fast.source().splitlines()
    assert max(map(len, lines)) <= 120
    (first,) = [i for i, line in enumerate(lines) if line == "def forward("]
    assert lines[first + 1].startswith("    a_rather_long_name_of_a_tensor_0, a_rather_long_name_of_a_tensor_1,")
    namespace = {}
    exec(compile(fast.source(), "source", "exec"), namespace)
    found = namespace["forward"](*(x.numpy() for x in given.values()))
    np.testing.assert_allclose(found, [np.sin(x.numpy()) for x in given.values()], rtol=1e-5)


def test_explain_leaves_out_what_goes_without_saying(step):
    text = str(step.explain())
    assert "buffers" not in text
    assert "paths through them" not in text
