"""Index formulas: one element of a row's result, for the rows that move, select, add or multiply elements.

    @element("matmul")
    def _(ix, at, x, y): return ix.sum(lambda k: x(*at[:-1], k) * y(k, at[-1]), x.shape[-1])

`at` holds the indices of the element, tensors are called with indices, and `ix` has sums, deltas and brackets (see
`symgrad.compiler.symbolic.notations.index_namespace.Indexing`). A row with several outputs has one function for each of them that has a
closed form.
"""

from symgrad.compiler.ir.elements import (
    contraction as contraction,
    indexing as indexing,
    pooling as pooling,
    reduction as reduction,
    shaping as shaping,
)
from symgrad.compiler.ir.elements.registry import ELEMENTS as ELEMENTS, NAMED as NAMED
