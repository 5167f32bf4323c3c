"""assume(): tell the compiler what is known of a tensor."""

from __future__ import annotations

from symgrad.dispatch import tensors as ops
from symgrad.functional.names import checked
from symgrad.ops.assumptions import check_shape, normal_words
from symgrad.tensor import Tensor

__all__ = ["assume"]


@checked
def assume(input: Tensor, *words: str) -> Tensor:
    """The same tensor, of which these words are known: "symmetric", "positive_definite", "orthogonal", "diagonal", "lower_triangular" (or
    "triangular"), "upper_triangular", "positive", "integer".

    Compiled functions and formulas use it; nothing is checked, unless by `compile(f, check_assumptions=True)`. The result shares memory
    with `input`; what is written to either of them is no longer assumed. Derivatives are those of a tensor of which nothing is known.
    """
    known = normal_words(words)
    check_shape(input._array.shape, known)
    if not known:
        raise ValueError("assume: say what is known of the tensor, such as assume(A, \"symmetric\")")
    result: Tensor = ops.assume(input, words=known)
    if result._owner is not None:  # a view of what may be written to later: of that, nothing is known
        result._path = (*result._path[:-1], ("reshape", {"shape": result._array.shape}))
    return result
