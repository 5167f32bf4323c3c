"""The order of the passes, the verifier between them, and what a graph remembers of them."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import Graph, input_value, intern
from symgrad.compiler.rewrite.pipeline import (
    DERIVED,
    NUMPY,
    PIPELINES,
    TRACED,
    UNROLLED,
    XLA,
    Pass,
    Pipeline,
    Stage,
    history,
    register,
    switches,
)
from symgrad.errors import GraphError
from symgrad.ops.table import TABLE

X = input_value(0, (3,), np.float64)
SOFTPLUS = Graph([X], [xp.log(1 + xp.exp(X))])
ORDER = {
    "formula": "unroll stable assumed_elements masks | stable masks | short choices accurate assumed_elements assumed_values contract"
    " domain drop_assumptions decompose",
    "xla": "stable assumed_elements masks spectral hoist | stable masks | accurate stop_gradients merge_loops assumed_elements"
    " assumed_values one_hot contract solve drop_assumptions widen_half legalize_small_reductions decompose_without_lowering matvec"
    " fold_constants legalize_dtypes check_lowering roll",
    "numpy": "stable assumed_elements masks spectral hoist | stable masks | accurate merge_loops assumed_elements assumed_values one_hot"
    " contract solve_structured drop_assumptions legalize drop_kept_dimensions fold_constants",
}


@pytest.mark.parametrize("name", ORDER)
def test_the_order_of_passes(name):
    pipeline = PIPELINES[name]
    stages = (pipeline.traced, pipeline.derived, pipeline.lowered)
    assert " | ".join(" ".join(each.name for each in stage.passes) for stage in stages).split() == ORDER[name].split()


def test_passes_run_in_the_declared_order_and_are_remembered():
    for stage in (TRACED, UNROLLED, XLA, NUMPY):
        assert [run.name for run in history(stage.run(SOFTPLUS))] == [each.name for each in stage.passes]
    traced = TRACED.run(SOFTPLUS)
    run, _, masks, *_ = history(traced)
    assert (masks.name, masks.changed) == ("masks", False)
    assert (run.stage, run.name, run.changed, run.hits) == ("trace", "stable", True, (("softplus", 1),))
    assert [run.stage for run in history(XLA.run(traced))] == ["trace"] * 5 + ["xla"] * len(XLA.passes)
    assert history(SOFTPLUS) == ()


def test_one_graph_goes_through_several_pipelines():
    plain = Graph([X], [xp.sin(X)])
    first, second = XLA.run(plain), NUMPY.run(plain)
    assert first == second == plain
    assert {run.stage for run in history(first)} == {"xla"}
    assert {run.stage for run in history(second)} == {"numpy"}
    assert history(plain) == ()


def test_every_pass_is_there():
    for pipeline in PIPELINES.values():
        for stage in (pipeline.traced, pipeline.derived, pipeline.lowered):
            names = [each.name for each in stage.passes]
            assert len(set(names)) == len(names)
            assert all(callable(each._loaded) for each in stage.passes)
            assert stage.run(SOFTPLUS).outputs[0].shape == (3,)


def illegal(graph):
    """The graph with a result of a type that its row does not have."""
    return Graph(graph.inputs, [intern("sin", TABLE["sin"], (graph.outputs[0],), {}, (4,), np.dtype(np.float64))])


def test_a_broken_pass_is_caught_and_named():
    ran = []
    later = Pass("later", lambda graph: ran.append(1) or graph)
    stage = Stage("test", (Pass("sound", lambda graph: graph), Pass("broken", illegal), later))
    with pytest.raises(GraphError, match=r"pass 'broken' \(test\) made an illegal graph: sin is said to be float64\[4\]"):
        stage.run(SOFTPLUS)
    assert not ran
    assert stage.run(SOFTPLUS, off=("broken",)) == SOFTPLUS


def test_a_graph_that_was_illegal_before_is_not_blamed_on_a_pass():
    renamed = Pass("sound", lambda graph: Graph(graph.inputs, graph.outputs, ("y",)))
    for stage in (Stage("test", (renamed,)), Stage("test", (Pass("idle", lambda graph: graph),)), Stage("test"), DERIVED):
        with pytest.raises(GraphError, match=r"^sin is said to be"):
            stage.run(illegal(SOFTPLUS))


def test_rules_tables_and_passes_are_switched_off():
    for off in (("softplus", "log1p"), ("stable",)):
        assert TRACED.run(SOFTPLUS, off) == SOFTPLUS
    both = Graph([X], [xp.log(1 + xp.exp(X)) + xp.log(xp.sigmoid(X))])
    assert {"log_sigmoid", "log1p"} <= TRACED.run(both, ("softplus",)).ops
    assert {"softplus", "log"} <= TRACED.run(both, ("log_sigmoid",)).ops
    assert {"softplus", "stable", "logdet", "domain", "matvec", "transpose_matvec", "detach", "contract"} <= switches().keys()
    assert "decompose" not in switches()


def test_a_pipeline_prints_its_passes_and_rules():
    text = "trace:\n    unroll\n    stable\n        sigmoid_quotient: exp(x) / (1 + exp(x)) -> sigmoid(x)\n"
    assert str(PIPELINES["formula"]).startswith(text)


def test_a_back_end_adds_its_pipeline():
    own = Pipeline("test", Stage("test", (Pass("idle", lambda graph: graph),)))
    register(own)
    try:
        assert PIPELINES["test"] is own
        with pytest.raises(ValueError, match="'test' is registered already"):
            register(own)
    finally:
        del PIPELINES["test"]
