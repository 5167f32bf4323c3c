"""What a program depends on besides the types of its arguments, and what is no longer so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from symgrad.autograd.hooks import registered
from symgrad.compiler.graph.ir import Value
from symgrad.compiler.tracing.trace import Trace
from symgrad.compiler.tracing.watch import Name
from symgrad.mode import changes
from symgrad.ops.weak import Condition
from symgrad.resident import memory
from symgrad.tensor import Tensor

Dependency = tuple[Callable[[], Any], Any]


class Guards:
    """Conditions on the numbers among the arguments, and other things that are read again before each run."""

    __slots__ = (
        "any", "brought", "captured", "conditions", "dependencies", "hooks", "labels", "modules", "names", "others",
        "requires_grad", "seen",
    )  # fmt: skip

    def __init__(self, traced: Trace) -> None:
        self.modules = list(traced.capture.modules.values())
        self.hooks = traced.capture.differentiated
        """Whether hooks of tensors have been called."""
        before = traced.capture.before
        self.captured = [(t, self._kind(t, before[id(t)][1] if id(t) in before else t._requires_grad)) for t in traced.captured]
        """Tensors that the function brings along, with their types, and whether they ask for gradients."""
        self.requires_grad = any(asked for _, (_, _, asked, _) in self.captured)
        self.seen = -1
        """When modules and tensors were last looked at."""
        self.conditions: tuple[Condition, ...] = tuple(traced.path.conditions)
        self.dependencies: list[Dependency] = traced.capture.dependencies
        self.names = [(name.read, name.value, name) for name, _ in self.dependencies if isinstance(name, Name)]
        """What names in the code stand for: nearly always the same object, which is seen without asking the name."""
        self.others = [dependency for dependency in self.dependencies if not isinstance(dependency[0], Name)]
        self.labels = traced.graph.labels
        known = {id(t): label for t, label in zip(traced.capture.outside, traced.capture.labels, strict=True)}
        self.brought = [known.get(id(t), "a constant") for t in traced.captured]
        self.any = bool(self.modules or self.captured or self.conditions or self.dependencies)

    def hold(self, leaves: Sequence[Any] = ()) -> bool:
        """Whether everything is as it was, for a call with these leaves."""
        if self.seen != changes.count:
            now = changes.count
            if self._changed() is not None:
                return False
            self.seen = now
        try:
            for read, value, name in self.names:
                if read() is not value and not name():
                    return False
        except ValueError:  # a closure cell is empty
            return False
        for read, value in self.others:
            if read() != value:
                return False
        return not self.conditions or all(c.holds(_numbers(leaves)) for c in self.conditions)

    def failed(self, leaves: Sequence[Any] = ()) -> str | None:
        """What is not as it was: `training: True -> False`."""
        changed = self._changed()
        if changed is not None:
            return changed
        for read, value in self.dependencies:
            now = read()
            if now != value:
                describe = getattr(read, "describe", None)
                return f"{getattr(read, '__name__', 'state')}: {value} -> {now}" if describe is None else str(describe(value, now))
        for c in self.conditions:
            if not c.holds(_numbers(leaves)):
                return f"argument {c.text(lambda v: self.labels[v.attrs['index']])}: {c.answer} -> {c.now(_numbers(leaves))}"
        return None

    def _changed(self) -> str | None:
        for makeup in self.modules:
            failed = makeup.failed()
            if failed is not None:
                return failed
        for (t, before), label in zip(self.captured, self.brought, strict=True):
            now = self._kind(t, t._requires_grad)
            if now != before:
                change = "other hooks" if now[:3] == before[:3] else f"{_words(before)} -> {_words(now)}"
                return f"{label}, which the function brings along: {change}"
        return None

    def _kind(self, t: Tensor, asked: bool) -> tuple[Any, ...]:
        held = memory(t)
        return tuple(held.shape), held.dtype, asked, registered(t) if self.hooks else ()


def _words(kind: tuple[Any, ...]) -> str:
    shape, dtype, asked, _ = kind
    return f"{dtype}{list(shape)}{' that requires grad' if asked else ''}"


def _numbers(leaves: Sequence[Any]) -> Callable[[Value], Any]:
    def number(value: Value) -> Any:
        leaf = leaves[value.attrs["index"]]
        return (leaf._array if isinstance(leaf, Tensor) else leaf).item()

    return number
