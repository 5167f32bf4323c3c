"""Derivatives of textbooks with the textbooks' forms, five kinds. `python -m tests.support.textbook` prints the score."""

from tests.support.textbook.hessians import HESSIANS
from tests.support.textbook.indices import INDICES
from tests.support.textbook.matrices import MATRICES
from tests.support.textbook.probabilities import PROBABILITIES
from tests.support.textbook.scalars import SCALARS

KINDS = {"scalar": SCALARS, "matrix": MATRICES, "Hessian": HESSIANS, "index": INDICES, "probability": PROBABILITIES}
"""The derivatives by kind."""

__all__ = ["KINDS"]
