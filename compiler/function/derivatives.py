"""The derivatives of a compiled function, each one kernel.

`wrt` selects the inputs: one name or position (then a derivative has the structure of that argument: one tensor, or a container of them),
or several (then it is a tuple, and a Hessian a tuple of tuples). By default these are the inputs that require grad, or else every
floating-point argument. Captured tensors can be named too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from symgrad.compiler.function.eager_fallback import EagerFallback
from symgrad.compiler.function.nested import InlinedDerivatives, InlinedPullback, InlinedPushforward, refuse_kernels, under_outer_transform
from symgrad.compiler.inputs.pytree import LEAF, leaf_count, leaves_like, unflatten
from symgrad.compiler.inputs.signature import Call, Signature, native_number, tensor_types
from symgrad.compiler.inputs.wrt import WrtSelection, select_wrt, selected_tangents
from symgrad.compiler.ir.graph import Value, type_text
from symgrad.compiler.options import Options
from symgrad.compiler.runtime.effectful_program import EffectfulProgram
from symgrad.compiler.runtime.executables import Unflatten, make_target
from symgrad.compiler.runtime.fast_path import FastPath, FastPathEntry, call_key
from symgrad.compiler.runtime.program import CACHE_MISS, PureProgram
from symgrad.compiler.runtime.return_types import ARRAYS, array_of, kinds_of, returns_arrays as returns_arrays
from symgrad.device_tensor import storage_of
from symgrad.errors import describe
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.tensor import Tensor, wrap

_MAX_REQUESTS = 64
TENSORS = frozenset((Tensor,))


class DerivativePoint:
    """The point of a derivative: a program, its inputs, and the selected inputs."""

    def __init__(
        self, program: PureProgram | EagerFallback, call: Call, choice: WrtSelection, returns: str | None, later: bool = False
    ) -> None:
        self.program: Any = program
        self.choice, self.chosen = choice, choice.inputs
        self.inputs = program.inputs(call)
        self.kinds, self.returns_arrays = call.kinds, returns_arrays(returns, program.requires_grad)
        if later:  # the caller may write to its arrays until then
            kept = len(call.leaves)
            self.inputs[:kept] = [t if isinstance(x, Tensor) else wrap(x.copy()) for t, x in zip(self.inputs, call.leaves, strict=False)]
        self._versions = [t._version for t in self.inputs] if later else ()

    @staticmethod
    def for_arguments(
        program: PureProgram, choice: WrtSelection, tensors: Sequence[Tensor], returns: str | None, later: bool
    ) -> DerivativePoint:
        """Return the point for other arguments of the same types."""
        point = DerivativePoint.__new__(DerivativePoint)
        point.program, point.choice, point.chosen = program, choice, choice.inputs
        point.inputs = [*tensors, *program.captured]
        point.kinds, point.returns_arrays = TENSORS, returns_arrays(returns, program.requires_grad)
        point._versions = [t._version for t in point.inputs] if later else ()
        return point

    def compute(self, what: str, directions: Sequence[Tensor] = (), given: Sequence[Any] = ()) -> list[Any]:
        """Run a kernel and return its results as tensors or arrays. `directions` are its tangents or cotangents, and `given` the values
        that the caller passed for them."""
        for i, version in enumerate(self._versions):
            if self.inputs[i]._version != version:
                label = self.program.graph.labels[i]
                raise RuntimeError(f"{label} has been written to in place since this derivative was begun: begin it again, or pass a copy")
        found: list[Tensor] = self.program.compute(what, self.chosen, [*self.inputs, *directions])
        arrays = self.returns_arrays
        if arrays is None:
            arrays = self.kinds | kinds_of(given) == ARRAYS
        return [array_of(t._storage) for t in found] if arrays else found

    def in_structure(self, found: Sequence[Any]) -> Any:
        """Return derivatives in the structure of the selected inputs."""
        return _in_structure(self.choice.structure, found)

    def by_output(self, found: list[Any], arrange: Unflatten) -> Any:
        """Return derivatives in the structure of the results."""
        return _by_output(self.program, arrange)(found)

    @property
    def values(self) -> list[Value]:
        """The selected inputs, as graph values."""
        return [self.program.graph.inputs[i] for i in self.chosen]

    @property
    def labels(self) -> list[str]:
        return [self.program.graph.labels[i] for i in self.chosen]


def _in_structure(form: Any, found: Sequence[Any]) -> Any:
    return found[0] if form is LEAF else unflatten(form, found)


def _by_output(program: Any, arrange: Unflatten) -> Unflatten:
    """Return a function that puts derivatives, equally many for each output, into the structure of the results."""

    def by_output(found: list[Any]) -> Any:
        each = len(found) // leaf_count(program.structure)
        return _in_structure(program.structure, [arrange(found[k : k + each]) for k in range(0, len(found), each)])

    return by_output


def direction(given: Any, like: Value | Meta, name: str) -> Tensor:
    """Return a tangent or cotangent as a tensor of the shape and dtype of `like`; raise ValueError if it does not fit."""
    array = storage_of(given) if isinstance(given, Tensor) else _array_of(given)
    given_kind = kind(array.dtype)
    if given_kind not in ("b", "i", "f", "c") or array.shape != like.shape or (given_kind == "c" and kind(like.dtype) != "c"):
        raise ValueError(f"{name} must be {type_text(like)}, got {describe(given)}")
    return given if isinstance(given, Tensor) and array.dtype == like.dtype else wrap(np.asarray(array, like.dtype).copy())


def _array_of(given: Any) -> Any:
    """Return a direction that is not a tensor as an array; fractions and SymPy numbers become floats."""
    array = np.asarray(given)
    if array.dtype != object:
        return array
    numbers = [native_number(x) for x in array.flat]
    return array if None in numbers else np.array(numbers).reshape(array.shape)


class Pullback:
    """The VJP at one point: call it with cotangents in the structure of the results; it returns the cotangents of the inputs."""

    def __init__(self, point: DerivativePoint, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<vjp of {self._name} in {', '.join(self._point.labels)}: call it with cotangents>"

    @property
    def value(self) -> Any:
        """The result of the function at this point."""
        return _value(self._point, f"the vjp of {self._name}")

    def __call__(self, *cotangents: Any) -> Any:
        refuse_kernels(f"the vjp of {self._name}")
        program = self._point.program
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        outputs: Iterator[Value] = iter(program.graph.outputs)
        leaves = list(leaves_like(program.structure, given, "the cotangent"))
        seeds = [cotangent(x, next(outputs), where) for x, where in leaves]
        return self._point.in_structure(self._point.compute("vjp", seeds, [x for x, _ in leaves]))


def cotangent(given: Any, like: Value | Meta, where: str) -> Tensor:
    """Return the cotangent of one result."""
    if kind(like.dtype) not in "fc":  # integers have none, and the kernel does not read it
        return wrap(np.zeros(like.shape, like.dtype))
    return direction(given, like, where)


class Pushforward:
    """The JVP at one point: call it with tangents of the inputs; it returns the tangents of the results."""

    def __init__(self, point: DerivativePoint, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<jvp of {self._name} in {', '.join(self._point.labels)}: call it with tangents>"

    @property
    def value(self) -> Any:
        """The result of the function at this point."""
        return _value(self._point, f"the jvp of {self._name}")

    def __call__(self, *tangents: Any) -> Any:
        refuse_kernels(f"the jvp of {self._name}")
        found = self._point.compute("jvp", *_directions(self._point, tangents, "the tangent"))
        return self._point.by_output(found, lambda group: group[0])


def _directions(point: DerivativePoint, given: Sequence[Any], name: str) -> tuple[list[Tensor], list[Any]]:
    """Return the directions as tensors for the kernel, and as they were passed."""
    leaves = list(selected_tangents(point.choice, given, point.labels, name))
    return [direction(x, v, f"{name} of {label}") for x, v, label in zip(leaves, point.values, point.labels, strict=True)], leaves


def _value(point: DerivativePoint, name: str) -> Any:
    refuse_kernels(name)
    found = point.compute("forward")
    return found[0] if point.program.structure is LEAF else unflatten(point.program.structure, found)


def _wrt_key(wrt: Any) -> Any:
    """Return `wrt` as part of a dictionary key, in which True differs from 1."""
    if wrt is None or wrt.__class__ is str:
        return wrt
    return tuple([(x.__class__, x) for x in wrt]) if isinstance(wrt, (tuple, list)) else (wrt.__class__, wrt)


_MAX_POINTS = 256
_UNFLATTEN: dict[tuple[str, bool], Unflatten] = {
    ("grad", True): itemgetter(0),
    ("grad", False): tuple,
    ("value_and_grad", True): tuple,
    ("value_and_grad", False): lambda found: (found[0], tuple(found[1:])),
}
"""Puts gradients into their structure, for one tensor (True) or a tuple of tensors (False)."""


def _unflatten_for(what: str, point: DerivativePoint) -> Unflatten:
    """Return a function that puts a kernel's results into their structure. It outlives the point, and does not keep its inputs alive."""
    form, count, program = point.choice.structure, len(point.chosen), point.program
    if what == "jacobian":
        return _by_output(program, lambda found: _in_structure(form, found))
    if what == "hessian":

        def square(found: Sequence[Any]) -> Any:
            return _in_structure(form, [_in_structure(form, found[k : k + count]) for k in range(0, len(found), count)])

        return _by_output(program, square)
    if form is LEAF or (point.choice.is_tuple and all(part is LEAF for part in form)):
        return _UNFLATTEN[what, form is LEAF]
    return (lambda found: unflatten(form, found)) if what == "grad" else lambda found: (found[0], unflatten(form, found[1:]))


class DerivativeMethods:
    """Mixin with the derivative methods of a compiled function."""

    _name: str
    signature: Signature
    options: Options
    _points: dict[Any, tuple[PureProgram, WrtSelection]]
    """Programs and selected inputs, by `wrt` and the types of the arguments."""
    _fast: FastPath
    _fast_entries: dict[Any, FastPathEntry]
    """The entries of `_fast`."""
    _requests: dict[int, Any]
    """`wrt` objects by id: keeping them here ensures that no other object gets the same id."""

    @property
    def _latest(self) -> PureProgram | EffectfulProgram | None:
        """The program that ran last."""
        return self._fast.last_run.program  # type: ignore[no-any-return]

    @_latest.setter
    def _latest(self, program: PureProgram | EffectfulProgram | None) -> None:
        self._fast.last_run.target_or_program = program

    def _differentiable(self, args: Any, kwargs: Any, what: str, wrt: Any) -> tuple[Call, Any, WrtSelection]:
        raise NotImplementedError

    def _point(self, what: str, args: Any, kwargs: Any, wrt: Any) -> DerivativePoint:
        later, types = what in ("vjp", "jvp"), None if kwargs else tensor_types(args, False)
        key = _wrt_key(wrt), types
        if types is not None and key in self._points:
            program, choice = self._points[key]
            if program.guards.check(args):
                self._latest = program
                return DerivativePoint.for_arguments(program, choice, args, self.options.returns, later)
        args, kwargs = self.signature.with_floats(args, kwargs, wrt)
        call, program, choice = self._differentiable(args, kwargs, what, wrt)
        point = DerivativePoint(program, call, choice, self.options.returns, later)
        if types is not None and call.plain and not program.expected_outcomes and not program.guards.scalar_conditions:
            self._keep(key, point)
        return point

    def _inlined(self, args: Any, kwargs: Any, wrt: Any) -> InlinedDerivatives:
        return InlinedDerivatives(self.signature.function, args, kwargs, wrt, self.options.returns)

    def _choice(self, call: Call, program: PureProgram | EagerFallback, wrt: Any) -> WrtSelection:
        """Return the selected inputs; an explicit `wrt` is resolved once for each program."""
        known = program.choices
        key = _wrt_key(wrt)
        choice = known.get(key)
        if choice is None:
            leaves = (*call.leaves, *program.captured)
            choice = select_wrt(
                wrt, self.signature.named_arguments(call), program.graph.labels, leaves, len(call.leaves), call.scalar_types
            )
            if wrt is not None:
                known[key] = choice
        return choice

    def _computed(self, what: str, args: Any, kwargs: Any, wrt: Any) -> Any:
        """Return a derivative, by the fast path if there is one for an equal `wrt`."""
        key = what, _wrt_key(wrt), call_key(args, kwargs)
        entry = self._fast_entries.get(key)
        if entry is not None:
            found = entry.run(args, kwargs)
            if found is not CACHE_MISS:
                self._remember_request(what, args, kwargs, wrt)
                return found
        if under_outer_transform():
            return getattr(self._inlined(args, kwargs, wrt), what)()
        point = self._point(what, args, kwargs, wrt)
        form = _unflatten_for(what, point)
        results = form(point.compute(what))
        if isinstance(point.program, PureProgram) and not point.program.expected_outcomes:
            target = make_target(point.program.kernel(what, point.chosen), point.program, form, self.options.returns)
            if target is not None:
                self._fast.add(key, self.signature.bind(args, kwargs), target, records=False)
                self._remember_request(what, args, kwargs, wrt)
        return results

    def _remember_request(self, what: str, args: Any, kwargs: Any, wrt: Any) -> None:
        """Let the identity of `wrt` find the fast path next time; not for a list, which may change."""
        key = what, _wrt_key(wrt), call_key(args, kwargs)
        if isinstance(wrt, list) or key not in self._fast_entries:
            return
        if len(self._requests) >= _MAX_REQUESTS:
            for known in [k for k in self._fast_entries if isinstance(k, tuple) and len(k) > 1 and k[1] in self._requests]:
                self._fast_entries.pop(known, None)
            self._requests = {}
        self._requests[id(wrt)] = wrt
        self._fast_entries[what, id(wrt), len(args), *kwargs] = self._fast_entries[key]

    def _keep(self, key: Any, point: DerivativePoint) -> None:
        if len(self._points) >= _MAX_POINTS:
            self._points.clear()
        self._points[key] = point.program, point.choice

    def value_and_grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """Return the scalar result and its gradients: in the structure of the argument if `wrt` is one name or position, else in a
        tuple."""
        entry = self._fast_entries.get(("value_and_grad", id(wrt), len(args), *kwargs))
        found: Any = CACHE_MISS if entry is None else entry.run(args, kwargs)
        return self._computed("value_and_grad", args, kwargs, wrt) if found is CACHE_MISS else found  # type: ignore[no-any-return]

    def grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the gradients of the scalar result, in the structure that `value_and_grad` describes."""
        entry = self._fast_entries.get(("grad", id(wrt), len(args), *kwargs))
        found = CACHE_MISS if entry is None else entry.run(args, kwargs)
        return self._computed("grad", args, kwargs, wrt) if found is CACHE_MISS else found

    def vjp(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Pullback | InlinedPullback:
        """Return the VJP at these arguments: `fast.vjp(x, w)(v)` returns the cotangents of the inputs for a cotangent v of the result."""
        if under_outer_transform():
            return InlinedPullback(self._inlined(args, kwargs, wrt))
        return Pullback(self._point("vjp", args, kwargs, wrt), self._name)

    def jvp(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Pushforward | InlinedPushforward:
        """Return the JVP at these arguments: `fast.jvp(x, w)(tx, tw)` returns the tangent of the result for tangents of the inputs."""
        if under_outer_transform():
            return InlinedPushforward(self._inlined(args, kwargs, wrt))
        return Pushforward(self._point("jvp", args, kwargs, wrt), self._name)

    def jacobian(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the Jacobian, shaped (*result, *input), in the structure of the results; computed by VJPs or JVPs, whichever costs
        less."""
        return self._computed("jacobian", args, kwargs, wrt)

    def hessian(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the Hessian, shaped (*result, *input, *input): one tensor if `wrt` names one tensor, else a tuple of tuples."""
        return self._computed("hessian", args, kwargs, wrt)

    def hvp(self, /, *args: Any, v: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the Hessian of the scalar result times `v`, without forming the Hessian. Both have the structure of the argument if `wrt`
        is one name or position, else they are tuples."""
        if under_outer_transform():
            return self._inlined(args, kwargs, wrt).hvp(v)
        point = self._point("hvp", args, kwargs, wrt)
        return point.in_structure(point.compute("hvp", *_directions(point, (v,), "v")))
