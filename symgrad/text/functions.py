"""The functions of the formula language: what each takes, what type it returns, and the action that evaluates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from symgrad.ops.exact import PI
from symgrad.text.types import MATRIX, SCALAR, VECTOR

ANY = ()
"""No restriction of the kinds of an argument."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function: the kinds of its arguments, the rule for the type of its result, and its meaning in words."""

    rule: str
    action: str
    meaning: str
    kinds: tuple[str, ...] = ANY
    row: str = ""
    """The row of the op table, for an elementwise function."""
    arguments: tuple[int, ...] = (1,)
    """The numbers of arguments that it may have."""
    square: bool = False


def _elementwise(rows: str) -> Iterator[tuple[str, Function]]:
    for name in rows.split():
        yield name, Function("same", "elementwise", f"{name} of each element", row=name)


FUNCTIONS: dict[str, Function] = {
    **dict(_elementwise(
        "exp log sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sqrt abs sign relu sigmoid log1p expm1 log2 log10 erf lgamma"
    )),
    "softplus": Function("same", "softplus", "log(1 + exp(x)) of each element"),
    "sum": Function("scalar", "sum", "the sum of all elements"),
    "mean": Function("scalar", "mean", "the mean of all elements"),
    "norm1": Function("scalar", "norm1", "the sum of the absolute values of all elements"),
    "norm2": Function("scalar", "norm2", "the root of the sum of all squares: Euclidean norm, and Frobenius norm of a matrix"),
    "norminf": Function("scalar", "norminf", "the largest absolute value of an element"),
    "logsumexp": Function("scalar", "logsumexp", "log(sum(exp(x)))"),
    "max": Function("extreme", "maximum", "the largest element, or of two values the larger ones", arguments=(1, 2)),
    "min": Function("extreme", "minimum", "the smallest element, or of two values the smaller ones", arguments=(1, 2)),
    "softmax": Function("same", "softmax", "exp(x)/sum(exp(x))", (VECTOR, "row")),
    "tr": Function("scalar", "trace", "the trace", (MATRIX,), square=True),
    "det": Function("scalar", "det", "the determinant", (MATRIX,), square=True),
    "logdet": Function("scalar", "logdet", "log(det(A))", (MATRIX,), square=True),
    "inv": Function("same", "inv", "the inverse matrix", (MATRIX,), square=True),
    "adj": Function("same", "adj", "the adjugate of an invertible matrix, det(A)*inv(A)", (MATRIX,), square=True),
    "pinv": Function("transposed", "pinv", "the pseudoinverse", (MATRIX,)),
    "diag": Function("diag", "diag", "the diagonal matrix of a vector; the diagonal of a matrix", (VECTOR, MATRIX)),
    "vector": Function("vector", "fill", "a vector with equal elements, of the size that fits", (SCALAR,)),
    "matrix": Function("matrix", "fill", "a matrix with equal elements, of the sizes that fit", (SCALAR,)),
    "ones": Function("sized", "ones", "ones(n) and ones(n, p): a vector or matrix of ones", arguments=(1, 2)),
    "zeros": Function("sized", "zeros", "zeros(n) and zeros(n, p): a vector or matrix of zeros", arguments=(1, 2)),
    "eye": Function("eye", "eye", "the identity matrix: eye(n), or eye, of the size that fits"),
}  # fmt: skip
ALIASES = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "ln": "log",
    "norm": "norm2", "trace": "tr",
}  # fmt: skip
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in ALIASES.items()}
CONSTANTS = {"pi": PI, "π": PI}
