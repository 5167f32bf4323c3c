"""From recorded graphs to formulas and kernels; imported as ``symgrad.compiler`` and under no other name."""

if __name__ != "symgrad.compiler":
    # Two names would mean two copies of every class, and `isinstance` would fail between them.
    raise ImportError(f"import this package as 'symgrad.compiler', not as {__name__!r}")

from symgrad.compiler.backends import disk_cache as cache
from symgrad.compiler.ir.graph import Graph as Graph
from symgrad.compiler.loops import batch as _batch, jvp as _jvp, vjp as _vjp  # noqa: F401  (they enter the rules of loops and branches)

__all__ = ["Graph", "cache"]
