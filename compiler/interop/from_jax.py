"""from_jax(): a function written in JAX as an operation on tensors, eager and in graphs.

    call -> flatten pytrees -> Imported (jaxpr, row) -> dispatcher -> tensors -> unflatten

JAX traces the function once for each structure and types of its arguments. The result is a row of its own: its eager kernel is the jitted
function; in a compiled kernel the emitted source calls it by name, so that XLA sees one program. The rule of the row is a row of the same
kind, jax.vjp of the function, so there are derivatives of every order.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np

from symgrad import dtypes
from symgrad.application import apply
from symgrad.compiler.backends.xla.function import is_wide
from symgrad.compiler.guards.names import find_state_guards
from symgrad.compiler.inputs.signature import native_number
from symgrad.compiler.interop.jax_errors import explained, line_of
from symgrad.compiler.interop.jax_pytree import flatten
from symgrad.compiler.trace.tracer import is_tracing, user_line
from symgrad.device_tensor import storage_of
from symgrad.errors import TraceError, describe
from symgrad.from_data import tensor
from symgrad.ops.foreign import sympy_array
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta, Row
from symgrad.tensor import Tensor, wrap

_CALLBACKS = {"pure_callback", "io_callback"}
_TYPES = {d.name for d in dtypes.ALL}
_DATA = object()
"""Sentinel: marks the place of a tensor among the arguments of a call."""


class JaxOperation:
    """A JAX function as an operation: call it like the original, with tensors (or arrays) in place of JAX arrays; it returns tensors."""

    def __init__(self, function: Callable[..., Any], static: Iterable[str] = ()) -> None:
        if not callable(function):
            raise TypeError(f"from_jax takes a function on jax arrays, got {describe(function)}")
        self.function = function
        self.static = frozenset((static,) if isinstance(static, str) else static)
        self.signature = inspect.signature(function)
        unknown = self.static - set(self.signature.parameters)
        if unknown:
            raise ValueError(f"static={sorted(unknown)}: the arguments are {', '.join(self.signature.parameters)}")
        self._calls: dict[Any, tuple[Imported, Any, list[Any]]] = {}
        """By the types of a call: the imported function, the structure of its results, and the guards of the state that it closes over."""
        self._lock = threading.RLock()
        functools.update_wrapper(self, function, updated=())

    def __repr__(self) -> str:
        return f"<{_name_of(self.function)}({', '.join(self.signature.parameters)}) of JAX's, on tensors>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        names = tuple(bound.arguments)
        tree, leaves, weak, wide = self._leaves(names, tuple(bound.arguments.values()))
        data = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        if not data:
            raise TypeError(f"{user_line()}: {_name_of(self.function)} is given no tensor: call the JAX function itself")
        needs = tuple(kind(storage_of(t).dtype) in "fc" and (t._requires_grad or is_tracing()) for t in data)
        imported, results = self._lookup(tree, names, leaves, weak, needs, wide)
        values = apply(imported.row, tuple(data), {})
        return results.unflatten(values if len(imported.types) > 1 else [values])

    def _leaves(self, names: tuple[str, ...], values: tuple[Any, ...]) -> tuple[Any, list[Any], tuple[bool, ...], bool]:
        """Return the structure of the arguments, their leaves with arrays as tensors, which leaves are weakly typed numbers, and whether
        the call needs 64 bits."""
        static = [name in self.static for name in names]
        found, tree = flatten(values, [i for i, is_static in enumerate(static) if is_static])
        given = [(i, leaf if static[i] else _without_sympy(leaf)) for i, leaf in ((path[0].idx, leaf) for path, leaf in found)]
        weak = tuple(type(x) in (float, complex) and not static[i] for i, x in given)
        leaves = [x if static[i] else self._leaf(names[i], x) for i, x in given]
        wide = _width(leaves)
        return tree, [_weak(x, wide) if w else x for x, w in zip(leaves, weak, strict=True)], weak, wide

    def _lookup(
        self, tree: Any, names: tuple[str, ...], leaves: Sequence[Any], weak: tuple[bool, ...], needs: tuple[bool, ...], wide: bool
    ) -> tuple[Imported, Any]:
        """Return the imported function for such a call and the structure of its results; import it anew if its guards fail."""
        key = tree.key, names, weak, needs, wide, tuple(_key(leaf) for leaf in leaves)
        with self._lock:
            if key not in self._calls or not all(guard() for guard in self._calls[key][2]):
                guards = [guard for guard in find_state_guards(self.function) if guard.guarded]
                self._calls[key] = *self._imported(tree, names, leaves, weak, needs, wide), guards
            imported, results, _ = self._calls[key]
        return imported, results

    def _leaf(self, name: str, x: Any) -> Any:
        """Return an array as a tensor, and everything else unchanged."""
        if isinstance(x, Tensor):
            return x
        if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.extended):
            raise TypeError(f"{user_line()}: {name} has the type {x.dtype}, which tensors do not have; make it inside of the function")
        return wrap(np.array(x)) if isinstance(x, (jax.Array, np.ndarray, np.generic)) else x

    def _imported(self, tree: Any, names: Any, leaves: Sequence[Any], weak: Sequence[bool], needs: Sequence[bool], wide: bool) -> Any:
        results: list[Any] = []
        settings = [_DATA if isinstance(x, Tensor) else x for x in leaves]  # keeps no tensor of this call alive

        def flat(*arrays: Any) -> list[Any]:
            given = iter(arrays)
            values = tree.unflatten([next(given) if x is _DATA else x for x in settings])
            bound = inspect.BoundArguments(self.signature, dict(zip(names, values, strict=True)))
            pairs, structure = flatten(self.function(*bound.args, **bound.kwargs))
            found = [x for _, x in pairs]
            results[:] = [structure]
            for x in found:
                if not isinstance(x, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
                    raise TraceError(f"{user_line()}: {_name_of(self.function)} must return arrays, and returns {describe(x)}")
                if jnp.issubdtype(kind := jnp.result_type(x), jax.dtypes.extended):
                    raise TraceError(f"{user_line()}: {_name_of(self.function)} gives {kind}, which tensors do not have; use it inside")
            return found

        avals = [_aval(storage_of(x), w) for x, w in zip(leaves, weak, strict=True) if isinstance(x, Tensor)]
        return Imported(_name_of(self.function), flat, avals, wide, needs), results[0]


def from_jax(function: Callable[..., Any] | None = None, *, static: Iterable[str] = ()) -> Any:
    """Return a function on JAX arrays as a differentiable operation on tensors; see `symgrad.compiler.api`."""
    if function is None:
        return lambda function: JaxOperation(function, static)
    return JaxOperation(function, static)


class Imported:
    """A function of flat arrays for given types: its jaxpr, its row, and the callable that the emitted source calls."""

    def __init__(self, name: str, flat: Callable[..., Any], avals: Sequence[Any], wide: bool, needs: Sequence[bool]) -> None:
        self.title, self.flat, self.avals, self.wide = name, flat, tuple(avals), wide
        self.wrt = tuple(i for i, need in enumerate(needs) if need)
        with jax.enable_x64(wide), explained(name):
            self.jaxpr: Any = jax.make_jaxpr(flat)(*avals)
        self.types = tuple(Meta(tuple(a.shape), np.dtype(a.dtype)) for a in self.jaxpr.out_avals)
        self._check()
        self.digest = _digest(self.jaxpr)
        self.name = f"{_identifier(name)}_{self.digest[:6]}"
        self._run = jax.extend.core.jaxpr_as_fun(self.jaxpr)
        self._jitted = jax.jit(self._run)
        self._transposes: dict[tuple[int, ...], Imported] = {}
        self._batches: dict[Any, Imported] = {}
        self._lock = threading.RLock()
        self.row = self._row()

    def _check(self) -> None:
        if not self.types:
            raise TraceError(f"{user_line()}: {self.title} must return arrays, and returns none")
        for meta in self.types:
            if meta.dtype.name not in _TYPES:
                raise TraceError(f"{user_line()}: {self.title} gives {meta.dtype}, which tensors do not have; cast it in the function")
        for equation in _equations(self.jaxpr.jaxpr):
            if equation.primitive.name in _CALLBACKS:
                raise TraceError(
                    f"{line_of(equation)}: {self.title} calls Python back from inside ({equation.primitive.name}), which no kernel that is"
                    " kept or exported can do; compute it with jax.numpy, or outside of the function"
                )

    def __call__(self, *arrays: Any) -> Any:
        """Run the function on JAX arrays; the emitted source calls this."""
        types = [jax.dtypes.canonicalize_dtype(a.dtype) for a in self.avals]
        results = self._either(*(jnp.asarray(x, t) for x, t in zip(arrays, types, strict=True)))
        return results[0] if len(self.types) == 1 else tuple(results)

    def _kernel(self, *arrays: Any) -> Any:
        given = [np.asarray(x, a.dtype) for x, a in zip(arrays, self.avals, strict=True)]
        with jax.enable_x64(self.wide):
            results = [np.array(r) for r in self._jitted(*given)]  # waits, and copies: the caller owns the memory
        return results[0] if len(results) == 1 else tuple(results)

    def _row(self) -> Row:
        names = tuple(f"x{i}" for i in range(len(self.avals)))
        single = len(self.types) == 1
        rules = tuple(_part(self.wrt.index(i)) if i in self.wrt else None for i in range(len(names)))
        return Row(
            f"jax.{self.title}", names, self._kernel, rules, (frozenset(names),) * len(names), "each",
            lambda *metas: self.types[0] if single else self.types, jax=self.name, foreign=self, prepare=self._pulled,
            outputs=len(self.types), complex="own", display=f"{self.title}Backward",
        )  # fmt: skip

    def _pulled(self, xp: Any, g: Any, out: Any, *args: Any) -> Any:
        """Return the cotangents of all arguments in `wrt`, computed by the operation that jax.vjp defines."""
        gs = g if isinstance(g, tuple) else (g,)
        arrived = tuple(i for i, g in enumerate(gs) if g is not None and kind(self.types[i].dtype) in "fc")
        found = xp.apply(self.transpose(arrived).row, *args, *(gs[i] for i in arrived))
        return found if isinstance(found, tuple) else (found,)

    def transpose(self, arrived: tuple[int, ...]) -> Imported:
        """Return the operation from the arguments and the cotangents of the results `arrived` to the cotangents of `wrt`."""
        with self._lock:
            if arrived not in self._transposes:
                with explained(self.title, "differentiated"):
                    self._transposes[arrived] = self._transposed(arrived)
            return self._transposes[arrived]

    def batched(self, has: tuple[bool, ...], size: int) -> Imported:
        """Return the batched operation: the arguments marked in `has` have a leading batch dimension of this size."""
        with self._lock:
            if (has, size) not in self._batches:
                mapped = jax.vmap(self._either, in_axes=tuple(0 if one else None for one in has))
                avals = [_aval(Meta((size, *a.shape), a.dtype)) if one else _aval(a) for a, one in zip(self.avals, has, strict=True)]
                needs = [i in self.wrt for i in range(len(avals))]
                self._batches[has, size] = Imported(f"{self.title}_batched", mapped, avals, self.wide, needs)
            return self._batches[has, size]

    def _either(self, *arrays: Any) -> list[Any]:
        """Run the traced program, or for other types, if JAX is set to 32 bits, the function itself."""
        same = all(x.dtype == a.dtype for x, a in zip(arrays, self.avals, strict=True))
        return self._run(*arrays) if same else self.flat(*arrays)  # type: ignore[no-any-return]

    def _transposed(self, arrived: tuple[int, ...]) -> Imported:
        count = len(self.avals)

        def pull(*arrays: Any) -> list[Any]:
            xs, gs = list(arrays[:count]), arrays[count:]

            def moving(*chosen: Any) -> list[Any]:
                for i, x in zip(self.wrt, chosen, strict=True):
                    xs[i] = x
                found = self._either(*xs)
                return [found[i] for i in arrived]

            _, back = jax.vjp(moving, *(xs[i] for i in self.wrt))
            return [jnp.conj(x) for x in back([jnp.conj(g) for g in gs])]  # PyTorch's convention for complex numbers

        gs, plain = [_aval(self.types[i]) for i in arrived], [_aval(a) for a in self.avals]
        needs = [kind(a.dtype) in "fc" for a in (*plain, *gs)]
        return Imported(f"{self.title}_vjp", pull, [*plain, *gs], self.wide, needs)


def _aval(x: Any, weak: bool = False) -> Any:
    make: Any = jax.ShapeDtypeStruct
    return make(x.shape, x.dtype, weak_type=weak)


def _part(i: int) -> Callable[..., Any]:
    return lambda xp, g, out, *args: g[i]


def _without_sympy(x: Any) -> Any:
    """A SymPy number as a Python number, a SymPy matrix or array of numbers as a tensor; anything else as it is."""
    if type(x).__module__.partition(".")[0] != "sympy":
        return x
    number = native_number(x)
    return number if number is not None else x if sympy_array(x) is None else tensor(x)


def _width(leaves: Sequence[Any]) -> bool:
    """True if the function is traced with x64 enabled: because the user has enabled it, or because an argument has a 64-bit dtype."""
    user = bool(jax.dtypes.canonicalize_dtype(np.float64) == np.float64)
    return user or any(is_wide(storage_of(t).dtype) for t in leaves if isinstance(t, Tensor))


def _weak(x: Any, wide: bool) -> Tensor:
    """Return a Python float or complex as a tensor. It is data, and weakly typed in JAX: it adopts the dtype of other operands."""
    number = np.asarray(x)
    return wrap(number if wide else number.astype(f"{number.dtype.kind}{number.itemsize // 2}"))


def _key(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return "array", storage_of(leaf).shape, str(storage_of(leaf).dtype)
    if isinstance(leaf, (float, complex, np.inexact)):
        return type(leaf), repr(leaf)  # 0.0 == -0.0, and nan != nan
    try:
        hash(leaf)
    except TypeError:
        return "object", id(leaf)  # the traced function keeps it alive
    return type(leaf), leaf


def _equations(jaxpr: Any) -> Iterable[Any]:
    """Yield all equations of a jaxpr, and of the jaxprs nested in it."""
    for equation in jaxpr.eqns:
        yield equation
        for part in _parts(equation):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield from _equations(inner)


def _parts(equation: Any) -> Iterable[Any]:
    for parameter in equation.params.values():
        yield from parameter if isinstance(parameter, (tuple, list)) else (parameter,)


def _digest(jaxpr: Any) -> str:
    """Return a digest that distinguishes jaxprs. Their text does not show constants, also not those of a nested jitted function."""
    digest = blake2b(str(jaxpr.jaxpr).encode(), digest_size=16)
    nested = (part for equation in _equations(jaxpr.jaxpr) for part in _parts(equation) if hasattr(part, "jaxpr"))
    for constant in (x for closed in (jaxpr, *nested) for x in getattr(closed, "consts", ())):
        is_key = jnp.issubdtype(jnp.result_type(constant), jax.dtypes.extended)
        digest.update(np.asarray(jax.random.key_data(constant) if is_key else constant).tobytes())
    return digest.hexdigest()


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", None) or function.__class__.__name__
    return "function" if name == "<lambda>" else str(name)


def _identifier(name: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", name).lstrip("_")[:40] or "function"
    return f"f_{word}" if keyword.iskeyword(word) or word[0].isdigit() else word
