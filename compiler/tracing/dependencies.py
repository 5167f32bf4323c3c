"""What a program depends on besides its inputs: names, modules and optimizers are as they were, and nothing was done once and for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.graph.ir import Value
from symgrad.compiler.lines import user_line
from symgrad.compiler.tracing.sources import Scalar
from symgrad.compiler.tracing.watch import ArrayContents, HasGradient, Makeup, Watched
from symgrad.errors import TraceError
from symgrad.resident import memory
from symgrad.tensor import Tensor, wrap


class Dependencies:
    """What a capture is told of Python's objects."""

    effects: bool
    arguments: int
    names: Mapping[int, str]
    outside: list[Tensor]
    sources: list[Any]
    had: dict[int, Any]
    graded: dict[int, tuple[Tensor, bool]]

    def __init__(self) -> None:
        self.dependencies: list[tuple[Callable[[], Any], Any]] = []
        """What is read again before each run, and what it must give."""
        self.modules: dict[int, Makeup] = {}
        """The modules that were called, and optimizers that made steps, as they were then."""
        self.closed: list[Tensor] = []
        """Tensors that the function reads by names of its own."""
        self.scalars: dict[Any, Tensor] = {}
        self.readings: dict[Any, tuple[Callable[[], float], float]] = {}
        self.fixed: set[Any] = set()
        self.changed: list[Watched] = []
        """State of Python's that the function has changed itself, which a program would not do."""
        self.keeps = False
        """Whether the function has put an argument somewhere, which a program would not do."""
        self.once: str | None = None
        """What the function did that no program does again."""

    def argument(self, t: Tensor, title: str, own: bool = False) -> Value:
        raise NotImplementedError

    def depends(self, read: Callable[[], Any]) -> None:
        """The program holds as long as this has the value that it has now."""
        self.dependencies.append((read, read()))

    def entered(self, module: Any, makeup: Callable[[Any], Any] = Makeup) -> None:
        """A module is called, or an optimizer steps: the program holds as long as it consists of what it consists of now."""
        if id(module) not in self.modules:
            self.modules[id(module)] = makeup(module)

    def done_once(self, how: str) -> None:
        """Something that only Python does, such as a schedule that goes on: the call counts, later ones run as they are written, too."""
        if not self.effects:
            raise TraceError(f"{user_line()}: {how} changes Python's objects inside a traced function; call it outside")
        self.once = self.once or f"{how} at {user_line()} is done by Python, and no program does it again; call it after the function"

    def settle(self, names: Sequence[Watched]) -> None:
        """After the trace: names that the function reads are dependencies, unless it has changed them itself."""
        for name in names:
            if name.makeup is not None:
                self.modules.setdefault(id(name.value), name.makeup)
        for makeup in self.modules.values():
            makeup.settle()
        for key, (read, before) in self.readings.items():
            if read() != before:
                changed = f"the function itself changes {key[-1]} of an optimizer, and no program does that again; change it between calls"
                self.once = self.once or changed
        arguments = set(map(id, self.outside[: self.arguments]))
        unchanged = [(t, had) for t, had in self.graded.values() if t._grad is self.had.get(id(t), t._grad) and id(t) not in arguments]
        self.dependencies += [(HasGradient(t, self.names.get(id(t)), not self.effects), had) for t, had in unchanged]
        self.closed = [name.value for name in names if isinstance(name.value, Tensor)]
        inputs = [memory(t) for t in self.outside]
        for name in names:
            if isinstance(name, ArrayContents) and any(x is name.value or getattr(x, "base", None) is name.value for x in inputs):
                continue  # read at every run
            if name():
                self.dependencies += [(name, True)] * name.guarded
            elif any(id(x) in arguments for x in name.held()):
                self.keeps = True
            else:
                self.changed.append(name)

    def warn_of_changes(self) -> None:
        """Warn of changes that a program does not make again."""
        for name in self.changed:
            name.warn()

    def scalar(self, key: Any, read: Callable[[], float]) -> Any:
        """A number that may change between runs, such as a learning rate: an input, which is read at every run. Of a program that is there
        for its derivatives only tensors are inputs: there it is held fixed."""
        if not self.effects:
            if key not in self.fixed:
                self.fixed.add(key)
                self.depends(read)
            return read()
        if key not in self.scalars:
            self.readings[key] = read, read()
            t = self.scalars[key] = wrap(np.asarray(read(), np.float64))
            self.argument(t, {"lr": "rate"}.get(key[-1], key[-1]))
            self.sources.append(Scalar(read))
        return self.scalars[key]
