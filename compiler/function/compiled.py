"""compile(): a function whose calls run as kernels, one for each combination of argument types.

A compiled function takes part in eager autograd. A call is recorded as one node, whose backward is the compiled VJP; the VJP is itself such
an operation, so gradients of gradients are kernels too.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.compiler.function.builder import ProgramBuilder
from symgrad.compiler.function.derivatives import DerivativeMethods
from symgrad.compiler.function.descriptor import FunctionWrapper
from symgrad.compiler.function.eager_fallback import EagerFallback
from symgrad.compiler.function.inspect.inspection import Inspection
from symgrad.compiler.function.recompiles import Recompiles
from symgrad.compiler.guards.names import compares_argument_identity
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.requires_grad import trace_for_derivatives
from symgrad.compiler.inputs.signature import Call, Signature, Spec, tensor_types
from symgrad.compiler.inputs.wrt import WrtSelection
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.runtime.cache import NOT_KEPT, ProgramCache
from symgrad.compiler.runtime.program import CACHE_MISS, Program
from symgrad.compiler.runtime.return_types import convert_results
from symgrad.compiler.support.progress import compiling
from symgrad.compiler.trace.tracer import is_tracing
from symgrad.device_buffers import donations_in_flight
from symgrad.device_tensor import restore_residency
from symgrad.errors import GraphError, TraceError
from symgrad.graph import next_sequence
from symgrad.mode import NoFastPaths, compiled_functions, local
from symgrad.ops.assumptions import checked
from symgrad.pytree import flatten
from symgrad.tensor import Tensor, wrap
from symgrad.views import protect


class Compiled(DerivativeMethods, Inspection, FunctionWrapper):
    """A compiled function: call it like the original. It takes tensors and arrays, and returns tensors or arrays."""

    def __init__(self, function: Callable[..., Any], options: Options = DEFAULT) -> None:
        self.options = options
        self.signature = Signature(function, options)
        self._name: str = getattr(function, "__name__", "function")
        compares_identity = functools.partial(compares_argument_identity, function)
        self._program_cache = ProgramCache(self.signature.signature, compares_identity, options.returns)
        self._fast_entries = self._program_cache.fast.entries
        self._program_builder = ProgramBuilder(self.signature, options, self._name, self._program_cache)
        self.traces = self._program_builder.traces
        functools.update_wrapper(self, function, updated=())
        compiled_functions.add(self)

    def forget_fast_paths(self) -> None:
        """Make the next call and the next derivative look up their program by the full key."""
        self._program_cache.forget_shortcuts()

    def __repr__(self) -> str:
        made = self._program_cache.counts()[1]
        programs = {0: "no program yet", 1: "1 program"}.get(made, f"{made} programs")
        return f"<compiled {self.signature}: {programs}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        entry = self._fast_entries.get((len(args), *kwargs) if kwargs else len(args))
        if entry is not None:
            found = entry.run(args, kwargs)
            if found is not CACHE_MISS:
                return found
        return self._dispatch(args, kwargs)

    def _dispatch(self, args: Any, kwargs: Any) -> Any:
        """Run the program that is known for the types of the arguments; if there is none, take the slow path."""
        mode = local.mode
        if mode.capture is not None:
            if is_tracing():  # inside another trace: inline the function
                with checked(self.options.check_assumptions):
                    return self.signature.function(*args, **kwargs)
            return self._run(self._bound(args, kwargs), None, None)  # under an outer transform: no fast path
        types = None if kwargs else tensor_types(args, mode.recording)
        short, _ = self._program_cache.by_types.get(types, NOT_KEPT)
        if short is not None:
            found = short.try_run(args)
            if found is not CACHE_MISS:
                self._program_cache.fast.last_run.target_or_program = short
                return found
        call = self._bound(args, kwargs)
        return self._run(call, types, short) if self.options.fallback is None else self._run_or_fall_back(call, types, short, args, kwargs)

    def _run_or_fall_back(self, call: Call, types: Any, tried: Program | None, args: Any, kwargs: Any) -> Any:
        """Run a call; if it cannot be traced, run it eagerly, now and from now on."""
        key = call.key()
        if key not in self._program_cache.eager_keys:
            try:
                return self._run(call, types, tried)
            except (TraceError, GraphError) as error:
                self._program_cache.eager_keys.add(key)
                self.traces.warn("eager", f"{self.signature} runs eagerly from now on: {error}")
        since = next_sequence()
        with checked(self.options.check_assumptions):
            result = self.signature.function(*map(_tensor, args), **{name: _tensor(x) for name, x in kwargs.items()})
        self._protect(result, call, since)
        return self._convert_results(result, call, False)

    def _run(self, call: Call, types: Any, tried: Program | None) -> Any:
        """The slow path. The recorded history keeps copies of NumPy arguments, because the caller may overwrite them before backward()."""
        if np.ndarray not in call.kinds or not local.mode.recording:
            return self._run_cached(call, types, tried)
        since = next_sequence()
        result = self._run_cached(call, types, tried)
        self._protect(result, call, since)
        return result

    def _protect(self, result: Any, call: Call, since: int) -> None:
        """Make the history of the results and of written tensors keep copies of the arrays among the arguments."""
        tensors = flatten(result, lambda x: isinstance(x, Tensor))[0]
        tensors += (*call.leaves, *(self._latest.captured if self._latest is not None else ()))
        edges = {id(x._node): x._node for x in tensors if isinstance(x, Tensor) and x._node is not None}
        for edge in edges.values():
            for array in call.leaves:
                if isinstance(array, np.ndarray):
                    protect(edge, array, since)

    def _run_cached(self, call: Call, types: Any, tried: Program | None) -> Any:
        """Run the first program for such calls whose guards hold, or trace the call. `tried` has already failed."""
        found = self._run_known(call, types, tried)
        if found is not CACHE_MISS:
            return found
        traces = len(self.traces.records)
        with self._program_builder.lock, compiling(self._name, self.options.verbose), NoFastPaths():
            with donations_in_flight.lock:  # a run that has not seen this trace counts itself under the lock
                running = donations_in_flight.count
            if running:
                donations_in_flight.wait()
            if len(self.traces.records) > traces:  # another thread has traced the function meanwhile
                found = self._run_known(call, types, None)
                if found is not CACHE_MISS:
                    return found
            with restore_residency(call.leaves):
                result, program, requires_grad = self._program_builder.build(call)
            if program is None:  # the call has run
                return self._convert_results(result, call, requires_grad)
            return self._finish(call, types, program, program.run(call.tensors()))

    def _run_known(self, call: Call, types: Any, tried: Program | None) -> Any:
        """Run the first program for such calls whose guards hold; return CACHE_MISS if there is none."""
        tensors = call.tensors()
        for program in self._program_cache.lookup(call):
            found = self._try(program, tensors) if program is not tried else CACHE_MISS
            if found is not CACHE_MISS:
                return self._finish(call, types, program, found)
        return CACHE_MISS

    def _try(self, program: Program, tensors: list[Tensor]) -> Any:
        """Return the result of a program; CACHE_MISS if its guards fail."""
        if program.has_run:
            return program.try_run(tensors)
        with compiling(self._name, self.options.verbose):  # its kernel is compiled at its first run
            return program.try_run(tensors)

    def _finish(self, call: Call, types: Any, program: Program, found: Any) -> Any:
        """Note that a program has run a call, and return its results."""
        program.has_run, self._latest = True, program
        self._program_cache.add_shortcuts(call, types, program)
        return self._convert_results(found, call, program.requires_grad)

    def _convert_results(self, result: Any, call: Call, requires_grad: bool) -> Any:
        """Return the result as tensors or as arrays; `requires_grad`: a captured tensor requires grad."""
        return convert_results(result, call.kinds, self.options.returns, requires_grad)

    def recompiles(self) -> Recompiles:
        """Return every trace so far, with its reasons; it prints as a table. The logger `symgrad.compile` reports the same."""
        return self.traces.records

    def as_jax(self, mode: str = "vjp") -> Any:
        """Return the function on JAX arrays, in any pytrees: for jax.jit, jax.grad, jax.vmap and libraries built on them.

        Its derivatives are symgrad's closed forms: as a jax.custom_vjp, or with mode="jvp" as a jax.custom_jvp, which also has forward
        mode. Captured tensors are constants, read at each call; under jax.jit that is when JAX traces it.
        """
        from symgrad.compiler.interop.as_jax import JaxFunction

        return JaxFunction(self.signature, self.options, mode)

    def as_torch(self) -> Any:
        """Return the function on PyTorch CPU tensors, differentiable there to every order: forward and backward are kernels. Captured
        symgrad tensors are constants, read at each call."""
        from symgrad.compiler.interop.as_torch import TorchFunction

        return TorchFunction(self, self.signature.function)

    def export(self, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
        """Write the programs for such arguments (or specs; without any, the latest programs) to a file that `load_compiled` reads: forward,
        VJP and gradient as StableHLO, with types, formula and the captured tensors."""
        from symgrad.compiler.export.writer import export

        export(self, path, args, kwargs)

    def _bound(self, args: Any, kwargs: Any) -> Call:
        call = self.signature.bind(args, kwargs)
        for leaf, label in zip(call.leaves, call.labels, strict=True):
            if isinstance(leaf, Spec):
                raise TypeError(f"{label} is a spec, a shape without values: derive takes those, a compiled function needs tensors")
        return call

    def _prepare(self, args: Any, kwargs: Any, what: str) -> tuple[Call, Program]:
        call = self._bound(args, kwargs)
        return call, self._program(call.differentiated(), what)

    def _differentiable(self, args: Any, kwargs: Any, what: str, wrt: Any) -> tuple[Call, Program | EagerFallback, WrtSelection]:
        """Return the bound call, what computes its derivatives (a program, or an eager fallback), and the selected inputs."""
        call = self._bound(args, kwargs)
        make = self._program if self.options.fallback is None else self._program_or_eager
        places = self.signature.named_arguments(call)
        chosen = lambda program: self._choice(call, program, wrt)
        return call, *trace_for_derivatives(call, wrt, places, lambda c: make(c, what), chosen, self.signature.trains)

    def _program_or_eager(self, call: Call, what: str) -> Program | EagerFallback:
        key = "derivatives", call.key()
        if key not in self._program_cache.eager_keys:
            try:
                return self._program(call, what)
            except (TraceError, GraphError) as error:
                self._program_cache.eager_keys.add(key)
                self.traces.warn("derivatives", f"derivatives of {self.signature} are computed eagerly from now on: {error}")
        return EagerFallback(self.signature.caller(call), call, tensor_names(self.signature.function))

    def _program(self, call: Call, what: str) -> Program:
        """Return the program for derivatives of a call; if the function branches on values, the one for the path that the call takes. In
        such calls, inputs that share memory are different inputs."""
        for program in self._program_cache.lookup(call, derives=True):
            if program.check_guards(call.leaves) and program.takes_path(program.inputs(call)):
                break
        else:
            with restore_residency(call.leaves):
                program = self._program_builder.build_for_derivatives(call, what)
        self._latest = program
        return program


def _tensor(argument: Any) -> Any:
    """Return an array as the tensor that traced code gets in its place."""
    return wrap(argument) if isinstance(argument, np.ndarray) else argument
