"""Random sums of functions with a known structure: it is found, and every method of the matrix is right.

More of them: `-m slow`, or `python tests/support/structure_programs.py 0 1000`.
"""

from __future__ import annotations

import pytest
from structure_programs import check

from symgrad.compiler.algebra import structure


def outcomes(seeds):
    wrong, found, fell_back = [], 0, 0
    for seed in seeds:
        problem, known, by_unit_vectors, text = check(seed)
        wrong += [f"{seed}: {text}: {problem}"] if problem else []
        found += known
        fell_back += by_unit_vectors
    return wrong, found / len(seeds), fell_back / len(seeds)


def test_structure_is_found():
    wrong, found, fell_back = outcomes(range(30))
    assert wrong == []
    assert found >= 0.9
    assert fell_back < 0.05


@pytest.mark.slow
def test_structure_is_found_in_more_programs():
    wrong, found, fell_back = outcomes(range(1000, 1400))
    assert wrong == []
    assert found >= 0.9
    assert fell_back < 0.05


def test_a_wrong_sum_is_noticed(monkeypatch):
    monkeypatch.setattr(structure, "_common_factors", lambda pieces: pieces[:1])
    assert outcomes(range(3000, 3012))[0] != []  # programs that no other test has derived: derivations are remembered
