"""inv(A) b -> solve(A, b): linear systems by what is known of the matrix, with one LU decomposition for each matrix.

    solve(D, b), D diagonal                         ->  b / diagonal(D)
    solve(L, b), L triangular                       ->  solve_triangular(L, b)
    solve(S, b), S positive definite                ->  solve_definite(S, b), by Cholesky
    solve(Q, b), inv(Q) b, Q orthogonal             ->  Q' b
    inv(A) b, solve(A, b), solve(A', c), det(A)     ->  lu_solve, lu_det of one lu_factor(A)

For XLA's kernels. NumPy's solve only the systems of structured matrices so, and only in graphs with assumptions.

Where an inverse is read by anything but products, it is computed. A matrix without inverse gives infinities or NaN either way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from symgrad.compiler.algebra.lu import LU_DET, LU_FACTOR, LU_SLOGDET, LU_SOLVE, SOLVE_DEFINITE
from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.facts import facts, transposes
from symgrad.compiler.ir.graph import Graph, Value, literal, outputs_of
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.ir.subgraph import reintern
from symgrad.compiler.rewrite.table import Hits

_ROWS = frozenset(("inv", "solve", "det", "slogdet"))


def solve(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph with its linear systems solved in the cheapest way that is known; the graph itself if there are none."""
    return _solved(graph, _Systems(graph, share=True), hits)


def solve_structured(graph: Graph, off: Collection[str] = (), hits: Hits | None = None) -> Graph:
    """Return the graph with the systems of triangular and positive definite matrices solved as such; others stay as they are. For NumPy's
    kernels, in graphs with assumptions: all others raise the errors of eager code for singular matrices."""
    return _solved(graph, _Systems(graph, share=False), hits)


def _solved(graph: Graph, systems: _Systems, hits: Hits | None) -> Graph:
    if not systems.change:
        return graph
    for name in systems.reports:
        if hits is not None:
            hits[name] = hits.get(name, 0) + 1
    return Graph(graph.inputs, interpret(graph.outputs, {}, systems.rebuilt, order=graph.values), graph.labels)


@dataclass(eq=False)
class _Group:
    """What needs a decomposition of one matrix."""

    users: list[Value] = field(default_factory=list)
    """Applications of solve, inv, det and slogdet to the matrix or its transpose."""
    products: list[_Product] = field(default_factory=list)
    """Products with inverses that are not needed themselves."""
    removed: set[Value] = field(default_factory=set)
    """These inverses."""


class _Systems:
    """The linear systems of a graph, and how each is to be solved."""

    def __init__(self, graph: Graph, share: bool) -> None:
        self.share = share
        """True if systems of matrices without structure share a decomposition."""
        self.readers: dict[Value, list[Value]] = {}
        for v in graph.values:
            for a in dict.fromkeys(v.args):
                if a is not None:
                    self.readers.setdefault(a, []).append(v)
        self.outputs = frozenset(graph.outputs)
        self.groups: dict[Value, _Group] = {}
        for v in graph.values:
            if v.op in _ROWS and v.row is not None:
                self._enter(v)
        self.change: dict[Value, Callable[[tuple[Any, ...]], Any]] = {}
        """What replaces a value, as a function of its new arguments."""
        self.reports: list[str] = []
        for matrix, group in self.groups.items():
            self._choose(matrix, group)

    def _enter(self, v: Value) -> None:
        """Enter a row that needs a decomposition in the group of its matrix."""
        matrix, transposed = _base(v.args[0])
        group = self.groups.setdefault(matrix, _Group())
        group.users.append(v)
        products = list(self._products(v, transposed)) if v.op == "inv" else []
        if products and all(p is not None for p in products) and sum(p.value.size for p in products if p) <= 2 * v.size:
            group.products += [p for p in products if p is not None]
            group.removed.add(v)

    def _products(self, inverse: Value, transposed: bool) -> Iterator[_Product | None]:
        """Yield the products that read an inverse, also through transposes, and None for each other reader."""
        if inverse in self.outputs:
            yield None
        for v in self.readers.get(inverse, ()):
            if transposes(v):
                yield from self._products(v, not transposed)
            elif v.op == "matmul" and (v.args[0] is inverse) != (v.args[1] is inverse) and v.ndim <= inverse.ndim:
                yield _Product(v, int(v.args[1] is inverse), transposed)
            elif v.op == "sum" and v.attrs["axis"] in ((inverse.ndim - 1,), (inverse.ndim - 2,)):
                yield _Product(v, int(v.attrs["axis"] == (inverse.ndim - 2,)), transposed)
            else:
                yield None

    def _choose(self, matrix: Value, group: _Group) -> None:
        """Choose how the systems of a matrix are solved; leave them as they are if nothing is gained."""
        others = [v for v in group.users if v not in group.removed]
        solves = [_Product(v, 0, _base(v.args[0])[1]) for v in others if v.op == "solve"]
        systems = [*group.products, *solves]
        alone = len(systems) == 1 and len(solves) == len(others) and systems[0].value.ndim <= 2
        structure = _structure_of(matrix, alone) if systems else None
        if structure is not None:
            self.reports.append(f"{structure.replace('_', ' ')} systems are solved as such")
            for p in systems:
                self.change[p.value] = partial(p.solved, _STRUCTURES[structure])
        elif self.share and (group.removed or len(others) > 1):
            self._share(group, others, systems)

    def _share(self, group: _Group, others: list[Value], systems: list[_Product]) -> None:
        """Let the systems, determinants and inverses of a matrix share one LU decomposition."""
        for p in systems:
            self.change[p.value] = partial(p.solved, _by_lu)
        for v in others:
            if v.op != "solve":
                self.change[v] = partial(_OF_LU[v.op], v)
        if group.removed:
            self.reports.append("inv(A) b -> solve(A, b)")
        if len(group.users) > 1:
            self.reports.append(f"one LU decomposition for {', '.join(dict.fromkeys(v.op for v in group.users))} of one matrix")

    def rebuilt(self, v: Value, args: tuple[Any, ...]) -> Any:
        changed = self.change.get(v)
        return outputs_of(reintern(v, args)) if changed is None else changed(args)


@dataclass(frozen=True, eq=False)
class _Product:
    """solve(A, b), or a product of an inverse and b: the position of the matrix, and whether it is the transpose of its base. A sum of an
    inverse along one dimension is a product with ones."""

    value: Value
    side: int
    transposed: bool

    def solved(self, solution: Solution, args: tuple[Any, ...]) -> Value:
        """Return the value on its new arguments: by `solution(base, transposed, b)`, where b is a matrix."""
        if self.value.op == "sum":
            ones = xp.expand(literal(1, self.value.dtype), shape=args[0].shape[-1:])
            args = (args[0], ones) if self.side == 0 else (ones, args[0])
        matrix, b = args[self.side], args[1 - self.side]
        base = _base(matrix)[0] if self.value.op == "solve" else _base_of_inverse(matrix)
        transposed = self.transposed != (self.side == 1)
        if b.ndim == 1:
            found = solution(base, transposed, xp.reshape(b, shape=(b.size, 1)))
        else:
            found = solution(base, transposed, b if self.side == 0 else _transpose(b))
            found = found if self.side == 0 else _transpose(found)
        return xp.reshape(found, shape=self.value.shape)


Solution = Callable[[Value, bool, Value], Value]


def _by_lu(matrix: Value, transposed: bool, b: Value) -> Value:
    found: Value = apply(LU_SOLVE, (*_lu(matrix), b), {"transposed": transposed})
    return found


def _lu(matrix: Value) -> tuple[Value, Value]:
    """Return the LU decomposition of a matrix and its pivots; the same values, however often it is asked for."""
    lu, pivots = apply(LU_FACTOR, (matrix,), {})
    return lu, pivots


def _triangular(upper: bool, matrix: Value, transposed: bool, b: Value) -> Value:
    m = _transpose(matrix) if transposed else matrix
    return xp.solve_triangular(m, b, upper=upper != transposed, unitriangular=False)


def _diagonal(matrix: Value, transposed: bool, b: Value) -> Value:
    diagonal = xp.diagonal(matrix, axis1=matrix.ndim - 2, axis2=matrix.ndim - 1, offset=0)
    return b / xp.reshape(diagonal, shape=(*diagonal.shape, 1))


_STRUCTURES: dict[str, Solution] = {
    "orthogonal": lambda m, transposed, b: xp.matmul(m if transposed else _transpose(m), b),
    "diagonal": _diagonal,
    "lower_triangular": partial(_triangular, False),
    "upper_triangular": partial(_triangular, True),
    "positive_definite": lambda m, transposed, b: apply(SOLVE_DEFINITE, (m, b), {}),
}
"""How a system is solved if a fact about the matrix is known; the first fact counts."""


def _structure_of(matrix: Value, alone: bool) -> str | None:
    """Return the fact by which systems of a matrix are solved, or None. Several systems of a definite matrix share its LU decomposition."""
    known = facts(matrix)
    return next((name for name in _STRUCTURES if name in known and (alone or name != "positive_definite")), None)


def _inverse(v: Value, args: tuple[Any, ...]) -> Value:
    base, transposed = _base(args[0])
    return _by_lu(base, transposed, xp.expand(xp.eye(rows=base.shape[-1], columns=base.shape[-1], dtype=base.dtype), shape=base.shape))


_OF_LU: dict[str, Callable[[Value, tuple[Any, ...]], Any]] = {
    "inv": _inverse,
    "det": lambda v, args: apply(LU_DET, _lu(_base(args[0])[0]), {}),
    "slogdet": lambda v, args: apply(LU_SLOGDET, _lu(_base(args[0])[0]), {}),
}


def _base(matrix: Value) -> tuple[Value, bool]:
    """Return the matrix that a value is the transpose of, and True, or the value itself; a symmetric one is its own transpose."""
    transposed = False
    while transposes(matrix):
        matrix, transposed = matrix.args[0], not transposed
    return matrix, transposed and "symmetric" not in facts(matrix)


def _base_of_inverse(x: Value) -> Value:
    """Return the matrix of which the operand of a product is the inverse, which may be transposed."""
    x, _ = _base(x)
    return _base(x.args[0])[0] if x.op == "inv" else x


def _transpose(x: Value) -> Value:
    return xp.transpose(x, dim0=x.ndim - 2, dim1=x.ndim - 1)
