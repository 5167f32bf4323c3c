"""The derivatives of a compiled function, each one kernel.

`wrt` selects the inputs: one name or position (then a derivative has the structure of that argument: one tensor, or a container of them),
or several (then it is a tuple, and a Hessian a tuple of tuples). By default these are the inputs that require grad, or else every
floating-point tensor or array among the arguments; Python floats only if there are none. Captured tensors can be named too.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from symgrad.compiler.function.eager_fallback import EagerFallback
from symgrad.compiler.function.nested import InlinedDerivatives, InlinedPullback, InlinedPushforward, under_outer_transform
from symgrad.compiler.function.points import DerivativePoint, Pullback, Pushforward, by_output, directions, in_structure
from symgrad.compiler.function.sparse import find_plan, form_of
from symgrad.compiler.function.sparsity_pattern import SparsityPattern
from symgrad.compiler.function.structured import eager_derivative, structured_form
from symgrad.compiler.inputs.signature import Call, Signature, tensor_types
from symgrad.compiler.inputs.wrt import WrtSelection, select_wrt
from symgrad.compiler.options import Options
from symgrad.compiler.runtime.cache import NOT_KEPT, ProgramCache
from symgrad.compiler.runtime.derivative_graphs import taylor_name
from symgrad.compiler.runtime.executables import Unflatten, make_target
from symgrad.compiler.runtime.fast_path import FastPathEntry, call_key
from symgrad.compiler.runtime.program import CACHE_MISS, Program
from symgrad.compiler.support.source_lines import user_line
from symgrad.errors import TraceError
from symgrad.func.taylor import check_order
from symgrad.pytree import LEAF, unflatten
from symgrad.tensor import Tensor


def _wrt_key(wrt: Any) -> Any:
    """Return `wrt` as part of a dictionary key, in which True differs from 1."""
    if wrt is None or wrt.__class__ is str:
        return wrt
    return tuple([(x.__class__, x) for x in wrt]) if isinstance(wrt, (tuple, list)) else (wrt.__class__, wrt)


_STRUCTURED = "structured_"
"""Prefix of the names of derivatives that are structured matrices."""
_UNFLATTEN: dict[tuple[str, bool], Unflatten] = {
    ("grad", True): itemgetter(0),
    ("grad", False): tuple,
    ("value_and_grad", True): tuple,
    ("value_and_grad", False): lambda found: (found[0], tuple(found[1:])),
}
"""Puts gradients into their structure, for one tensor (True) or a tuple of tensors (False)."""


def _unflatten_for(what: str, point: DerivativePoint) -> Unflatten:
    """Return a function that puts a kernel's results into their structure. It outlives the point, and does not keep its inputs alive."""
    if what.startswith(_STRUCTURED):
        return structured_form(what.removeprefix(_STRUCTURED), point)
    form, count, program = point.choice.structure, len(point.chosen), point.program
    if what == "jacobian":
        return by_output(program, lambda found: in_structure(form, found))
    if what == "hessian":

        def square(found: Sequence[Any]) -> Any:
            return in_structure(form, [in_structure(form, found[k : k + count]) for k in range(0, len(found), count)])

        return by_output(program, square)
    if form is LEAF or (point.choice.is_tuple and all(part is LEAF for part in form)):
        return _UNFLATTEN[what, form is LEAF]
    return (lambda found: unflatten(form, found)) if what == "grad" else lambda found: (found[0], unflatten(form, found[1:]))


class DerivativeMethods:
    """Mixin with the derivative methods of a compiled function."""

    _name: str
    signature: Signature
    options: Options
    _program_cache: ProgramCache
    _fast_entries: dict[Any, FastPathEntry]
    """The entries of the fast path."""

    @property
    def _latest(self) -> Program | None:
        """The program that ran last."""
        return self._program_cache.latest

    @_latest.setter
    def _latest(self, program: Program | None) -> None:
        self._program_cache.latest = program

    def _differentiable(self, args: Any, kwargs: Any, what: str, wrt: Any) -> tuple[Call, Any, WrtSelection]:
        raise NotImplementedError

    def _point(self, what: str, args: Any, kwargs: Any, wrt: Any) -> DerivativePoint:
        """Return the arguments of a derivative with its program, once they are what the function assumes."""
        point = self._found_point(what, args, kwargs, wrt)
        if self.options.check_assumptions and isinstance(point.program, Program):
            point.program.check_assumptions(point.inputs)
        return point

    def _found_point(self, what: str, args: Any, kwargs: Any, wrt: Any) -> DerivativePoint:
        later, types = what in ("vjp", "jvp"), None if kwargs else tensor_types(args, False)
        key = "wrt", _wrt_key(wrt), types
        known, selected = self._program_cache.by_types.get(key, NOT_KEPT)
        if known is not None and selected is not None and known.guards.check(args):
            self._latest = known
            return DerivativePoint.for_arguments(known, selected, args, self.options.returns, later)
        args, kwargs = self.signature.with_floats(args, kwargs, wrt)
        call, program, choice = self._differentiable(args, kwargs, what, wrt)
        point = DerivativePoint(program, call, choice, self.options.returns, later)
        fixed = isinstance(program, Program) and not (program.path.expected or program.guards.scalar_conditions)
        if types is not None and call.plain and fixed:
            self._program_cache.keep_by_types(key, program, choice)
        return point

    def _inlined(self, args: Any, kwargs: Any, wrt: Any) -> InlinedDerivatives:
        return InlinedDerivatives(self.signature.function, args, kwargs, wrt, self.options.returns)

    def _choice(self, call: Call, program: Program | EagerFallback, wrt: Any) -> WrtSelection:
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
        if isinstance(point.program, EagerFallback) and what.startswith(_STRUCTURED):
            return eager_derivative(what.removeprefix(_STRUCTURED), point)
        form = _unflatten_for(what, point)
        results = form(point.compute(what))
        if isinstance(point.program, Program) and not point.program.path.expected:
            target = make_target(point.program.kernel(what, point.chosen), point.program, form, self.options.returns)
            if target is not None:
                self._program_cache.fast.add(key, self.signature.bind(args, kwargs), target, records=False)
                self._remember_request(what, args, kwargs, wrt)
        return results

    def _remember_request(self, what: str, args: Any, kwargs: Any, wrt: Any) -> None:
        """Let the identity of `wrt` find the fast path next time; not for a list, which may change."""
        if not isinstance(wrt, list):
            form = call_key(args, kwargs)
            self._program_cache.fast.add_alias((what, _wrt_key(wrt), form), (what, id(wrt), len(args), *kwargs), wrt)

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

    def _matrix(self, what: str, args: Any, kwargs: Any, wrt: Any, sparse: bool | str, structured: bool) -> Any:
        """Return a derivative as a sparse or structured matrix."""
        form = "structured" if structured else "sparse"
        if structured and sparse is not False:
            raise ValueError(f"{what}: pass structured=True, which has to_scipy() and to_bcoo(), or sparse={sparse!r}, not both")
        if under_outer_transform():
            raise TraceError(
                f"{user_line()}: a {form} {what} is no tensor, and cannot be computed inside of code that is traced or differentiated"
            )
        if structured:
            return self._computed(f"{_STRUCTURED}{what}", args, kwargs, wrt)
        return self._sparse(what, args, kwargs, wrt, sparse)

    def _sparse(self, what: str, args: Any, kwargs: Any, wrt: Any, sparse: bool | str) -> Any:
        key = (what, sparse), _wrt_key(wrt), call_key(args, kwargs)
        entry = self._fast_entries.get(key)
        found: Any = CACHE_MISS if entry is None else entry.run(args, kwargs)
        if found is not CACHE_MISS:
            return found
        form, point = form_of(sparse), self._point(what, args, kwargs, wrt)
        plan, arrange = find_plan(point, what), _unflatten_for(what, point)
        results = arrange(plan.matrices(point, form))
        target = plan.target(form, arrange)
        if target is not None:
            self._program_cache.fast.add(key, self.signature.bind(args, kwargs), target, records=False)
        return results

    def jacobian(self, /, *args: Any, wrt: Any = None, sparse: bool | str = False, structured: bool = False, **kwargs: Any) -> Any:
        """Return the Jacobian, shaped (*result, *input), in the structure of the results; computed by VJPs or JVPs, whichever costs
        less. With sparse=True (or "csr", "coo", "bcoo") each block is a sparse matrix of shape (result.numel(), input.numel()). With
        structured=True each result has a `StructuredMatrix`, which keeps zeros and products apart."""
        if structured or sparse is not False:
            return self._matrix("jacobian", args, kwargs, wrt, sparse, structured)
        return self._computed("jacobian", args, kwargs, wrt)

    def hessian(self, /, *args: Any, wrt: Any = None, sparse: bool | str = False, structured: bool = False, **kwargs: Any) -> Any:
        """Return the Hessian, shaped (*result, *input, *input): one tensor if `wrt` names one tensor, else a tuple of tuples. With
        `sparse`, as for `jacobian`, the blocks of a scalar's Hessian are sparse matrices. With structured=True it is one
        `StructuredMatrix` for all selected inputs, which multiplies and solves at the cost of its structure."""
        if structured or sparse is not False:
            return self._matrix("hessian", args, kwargs, wrt, sparse, structured)
        return self._computed("hessian", args, kwargs, wrt)

    def sparsity(self, /, *args: Any, wrt: Any = None, of: str | None = None, **kwargs: Any) -> Any:
        """Return where a derivative may be nonzero, as `SparsityPattern` objects in the structure of the derivative, which print and plot
        the pattern. `of` is "jacobian" or "hessian"; by default the Hessian if the result is one number."""
        if of not in (None, "jacobian", "hessian"):
            raise ValueError(f"of={of!r}: there are the patterns of the 'jacobian' and of the 'hessian'")
        point = self._point("sparsity", args, kwargs, wrt)
        outputs = point.program.graph.outputs if isinstance(point.program, Program) else ()
        what = of or ("hessian" if len(outputs) == 1 and outputs[0].size == 1 else "jacobian")
        return _unflatten_for(what, point)([SparsityPattern(block, what) for block in find_plan(point, what).blocks])

    def hvp(self, /, *args: Any, v: Any = None, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the Hessian of the scalar result times `v`, without forming the Hessian. Both have the structure of the argument if `wrt`
        is one name or position, else they are tuples."""
        if v is None:
            form = "one tensor or container, like the argument," if wrt.__class__ in (str, int) else "a tuple with one for each argument"
            raise TypeError(f"{user_line()}: hvp multiplies the Hessian by a direction: pass v=..., {form} that wrt selects")
        if under_outer_transform():
            return self._inlined(args, kwargs, wrt).hvp(v)
        point = self._point("hvp", args, kwargs, wrt)
        return point.in_structure(point.compute("hvp", *directions(point, (v,), "v")))

    def taylor(self, /, *args: Any, order: int, v: Any = None, wrt: Any = None, **kwargs: Any) -> list[Any]:
        """Return the Taylor coefficients 0 to `order` of the result along `v`, each in the structure of the result:
        `f(x + t v) = c[0] + c[1] t + c[2] t² + ...`. A direction that is not given is all ones."""
        check_order(order)
        if under_outer_transform():
            return self._inlined(args, kwargs, wrt).taylor(v, order)
        point = self._point("taylor", args, kwargs, wrt)
        found = point.compute(taylor_name(order, v is None), *([] if v is None else directions(point, (v,), "v")))
        return [point.by_output(found[k :: order + 1], itemgetter(0)) for k in range(order + 1)]
