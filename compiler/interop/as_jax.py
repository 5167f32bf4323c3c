"""A symgrad function as a pure function on JAX arrays, whose derivatives are symgrad's closed forms.

It is traced once for each structure and types of its arguments, from shapes and dtypes alone, so it works under jax.jit, vmap and grad,
where there are no values. With mode="vjp" it is a custom_vjp, whose rule is the VJP of the symgrad graph. With mode="jvp" it is a
custom_jvp, which JAX can also transpose. The rules are themselves functions of the second kind, so derivatives of every order, also forward
over reverse, are symgrad's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from symgrad.compiler.autodiff import pull as differentiate
from symgrad.compiler.autodiff.forward import jvp
from symgrad.compiler.backends.xla.function import KERNEL_ONLY, function, lowered
from symgrad.compiler.guards.guard import Guards
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.signature import Signature, Spec
from symgrad.compiler.interop.jax_pytree import ARRAYS, flatten
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.options import Options
from symgrad.compiler.rewrite.assumptions import drop_assumptions
from symgrad.compiler.rewrite.pipeline import DERIVED, TRACED, Off
from symgrad.compiler.trace.trace import Trace, trace
from symgrad.compiler.trace.tracer import user_line
from symgrad.errors import TraceError, describe
from symgrad.lines import warn
from symgrad.ops.promotion import default_float, kind
from symgrad.tensor import Tensor

_MODES = ("vjp", "jvp")


class JaxFunction:
    """A function on JAX arrays in any pytrees: it returns JAX arrays in the containers of the original result."""

    def __init__(self, signature: Signature, options: Options, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f'mode={mode!r}: derivatives come by "vjp" (reverse mode) or by "jvp" (forward mode, which JAX can transpose)')
        self.signature, self.options, self.mode = signature, options, mode
        self._entries: dict[Any, _Entry] = {}
        functools.update_wrapper(self, signature.function, updated=())

    def __repr__(self) -> str:
        return f"<{self.signature} on jax arrays, with its {self.mode.upper()}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        names = tuple(bound.arguments)
        found, tree = flatten(tuple(bound.arguments.values()), [i for i, name in enumerate(names) if name in self.options.static])
        leaves = [(_label(names, path), self._leaf(names[path[0].idx], leaf)) for path, leaf in found]
        wide = is_wide()
        key = tree.key, names, wide, tuple(_key(leaf) for _, leaf in leaves), default_float()
        entry = self._entries.get(key)
        if entry is None or not entry.check_guards():
            entry = self._entries[key] = _Entry(self, tree, names, leaves, wide)
        return entry([leaf for _, leaf in leaves])

    def _leaf(self, name: str, x: Any) -> Any:
        """Return a data leaf as a JAX array, and a setting unchanged."""
        data = isinstance(x, (*ARRAYS, int) if name in self.options.dynamic else ARRAYS)
        if not data or name in self.options.static:
            return x
        if isinstance(x, jax.Array):
            _check_type(name, x)
            return x
        return jnp.array(x._array if isinstance(x, Tensor) else x)  # a copy: the caller may write to the memory while JAX reads it


def is_wide() -> bool:
    """True if JAX's 64-bit types are enabled here and now."""
    return bool(jax.dtypes.canonicalize_dtype(np.float64) == np.float64)


def _check_type(name: str, x: Any) -> None:
    if jnp.issubdtype(x.dtype, jax.dtypes.extended):
        raise TypeError(f"{user_line()}: {name} has the type {x.dtype}, which symgrad has no operations for; pass numbers")


def _label(names: Sequence[str], path: Sequence[Any]) -> str:
    """Return the label of a leaf, `params.w`: the argument, and the path to the leaf in it."""
    words = (getattr(p, "key", getattr(p, "idx", getattr(p, "name", p))) for p in path[1:])
    return ".".join((names[path[0].idx], *map(str, words)))


def _key(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return "array", leaf.shape, str(leaf.dtype)
    if isinstance(leaf, (float, complex, np.inexact)):
        return type(leaf), repr(leaf)  # 0.0 == -0.0, and nan != nan
    try:
        hash(leaf)
    except TypeError:
        return "object", id(leaf)  # the entry keeps it alive
    return type(leaf), leaf


class _Entry:
    """One trace: the function on arrays, its settings, captured tensors and guards."""

    def __init__(self, owner: JaxFunction, tree: Any, names: tuple[str, ...], leaves: Sequence[tuple[str, Any]], wide: bool) -> None:
        self.settings = {i: leaf for i, (_, leaf) in enumerate(leaves) if not isinstance(leaf, jax.Array)}
        self.results: Any = None
        arrays = [(label, Spec(leaf.shape, leaf.dtype)) for label, leaf in leaves if isinstance(leaf, jax.Array)]
        signature = owner.signature

        def run(tensors: Sequence[Tensor]) -> Any:
            given = iter(tensors)
            filled = [self.settings[i] if i in self.settings else next(given) for i in range(len(leaves))]
            values = tree.unflatten(filled)
            bound = inspect.BoundArguments(signature.signature, dict(zip(names, values, strict=True)))
            return self._result_tensors(signature.function(*bound.args, **bound.kwargs))

        traced = trace(
            run, [spec for _, spec in arrays], [label for label, _ in arrays], signature.names(), tensor_names(signature.function)
        )
        self.captured, self.guards = traced.captured, Guards(traced)
        if not wide:
            _warn_of_rounding(str(signature), traced)
        graph = TRACED.run(traced.graph, owner.options.without)
        self.function = Differentiable(graph, getattr(owner, "__name__", "function"), not wide, owner.options.without).by(owner.mode)

    def _result_tensors(self, result: Any) -> list[Tensor]:
        """Return the tensors among the results; the rest is stored as it is."""
        pairs, tree = flatten(result)
        leaves = [x for _, x in pairs]
        self.results = tree, [None if isinstance(x, Tensor) else x for x in leaves]
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if not tensors:
            raise TraceError(f"{user_line()}: the function must return a tensor or tensors, got {describe(result)}")
        return tensors

    def check_guards(self) -> bool:
        return self.guards.check()

    def __call__(self, leaves: Sequence[Any]) -> Any:
        arrays = [leaf for leaf in leaves if isinstance(leaf, jax.Array)]
        given = iter(self.function(*arrays, *(jnp.array(t._array) for t in self.captured)))
        tree, others = self.results
        return tree.unflatten([next(given) if x is None else x for x in others])


def _warn_of_rounding(name: str, traced: Trace) -> None:
    captured = traced.graph.labels[len(traced.graph.labels) - len(traced.captured) :]
    rounded = [label for label, t in zip(captured, traced.captured, strict=True) if t._array.dtype in (np.float64, np.complex128)]
    if rounded:
        warn(
            f"{user_line()}: {name} computes with {', '.join(rounded)} in 64 bits, and JAX is set to 32 (jax_enable_x64 is off), so it is"
            " rounded; call it under jax.enable_x64(True), or give the function tensors of float32",
        )


class Differentiable:
    """A graph as a function that returns a tuple of JAX arrays; `by` selects the rule for its derivatives."""

    def __init__(self, graph: Graph, name: str, narrow: bool, off: Off = ()) -> None:
        self.graph, self.name, self.narrow, self.off = graph, name, narrow, off
        self.single = len(graph.outputs) == 1
        # JAX differentiates it when it nests forward mode, and what follows from assumptions holds for values only
        self.plain = jax.jit(self._typed(function(lowered(drop_assumptions(graph), (*KERNEL_ONLY, *off)), "forward", narrow)), inline=True)
        self.floats = [i for i, v in enumerate(graph.outputs) if kind(v.dtype) in "fc"]
        self.wrt = tuple(i for i, x in enumerate(graph.inputs) if kind(x.dtype) in "fc")

    def by(self, mode: str) -> Any:
        return self.by_vjp if mode == "vjp" else self.by_jvp

    def _typed(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """Return the function with results in the dtypes of the graph, as far as JAX has them."""
        types = [v.dtype for v in self.graph.outputs]

        def run(*arrays: Any) -> tuple[Any, ...]:
            results = function(*arrays)
            several = (results,) if self.single else results
            return tuple(r.astype(jax.dtypes.canonicalize_dtype(t)) for r, t in zip(several, types, strict=True))

        run.__name__ = run.__qualname__ = self.name
        return run

    @functools.cached_property
    def _of_floats(self) -> Graph:
        """The graph without the results that have no derivative."""
        return Graph(self.graph.inputs, (self.graph.outputs[i] for i in self.floats), self.graph.labels)

    def _derived(self, graph: Graph, suffix: str) -> Differentiable:
        return Differentiable(DERIVED.run(graph, self.off), f"{self.name}_{suffix}", self.narrow, self.off)

    @functools.cached_property
    def _transpose(self) -> Differentiable:
        return self._derived(differentiate.vjp(self._of_floats, self.wrt), "vjp")

    @functools.cached_property
    def _pushed(self) -> dict[tuple[int, ...], Differentiable]:
        return {}

    def _push(self, wrt: tuple[int, ...]) -> Differentiable:
        if wrt not in self._pushed:
            self._pushed[wrt] = self._derived(jvp(self._of_floats, wrt), "jvp")
        return self._pushed[wrt]

    @functools.cached_property
    def by_vjp(self) -> Any:
        """The function as a custom_vjp. JAX refuses forward mode for it, but not inside its rule, which calls functions that support both
        modes."""

        def forward(*xs: Any) -> Any:
            return self.by_jvp(*xs), xs

        def backward(xs: Any, gs: Any) -> Any:
            if not self.floats:
                return (None,) * len(xs)
            pulled = self._transpose.by_jvp(*xs, *(_conjugate(gs[i]) for i in self.floats))
            found = dict(zip(self.wrt, map(_conjugate, pulled), strict=True))
            return tuple(found.get(i) for i in range(len(xs)))

        rule = jax.custom_vjp(self.plain)
        rule.defvjp(forward, backward)
        return rule

    @functools.cached_property
    def by_jvp(self) -> Any:
        rule = jax.custom_jvp(self.plain)
        zero = jax.custom_derivatives.SymbolicZero

        def push(xs: Any, tangents: Any) -> Any:
            wrt = tuple(i for i in self.wrt if not isinstance(tangents[i], zero))
            moved = self._push(wrt).by_jvp(*xs, *(tangents[i] for i in wrt)) if wrt and self.floats else ()
            results = rule(*xs)
            found = dict(zip(self.floats, moved, strict=bool(moved)))
            return results, tuple(found.get(i, _no_tangent(r)) for i, r in enumerate(results))

        rule.defjvp(push, symbolic_zeros=True)
        return rule


def _conjugate(cotangent: Any) -> Any:
    """Convert a cotangent between conventions: symgrad's, like PyTorch's, is the direction of steepest ascent; JAX's is its conjugate, so
    that a VJP is a transpose."""
    return jnp.conj(cotangent) if kind(cotangent.dtype) == "c" else cotangent


def _no_tangent(x: Any) -> Any:
    """Return a zero tangent; for integers in JAX's dtype float0."""
    return np.zeros(x.shape, jax.dtypes.float0) if kind(x.dtype) not in "fc" else jnp.zeros(x.shape, x.dtype)
