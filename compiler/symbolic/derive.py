"""derive(): from a function, or from a recorded result, to its formula and those of its derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symgrad.coercion import tensors_of
from symgrad.compiler.algebra.text import expression_text
from symgrad.compiler.autodiff.pull import Derivative
from symgrad.compiler.autodiff.symmetry import is_symmetric_matrix
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.requires_grad import trace_for_derivatives
from symgrad.compiler.inputs.signature import Call, Signature, array_of, is_data, native_number, storage_or_spec
from symgrad.compiler.inputs.wrt import WrtSelection, select_wrt
from symgrad.compiler.ir.graph import Graph, Value, type_text
from symgrad.compiler.rewrite.assumptions import assumed_values, words_by_value
from symgrad.compiler.rewrite.domain import domain
from symgrad.compiler.rewrite.pipeline import DERIVED_FORMULA, FORMULA, UNROLLED, Off
from symgrad.compiler.rewrite.side_conditions import SideConditions, without_conventions
from symgrad.compiler.symbolic import FormulaProgram, lower
from symgrad.compiler.symbolic.constants import with_constants
from symgrad.compiler.symbolic.derivation import Derivation
from symgrad.compiler.symbolic.from_tape import History, history
from symgrad.compiler.symbolic.higher_order import derivatives_of
from symgrad.compiler.symbolic.lower import NOTATIONS
from symgrad.compiler.trace.trace import Trace, trace
from symgrad.compiler.trace.tracer import PathConditions, user_line
from symgrad.errors import FormulaError, TraceError, describe
from symgrad.ops.foreign import elementwise_array, native, sympy_array
from symgrad.ops.promotion import default_float, kind
from symgrad.pytree import flatten, unflatten
from symgrad.tensor import Tensor

_ASKED = frozenset(("eq", "gt", "ge"))
"""Rows of the conditions by which derivatives have values by convention."""


@dataclass(frozen=True)
class DerivationRequest:
    """The request: derivatives in which inputs, up to which order, in which notation, without which rewrite rules."""

    wrt: Any = None
    order: int = 1
    notation: str = "auto"
    without: Off = frozenset()


def _check(plan: DerivationRequest) -> None:
    if isinstance(plan.order, bool) or not isinstance(plan.order, int):
        raise TypeError(f"order must be an integer, such as 1 for gradients or 2 for Hessians, got {describe(plan.order)}")
    if plan.order < 1:
        raise ValueError(f"order must be 1 or more, got {plan.order!r}")
    if plan.notation not in NOTATIONS:
        raise ValueError(f"notation must be one of {', '.join(NOTATIONS)}, got {plan.notation!r}")


class Deriver:
    """Call it with arguments, tensors or specs, to get the derivation for their shapes."""

    def __init__(self, function: Callable[..., Any], plan: DerivationRequest) -> None:
        self.signature = Signature(function)
        _check(plan)
        self.plan = plan

    def __repr__(self) -> str:
        return f"<derive {self.signature}: call it with tensors, or with spec(shape), to see the formula>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Derivation:
        return of_call(self.signature, self.plan, args, kwargs)


def of_call(signature: Signature, plan: DerivationRequest, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Derivation:
    """Return the derivation of a function for arguments of these types."""
    try:
        call = signature.bind(*_data(signature, args, kwargs, plan.wrt))
        traced, wrt = _traced(signature, call, plan)
    except (TypeError, AttributeError) as error:
        if (advice := _advice(args, kwargs)) is None:
            raise
        raise TypeError(f"{error}. {advice}") from error
    if len(traced.graph.outputs) != 1:
        raise TraceError(f"{user_line()}: derive needs a function with one result, this one returns {len(traced.graph.outputs)}")
    name = getattr(signature.function, "__name__", "f")
    with _with_user_line():
        program, found = derived(with_constants(traced.graph, traced.captured) if traced.captured else traced.graph, wrt, plan, traced.path)
    source = CallSource(signature, call, traced.captured, plan.wrt)
    single = isinstance(plan.wrt, (str, int))
    return Derivation(name if name.isidentifier() else "f", program, found, wrt, single, source, traced.path.expected_outcomes)


def _traced(signature: Signature, call: Call, plan: DerivationRequest) -> tuple[Trace, tuple[int, ...]]:
    """Return a trace in which the inputs to differentiate require grad, and the positions of these inputs."""
    places = signature.named_arguments(call)

    def make(call: Call) -> Trace:
        known = signature.names(), tensor_names(signature.function)
        return trace(
            signature.caller(call), call.leaves, call.labels, *known, allow_branches=True, requires_grad=call.requires_grad,
            captured_with_grad=call.captured_with_grad
        )

    def chosen(traced: Trace) -> WrtSelection:
        return select_wrt(plan.wrt, places, traced.graph.labels, (*call.leaves, *traced.captured), len(call.leaves))

    if not plan.order:
        return make(call.differentiated()), ()
    traced, choice = trace_for_derivatives(call, plan.wrt, places, make, chosen)
    return traced, choice.inputs


def of_result(result: Tensor, plan: DerivationRequest) -> Derivation:
    """Return the derivation of the recorded history of a tensor."""
    _check(plan)
    recorded = history(result)
    asked = plan.wrt if isinstance(plan.wrt, (tuple, list)) else () if plan.wrt is None else (plan.wrt,)
    wrt = tuple(_leaf(recorded, x) for x in asked)
    with _with_user_line():
        program, found = derived(recorded.graph, wrt, DerivationRequest(None, plan.order if wrt else 0, plan.notation), PathConditions())
    single = len(asked) == 1 and asked[0] is plan.wrt
    return Derivation(result.name or "y", program, found, wrt, single, HistorySource(recorded), ())


@contextmanager
def _with_user_line() -> Iterator[None]:
    """Prefix FormulaError with the user's source line."""
    try:
        yield
    except FormulaError as error:
        raise FormulaError(f"{user_line()}: {error}") from error


def _leaf(recorded: History, x: Any) -> int:
    for i, (leaf, label) in enumerate(zip(recorded.leaves, recorded.graph.labels, strict=True)):
        if leaf is x or (isinstance(x, str) and label == x):
            return i
    given = repr(x) if isinstance(x, str) else "this tensor"
    raise ValueError(f"wrt={given} is no leaf of the recorded history, which begins at {', '.join(recorded.graph.labels)}")


def derived(
    graph: Graph, wrt: tuple[int, ...], plan: DerivationRequest, path: PathConditions
) -> tuple[FormulaProgram, tuple[Derivative, ...]]:
    """Return the formulas of a graph's value, its derivatives, its path conditions and its domain conditions, in that order."""
    value, *conditions = UNROLLED.run(Graph(graph.inputs, (*graph.outputs, *path.values), graph.labels), plan.without).outputs
    if wrt and kind(value.dtype) not in "fc":
        raise TraceError(f"{user_line()}: only floating-point results have a derivative, got {type_text(value)}")
    for i in wrt:
        if kind(graph.inputs[i].dtype) not in "fc":
            given = f"{graph.labels[i]} is {type_text(graph.inputs[i])}"
            raise TraceError(f"{user_line()}: {given}: only floating-point inputs have a derivative")
    conditions += domain(Graph(graph.inputs, (value,), graph.labels), plan.without)
    found = tuple(derivatives_of(Graph(graph.inputs, (value,), graph.labels), wrt, plan.order))
    directions = sorted({x for d in found for x in d.directions}, key=lambda x: x.attrs["index"])
    labels = (*graph.labels, *(f"direction {i}" for i in range(len(directions))))
    outputs = (value, *(d.value for d in found), *conditions)
    whole = DERIVED_FORMULA.run(Graph((*graph.inputs, *directions), outputs, labels), plan.without)
    stated = SideConditions(whole) if _ASKED.isdisjoint(whole.ops) else without_conventions(whole)
    second = [n for n, d in enumerate(found, start=1) if len(d.wrt) == 2]
    symmetric = frozenset(n for n in second if is_symmetric_matrix(Graph(graph.inputs, (value,)), found[n - 1]))
    empty: list[tuple[Value, ...]] = [()] * len(conditions)
    directions_of = ((), *(d.directions for d in found), *empty)

    @functools.cache
    def by_convention() -> FormulaProgram:
        return lower(whole, plan.notation, directions_of, symmetric, plan.without)

    if stated.graph is whole:
        program = by_convention()
    else:
        asked = Graph(whole.inputs, (*stated.graph.outputs, *stated.said), whole.labels)
        program = lower(asked, plan.notation, (*directions_of, *(() for _ in stated.said)), symmetric, plan.without)
        unsaid = Graph(graph.inputs, stated.unsaid) if stated.unsaid else None
        program = replace(program, side_conditions=len(stated.said), unsaid=unsaid, by_convention=by_convention)
    program = replace(program, written=Graph(graph.inputs, graph.outputs, graph.labels))
    return program if "assume" not in whole.ops else _with_assumptions(program, graph, whole, plan.without), found


def _with_assumptions(program: FormulaProgram, given: Graph, whole: Graph, off: Off) -> FormulaProgram:
    """Return the program with what is assumed in the graph of the function."""
    assumed = words_by_value(given)
    names = dict(zip(given.inputs, given.labels, strict=True))
    places = {x: i for i, x in enumerate(given.inputs)}
    shown = tuple((places[x] if x in places else expression_text(x, (), names), words) for x, words in assumed.items())
    return replace(program, assumed=shown, differentiable=FORMULA.run(whole, (*off, assumed_values.name)))


def _data(
    signature: Signature, args: tuple[Any, ...], kwargs: dict[str, Any], wrt: Any, wide: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with arrays in place of scalar data (Python floats, NumPy and SymPy scalars) and of JAX arrays. A Python float
    takes the dtype of the tensors beside it, or the default dtype; with `wide`, it keeps all its digits."""
    args, kwargs = signature.with_floats(args, kwargs, wrt)
    found, _ = flatten((args, kwargs), lambda x: is_data(x) or _array_of_number(x, None) is not None)
    beside = [x.dtype for x in map(storage_or_spec, found) if getattr(x, "dtype", None) is not None and kind(x.dtype) in "fc"]
    dtype = None if wide else np.result_type(*beside) if beside else default_float()
    return tuple(_with_arrays(x, dtype) for x in args), {name: _with_arrays(x, dtype) for name, x in kwargs.items()}


def _with_arrays(argument: Any, dtype: Any) -> Any:
    leaves, structure = flatten(argument, lambda x: _array_of_number(x, dtype) is not None)
    return unflatten(structure, [_array_of_number(x, dtype) for x in leaves]) if leaves else argument


def _array_of_number(x: Any, dtype: Any) -> Any:
    elementwise_array(x)
    if isinstance(x, np.generic):
        return np.asarray(x)
    number = native_number(x)
    if isinstance(number, (float, complex)):
        return np.asarray(number, dtype if dtype is None or isinstance(number, float) else np.result_type(dtype, np.complex64))
    if sympy_array(x) is not None:
        return tensors_of((x, np.empty(0, dtype or np.float64)))[0]._array
    return native(x) if isinstance(native(x), np.ndarray) else None


def _advice(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return advice for the first argument that looks like a shape, or None."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, tuple) and x and all(isinstance(n, int) for n in x):
            return f"derive got the tuple {x}, and tuples are no data: did you mean sg.spec({x}), a tensor of that shape?"
    return None


def _difference(derived: Call, given: Call) -> str:
    """Say which argument of a call differs from those that a formula was derived for."""
    if derived.labels == given.labels:
        for label, x, y in zip(derived.labels, derived.leaves, given.leaves, strict=True):
            wanted, got = storage_or_spec(x), storage_or_spec(y)
            if (tuple(wanted.shape), wanted.dtype) != (tuple(got.shape), got.dtype):
                cast = "cast it" if tuple(wanted.shape) == tuple(got.shape) else "pass that shape"
                types = f"this formula was derived for {label} of type {type_text(wanted)}, got {type_text(got)}"
                return f"{types}: {cast}, or call derive(...) again for these arguments"
    return "this formula was derived for arguments of other shapes, dtypes or settings: call derive(...) again for these"


class CallSource:
    """The arguments of a derivation come from calls of the function."""

    def __init__(self, signature: Signature, call: Call, captured: Sequence[Tensor], wrt: Any = None) -> None:
        self.signature, self.wrt = signature, wrt
        self.call = call
        self.captured = captured
        self.labels = call.labels

    def arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return an array for each input of the graph, from arguments of the same types."""
        call = replace(self.signature.bind(*_data(self.signature, args, kwargs, self.wrt)), effects=self.call.effects)
        if call.key() != self.call.without_words().key():
            raise FormulaError(_difference(self.call, call))
        digits = self.signature.bind(*_data(self.signature, args, kwargs, self.wrt, wide=True))
        arrays = [array_of(x) for x in (*digits.leaves, *self.captured)]
        if not all(isinstance(a, np.ndarray) for a in arrays):
            raise TypeError("a formula runs on tensors: a spec has no values")
        return arrays

    def given(self) -> list[Any]:
        """Return the arrays that the function was derived for; specs stay specs."""
        return [array_of(x) for x in (*self.call.leaves, *self.captured)]

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Run the function itself, with tensors as its arguments."""
        return self.signature.caller(self.call)(tensors[: len(self.call.leaves)])

    @property
    def arguments(self) -> int:
        return len(self.call.leaves)

    @property
    def constants(self) -> list[int]:
        """The positions of captured tensors that do not require grad."""
        return [i for i, t in enumerate(self.captured, start=self.arguments) if not t.requires_grad]


class HistorySource:
    """The arguments of a recorded result are the leaves of its history."""

    def __init__(self, recorded: History) -> None:
        self.recorded = recorded
        self.labels = recorded.graph.labels

    def arrays(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return an array for each leaf: the value given by name, or the current one."""
        if args:
            raise TypeError("a recorded result is run with its leaves as they are now, or with values by name: formula(x=...)")
        unknown = kwargs.keys() - set(self.labels)
        if unknown:
            raise TypeError(f"no leaf is called {', '.join(sorted(unknown))}: there are {', '.join(self.labels)}")
        found = []
        for x, leaf, label in zip(self.recorded.graph.inputs, self.recorded.leaves, self.labels, strict=True):
            given = kwargs.get(label, leaf)
            if given is None:
                raise FormulaError(f"the values of the constant {label} were not kept: give them by name, formula({label}=...)")
            array = np.asarray(array_of(given), x.dtype)
            if array.shape != x.shape:
                raise FormulaError(f"{label} is {type_text(x)}, got an array of shape {list(array.shape)}")
            found.append(array)
        return found

    def given(self) -> list[Any]:
        return self.arrays((), {})

    captured: Sequence[Tensor] = ()

    def run(self, tensors: Sequence[Tensor]) -> Any:
        raise FormulaError("a recorded result has no function to compare with: use derive(function)(...).certify()")

    @property
    def arguments(self) -> int:
        return len(self.labels)

    @property
    def constants(self) -> list[int]:
        return [i for i, leaf in enumerate(self.recorded.leaves) if leaf is None]
