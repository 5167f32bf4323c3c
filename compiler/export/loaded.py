"""Functions loaded from files: they run the exported programs, and need nothing of the code that these were compiled from."""

from __future__ import annotations

import inspect
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad import dtypes
from symgrad.compiler.export import container, pytree_json
from symgrad.compiler.export.description import Description, Input, Parameter, described
from symgrad.compiler.export.stablehlo import Loaded, platform
from symgrad.compiler.function.points import cotangent
from symgrad.compiler.inputs.signature import native_number
from symgrad.compiler.inputs.wrt import WrtSelection, named_arguments, select_wrt
from symgrad.compiler.ir.graph import Graph, input_value, type_text
from symgrad.compiler.runtime.autograd_op import AutogradOp, row_of_autograd_op
from symgrad.compiler.runtime.return_types import convert_results, kinds_of
from symgrad.compiler.trace.tracer import is_tracing, user_line
from symgrad.engine import check_saved
from symgrad.errors import FileError, TraceError, describe
from symgrad.from_data import tensor
from symgrad.ops.foreign import sympy_array
from symgrad.ops.promotion import kind
from symgrad.pytree import LEAF, leaves_like, unflatten
from symgrad.tensor import Tensor, wrap

_NUMBERS = (bool, int, float, complex)
_TEXTS = ("formula.txt", "formula.tex", "graph.txt")


def load_compiled(path: str | os.PathLike[str]) -> LoadedFunction:
    """Return the function that `export` wrote to a file. Nothing in the file is executed or unpickled; FileError says what is wrong with
    it."""
    try:
        header, parts = container.read(path)
        description = described(header)
        _check_parts(description, parts)
        return LoadedFunction(description, parts)
    except FileError as error:
        raise FileError(f"load_compiled: {os.fspath(path)} cannot be read: {error}") from error


class LoadedFunction:
    """An exported function: call it like the original. It takes tensors and arrays, and returns tensors with a `grad_fn`. `state` holds the
    captured tensors by name: each call reads them, and they get gradients."""

    def __init__(self, description: Description, parts: dict[str, bytes]) -> None:
        self.description = description
        self.__name__ = description.name
        self._texts = {name: _text(name, part) for name, part in parts.items() if not name.startswith("state/")}
        self._programs = {what: Loaded(self._texts[f"{what}.mlir"], *types) for what, types in description.programs().items()}
        self.state = {x.label: _tensor(x, parts[f"state/{i}"]) for i, x in enumerate(description.state)}
        self._operation = LoadedOperation(description, self._programs)
        self.__signature__ = inspect.Signature([_parameter(p) for p in description.parameters])

    def __repr__(self) -> str:
        return f"<loaded {self.description}>"

    @property
    def signature(self) -> str:
        """The names, shapes and dtypes of arguments, results and state, as text."""
        return str(self.description)

    def formula(self, kind: str = "text") -> str:
        """Return the formula of the function and of its gradients, as text or LaTeX; for a long program the text is its graph, and there is
        no LaTeX."""
        if kind not in ("text", "latex"):
            raise ValueError(f"a formula is there as text or latex, not {kind!r}")
        return self._texts["formula.txt" if kind == "text" else "formula.tex"]

    def graph(self) -> str:
        """Return the graph as text, which `Graph.parse` reads."""
        return self._texts["graph.txt"]

    def source(self, what: str = "forward") -> str:
        """Return the JAX source of a program, for reading: "forward", "vjp" or "value_and_grad"."""
        return self._texts[f"{self._known(what)}.py"]

    def hlo(self, what: str = "forward") -> str:
        """Return the StableHLO of a program."""
        return self._texts[f"{self._known(what)}.mlir"]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if is_tracing():
            raise TraceError(f"{user_line()}: {self.__name__} was loaded from a file, as a kernel that cannot be traced: call it outside")
        inputs, kinds = self._inputs(args, kwargs)
        return self._returned(pytree_json.build(self.description.structure, list(self._operation(*inputs))), kinds)

    def value_and_grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> tuple[Tensor, Any]:
        """Return the scalar result and its gradients: in the structure of the argument if `wrt` is one name or position, else in a
        tuple."""
        if not self.description.is_scalar:
            raise ValueError(f"only a function with one floating-point number as its result has a gradient, and this is {self.signature}")
        inputs, kinds = self._inputs(args, kwargs)
        choice = self._choice(wrt, inputs)
        value, *slopes = self._programs["value_and_grad"]([t._array for t in inputs])
        found = {i: wrap(self._typed(i, x, value.dtype)) for i, x in zip(self.description.wrt, slopes, strict=True)}
        result = wrap(value), unflatten(choice.structure, [found[i] for i in choice.inputs])
        return self._returned(result, kinds)  # type: ignore[no-any-return]

    def _typed(self, i: int, slope: Any, dtype: Any) -> Any:
        """Return the derivative with respect to an input; for a Python float, which has no dtype, in the dtype of the result."""
        is_float = self.description.inputs[i].number and slope.dtype.kind == "f" == dtype.kind
        return np.asarray(slope, dtype) if is_float else slope

    def grad(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> Any:
        """Return the gradients of the scalar result, in the structure that `value_and_grad` describes."""
        return self.value_and_grad(*args, wrt=wrt, **kwargs)[1]

    def vjp(self, /, *args: Any, wrt: Any = None, **kwargs: Any) -> LoadedPullback:
        """Return the VJP at these arguments: `f.vjp(x, w)(v)` returns the cotangents of the inputs for a cotangent v of the result."""
        inputs, kinds = self._inputs(args, kwargs)
        return LoadedPullback(self, [wrap(t._array.copy()) for t in inputs], self._choice(wrt, inputs), kinds)

    def _returned(self, result: Any, kinds: frozenset[type]) -> Any:
        """Return the result as tensors or as arrays, by the rule of compiled functions."""
        return convert_results(result, kinds, None, any(t.requires_grad for t in self.state.values()))

    def _choice(self, wrt: Any, inputs: Sequence[Tensor]) -> WrtSelection:
        leaves: list[Any] = [LEAF] * len(self.description.arguments)
        given = named_arguments((p.name, p.kind, pytree_json.build(p.structure, leaves)) for p in self.description.parameters)
        numbers = [float if x.number else None for x in self.description.inputs]
        choice = select_wrt(wrt, given, [x.label for x in self.description.inputs], inputs, len(leaves), numbers)
        for i in choice.inputs:
            if i not in self.description.wrt:
                refused = self.description.inputs[i]
                raise ValueError(f"{refused.label} is {type_text(refused.meta)}: only floating-point inputs have a derivative")
        return choice

    def _known(self, what: str) -> str:
        if what not in self._programs:
            raise ValueError(f"there is {', '.join(self._programs)} in this file, and no {what!r}")
        return what

    def _inputs(self, args: Any, kwargs: Any) -> tuple[list[Tensor], frozenset[type]]:
        """Return the inputs of the programs, and the kinds of data among the arguments."""
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{error}: this is {self.signature}") from None
        leaves: list[Any] = [None] * len(self.description.arguments)
        for parameter in self.description.parameters:
            if parameter.name in bound.arguments:
                pytree_json.match(parameter.structure, bound.arguments[parameter.name], parameter.name, leaves)
            elif parameter.default is not None:
                pytree_json.match(parameter.structure, pytree_json.build(parameter.default, []), parameter.name, leaves)
            elif pytree_json.has_leaves(parameter.structure):
                raise TypeError(f"missing a required argument: {parameter.name!r}: this is {self.signature}")
        inputs = [*map(_fitting, self.description.arguments, leaves), *map(_fitting, self.description.state, self._state())]
        return inputs, kinds_of(leaves)

    def _state(self) -> list[Any]:
        labels = [x.label for x in self.description.state]
        if self.state.keys() != set(labels):
            raise KeyError(f"the state should have {', '.join(labels)}, and has {', '.join(map(str, self.state))}")
        return [self.state[label] for label in labels]


class LoadedPullback:
    """The VJP at one point: call it with cotangents in the structure of the results; it returns the cotangents of the inputs."""

    def __init__(self, function: LoadedFunction, inputs: Sequence[Tensor], choice: WrtSelection, kinds: frozenset[type]) -> None:
        self._function, self._inputs, self._choice, self._kinds = function, inputs, choice, kinds

    @property
    def value(self) -> Any:
        """The result of the function at this point."""
        found = self._function._programs["forward"]([t._array for t in self._inputs])
        return self._function._returned(pytree_json.build(self._function.description.structure, [*map(wrap, found)]), self._kinds)

    def __call__(self, *cotangents: Any) -> Any:
        description = self._function.description
        form = pytree_json.build(description.structure, [LEAF] * len(description.results))
        given = list(leaves_like(form, cotangents[0] if len(cotangents) == 1 else cotangents, "the cotangent"))
        seeds = [cotangent(x, like, where) for (x, where), like in zip(given, description.results, strict=True)]
        found = dict(zip(description.differentiable, self._pulled(seeds), strict=True))
        zeros = [np.zeros(x.meta.shape, x.meta.dtype) for x in description.inputs]
        result = unflatten(self._choice.structure, [wrap(found.get(i, zeros[i])) for i in self._choice.inputs])
        return self._function._returned(result, self._kinds | kinds_of(x for x, _ in given))

    def _pulled(self, seeds: Sequence[Tensor]) -> Sequence[Any]:
        program = self._function._programs.get("vjp")
        return () if program is None else program([t._array for t in (*self._inputs, *seeds)])


class LoadedOperation(AutogradOp):
    """The programs of a file as an operation of eager autograd, whose backward is the VJP in the file."""

    def __init__(self, description: Description, programs: dict[str, Loaded]) -> None:
        inputs, results = [x.meta for x in description.inputs], description.results
        values = [input_value(i, m.shape, m.dtype) for i, m in enumerate((*inputs, *results))]
        self.graph = Graph(values[: len(inputs)], values[len(inputs) :])  # for its types only
        forward: Any = programs["forward"]
        self.kernel, self.donates = forward, None
        self.single = len(results) == 1
        self.row = row_of_autograd_op(self, description.name)
        self.description, self.vjp = description, programs.get("vjp")

    def _recorded(self, tensors: Sequence[Tensor]) -> tuple[bool, ...]:
        """Return True for every floating-point result: the file does not say which result is differentiable in which input."""
        return tuple(kind(m.dtype) in "fc" for m in self.description.results)

    def pullback(self, backend: Any, node: Any, g: Any, needs: Sequence[bool]) -> list[Any]:
        if not backend.raw:
            raise RuntimeError(
                f"{self.description.name} was loaded from a file, which has its first derivative only: create_graph=True needs more. Export"
                " the derivative itself, compile(func.grad(f)).export(...), or compile the function where its source is"
            )
        check_saved(node)
        if self.vjp is None:
            return [None] * len(needs)
        args, _ = backend.arguments(node)
        given = (g,) if self.single else g
        gs = [np.zeros(m.shape, m.dtype) if g is None else g for g, m in zip(given, self.description.results, strict=True)]
        found = dict(zip(self.description.differentiable, self.vjp([*args, *gs]), strict=True))
        return [found.get(i) if need else None for i, need in enumerate(needs)]


def _check_parts(description: Description, parts: dict[str, bytes]) -> None:
    if description.platform != platform():
        raise FileError(f"it was exported for {description.platform}, and here JAX runs on {platform()}: export it there")
    programs = description.programs()
    wanted = {*_TEXTS, *(f"{what}.{kind}" for what in programs for kind in ("mlir", "py"))}
    wanted |= {f"state/{i}" for i in range(len(description.state))}
    if parts.keys() != wanted:
        raise FileError(f"it should have the parts {', '.join(sorted(wanted))}, and has {', '.join(sorted(parts))}"[:500])
    if len({x.label for x in description.state}) != len(description.state):
        raise FileError("two tensors of its state have one name")
    for i, x in enumerate(description.state):
        size = int(np.prod(x.meta.shape, dtype=np.int64)) * x.meta.dtype.itemsize
        if len(parts[f"state/{i}"]) != size:
            raise FileError(f"{x.label} is {type_text(x.meta)}, and has {len(parts[f'state/{i}'])} bytes in place of {size}")


def _text(name: str, part: bytes) -> str:
    try:
        return part.decode()
    except UnicodeDecodeError:
        raise FileError(f"its part {name!r} is no text") from None


def _tensor(x: Input, content: bytes) -> Tensor:
    dtype = x.meta.dtype
    array = np.frombuffer(content, dtype.newbyteorder("<")).reshape(x.meta.shape).astype(dtype)
    if dtype.kind == "b":
        array = array.view(np.uint8) != 0  # bytes other than 0 and 1 are not valid booleans
    t = wrap(array)
    return t.requires_grad_() if x.requires_grad and kind(dtype) in "fc" else t


def _parameter(p: Parameter) -> inspect.Parameter:
    """Return the parameter with a default, so that `bind` accepts its absence: missing tensor arguments get a better error than
    Python's."""
    variable = p.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    default = ... if p.default is None else pytree_json.build(p.default, [])
    return inspect.Parameter(p.name, p.kind) if variable else inspect.Parameter(p.name, p.kind, default=default)


def _fitting(x: Input, given: Any) -> Tensor:
    """Return an argument as a tensor of the right type; raise a TypeError that names it."""
    if (rows := sympy_array(given)) is not None:
        given = rows
    elif not isinstance(given, (Tensor, np.generic)) and (number := native_number(given)) is not None:
        given = number
    t: Tensor = given
    if x.meta.shape == () and isinstance(given, _NUMBERS) and np.can_cast(np.min_scalar_type(type(given)(0)), x.meta.dtype, "same_kind"):
        t = wrap(np.asarray(given, x.meta.dtype))
    elif isinstance(given, list):
        t = tensor(given, dtype=dtypes.of(x.meta.dtype))
    elif not isinstance(given, Tensor):
        if not hasattr(given, "__array__"):
            raise TypeError(f"{x.label}: expected {type_text(x.meta)}, got {describe(given)}")
        t = wrap(np.asarray(given))
    if x.meta.shape == () and not t._array.ndim and np.can_cast(t._array.dtype, x.meta.dtype, "safe"):
        t = t.to(dtypes.of(x.meta.dtype))
    if tuple(t.shape) != x.meta.shape or t._array.dtype != x.meta.dtype:
        raise TypeError(f"{x.label}: expected {type_text(x.meta)}, got {type_text(t._array)}. A program is for one type of each argument")
    return t
