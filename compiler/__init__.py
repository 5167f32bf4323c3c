"""From recorded graphs to formulas and kernels; imported as ``symgrad.compiler`` and under no other name."""

if __name__ != "symgrad.compiler":
    # Two names would mean two copies of every class, and `isinstance` would fail between them.
    raise ImportError(f"import this package as 'symgrad.compiler', not as {__name__!r}")

from symgrad.compiler import cache as cache
from symgrad.compiler.graph.ir import Graph as Graph
