"""Derivatives of a function that cannot be traced, by eager autograd: what `fallback="eager"` gives.

The function has run once, as it is written, and everything is computed from what that has recorded. To those who ask for derivatives it
looks like a program: the same inputs, names, results and order of derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.autograd import enable_grad, grad
from symgrad.compiler.graph.ir import Graph, input_value, type_text
from symgrad.compiler.jacobians import require_real
from symgrad.compiler.tracing.histories import nodes_behind
from symgrad.compiler.tracing.results import results
from symgrad.compiler.tracing.signature import Call
from symgrad.creation import eye, zeros_like
from symgrad.dispatch import tensors as ops
from symgrad.errors import GraphError
from symgrad.functional import stack
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor
from symgrad.views import detach


class Eagerly:
    """One run of a function, which derivatives can be asked of."""

    answers = (None,)
    """It is good for one call, as the path of a function that branches may be."""

    def __init__(self, function: Callable[[Sequence[Any]], Any], call: Call, titles: Mapping[int, str]) -> None:
        self.choices: dict[Any, Any] = {}
        given = call.weak or (None,) * len(call.leaves)
        self._leaves = [_leaf(t) for t in call.tensors()]
        with enable_grad():
            result = function([t if cls is None else cls(t.item()) for t, cls in zip(self._leaves, given, strict=True)])
        self._outputs, self.structure = results(result)
        self.captured = _brought(self._outputs, self._leaves)
        names = [t.name or titles.get(id(t)) or f"c{k}" for k, t in enumerate(self.captured, 1)]
        inputs, outputs = ([input_value(i, t._array.shape, t._array.dtype) for i, t in enumerate(ts)] for ts in (self._all, self._outputs))
        self.graph = Graph(tuple(inputs), tuple(outputs), (*call.labels, *names))

    @property
    def _all(self) -> list[Tensor]:
        return [*self._leaves, *self.captured]

    def inputs(self, call: Call) -> list[Tensor]:
        return self._all

    def compute(self, what: str, wrt: tuple[int, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
        """What a kernel of this name would give, as tensors without history."""
        if what in ("jacobian", "hessian"):
            require_real(f"a {what.capitalize()}", (*self.graph.outputs, *(self.graph.inputs[i] for i in wrt)))
        with enable_grad():
            found = _COMPUTED[what](self._outputs, [self._all[i] for i in wrt], tensors[len(self._all) :])
        return [detach(t) for t in found]


def _leaf(t: Tensor) -> Tensor:
    copy = detach(t)
    return copy.requires_grad_() if kind(t._array.dtype) in "fc" else copy


def _brought(outputs: Sequence[Tensor], own: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors at which histories end, besides the arguments."""
    ends = [edge for node in reversed(nodes_behind(outputs)) for edge in node.inputs if isinstance(edge, Tensor)]
    mine = set(map(id, own))
    return tuple({id(t): t for t in (*ends, *outputs) if t.is_leaf and t.requires_grad and id(t) not in mine}.values())


def _pulled(outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Any], again: bool = False) -> list[Tensor]:
    """The cotangents of inputs; zeros where nothing depends on one."""
    pairs = [(y, seed) for y, seed in zip(outputs, seeds, strict=True) if y.requires_grad]
    if not pairs:
        return [zeros_like(x) for x in inputs]
    ys, given = zip(*pairs, strict=True)
    found = grad(ys, inputs, given, retain_graph=True, create_graph=again, allow_unused=True)
    return [zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True)]


def _scalar(outputs: Sequence[Tensor]) -> Tensor:
    given = [input_value(i, y._array.shape, y._array.dtype) for i, y in enumerate(outputs)]
    if len(outputs) != 1 or outputs[0]._array.shape:
        text = ", ".join(map(type_text, given))
        raise GraphError(f"grad can be implicitly created only for scalar outputs, got {text}: return one number, such as a sum")
    if kind(outputs[0]._array.dtype) != "f":
        raise GraphError(f"grad can be implicitly created only for real scalar outputs, got {type_text(given[0])}: return a real one")
    return outputs[0]


def _gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], again: bool = False) -> list[Tensor]:
    return _pulled([_scalar(outputs)], inputs, [None], again)


def _pushed(outputs: Sequence[Tensor], inputs: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Tensor]:
    """The VJP is linear in its cotangents: its own VJP is the JVP."""
    seeds = [zeros_like(y).requires_grad_() if kind(y._array.dtype) in "fc" else zeros_like(y) for y in outputs]
    pulled = _pulled(outputs, inputs, seeds, again=True)
    return [t if s.requires_grad else zeros_like(s) for s, t in zip(seeds, _tangents(pulled, seeds, tangents), strict=True)]


def _tangents(pulled: Sequence[Tensor], seeds: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Tensor]:
    asked = [s for s in seeds if s.requires_grad]
    found = iter(_pulled(pulled, asked, tangents))
    return [next(found) if s.requires_grad else s for s in seeds]


def _jacobian(outputs: Sequence[Tensor], inputs: Sequence[Tensor], again: bool = False) -> list[Tensor]:
    """By output, then by input: shaped (*output, *input)."""
    found = []
    for y in outputs:
        units = ops.reshape(eye(y._array.size, dtype=y.dtype), shape=(y._array.size, *y._array.shape))
        rows = [_pulled([y], inputs, [unit], again) for unit in units]
        for k, x in enumerate(inputs):
            shape = (*y._array.shape, *x._array.shape)
            found.append(ops.reshape(stack([row[k] for row in rows]), shape=shape) if rows else zeros_like(x).new_zeros(shape))
    return found


def _hessian(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    """By output, then by first and second input."""
    return _jacobian(_jacobian(outputs, inputs, again=True), inputs)


def _products(outputs: Sequence[Tensor], inputs: Sequence[Tensor], v: Sequence[Tensor]) -> list[Tensor]:
    return _pulled(_gradients(outputs, inputs, again=True), inputs, v)


_COMPUTED: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]] = {
    "forward": lambda ys, xs, given: ys,
    "vjp": lambda ys, xs, given: _pulled(ys, xs, given),
    "jvp": _pushed,
    "grad": lambda ys, xs, given: _gradients(ys, xs),
    "value_and_grad": lambda ys, xs, given: [_scalar(ys), *_gradients(ys, xs)],
    "jacobian": lambda ys, xs, given: _jacobian(ys, xs),
    "hessian": lambda ys, xs, given: _hessian(ys, xs),
    "hvp": _products,
}
