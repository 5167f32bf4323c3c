"""Export of a program and its derivatives to a file, with formula, graph, source and captured tensors."""

from __future__ import annotations

import inspect
import logging
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import numpy as np

from symgrad.compiler.autodiff import pull as differentiate
from symgrad.compiler.backends.xla.emit import source
from symgrad.compiler.backends.xla.function import KERNEL_ONLY, lowered
from symgrad.compiler.export import container, pytree_json
from symgrad.compiler.export.description import Description, Input, Parameter
from symgrad.compiler.export.stablehlo import platform, stablehlo
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.signature import Call, Signature
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.rewrite.assumptions import drop_assumptions
from symgrad.compiler.rewrite.pipeline import DERIVED, Off
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.symbolic.derivation import Derivation
from symgrad.compiler.symbolic.derive import CallSource, DerivationRequest, derived
from symgrad.compiler.trace.trace import Trace, trace
from symgrad.compiler.trace.tracer import PathConditions, user_line
from symgrad.errors import GraphError, TraceError
from symgrad.ops.promotion import kind
from symgrad.ops.spec import Meta
from symgrad.tensor import Tensor
from symgrad.typing import Array

_logger = logging.getLogger(__name__)
_MAX_FORMULA_LENGTH = 150
"""Number of values of a graph: a longer graph has no readable formula, and is stored as text instead."""

_PURE = (
    "Files hold functions of their arguments, and {name} does more: export the part that computes, or write it as a function that takes its"
    " state and returns the new one (func.functional_call, func.grad)"
)


def export(compiled: Any, path: str | os.PathLike[str], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Write the program of a compiled function for such arguments (specs suffice); without arguments, its latest program."""
    container.place_for(path)  # raises early, before any work
    signature: Signature = compiled.signature
    name = getattr(compiled, "__name__", "function")
    if args or kwargs:
        call = signature.bind(args, kwargs)
        program = Program(_traced(signature, call, name), call, name, compiled.options, derives=True)
    else:
        call, program = _latest(compiled, name)
    write(path, name, program, signature, call)


def write(path: str | os.PathLike[str], name: str, program: Program, signature: Signature, call: Call) -> None:
    """Write the program of a call and its derivatives to a file."""
    graph, captured, off = program.graph, program.captured, program.options.without
    _refuse_conditions(name, program)
    description = _description(name, program, signature, call)
    parts: dict[str, bytes] = {}
    for what in description.programs():
        found = _program(what, graph, description, off)
        parts[f"{what}.mlir"] = stablehlo(found, what, off).encode()
        parts[f"{what}.py"] = source(lowered(drop_assumptions(found), (*KERNEL_ONLY, *off)), what).encode()
    text, latex = _formulas(name, graph, signature, call, captured, off)
    parts |= {"formula.txt": text.encode(), "formula.tex": latex.encode(), "graph.txt": str(graph).encode()}
    parts |= {f"state/{i}": _bytes(t._array) for i, t in enumerate(captured)}
    container.write(path, description.json(), parts)


def _refuse_conditions(name: str, program: Program) -> None:
    for condition in program.guards.scalar_conditions:
        asked = condition.text(lambda v: program.graph.labels[v.attrs["index"]])
        raise TraceError(
            f"{user_line()}: {name} goes by its argument, {asked}, and a file holds one way only: compile(f, static=...) makes the number"
            " part of the program"
        )


def _traced(signature: Signature, call: Call, name: str) -> Trace:
    try:
        return trace(signature.caller(call), call.leaves, call.labels, signature.names(), tensor_names(signature.function))
    except TraceError as error:
        raise TraceError(f"{error}. {_PURE.format(name=name)}") from error


def _latest(compiled: Any, name: str) -> tuple[Call, Program]:
    program = compiled._latest
    if program is not None and program.runner is None and not program.path.expected:
        if _has_derivatives(program):
            program, _ = compiled._differentiated(program, "export", None)
        return program.call, program
    if program is not None or compiled._program_cache.programs():
        raise TraceError(f"{user_line()}: {name} has effects, or branches on values. {_PURE.format(name=name)}")
    raise TraceError(f"{user_line()}: {name} has no program yet: call it once, or say for which arguments: export(path, spec(shape), ...)")


def _has_derivatives(program: Program) -> bool:
    """True if there is an input to differentiate in: a function of integers is exported without gradients."""
    arguments = program.graph.inputs[: len(program.graph.inputs) - len(program.captured)]
    return any(kind(x.dtype) in "fc" for x in arguments) or any(t.requires_grad for t in program.captured)


def _description(name: str, program: Program, signature: Signature, call: Call) -> Description:
    graph, captured, count = program.graph, program.captured, len(call.leaves)
    if len(graph.inputs) != count + len(captured):
        raise GraphError(f"{name} has {len(graph.inputs)} inputs, for {count} tensor arguments and {len(captured)} others")
    numbers = {i for i, cls in enumerate(call.scalar_types) if cls is not None}
    typed = zip(graph.labels, graph.inputs, strict=True)
    inputs = [Input(label, Meta(x.shape, x.dtype), number=i in numbers) for i, (label, x) in enumerate(typed)]
    state = [Input(x.label, x.meta, t.requires_grad) for x, t in zip(inputs[count:], captured, strict=True)]
    return Description(
        name,
        _parameters(signature, call),
        tuple(inputs[:count]),
        tuple(state),
        tuple(sorted(i for i in differentiate.differentiable_inputs(graph) if kind(graph.inputs[i].dtype) in "fc")),
        tuple(Meta(v.shape, v.dtype) for v in graph.outputs),
        pytree_json.encode(program.structure, fixed=False),
        platform(),
        graph.hash,
        {"python": sys.version.partition(" ")[0]} | {package: _version(package) for package in ("symgrad", "jax", "jaxlib", "numpy")},
    )


def _parameters(signature: Signature, call: Call) -> tuple[Parameter, ...]:
    parameters = signature.signature.parameters
    encoded = pytree_json.encode(tuple(call.structure.values()), fixed=True)["tuple"]  # all at once: leaves are numbered across parameters
    given = [(parameters[name], node) for name, node in zip(call.structure, encoded, strict=True)]
    return tuple(Parameter(p.name, p.kind, node, _default(p, node)) for p, node in given)


def _default(parameter: inspect.Parameter, node: Any) -> Any:
    """Return the default of a parameter that has inputs in it, if it consists of plain values; else None."""
    if parameter.default is inspect.Parameter.empty or not pytree_json.has_leaves(node):
        return None
    encoded = pytree_json.encode(parameter.default, fixed=True)
    return None if pytree_json.has_fixed(encoded) else encoded


def _program(what: str, graph: Graph, description: Description, off: Off) -> Graph:
    if what == "forward":
        return graph
    if what == "vjp":
        return DERIVED.run(differentiate.vjp(graph, description.differentiable), off)
    gradient = differentiate.grad(graph, description.wrt)
    return DERIVED.run(Graph(gradient.inputs, (*graph.outputs, *gradient.outputs), gradient.labels), off)


def _formulas(
    name: str, graph: Graph, signature: Signature, call: Call, captured: Sequence[Tensor], off: Off
) -> tuple[str, str]:
    """Return the formula of each result, and for a scalar one also of its gradients, as text and as LaTeX; the graph if there is no
    formula."""
    if len(graph) > _MAX_FORMULA_LENGTH:
        return str(graph), ""
    origin = CallSource(signature, call, captured)
    name = name if name.isidentifier() else "f"
    texts, blocks = [], []
    try:
        for i, y in enumerate(graph.outputs):
            one = Graph(graph.inputs, (y,), graph.labels)
            slopes = tuple(j for j, x in enumerate(graph.inputs) if kind(x.dtype) in "fc")
            wrt = slopes if len(graph.outputs) == 1 and y.size == 1 and kind(y.dtype) in "fc" else ()
            program, found = derived(one, wrt, DerivationRequest(None, 1 if wrt else 0, "auto", off), PathConditions())
            title = name if len(graph.outputs) == 1 else f"{name}_{i}"
            derivation = Derivation(title, program, found, wrt, False, origin, ())
            texts.append(str(derivation))
            blocks.append(derivation.latex())
    except Exception as error:  # SymPy failed: the file is as useful without a formula
        _logger.info("%s is exported without a formula: %s", name, error)
        return str(graph), ""
    return "\n".join(texts), "\n".join(blocks)


def _bytes(array: Array) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # not installed
        return "unknown"
