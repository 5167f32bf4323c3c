"""Programs as StableHLO text, and such text as functions again.

Text from a file is believed in nothing. It must be text, since MLIR's reader of binary modules trusts what it reads, and not nested too
deeply; it may use operations of StableHLO, and call no code by name but routines of linear algebra that XLA knows; and its function must
have the types that the file says. Parsing it executes nothing: it is compiled when it is first called.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from symgrad.compiler.graph.ir import Graph, type_text
from symgrad.compiler.xla.cache import kept
from symgrad.compiler.xla.function import function
from symgrad.compiler.xla.kernel import Kernel, jitted
from symgrad.errors import FileError, GraphError
from symgrad.graph import ARRAYS
from symgrad.ops.spec import Meta
from symgrad.typing import Array

_DIALECTS = {"builtin", "chlo", "func", "stablehlo"}
_CALLS = re.compile(
    r"lapack_[a-z]{4,8}_ffi|(cu|hip)solver_[a-z]{4,8}_ffi|cusparse_gtsv2_ffi|(cu|hip)_lu_pivots_to_permutation|Sharding|mhlo\.(erf|topk)"
    r"|Eigh|Qr|LuDecomposition|ProductOfElementaryHouseholderReflectors"
)
"""What a module may call by name. Never a callback: these take the address of code to run."""
_DEEPEST = 60
_TYPES = {
    "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32",
    "uint64": "ui64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "complex<f32>",
    "complex128": "complex<f64>",
}  # fmt: skip


def stablehlo(graph: Graph, name: str) -> str:
    """A graph as the text of a StableHLO module."""
    import jax.export
    from jax.extend import mlir

    kernel = Kernel(graph, name)
    low = kernel.graph
    with jax.enable_x64(kernel.wide):
        specs = _specs(low.inputs)
        try:
            exported = jax.export.export(jax.jit(function(low, name), keep_unused=True))(*specs)
        except (ValueError, NotImplementedError) as error:  # code that only this process has
            raise GraphError(f"{name} cannot be exported: {error}") from error
    with _context():
        text = str(mlir.deserialize_portable_artifact(exported.mlir_module_serialized))
    check(text, low.inputs, low.outputs)  # what cannot be loaded is not written
    return text


def platform() -> str:
    """For what programs are exported: "cpu", "cuda", ..."""
    import jax.export

    return str(jax.export.default_export_platform())


def check(text: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    """Refuse a text that is no module of the given types, or that does more than compute."""
    if not text.isascii() or not text.startswith("module ") or "{-#" in text:
        raise FileError("a program is not the text of a StableHLO module")
    if _depth(text) > _DEEPEST:
        raise FileError(f"a program is nested deeper than {_DEEPEST} levels")
    mlir = _mlir()
    with _context():
        try:
            module = mlir.Module.parse(text)
        except (mlir.MLIRError, ValueError) as error:
            reason = str(error).partition("\n")[2].strip() or str(error)
            raise FileError(f"a program is no StableHLO that this version of JAX knows ({reason[:300]})") from None
        for operation in _operations(module.operation):
            _check_operation(operation)
        _check_types(mlir, module, inputs, outputs)


class Loaded:
    """A checked module as a function of arrays."""

    def __init__(self, text: str, inputs: Sequence[Meta], outputs: Sequence[Meta]) -> None:
        check(text, inputs, outputs)
        self.text, self.inputs, self.outputs = text, tuple(inputs), tuple(outputs)

    on_device = True
    donated: tuple[int, ...] = ()
    packing = None

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        return [np.array(r) for r in self.launch(arrays)]  # copies, so that they can be written to

    def launch(self, held: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """The results as buffers of the device, for arrays of the host's and buffers."""
        import jax

        with jax.enable_x64(True):
            found = jitted(lambda: self._compiled(*held))
        ARRAYS.update(map(type, found))
        for r in found:
            r.block_until_ready()  # until then XLA may read memory that anybody may write to
        return tuple(found)

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        """Ready to run. Everything but the program itself is that of another one with the same types."""
        import jax.export

        def stand_in(*arrays: Any) -> Any:
            return tuple(jax.numpy.zeros(m.shape, m.dtype) for m in self.outputs)

        specs = _specs(self.inputs)
        exported = jax.export.export(jax.jit(stand_in, keep_unused=True))(*specs)
        exported = dataclasses.replace(exported, mlir_module_serialized=self.text.encode())
        typed = jax.jit(exported.call, keep_unused=True).lower(*specs)
        with kept(blake2b(self.text.encode(), digest_size=16).hexdigest()):
            return typed.compile()


def _specs(typed: Sequence[Any]) -> list[Any]:
    import jax

    spec: Any = jax.ShapeDtypeStruct
    return [spec(x.shape, x.dtype) for x in typed]


def _mlir() -> Any:
    from jax._src.lib import mlir

    bindings: Any = mlir
    return bindings.ir


def _context() -> contextlib.AbstractContextManager[Any]:
    from jax.interpreters import mlir

    return mlir.make_ir_context()


def _depth(text: str) -> int:
    """How deeply brackets are nested."""
    depth = deepest = 0
    for bracket in re.findall(r"->|[<>(){}\[\]]", text):
        if bracket in "<({[":
            depth += 1
            deepest = max(deepest, depth)
        elif bracket != "->":
            depth -= 1
    return deepest


def _operations(root: Any) -> list[Any]:
    """All operations inside, without recursion."""
    found = [root.operation]
    for operation in found:  # grows while it is walked
        found.extend(inner.operation for region in operation.regions for block in region.blocks for inner in block.operations)
    return found


def _check_operation(operation: Any) -> None:
    dialect = operation.name.partition(".")[0]
    if dialect not in _DIALECTS:
        raise FileError(f"a program has the operation {operation.name}, and only those of StableHLO are run")
    if operation.name == "stablehlo.custom_call":
        target = _mlir().StringAttr(operation.attributes["call_target_name"]).value
        if _CALLS.fullmatch(target) is None:
            raise FileError(f"a program calls code by the name {target!r}, which is not among those that may be called")


def _check_types(mlir: Any, module: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
    functions = [o for o in module.body.operations if o.operation.name == "func.func"]
    mains = [f for f in functions if mlir.StringAttr(f.attributes["sym_name"]).value == "main"]
    if len(mains) != 1:
        raise FileError(f"a program must have one function main, not {len(mains)}")
    kind = mlir.FunctionType(mlir.TypeAttr(mains[0].attributes["function_type"]).value)
    found = [str(t) for t in kind.inputs], [str(t) for t in kind.results]
    wanted = [_type(m) for m in inputs], [_type(m) for m in outputs]
    if found != wanted:
        said = f"({', '.join(map(type_text, inputs))}) -> ({', '.join(map(type_text, outputs))})"
        raise FileError(f"a program has other types than its file says, {said}")


def _type(m: Any) -> str:
    return f"tensor<{''.join(f'{n}x' for n in m.shape)}{_TYPES[m.dtype.name]}>"
