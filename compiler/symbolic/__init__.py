"""Graphs as mathematics: SymPy programs in several notations, printed as text and LaTeX, and evaluated with NumPy."""

from symgrad.compiler.symbolic.lower import NOTATIONS as NOTATIONS, lower as lower
from symgrad.compiler.symbolic.program import FormulaProgram as FormulaProgram
