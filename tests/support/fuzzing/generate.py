"""From a seed to a program: each line is tried while the program grows, so that only what runs stays, and shapes are known."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import symgrad as sg
from fuzzing import grammar as g
from fuzzing.program import SCOPE, Block, Leaf, Line, Program, leaves, walk

SHAPES = [(), (2,), (3,), (4,), (2, 3), (3, 2), (2, 2), (3, 3), (1, 3), (2, 1), (2, 2, 2), (1,)]
EMPTY = [(0,), (0, 3), (2, 0)]
MOST = 24
"""Elements of a tensor."""
PLACE = re.compile(r"\{([a-zK-S0-9])\}")
REFUSED = (RuntimeError, IndexError, TypeError, ValueError, AttributeError, NotImplementedError, ZeroDivisionError)


@dataclass(frozen=True)
class Settings:
    """What may occur in programs."""

    effects: bool = True
    """Writes to what was there before, backward(), random numbers."""
    branches: bool = True
    least: int = 3
    most: int = 9


@dataclass
class Growing:
    """A program on its way, with the tensors that its names stand for when it is run once, straight through."""

    rng: np.random.Generator
    exact: bool
    settings: Settings
    known: dict[str, Any] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    count: int = 0

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def one_of(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    # names by what they stand for

    def named(self, what: str) -> str | None:
        kinds = {"f": "f", "g": "f", "h": "f", "w": "f", "l": "f", "i": "i", "b": "b", "z": "c"}[what]
        found = [n for n, t in self.known.items() if isinstance(t, sg.Tensor) and t._array.dtype.kind == kinds]
        if what == "w":
            found = [n for n in found if self.settings.effects or not self.from_outside(n)]
        if what == "l":
            found = [n for n in found if n not in self.outside]
        if what in "fg" and self.chance(0.03):
            found = [n for n, t in self.known.items() if isinstance(t, float)]
        recent = found[-3:] if self.chance(0.5) else found
        return self.one_of(recent) if recent else None

    def from_outside(self, name: str) -> bool:
        """Whether a write to it would be seen outside."""
        array = self.known[name]._array
        return any(np.may_share_memory(array, self.known[n]._array) for n in self.outside if isinstance(self.known[n], sg.Tensor))

    def line(self, text: str, name: str | None = None) -> Line | None:
        """The text with names and numbers in its places; the same letter may stand for different names."""
        uses: list[str] = []

        def place(match: re.Match[str]) -> str:
            what = match[1]
            if what in "DKS0123":
                return "{" + what + "}"
            found = self.named(what)
            if found is None:
                raise LookupError(what)
            if found not in uses:
                uses.append(found)
            return "{" + str(uses.index(found)) + "}"

        try:
            text = PLACE.sub(place, text)
        except LookupError:
            return None
        if uses and isinstance(self.known[uses[0]], sg.Tensor):
            shape = self.known[uses[0]].shape
            text = text.replace("{D}", str(int(self.rng.integers(max(len(shape), 1)))))
            text = text.replace("{K}", str(int(self.rng.integers(shape[0] if shape and shape[0] else 1))))
            text = text.replace("{S}", str(tuple(shape)))
        return None if re.search(r"\{[DKS]\}", text) else Line(text, tuple(uses), name)

    def try_line(self, text: str, name: str | None = None, like: Any = None) -> Line | None:
        """The line, if it runs; if it is to be like another tensor, only then."""
        line = self.line(text, name)
        if line is None:
            return None
        scope = {**SCOPE, **self.known}
        try:
            exec(line.code(), scope)
        except REFUSED:
            return None
        if name is not None:
            t = scope[name]
            if not isinstance(t, sg.Tensor) or t.numel() > MOST or (not t.numel() and self.chance(0.7)):
                return None
            if like is not None and (t.shape != like.shape or t.dtype != like.dtype):
                return None
            self.known[name] = t
        return line

    # lines

    def texts(self) -> list[str]:
        r = self.rng.random()
        if r < 0.05:
            return g.CALLS if self.exact else g.CALLS + g.SMOOTH_CALLS
        if r < 0.08:
            return g.COMPLEX + g.OF_COMPLEX
        if r < 0.25:
            return g.VIEWS
        if r < 0.33:
            return g.WHOLE_NUMBERS
        if r < 0.4:
            return g.TRUTHS
        if r < 0.45 and self.settings.effects:
            return g.EXACT_RANDOM if self.exact else g.RANDOM
        if r < 0.62:
            return g.KINKS
        return g.EXACT if self.exact or r < 0.8 else g.SMOOTH

    def let(self, like: Any = None, name: str | None = None) -> Line | None:
        for _ in range(12):
            text = self.one_of(self.texts())
            line = self.try_line(text, name or self.fresh(), like)
            if line is not None:
                return line
        return None

    def write(self) -> Line | None:
        more = [*g.COMPLEX_WRITES, *g.RESHAPING, *([] if self.exact else g.SMOOTH_WRITES + g.FLOAT_WRITES)]
        for _ in range(8):
            text = self.one_of([*g.WRITES, *g.KINKED_WRITES, *more, *(g.INT_WRITES if self.settings.effects else [])])
            if self.chance(0.1):
                text = self.one_of(g.LOCAL_WRITES)
            line = self.line(text)
            if line is None or ("= " in text and text[3] == " " and line.uses[0].startswith("s")):  # s += 1 would make a local of it
                continue
            try:
                exec(line.code(), {**SCOPE, **self.known})
            except REFUSED:
                continue
            return line
        return None

    def backward(self) -> Line | None:
        if self.chance(0.3):
            found = [n for n, t in self.known.items() if isinstance(t, sg.Tensor) and t._grad is not None]
            if found:
                return self.try_line(self.one_of([f"{n}.grad = None" for n in found] + [f"{n}.grad.mul_(0.5)" for n in found]))
        return self.try_line(self.one_of(g.BACKWARDS))

    def quietly(self) -> Block | None:
        """Lines under no_grad; a step of descent among them."""
        with sg.no_grad():
            body = [self.step() for _ in range(int(self.rng.integers(1, 3)))]
            found = [n for n, t in self.known.items() if isinstance(t, sg.Tensor) and t._grad is not None]
            if found and self.chance(0.7):
                name = self.one_of(found)
                body.append(Line("{0}.sub_({0}.grad, alpha=0.5)", (name,)))
        body = [line for line in body if line is not None]
        return Block("no_grad", "", (), tuple(body)) if body else None

    def branch(self) -> Block | None:
        """An if whose ways end with the same name; or one that only writes, or changes a name."""
        head = self.line(self.one_of(g.CONDITIONS))
        if head is None:
            return None
        name, before = self.fresh(), dict(self.known)
        first = self.some_steps()
        last = self.let(name=name)
        if last is None:
            self.known = before
            return None
        like, self.known = self.known[name], dict(before)
        other = self.some_steps()
        twin = None
        for _ in range(25):
            twin = twin or self.try_line(self.one_of(g.EXACT[:20] if self.exact else g.EXACT[:20] + g.SMOOTH[:12]), name, like)
        self.known = before
        if twin is None:
            return None
        self.known[name] = like
        return Block("if", head.text, head.uses, (*first, last), (*other, twin))

    def some_steps(self) -> tuple[Any, ...]:
        return tuple(line for line in (self.step() for _ in range(int(self.rng.integers(0, 2)))) if line is not None)

    def loop(self) -> Block | None:
        """A while or a for, which changes a name or writes."""
        names = [n for n, t in self.known.items() if isinstance(t, sg.Tensor) and t._array.dtype.kind == "f" and n not in self.outside]
        kind = self.one_of(["while", "for"])
        head = self.line(self.one_of(g.CONDITIONS[:5] if kind == "while" else g.ROUNDS))
        if head is None or not names:
            return None
        name, before = self.one_of(names), set(self.known)
        body = [*self.some_steps(), self.try_line(self.one_of(g.EXACT[:8] + g.KINKS[:4]), name, self.known[name])]
        self.known = {n: t for n, t in self.known.items() if n in before}  # there may be no round
        body = [line for line in body if line is not None]
        return Block(kind, head.text, head.uses, tuple(body)) if body else None

    def step(self) -> Any:
        r = self.rng.random()
        if r < 0.22:
            return self.write()
        if r < 0.27 and self.settings.effects:
            return self.backward()
        return self.let()

    def part(self) -> Any:
        r = self.rng.random()
        if self.settings.branches and r < 0.09:
            return self.branch()
        if self.settings.branches and r < 0.14:
            return self.loop()
        return self.quietly() if r < 0.18 else self.step()

    # ends

    def result(self, body: Any) -> Any:
        """Names in containers, those first that nothing else uses."""
        used = {u for part in walk(body) for u in part.uses}
        names = [n for n, t in self.known.items() if isinstance(t, sg.Tensor)]
        chosen = [n for n in names if n not in used and n not in self.outside][-4:] or [names[-1]]
        chosen += [self.one_of(names) for _ in range(int(self.rng.integers(0, 3)))]
        if len(chosen) == 1:
            return chosen[0]
        half = len(chosen) // 2
        shapes = [tuple(chosen), chosen, {"a": chosen[0], "b": chosen[1:]}, (chosen[0], {"rest": tuple(chosen[1:])})]
        return self.one_of([*shapes, [tuple(chosen[:half]), {"x": chosen[half:]}]])


def _leaves(grow: Growing, prefix: str, least: int, most: int) -> tuple[Leaf, ...]:
    found: list[Leaf] = []
    for i in range(int(grow.rng.integers(least, most + 1))):
        first = i == 0
        dtype = "float64" if first else grow.one_of(["float64"] * 6 + ["float32"] * 3 + ["int64", "int64", "bool", "int32", "complex128"])
        shape = grow.one_of(SHAPES[1:] if first else SHAPES if grow.chance(0.93) else EMPTY)
        leaf = Leaf(f"{prefix}{i}", shape, dtype, dtype[0] in "fc" and grow.chance(0.5))
        r = grow.rng.random()
        if prefix == "a" and not first and r < 0.06:
            leaf = Leaf(leaf.name, (), "float64", kind="float")
        elif prefix == "a" and not first and r < 0.12:
            leaf = Leaf(leaf.name, leaf.shape, dtype, kind="array")
        found.append(leaf)
    return tuple(found)


def generate(seed: int, settings: Settings | None = None) -> Program:
    """The program of a seed; without settings, one in three has no effects."""
    rng = np.random.default_rng(seed)
    settings = settings or Settings(effects=seed % 3 != 0)
    grow = Growing(rng, exact=seed % 4 == 1, settings=settings)
    args = _leaves(grow, "a", 1, 3)
    state = _leaves(grow, "s", 0, 2)
    if grow.chance(0.1):
        same = grow.one_of(["a0", "a0[1:]", "a0[...]", "a0.view(-1)", *(leaf.name for leaf in state)])
        args = (*args, replace(args[0], name="a9", same=same))
    if all(leaf.dtype[0] != "f" for leaf in args):
        args = (Leaf("a0", (3,), "float64", True), *args[1:])
    calls = tuple(grow.one_of(["no_grad", "detached", "single", "thread"]) if grow.chance(0.12) else "" for _ in range(3))
    program = Program(seed, args, state, (), "", grow.exact, False, calls, grow.chance(0.2), not settings.effects)
    grow.known = leaves(program, state, -1, {})
    grow.known |= leaves(program, args, 0, grow.known)
    grow.outside = frozenset(grow.known)
    grow.known = {n: sg.tensor(t) if isinstance(t, np.ndarray) else t for n, t in grow.known.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [grow.part() for _ in range(int(rng.integers(settings.least, settings.most + 1)))]
        body = tuple(p for p in parts if p is not None)
    single = any(isinstance(t, sg.Tensor) and t._array.dtype == np.float32 for t in grow.known.values())
    single = single or "single" in calls or any(word in str(body) for word in (".float()", "randn(2", "randn((2", "normal("))
    return replace(program, body=body, result=grow.result(body), single=single)
