"""Random graphs of contractions, and a check that the pass keeps their values, their accuracy and their cost.

`python tests/support/contraction_programs.py 0 20000` checks the seeds from 0 to 19,999 and prints what fails.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from math import prod

import ml_dtypes
import numpy as np

from symgrad.compiler.algebra.affine import NotAffine
from symgrad.compiler.algebra.contract import contraction
from symgrad.compiler.algebra.search import is_linear_value
from symgrad.compiler.algebra.segment import count_terms, plan_form
from symgrad.compiler.autodiff.pull import grad
from symgrad.compiler.ir.builder import xp
from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, input_value, literal, toposort
from symgrad.compiler.ir.interpret import evaluate
from symgrad.compiler.ir.subgraph import substitute
from symgrad.compiler.ir.verify import verify
from symgrad.errors import SymgradError

DTYPES = {name: np.dtype(name) for name in ("float64", "float32", "float16", "complex128", "complex64", "int64", "int32", "uint8")}
DTYPES["bfloat16"] = np.dtype(ml_dtypes.bfloat16)
COMMON = ("float64", "float64", "float32", "float32")
MOST_WORK = 240
"""Values with more terms times factors than this are not planned: ten times what the pass expands, and minutes for one with 200 terms."""
WORSE = 4
"""The error of the contracted graph may be this many times that of the graph as written."""


def random_program(r, dtype):
    """Return a random graph with four inputs."""
    dims = [r.choice([1, 2, 3, 4, 6]) for _ in range(3)]
    if r.random() < 0.03:
        dims[0] = 0
    inputs = [input_value(i, tuple(r.choice(dims) for _ in range(r.choice([1, 2, 2, 2, 3]))), dtype) for i in range(4)]
    pool = list(inputs)
    for _ in range(r.randint(2, 10)):
        a, b = r.choice(pool), r.choice(pool[-3:] if r.random() < 0.5 else pool)
        try:
            v = OPS[r.choice(WEIGHTED)](r, a, b, dims)
        except (SymgradError, ValueError, TypeError, IndexError, RuntimeError):  # shapes or dtypes that do not fit
            continue
        if v is not None and v.dtype == dtype and v.ndim <= 4 and v.size < 5000:
            pool.append(v)
    outputs = [pool[-1], *([r.choice(pool)] if r.random() < 0.4 else [])]
    return Graph(inputs, outputs)


def _full(a, first):
    return (first, *((0, n, 1) for n in a.shape[1:]))


def _slice(r, a, b, dims):
    n = a.shape[0]
    start, step = r.randrange(n), r.choice([1, 1, 2])
    return xp.getitem(a, index=_full(a, r.choice([start, (start, n, step), (0, start + 1, step)])))


def _axes(r, a):
    return tuple(sorted(r.sample(range(a.ndim), r.randint(1, a.ndim))))


def _diag_embed(r, a, b, dims):
    offset = r.choice([0, 0, 0, 1, -2])
    n = a.shape[-1] + abs(offset)
    return xp.diag_embed(a, axis1=a.ndim - 1, axis2=a.ndim, offset=offset, shape=(*a.shape[:-1], n, n)) if a.ndim < 3 else None


def _reshape(r, a, b, dims):
    if a.ndim >= 2 and r.random() < 0.5:
        d = r.randrange(a.ndim - 1)
        return xp.reshape(a, shape=(*a.shape[:d], a.shape[d] * a.shape[d + 1], *a.shape[d + 2 :]))
    d = r.randrange(a.ndim)
    n = r.choice([2, 3])
    return xp.reshape(a, shape=(*a.shape[:d], a.shape[d] // n, n, *a.shape[d + 1 :])) if a.shape[d] % n == 0 else None


def _einsum(r, a, b, dims):
    letters = "ijkl"[: a.ndim], "".join(r.sample("ijklm", b.ndim))
    kept = [c for c in dict.fromkeys("".join(letters)) if r.random() < 0.6]
    r.shuffle(kept)
    return xp.einsum(a, b, equation=f"{letters[0]},{letters[1]}->{''.join(kept[:4])}")


def _embed(r, a, b, dims):
    before, after, step = r.randint(0, 2), r.randint(0, 2), r.choice([1, 1, 1, 2])
    n = a.shape[0]
    stop = before + (n - 1) * step + 1
    return xp.embed(a, shape=(stop + after, *a.shape[1:]), index=_full(a, (before, stop, step)))


def _diagonal(r, a, b, dims):
    x, y = r.sample(range(a.ndim), 2)
    return xp.diagonal(a, axis1=x, axis2=y, offset=r.choice([0, 0, 1, -1]))


OPS = {
    "matmul": lambda r, a, b, dims: xp.matmul(a, b),
    "mul": lambda r, a, b, dims: xp.mul(a, b),
    "add": lambda r, a, b, dims: xp.add(a, b),
    "sub": lambda r, a, b, dims: xp.sub(a, b),
    "neg": lambda r, a, b, dims: xp.neg(a),
    "sin": lambda r, a, b, dims: xp.sin(a),
    "conj": lambda r, a, b, dims: xp.conj(a) if a.dtype.kind == "c" else None,
    "scale": lambda r, a, b, dims: xp.mul(a, r.choice([2, 0.5, -1, 3, 1j])),
    "div": lambda r, a, b, dims: xp.div(a, r.choice([2, 3, 0.7])),
    "transpose": lambda r, a, b, dims: xp.transpose(a, dim0=a.ndim - 2, dim1=a.ndim - 1),
    "permute": lambda r, a, b, dims: xp.permute(a, axes=tuple(r.sample(range(a.ndim), a.ndim))),
    "sum": lambda r, a, b, dims: xp.sum(a, axis=_axes(r, a), keepdims=r.random() < 0.3),
    "mean": lambda r, a, b, dims: xp.mean(a, axis=_axes(r, a), keepdims=r.random() < 0.3) if a.dtype.kind not in "iu" else None,
    "trace": lambda r, a, b, dims: xp.trace(a),
    "diagonal": _diagonal,
    "diag_embed": _diag_embed,
    "expand": lambda r, a, b, dims: xp.expand(a, shape=(r.choice(dims), *a.shape)),
    "getitem": _slice,
    "reshape": _reshape,
    "unsqueeze": lambda r, a, b, dims: xp.reshape(a, shape=(*a.shape, 1)),
    "einsum": _einsum,
    "embed": _embed,
    "eye": lambda r, a, b, dims: xp.eye(rows=r.choice(dims), columns=r.choice(dims), dtype=a.dtype),
    "ones": lambda r, a, b, dims: xp.expand(literal(r.choice([1, 1, 2, 0]), a.dtype), shape=a.shape),
    "linear": lambda r, a, b, dims: xp.linear(a, b, None),
    "outer": lambda r, a, b, dims: xp.mul(xp.reshape(a, shape=(a.size, 1)), b) if a.ndim == b.ndim == 1 else None,
}
WEIGHTED = [*OPS, *["matmul"] * 6, *["mul", "add", "sub", "sum", "transpose", "outer"] * 2]


def graphs_of(seed):
    """Return the graphs of a seed, the program and a gradient of it, with their arrays."""
    r = random.Random(seed)
    dtype = DTYPES[r.choice((*COMMON, *DTYPES))]
    graph = random_program(r, dtype)
    found = [graph]
    y = graph.outputs[0]
    if dtype.kind in "fcV" and y.size:
        total = xp.sum(y if r.random() < 0.5 else xp.mul(y, y), axis=tuple(range(y.ndim)), keepdims=False) if y.ndim else y
        try:
            derivative = grad(Graph(graph.inputs, (xp.real(total) if dtype.kind == "c" else total,)), (0, 1, 2, 3))
            found.append(Graph(graph.inputs, (*graph.outputs, *derivative.outputs)))
        except SymgradError:
            pass
    rng = np.random.default_rng(seed)
    return found, [_numbers(rng, x.shape, dtype) for x in graph.inputs]


def _numbers(rng, shape, dtype):
    if dtype.kind in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    real = rng.standard_normal(shape)
    return (real + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else real.astype(dtype)


def reference(graph, arrays, magnitudes=False):
    """Return the outputs in extended precision; with `magnitudes`, bounds of them without cancellation."""
    wide = lambda x: np.asarray(x, np.clongdouble if np.asarray(x).dtype.kind == "c" else np.longdouble)
    size = np.abs if magnitudes else lambda x: x
    known = {x: size(wide(a)) for x, a in zip(graph.inputs, arrays, strict=True)}
    for v in graph.values:
        if v.op == LITERAL:
            known[v] = size(wide(np.asarray(v.value).astype(v.dtype)))
        elif v.op != INPUT:
            args = [None if a is None else known[a] for a in v.args]
            known[v] = args[0][v.attrs["index"]] if v.op == OUTPUT else _wide_row(v, args, magnitudes)
    return [known[v] for v in graph.outputs]


def _wide_row(v, args, magnitudes):
    if v.op == "cast":
        return args[0]
    if magnitudes and v.op in ("neg", "sin", "cos", "conj", "real"):
        return np.ones_like(args[0]) if v.op == "cos" else args[0]
    if magnitudes and v.op == "sub":
        return args[0] + args[1]
    return v.row.numpy(*args, **v.attrs)


def check(graph, arrays):
    """Return what is wrong with the contracted graph, or None; and whether it changed."""
    found = contraction(graph)
    if found.flops_planned > found.flops_written:
        return "costlier", True
    if found.graph is graph:
        return None, False
    verify(found.graph)
    return _compared(graph, found.graph, arrays), True


def planned_values(graph):
    """Return the graph with every linear value as an output, planned or refused whatever the operations, and as written: two graphs."""
    written, planned = [], []
    for v in graph.values:
        if is_linear_value(v):
            leaves = frozenset(x for x in toposort((v,)) if x.op != LITERAL and not is_linear_value(x))
            inputs = [x for x in toposort((v,), leaves) if x in leaves]
            if prod(count_terms(toposort((v,), leaves), leaves)) > MOST_WORK:
                continue
            places = {x: input_value(i, x.shape, x.dtype) for i, x in enumerate(inputs)}
            try:
                plan = plan_form(*substitute([v], places))
            except NotAffine:
                continue
            written.append(v)
            planned += substitute([plan], {place: x for x, place in places.items()})
    return Graph(graph.inputs, written), Graph(graph.inputs, planned)


def check_plans(graph, arrays):
    """Return what is wrong with the plans of a graph's linear values, or None; and whether there are any."""
    written, planned = planned_values(graph)
    verify(planned)
    return _compared(written, planned, arrays), bool(written.outputs)


def _compared(written, planned, arrays):
    with np.errstate(all="ignore"):
        before, after = evaluate(written, arrays), evaluate(planned, arrays)
        exact, bound = reference(written, arrays), reference(written, arrays, magnitudes=True)
    eps = max((float(ml_dtypes.finfo(v.dtype).eps) for v in written.values if v.dtype.kind in "fcV"), default=0)
    for n, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"type {a.dtype}{a.shape} -> {b.dtype}{b.shape}"
        wrong = _wrong(a, b, exact[n], bound[n], eps)
        if wrong:
            return wrong
    return None


def _wrong(a, b, exact, bound, eps):
    if a.dtype.kind in "iu":
        return None if np.array_equal(a, b) else "integers differ"
    wide = np.clongdouble if a.dtype.kind == "c" else np.longdouble
    finite = np.isfinite(a.astype(wide))
    if not finite.all():
        a, b, exact, bound = (np.where(finite, x, 0) for x in (a, b, exact, bound))
    floor = eps * float(np.max(np.abs(bound), initial=0))
    before, after = (float(np.max(np.abs(x.astype(wide) - exact), initial=0)) for x in (a, b))
    if not after <= 64 * max(before, floor):
        return f"wrong: {after:.1e} where rounding is {floor:.1e}"
    return None if after <= WORSE * max(before, floor) else f"accuracy {before:.1e} -> {after:.1e}, rounding {floor:.1e}"


def main(first, last):
    """Check seeds and print a summary."""
    counts, examples, start = Counter(), {}, time.process_time()
    for seed in range(first, last):
        graphs, arrays = graphs_of(seed)
        for n, graph in enumerate(graphs):
            counts["graphs"] += 1
            try:
                wrong, changed = check(graph, arrays)
                if not wrong:
                    wrong, any_plans = check_plans(graph, arrays)
                    counts["plans"] += any_plans
            except Exception as error:
                wrong, changed = f"{type(error).__name__}: {error}"[:90], True
            counts["changed"] += changed
            if wrong:
                counts[wrong.split(":")[0].split(" ")[0]] += 1
                examples.setdefault(wrong[:40], (seed, n, wrong))
    print(dict(counts), f"{time.process_time() - start:.0f} s")
    for seed, n, wrong in list(examples.values())[:20]:
        print(f"  seed {seed}, graph {n}: {wrong}")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
