"""Programs as data: lines and blocks of Python with names in them. They print as a function, and that text is what runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import symgrad as sg
import symgrad.nn.functional as F
from fuzzing.tools import TOOLS

SCOPE = {"sg": sg, "F": F, "np": np, **TOOLS}


@dataclass(frozen=True)
class Line:
    """`name = text`, or `text` alone; {0}, {1}, ... in it are the names that it uses."""

    text: str
    uses: tuple[str, ...] = ()
    name: str | None = None

    def code(self) -> str:
        text = self.text.format(*self.uses)
        return text if self.name is None else f"{self.name} = {text}"


@dataclass(frozen=True)
class Block:
    """Lines under an `if`, a `while` (which ends after three rounds), a `for`, or a `with sg.no_grad()`; `head` is what it asks."""

    kind: str
    head: str
    uses: tuple[str, ...]
    body: tuple[Any, ...]
    other: tuple[Any, ...] = ()

    def code(self, depth: int) -> list[str]:
        head, pad, count = self.head.format(*self.uses), "    " * depth, f"n{depth}"
        if self.kind == "while":
            before, first, last = [f"{pad}{count} = 0"], f"while {count} < 3 and {head}:", [f"{pad}    {count} += 1"]
        else:
            first = {"if": f"if {head}:", "for": f"for _ in {head}:", "no_grad": "with sg.no_grad():"}[self.kind]
            before, last = [], []
        lines = [*before, pad + first, *(_code(self.body, depth + 1) or ([] if last else [f"{pad}    pass"])), *last]
        return lines + ([f"{pad}else:", *_code(self.other, depth + 1)] if self.other else [])


def _code(body: tuple[Any, ...], depth: int) -> list[str]:
    return [line for part in body for line in (part.code(depth) if isinstance(part, Block) else ["    " * depth + part.code()])]


@dataclass(frozen=True)
class Leaf:
    """What is there before the program runs: an argument, or state that it closes over. `kind` is "tensor", "array" or a Python type."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    grad: bool = False
    kind: str = "tensor"
    same: str | None = None
    """Which other leaf it is, or which view of one: "a0", "s0[1:]"."""


@dataclass(frozen=True)
class Program:
    seed: int
    args: tuple[Leaf, ...]
    state: tuple[Leaf, ...]
    body: tuple[Any, ...]
    result: Any
    """Names in nested containers."""
    exact: bool = False
    """Whether all numbers are small halves, so that it runs without rounding, at ties and edges."""
    single: bool = False
    """Whether float32 takes part."""
    calls: tuple[str, ...] = ("", "", "")
    """One for each call: "no_grad" is called under it, "detached" with arguments that do not require grad,
    "single" with float32 in place of float64, "thread" by another thread."""
    packed: bool = False
    """Whether the last arguments come in a dictionary with a list."""
    pure: bool = False
    """Whether nothing is left behind but results."""

    def __len__(self) -> int:
        return sum(1 for _ in walk(self.body))

    def text(self) -> str:
        """The function, as Python."""
        names = [leaf.name for leaf in self.args]
        head, tail = (names[:1], names[1:]) if self.packed and len(names) > 1 else (names, [])
        lines = [f"def f({', '.join([*head, *(['pack'] if tail else [])])}):"]
        if tail:
            lines.append(f"    {', '.join(tail)}, = pack['first'], *pack['rest']")
        return "\n".join([*lines, *_code(self.body, 1), f"    return {spelled(self.result)}"]) + "\n"

    def arguments(self, values: list[Any]) -> list[Any]:
        """As the function takes them."""
        if self.packed and len(values) > 1:
            return [values[0], {"first": values[1], "rest": values[2:]}]
        return values

    def function(self, state: dict[str, Any]) -> Callable[..., Any]:
        scope = {**SCOPE, **state}
        exec(compile(self.text(), f"<program {self.seed}>", "exec"), scope)
        return scope["f"]  # type: ignore[no-any-return]

    def value(self, leaf: Leaf, call: int) -> Any:
        """The numbers of a leaf at a call; state has those of call -1."""
        rng = np.random.default_rng([abs(self.seed), call + 1, sum(leaf.name.encode())])
        if leaf.dtype == "bool":
            array = rng.random(leaf.shape) < 0.5
        elif leaf.dtype.startswith("int"):
            array = rng.integers(-3, 4, leaf.shape)
        elif leaf.dtype.startswith("complex"):
            array = rng.integers(-4, 5, leaf.shape) / 2 + 0.5j * rng.integers(-4, 5, leaf.shape)
        else:
            array = rng.integers(-4, 5, leaf.shape) / 2 if self.exact else rng.uniform(-1.5, 1.5, leaf.shape)
        return np.asarray(array, leaf.dtype)


def spelled(result: Any) -> str:
    """A nested container of names as Python."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        return "{" + ", ".join(f"{k!r}: {spelled(v)}" for k, v in result.items()) + "}"
    items = ", ".join(map(spelled, result))
    return f"[{items}]" if isinstance(result, list) else f"({items},)"


def walk(body: tuple[Any, ...]) -> Iterator[Any]:
    """All lines and blocks."""
    for part in body:
        yield part
        if isinstance(part, Block):
            yield from walk(part.body)
            yield from walk(part.other)


def renamed(part: Any, names: dict[str, str]) -> Any:
    """With other names used in it."""
    uses = tuple(names.get(u, u) for u in part.uses)
    if isinstance(part, Line):
        return replace(part, uses=uses)
    return replace(part, uses=uses, body=tuple(renamed(p, names) for p in part.body), other=tuple(renamed(p, names) for p in part.other))


def respelled(part: Any, old: str, new: str) -> Any:
    """With one text in place of another."""
    if isinstance(part, Line):
        return replace(part, text=part.text.replace(old, new))
    return replace(part, body=tuple(respelled(p, old, new) for p in part.body), other=tuple(respelled(p, old, new) for p in part.other))


def tensor_text(leaf: Leaf, value: Any) -> str:
    if leaf.kind == "array":
        return f"np.array({value.tolist()}, np.{leaf.dtype})"
    if leaf.kind != "tensor":
        return repr(value.item())
    return f"sg.tensor({value.tolist()}, dtype=sg.{leaf.dtype}{', requires_grad=True' if leaf.grad else ''})"


def as_called(leaf: Leaf, how: str) -> Leaf:
    """An argument as a call wants it."""
    if how == "detached":
        return replace(leaf, grad=False)
    return replace(leaf, dtype="float32") if how == "single" and leaf.dtype == "float64" and leaf.kind == "tensor" else leaf


def _imports(program: Program) -> list[str]:
    """The tools that a program calls: the file is run in tests/support."""
    used = [name for name in TOOLS if f"{name}(" in program.text() or f"{name}." in program.text()]
    return [f"from fuzzing.tools import {', '.join(used)}"] if used else []


def script(program: Program, options: str = "") -> str:
    """A file that runs the program eagerly and compiled, and prints results, state and gradients of both."""
    lines = ["import numpy as np", "", "import symgrad as sg", "import symgrad.nn.functional as F", *_imports(program)]
    lines += ["", "", "def world(compiled):"]
    made = [f"    {s.name} = {s.same if s.same else tensor_text(s, program.value(s, -1))}" for s in program.state]
    body = [f"    {line}" for line in program.text().splitlines()]
    lines += ["    sg.manual_seed(0)", *made, *body, f"    run = sg.compile(f{options}) if compiled else f"]
    for call, how in enumerate(program.calls):
        for a in program.args:
            given = as_called(a, how)
            lines.append(f"    {a.name} = {a.same if a.same else tensor_text(given, program.value(given, call % 2))}")
        given = spelled(program.arguments([a.name for a in program.args]))[1:-1]
        lines += ["    with sg.no_grad():", f"        print(run({given}))"] if how == "no_grad" else [f"    print(run({given}))"]
        names = [leaf.name for leaf in (*program.state, *program.args) if leaf.kind == "tensor"]
        lines += [f"    print({', '.join(f'{n!r}, {n}, {n}.grad' for n in names)})"] if names else []
    return "\n".join([*lines, "", "", "world(False)", "print('compiled')", "world(True)", ""])


def leaves(program: Program, which: tuple[Leaf, ...], call: int, known: dict[str, Any]) -> dict[str, Any]:
    """The leaves as tensors, arrays and numbers; those that are another, or a view of it, are looked up."""
    made: dict[str, Any] = {}
    for leaf in which:
        made[leaf.name] = eval(leaf.same, {**known, **made}) if leaf.same else tensor_of(program, leaf, call)
    return made


def tensor_of(program: Program, leaf: Leaf, call: int) -> Any:
    value = program.value(leaf, call)
    if leaf.kind == "array":
        return value
    if leaf.kind != "tensor":
        return value.item()
    return sg.tensor(value, requires_grad=leaf.grad)
