"""The page of explain(): what it lists, what it shortens and where, and how it lines up; costs in its words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from training_steps import training_step

import symgrad as sg
from symgrad.compiler.function.inspect import explain
from symgrad.compiler.function.inspect.cost import Cost, count, size
from symgrad.compiler.function.inspect.explain import Explanation, Section
from symgrad.errors import FormulaError


def called(f, *args, **options):
    fast = sg.compile(f, backend="numpy", **options)
    fast(*args)
    return fast


def rows_of(fast, part, *request):
    return dict(fast.explain(*request)[part].rows)


def test_rows_line_up_under_the_longest_name():
    page = Explanation("f(x)", {"a": Section("first", [("x", "1"), ("long name", "2")]), "b": Section("second", text="line  \n\n")})
    assert str(page) == repr(page) == "f(x)\n\nfirst\n  x          1\n  long name  2\n\nsecond\n  line"


@pytest.mark.parametrize(("lines", "shown"), [(39, 39), (40, 40), (41, 41), (42, 40), (45, 40)])
def test_texts_are_cut_where_that_saves_lines(lines, shown):
    """One line that says "1 more line" would save nothing."""
    text = str(Explanation("f", {"source": Section("source", text="line\n" * lines)}))
    assert text.count("  line") == shown
    assert text.endswith(f"... {lines - shown} more lines") == (shown < lines)


@pytest.mark.parametrize(("lines", "is_open"), [(40, True), (41, False)])
def test_long_parts_are_folded_in_a_notebook(lines, is_open):
    html = Explanation("f", {"source": Section("source", text="line\n" * lines)})._repr_html_()
    assert ("<details open" in html) == is_open
    assert "<table" not in html


def test_html_of_a_table_escapes_names_and_texts():
    html = Explanation("<f>", {"a": Section("<t>", [("<n>", "<x>")])})._repr_html_()
    assert [text for text in re.split("<[^>]*>", html) if text] == ["&lt;f&gt;", "&lt;t&gt;", "&lt;n&gt;", "&lt;x&gt;"]
    assert "<pre" not in html


@pytest.mark.parametrize("n", [8, 9])
def test_many_tensors_are_the_first_six_and_the_last(n):
    fast = called(lambda *xs: sum(xs), *[sg.ones(2)] * n)
    names = [f"xs.{i}: float32[2]" for i in range(n)]
    listed = names if n == 8 else [*names[:6], "...", names[-1]]
    assert rows_of(fast, "signature")["arguments"] == ("" if n == 8 else "9 tensors: ") + ", ".join(listed)


def test_captured_tensors_and_directions_have_their_own_rows():
    w = sg.ones(2)
    fast = called(lambda x: (x * w).sum(), sg.ones(2))
    assert rows_of(fast, "signature") == {"arguments": "x: float32[2]", "captured": "w: float32[2]", "results": "float32[]"}
    assert rows_of(fast, "signature", "jvp", "x")["directions"].endswith(": float32[2]")
    assert "directions" not in rows_of(fast, "signature")
    assert fast.explain().title == "<lambda>(x)"
    assert fast.explain("jvp", "x").title == "<lambda>(x), jvp"


def test_a_formula_is_shown_up_to_eighty_values(monkeypatch):
    fast = called(lambda x: x.sin() * 2, sg.ones(()))
    values = len(fast.graph())
    monkeypatch.setattr(explain, "_LARGEST_FORMULA", values)
    assert fast.explain()["formula"].text.startswith("f(x) = 2*sin(x)")
    monkeypatch.setattr(explain, "_LARGEST_FORMULA", values - 1)
    assert fast.explain()["formula"].text == f"left out: the graph has {values} values; formula() shows it"


def test_the_formula_of_a_second_derivative_is_of_second_order():
    fast = called(lambda x: x * x * x, sg.ones(()))
    for what in ("hessian", "hvp"):
        assert "∂²f/∂x" in fast.explain(what, "x")["formula"].text
    assert "∂²f" not in fast.explain("grad", "x")["formula"].text
    assert "∂f/∂x" in fast.explain("grad", "x")["formula"].text


def test_results_without_a_formula_say_why():
    both = called(lambda x: (x, x * 2), sg.ones(()))
    assert both.explain()["formula"].text == "left out: there are 2 results; formula(output=0) shows one"
    total = sg.zeros(())
    silent = sg.compile(lambda x: total.add_(x) and None, backend="numpy")
    silent(sg.ones(()))
    assert silent.explain()["formula"].text == "left out: nothing is returned"
    assert "results" not in rows_of(silent, "signature")


def test_operations_are_counted_without_inputs_and_numbers():
    fast = called(lambda x, y: x.sin() + y.cos(), sg.ones(2), sg.ones(2))
    assert rows_of(fast, "kernel")["operations"] == f"3 in the graph, {len(fast.source().splitlines())} lines of source"
    assert rows_of(fast, "kernel")["back end"] == "numpy"
    assert rows_of(fast, "kernel")["graph"] == fast.graph().hash[:12]
    assert "device" not in rows_of(fast, "kernel")


def test_conditions_draws_and_paths_are_counted():
    fast = called(lambda x: x * 2 if x > 0 else x * 3, sg.ones(()))
    assert rows_of(fast, "signature")["conditions"] == "1 of Python's on values"
    assert rows_of(fast, "programs") == {"for types of arguments": "1"}
    fast(-sg.ones(()))
    assert rows_of(fast, "programs") == {"for types of arguments": "1", "paths through them": "2"}
    assert fast.explain()["programs"].text == str(fast.recompiles())
    assert "random draws" not in rows_of(fast, "signature")
    fast.grad(sg.ones((), dtype=sg.float64))
    assert rows_of(fast, "programs")["for types of arguments"] == "2"


def test_a_step_that_clears_gradients_leaves_none():
    net = sg.nn.Linear(2, 1)
    net(sg.ones(2)).backward()

    def clear(x):
        net.zero_grad()
        return net(x)

    with sg.no_grad():
        fast = called(clear, sg.ones(2))
    assert "gradients left" not in rows_of(fast, "signature")


def test_packed_buffers_are_counted():
    net = sg.nn.Linear(3, 2)
    step = sg.compile(training_step(net, sg.optim.SGD(net.parameters(), lr=0.1)))
    for _ in range(2):
        step(sg.ones(5, 3), sg.ones(5, 2))
    assert "buffers" not in rows_of(step, "kernel")
    step._latest.runner.repack()
    packing = step._latest.kernel().packing
    tensors = len(step.graph().inputs), len(step.graph().outputs)
    assert rows_of(step, "kernel")["buffers"] == (
        f"{len(packing.inputs)} for {tensors[0]} tensors that go in, {len(packing.outputs)} for {tensors[1]} that come out"
    )
    assert len(packing.inputs) < tensors[0]
    assert len(packing.outputs) < tensors[1]


def test_times_of_program_and_kernel_are_added_and_short_ones_are_left_out():
    fast = called(lambda x: x * 2, sg.ones(2))
    program, kernel = fast._latest, fast._kernel("forward", None)
    program.times.clear()
    program.times.update({"trace": 1.5, "lower": 0.25, "simplify": 0.0005, "emit": 0.00049})
    kernel.times = {"lower": 0.5, "XLA": 2.0}
    assert list(rows_of(fast, "times").items()) == [("trace", "1.5 s"), ("simplify", "0 ms"), ("lower", "750 ms"), ("XLA", "2.0 s")]


# costs


def test_amounts_change_their_unit_at_the_unit():
    assert [count(n) for n in (999_999, 1e6, 1e9, 1e12)] == ["999,999", "1 million", "1 billion", "1 trillion"]
    assert [size(n) for n in (999, 1e3, 1e6, 1e9)] == ["999 B", "1 kB", "1 MB", "1 GB"]


def test_costs_are_listed_unless_unknown_or_none():
    assert Cost().rows() == [("argument", "0 B"), ("output", "0 B")]
    assert Cost(0.0, 2e6, 3e3, 1, 2, 3, 4, 5, 6).rows() == [
        ("flops", "0"), ("transcendentals", "2 million"), ("bytes accessed", "3 kB"), ("argument", "1 B"), ("output", "2 B"),
        ("donated", "3 B"), ("temp", "4 B"), ("peak", "5 B"), ("code", "6 B"),
    ]  # fmt: skip


def test_cost_on_numpy_is_the_bytes_of_inputs_and_results():
    cost = called(lambda x, y: (x.double().sin(), y), sg.ones(3, 5), sg.ones(7)).cost()
    assert cost == Cost(argument_bytes=4 * (15 + 7), output_bytes=8 * 15 + 4 * 7)


def test_donated_memory_is_not_counted_twice():
    given = sg.compile(lambda x: x * 2)
    given(sg.ones(256))
    cost = given.cost()
    assert cost.donated_bytes == 0
    assert (cost.flops, cost.transcendentals, cost.bytes_accessed) == (256, 0, 2048)
    fast = sg.compile(lambda x: x * 2 + 1, donate=True)
    fast(sg.ones(256))
    plain = fast.cost()
    assert (plain.argument_bytes, plain.output_bytes) == (1024, 1024)
    assert plain.peak_bytes == plain.argument_bytes + plain.output_bytes - plain.donated_bytes + plain.temp_bytes
    total = sg.zeros(256)
    step = sg.compile(lambda x: total.add_(x).sum())
    for _ in range(2):
        step(sg.ones(256))
    cost = step.cost()
    assert cost.donated_bytes == 1024
    assert cost.peak_bytes == cost.argument_bytes + cost.output_bytes - 1024 + cost.temp_bytes


# the other ways to look at a program


def test_the_source_of_another_back_end_may_be_asked_for():
    total = sg.zeros(())
    for f in (lambda x: x.sin(), lambda x: total.add_(x.sin()) * 2):
        fast = called(f, sg.ones(()))
        assert "jnp." not in fast.source()
        assert "jnp.sin" in fast.source(backend="xla")
        assert fast.source(backend="numpy") == fast.source()


def test_results_are_counted_from_both_ends():
    fast = called(lambda x: (x.sin(), x * x), sg.ones(()))
    assert str(fast.formula(output=-1)).splitlines()[0] == "f(x) = x**2"
    assert str(fast.formula(output=-2, order=0)) == "f(x) = sin(x)"
    for output in (-3, 2):
        with pytest.raises(FormulaError, match=f"output={output}: there are 2 results"):
            fast.formula(output=output)


def test_a_formula_has_the_name_of_its_function():
    def wave(x):
        return x.sin()

    assert str(called(wave, sg.ones(())).formula(order=0)) == "wave(x) = sin(x)"
    assert str(called(lambda x: x.sin(), sg.ones(())).formula(order=0)) == "f(x) = sin(x)"


def test_a_derivative_in_a_tensor_that_the_last_call_did_not_differentiate():
    fast = called(lambda x, y: (x.sin() * y).sum(), sg.ones(2), sg.ones(2))
    gradient = fast.formula(wrt="y")
    assert str(gradient).splitlines()[1].startswith("∂f/∂y")
    found = gradient(sg.tensor([0.5, 1.0]), sg.ones(2))
    np.testing.assert_allclose(found[1], np.sin([0.5, 1.0]), rtol=1e-6)
