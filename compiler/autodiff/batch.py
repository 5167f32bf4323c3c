"""f(x, y) -> stack(f(x₀, y), f(x₁, y), ...): runs a graph for many values of some of its inputs at once.

Values that depend on such an input get a new leading dimension, and no others do: values common to all slices are computed once. Most rows
have a batching rule, here or in `batch_rules`. Any other row runs its own kernel on each slice (`symgrad.compiler.autodiff.map_slices`),
so that the pass covers the whole table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any

from symgrad.compiler.ir.builder import apply, xp
from symgrad.compiler.ir.control_flow import TRANSFORMS, is_control
from symgrad.compiler.ir.graph import Graph, Value, input_value, output, row_of
from symgrad.compiler.ir.interpret import interpret
from symgrad.compiler.rewrite.decompose import decompose

Arg = tuple[Any, bool]
"""A value (of several outputs, their tuple), and True if it has the batch dimension."""
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""Batching rules by row: `rule(value, args, size)` returns the batched application, or None if it does not apply; `args` are pairs (value,
True if it has the batch dimension)."""


def batch(graph: Graph, inputs: Iterable[int], size: int) -> Graph:
    """Return the graph with a new leading dimension of `size` on these inputs and on all outputs."""
    inputs = frozenset(inputs)
    ends = [input_value(i, (size, *x.shape), x.dtype) if i in inputs else x for i, x in enumerate(graph.inputs)]
    return Graph(ends, batched(graph.outputs, {graph.inputs[i]: ends[i] for i in inputs}, size), graph.labels)


def batched(outputs: Sequence[Value], given: dict[Value, Value], size: int, last: bool = True) -> list[Value]:
    """Return the outputs with a new leading dimension, where `given` maps values to their batched versions. Pass last=False if the result
    will be differentiated: rows with their own rules then stay fused, since these may differ from those of the composition at special
    points."""
    slots = tuple(given)
    plain = decompose(
        Graph(slots, outputs), lambda row: row.name in _DECOMPOSED or (last and (row.jax is None or row.name in _DECOMPOSED_LAST))
    )
    known = {x: (given[x], True) for x in slots}
    found = interpret(plain.outputs, known, partial(_batched, size=size), leaf=_shared, project=_one_of, order=plain.values)
    return [with_batch_axis(value, has, size) for value, has in found]


def _shared(v: Value) -> Arg:
    """Return an input or literal, which all slices share."""
    return v, False


def _one_of(whole: Arg, index: int) -> Arg:
    """Return one of several outputs."""
    value, has = whole
    return (value[index], True) if has else (output(value, index), False)


_DECOMPOSED = frozenset({"linear", "addmm", "mean", "mse_loss"})
"""Rows with their own lowering whose compositions are batched better."""
_DECOMPOSED_LAST = frozenset(
    {"huber_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "affine_norm"}
)
"""More such rows, which are decomposed only after their derivatives are taken."""


def _batched(v: Value, given: tuple[Arg | None, ...], size: int) -> Arg:
    args = [(None, False) if a is None else a for a in given]
    if not any([has for _, has in args]):
        return v, False
    if is_control(v):
        return TRANSFORMS["batch"](v, args, size), True
    from symgrad.compiler.autodiff import batch_rules  # noqa: F401  (registers more rules)
    from symgrad.compiler.autodiff.map_slices import map_slices  # imports this file

    rule = _elementwise if row_of(v).elementwise else RULES.get(v.op, map_slices)
    found = rule(v, args, size)
    return (map_slices(v, args, size) if found is None else found), True


def with_batch_axis(value: Value, has: bool, size: int) -> Value:
    return value if has else xp.expand(value, shape=(size, *value.shape))


def align_batched(value: Value, has: bool, ndim: int) -> Value:
    """Return an argument that broadcasts to `ndim` dimensions behind the batch dimension."""
    if not has or value.ndim == ndim + 1:
        return value
    first, *rest = value.shape
    return xp.reshape(value, shape=(first, *(1,) * (ndim - len(rest)), *rest))


def _elementwise(v: Value, args: Any, size: int) -> Any:
    given = tuple(None if a is None else align_batched(a, has, v.ndim) for a, has in args)
    if v.op in _SHAPED_AS_FIRST and not args[0][1]:  # the result would have its shape
        return _SHAPED_AS_FIRST[v.op](size, *given)
    return apply(row_of(v), given, dict(v.attrs))


def _filled(size: int, x: Value, mask: Value, value: Value) -> Value:
    found = xp.where(mask, xp.cast(value, dtype=x.dtype), x)
    return with_batch_axis(found, max(mask.ndim, value.ndim) > x.ndim, size)


_SHAPED_AS_FIRST: dict[str, Rule] = {
    "masked_fill": _filled,
    "tied": lambda size, x, other: with_batch_axis(x, False, size),
}
"""Elementwise rows whose result has the shape of the first argument: the rules for other arguments with the batch dimension."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the rows of these names."""

    def enter(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, function))
        return function

    return enter


_AXES = ("axis", "axes", "dim0", "dim1", "axis1", "axis2")


def shifted_axes(attrs: Any, ndim: int) -> dict[str, Any] | None:
    """Return the attributes with axes shifted behind a new leading dimension; None if an axis is None or there are no dimensions."""
    found = dict(attrs)
    for name in _AXES:
        if name in found:
            axis = found[name]
            if axis is None or not ndim:
                return None
            found[name] = tuple(a % ndim + 1 for a in axis) if isinstance(axis, tuple) else axis % ndim + 1
    return found


@rule("sum", "nansum", "prod", "amax", "amin", "logsumexp", "softmax", "log_softmax", "cumsum", "flip", "transpose", "permute")
def _shifted(v: Value, args: Any, size: int) -> Any:
    """Shift the axes by one."""
    attrs = shifted_axes(v.attrs, v.args[0].ndim)
    if attrs is None:
        return None
    if v.op == "permute":
        attrs["axes"] = (0, *attrs["axes"])
    return apply(row_of(v), (args[0][0],), attrs)


@rule("reshape")
def _reshape(v: Value, args: Any, size: int) -> Any:
    return xp.reshape(args[0][0], shape=(size, *v.shape))


@rule("expand")
def _expand(v: Value, args: Any, size: int) -> Any:
    return xp.expand(align_batched(args[0][0], True, v.ndim), shape=(size, *v.shape))


@rule("getitem")
def _getitem(v: Value, args: Any, size: int) -> Any:
    return xp.getitem(args[0][0], index=((0, size, 1), *v.attrs["index"]))


@rule("embed")
def _embed(v: Value, args: Any, size: int) -> Any:
    return xp.embed(args[0][0], shape=(size, *v.attrs["shape"]), index=((0, size, 1), *v.attrs["index"]))


@rule("pad", "crop")
def _pad(v: Value, args: Any, size: int) -> Any:
    attrs = dict(v.attrs)
    attrs["widths"] = ((0, 0), *attrs["widths"])
    return apply(row_of(v), (args[0][0],), attrs)


@rule("cat", "stack")
def _joined(v: Value, args: Any, size: int) -> Any:
    axis = v.attrs["axis"] % v.ndim
    return apply(row_of(v), tuple(with_batch_axis(a, has, size) for a, has in args), {"axis": axis + 1})


@rule("assume", "clone", "tril", "triu")
def _same(v: Value, args: Any, size: int) -> Any:
    return apply(row_of(v), (args[0][0],), dict(v.attrs))


@rule("matmul")
def _matmul(v: Value, args: Any, size: int) -> Any:
    (x, x_has), (y, y_has) = args
    m, n = (a.ndim for a in v.args)
    if m <= 2 and n <= 2 and x_has != y_has:
        return _rows_of_one(v, x, y, x_has, size)
    if m == 1:
        x = xp.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))
    if n == 1:
        y = xp.reshape(y, shape=(*y.shape, 1))
    ndim = max(m, n, 2)
    return xp.reshape(xp.matmul(align_batched(x, x_has, ndim), align_batched(y, y_has, ndim)), shape=(size, *v.shape))


def _rows_of_one(v: Value, x: Value, y: Value, x_has: bool, size: int) -> Any:
    """Multiply by one shared matrix or vector: stack the slices of the other operand to a matrix, so that there is one product."""
    inner = v.args[0].shape[-1]
    if x_has:
        return xp.reshape(xp.matmul(xp.reshape(x, shape=(prod(x.shape[:-1]), inner)), y), shape=(size, *v.shape))
    if v.args[1].ndim == 1 or v.args[1].shape[-1] == 1:
        rows = xp.reshape(y, shape=(size, inner))
        return xp.reshape(xp.matmul(rows, xp.transpose(x, dim0=0, dim1=1) if x.ndim == 2 else x), shape=(size, *v.shape))
    return xp.matmul(x, y)


@rule("einsum")
def _einsum(v: Value, args: Any, size: int) -> Any:
    equation = v.attrs["equation"]
    letter = next((c for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" if c not in equation), None)
    if letter is None:
        return None
    inputs, _, output = equation.partition("->")
    terms = [letter * has + term for (_, has), term in zip(args, inputs.split(","), strict=True)]
    return xp.einsum(*(a for a, _ in args), equation=f"{','.join(terms)}->{letter}{output}")


@rule("convolution", "convolution_transpose")
def _convolution(v: Value, args: Any, size: int) -> Any:
    """With shared weights the new dimension is merged into the batch dimension."""
    (x, _), *others = args
    if any(has for _, has in others):
        return None
    merged = xp.reshape(x, shape=(size * x.shape[1], *x.shape[2:]))
    return xp.reshape(apply(row_of(v), (merged, *(a for a, _ in others)), dict(v.attrs)), shape=(size, *v.shape))
