"""What one element of a row's result is, for the rows that move, choose, add or multiply elements.

    @element("matmul")
    def _(ix, at, x, y): return ix.sum(lambda k: x(*at[:-1], k) * y(k, at[-1]), x.shape[-1])

`at` are the indices of the element, tensors are called with indices, and `ix` has sums, deltas and brackets (see `indices.Indexing`).
A row with several outputs has one function for each of them that has a closed form.
"""

from symgrad.compiler.formula.element import (
    contracting as contracting,
    placing as placing,
    reducing as reducing,
    shaping as shaping,
    windows as windows,
)
from symgrad.compiler.formula.element.registry import ELEMENTS as ELEMENTS, NAMED as NAMED
