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

from symgrad.compiler.collector import paused
from symgrad.compiler.function.eagerly import Eagerly
from symgrad.compiler.function.inspection import Inspection
from symgrad.compiler.function.methods import Methods
from symgrad.compiler.function.recompiles import Recompiles, Traces
from symgrad.compiler.function.wrapping import Wrapping
from symgrad.compiler.lines import warn
from symgrad.compiler.options import DEFAULT, Options
from symgrad.compiler.progress import compiling, stage
from symgrad.compiler.running.fastpath import FastPath, key_of
from symgrad.compiler.running.program import MISS, Program
from symgrad.compiler.running.returns import returned
from symgrad.compiler.running.state import Step
from symgrad.compiler.running.stepping import stepping
from symgrad.compiler.running.target import form_of, target_of
from symgrad.compiler.tracing.aliases import conflict
from symgrad.compiler.tracing.capture import tracing
from symgrad.compiler.tracing.choice import Choice
from symgrad.compiler.tracing.effects import Effects, escaped
from symgrad.compiler.tracing.naming import titles
from symgrad.compiler.tracing.randomness import Dice
from symgrad.compiler.tracing.reading import asks_who_is_who, names
from symgrad.compiler.tracing.requiring import for_derivatives
from symgrad.compiler.tracing.results import no_tensor
from symgrad.compiler.tracing.signature import Call, Signature, Spec, types_of
from symgrad.compiler.tracing.trace import Trace, trace
from symgrad.compiler.tracing.tree import flatten, settings
from symgrad.errors import EffectError, GraphError, TraceError
from symgrad.graph import next_sequence
from symgrad.mode import compiled, local
from symgrad.resident import returning
from symgrad.tensor import Tensor, wrap
from symgrad.views import protect

_MOST_PATHS = 8
_MOST_ESCAPES = 4
_ESCAPES = (
    "{} leaves tensors that it made behind at every call, in a list or an attribute, say; a program would make them once, so it is traced"
    " at every call and never compiled. Return them instead"
)


class Compiled(Methods, Inspection, Wrapping):
    """Call it as the function that it was made from; it takes tensors and arrays, and returns tensors, or arrays."""

    def __init__(self, function: Callable[..., Any], options: Options = DEFAULT) -> None:
        self.options = options
        self.signature = Signature(function, options)
        self._programs: dict[Any, Program] = {}
        self._conditional: dict[Any, list[Program]] = {}
        """Programs that depend on what Python asked of numbers among the arguments, by the types of the arguments."""
        self._steps: dict[Any, list[Step]] = {}
        """The paths with effects, or with answers that Python asked for, by the types of the arguments."""
        self._paths: dict[Any, list[Program]] = {}
        """The paths that derivatives were asked for, of a function that branches on values."""
        self._by_types: dict[Any, Program | Step] = {}
        """The short way to a program, for calls with tensors only."""
        self._fast = FastPath(self.signature.signature, functools.partial(asks_who_is_who, function))
        self._entries = self._fast.entries
        self._asked, self._points = {}, {}
        self._name: str = getattr(function, "__name__", "function")
        self._eager: set[Any] = set()
        """Arguments for which the function runs as it is written."""
        self._escapes = 0
        self.traces = Traces(str(self.signature))
        functools.update_wrapper(self, function, updated=())
        compiled.add(self)

    def forget_fast_paths(self) -> None:
        """Let the next call, and the next derivative, look for its program by the whole key."""
        for known in (self._by_types, self._points, self._entries, self._asked):
            known.clear()

    def __repr__(self) -> str:
        made = len(self._programs) + sum(len(paths) for known in (self._conditional, self._steps) for paths in known.values())
        programs = {0: "no program yet", 1: "1 program"}.get(made, f"{made} programs")
        return f"<compiled {self.signature}: {programs}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        entry = self._entries.get((len(args), *kwargs) if kwargs else len(args))
        if entry is not None:
            found = entry.run(args, kwargs) if entry.direct is None else entry.direct(args)
            if found is not MISS:
                return found
        return self._called(args, kwargs)

    def _called(self, args: Any, kwargs: Any) -> Any:
        """By a short way, if these arguments have types that are known, or by the long one."""
        mode = local.mode
        if mode.capture is not None:
            if tracing():  # inside another traced function it is ordinary code
                return self.signature.function(*args, **kwargs)
            return self._run(self._bound(args, kwargs), None, None)  # somebody looks on: no short ways
        types = None if kwargs else types_of(args, mode.recording)
        short = self._by_types.get(types)
        if short is not None:
            found = short.attempt(args)
            if found is not MISS:
                self._latest = short
                return found
        call = self._bound(args, kwargs)
        return self._run(call, types, short) if self.options.fallback is None else self._run_or_fall_back(call, types, short, args, kwargs)

    def _run_or_fall_back(self, call: Call, types: Any, tried: Program | Step | None, args: Any, kwargs: Any) -> Any:
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
        return self._returned(result, call, False)

    def _run(self, call: Call, types: Any, tried: Program | Step | None) -> Any:
        """The slow path. What is recorded keeps copies of NumPy arguments, whose memory the caller may use again before backward()."""
        if np.ndarray not in call.kinds or not local.mode.recording:
            return self._found(call, types, tried)
        since = next_sequence()
        result = self._found(call, types, tried)
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

    def _found(self, call: Call, types: Any, tried: Program | Step | None) -> Any:
        """The result, by the first of all programs for arguments of these types whose conditions hold; one was tried already."""
        found = self._stepped(call, types, tried)
        if found is not MISS:
            return found
        program = self._known(call)
        if program is None:
            with compiling(self._name, self.options.verbose):
                with returning(call.leaves):
                    result, program, requires_grad = self._trace(call)
                return self._returned(result, call, requires_grad) if program is None else self._launched(program, call, types)
        return self._launched(program, call, types)

    def _launched(self, program: Program, call: Call, types: Any) -> Any:
        guards = program.guards
        simple = call.plain and not guards.conditions and self.options.returns != "numpy" and not call.mode()[2]
        if types is not None and simple and not self._fast.asks_identity():
            self._by_types[types] = program
        self._latest = program
        result = program.run(call.tensors())
        self._enter(program, call)
        return self._returned(result, call, guards.requires_grad)

    def _returned(self, result: Any, call: Call, requires_grad: bool) -> Any:
        """The result as tensors or as arrays; `requires_grad` says whether a captured tensor does."""
        return returned(result, call.kinds, self.options.returns, requires_grad)

    def _enter(self, program: Program, call: Call) -> None:
        """Let calls like this one take the fast path, unless their results are recorded, or use the memory of arguments."""
        if program.operation.giving or (local.mode.recording and any(t._requires_grad for t in program.captured)):
            return
        target = target_of(program.operation.kernel, program, form_of(program.structure), self.options.returns)
        if target is not None:
            self._fast.enter(key_of(*call.given), call, target, records=True)

    def _stepped(self, call: Call, types: Any, tried: Program | Step | None) -> Any:
        """The result of the first path whose conditions hold."""
        steps = self._steps.get(call.key(), ())
        if not steps:
            return MISS
        tensors = call.tensors()
        for step in steps:
            found = self._attempted(step, tensors) if step is not tried else MISS
            if found is not MISS:
                if not self._fast.asks_identity():
                    if types is not None and call.plain and step.free and self.options.returns != "numpy":
                        self._by_types[types] = step
                    self._fast.enter_step(call, stepping(step, self.options.returns))
                return self._returned(found, call, step.guards.requires_grad)
        return MISS

    def _attempted(self, step: Step, tensors: list[Tensor]) -> Any:
        if step.ran:
            found = step.attempt(tensors)
        else:
            with compiling(self._name, self.options.verbose):  # its kernel is compiled at its first run
                found = step.attempt(tensors)
        if found is not MISS:
            step.ran = True
            self._latest = step
        return found


    def _trace(self, call: Call) -> tuple[Any, Program | None, bool]:
        """Trace a call. With effects that was the call itself, and its result is given; else a program for it. Also whether a captured
        tensor requires grad."""
        times: dict[str, float] = {}
        with stage("trace", times):
            traced = self._followed(call, effects=True)
        try:
            return *self._made(call, traced, times), any(t.requires_grad for t in traced.captured)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        finally:
            traced.capture.journal.clear()

    def _followed(self, call: Call, **how: Any) -> Trace:
        """Run the function and look on."""
        self.traces.note(call, self._failures(call))
        given = [(path[1:], x) for path, x in settings(call.structure, "").items()]
        watched = names(self.signature.function, given)
        dice = Dice(watched, given)
        known = self.signature.names(), titles(self.signature.function, watched)
        traced = trace(self.signature.caller(call), call.leaves, call.labels, *known, follow=True, **how)
        if traced.capture.unnamed:
            traced.entitle(titles(self.signature.function, watched))  # an optimizer has made its state
        try:
            dice.refuse()
            traced.capture.settle(watched)
        except BaseException:
            traced.capture.journal.roll_back()
            raise
        return traced

    def _made(self, call: Call, traced: Trace, times: dict[str, float]) -> tuple[Any, Program | None]:
        effects, name, key = Effects(traced), self._name, call.key()
        self._refuse(traced, effects)
        if not effects.any:
            traced.forget()  # the result, whose history may hold what the function made
        shared = conflict(traced.capture)
        left = escaped(traced) or traced.capture.keeps or shared is not None
        if not left:
            traced.capture.warn_of_changes()
        if shared is not None:
            self.traces.warn(shared, f"{self.signature}: {shared}: such calls run as they are written")
        elif left:
            if traced.capture.hooks and not effects.any:
                raise TraceError(f"{self.signature}: a hook keeps gradients, which programs do not have; leave the function eager")
            self._escapes += 1
            if self._escapes >= _MOST_ESCAPES:
                self.traces.warn("escapes", _ESCAPES.format(self.signature))
        if not effects.any and not traced.path.values:
            program = Program(traced, call, name, self.options, times)
            return (program.run(call.tensors()), None) if left else (None, self._kept(key, program))
        if effects.any and left:
            return (traced.result if shared is None else self._as_written(call, traced)), None
        with paused():
            step = self._latest = Step(traced, effects, call, name, self.options, times)
        if not left:
            self._remember(key, step)
        if effects.any:
            return traced.result, None
        found = step.attempt(call.tensors())
        return self._written(call) if found is MISS else found, None  # NumPy and a kernel may differ near a tie

    def _refuse(self, traced: Trace, effects: Effects) -> None:
        """What was traced, and would be wrong as a program."""
        if effects.recorded and traced.capture.deaf is not None:
            raise TraceError(traced.capture.deaf)
        if effects.any and self.options.buckets:
            raise TraceError(f"{self.signature} has effects, or draws random numbers: rows that buckets add would take part in them")
        if not effects.any and not traced.graph.outputs:
            raise no_tensor(None)

    def _as_written(self, call: Call, traced: Trace) -> Any:
        """The result of a call that shares memory with what the function brings along. A stand-in for an argument has no part in the
        history of another tensor around the same memory: where gradients may be asked for, the call is made again without it."""
        stood_in = any(t is not leaf for t, leaf in zip(traced.capture.outside, call.leaves, strict=False))
        if not stood_in or not any(t.requires_grad for t in traced.capture.outside):
            return traced.result
        traced.capture.journal.roll_back()
        return self._written(call)

    def _written(self, call: Call) -> Any:
        """The result of the function as it is written."""
        return self.signature.caller(call)(call.as_given(call.tensors()))

    def _failures(self, call: Call) -> list[str]:
        """What is not as it was in the programs for arguments of these types."""
        key = call.key()
        tensors = call.tensors()
        programs = [*([self._programs[key]] if key in self._programs else []), *self._conditional.get(key, ()), *self._paths.get(key, ())]
        programs.sort(key=lambda p: p is not self._latest)
        found = [p.guards.failed(call.leaves) for p in programs] + [step.failed(tensors) for step in self._steps.get(key, ())]
        return [line for line in found if line is not None][:1] or (["the last call left new tensors behind"] if self._escapes else [])

    def recompiles(self) -> Recompiles:
        """Every trace so far, with what was other than before; printed as a table. The log `symgrad.compile` says the same."""
        return self.traces.records

    def _known(self, call: Call) -> Program | None:
        """The program without effects for a call, if there is one whose conditions hold."""
        key = call.key()
        program = self._programs.get(key)
        if program is not None and program.holds():
            return program
        return next((p for p in self._conditional.get(key, ()) if p.holds(call.leaves)), None)

    def _kept(self, key: Any, program: Program) -> Program:
        kept = (self._programs.values(), *list(self._conditional.values()))  # copies: other threads add to them
        known = [p for programs in kept for p in list(programs)]
        program.adopt(next((p for p in known if p.graph == program.graph), program))
        others = self._conditional.setdefault(key, [])
        if program.guards.conditions:
            others.insert(0, program)
        else:
            if key in self._programs:  # it may hold again: modules change their modes
                others.insert(0, self._programs[key])
            self._programs[key] = program
        del others[_MOST_PATHS:]
        return program

    def _remember(self, key: Any, step: Step) -> None:
        other = next((s for known in list(self._steps.values()) for s in list(known) if s.is_like(step)), None)
        if other is not None:
            step.adopt(other)
        steps = self._steps.setdefault(key, [])
        steps.insert(0, step)
        if len(steps) > _MOST_PATHS:
            steps.pop()
            warn(
                f"{self.signature} has taken more than {_MOST_PATHS} paths, for arguments of one type, through its branches on values; the"
                " oldest is forgotten. Use where(condition, x, y), or leave the function eager"
            )

    def as_jax(self, mode: str = "vjp") -> Any:
        """The function on jax arrays, in any pytrees: for jax.jit, jax.grad, jax.vmap and libraries built on them. Its derivatives are our
        closed forms: as a jax.custom_vjp, or with mode="jvp" as a jax.custom_jvp, which has forward mode, too. Tensors that the function
        brings along are constants, read at each call; under jax.jit that is when JAX traces it."""
        from symgrad.compiler.xla.as_jax import JaxFunction

        return JaxFunction(self.signature, self.options, mode)

    def as_torch(self) -> Any:
        """The function on PyTorch's tensors on the CPU, differentiable there to every order: forward and backward are kernels. Tensors of
        ours that it brings along are constants, read at each call."""
        from symgrad.compiler.function.as_torch import TorchFunction

        return TorchFunction(self, self.signature.function)

    def export(self, path: str | os.PathLike[str], /, *args: Any, **kwargs: Any) -> None:
        """Write the programs for such arguments (or specs; without any, the latest ones) to a file that `load_compiled` reads: forward,
        VJP and gradient as StableHLO, with types, formula, and the tensors that the function brings along."""
        from symgrad.compiler.artifact.export import export

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

    def _differentiable(self, args: Any, kwargs: Any, what: str, wrt: Any) -> tuple[Call, Program | Eagerly, Choice]:
        """What computes derivatives: a program, or eager code in place of one. And the inputs that they are taken in."""
        call = self._bound(args, kwargs)
        make = self._program if self.options.fallback is None else self._program_or_eager
        places = self.signature.places(call)
        chosen = lambda program: self._choice(call, program, wrt)
        return call, *for_derivatives(call, wrt, places, lambda c: make(c, what), chosen, self.signature.trains)

    def _program_or_eager(self, call: Call, what: str) -> Program | Eagerly:
        key = "derivatives", call.key()
        if key not in self._eager:
            try:
                return self._program(call, what)
            except (TraceError, GraphError) as error:
                self._eager.add(key)
                self.traces.warn("derivatives", f"derivatives of {self.signature} are computed eagerly from now on: {error}")
        return Eagerly(self.signature.caller(call), call, titles(self.signature.function))

    def _program(self, call: Call, what: str) -> Program:
        """The program of a function without effects: only such a one has derivatives. Where it branches, that of the path it takes. The
        call is one for derivatives, in which inputs of the same memory are different inputs."""
        key = call.key()
        program = self._known(call)
        if program is None or not program.whole:
            program = next((p for p in self._paths.get(key, ()) if p.holds(call.leaves) and p.taken(p.inputs(call))), None)
        if program is None:
            with returning(call.leaves):
                program = self._derivable(call, key, what)
        self._latest = program
        return program

    def _derivable(self, call: Call, key: Any, what: str) -> Program:
        times: dict[str, float] = {}
        try:
            with compiling(self._name, self.options.verbose), stage("trace", times):
                traced = self._followed(call, numbers=False, asked=call.requiring, lifted=call.lifted)
            traced.capture.warn_of_changes()
        except EffectError as error:
            raise TraceError(
                f"{error}. {what}() is for functions without effects: compile the part that computes the loss, and call {what}() of that"
            ) from error
        program = Program(traced, call, self._name, self.options, times)
        if traced.path.values or traced.capture.differentiated:
            paths = self._paths.setdefault(key, [])
            paths.insert(0, program)
            del paths[_MOST_PATHS:]
            return program
        return self._kept(key, program)


def _tensor(argument: Any) -> Any:
    """An array as the tensor that traced code gets in its place."""
    return wrap(argument) if isinstance(argument, np.ndarray) else argument
