"""The public functions of the compiler: compile(), derive(), spec() and others."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from symgrad.compiler.function.buckets import Bucketed
from symgrad.compiler.function.module import compiled
from symgrad.compiler.inputs.signature import Signature, Spec
from symgrad.compiler.options import Options, options
from symgrad.compiler.symbolic import sympy_function, user_ops
from symgrad.compiler.symbolic.derivation import Derivation
from symgrad.compiler.symbolic.derive import DerivationRequest, Deriver, of_call, of_result
from symgrad.compiler.trace.tracer import is_tracing, user_line
from symgrad.errors import TraceError
from symgrad.ops.assumptions import keyword_words
from symgrad.tensor import Tensor

if TYPE_CHECKING:
    from symgrad.compiler.export.loaded import LoadedFunction


def compile(function: Callable[..., Any] | None = None, /, **given: Any) -> Any:
    """Return `function` compiled to XLA kernels: forward, gradients, and the VJP that backward() runs. It is traced again for new shapes or
    dtypes. With options (see `symgrad.compiler.options`) and no function it is a decorator: `@sg.compile(backend="numpy")`."""
    chosen = options(**given)
    if function is not None and getattr(function, "_stays_eager", False):
        return function
    if function is None:
        return lambda function: _compiled(function, chosen)
    return _compiled(function, chosen)


def _compiled(function: Callable[..., Any], chosen: Options) -> Any:
    return Bucketed(function, chosen) if chosen.buckets else compiled(function, chosen)


def disable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that always runs eagerly: `@sg.compile.disable`. Inside a traced function it raises TraceError; if that function
    was compiled with fallback="eager", it runs eagerly too."""

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
    """Return the function that `compile(f).export(path)` wrote, without its source. Nothing in the file is executed or unpickled."""
    from symgrad.compiler.export.loaded import load_compiled

    return load_compiled(path)


def spec(shape: int | Iterable[int], dtype: Any = None, *more: Any, **known: Any) -> Spec:
    """Return a stand-in for a tensor argument with a shape and a dtype only: enough to derive a formula.

    Keywords say what is known of it, in the words of `assume`: `spec((3, 3), symmetric=True)`, `positive_definite=True`,
    `orthogonal=True`, `diagonal=True`, `triangular="lower"` or "upper" (True is "lower"), `positive=True`, `integer=True`.
    """
    if more or isinstance(dtype, int):
        raise TypeError(f"spec takes the sizes as one tuple: did you mean sg.spec({(shape, dtype, *more)})?")
    return Spec(shape, dtype, keyword_words(known))


def derive(function: Callable[..., Any], wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Deriver:
    """Return a function that takes the arguments and returns the closed form of `function` and of its derivatives up to `order` with
    respect to `wrt` (names or positions): `derive(loss, wrt="w")(x, w)`."""
    return Deriver(function, DerivationRequest(wrt, order, notation))


def elementwise(name: str, expression: Any, symbols: Sequence[Any] | None = None) -> Callable[..., Tensor]:
    """Return an op that applies a SymPy expression to every element: `swish = elementwise("swish", lambda x: x / (1 + sympy.exp(-x)))`.

    `expression` is a function of symbols, or an expression with its `symbols` in the order of the op's arguments. Derivatives of every
    order, formula and kernel follow from it. At kinks, derivatives follow the op table: 0 for Abs at 0, halves for Max at a tie.
    """
    return user_ops.elementwise(name, expression, symbols)


def from_sympy(expression: Any, symbols: Any = None, *, indices: Any = ()) -> Callable[..., Tensor]:
    """Return the function on tensors that a SymPy expression is of its symbols: `from_sympy(sympy.gamma(x) * y, (x, y))`.

    `symbols` gives the parameters in order: names, Symbols, MatrixSymbols or IndexedBases, or a dictionary from names to them, such as
    `derivation.symbols`. Scalars are applied element by element; a column n×1 is a vector. The result of an indexed expression has its free
    `indices` as dimensions: names, or a dictionary from names to sizes. Nothing that is a string is read as mathematics.
    """
    return sympy_function.from_sympy(expression, symbols, indices=indices)


def from_jax(function: Callable[..., Any] | None = None, *, static: str | Iterable[str] = ()) -> Any:
    """Return a function on JAX arrays as an operation on tensors, differentiable to every order by JAX's own rules, eagerly and inside
    compiled functions.

    It may take and return any pytrees. Integers, booleans and strings among its arguments are part of the program, and so are the arguments
    named in `static`. Without a function it is a decorator.
    """
    from symgrad.compiler.interop.from_jax import from_jax

    return from_jax(function, static=static)


def formula(result: Tensor, wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Derivation:
    """Return the formula of a recorded result, from its history, and of its derivatives with respect to the leaves `wrt` (tensors, or their
    names)."""
    return of_result(result, DerivationRequest(wrt, order, notation))


def module_formula(module: Any, args: tuple[Any, ...], wrt: Any = None, *, order: int = 1, notation: str = "auto") -> Derivation:
    """Return the formula of a module's result, with its parameters by name, and of its derivatives with respect to `wrt`."""
    return of_call(Signature(module), DerivationRequest(wrt, order if wrt is not None else 0, notation), args, {})
