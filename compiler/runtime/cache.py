"""The programs of a compiled function, and how a call finds one.

A program is stored by the key of the call that it was traced for (`Call.key`), in the order in which the programs of one key are tried.
Programs for calls and programs for derivatives are looked up separately; most programs are both. Two shortcuts lead to the same programs
before the arguments of a call are bound: by the types of positional tensors (`by_types`), and by the entries of the fast path
(`fast`). They only ever skip work: `forget_shortcuts` is always allowed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from symgrad.compiler.inputs.signature import Call
from symgrad.compiler.inputs.wrt import WrtSelection
from symgrad.compiler.runtime.executables import make_target, unflattener
from symgrad.compiler.runtime.fast_path import FastPath, call_key
from symgrad.compiler.runtime.program import Program
from symgrad.compiler.runtime.step_fast_path import make_step_fast_path
from symgrad.mode import local

MAX_PATHS = 8
"""Number of programs that are kept for one key."""
_MAX_SHORTCUTS = 256
NOT_KEPT: tuple[Program | None, WrtSelection | None] = (None, None)
"""What `by_types` has for other types."""


class ProgramCache:
    """The programs of one compiled function."""

    def __init__(self, signature: inspect.Signature, compares_identity: Callable[[], bool], returns: str | None) -> None:
        self.returns = returns
        self.fast = FastPath(signature, compares_identity)
        self._programs: dict[tuple[Hashable, bool], list[Program]] = {}
        """Programs by the key of a call and whether they are for derivatives, the latest first."""
        self.by_types: dict[Any, tuple[Program | None, WrtSelection | None]] = {}
        """Programs by the types of positional tensors; for derivatives also by `wrt`, with the selected inputs."""
        self.eager_keys: set[Any] = set()
        """Keys of the calls, and of the derivatives, that run eagerly (fallback="eager")."""

    @property
    def latest(self) -> Program | None:
        """The program that ran last."""
        return self.fast.last_run.program  # type: ignore[no-any-return]

    @latest.setter
    def latest(self, program: Program | None) -> None:
        self.fast.last_run.target_or_program = program

    def lookup(self, call: Call | Hashable, derives: bool = False) -> tuple[Program, ...]:
        """Return the programs for a call, or for its derivatives, in the order in which they are tried. Their guards are not checked. A
        program that is not for one call has a key of its own."""
        key = call.key() if isinstance(call, Call) else call
        return tuple(self._programs.get((key, derives), ()))

    def insert(self, call: Call | Hashable, program: Program, *, runs: bool = True, derives: bool = False) -> bool:
        """Insert a program for calls like this one (`runs`), for their derivatives (`derives`), or both. Return True if an older one, of
        another path or with effects, is forgotten for it."""
        key = call.key() if isinstance(call, Call) else call
        any(program.share_kernels(other) for other in self.programs())
        forgotten = []
        for purpose in (*((False,) if runs else ()), *((True,) if derives else ())):
            known = self._programs.setdefault((key, purpose), [])
            known.insert(0, program)
            forgotten += known[MAX_PATHS:]
            del known[MAX_PATHS:]
        return any(p.checks_path or p.runner is not None for p in forgotten)

    def programs(self) -> list[Program]:
        """Return all programs."""
        found = [p for programs in list(self._programs.values()) for p in list(programs)]  # copies: other threads may add to them
        return list({id(p): p for p in found}.values())

    def counts(self) -> tuple[int, int]:
        """Return for how many types of arguments there are programs, and how many programs for calls."""
        keys = list(self._programs)
        return len({key for key, _ in keys}), sum(len(self._programs[key, False]) for key, derives in keys if not derives)

    def explain_miss(self, call: Call) -> str | None:
        """Return why no program fits a call: the first reason known, beginning with the program that ran last. None if there is no program
        for arguments of these types."""
        tensors = call.tensors()
        programs = dict.fromkeys((*self.lookup(call), *self.lookup(call, derives=True)))
        reasons = (p.explain_failure(tensors) for p in sorted(programs, key=lambda p: p is not self.latest))
        return next((reason for reason in reasons if reason is not None), None)

    def keep_by_types(self, types: Any, program: Program, choice: WrtSelection | None = None) -> None:
        """Let calls with positional tensors of these types find the program without binding them."""
        if len(self.by_types) >= _MAX_SHORTCUTS:
            self.by_types.clear()
        self.by_types[types] = program, choice

    def add_shortcuts(self, call: Call, types: Any, program: Program) -> None:
        """Let calls like this one, which the program has run, find it sooner. `types` are those of positional tensors, else None."""
        aliased, runner = bool(call.key()[3][2]), program.runner
        if runner is not None and (aliased or self.fast.compares_identity()):  # an aliased argument may be no input of its own
            return
        by_types = types is not None and call.plain and not program.guards.scalar_conditions and self.returns != "numpy"
        if by_types and not aliased and program.ignores_aliasing and not self.fast.compares_identity():
            self.keep_by_types(types, program)
        if runner is not None:
            self.fast.add_step(call, make_step_fast_path(program, self.returns))
        elif not (program.checks_path or program.operation.donates or (local.mode.recording and _requires_grad(program.captured))):
            target = make_target(program.kernel(), program, unflattener(program.structure), self.returns)
            if target is not None:
                self.fast.add(call_key(*call.given), call, target, records=True)

    def forget_shortcuts(self) -> None:
        """Make the next call and the next derivative look up their program by the full key."""
        self.by_types.clear()
        self.fast.clear()


def _requires_grad(tensors: Iterable[Any]) -> bool:
    return any(t._requires_grad for t in tensors)
