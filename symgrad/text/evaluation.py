"""Evaluate a typed formula on tensors, node by node.

Rows are one-dimensional tensors, as vectors are. A value all of whose elements are equal, such as vector(1), stays a scalar until an
operation needs its elements.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from symgrad import functional
from symgrad.creation import eye
from symgrad.dispatch import tensors as ops
from symgrad.from_data import tensor
from symgrad.functional.matrices import det, inv, logdet, pinv
from symgrad.functional.norms import vector_norm
from symgrad.tensor import Tensor
from symgrad.text.inference import Typed, TypedFormula, number
from symgrad.text.numbers import is_number, plain
from symgrad.text.sizes import Size
from symgrad.text.tokens import failure
from symgrad.text.types import Type


def evaluate(
    formula: TypedFormula, arguments: Mapping[str, Tensor], sizes: Mapping[Size, int], dtype: Any,
    each: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the value of a formula. `sizes` has the representatives of its sizes; numbers alone become tensors of `dtype`. `each` is
    applied to every tensor that is computed, such as a rounding."""
    run = _Evaluation(formula, arguments, sizes, dtype)
    for node in formula.nodes:
        value = run.value(node)
        run.values.append(value if each is None or is_number(value) else each(value))
    return run.dense(run.values[-1], formula.type)


class _Evaluation:
    def __init__(self, formula: TypedFormula, arguments: Mapping[str, Tensor], sizes: Mapping[Size, int], dtype: Any) -> None:
        self.formula, self.arguments, self.sizes, self.dtype = formula, arguments, sizes, dtype
        self.values: list[Any] = []

    def value(self, node: Typed) -> Any:
        if node.action in _LEAVES:
            return _LEAVES[node.action](self, node)
        given = [self.values[a] for a in node.args]
        if node.action in _ELEMENTWISE:
            return self.numbers(node, given) if all(map(is_number, given)) else _ELEMENTWISE[node.action](node, *map(plain, given))
        types = [self.formula.nodes[a].type for a in node.args]
        if node.action in ("transpose", "fill", "softmax") and not types[0].sizes:
            return given[0]
        return _DENSE[node.action](node, *map(self.dense, given, types))

    def numbers(self, node: Typed, given: list[Any]) -> Any:
        """Return the number that depends on sizes and literals alone."""
        try:
            return number(node, given)
        except (ArithmeticError, ValueError) as error:
            raise failure(self.formula.text, node.at, str(error)) from None

    def size(self, size: Size) -> int:
        root = size.root()
        return root.value if isinstance(root.value, int) else self.sizes[root]

    def dense(self, x: Any, of: Type) -> Tensor:
        """Return a tensor with all its elements."""
        found = self.scalar(x) if is_number(x) else x
        shape = tuple(self.size(s) for s in of.sizes)
        return found.expand(shape) if shape and not found.ndim else found

    def scalar(self, x: Any) -> Tensor:
        return tensor(plain(x), dtype=self.dtype)

    def constant(self, node: Typed) -> Any:
        return int(node.action == "ones")

    def identity(self, node: Typed) -> Tensor:
        return eye(self.size(node.type.sizes[0]), dtype=self.dtype)


def _matrix_power(node: Typed, a: Tensor) -> Tensor:
    """Return A^n by repeated squaring."""
    n: int = node.value
    if n == 0:
        return eye(a.shape[0], dtype=a.dtype)
    square, rest, result = (inv(a) if n < 0 else a), abs(n), None
    while rest:
        if rest % 2:
            result = square if result is None else result @ square
        rest //= 2
        square = square @ square if rest else square
    assert result is not None
    return result


_LEAVES: dict[str, Callable[[_Evaluation, Typed], Any]] = {
    "number": lambda run, node: node.value,
    "argument": lambda run, node: run.arguments[node.value],
    "size": lambda run, node: run.size(node.value),
    "ones": _Evaluation.constant,
    "zeros": _Evaluation.constant,
    "eye": _Evaluation.identity,
}
_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "add": lambda node, x, y: operator.add(x, y),
    "subtract": lambda node, x, y: operator.sub(x, y),
    "scale": lambda node, x, y: operator.mul(x, y),
    "divide": lambda node, x, y: operator.truediv(x, y),
    "power": lambda node, x, y: operator.pow(x, y),
    "negation": lambda node, x: -x,
    "elementwise": lambda node, x: getattr(ops, node.value)(x),
}
"""Actions that also take values with equal elements, as scalars."""
_DENSE: dict[str, Callable[..., Any]] = {
    "softplus": lambda node, x: ops.softplus(x, beta=1, threshold=20),
    "maximum": lambda node, x, y: ops.maximum(x, y),
    "minimum": lambda node, x, y: ops.minimum(x, y),
    "max_element": lambda node, x: x.max(),
    "min_element": lambda node, x: x.min(),
    "sum": lambda node, x: x.sum(),
    "mean": lambda node, x: x.mean(),
    "norm1": lambda node, x: x.abs().sum(),
    "norm2": lambda node, x: vector_norm(x),
    "sum_of_squares": lambda node, x: (x * x).sum(),
    "norminf": lambda node, x: x.abs().max(),
    "logsumexp": lambda node, x: x.logsumexp(tuple(range(x.ndim))) if x.ndim else x,
    "softmax": lambda node, x: x.softmax(0),
    "trace": lambda node, a: a.trace(),
    "det": lambda node, a: det(a),
    "logdet": lambda node, a: logdet(a),
    "inv": lambda node, a: inv(a),
    "adj": lambda node, a: det(a) * inv(a),
    "pinv": lambda node, a: pinv(a),
    "diag": lambda node, x: functional.diag(x),
    "transpose": lambda node, x: x.T if x.ndim == 2 else x,
    "fill": lambda node, x: x,
    "itself": lambda node, x: x,
    "product": lambda node, x, y: x @ y,
    "outer": lambda node, x, y: functional.outer(x, y),
    "matrix_power": _matrix_power,
}
