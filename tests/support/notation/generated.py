"""Random functions of vectors and matrices, as people write them: products, transposes, arithmetic and functions of elements."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import symgrad as sg

N, M = 3, 4
NAMES = {"x": (N,), "y": (N,), "b": (M,), "A": (M, N), "B": (N, N), "c": ()}
"""The arguments: vectors of two lengths, matrices, a number."""
Tree = Callable[[dict[str, Any]], Any]

UNARY = [
    lambda v: v.sin(), lambda v: v.tanh(), lambda v: v.sigmoid(), lambda v: (v / 3).exp(), lambda v: (v * v + 1).log(), lambda v: -v,
    lambda v: (v * v + 1).sqrt(), lambda v: v**2, lambda v: v**3 / 3, lambda v: 1 / (v * v + 1), lambda v: 2 * v - 1, lambda v: v.relu(),
    lambda v: v.abs(), lambda v: (1 + v.exp()).log(), lambda v: sg.where(v > 0, v, v**2), lambda v: (v * v + 1) ** -1.5,
    lambda v: v.tanh().square().log1p(), lambda v: 1 - v.sigmoid(), lambda v: (1 - v.sigmoid()).log(), lambda v: v.clamp(min=-0.5),
]  # fmt: skip
BINARY = [
    lambda u, v: u + v, lambda u, v: u - v, lambda u, v: u * v, lambda u, v: u / (v * v + 1), lambda u, v: -(u * v),
    lambda u, v: u * v - (1 - u) * v.sin(), lambda u, v: sg.maximum(u, v), lambda u, v: (u - v) ** 2 / (u * u + v * v + 1),
    lambda u, v: -(u * v).tanh() / (v.cos() + 2), lambda u, v: (u * u + 1) ** (v / 4), lambda u, v: 2 * u / 3 - v,
]  # fmt: skip


def function(seed: int) -> Callable[..., Any]:
    """A function of all the arguments in NAMES that gives a number."""
    r = random.Random(seed)
    tree = _number(r, r.randint(2, 4))

    def f(x: Any, y: Any, b: Any, A: Any, B: Any, c: Any) -> Any:
        return tree({"x": x, "y": y, "b": b, "A": A, "B": B, "c": c})

    return f


def _tree(r: random.Random, shape: tuple[int, ...], depth: int) -> Tree:
    return _number(r, depth) if not shape else _vector(r, shape[0], depth) if len(shape) == 1 else _matrix(r, shape, depth)


def _leaf(r: random.Random, shape: tuple[int, ...]) -> Tree:
    names = [name for name, given in NAMES.items() if given == shape]
    name = r.choice(names)
    return lambda env: env[name]


def _elements(r: random.Random, shape: tuple[int, ...], depth: int) -> Tree:
    """A function of one or two tensors of the same shape, or of a tensor and a number."""
    if r.random() < 0.5:
        op, inner = r.choice(UNARY), _tree(r, shape, depth - 1)
        return lambda env: op(inner(env))
    both, left, right = r.choice(BINARY), _tree(r, shape, depth - 1), _tree(r, r.choice((shape, shape, ())), depth - 1)
    return lambda env: both(left(env), right(env))


def _number(r: random.Random, depth: int) -> Tree:
    if depth <= 0:
        return _leaf(r, ())
    kind = r.randrange(6)
    if kind == 0:
        return _elements(r, (), depth)
    n = r.choice((N, M))
    u = _vector(r, n, depth - 1)
    if kind == 1:
        v = _vector(r, n, depth - 1)
        return lambda env: u(env) @ v(env)
    if kind == 2:
        return lambda env: (u(env) ** 2).sum()
    if kind == 3:
        m = _matrix(r, (N, N), depth - 1)
        return lambda env: m(env).trace()
    if kind == 4:
        m = _matrix(r, (M, N), depth - 1)
        return lambda env: -m(env).sum()
    return lambda env: u(env).sum()


def _vector(r: random.Random, n: int, depth: int) -> Tree:
    if depth <= 0:
        return _leaf(r, (n,))
    kind = r.randrange(4)
    if kind == 0:
        m, v = _matrix(r, (M, N), depth - 1), _vector(r, N if n == M else M, depth - 1)
        return (lambda env: m(env) @ v(env)) if n == M else (lambda env: m(env).T @ v(env))
    if kind == 1:
        m = _matrix(r, (M, N), depth - 1)
        return lambda env: m(env).sum(1 if n == M else 0)
    return _elements(r, (n,), depth)


def _matrix(r: random.Random, shape: tuple[int, ...], depth: int) -> Tree:
    if depth <= 0:
        return _leaf(r, shape)
    kind = r.randrange(4)
    if kind == 0:
        m, square = _matrix(r, shape, depth - 1), _matrix(r, (N, N), depth - 1)
        return lambda env: m(env) @ square(env)
    if kind == 1 and shape == (N, N):
        m = _matrix(r, shape, depth - 1)
        return lambda env: m(env).T
    if kind == 1:
        u, v = _vector(r, shape[0], depth - 1), _vector(r, shape[1], depth - 1)
        return lambda env: sg.outer(u(env), v(env))
    if kind == 2:
        m, v = _matrix(r, shape, depth - 1), _vector(r, shape[1], depth - 1)
        return lambda env: m(env) * v(env)
    return _elements(r, shape, depth)
