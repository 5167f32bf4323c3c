"""Derivatives of a function that cannot be traced, by eager autograd: `fallback="eager"`.

The function runs once, eagerly, and all derivatives are computed from the recorded history. The interface is that of a program: inputs,
labels, results and the order of derivatives are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from symgrad.autograd import enable_grad
from symgrad.autograd.functional import filled, pull_back, push_forward, rows
from symgrad.autograd.grad_mode import without_hooks
from symgrad.compiler.autodiff.jacobian import require_real
from symgrad.compiler.autodiff.pull import require_one_number
from symgrad.compiler.inputs.signature import Call
from symgrad.compiler.ir.graph import Graph, input_value
from symgrad.compiler.runtime.derivative_graphs import taylor_order
from symgrad.compiler.trace.histories import ancestor_nodes
from symgrad.compiler.trace.results import flatten_results
from symgrad.compiler.trace.trace import requiring_grad
from symgrad.ops.promotion import kind
from symgrad.tensor import Tensor, wrap
from symgrad.views import detach


class EagerFallback:
    """One eager run of a function, with the derivative interface of `Program`."""

    def __init__(self, function: Callable[[Sequence[Any]], Any], call: Call, tensor_names: Mapping[int, str]) -> None:
        self.choices: dict[Any, Any] = {}
        self._leaves = [_leaf(t, requires_grad) for t, requires_grad in zip(call.tensors(), call.requires_grad, strict=True)]
        with enable_grad(), requiring_grad(call.captured_with_grad):
            result = function(call.as_given(self._leaves))
        self._outputs, self.structure = flatten_results(result)
        self.captured = _captured_leaves(self._outputs, self._leaves)
        self.requires_grad = any(t.requires_grad for t in self.captured)
        names = [t.name or tensor_names.get(id(t)) or f"c{k}" for k, t in enumerate(self.captured, 1)]
        inputs, outputs = ([input_value(i, t._array.shape, t._array.dtype) for i, t in enumerate(ts)] for ts in (self._all, self._outputs))
        self.graph = Graph(tuple(inputs), tuple(outputs), (*call.labels, *names))

    @property
    def _all(self) -> list[Tensor]:
        return [*self._leaves, *self.captured]

    def inputs(self, call: Call) -> list[Tensor]:
        return self._all

    def compute(self, what: str, wrt: tuple[int, ...], tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what the kernel of this name would return: tensors without history that own their memory."""
        if what in ("jacobian", "hessian"):
            require_real(f"a {what.capitalize()}", (*self.graph.outputs, *(self.graph.inputs[i] for i in wrt)))
        if what in _SCALAR_ONLY:
            require_one_number(self.graph)
        with enable_grad():
            chosen, given, order = [self._all[i] for i in wrt], tensors[len(self._all) :], taylor_order(what)
            found = _DERIVATIVES[what](self._outputs, chosen, given) if order is None else _taylor(self._outputs, chosen, given, order)
        return [wrap(t._array.copy()) for t in found]


def _leaf(t: Tensor, requires_grad: bool) -> Tensor:
    copy = detach(t)
    return copy.requires_grad_() if requires_grad and kind(t._array.dtype) in "fc" else copy


def _captured_leaves(outputs: Sequence[Tensor], own: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the leaf tensors of the history that require grad, besides the arguments."""
    ends = [edge for node in reversed(ancestor_nodes(outputs)) for edge in node.inputs if isinstance(edge, Tensor)]
    mine = set(map(id, own))
    return tuple({id(t): t for t in (*ends, *outputs) if t.is_leaf and t.requires_grad and id(t) not in mine}.values())


def _gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor], again: bool = False) -> Sequence[Tensor]:
    return pull_back(outputs, inputs, None, again)


def _jacobian(outputs: Sequence[Tensor], inputs: Sequence[Tensor], again: bool = False) -> list[Tensor]:
    """Return the blocks of the Jacobian by output, then by input, each shaped (*output, *input)."""
    return [block for y in outputs for block in rows(y, tuple(inputs), again)]


def _jvp(outputs: Sequence[Tensor], inputs: Sequence[Tensor], tangents: Sequence[Tensor]) -> Sequence[Tensor]:
    with without_hooks():
        return push_forward(tuple(outputs), tuple(inputs))(tuple(tangents), False)


def _hessian(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
    slopes = _jacobian(outputs, inputs, again=True)
    with without_hooks():
        return _jacobian(slopes, inputs)


def _hvp(outputs: Sequence[Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor]) -> Sequence[Tensor]:
    """Return the Hessian of a scalar times `directions`."""
    slopes = _gradients(outputs, inputs, again=True)
    with without_hooks():
        return pull_back(slopes, inputs, directions, False)


def _taylor(outputs: Sequence[Tensor], inputs: Sequence[Tensor], given: Sequence[Tensor], order: int) -> list[Tensor]:
    """Return the Taylor coefficients 0 to `order` of each output, one output after the other, by nested forward derivatives; along ones if
    no directions are given."""
    along = tuple(given) or tuple(filled(x._array, 1) for x in inputs)
    derivatives = [tuple(outputs)]
    with without_hooks():
        for k in range(1, order + 1):
            derivatives.append(push_forward(derivatives[-1], tuple(inputs))(along, k < order))
    series = [[d if k < 2 else d / math.factorial(k) for d in ds] for k, ds in enumerate(derivatives)]
    return [c for of_one in zip(*series, strict=True) for c in of_one]


_DERIVATIVES: dict[str, Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor]]] = {
    "forward": lambda ys, xs, given: ys,
    "vjp": lambda ys, xs, given: pull_back(ys, xs, given, False),
    "jvp": _jvp,
    "grad": lambda ys, xs, given: _gradients(ys, xs),
    "value_and_grad": lambda ys, xs, given: [*ys, *_gradients(ys, xs)],
    "jacobian": lambda ys, xs, given: _jacobian(ys, xs),
    "hessian": lambda ys, xs, given: _hessian(ys, xs),
    "hvp": _hvp,
}
_SCALAR_ONLY = ("grad", "value_and_grad", "hvp")
