"""Shorter forms of matrices: scalars by scalar algebra, sums multiplied out where terms then cancel, one transpose for several."""

from __future__ import annotations

import itertools
from typing import Any

import sympy as sp

from symgrad.compiler.symbolic.notations.matrix_algebra import added, parted, scaled, times, turned, with_scalars
from symgrad.compiler.symbolic.shorter import length, shorter

_MAX_EXPANDED = 16
"""Largest number of terms of a sum that is multiplied out."""


def shorter_matrix(matrix: Any) -> Any:
    """Return the shortest of the forms of a matrix, or the matrix itself."""
    best = with_scalars(matrix, shorter)
    terms = _multiplied_out(best) if _is_nested(best) else []
    if terms:
        found = with_scalars(added([scaled(scale, times(*factors)) for scale, factors in terms]), shorter)
        best = min(best, found, key=length_of_matrix)
    return turned(best)


def _is_nested(matrix: Any) -> bool:
    """True for a sum of products that have sums as factors."""
    terms = matrix.args if isinstance(matrix, sp.MatAdd) else ()
    return any(isinstance(f, sp.MatAdd) for term in terms for f in parted(term)[1])


def _multiplied_out(matrix: Any) -> list[tuple[Any, list[Any]]]:
    """Return the terms of a sum, products of sums multiplied out; nothing if there are too many."""
    found: list[tuple[Any, list[Any]]] = []
    for term in matrix.args if isinstance(matrix, sp.MatAdd) else (matrix,):
        scale, factors = parted(term)
        choices = [_multiplied_out(f) if isinstance(f, sp.MatAdd) else [(sp.Integer(1), [f])] for f in factors]
        for chosen in itertools.islice(itertools.product(*choices), _MAX_EXPANDED + 1):
            found.append((scale * sp.Mul(*[s for s, _ in chosen]), [f for _, some in chosen for f in some]))
        if len(found) > _MAX_EXPANDED or not all(choices):
            return []
    return found


def length_of_matrix(matrix: Any) -> int:
    """Return how many operators and symbols a matrix has as text."""
    if isinstance(matrix, sp.MatAdd):
        return sum(length_of_matrix(m) for m in matrix.args) + len(matrix.args) - 1
    if isinstance(matrix, sp.MatMul):
        scale, factors = parted(matrix)
        return sum(map(length_of_matrix, factors)) + len(factors) - 1 + (0 if scale == 1 else 1 + length(scale))
    if isinstance(matrix, (sp.Transpose, sp.Inverse)):
        return 1 + length_of_matrix(matrix.arg)
    if not matrix.args or isinstance(matrix, (sp.MatrixSymbol, sp.OneMatrix, sp.Identity)):
        return 1
    return sum(1 for _ in sp.preorder_traversal(matrix))
