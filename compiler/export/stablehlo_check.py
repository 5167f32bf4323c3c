"""Validation of StableHLO text from a file: it may compute, and nothing else.

XLA trusts the modules that it compiles: a recursive function, a function without a body, a chain of a thousand calls or a LAPACK call with
a result that is too small crashes the process. So a module from a file must be

- text (MLIR's reader of binary modules trusts its input), not nested too deeply;
- flat functions of one block each, which call each other without cycles and not too deeply, and which expand to a bounded number of
  operations with bounded dependency paths;
- operations of an allow list, on tensors of supported dtypes with static shapes, without attributes that steer XLA;
- with custom calls only to the linear algebra routines that JAX uses, in the way that JAX calls them;
- of the types that the file states.

Parsing executes nothing.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import Any, NamedTuple

from symgrad.compiler.export.lapack_calls import check_call
from symgrad.compiler.ir.graph import type_text
from symgrad.errors import FileError

_OPERATIONS = {
    "stablehlo": (
        "abs add and atan2 bitcast_convert broadcast_in_dim case cbrt ceil clamp compare complex composite concatenate constant convert"
        " convolution cosine count_leading_zeros custom_call divide dot_general dynamic_slice dynamic_update_slice exponential"
        " exponential_minus_one fft floor gather if imag iota is_finite log log_plus_one logistic maximum minimum multiply negate not"
        " optimization_barrier or pad popcnt power real reduce reduce_window remainder reshape return reverse round_nearest_afz"
        " round_nearest_even rsqrt scatter select select_and_scatter shift_left shift_right_arithmetic shift_right_logical sign sine slice"
        " sort sqrt subtract tan tanh transpose while xor"
    ),
    "chlo": (
        "acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc lgamma next_after polygamma sinh square tan top_k"
        " zeta"
    ),
    "func": "call func return",
}
_KNOWN = {f"{dialect}.{name}" for dialect, names in _OPERATIONS.items() for name in names.split()}
_CALLS = {
    "cpu": r"(?!)",
    "tpu": r"Eigh|Qr|LuDecomposition|ProductOfElementaryHouseholderReflectors",
    "gpu": r"(cu|hip)solver_[a-z]{4,8}_ffi|cusparse_gtsv2_ffi|(cu|hip)_lu_pivots_to_permutation",
}
"""Custom calls that are allowed besides LAPACK, by platform. Never a callback, which takes the address of code to run."""
_MODULE = {"sym_name": r".*", "jax.uses_shape_polymorphism": "false", "mhlo.num_partitions": "1 : i32", "mhlo.num_replicas": "1 : i32"}
_DEEPEST, _MOST_CALLS, _LONGEST_PATH, _MOST_OPERATIONS, _MOST_ELEMENTS = 60, 32, 10_000, 2**17, 2**40
_TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32",
    "uint64": "ui64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}  # fmt: skip
_TENSOR = re.compile(rf"tensor<((?:\d+x)*)(?:{'|'.join(map(re.escape, _TYPES.values()))})>")


class _Size(NamedTuple):
    """The size of a function when its calls are expanded."""

    depth: int
    operations: int
    path: int


def check(text: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Raise FileError for text that is not a module of the given types, or that does more than compute."""
    if not text.isascii() or not text.startswith("module ") or "{-#" in text:
        raise FileError("a program is not the text of a StableHLO module")
    if _depth(text) > _DEEPEST:
        raise FileError(f"a program is nested deeper than {_DEEPEST} levels")
    mlir = _mlir()
    with context():
        try:
            module = mlir.Module.parse(text)
        except (mlir.MLIRError, ValueError) as error:
            reason = str(error).partition("\n")[2].strip() or str(error)
            raise FileError(f"a program is no StableHLO that this version of JAX knows ({reason[:300]})") from None
        functions = _functions(module)
        bodies = {name: _operations(function) for name, function in functions.items()}
        for function in functions.values():
            _check_function(function)
        for operation in (o for body in bodies.values() for o in body):
            _check_operation(operation)
        _check_calls(functions, bodies)
        _check_types(functions, inputs, outputs)


def context() -> contextlib.AbstractContextManager[Any]:
    """Return an MLIR context with JAX's dialects."""
    from jax.interpreters import mlir

    return mlir.make_ir_context()


def _mlir() -> Any:
    from jax._src.lib import mlir

    bindings: Any = mlir
    return bindings.ir


def _depth(text: str) -> int:
    """Return how deeply brackets are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"->|[<>(){}\[\]]", text):
        if bracket in "<({[":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket != "->":
            depth -= 1
    return deepest


def _functions(module: Any) -> dict[str, Any]:
    """Return the functions of a module by name; raise FileError if there is anything else in it."""
    _check_module(module.operation)
    found: dict[str, Any] = {}
    for operation in module.body.operations:
        if operation.operation.name != "func.func":
            raise FileError(f"a program has {operation.operation.name} beside its functions")
        found[_name(operation.attributes["sym_name"])] = operation.operation
    if "main" not in found:
        raise FileError("a program must have a function main")
    return found


def _check_module(operation: Any) -> None:
    for name, value in _attributes(operation):
        if re.fullmatch(_MODULE.get(name, "(?!)"), str(value)) is None:
            raise FileError(f"a program has the attribute {name} = {str(value)[:80]}, which is not one of a plain program")


def _check_function(operation: Any) -> None:
    name = _name(operation.attributes["sym_name"])
    if len(operation.regions[0].blocks) != 1:
        raise FileError(f"a function {name[:80]!r} must have a body of one block, and has {len(operation.regions[0].blocks)}")
    for key, value in _attributes(operation):
        if key in ("arg_attrs", "res_attrs"):
            named = {_key(a) for one in value for a in one}
        elif key in ("function_type", "sym_name", "sym_visibility"):
            continue
        else:
            named = {key}
        if not named <= {"jax.result_info", "jax.arg_info"}:
            raise FileError(f"a function {name[:80]!r} has the attributes {', '.join(sorted(named))}: they are not of a plain program")


def _operations(function: Any) -> list[Any]:
    """Return all operations inside a function, without recursion."""
    found = [function]
    for operation in found:  # grows while it is walked
        found.extend(inner.operation for region in operation.regions for block in region.blocks for inner in block.operations)
    return found[1:]


def _check_operation(operation: Any) -> None:
    name = operation.name
    if name not in _KNOWN or name == "func.func":
        raise FileError(f"a program has the operation {name}, and only those of StableHLO that compute are run")
    for x in (*operation.results, *(x for region in operation.regions for block in region.blocks for x in block.arguments)):
        _check_tensor(str(x.type))
    if name == "stablehlo.custom_call":
        _check_custom_call(operation)
        return
    for key in map(_key, operation.attributes):  # not their values: the bindings cannot read complex constants
        if "." in key or key.startswith("_"):
            raise FileError(f"an operation {name} has the attribute {key}, which is none of its own")


def _check_tensor(kind: str) -> None:
    found = _TENSOR.fullmatch(kind)
    if found is None:
        raise FileError(f"a program has a value of type {kind[:80]}, and only tensors with fixed sizes are computed")
    if prod(int(size) or 1 for size in found[1].split("x")[:-1]) > _MOST_ELEMENTS:
        raise FileError(f"a program has a value of type {kind[:80]}: so many elements there cannot be")


def _check_custom_call(operation: Any) -> None:
    from jax.export import default_export_platform

    target = _name(operation.attributes["call_target_name"])
    platform = default_export_platform()
    others = _CALLS.get(platform, _CALLS["gpu"])
    if not (platform == "cpu" and check_call(operation, target)) and re.fullmatch(others, target) is None:
        raise FileError(f"a program calls code by the name {target!r}, which is not among those that may be called")


def _check_calls(functions: dict[str, Any], bodies: dict[str, list[Any]]) -> None:
    """Raise FileError for cycles of calls, and for functions that are too large. XLA inlines calls, so the expanded size counts."""
    calls = {name: [c for o in body if (c := _callee(o)) is not None] for name, body in bodies.items()}
    try:
        order = list(TopologicalSorter(calls).static_order())
    except CycleError as error:
        raise FileError(f"a program has functions that call themselves: {' -> '.join(error.args[1])[:200]}") from None
    sizes: dict[str, _Size] = {}
    for name in order:
        if name not in calls:
            raise FileError(f"a program calls a function {name[:80]!r} that it does not have")
        inner = [sizes[c] for c in calls[name]]
        sizes[name] = _Size(
            depth=1 + max((c.depth for c in inner), default=0),
            operations=len(bodies[name]) + sum(c.operations for c in inner),
            path=_longest_path(functions[name].regions[0].blocks[0], {}, sizes),
        )
    _bounded("calls inside each other", max(s.depth for s in sizes.values()), _MOST_CALLS)
    _bounded("operations when calls are expanded", sum(s.operations for s in sizes.values()), _MOST_OPERATIONS)
    _bounded("operations that wait for each other", max(s.path for s in sizes.values()), _LONGEST_PATH)


def _bounded(what: str, found: int, limit: int) -> None:
    if found > limit:
        raise FileError(f"a program has {found} {what}, and {limit} is the limit")


def _longest_path(block: Any, paths: dict[Any, int], sizes: dict[str, _Size]) -> int:
    """Return the number of operations on the longest path to a value of a block, with calls expanded; `paths` maps values to their
    lengths."""
    longest = 0
    for operation in block.operations:
        inner = max((_longest_path(b, paths, sizes) for region in operation.regions for b in region.blocks), default=0)
        callee = _callee(operation.operation)
        called = 0 if callee is None else sizes[callee].path
        path = 1 + inner + called + max((paths.get(x, 0) for x in operation.operands), default=0)
        paths.update(dict.fromkeys(operation.results, path))
        longest = max(longest, path)
    return longest


def _callee(operation: Any) -> str | None:
    key = {"func.call": "callee", "stablehlo.composite": "decomposition"}.get(operation.name)
    return None if key is None else str(_mlir().FlatSymbolRefAttr(operation.attributes[key]).value)


def _check_types(functions: dict[str, Any], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    mlir = _mlir()
    kind = mlir.FunctionType(mlir.TypeAttr(functions["main"].attributes["function_type"]).value)
    found = [str(t) for t in kind.inputs], [str(t) for t in kind.results]
    if found != ([_type(m) for m in inputs], [_type(m) for m in outputs]):
        said = f"({', '.join(map(type_text, inputs))}) -> ({', '.join(map(type_text, outputs))})"
        raise FileError(f"a program has other types than its file says, {said}")


def _type(m: Any) -> str:
    return f"tensor<{''.join(f'{n}x' for n in m.shape)}{_TYPES[m.dtype.name]}>"


def _attributes(operation: Any) -> list[tuple[str, Any]]:
    return [(_key(a), operation.attributes[_key(a)]) for a in operation.attributes]


def _key(attribute: Any) -> str:
    """Return the name of an attribute: depending on the JAX version, iteration yields names or pairs."""
    return attribute if isinstance(attribute, str) else str(attribute.name)


def _name(attribute: Any) -> str:
    return str(_mlir().StringAttr(attribute).value)
