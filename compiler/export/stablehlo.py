"""Programs as StableHLO text, and such text as functions again.

Text from a file is checked first (see `stablehlo_check`), and compiled when it is first called.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from symgrad.compiler.backends.xla.compilation_cache import kept_on_disk
from symgrad.compiler.backends.xla.function import function
from symgrad.compiler.backends.xla.kernel import XlaKernel, jitted
from symgrad.compiler.export.stablehlo_check import check, context
from symgrad.compiler.ir.graph import Graph
from symgrad.compiler.rewrite.pipeline import Off
from symgrad.errors import FileError, GraphError
from symgrad.graph import ARRAYS
from symgrad.ops.spec import Meta
from symgrad.typing import Array


def stablehlo(graph: Graph, name: str, off: Off = ()) -> str:
    """Return a graph as the text of a StableHLO module."""
    import jax.export
    from jax.extend import mlir

    kernel = XlaKernel(graph, name, off=off)
    low = kernel.graph
    with jax.enable_x64(kernel.wide):
        specs = _specs(low.inputs)
        try:
            exported = jax.export.export(jax.jit(function(low, name), keep_unused=True))(*specs)
        except (ValueError, NotImplementedError) as error:  # code that exists in this process only
            raise GraphError(f"{name} cannot be exported: {error}") from error
    with context():
        text = str(mlir.deserialize_portable_artifact(exported.mlir_module_serialized))
    check(text, low.inputs, low.outputs)  # never write a program that cannot be loaded
    return text


def platform() -> str:
    """Return the platform that programs are exported for: "cpu", "cuda", ..."""
    import jax.export

    return str(jax.export.default_export_platform())


class Loaded:
    """A checked module as a function of arrays."""

    def __init__(self, text: str, inputs: Sequence[Meta], outputs: Sequence[Meta]) -> None:
        check(text, inputs, outputs)
        self.text, self.inputs, self.outputs = text, tuple(inputs), tuple(outputs)

    on_device = True
    donated: tuple[int, ...] = ()
    packing = None

    def __call__(self, arrays: Sequence[Any]) -> list[Array]:
        return [np.array(r) for r in self.launch(arrays)]  # copies, which are writable

    def launch(self, operands: Sequence[Any], found: list[Any] | None = None) -> Sequence[Any]:
        """Run the program on host arrays and buffers; return the results as device buffers."""
        import jax

        with jax.enable_x64(True):
            found = jitted(lambda: self._compiled(*operands))
        ARRAYS.update(map(type, found))
        for r in found:
            r.block_until_ready()  # until then XLA may read memory that the caller may write to
        return tuple(found)

    @functools.cached_property
    def _compiled(self) -> Callable[..., Any]:
        """The compiled program. Everything in the export object but the module itself is taken from a stand-in function with the same
        types."""
        import jax.export

        def stand_in(*arrays: Any) -> Any:
            return tuple(jax.numpy.zeros(m.shape, m.dtype) for m in self.outputs)

        specs = _specs(self.inputs)
        exported = jax.export.export(jax.jit(stand_in, keep_unused=True))(*specs)
        exported = dataclasses.replace(exported, mlir_module_serialized=self.text.encode())
        try:
            typed = jax.jit(exported.call, keep_unused=True).lower(*specs)
            with kept_on_disk(blake2b(self.text.encode(), digest_size=16).hexdigest()):
                return typed.compile()
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise FileError(f"XLA cannot compile a program of the file: {str(error)[:300]}") from error


def _specs(typed: Sequence[Any]) -> list[Any]:
    import jax

    spec: Any = jax.ShapeDtypeStruct
    return [spec(x.shape, x.dtype) for x in typed]
