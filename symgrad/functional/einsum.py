"""einsum as PyTorch takes it: ellipsis, implicit output, sublists. What reaches the table is the canonical equation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from symgrad.coercion import tensor_list
from symgrad.dispatch import tensors as ops
from symgrad.functional.names import public
from symgrad.ops.einsum import split
from symgrad.tensor import Tensor

__all__ = ["einsum"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # PyTorch's order of sublist numbers, and of implicit outputs


@public
def einsum(*args: Any) -> Tensor:
    """einsum("ij,jk->ik", x, y), or einsum(x, [0, 1], y, [1, 2], [0, 2]): sums of products over subscripts."""
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its subscripts list"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_sublists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    operands = tuple(tensor_list("einsum", operands, 1))
    return contract(canonical(equation, tuple([x._array.ndim for x in operands])), *operands)


def contract(equation: str, *operands: Tensor) -> Tensor:
    """A canonical equation: a product of matrices is recorded as one, which is faster, and is one in a formula."""
    product = _as_product(equation) if len(operands) == 2 else None
    if product is None:
        return ops.einsum(*operands, equation=equation)
    x, y = operands
    turn_x, turn_y, turn_out = product
    if x._array.shape[-2 if turn_x else -1] != y._array.shape[-1 if turn_y else -2]:  # a size of 1 that stretches, or an error
        return ops.einsum(x, y, equation=equation)
    if turn_out:  # (x y)ᵀ = yᵀ xᵀ
        x, y, turn_x, turn_y = y, x, not turn_y, not turn_x
    return ops.matmul(x.mT if turn_x else x, y.mT if turn_y else y)


@lru_cache(maxsize=1024)
def _as_product(equation: str) -> tuple[bool, bool, bool] | None:
    """Whether the first, the second and the result of what is one product of (batches of) matrices are transposed; None if it is none."""
    inputs, output = split(equation)
    (batch, x), (other, y), (lead, out) = ((s[:-2], s[-2:]) for s in (*inputs, output))
    inner = set(x) & set(y)
    distinct = all(len(set(s)) == len(s) >= 2 for s in (*inputs, output))
    if not distinct or not batch == other == lead or len(inner) != 1 or set(out) != set(x) ^ set(y):
        return None
    (k,) = inner
    return x[0] == k, y[1] == k, out[0] in y


def _from_sublists(args: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    operands, sublists = args[: len(args) // 2 * 2 : 2], [_subscripts(s) for s in args[1::2]]
    equation = ",".join(sublists)
    if len(args) % 2:
        equation += "->" + _subscripts(args[-1])
    return equation, tuple(operands)


def _subscripts(sublist: Any) -> str:
    text = ""
    for number in sublist:
        if number is not Ellipsis and not 0 <= number < len(_LETTERS):
            raise ValueError(f"einsum(): subscript {number} is not within the valid range [0, {len(_LETTERS)})")
        text += "..." if number is Ellipsis else _LETTERS[number]
    return text


@lru_cache(maxsize=1024)
def canonical(equation: str, ranks: tuple[int, ...]) -> str:
    """The equation with one letter per dimension and an explicit output."""
    left, arrow, output = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    _require_operands(len(inputs), len(ranks))
    for i, letters in enumerate([*inputs, output]):
        _require_subscripts(letters, f"operand {i}" if i < len(inputs) else "the output", equation)
    spare = [c for c in _LETTERS if c not in equation]
    dots = max((rank - len(letters) + 3 for letters, rank in zip(inputs, ranks, strict=True) if "..." in letters), default=0)
    names = "".join(spare[:dots])
    inputs = [_spelled_out(letters, rank, names, i) for i, (letters, rank) in enumerate(zip(inputs, ranks, strict=True))]
    if not arrow:
        joined = "".join(inputs)
        output = names + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in names))
    output = output.replace("...", names)
    _require_output(inputs, output)
    return ",".join(inputs) + "->" + output


def _spelled_out(letters: str, rank: int, names: str, operand: int) -> str:
    """The subscripts with the ellipsis as letters; operands of fewer dimensions take the last ones."""
    covered = rank - len(letters.replace("...", ""))
    if "..." not in letters and covered:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of dimensions ({rank}) for"
            f" operand {operand} and no ellipsis was given"
        )
    if covered < 0:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({rank - covered}) is more than the number of dimensions ({rank}) for"
            f" operand {operand}"
        )
    return letters.replace("...", names[len(names) - covered :])


def _require_operands(wanted: int, given: int) -> None:
    if given != wanted:
        relation = "fewer" if given < wanted else "more"
        raise RuntimeError(f"einsum(): {relation} operands were provided than specified in the equation")


def _require_subscripts(letters: str, place: str, equation: str) -> None:
    plain = letters.replace("...", "", 1)
    if "." in plain:
        raise RuntimeError(f"einsum(): found '.' for {place} that is not part of any ellipsis")
    for c in plain:
        if c not in _LETTERS:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {equation.index(c)} in the equation string, subscripts must be in [a-zA-Z]"
            )


def _require_output(inputs: list[str], output: str) -> None:
    for c in output:
        if output.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if not any(c in letters for letters in inputs):
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
