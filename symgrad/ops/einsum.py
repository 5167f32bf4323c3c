"""einsum: the general contraction, and the only one that is closed under differentiation.

In the row the equation is canonical: one letter per dimension, an explicit output, no ellipsis, no spaces. A dimension of size 1
broadcasts, as in PyTorch. Two operands meet in one BLAS product, more of them pair by pair in the order that opt_einsum finds.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.ops.contraction import multiply
from symgrad.ops.promotion import word
from symgrad.ops.spec import Meta
from symgrad.ops.table import row


def split(equation: str) -> tuple[list[str], str]:
    """The letters of each operand, and those of the result."""
    inputs, _, output = equation.partition("->")
    return inputs.split(","), output


def sizes_of(inputs: list[str], shapes: list[tuple[int, ...]]) -> dict[str, int]:
    """The size of every letter, PyTorch's errors if they do not fit."""
    sizes: dict[str, int] = {}
    for operand, (letters, shape) in enumerate(zip(inputs, shapes, strict=True)):
        own: dict[str, int] = {}
        for letter, size in zip(letters, shape, strict=True):
            if own.setdefault(letter, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {letter} is repeated for operand {operand} but the sizes don't match, {size} != {own[letter]}"
                )
        for letter, size in own.items():
            known = sizes.get(letter, 1)
            if 1 not in (known, size) and known != size:
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {operand} which does not broadcast with previously"
                    f" seen size {known}"
                )
            sizes[letter] = size if known == 1 else known
    return sizes


def einsum_type(*operands: Any, equation: str) -> Meta:
    inputs, output = split(equation)
    types = {np.dtype(x.dtype) for x in operands}
    if len(types) > 1:
        first, second = (word(x.dtype) for x in operands[:2])
        raise RuntimeError(f"einsum(): expected scalar type {first} but found {second}: all operands must have one dtype")
    sizes = sizes_of(inputs, [tuple(x.shape) for x in operands])
    return Meta(tuple(sizes[letter] for letter in output), operands[0].dtype)


# --- the kernel


def _einsum(*operands, equation):
    inputs, output = split(equation)
    shapes = tuple(x.shape for x in operands)
    if len(operands) == 2:
        return _pair(*operands, _pair_plan(*inputs, output, *shapes))
    if len(operands) == 1:
        sizes_of(inputs, list(shapes))
        out = _reduce(operands[0], inputs[0], output)
        return out.copy() if np.may_share_memory(out, operands[0]) else out
    return _several(list(operands), inputs, output, _order(equation, shapes))


def _reduce(x, letters, kept):
    """Take diagonals of repeated letters, sum letters that are not kept, and put the rest in the order of `kept`."""
    distinct = "".join(dict.fromkeys(letters))
    if distinct != letters:
        x = np.einsum(f"{letters}->{distinct}", x)
    gone = tuple(i for i, letter in enumerate(distinct) if letter not in kept)
    if gone:
        x = np.add.reduce(x, axis=gone, dtype=x.dtype)
    left = "".join(letter for letter in distinct if letter in kept)
    return x if left == kept else x.transpose([left.index(letter) for letter in kept])


@lru_cache(maxsize=4096)
def _pair_plan(xs: str, ys: str, output: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> tuple[Any, ...]:
    """How each operand is reduced and shaped for one product, and how the result is shaped."""
    sizes = sizes_of([xs, ys], [x_shape, y_shape])
    x_letters, y_letters = _full(xs, x_shape, sizes), _full(ys, y_shape, sizes)
    batch = [c for c in output if c in x_letters and c in y_letters]
    inner = [c for c in x_letters if c in y_letters and c not in output]
    if not inner:
        return xs, *_factor(x_letters, output, sizes), ys, *_factor(y_letters, output, sizes), None, None
    left = [c for c in output if c in x_letters and c not in batch]
    right = [c for c in output if c in y_letters and c not in batch]

    def length(group: list[str]) -> int:
        return math.prod(sizes[c] for c in group)

    lead = (length(batch),) if batch else ()
    product = batch + left + right
    order = None if product == list(output) else [product.index(c) for c in output]
    return (
        xs, "".join(batch + left + inner), (*lead, length(left), length(inner)),
        ys, "".join(batch + inner + right), (*lead, length(inner), length(right)),
        tuple(sizes[c] for c in product), order,
    )  # fmt: skip


def _full(letters, shape, sizes):
    """The letters of an operand in order; a dimension of size 1 that meets a longer one is no dimension of its operand."""
    return list(dict.fromkeys(c for c, n in zip(letters, shape, strict=True) if n == sizes[c]))


def _factor(letters, output, sizes):
    """Letters that an operand keeps for an elementwise product, and its shape there."""
    return "".join(c for c in output if c in letters), tuple(sizes[c] if c in letters else 1 for c in output)


def _pair(x, y, plan):
    xs, x_kept, x_shape, ys, y_kept, y_shape, shape, order = plan
    x = (x if xs == x_kept else _reduce(x, xs, x_kept)).reshape(x_shape)
    y = (y if ys == y_kept else _reduce(y, ys, y_kept)).reshape(y_shape)
    if shape is None:  # nothing is summed: a product of elements
        return np.multiply(x, y)
    out = multiply(x, y).reshape(shape)
    return out if order is None else out.transpose(order)


@lru_cache(maxsize=1024)
def _order(equation: str, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    from opt_einsum import contract_path

    inputs, output = split(equation)
    sizes = sizes_of(inputs, list(shapes))
    full = [tuple(sizes[c] for c in dict.fromkeys(letters)) for letters in inputs]
    plain = ",".join("".join(dict.fromkeys(letters)) for letters in inputs)
    path, _ = contract_path(f"{plain}->{output}", *full, shapes=True)
    return list(path)


def _several(operands, inputs, output, order):
    for step in order:
        taken = [(operands.pop(i), inputs.pop(i)) for i in sorted(step, reverse=True)]
        while len(taken) > 1:
            (x, xs), (y, ys) = taken.pop(), taken.pop()
            rest = set("".join(inputs) + output + "".join(letters for _, letters in taken))
            last = not taken and not operands
            kept = output if last else "".join(c for c in dict.fromkeys(xs + ys) if c in rest)
            taken.append((_pair(x, y, _pair_plan(xs, ys, kept, x.shape, y.shape)), kept))
        operands.append(taken[0][0])
        inputs.append(taken[0][1])
    return operands[0]


# --- the rule


def _einsum_rule(xp, g, out, *operands, index, equation):
    inputs, output = split(equation)
    letters, shape = inputs[index], operands[index].shape
    others = [i for i in range(len(operands)) if i != index]
    elsewhere = set(output).union(*(inputs[i] for i in others))
    distinct = dict(zip(letters, shape, strict=True))
    kept = [c for c, size in distinct.items() if c in elsewhere and size != 1]
    equation = ",".join([output, *(inputs[i] for i in others)]) + "->" + "".join(kept)
    g = xp.einsum(g, *(operands[i] for i in others), equation=equation)
    if tuple(g.shape) != tuple(distinct.values()):  # letters that are summed away, or of size 1 on either side
        got = dict(zip(kept, g.shape, strict=True))
        g = xp.expand(xp.reshape(g, shape=tuple(got.get(c, 1) for c in distinct)), shape=tuple(distinct.values()))
    return _on_diagonals(xp, g, letters, distinct) if len(distinct) < len(letters) else g


def _on_diagonals(xp, g, letters, distinct):
    """The transpose of taking diagonals: a Kronecker delta for each repetition."""
    spare = iter(c for c in map(chr, range(97, 123)) if c not in distinct)
    target, deltas = [], []
    for letter in letters:
        if letter in target:
            target.append(next(spare))
            deltas.append(letter + target[-1])
        else:
            target.append(letter)
    eyes = [xp.eye(rows=distinct[d[0]], columns=distinct[d[0]], dtype=np.dtype(g.dtype)) for d in deltas]
    return xp.einsum(g, *eyes, equation=",".join(["".join(distinct), *deltas]) + "->" + "".join(target))


row(
    "einsum", "*operands / equation", _einsum, (_einsum_rule,), saves="others", policy="same", type=einsum_type,
    jax=lambda *operands, equation: f"jnp.einsum({equation!r}, {', '.join(operands)})",
)  # fmt: skip
