"""Random sums of functions whose Hessians have a structure that is known by construction, and a check of what is found.

`python tests/support/structure_programs.py 0 200` checks the seeds from 0 to 199 and prints what fails.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

import symgrad as sg
from symgrad.errors import LinAlgError
from symgrad.nn import functional as F

CURVES = [
    lambda t: t**3, lambda t: t.sin(), lambda t: t.exp(), lambda t: t * t, lambda t: F.softplus(t), lambda t: t.square() * 0.5,
    lambda t: (1 + t * t).log(), lambda t: t * t.tanh(), lambda t: sg.where(t > 0, t**3, -(t**2)), lambda t: t.cosh(),
]  # fmt: skip
"""Elementwise functions with a second derivative."""


@dataclass
class Piece:
    """A function of x and arrays of its own, and the structure of its Hessian."""

    function: Any
    arrays: tuple[Any, ...]
    kind: str
    size: int = 0
    """The width of a band, the size of a block, or the rank."""


def _diagonal(r, rng, n, k):
    curve = r.choice(CURVES)
    d = rng.uniform(0.5, 2, n)
    return r.choice([
        Piece(lambda x, d: (d * curve(x)).sum(), (d,), "diagonal"),
        Piece(lambda x, d: d @ curve(x), (d,), "diagonal"),
        Piece(lambda x, d: curve(x * d).sum(), (d,), "diagonal"),
        Piece(lambda x, d: curve(x.reshape(-1, k) + 1).sum() + 0 * d.sum(), (d,), "diagonal"),
        Piece(lambda x, d: x @ sg.diag(d) @ x, (d,), "diagonal"),
        Piece(lambda x, d: sg.einsum("i,i,i->", x, d, x), (d,), "diagonal"),
        Piece(lambda x, d: (x * sg.cat([d[:3], curve(x)[3:]])).sum(), (d,), "diagonal"),
    ])  # fmt: skip


def _band(r, rng, n, k):
    w, curve = r.choice([1, 1, 2, 3]), r.choice(CURVES)
    return r.choice([
        Piece(lambda x: curve(x[w:] - x[:-w]).sum(), (), "banded", w),
        Piece(lambda x: (x[w:] * curve(x[:-w])).sum(), (), "banded", w),
        Piece(lambda x: curve(F.pad(x, (w, 0))[:-w] - x).sum(), (), "banded", w),
        Piece(lambda x: (x[1:-1] * (x[2:] - 2 * x[1:-1] + x[:-2])).sum(), (), "banded", 1),
        Piece(lambda x: x[: n - w] @ x[w:], (), "banded", w),
        Piece(lambda x, c: curve(F.conv1d(x.reshape(1, 1, n), c.reshape(1, 1, -1))).sum(), (rng.standard_normal(w + 1),), "banded", w),
    ])  # fmt: skip


def _blocks(r, rng, n, k):
    curve, a = r.choice(CURVES), rng.standard_normal((k, k)) / k
    return r.choice([
        Piece(lambda x, a: curve(x.reshape(-1, k) @ a).sum(), (a,), "blocks", k),
        Piece(lambda x, a: curve(x.reshape(-1, k).sum(1)).sum(), (a,), "blocks", k),
        Piece(lambda x, a: sg.einsum("bi,ij,bj->", x.reshape(-1, k), a, x.reshape(-1, k)), (a,), "blocks", k),
        Piece(lambda x, a: sg.logsumexp(x.reshape(-1, k), 1).sum(), (a,), "blocks", k),
        Piece(lambda x, a: curve((x.reshape(-1, k) * x.reshape(-1, k)) @ a[0]).sum(), (a,), "blocks", k),
        Piece(lambda x, a: (x.reshape(-1, k) * (x.reshape(-1, k) @ (a @ a.T))).sum(), (a,), "blocks", k),
    ])  # fmt: skip


def _kronecker(r, rng, n, k):
    m = n // k
    a, b = (rng.standard_normal((s, s)) + s * np.eye(s) for s in (m, k))
    a, b = a + a.T, b + b.T
    return r.choice([
        Piece(lambda x, a, b: (x.reshape(m, k) * (a @ x.reshape(m, k) @ b)).sum(), (a, b), "Kronecker", k),
        Piece(lambda x, a, b: x @ sg.kron(a, b) @ x, (a, b), "Kronecker", k),
        Piece(lambda x, a, b: sg.trace(x.reshape(m, k).T @ a @ x.reshape(m, k) @ b), (a, b), "Kronecker", k),
        Piece(lambda x, a, b: sg.einsum("ij,ik,kl,lj->", x.reshape(m, k), a, x.reshape(m, k), b), (a, b), "Kronecker", k),
        Piece(lambda x, a, b: (x.reshape(m, k) * (a @ x.reshape(m, k))).sum(), (a, b), "Kronecker", k),
    ])  # fmt: skip


def _low_rank(r, rng, n, k):
    rank, curve = r.choice([1, 2, 3]), r.choice(CURVES)
    u = rng.standard_normal((n, rank)) / n**0.5
    return r.choice([
        Piece(lambda x, u: curve(x @ u).sum(), (u,), "low rank", rank),
        Piece(lambda x, u: curve(u.T @ x).sum(), (u,), "low rank", rank),
        Piece(lambda x, u: curve(sg.einsum("i,ir->r", x, u)).sum(), (u,), "low rank", rank),
        Piece(lambda x, u: x @ (u @ u.T) @ x, (u,), "low rank", rank),
        Piece(lambda x, u: curve((x * u[:, 0]).sum()), (u,), "low rank", 1),
        Piece(lambda x, u: ((x @ u) ** 2).sum(), (u,), "low rank", rank),
    ])  # fmt: skip


def _gather(r, rng, n, k):
    count, curve = r.choice([5, n // 2]), r.choice(CURVES)
    i, j = rng.integers(0, n, count), rng.integers(-n, n, count)
    weight = rng.uniform(1, 2, count)
    return r.choice([
        Piece(lambda x, i, j, w: (w * curve(x[i])).sum(), (i, j, weight), "diagonal"),
        Piece(lambda x, i, j, w: (w * curve(x[i] - x[j])).sum(), (i, j, weight), "sparse"),
        Piece(lambda x, i, j, w: (w * x[i] * x[j]).sum(), (i, j, weight), "sparse"),
        Piece(lambda x, i, j, w: curve(sg.index_select(x, 0, i)).sum() + 0 * w.sum(), (i, j, weight), "diagonal"),
    ])  # fmt: skip


MAKERS = (_diagonal, _band, _blocks, _kronecker, _low_rank, _gather)
SUMS = (
    (_diagonal,), (_diagonal, _diagonal), (_band,), (_diagonal, _band), (_band, _band), (_blocks,), (_diagonal, _blocks),
    (_blocks, _blocks),
    (_kronecker,), (_low_rank,), (_diagonal, _low_rank), (_diagonal, _low_rank, _low_rank), (_diagonal, _band, _low_rank),
    (_blocks, _low_rank), (_diagonal, _blocks, _low_rank), (_gather,), (_diagonal, _gather), (_diagonal, _gather, _low_rank),
)  # fmt: skip


def program(seed):
    """Return a function of x and other arrays, with these arrays, and the pieces of the function."""
    r, rng = random.Random(seed), np.random.default_rng(seed)
    k = r.choice([2, 3, 4, 5])
    n = k * r.choice([12, 15, 18])
    pieces = [make(r, rng, n, k) for make in r.choice(SUMS)]
    if r.random() < 0.6:  # mostly regular, often definite
        pieces.append(Piece(lambda x: 3 * (x * x).sum(), (), "diagonal"))
    starts = [sum(len(p.arrays) for p in pieces[:m]) for m in range(len(pieces))]

    def function(x, *arrays):
        total = 0
        for p, start in zip(pieces, starts, strict=True):
            total = total + p.function(x, *arrays[start : start + len(p.arrays)])
        return total

    return function, (rng.uniform(-1, 1, n), *(a for p in pieces for a in p.arrays)), pieces


def expected(pieces):
    """Return the kinds that are as cheap as the structure by construction, and its rank."""
    kinds = {p.kind for p in pieces}
    rank = sum(p.size for p in pieces if p.kind == "low rank")
    base = kinds - {"low rank"}
    for kind in ("sparse", "Kronecker", "blocks", "banded", "diagonal"):
        if kind in base:
            return _AT_LEAST[kind], rank
    return ("low rank",), rank


_AT_LEAST = {
    "diagonal": ("diagonal",), "banded": ("banded", "diagonal"), "blocks": ("blocks", "diagonal", "banded"),
    "Kronecker": ("Kronecker", "Kronecker sum", "blocks", "diagonal"), "sparse": ("sparse", "banded", "diagonal"),
}  # fmt: skip


def check(seed):
    """Return what is wrong with the Hessian of a program (or an empty text), whether its structure was found, and whether it fell back to
    unit vectors."""
    function, arrays, pieces = program(seed)
    fast = sg.compile(function, backend="numpy")
    H = fast.hessian(*arrays, wrt=0, structured=True)
    full = _by_unit_vectors(fast, arrays)
    wrong = _wrong_values(H, full, np.random.default_rng(seed))
    kinds, rank = expected(pieces)
    structure = H.layout.structure
    if structure.kind == "low rank":
        from symgrad.structured.analysis import base_structure

        kind, found_rank = base_structure(structure.base, *H.shape).kind, sum(p.rank for p in structure.low_rank)
    else:
        kind, found_rank = structure.kind, 0
    if kinds == ("low rank",):
        found = structure.text.startswith("rank ") and int(structure.text.split()[1]) <= rank
    else:
        found = (kind in kinds or structure.text.startswith(kinds[0])) and found_rank <= rank
    return wrong, found, bool(H.layout.reason), f"{structure.text} {H.layout.reason}"


def _by_unit_vectors(fast, arrays):
    from symgrad.compiler.autodiff.jacobian import hessian
    from symgrad.compiler.ir.interpret import evaluate

    fast(*arrays)
    (found,) = evaluate(hessian(fast._latest.graph, (0,)), arrays)
    return found.reshape(arrays[0].size, -1)


def _wrong_values(H, full, rng):
    scale = max(np.abs(full).max(), 1e-12)
    v = rng.standard_normal((len(full), 2))
    for name, got, wanted in (
        ("to_dense", H.to_dense(), full), ("matmul", H @ v, full @ v), ("diagonal", H.diagonal(), np.diag(full)),
        ("scipy", H.to_scipy().toarray(), full),
    ):  # fmt: skip
        if not np.allclose(got, wanted, rtol=1e-9, atol=1e-9 * scale):
            return f"{name} differs by {np.abs(got - wanted).max():.1e} of {scale:.1e}"
    values = np.abs(np.linalg.eigvalsh(full))
    condition = values.max() / max(values.min(), 1e-300)
    try:
        x = H.solve(v)
    except LinAlgError as error:
        return "" if condition > 1e13 else f"solve: {error} (condition {condition:.1e})"
    if condition > 1e16:
        return f"solve returns {np.abs(x).max():.1e} for a singular matrix (condition {condition:.1e})"
    residual = np.abs(full @ x - v).max()
    if residual > 1e-13 * (condition + 1e3):
        return f"solve leaves {residual:.1e} (condition {condition:.1e})"
    sign, value = H.slogdet()
    wanted_sign, wanted = np.linalg.slogdet(full)
    if condition < 1e10 and (sign != wanted_sign or not np.isclose(value, wanted, rtol=1e-6, atol=1e-6)):
        return f"slogdet {sign, value}, wanted {wanted_sign, wanted}"
    return ""


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:3])
    counts = Counter()
    for seed in range(first, last):
        wrong, found, fell_back, text = check(seed)
        counts["programs"] += 1
        counts["wrong"] += bool(wrong)
        counts["found"] += found
        counts["fell back"] += fell_back
        if wrong or not found:
            print(seed, [(p.kind, p.size) for p in program(seed)[2]], "->", text, "|", wrong)
    print(dict(counts))
