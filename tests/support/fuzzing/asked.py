"""Derivatives of a pure program, asked for in all lives of a compiled function: before a call, after one, and through backward()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from derivative_modes import LIVES, Derivatives, weighted

import symgrad as sg
from fuzzing.program import Program, leaves

Derive = Callable[[Callable[..., Any], list[Any], list[int], int], Derivatives]


def is_asked(program: Program) -> bool:
    """Whether a program has derivatives to ask for: tensors that share memory are one input of a call, and several of a derivative."""
    return program.pure and not any(leaf.same for leaf in (*program.args, *program.state)) and bool(_floats(program))


def _floats(program: Program) -> list[str]:
    return [leaf.name for leaf in program.args if leaf.kind == "tensor" and leaf.dtype.startswith("float")]


def asked(
    program: Program, state: dict[str, Any], shake: Callable[[list[Any]], None], lives: dict[str, Derive], order: int
) -> dict[str, Any]:
    """What is found in each of the lives, by where."""
    names, made = _floats(program), leaves(program, program.args, 0, state)
    shake(list(made.values()))
    made = {n: sg.tensor(x) if hasattr(x, "dtype") and not isinstance(x, sg.Tensor) else x for n, x in made.items()}
    function = program.function(state)

    def flat(*tensors: Any) -> Any:
        filled = {**made, **dict(zip(names, tensors, strict=True))}
        return function(*program.arguments(list(filled.values())))

    tensors, found = [made[n].detach() for n in names], {}
    for life, derive in lives.items():
        d = derive(weighted(flat), tensors, list(range(len(names))), order)
        found |= {f"{life}: value": d.value.detach(), f"{life}: jvp": d.directional.detach()}
        found |= {f"{life}: gradient in {n}": g.detach() for n, g in zip(names, d.gradient, strict=True)}
        for what, each in (("hvp", d.hvp), ("vhp", d.vhp)):
            found |= {f"{life}: {what} in {n}": g.detach() for n, g in zip(names, each or (), strict=False)}
    return found


def compiled_lives(options: dict[str, Any]) -> dict[str, Derive]:
    """The lives of a function that is compiled anew for each."""

    def derive(life: str) -> Derive:
        return lambda loss, tensors, chosen, order: LIVES[life](sg.compile(loss, **options), tensors, chosen, order)

    return {life: derive(life) for life in LIVES}
