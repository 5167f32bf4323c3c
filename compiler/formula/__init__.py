"""Graphs as mathematics: SymPy programs in several notations, printed as text and LaTeX, and run."""

from symgrad.compiler.formula.lower import NOTATIONS as NOTATIONS, lower as lower
from symgrad.compiler.formula.program import FormulaProgram as FormulaProgram
