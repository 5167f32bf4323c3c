"""Make programs: trace a call of a function, and turn the trace into a program if it can be repeated."""

from __future__ import annotations

import threading
from typing import Any

from symgrad.compiler.function.recompiles import TraceLog
from symgrad.compiler.guards.alias import alias_conflict
from symgrad.compiler.guards.host_rng import HostRngSnapshot
from symgrad.compiler.guards.names import find_state_guards, named_arrays
from symgrad.compiler.inputs.names import tensor_names
from symgrad.compiler.inputs.signature import Call, Signature
from symgrad.compiler.options import Options
from symgrad.compiler.runtime.cache import MAX_PATHS, ProgramCache
from symgrad.compiler.runtime.program import CACHE_MISS, Program
from symgrad.compiler.support.collector import gc_paused
from symgrad.compiler.support.progress import compiling, stage
from symgrad.compiler.support.source_lines import warn
from symgrad.compiler.trace.effects import Effects, has_escaped_tensors
from symgrad.compiler.trace.results import no_tensor_error
from symgrad.compiler.trace.trace import Trace, trace
from symgrad.errors import EffectError, TraceError
from symgrad.pytree import static_values

_MAX_ESCAPES = 4
_ESCAPE_WARNING = (
    "{} leaves tensors that it made behind at every call, in a list or an attribute, say; a program would make them once, so it is traced"
    " at every call and never compiled. Return them instead"
)
_PATHS_WARNING = (
    "{} has taken more than {} paths, for arguments of one type, through its branches on values; the oldest is forgotten. Use"
    " where(condition, x, y), or leave the function eager"
)


class ProgramBuilder:
    """Makes the programs of one function and inserts them into its cache."""

    def __init__(self, signature: Signature, options: Options, name: str, cache: ProgramCache) -> None:
        self.signature, self.options, self.name, self.cache = signature, options, name, cache
        self.traces = TraceLog(str(signature))
        self.lock = threading.RLock()
        """Held while a call is traced, and while its programs with effects run: threads would mix their effects."""
        self._escapes = 0
        """Number of calls that left tensors behind."""

    def build(self, call: Call) -> tuple[Any, Program | None, bool]:
        """Trace a call; return its result, a program, and whether a captured tensor requires grad.

        If the call has already run, by the trace of its effects or by its new program, there is a result and no program; else the program
        is still to run.
        """
        times: dict[str, float] = {}
        with stage("trace", times):
            traced = self._trace(call, effects=True)
        try:
            return *self._build(call, traced, times), any(t.requires_grad for t in traced.captured)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        finally:
            traced.capture.journal.clear()

    def build_for_derivatives(self, call: Call, what: str) -> Program:
        """Trace a call for the derivative `what`; return its program. Only functions without effects have derivatives."""
        times: dict[str, float] = {}
        try:
            with compiling(self.name, self.options.verbose), stage("trace", times):
                traced = self._trace(
                    call, inline_scalars=False, requires_grad=call.requires_grad, captured_with_grad=call.captured_with_grad
                )
            traced.capture.warn_of_changes()
        except EffectError as error:
            raise TraceError(
                f"{error}. {what}() is for functions without effects: compile the part that computes the loss, and call {what}() of that"
            ) from error
        program = Program(traced, call, self.name, self.options, times, derives=True)
        self.cache.insert(call, program, runs=not (traced.path.values or traced.capture.differentiated), derives=True)
        return program

    def run_eagerly(self, call: Call) -> Any:
        """Run the original function eagerly and return its result."""
        return self.signature.caller(call)(call.as_given(call.tensors()))

    def _trace(self, call: Call, **how: Any) -> Trace:
        """Trace one call of the function and add the guards on Python state."""
        self.traces.note(call, self._reasons(call))
        given = [(path[1:], x) for path, x in static_values(call.structure, "").items()]
        state_guards = find_state_guards(self.signature.function, given)
        rng_snapshot = HostRngSnapshot(state_guards, given)
        known = self.signature.names(), tensor_names(self.signature.function, state_guards)
        arrays = named_arrays(state_guards)
        traced = trace(self.signature.caller(call), call.leaves, call.labels, *known, allow_branches=True, arrays=arrays, **how)
        if traced.capture.unnamed:
            traced.assign_names(tensor_names(self.signature.function, state_guards))  # an optimizer has created its state
        try:
            rng_snapshot.refuse_draws()
            traced.capture.finalize(state_guards)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        return traced

    def _reasons(self, call: Call) -> list[str]:
        """Return why a call is traced although there are programs for arguments of its types."""
        reason = self.cache.explain_miss(call)
        if reason is not None:
            return [reason]
        return ["the last call left new tensors behind"] if self._escapes else []

    def _build(self, call: Call, traced: Trace, times: dict[str, float]) -> tuple[Any, Program | None]:
        effects = Effects(traced)
        self._refuse(traced, effects)
        if not effects.any:
            traced.release_result()  # its history may keep tensors alive that the function made
        shared = alias_conflict(traced.capture)
        repeatable = not has_escaped_tensors(traced) and not traced.capture.stores_argument and shared is None
        if repeatable:
            traced.capture.warn_of_changes()
        else:
            self._warn_or_refuse(traced, effects, shared)
            if effects.any:
                return (traced.result if shared is None else self._run_aliased(call, traced)), None
        with gc_paused():
            program = Program(traced, call, self.name, self.options, times, effects=effects)
        program.lock = self.lock
        if repeatable:
            self.cache.latest = program
            self._insert(call, program)
        if effects.any:
            return traced.result, None
        if repeatable and not program.checks_path:
            return None, program
        found = program.run(call.tensors())
        return self.run_eagerly(call) if found is CACHE_MISS else found, None  # near a tie NumPy and the kernel may differ

    def _insert(self, call: Call, program: Program) -> None:
        derives = not program.checks_path and program.runner is None and program.has_all_derivatives
        if self.cache.insert(call, program, derives=derives):
            warn(_PATHS_WARNING.format(self.signature, MAX_PATHS))

    def _refuse(self, traced: Trace, effects: Effects) -> None:
        """Raise if the trace would make a wrong program."""
        if effects.recorded and traced.capture.gradient_refusal is not None:
            raise TraceError(traced.capture.gradient_refusal)
        if effects.any and self.options.buckets:
            raise TraceError(f"{self.signature} has effects, or draws random numbers: rows that buckets add would take part in them")
        if not effects.any and not traced.graph.outputs:
            raise no_tensor_error(None)

    def _warn_or_refuse(self, traced: Trace, effects: Effects, shared: str | None) -> None:
        """Warn that no program can repeat such calls: they share memory, or leave tensors behind. Raise if eager code would also keep
        gradients for a hook."""
        if shared is not None:
            self.traces.warn(shared, f"{self.signature}: {shared}: such calls run as they are written")
            return
        if traced.capture.hooks and not effects.any:
            raise TraceError(f"{self.signature}: a hook keeps gradients, which programs do not have; leave the function eager")
        self._escapes += 1
        if self._escapes >= _MAX_ESCAPES:
            self.traces.warn("escapes", _ESCAPE_WARNING.format(self.signature))

    def _run_aliased(self, call: Call, traced: Trace) -> Any:
        """Return the result of a call whose arguments share memory with captured tensors.

        The trace replaces such an argument by a stand-in, which is not part of the history of other tensors in the same memory: if
        gradients may be asked for, roll the trace back and run the call eagerly.
        """
        stood_in = any(t is not leaf for t, leaf in zip(traced.capture.input_tensors, call.leaves, strict=False))
        if not stood_in or not any(t.requires_grad for t in traced.capture.input_tensors):
            return traced.result
        traced.capture.journal.roll_back()
        return self.run_eagerly(call)
