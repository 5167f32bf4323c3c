"""What people call: compile(), derive() and spec()."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.compiler.function.buckets import Bucketed
from symgrad.compiler.function.module import compiled
from symgrad.compiler.inputs.signature import Signature, Spec
from symgrad.compiler.options import Options, options
from symgrad.compiler.symbolic import user_ops
from symgrad.compiler.symbolic.derivation import Derivation
from symgrad.compiler.symbolic.derive import DerivationRequest, Deriver, of_call, of_result
from symgrad.compiler.trace.tracer import is_tracing, user_line
from symgrad.errors import TraceError
from symgrad.tensor import Tensor

if TYPE_CHECKING:
    from symgrad.compiler.export.loaded import LoadedFunction


def compile(function: Callable[..., Any] | None = None, /, **given: Any) -> Any:
    """`function` as XLA kernels: forward, gradients, and the VJP that backward() runs. Traced again for new shapes or dtypes.
    With options (see `symgrad.compiler.options`) and no function it is a decorator: `@sg.compile(backend="numpy")`."""
    chosen = options(**given)
    if function is not None and getattr(function, "_stays_eager", False):
        return function
    if function is None:
        return lambda function: _compiled(function, chosen)
    return _compiled(function, chosen)


def _compiled(function: Callable[..., Any], chosen: Options) -> Any:
    return Bucketed(function, chosen) if chosen.buckets else compiled(function, chosen)


def disable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that always runs as it is written. Inside a function that is being traced it is an error, which makes that one run
    eagerly too if it was compiled with fallback="eager": `@sg.compile.disable`."""

    @functools.wraps(function)
    def eager(*args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            raise TraceError(
                f"{user_line()}: {getattr(function, '__name__', 'a function')} is kept out of programs by compile.disable; call it outside"
                ' of the compiled function, or compile that with fallback="eager"'
            )
        return function(*args, **kwargs)

    eager._stays_eager = True  # type: ignore[attr-defined]
    return eager


compile.disable = disable  # type: ignore[attr-defined]


def load_compiled(path: str | os.PathLike[str]) -> LoadedFunction:
    """The function that `compile(f).export(path)` wrote, without its source. Nothing in the file is executed or unpickled."""
    from symgrad.compiler.export.loaded import load_compiled

    return load_compiled(path)


def spec(shape: int | Iterable[int], dtype: Any = None, *more: Any) -> Spec:
    """A tensor argument of which only shape and dtype are known: enough to derive a formula."""
    if more or isinstance(dtype, int):
        raise TypeError(f"spec takes the sizes as one tuple: did you mean sg.spec({(shape, dtype, *more)})?")
    return Spec(shape, dtype)


def derive(function: Callable[..., Any], wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Deriver:
    """The closed form of `function` and of its derivatives up to `order` in `wrt` (names or positions): `derive(loss, wrt="w")(x, w)`."""
    return Deriver(function, DerivationRequest(wrt, order, notation))


def elementwise(name: str, expression: Any, symbols: Sequence[Any] | None = None) -> Callable[..., Tensor]:
    """The op that applies an expression of SymPy's to every element: `swish = elementwise("swish", lambda x: x / (1 + sympy.exp(-x)))`.

    Instead of a function of symbols it may be an expression, with its `symbols` in the order of the op's arguments. Derivatives of every
    order, formula and kernel follow. Where it has a kink, derivatives are those of the table: 0 for Abs at 0, halves for Max at a tie."""
    return user_ops.elementwise(name, expression, symbols)


def from_jax(function: Callable[..., Any] | None = None, *, static: str | Iterable[str] = ()) -> Any:
    """A function on jax arrays as an operation on tensors, differentiable to every order by JAX's own rules, eagerly and inside of
    compiled functions. It may take and give any pytrees; whole numbers, truth values and strings among its arguments are part of the
    program, and so is whatever is named in `static`. Without a function it is a decorator."""
    from symgrad.compiler.interop.from_jax import from_jax

    return from_jax(function, static=static)


def formula(result: Tensor, wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Derivation:
    """The formula of a recorded result, out of its history, and of its derivatives in the leaves `wrt` (tensors, or their names)."""
    return of_result(result, DerivationRequest(wrt, order, notation))


def module_formula(module: Any, args: tuple[Any, ...], wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Derivation:
    """The formula of a module's result, with its parameters by their names, and of its derivatives in `wrt`."""
    return of_call(Signature(module), DerivationRequest(wrt, order if wrt is not None else 0, notation), args, {})
