"""A reader of printed formulas: it parses the text of a Derivation by a grammar table, and computes numbers from it.

Independent of SymPy and of the printer, so that a formula whose text does not mean what its object means is found.
"""

from tests.support.notation.derivation import Printed, compare

__all__ = ["Printed", "compare"]
