"""where(det x < 0, NaN, log|det x|) -> log(det x): a formula needs no value outside its domain.

Every other `where` on the same condition is resolved, too: the derivative of logdet is the inverse transposed, rather than 0 where logdet
has no value. For formulas only: a kernel keeps its NaN, and a formula keeps a NaN that the user chose.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import nan
from typing import Any

from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.facts import facts
from symgrad.compiler.ir.graph import Graph, Value, walk
from symgrad.compiler.ir.match import match
from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.rewrite import rewrite
from symgrad.compiler.rewrite.table import Hits, Table

x = variable("x")
sign, log_abs = P.slogdet(x)
LOGDET = Rule("logdet", P.where(sign < 0, nan, log_abs), P.log(P.det(x)), example={"x": (3, 3)})


class _Domain(Table):
    """The table, and the other choices on the conditions of its rules."""

    def __call__(self, graph: Graph, off: Container[str] = (), hits: Hits | None = None) -> Graph:
        """Return the graph for arguments inside its domain."""
        excluded = set() if _is_off(off) else {v.args[0] for v, _ in _choices(graph)}

        def change(v: Value, args: tuple[Any, ...]) -> Any:
            if v.op != "where" or v.args[0] not in excluded:
                return None
            found = self.apply(v, args, off, hits)
            return xp.expand(xp.cast(args[2], dtype=v.dtype), shape=v.shape) if found is None else found

        return rewrite(graph, change) if excluded else graph


within_domain = _Domain("domain", LOGDET)


def domain(graph: Graph, off: Container[str] = ()) -> list[Value]:
    """Return the conditions under which the formula holds: det x > 0 for every logarithm of a determinant, unless it is known."""
    if _is_off(off):
        return []
    positive = [xp.gt(xp.det(matrix), 0) for _, matrix in _choices(graph) if "positive_definite" not in facts(matrix)]
    return list(dict.fromkeys(v if not v.shape else xp.all(v, axis=tuple(range(v.ndim)), keepdims=False) for v in positive))


def _is_off(off: Container[str]) -> bool:
    return within_domain.name in off or LOGDET.name in off


def _choices(graph: Graph) -> Iterator[tuple[Value, Value]]:
    """Yield each logarithm of a determinant with its matrix."""
    if "where" in graph.ops:
        for v in walk(graph):
            if v.op == "where":
                yield from ((v, bound["x"]) for bound in match(LOGDET.pattern, v, {}, True))
