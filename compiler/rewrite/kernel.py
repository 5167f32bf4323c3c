"""Rules for kernels, which are not differentiated any further."""

from __future__ import annotations

from typing import Any

from symgrad.compiler.ir.pattern import P, variable
from symgrad.compiler.ir.rule import Rule
from symgrad.compiler.rewrite.table import Table

a, v, x = variable("a"), variable("v"), variable("x")


def _is_matrix_and_vector(m: Any) -> bool:
    return bool(m.a.ndim == 2 and m.v.ndim == 1)


drop_stop_gradients = Table("stop_gradients", Rule("detach", P.detach(x), x, differentiable=False))
"""`detach` only matters to derivatives that are still to be taken."""

matvec_without_transpose = Table(
    "matvec",
    Rule(
        "transpose_matvec", P.matmul(P.transpose(a, dim0=0, dim1=1), v), P.matmul(v, a), _is_matrix_and_vector,
        example={"a": (3, 4), "v": (3,)},
    ),
    Rule(
        "vecmat_transpose", P.matmul(v, P.transpose(a, dim0=0, dim1=1)), P.matmul(a, v), _is_matrix_and_vector,
        example={"a": (4, 3), "v": (3,)},
    ),
)
"""XLA materializes the transpose of a matrix before it multiplies it by a vector. Both sides add up the same products, so that only the
time differs."""
