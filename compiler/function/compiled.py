"""compile(): a function whose calls run as kernels, one for each combination of argument types.

A compiled function is a citizen of eager autograd. What it computes is recorded as one node, whose backward is the compiled VJP; that
is itself such an operation, so gradients of gradients are kernels too.
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
    """Call it as the function that it was made from; it takes tensors and arrays, and returns tensors, or arrays."""

    def __init__(self, function: Callable[..., Any], options: Options = DEFAULT) -> None:
        self.options = options
        self.signature = Signature(function, options)
        self._programs: dict[Any, PureProgram] = {}
        self._conditional: dict[Any, list[PureProgram]] = {}
        """Programs that depend on what Python asked of numbers among the arguments, by the types of the arguments."""
        self._effectful: dict[Any, list[EffectfulProgram]] = {}
        """The paths with effects, or with answers that Python asked for, by the types of the arguments."""
        self._paths: dict[Any, list[PureProgram]] = {}
        """The paths that derivatives were asked for, of a function that branches on values."""
        self._by_types: dict[Any, PureProgram | EffectfulProgram] = {}
        """The fast path to a program, for calls with tensors only."""
        self._fast = FastPath(self.signature.signature, functools.partial(compares_argument_identity, function))
        self._fast_entries = self._fast.entries
        self._requests, self._points = {}, {}
        self._name: str = getattr(function, "__name__", "function")
        self._eager: set[Any] = set()
        """Arguments for which the function runs as it is written."""
        self._escapes = 0
        self.traces = TraceLog(str(self.signature))
        functools.update_wrapper(self, function, updated=())
        compiled_functions.add(self)

    def forget_fast_paths(self) -> None:
        """Let the next call, and the next derivative, look for its program by the whole key."""
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
        """Run by the types of the arguments if those are known, else on the slow path."""
        mode = local.mode
        if mode.capture is not None:
            if is_tracing():  # inside another traced function it is ordinary code
                return self.signature.function(*args, **kwargs)
            return self._run(self._bound(args, kwargs), None, None)  # somebody looks on: no fast path
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
        """What cannot be traced runs as it is written, from now on."""
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
        """The slow path. What is recorded keeps copies of NumPy arguments, whose memory the caller may use again before backward()."""
        if np.ndarray not in call.kinds or not local.mode.recording:
            return self._run_cached(call, types, tried)
        since = next_sequence()
        result = self._run_cached(call, types, tried)
        self._protect(result, call, since)
        return result

    def _protect(self, result: Any, call: Call, since: int) -> None:
        """Let the history of results, and of tensors that were written to, keep copies of the arrays among the arguments."""
        tensors = flatten(result, lambda x: isinstance(x, Tensor))[0]
        tensors += (*call.leaves, *(self._latest.captured if self._latest is not None else ()))
        edges = {id(x._node): x._node for x in tensors if isinstance(x, Tensor) and x._node is not None}
        for edge in edges.values():
            for array in call.leaves:
                if isinstance(array, np.ndarray):
                    protect(edge, array, since)

    def _run_cached(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None) -> Any:
        """The result, by the first of all programs for arguments of these types whose conditions hold; one was tried already."""
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
        """The result as tensors or as arrays; `requires_grad` says whether a captured tensor does."""
        return convert_results(result, call.kinds, self.options.returns, requires_grad)

    def _add_fast_path(self, program: PureProgram, call: Call) -> None:
        """Let calls like this one take the fast path, unless their results are recorded, or use the memory of arguments."""
        if program.operation.donates or (local.mode.recording and any(t._requires_grad for t in program.captured)):
            return
        target = make_target(program.operation.kernel, program, unflattener(program.structure), self.options.returns)
        if target is not None:
            self._fast.add(call_key(*call.given), call, target, records=True)

    def _run_effectful(self, call: Call, types: Any, tried: PureProgram | EffectfulProgram | None) -> Any:
        """The result of the first path whose conditions hold."""
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
        """Trace a call. With effects that was the call itself, and its result is given; else a program for it. Also whether a captured
        tensor requires grad."""
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
        """Run the function and look on."""
        self.traces.note(call, self._failures(call))
        given = [(path[1:], x) for path, x in static_values(call.structure, "").items()]
        state_guards = find_state_guards(self.signature.function, given)
        rng_snapshot = HostRngSnapshot(state_guards, given)
        known = self.signature.names(), tensor_names(self.signature.function, state_guards)
        traced = trace(self.signature.caller(call), call.leaves, call.labels, *known, allow_branches=True, **how)
        if traced.capture.unnamed:
            traced.assign_names(tensor_names(self.signature.function, state_guards))  # an optimizer has made its state
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
            traced.release_result()  # the result, whose history may hold what the function made
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
        return self._run_eagerly(call) if found is CACHE_MISS else found, None  # NumPy and a kernel may differ near a tie

    def _refuse(self, traced: Trace, effects: Effects) -> None:
        """What was traced, and would be wrong as a program."""
        if effects.recorded and traced.capture.gradient_refusal is not None:
            raise TraceError(traced.capture.gradient_refusal)
        if effects.any and self.options.buckets:
            raise TraceError(f"{self.signature} has effects, or draws random numbers: rows that buckets add would take part in them")
        if not effects.any and not traced.graph.outputs:
            raise no_tensor_error(None)

    def _run_aliased_call(self, call: Call, traced: Trace) -> Any:
        """The result of a call that shares memory with what the function captures. A stand-in for an argument has no part in the
        history of another tensor around the same memory: where gradients may be asked for, the call is made again without it."""
        stood_in = any(t is not leaf for t, leaf in zip(traced.capture.input_tensors, call.leaves, strict=False))
        if not stood_in or not any(t.requires_grad for t in traced.capture.input_tensors):
            return traced.result
        traced.capture.journal.roll_back()
        return self._run_eagerly(call)

    def _run_eagerly(self, call: Call) -> Any:
        """The result of the function as it is written."""
        return self.signature.caller(call)(call.as_given(call.tensors()))

    def _failures(self, call: Call) -> list[str]:
        """What is not as it was in the programs for arguments of these types."""
        key = call.key()
        tensors = call.tensors()
        programs = [*([self._programs[key]] if key in self._programs else []), *self._conditional.get(key, ()), *self._paths.get(key, ())]
        programs.sort(key=lambda p: p is not self._latest)
        found = [p.guards.explain_failure(call.leaves) for p in programs] + [
            step.explain_failure(tensors) for step in self._effectful.get(key, ())
        ]
        return [line for line in found if line is not None][:1] or (["the last call left new tensors behind"] if self._escapes else [])

    def recompiles(self) -> Recompiles:
        """Every trace so far, with what was other than before; printed as a table. The log `symgrad.compile` says the same."""
        return self.traces.records

    def _cached_program(self, call: Call) -> PureProgram | None:
        """The program without effects for a call, if there is one whose conditions hold."""
        key = call.key()
        program = self._programs.get(key)
        if program is not None and program.check_guards():
            return program
        return next((p for p in self._conditional.get(key, ()) if p.check_guards(call.leaves)), None)

    def _cache_program(self, key: Any, program: PureProgram) -> PureProgram:
        kept = (self._programs.values(), *list(self._conditional.values()))  # copies: other threads add to them
        known = [p for programs in kept for p in list(programs)]
        program.share_kernels(next((p for p in known if p.graph == program.graph), program))
        others = self._conditional.setdefault(key, [])
        if program.guards.scalar_conditions:
            others.insert(0, program)
        else:
            if key in self._programs:  # it may hold again: modules change their modes
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
        """The function on jax arrays, in any pytrees: for jax.jit, jax.grad, jax.vmap and libraries built on them. Its derivatives are our
        closed forms: as a jax.custom_vjp, or with mode="jvp" as a jax.custom_jvp, which has forward mode, too. Tensors that the function
        captures are constants, read at each call; under jax.jit that is when JAX traces it."""
        from symgrad.compiler.interop.as_jax import JaxFunction

        return JaxFunction(self.signature, self.options, mode)

    def as_torch(self) -> Any:
        """The function on PyTorch's tensors on the CPU, differentiable there to every order: forward and backward are kernels. Tensors of
        ours that it captures are constants, read at each call."""
        from symgrad.compiler.interop.as_torch import TorchFunction

        return TorchFunction(self, self.signature.function)

    def export(self, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
        """Write the programs for such arguments (or specs; without any, the latest ones) to a file that `load_compiled` reads: forward,
        VJP and gradient as StableHLO, with types, formula, and the tensors that the function captures."""
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
        """What computes derivatives: a program, or eager code in place of one. And the inputs that they are taken in."""
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
        """The program of a function without effects: only such a one has derivatives. Where it branches, that of the path it takes. The
        call is one for derivatives, in which inputs of the same memory are different inputs."""
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
    """An array as the tensor that traced code gets in its place."""
    return wrap(argument) if isinstance(argument, np.ndarray) else argument
