"""Whether a compiled program is what it is eagerly: a difference must be more than rounding, and not at the edge of a decision."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import symgrad as sg
from fuzzing.program import Program, as_called, respelled
from fuzzing.world import Seen, Watch, World, compiled, eager

NEAR = 1e-3
INVALID = (RuntimeError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError, ZeroDivisionError, NameError)


@dataclass(frozen=True)
class Verdict:
    """What became of a program: "same", "invalid" (it does not run), "refused" (it cannot be compiled), "close" (it differs, but
    so do two eager runs of it), or "wrong"."""

    word: str
    reason: str = ""
    backend: str = ""
    order: int = 1


def tolerance(program: Program) -> float:
    """Relative to the largest number of an array."""
    return 1e-4 if program.single else 1e-9


def difference(where: str, wanted: Any, found: Any, rtol: float, pure: bool = False) -> str:
    """What is wrong with what was found, "" if nothing is."""
    if isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray):
        if wanted.shape != found.shape or wanted.dtype != found.dtype:
            return f"{where} is {found.dtype}{list(found.shape)}, not {wanted.dtype}{list(wanted.shape)}"
        if wanted.dtype.kind not in "fc":
            return "" if np.array_equal(wanted, found) else f"{where} is {found.tolist()}, not {wanted.tolist()}"
        scale = np.abs(wanted).max(initial=0) + 1e-2
        return "" if np.all(np.abs(wanted - found) <= rtol * scale) else f"{where} is {found.tolist()}, not {wanted.tolist()}"
    if ".grad" in where and (wanted is None) != (found is None):  # zeros, where only one of them sees that there is nothing
        return "" if not np.any(found if wanted is None else wanted) else f"{where} is {found}, not {wanted}"
    return "" if _equal(wanted, found) else f"{where} is {found}, not {wanted}"


def _equal(wanted: Any, found: Any) -> bool:
    return type(wanted) is type(found) and bool(wanted == found)


def differences(wanted: Seen, found: Seen, rtol: float, pure: bool) -> list[str]:
    """All of them. Of a program that was refused on the way only what was seen until then counts."""
    missing = [] if found.refused else [f"{w} is missing" for w in wanted.items if w not in found.items]
    pairs = [difference(w, wanted.items[w], found.items[w], rtol, pure) for w in wanted.items if w in found.items]
    return [d for d in pairs if d] + missing


def finite(seen: Seen) -> bool:
    return all(np.all(np.isfinite(x)) for x in seen.items.values() if isinstance(x, np.ndarray) and x.dtype.kind in "fc")


def is_pure(program: Program, seen: Seen) -> bool:
    """Whether arguments and state are what they were."""
    for k in range(len(program.calls)):
        for leaf in (*program.args, *program.state):
            value = program.value(as_called(leaf, program.calls[k]), k % 2) if leaf in program.args else program.value(leaf, -1)
            if leaf.kind == "tensor" and leaf.same is None and not np.array_equal(seen.items[f"call {k}: {leaf.name}"], value):
                return False
    return True


def check(program: Program, backends: tuple[str, ...], order: int = 1, without: tuple[str, ...] = ()) -> Verdict:
    """Run the program eagerly and by each back end, without the rewrites that are named."""
    try:
        wanted = eager(program, order=order)
    except INVALID as error:
        return Verdict("invalid", f"{type(error).__name__}: {error}")
    if not finite(wanted):
        return Verdict("invalid", "not finite")
    if program.pure and not is_pure(program, wanted):
        return Verdict("invalid", "not pure")
    verdict = Verdict("same")
    for backend in backends:
        try:
            found = compiled(program, backend, order, "after a call: value" in wanted.items, without)
        except Exception as error:
            return Verdict("wrong", f"{type(error).__name__}: {error}", backend, order)
        wrong = differences(wanted, found, tolerance(program), program.pure)
        if wrong:
            excuse = excused(program, wanted, found, order)
            if not excuse:
                return Verdict("wrong", "; ".join(wrong[:3]), backend, order)
            verdict = Verdict("close", excuse, backend, order)
        elif found.refused:
            verdict = Verdict("refused", found.refused, backend, order)
    return verdict


def excused(program: Program, wanted: Seen, found: Seen, order: int) -> str:
    """Why a difference need not be a fault."""
    recorded = replace(program, args=tuple(replace(leaf, grad=leaf.kind == "tensor" and leaf.dtype[0] in "fc") for leaf in program.args))
    if overwritten(program, order) or (program.pure and overwritten(recorded, order)):  # derivatives are asked for in all arguments
        return "what backward() reads was overwritten through .data"
    with Watch() as watch:
        World(program, lambda f: f, order=order).run()
    if watch.largest > (1e5 if program.single else 1e8):
        return "numbers become too large"
    if program.exact and ".rand" not in program.text():
        return ""
    if watch.margin < NEAR and not program.exact:
        return "near a kink"
    rtol = tolerance(program)
    for nudge in (1e-6, 2e-6, 3e-6) if program.single else (1e-13, 2e-13, 3e-13):
        try:
            moved = eager(program, nudge, order)
        except sg.errors.SymgradError:
            continue
        spread = {d.partition(" is ")[0] for d in differences(wanted, moved, rtol / 50, True)}
        if {d.partition(" is ")[0] for d in differences(wanted, found, rtol, program.pure)} <= spread:
            return "rounding is magnified"
    return ""


def overwritten(program: Program, order: int) -> bool:
    """Whether what backward() reads was overwritten through `.data`, of which autograd is not told: then eager gradients, as PyTorch's, are
    not those of what was computed, and those of a kernel are. Through detach() it is told."""
    if ".data" not in program.text():
        return False
    try:
        eager(replace(program, body=tuple(respelled(part, ".data", ".detach()") for part in program.body)), order=order)
    except RuntimeError as error:
        return "has been modified by an inplace operation" in str(error)
    return False
