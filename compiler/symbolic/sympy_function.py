"""`from_sympy`: a function on tensors from a SymPy expression, which runs eagerly and is traced like any other."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from sympy.matrices.expressions.matexpr import MatrixElement

from symgrad import functional as F
from symgrad.coercion import tensors_of
from symgrad.compiler.symbolic.public_names import safe_names
from symgrad.compiler.symbolic.tensor_translation import TensorTranslator
from symgrad.dispatch import tensors as ops
from symgrad.dtypes import numpy_type
from symgrad.errors import FormulaError, describe
from symgrad.ops.promotion import default_float, kind
from symgrad.tensor import Tensor

_ARRAYS = (sp.MatrixBase, sp.NDimArray)


def from_sympy(expression: Any, symbols: Any = None, *, indices: Iterable[Any] | Mapping[Any, int] = ()) -> Callable[..., Any]:
    """Return the function that the expression is of its symbols; see `symgrad.compiler.api.from_sympy`."""
    if isinstance(expression, (int, float, complex)):
        expression = sp.sympify(expression, strict=True)
    if not isinstance(expression, (sp.Basic, *_ARRAYS)):
        hint = "; a text is never read, build the expression in SymPy" if isinstance(expression, str) else ""
        raise TypeError(f"from_sympy needs a SymPy expression, got {describe(expression)}{hint}")
    expression = expression.as_immutable() if isinstance(expression, sp.MatrixBase) else expression
    sizes = dict(indices) if isinstance(indices, Mapping) else dict.fromkeys(indices)
    return _Function(expression, _parameters(expression, symbols), sizes).made()


@dataclass
class _Parameter:
    """One parameter: its name, and the symbol, or the matrix or array of symbols, that it stands for."""

    name: str
    label: str
    symbol: Any

    @property
    def symbols(self) -> list[Any]:
        return [*map(sp.sympify, sp.flatten(self.symbol))] if isinstance(self.symbol, _ARRAYS) else [self.symbol]

    @property
    def is_column(self) -> bool:
        return isinstance(self.symbol, (sp.MatrixSymbol, sp.MatrixBase)) and bool(self.symbol.shape[1] == 1)


def _parameters(expression: Any, symbols: Any) -> list[_Parameter]:
    free = _free(expression)
    if symbols is None:
        if len(free) != 1:
            known = ", ".join(sorted(map(str, free))) or "none"
            raise TypeError(f"from_sympy needs the symbols in the order of the parameters, symbols=(x, y); the expression has {known}")
        symbols = tuple(free)
    if isinstance(symbols, (str, sp.Basic, *_ARRAYS)):
        symbols = (symbols,)
    named = symbols.items() if isinstance(symbols, Mapping) else ((_label(s), s) for s in symbols)
    pairs = [(str(label), _resolved(symbol, free)) for label, symbol in named]
    labels = [label for label, _ in pairs]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"from_sympy: two parameters are called {label!r}; give a dictionary from names to symbols")
    names = _parameter_names(labels)
    return [_Parameter(names[label], label, symbol) for label, symbol in pairs]


def _parameter_names(labels: list[str]) -> dict[str, str]:
    """Return identifiers: a label as it is if Python takes it for a parameter."""
    kept = [label for label in labels if label.isidentifier() and not keyword.iskeyword(label)]
    return {**safe_names([label for label in labels if label not in kept], kept), **{label: label for label in kept}}


def _label(symbol: Any) -> str:
    if isinstance(symbol, str):
        return symbol
    if isinstance(symbol, _ARRAYS):
        raise TypeError("from_sympy: a matrix or array of symbols needs a name: symbols={'x': matrix}")
    name = getattr(symbol, "name", None) or getattr(symbol, "label", None)
    if name is None:
        raise TypeError(f"from_sympy: symbols are names, Symbols, MatrixSymbols or IndexedBases, got {describe(symbol)}")
    return str(name)


def _resolved(symbol: Any, free: set[Any]) -> Any:
    """Return the symbol that a name stands for."""
    if not isinstance(symbol, str):
        return symbol
    found = [s for s in free if _label(s) == symbol]
    if len(found) > 1:
        raise ValueError(f"from_sympy: {len(found)} symbols called {symbol!r}, which differ in assumptions: pass the symbols")
    return found[0] if found else sp.Symbol(symbol)


def _free(expression: Any) -> set[Any]:
    """Return the symbols of an expression; an indexed tensor counts as a whole."""
    bases = expression.atoms(sp.IndexedBase) if hasattr(expression, "atoms") else set()
    labels = {b.label for b in bases}
    return {s for s in expression.free_symbols if not isinstance(s, sp.Indexed) and s not in labels} | bases


def _assumptions(symbol: Any) -> str:
    given = getattr(symbol, "_assumptions_orig", {})
    return ", ".join(f"{k}={v}" for k, v in given.items()) or "without assumptions"


@dataclass
class _Function:
    expression: Any
    parameters: list[_Parameter]
    indices: dict[Any, int | None]
    """The free indices that become dimensions, with their sizes if they are given."""

    def made(self) -> Callable[..., Any]:
        self.check()
        signature = inspect.Signature([inspect.Parameter(p.name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in self.parameters])

        def function(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            return self.run([bound.arguments[p.name] for p in self.parameters])

        function.__signature__ = signature  # type: ignore[attr-defined]
        function.__name__ = function.__qualname__ = "f"
        function.__doc__ = f"{self.expression}"
        return function

    def check(self) -> None:
        """Raise an error for symbols that no parameter stands for, and for heads without a function."""
        known: dict[Any, str] = {s: p.label for p in self.parameters for s in p.symbols}
        for p in self.parameters:
            if len(p.symbols) != sum(known[s] == p.label for s in set(p.symbols)):
                raise ValueError(f"from_sympy: {p.label} shares symbols with another parameter, or has one twice")
        sizes = {n for s in known for n in getattr(s, "shape", None) or () if isinstance(n, sp.Symbol)}
        indices = {sp.Symbol(i) if isinstance(i, str) else i for i in self.indices}
        missing = _free(self.expression) - known.keys() - sizes - indices
        for s in sorted(missing, key=str):
            twin = next((k for k in known if str(k) == str(s)), None)
            if twin is not None:
                raise FormulaError(
                    f"from_sympy: the expression has {s} ({_assumptions(s)}), and the parameter is {twin} ({_assumptions(twin)}), which is "
                    "another symbol: pass that of the expression, or its name"
                )
        if missing:
            names = ", ".join(sorted(map(str, missing)))
            raise FormulaError(f"from_sympy: the expression has {names}, which symbols does not list; indices lists free indices")

    def run(self, args: list[Any]) -> Any:
        tensors = tensors_of(args)
        bindings: dict[Any, Any] = {}
        for p, t in zip(self.parameters, tensors, strict=True):
            self.bind(p, t, bindings)
        types = [numpy_type(t.dtype) for t in tensors]
        floats = [np.empty(0, dtype).real.dtype for dtype in types if kind(dtype) in "fc"]
        shapes = [tuple(t.shape) for t in tensors] if self.is_elementwise else []
        shape = self.broadcast(shapes)
        translator = TensorTranslator(ops, bindings, np.result_type(*floats) if floats else default_float(), len(shape))
        if self.indices:
            return self.element(translator)
        result = translator.tensor(self.expression)
        if self.is_elementwise:
            return result if tuple(result.shape) == shape else F.broadcast_to(result, shape).clone()
        as_vectors = all(t.ndim != 2 for p, t in zip(self.parameters, tensors, strict=True) if p.is_column)
        return result.reshape(-1) if result.ndim == 2 and result.shape[1] == 1 and as_vectors else result

    @property
    def is_elementwise(self) -> bool:
        """True for a scalar expression of scalars, which is applied to every element of tensors."""
        is_scalar = not isinstance(self.expression, (sp.MatrixExpr, *_ARRAYS)) and not self.indices
        return is_scalar and all(isinstance(p.symbol, sp.Symbol) for p in self.parameters)

    def broadcast(self, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            given = ", ".join(f"{p.label} of shape {list(s)}" for p, s in zip(self.parameters, shapes, strict=True))
            raise FormulaError(f"the expression is applied element by element, and these shapes do not broadcast: {given}") from None

    def bind(self, p: _Parameter, t: Tensor, bindings: dict[Any, Any]) -> None:
        """Enter the values of a parameter's symbols, and the sizes that follow from its shape."""
        symbol, shape = p.symbol, tuple(t.shape)
        if isinstance(symbol, sp.Symbol):
            if shape and not self.is_elementwise:
                given = f"{p.label} is a scalar beside matrices, got a tensor of shape {list(shape)}"
                raise FormulaError(f"{given}: pass a 0-d tensor, or use vmap")
            bindings[symbol] = t
            return
        wanted = tuple(getattr(symbol, "shape", None) or ())
        if p.is_column and len(shape) < 2:
            t = t.reshape(-1, 1)
        if wanted and (len(wanted) != t.ndim or not all(_fits(n, m, bindings) for n, m in zip(wanted, t.shape, strict=True))):
            form = f"{list(wanted[:1])} or {list(wanted)}" if p.is_column else f"{list(wanted)}"
            raise FormulaError(f"{p.label} has shape {form} in the expression, got a tensor of shape {list(shape)}")
        if isinstance(symbol, _ARRAYS):
            bindings.update(zip(p.symbols, (t[at] for at in np.ndindex(*map(int, wanted))), strict=True))
        else:
            bindings[symbol] = t

    def element(self, translator: TensorTranslator) -> Any:
        """Return the tensor whose element at the free indices is the expression."""
        known = {str(s): s for s in self.expression.free_symbols}
        names = [known.get(i, sp.Symbol(i)) if isinstance(i, str) else i for i in self.indices]
        given = zip(names, self.indices.values(), strict=True)
        sizes = [self.extent(i, translator) if n is None else n for i, n in given]
        for axis, (i, n) in enumerate(reversed(list(zip(names, sizes, strict=True)))):
            translator = translator.within(i, np.arange(n).reshape(-1, *(1,) * axis))
        return F.broadcast_to(translator.tensor(self.expression), tuple(sizes)).clone()

    def extent(self, index: Any, translator: TensorTranslator) -> int:
        """Return the number of values of a free index: its range, or the size of a dimension in which it selects."""
        if isinstance(index, sp.Idx) and index.upper is not None:
            return int(index.upper) + 1
        for e in sp.preorder_traversal(self.expression):
            at = e.indices if isinstance(e, sp.Indexed) else e.args[1:] if isinstance(e, MatrixElement) else ()
            if index in at:
                return int(translator.value(e.args[0]).shape[list(at).index(index)])
        raise FormulaError(f"the size of the index {index} is unknown, since no tensor has it alone as an index: indices={{'{index}': 3}}")


def _fits(wanted: Any, size: int, bindings: dict[Any, Any]) -> bool:
    """True if a size is as the symbol says; the first occurrence of a symbolic size determines it."""
    if isinstance(wanted, sp.Symbol):
        return bool(bindings.setdefault(wanted, size) == size)
    return bool(wanted == size)
