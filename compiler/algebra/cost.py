"""The cost model: floating-point operations of a row, and an estimate of its time.

Views take no operations, arrays that are written without arithmetic one per element. Operations of a matrix product take a tenth of the
time of others, since those read each operand from memory for one operation: a plan has to win by both measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value, nested

_FREE = frozenset(
    (
        INPUT, LITERAL, OUTPUT, "expand", "reshape", "transpose", "permute", "t", "squeeze", "unsqueeze", "getitem", "diagonal", "clone",
        "detach", "assume",
    )
)  # fmt: skip
PRODUCTS = frozenset(("matmul", "linear", "addmm", "einsum"))
_CUBIC = frozenset(("inv", "solve", "det", "slogdet", "cholesky", "pinv", "eigh", "eig", "svd", "qr", "solve_triangular"))


def flops(v: Value) -> int:
    """Return the number of operations of one value."""
    if v.op in _FREE:
        return 0
    if v.op in _COUNTS:
        return int(_COUNTS[v.op](v))
    if v.op in _CUBIC:
        return int(2 * v.args[0].size * v.args[0].shape[-1])
    if nested(v):
        return sum(map(total_flops, nested(v).values())) * int(v.attrs.get("length") or 1)
    return sum(prod(shape) for shape in v.shape) if isinstance(v.dtype, tuple) else v.size


def total_flops(graph: Graph) -> int:
    """Return the number of operations of a graph; values that are used several times are computed once."""
    return flops_of(graph.values)


def flops_of(values: Iterable[Value]) -> int:
    return sum(map(flops, values))


def nanoseconds(values: Iterable[Value]) -> float:
    """Return an estimate of the time that values take on one core, each on its own."""
    return sum(map(_nanoseconds, values))


_PER_ELEMENT, _PER_PRODUCT, _PER_MOVED = 0.3, 0.04, 3.0
_TRANSPOSING = frozenset(("transpose", "permute", "t"))


def _nanoseconds(v: Value) -> float:
    count = flops(v)
    if v.op in PRODUCTS:
        elements: int = v.size + sum(a.size for a in v.args if a is not None)
        return (_PER_ELEMENT if _is_batch_of_vectors(v) else _PER_PRODUCT) * count + _PER_ELEMENT * elements
    return _PER_ELEMENT * float(count) + (_PER_MOVED * v.size if _is_transposing_copy(v) else 0.0)


def _is_transposing_copy(v: Value) -> bool:
    """True for a reshape that merges or splits dimensions of a transposed array, whose elements have to be moved one by one."""
    if v.op != "reshape" or v.args[0].op not in _TRANSPOSING:
        return False
    moved, given = v.args[0], v.args[0].args[0]
    return _longer_than_one(moved.shape) != _longer_than_one(v.shape) and (given.ndim > 2 or 1 not in given.shape)


def _longer_than_one(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n > 1]


def _is_batch_of_vectors(v: Value) -> bool:
    """True for a batch of products of a matrix and a vector, for which libraries have no routine."""
    return v.ndim > 2 and 1 in v.shape[-2:]


def text(count: int) -> str:
    """Return a number of operations as text: `2.0 GFLOP`."""
    for unit, size in (("T", 10**12), ("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}FLOP"
    return f"{count} FLOP"


def _einsum(v: Value) -> int:
    sizes: dict[str, int] = {}
    for letters, a in zip(v.attrs["equation"].partition("->")[0].split(","), v.args, strict=True):
        for letter, n in zip(letters, a.shape, strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    return max(len(v.args), 1) * prod(sizes.values())


_COUNTS: dict[str, Any] = {
    "matmul": lambda v: 2 * v.size * v.args[0].shape[-1],
    "linear": lambda v: 2 * v.size * v.args[0].shape[-1] + (v.args[2] is not None) * v.size,
    "addmm": lambda v: 2 * v.size * v.args[1].shape[-1] + v.size,
    "einsum": _einsum,
    "sum": lambda v: v.args[0].size,
    "mean": lambda v: v.args[0].size + v.size,
    "trace": lambda v: min(v.args[0].shape),
}
