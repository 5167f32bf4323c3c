"""Random graphs of contractions: the pass keeps values and accuracy, and never costs more.

More of them: `-m slow`, or `python tests/support/contraction_programs.py 0 20000`.
"""

from __future__ import annotations

import pytest
from contraction_programs import check, check_plans, graphs_of

from symgrad.compiler.algebra import eliminate, emit, segment
from symgrad.compiler.algebra.cost import flops
from symgrad.compiler.algebra.search import Solution


def failures(seeds):
    found = []
    for seed in seeds:
        graphs, arrays = graphs_of(seed)
        for n, graph in enumerate(graphs):
            wrong = check(graph, arrays)[0] or check_plans(graph, arrays)[0]
            if wrong:
                found.append(f"seed {seed}, graph {n}: {wrong}")
    return found


@pytest.mark.parametrize("batch", range(3))
def test_random_graphs_keep_their_values_and_get_no_costlier(batch):
    assert failures(range(100 * batch, 100 * (batch + 1))) == []


def test_the_search_counts_each_value_that_some_segment_computes_once():
    counted = 0
    for graph in (g for seed in range(100) for g in graphs_of(seed)[0]):
        solution = Solution(graph, frozenset())
        segments = list(solution.segments.values())
        operations = sum(flops(v) for v, n in solution.computed.items() if n)
        assert sum(solution._remove(s.root) for s in segments) == operations
        assert sum(map(solution._add, segments)) == operations
        counted += operations > 0
    assert counted > 50


@pytest.mark.slow
def test_twenty_thousand_random_graphs():
    assert failures(range(10_000, 21_500)) == []


@pytest.mark.parametrize("fault", ["a lost count", "a lost bracket", "a swapped product"])
def test_the_check_finds_faults(fault, monkeypatch):
    monkeypatch.setattr(segment, "_plans", {})
    if fault == "a lost count":
        original = eliminate._count
        monkeypatch.setattr(eliminate, "_count", lambda t: (c := original(t)) and eliminate.replace(c, coefficient=t.coefficient))
    elif fault == "a lost bracket":
        original_box = eliminate.box_of
        monkeypatch.setattr(emit, "box_of", lambda brackets: {k: (0, v[1]) for k, v in original_box(brackets).items()})
    else:
        monkeypatch.setattr(emit, "arrange", lambda x, labels, original=emit.arrange: original(x, sorted(labels, key=lambda i: i.serial)))
    assert any(map(_is_faulty, range(300)))


def _is_faulty(seed):
    graphs, arrays = graphs_of(seed)
    try:
        return any(check(g, arrays)[0] or check_plans(g, arrays)[0] for g in graphs)
    except Exception:  # a fault may also make a graph that the builder or the verifier refuses
        return True
