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

from symgrad.compiler.function.derivatives import DerivativeMethods
from symgrad.compiler.function.descriptor import FunctionWrapper
from symgrad.compiler.function.eager_fallback import EagerFallback
from symgrad.compiler.function.inspect.inspection import Inspection
from symgrad.compiler.function.recompiles import Recompiles, TraceLog
from symgrad.compiler.guards.alias import alias_conflict
from symgrad.compiler.guards.host_rng import HostRngSnapshot
from symgrad.compiler.guards.names import compares_argument_identity, find_state_guards
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.pytree import flatten, static_values
from symgrad.compiler.inputs.requires_grad import trace_for_derivatives
from symgrad.compiler.inputs.signature import Call, Signature, Spec, tensor_types
from symgrad.compiler.inputs.wrt import WrtSelection
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.runtime.effectful_program import EffectfulProgram
from symgrad.compiler.runtime.executables import make_target, unflattener
from symgrad.compiler.runtime.fast_path import FastPath, call_key
from symgrad.compiler.runtime.program import CACHE_MISS, PureProgram
from symgrad.compiler.runtime.return_types import convert_results
from symgrad.compiler.runtime.step_fast_path import make_step_fast_path
from symgrad.compiler.support.collector import gc_paused
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import warn
from symgrad.compiler.trace.effects import Effects, has_escaped_tensors
from symgrad.compiler.trace.results import no_tensor_error
from symgrad.compiler.trace.trace import Trace, trace
from symgrad.compiler.trace.tracer import is_tracing
from symgrad.device_tensor import restore_residency
from symgrad.errors import EffectError, GraphError, TraceError
from symgrad.graph import next_sequence
from symgrad.mode import compiled_functions, local
from symgrad.tensor import Tensor, wrap
from symgrad.views import protect

_MAX_PATHS = 8
_MAX_ESCAPES = 4
_ESCAPE_WARNING = (
    "{} leaves tensors that it made behind at every call, in a list or an attribute, say; a program would make them once, so it is traced"
    " at every call and never compiled. Return them instead"
)


class Compiled(DerivativeMethods, Inspection, FunctionWrapper):
    """A compiled function: call it like the original. It takes tensors and arrays, and returns tensors or arrays."""

    def __init__(self, function: Callable[..., Any], options: Options = DEFAULT) -> None:
        self.options = options
        self.signature = Signature(function, options)
        self._programs: dict[Any, PureProgram] = {}
        self._conditional: dict[Any, list[PureProgram]] = {}
        """Programs with conditions on the values of scalar arguments, and older programs, by the types of the arguments."""
        self._effectful: dict[Any, list[EffectfulProgram]] = {}
        """Programs with effects or path conditions, by the types of the arguments."""
        self._paths: dict[Any, list[PureProgram]] = {}
        """Programs that were traced for derivatives, one per path of a function that branches on values."""
        self._by_types: dict[Any, PureProgram | EffectfulProgram] = {}
        """Programs by the types of positional tensors, for a lookup before the arguments are bound."""
        self._fast = FastPath(self.signature.signature, functools.partial(compares_argument_identity, function))
        self._fast_entries = self._fast.entries
        self._requests, self._points = {}, {}
        self._name: str = getattr(function, "__name__", "function")
        self._eager: set[Any] = set()
        """Keys of the calls that run eagerly (fallback="eager")."""
        self._escapes = 0
        self.traces = TraceLog(str(self.signature))
        functools.update_wrapper(self, function, updated=())
        compiled_functions.add(self)

    def forget_fast_paths(self) -> None:
        """Clear the fast paths, so that the next call and the next derivative look up their program by the full key."""
        for known in (self._by_types, self._points, self._fast_entries, self._requests):
            known.clear()

    def __repr__(self) -> str:
        made = len(self._programs) + sum(len(paths) for known in (self._conditional, self._effectful) for paths in known.values())
        programs = {0: "no program yet", 1: "1 program"}.get(made, f"{made} programs")
        return f"<compiled {self.signature}: {programs}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        entry = self._fast_entries.get((len(args), *kwargs) if kwargs else len(args))
        if entry is not None:
            found = entry.run(args, kwargs) if entry.direct is None else entry.direct(args)
            if found is not CACHE_MISS:
                return found
        return self._dispatch(args, kwargs)

    def _dispatch(self, args: Any, kwargs: Any) -> Any:
        """Run the program that is known for the types of the arguments; if there is none, take the slow path."""
        mode = local.mode
        if mode.capture is not None:
            if is_tracing():  # inside another trace: inline the function
                return self.signature.function(*args, **kwargs)
            return self._run(self._bound(args, kwargs), None, None)  # under an outer transform: no fast path
        types = None if kwargs else tensor_types(args, mode.recording)
        short = self._by_types.get(types)
        if short is not None:
            found = short.try_run(args)
            if found is not CACHE_MISS:
                self._latest = short
                return found
        call = self._bound(args, kwargs)
        return self._run(call, types, short) if self.options.fallback is None else self._run_or_fall_back(call, types, short, args, kwargs)

    def _run_or_fall_back(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None, args: Any, kwargs: Any) -> Any:
        """Run a call; if it cannot be traced, run it eagerly, now and from now on."""
        key = call.key()
        if key not in self._eager:
            try:
                return self._run(call, types, tried)
            except (TraceError, GraphError) as error:
                self._eager.add(key)
                self.traces.warn("eager", f"{self.signature} runs eagerly from now on: {error}")
        since = next_sequence()
        result = self.signature.function(*map(_tensor, args), **{name: _tensor(x) for name, x in kwargs.items()})
        self._protect(result, call, since)
        return self._convert_results(result, call, False)

    def _run(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None) -> Any:
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

    def _run_cached(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None) -> Any:
        """Run the first program for arguments of these types whose guards hold, or trace a new one. `tried` has already failed."""
        found = self._run_effectful(call, types, tried)
        if found is not CACHE_MISS:
            return found
        program = self._cached_program(call)
        if program is None:
            with compiling(self._name, self.options.verbose):
                with restore_residency(call.leaves):
                    result, program, requires_grad = self._trace(call)
                return self._convert_results(result, call, requires_grad) if program is None else self._launch_program(program, call, types)
        return self._launch_program(program, call, types)

    def _launch_program(self, program: PureProgram, call: Call, types: Any) -> Any:
        guards = program.guards
        simple = call.plain and not guards.scalar_conditions and self.options.returns != "numpy" and not call.autograd_mode()[2]
        if types is not None and simple and not self._fast.compares_identity():
            self._by_types[types] = program
        self._latest = program
        result = program.run(call.tensors())
        self._add_fast_path(program, call)
        return self._convert_results(result, call, guards.requires_grad)

    def _convert_results(self, result: Any, call: Call, requires_grad: bool) -> Any:
        """Return the result as tensors or as arrays; `requires_grad`: a captured tensor requires grad."""
        return convert_results(result, call.kinds, self.options.returns, requires_grad)

    def _add_fast_path(self, program: PureProgram, call: Call) -> None:
        """Let calls like this one take the fast path, unless their results are recorded or reuse the memory of arguments."""
        if program.operation.donates or (local.mode.recording and any(t._requires_grad for t in program.captured)):
            return
        target = make_target(program.operation.kernel, program, unflattener(program.structure), self.options.returns)
        if target is not None:
            self._fast.add(call_key(*call.given), call, target, records=True)

    def _run_effectful(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None) -> Any:
        """Return the result of the first program with effects whose guards hold, or CACHE_MISS."""
        steps = self._effectful.get(call.key(), ())
        if not steps:
            return CACHE_MISS
        tensors = call.tensors()
        for step in steps:
            found = self._try_effectful(step, tensors) if step is not tried else CACHE_MISS
            if found is not CACHE_MISS:
                if not self._fast.compares_identity():
                    if types is not None and call.plain and step.ignores_aliasing and self.options.returns != "numpy":
                        self._by_types[types] = step
                    self._fast.add_effectful(call, make_step_fast_path(step, self.options.returns))
                return self._convert_results(found, call, step.guards.requires_grad)
        return CACHE_MISS

    def _try_effectful(self, step: EffectfulProgram, tensors: list[Tensor]) -> Any:
        if step.has_run:
            found = step.try_run(tensors)
        else:
            with compiling(self._name, self.options.verbose):  # its kernel is compiled at its first run
                found = step.try_run(tensors)
        if found is not CACHE_MISS:
            step.has_run = True
            self._latest = step
        return found


    def _trace(self, call: Call) -> tuple[Any, PureProgram | None, bool]:
        """Trace a call; return its result, a program, and whether a captured tensor requires grad.

        If the call has already run, by the trace of its effects or by its new program, there is a result and no program; else the program
        is still to run.
        """
        times: dict[str, float] = {}
        with stage("trace", times):
            traced = self._trace_call(call, effects=True)
        try:
            return *self._build_program(call, traced, times), any(t.requires_grad for t in traced.captured)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        finally:
            traced.capture.journal.clear()

    def _trace_call(self, call: Call, **how: Any) -> Trace:
        """Trace one call of the function and add the guards on Python state."""
        self.traces.note(call, self._failures(call))
        given = [(path[1:], x) for path, x in static_values(call.structure, "").items()]
        state_guards = find_state_guards(self.signature.function, given)
        rng_snapshot = HostRngSnapshot(state_guards, given)
        known = self.signature.names(), tensor_names(self.signature.function, state_guards)
        traced = trace(self.signature.caller(call), call.leaves, call.labels, *known, allow_branches=True, **how)
        if traced.capture.unnamed:
            traced.assign_names(tensor_names(self.signature.function, state_guards))  # an optimizer has created its state
        try:
            rng_snapshot.refuse_draws()
            traced.capture.finalize(state_guards)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        return traced

    def _build_program(self, call: Call, traced: Trace, times: dict[str, float]) -> tuple[Any, PureProgram | None]:
        effects, name, key = Effects(traced), self._name, call.key()
        self._refuse(traced, effects)
        if not effects.any:
            traced.release_result()  # its history may keep tensors alive that the function made
        shared = alias_conflict(traced.capture)
        left = has_escaped_tensors(traced) or traced.capture.stores_argument or shared is not None
        if not left:
            traced.capture.warn_of_changes()
        if shared is not None:
            self.traces.warn(shared, f"{self.signature}: {shared}: such calls run as they are written")
        elif left:
            if traced.capture.hooks and not effects.any:
                raise TraceError(f"{self.signature}: a hook keeps gradients, which programs do not have; leave the function eager")
            self._escapes += 1
            if self._escapes >= _MAX_ESCAPES:
                self.traces.warn("escapes", _ESCAPE_WARNING.format(self.signature))
        if not effects.any and not traced.path.values:
            program = PureProgram(traced, call, name, self.options, times)
            return (program.run(call.tensors()), None) if left else (None, self._cache_program(key, program))
        if effects.any and left:
            return (traced.result if shared is None else self._run_aliased_call(call, traced)), None
        with gc_paused():
            step = self._latest = EffectfulProgram(traced, effects, call, name, self.options, times)
        if not left:
            self._cache_effectful(key, step)
        if effects.any:
            return traced.result, None
        found = step.try_run(call.tensors())
        return self._run_eagerly(call) if found is CACHE_MISS else found, None  # near a tie NumPy and the kernel may differ

    def _refuse(self, traced: Trace, effects: Effects) -> None:
        """Raise if the trace would make a wrong program."""
        if effects.recorded and traced.capture.gradient_refusal is not None:
            raise TraceError(traced.capture.gradient_refusal)
        if effects.any and self.options.buckets:
            raise TraceError(f"{self.signature} has effects, or draws random numbers: rows that buckets add would take part in them")
        if not effects.any and not traced.graph.outputs:
            raise no_tensor_error(None)

    def _run_aliased_call(self, call: Call, traced: Trace) -> Any:
        """Return the result of a call whose arguments share memory with captured tensors.

        The trace replaces such an argument by a stand-in, which is not part of the history of other tensors in the same memory: if
        gradients may be asked for, roll the trace back and run the call eagerly.
        """
        stood_in = any(t is not leaf for t, leaf in zip(traced.capture.input_tensors, call.leaves, strict=False))
        if not stood_in or not any(t.requires_grad for t in traced.capture.input_tensors):
            return traced.result
        traced.capture.journal.roll_back()
        return self._run_eagerly(call)

    def _run_eagerly(self, call: Call) -> Any:
        """Run the original function eagerly and return its result."""
        return self.signature.caller(call)(call.as_given(call.tensors()))

    def _failures(self, call: Call) -> list[str]:
        """Return the first reason why no program for arguments of these types fits, or an empty list."""
        key = call.key()
        tensors = call.tensors()
        programs = [*([self._programs[key]] if key in self._programs else []), *self._conditional.get(key, ()), *self._paths.get(key, ())]
        programs.sort(key=lambda p: p is not self._latest)
        found = [p.guards.explain_failure(call.leaves) for p in programs] + [
            step.explain_failure(tensors) for step in self._effectful.get(key, ())
        ]
        return [line for line in found if line is not None][:1] or (["the last call left new tensors behind"] if self._escapes else [])

    def recompiles(self) -> Recompiles:
        """Return every trace so far, with its reasons; it prints as a table. The logger `symgrad.compile` reports the same."""
        return self.traces.records

    def _cached_program(self, call: Call) -> PureProgram | None:
        """Return the program without effects for a call, if there is one whose guards hold."""
        key = call.key()
        program = self._programs.get(key)
        if program is not None and program.check_guards():
            return program
        return next((p for p in self._conditional.get(key, ()) if p.check_guards(call.leaves)), None)

    def _cache_program(self, key: Any, program: PureProgram) -> PureProgram:
        kept = (self._programs.values(), *list(self._conditional.values()))  # copies: other threads may add to them
        known = [p for programs in kept for p in list(programs)]
        program.share_kernels(next((p for p in known if p.graph == program.graph), program))
        others = self._conditional.setdefault(key, [])
        if program.guards.scalar_conditions:
            others.insert(0, program)
        else:
            if key in self._programs:  # its guards may hold again, when a module changes its mode back
                others.insert(0, self._programs[key])
            self._programs[key] = program
        del others[_MAX_PATHS:]
        return program

    def _cache_effectful(self, key: Any, step: EffectfulProgram) -> None:
        other = next((s for known in list(self._effectful.values()) for s in list(known) if s.shares_kernels_with(step)), None)
        if other is not None:
            step.share_kernels(other)
        steps = self._effectful.setdefault(key, [])
        steps.insert(0, step)
        if len(steps) > _MAX_PATHS:
            steps.pop()
            warn(
                f"{self.signature} has taken more than {_MAX_PATHS} paths, for arguments of one type, through its branches on values; the"
                " oldest is forgotten. Use where(condition, x, y), or leave the function eager"
            )

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

    def _prepare(self, args: Any, kwargs: Any, what: str) -> tuple[Call, PureProgram]:
        call = self._bound(args, kwargs)
        return call, self._program(call.differentiated(), what)

    def _differentiable(self, args: Any, kwargs: Any, what: str, wrt: Any) -> tuple[Call, PureProgram | EagerFallback, WrtSelection]:
        """Return the bound call, what computes its derivatives (a program, or an eager fallback), and the selected inputs."""
        call = self._bound(args, kwargs)
        make = self._program if self.options.fallback is None else self._program_or_eager
        places = self.signature.named_arguments(call)
        chosen = lambda program: self._choice(call, program, wrt)
        return call, *trace_for_derivatives(call, wrt, places, lambda c: make(c, what), chosen, self.signature.trains)

    def _program_or_eager(self, call: Call, what: str) -> PureProgram | EagerFallback:
        key = "derivatives", call.key()
        if key not in self._eager:
            try:
                return self._program(call, what)
            except (TraceError, GraphError) as error:
                self._eager.add(key)
                self.traces.warn("derivatives", f"derivatives of {self.signature} are computed eagerly from now on: {error}")
        return EagerFallback(self.signature.caller(call), call, tensor_names(self.signature.function))

    def _program(self, call: Call, what: str) -> PureProgram:
        """Return the program for derivatives of a call; if the function branches on values, the one for the path that the call takes.

        Only functions without effects have derivatives. In such calls, inputs that share memory are different inputs.
        """
        key = call.key()
        program = self._cached_program(call)
        if program is None or not program.has_all_derivatives:
            program = next((p for p in self._paths.get(key, ()) if p.check_guards(call.leaves) and p.takes_path(p.inputs(call))), None)
        if program is None:
            with restore_residency(call.leaves):
                program = self._derivable(call, key, what)
        self._latest = program
        return program

    def _derivable(self, call: Call, key: Any, what: str) -> PureProgram:
        times: dict[str, float] = {}
        try:
            with compiling(self._name, self.options.verbose), stage("trace", times):
                traced = self._trace_call(
                    call, inline_scalars=False, requires_grad=call.requires_grad, captured_with_grad=call.captured_with_grad
                )
            traced.capture.warn_of_changes()
        except EffectError as error:
            raise TraceError(
                f"{error}. {what}() is for functions without effects: compile the part that computes the loss, and call {what}() of that"
            ) from error
        program = PureProgram(traced, call, self._name, self.options, times)
        if traced.path.values or traced.capture.differentiated:
            paths = self._paths.setdefault(key, [])
            paths.insert(0, program)
            del paths[_MAX_PATHS:]
            return program
        return self._cache_program(key, program)


def _tensor(argument: Any) -> Any:
    """Return an array as the tensor that traced code gets in its place."""
    return wrap(argument) if isinstance(argument, np.ndarray) else argument
