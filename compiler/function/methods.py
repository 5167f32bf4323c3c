"""What a compiled function offers besides being called: derivatives of every kind, each one kernel.

`wrt` says in which inputs: a name or a position (then a derivative has the form of that argument: one tensor, or a container of them), or
several (then it is a tuple, and a Hessian a tuple of tuples). Without it, those that require grad, or else every floating-point argument.
Tensors that the function brings along have names, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.function.eagerly import Eagerly
from symgrad.compiler.function.nested import Nested, NestedPullback, NestedPushforward, looked_at, refuse_kernels
from symgrad.compiler.graph.ir import Value, type_text
from symgrad.compiler.running.program import MISS, Program
from symgrad.compiler.running.shortcut import Run, derivative, no_shortcut, value_and_gradients
from symgrad.compiler.running.state import Step
from symgrad.compiler.tracing.choice import Choice, choose, tangents
from symgrad.compiler.tracing.signature import Call, Signature, types_of
from symgrad.compiler.tracing.tree import LEAF, leaves_like, unflatten
from symgrad.errors import describe
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.resident import memory
from symgrad.tensor import Tensor, wrap

_MOST_WAYS = 64


class Point:
    """Where a derivative is taken: a program, its inputs, and which of them are meant."""

    def __init__(self, program: Program | Eagerly, call: Call, choice: Choice, later: bool = False) -> None:
        self.program: Any = program
        self.choice, self.chosen = choice, choice.inputs
        self.inputs, self.plain = program.inputs(call), call.plain
        if later:  # the user may write to arrays of his own until then
            kept = len(call.leaves)
            self.inputs[:kept] = [t if isinstance(x, Tensor) else wrap(x.copy()) for t, x in zip(self.inputs, call.leaves, strict=False)]
        self._versions = [t._version for t in self.inputs] if later else ()

    @staticmethod
    def known(program: Program, choice: Choice, tensors: Sequence[Tensor], later: bool) -> Point:
        """The same for other arguments of the same types."""
        point = Point.__new__(Point)
        point.program, point.choice, point.chosen, point.plain = program, choice, choice.inputs, True
        point.inputs = [*tensors, *program.captured]
        point._versions = [t._version for t in point.inputs] if later else ()
        return point

    def compute(self, what: str, directions: Sequence[Tensor] = ()) -> list[Tensor]:
        for i, version in enumerate(self._versions):
            if self.inputs[i]._version != version:
                label = self.program.graph.labels[i]
                raise RuntimeError(f"{label} has been written to in place since this derivative was begun: begin it again, or pass a copy")
        found: list[Tensor] = self.program.compute(what, self.chosen, [*self.inputs, *directions])
        return found

    def formed(self, found: Sequence[Any]) -> Any:
        """Derivatives in the form of what they are derivatives in."""
        return found[0] if self.choice.form is LEAF else unflatten(self.choice.form, found)

    def by_output(self, found: Sequence[Tensor], each: int, arrange: Callable[[Sequence[Tensor]], Any]) -> Any:
        """Derivatives, `each` many for every output, in the containers of the results."""
        groups = [arrange(found[k : k + each]) for k in range(0, len(found), each)]
        return groups[0] if self.program.structure is LEAF else unflatten(self.program.structure, groups)

    def square(self, found: Sequence[Tensor]) -> Any:
        count = len(self.chosen)
        return self.formed([self.formed(found[k : k + count]) for k in range(0, len(found), count)])

    @property
    def values(self) -> list[Value]:
        """The inputs that are meant, as values of the graph."""
        return [self.program.graph.inputs[i] for i in self.chosen]

    @property
    def labels(self) -> list[str]:
        return [self.program.graph.labels[i] for i in self.chosen]


def direction(given: Any, like: Value | Meta, name: str) -> Tensor:
    """A tangent or cotangent as the kernel takes it: of the shape and type of what it belongs to."""
    array = memory(given) if isinstance(given, Tensor) else np.asarray(given)
    given_kind = kind(array.dtype)
    if given_kind not in ("b", "i", "f", "c") or array.shape != like.shape or (given_kind == "c" and kind(like.dtype) != "c"):
        raise ValueError(f"{name} must be {type_text(like)}, got {describe(given)}")
    return given if isinstance(given, Tensor) and array.dtype == like.dtype else wrap(np.asarray(array, like.dtype).copy())


class Pullback:
    """The VJP at one point: call it with cotangents, in the form of the results; it gives those of the inputs."""

    def __init__(self, point: Point, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<vjp of {self._name} in {', '.join(self._point.labels)}: call it with cotangents>"

    @property
    def value(self) -> Any:
        """What the function gives at this point."""
        return _value(self._point, f"the vjp of {self._name}")

    def __call__(self, *cotangents: Any) -> Any:
        refuse_kernels(f"the vjp of {self._name}")
        program = self._point.program
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        outputs: Iterator[Value] = iter(program.graph.outputs)
        seeds = [cotangent(x, next(outputs), where) for x, where in leaves_like(program.structure, given, "the cotangent")]
        return self._point.formed(self._point.compute("vjp", seeds))


def cotangent(given: Any, like: Value | Meta, where: str) -> Tensor:
    """The cotangent of one result."""
    if kind(like.dtype) not in "fc":  # whole numbers have none, and nobody reads it
        return wrap(np.zeros(like.shape, like.dtype))
    return direction(given, like, where)


class Pushforward:
    """The JVP at one point: call it with tangents of the inputs, it gives those of the results."""

    def __init__(self, point: Point, name: str) -> None:
        self._point, self._name = point, name

    def __repr__(self) -> str:
        return f"<jvp of {self._name} in {', '.join(self._point.labels)}: call it with tangents>"

    @property
    def value(self) -> Any:
        """What the function gives at this point."""
        return _value(self._point, f"the jvp of {self._name}")

    def __call__(self, *tangents: Any) -> Any:
        refuse_kernels(f"the jvp of {self._name}")
        found = self._point.compute("jvp", _directions(self._point, tangents, "the tangent"))
        return self._point.by_output(found, 1, lambda group: group[0])


def _directions(point: Point, given: Sequence[Any], name: str) -> list[Tensor]:
    leaves = tangents(point.choice, given, point.labels, name)
    return [direction(x, v, f"{name} of {label}") for x, v, label in zip(leaves, point.values, point.labels, strict=True)]


def _value(point: Point, name: str) -> Any:
    refuse_kernels(name)
    found = point.compute("forward")
    return found[0] if point.program.structure is LEAF else unflatten(point.program.structure, found)


def _named(wrt: Any) -> Any:
    """What was asked for as part of a key, in which True is not 1."""
    if wrt is None or wrt.__class__ is str:
        return wrt
    return tuple([(x.__class__, x) for x in wrt]) if isinstance(wrt, (tuple, list)) else (wrt.__class__, wrt)


_MOST_POINTS = 256
_NOTHING = object()
_FORMS: dict[tuple[str, bool], Callable[[list[Tensor]], Any]] = {
    ("grad", True): lambda found: found[0],
    ("grad", False): tuple,
    ("value_and_grad", True): lambda found: (found[0], found[1]),
    ("value_and_grad", False): value_and_gradients,
}
"""What gradients are given as, in one tensor or in several."""


def _form(what: str, point: Point) -> Callable[[list[Tensor]], Any]:
    form = point.choice.form
    if form is LEAF or (point.choice.several and all(part is LEAF for part in form)):
        return _FORMS[what, form is LEAF]
    return (lambda found: unflatten(form, found)) if what == "grad" else lambda found: (found[0], unflatten(form, found[1:]))


class Methods:
    """The derivatives of a compiled function, at arguments."""

    _name: str
    _latest: Program | Step | None
    signature: Signature
    _points: dict[Any, tuple[Program, Choice]]
    """The short way to derivatives: program and inputs, by what was asked for."""
    _ways: dict[Any, Run]
    """The shortest way to gradients, for arguments like the last ones."""
    _latest_way: tuple[Any, Any, Run] = (None, None, no_shortcut)
    """What was asked for last, by identity: looking that up costs nothing."""

    def _differentiable(self, args: Any, kwargs: Any, what: str) -> tuple[Call, Any]:
        raise NotImplementedError

    def _point(self, what: str, args: Any, kwargs: Any, wrt: Any) -> Point:
        later, types = what in ("vjp", "jvp"), None if kwargs else types_of(args, False)
        key = _named(wrt), types
        if types is not None and key in self._points:
            program, choice = self._points[key]
            if program.guards.hold(args):
                self._latest = program
                return Point.known(program, choice, args, later)
        call, program = self._differentiable(args, kwargs, what)
        point = Point(program, call, self._choice(call, program, wrt), later)
        if types is not None and call.plain and not program.answers and not program.guards.conditions:
            self._keep(key, point)
        return point

    def _nested(self, args: Any, kwargs: Any, wrt: Any) -> Nested:
        return Nested(self.signature.function, args, kwargs, wrt)

    def _choice(self, call: Call, program: Program | Eagerly, wrt: Any) -> Choice:
        """In which inputs; what is said by name is looked up once for each program."""
        known = program.choices
        key = _named(wrt)
        choice = known.get(key)
        if choice is None:
            leaves = (*call.leaves, *program.captured)
            choice = choose(wrt, self.signature.places(call), program.graph.labels, leaves, len(call.leaves), call.weak)
            if wrt is not None:
                known[key] = choice
        return choice

    def _computed(self, what: str, args: Any, kwargs: Any, wrt: Any) -> Any:
        """Gradients, by the shortest way that is known, or else by the long one."""
        if not kwargs:
            found = self._way(what, wrt)(args)
            if found is not MISS:
                return found
        if looked_at():
            return getattr(self._nested(args, kwargs, wrt), what)()
        point = self._point(what, args, kwargs, wrt)
        form = _form(what, point)
        results = form(point.compute(what))
        if not kwargs and not point.program.answers and point.plain:
            if len(self._ways) >= _MOST_WAYS:
                self._ways.clear()
            self._ways[what, _named(wrt)] = derivative(point.program, point.program.kernel(what, point.chosen), form, wrt is None)
            self._way(what, wrt)
        return results

    def _way(self, what: str, wrt: Any) -> Run:
        """The shortest way that is known; a list may be another one the next time."""
        way = self._ways.get((what, _named(wrt)), no_shortcut)
        self._latest_way = what, _NOTHING if isinstance(wrt, list) else wrt, way
        return way

    def _keep(self, key: Any, point: Point) -> None:
        if len(self._points) >= _MOST_POINTS:
            self._points.clear()
        self._points[key] = point.program, point.choice

    def value_and_grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """The scalar result and its gradients: in the form of the argument if `wrt` is one name or position, else in a tuple."""
        what, asked, way = self._latest_way
        if asked is wrt and what == "value_and_grad" and not kwargs:
            found = way(args)
            if found is not MISS:
                return found  # type: ignore[no-any-return]
        return self._computed("value_and_grad", args, kwargs, wrt)  # type: ignore[no-any-return]

    def grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """The gradients of the scalar result, as `value_and_grad` gives them."""
        what, asked, way = self._latest_way
        if asked is wrt and what == "grad" and not kwargs:
            found = way(args)
            if found is not MISS:
                return found
        return self._computed("grad", args, kwargs, wrt)

    def vjp(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Pullback | NestedPullback:
        """The VJP at these arguments: `fast.vjp(x, w)(v)` gives the cotangents of the inputs for a cotangent v of the result."""
        if looked_at():
            return NestedPullback(self._nested(args, kwargs, wrt))
        return Pullback(self._point("vjp", args, kwargs, wrt), self._name)

    def jvp(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Pushforward | NestedPushforward:
        """The JVP at these arguments: `fast.jvp(x, w)(tx, tw)` gives the tangent of the result for tangents of the inputs."""
        if looked_at():
            return NestedPushforward(self._nested(args, kwargs, wrt))
        return Pushforward(self._point("jvp", args, kwargs, wrt), self._name)

    def jacobian(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """The Jacobian, shaped (*result, *input), in the containers of the results; by the VJP or the JVP, whichever is less work."""
        if looked_at():
            return self._nested(args, kwargs, wrt).jacobian()
        point = self._point("jacobian", args, kwargs, wrt)
        return point.by_output(point.compute("jacobian"), len(point.chosen), point.formed)

    def hessian(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """The Hessian, shaped (*result, *input, *input): one tensor if `wrt` is one of a tensor, else a tuple of tuples."""
        if looked_at():
            return self._nested(args, kwargs, wrt).hessian()
        point = self._point("hessian", args, kwargs, wrt)
        return point.by_output(point.compute("hessian"), len(point.chosen) ** 2, point.square)

    def hvp(self, /, *args: Any, v: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """The Hessian of the scalar result times `v`, without the Hessian. Both have the form of the argument if `wrt` is one name or
        position, else they are tuples."""
        if looked_at():
            return self._nested(args, kwargs, wrt).hvp(v)
        point = self._point("hvp", args, kwargs, wrt)
        return point.formed(point.compute("hvp", _directions(point, (v,), "v")))
