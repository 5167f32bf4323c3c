"""Why a compiled function was traced: f.recompiles(), the log, and warnings about repeated traces."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from symgrad.compiler.inputs.signature import Call, storage_or_spec
from symgrad.compiler.support.source_lines import warn
from symgrad.ops.promotion import default_float
from symgrad.pytree import static_values, structure_key

logger = logging.getLogger("symgrad.compile")
MAX_VARIANTS = 8
"""Number of programs that differ in one property, before there is a warning."""
MANY_NUMBERS = 32
"""Number of Python numbers in one container that are inputs, before there is a warning."""


@dataclass(frozen=True)
class TraceRecord:
    """One trace: its number, and how the call differed from earlier ones."""

    number: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return "; ".join(self.reasons)


class Recompiles(list[TraceRecord]):
    """All traces in order; it prints as a table."""

    def __repr__(self) -> str:
        if not self:
            return "not traced yet"
        width = len(str(self[-1].number))
        return "\n".join(f"{record.number:>{width}}  {line}" for record in self for line in record.reasons)


class _CallSummary:
    """The shapes, dtypes, settings and modes of a call, for comparison with other calls."""

    def __init__(self, call: Call) -> None:
        types = {label: storage_or_spec(x) for label, x in zip(call.labels, call.leaves, strict=True)}
        self.shapes = {label: tuple(x.shape) for label, x in types.items()}
        self.dtypes = {label: str(x.dtype) for label, x in types.items()}
        if call.scalar_types:
            self.dtypes |= {label: cls.__name__ for label, cls in zip(call.labels, call.scalar_types, strict=True) if cls is not None}
        self.settings = {path: x for name, part in call.structure.items() for path, x in static_values(part, name).items()}
        self.keys = {path: structure_key(x) for path, x in self.settings.items()}
        mode = call.autograd_mode() or ((), True, (), ())
        self.requires_grad = dict(zip(call.labels, mode[0], strict=False))
        self.default = default_float()
        self.recording, self.aliased = mode[1], [(call.labels[i], call.labels[j]) for i, j, _ in mode[2]]

    def differences(self, now: _CallSummary) -> list[tuple[str, str]]:
        """Return how `now` differs, as pairs of an argument and a line of text."""
        found = []
        for label in [*self.shapes, *self.settings, *now.shapes, *now.settings]:
            line = self._difference(label, now)
            if line is not None and (label, line) not in found:
                found.append((label, line))
        if self.recording != now.recording:
            found.append(("", f"grad mode: {_on(self.recording)} -> {_on(now.recording)}"))
        if self.default != now.default:
            found.append(("", f"default dtype: {self.default} -> {now.default}"))
        if self.aliased != now.aliased:
            found.append(("", f"shared memory: {_pairs(self.aliased)} -> {_pairs(now.aliased)}"))
        return found

    def _difference(self, label: str, now: _CallSummary) -> str | None:
        start = f"argument {label}:"
        if self.kind(label) != now.kind(label):
            return f"{start} {self.kind(label)} -> {now.kind(label)}"
        if label in self.settings:
            if self.keys[label] == now.keys[label]:
                return None
            before, after = _short(self.settings[label]), _short(now.settings[label])
            return f"{start} {before} -> {after}" if before != after else f"{start} another {now.settings[label].__class__.__name__}"
        if self.shapes[label] != now.shapes[label]:
            return f"{start} shape {self.shapes[label]} -> {now.shapes[label]}"
        if self.dtypes[label] != now.dtypes[label]:
            return f"{start} dtype {self.dtypes[label]} -> {now.dtypes[label]}"
        if self.requires_grad.get(label) != now.requires_grad.get(label):
            return f"{start} requires_grad {self.requires_grad.get(label)} -> {now.requires_grad.get(label)}"
        return None

    def kind(self, label: str) -> str:
        return "a setting" if label in self.settings else "an input" if label in self.shapes else "not given"


def _on(flag: Any) -> str:
    return "on" if flag else "off"


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{x} and {y}" for x, y in pairs) or "none"


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."


class TraceLog:
    """The traces of one compiled function."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.records = Recompiles()
        self._pictures: list[_CallSummary] = []
        self._seen: dict[tuple[str, str], set[Any]] = {}
        self._warned: set[Any] = set()

    def note(self, call: Call, others: Sequence[str]) -> None:
        """Record that a call is about to be traced. `others` are the failed guards of programs for arguments of the same types."""
        picture = _CallSummary(call)
        own = self._reasons(picture)
        reasons = tuple(dict.fromkeys(own or others)) or ("other values",)
        self.records.append(TraceRecord(len(self.records) + 1, reasons))
        self._pictures.append(picture)
        logger.info("%s is traced (%d): %s", self.title, len(self.records), "; ".join(reasons))
        self._count(picture)
        if len(call.scalar_types) > MANY_NUMBERS:
            self._warn_of_numbers(call)
        for line in () if own else others:
            self._change(line)

    def _warn_of_numbers(self, call: Call) -> None:
        """Warn of a container with many Python numbers: each is an input of its own."""
        places = [label.rpartition(".")[0] for label, cls in zip(call.labels, call.scalar_types, strict=True) if cls is not None]
        for place, count in Counter(places).items():
            if place and count > MANY_NUMBERS:
                self.warn(
                    ("numbers", place),
                    f"argument {place} of {self.title} has {count} Python numbers. Each is an input of its own, so that tracing, compiling"
                    " and calls are slow; pass sg.tensor(list), which is one input",
                )

    def _change(self, line: str) -> None:
        """Count a failed guard, and warn if it fails often. Path conditions have a warning of their own."""
        what, colon, _ = line.partition(": ")
        if what == "path" or not colon:
            return
        seen = self._seen.setdefault(("change", what), set())
        seen.add(len(self.records))
        if len(seen) >= MAX_VARIANTS:
            way = "pass it as an argument, where a float is an input, or keep it in a tensor"
            if what.startswith("argument "):
                way = "compute with it in tensors, not in Python"
            self.warn(("change", what), f"{what} has changed {len(seen)} times, and {self.title} was traced again for each; {way}")

    def _reasons(self, picture: _CallSummary) -> list[str]:
        if not self._pictures:
            return ["first call"]
        lists = [before.differences(picture) for before in reversed(self._pictures)]
        return [line for _, line in min(lists, key=len)]  # compared with the most similar call

    def _count(self, picture: _CallSummary) -> None:
        for label, shape in picture.shapes.items():
            self._add("shape", label, shape)
        for label, value in picture.settings.items():
            if type(value) in (int, float, str):
                self._add("value", label, value)

    def _add(self, what: str, label: str, value: Any) -> None:
        seen = self._seen.setdefault((what, label), set())
        seen.add(value)
        if len(seen) > MAX_VARIANTS:
            way = "compile with buckets=(...), pad it to a few lengths, or drop the last short batch"
            if what == "value" and type(value) is not int:
                way = "let a few values stand for many, or pass a float that is not static"
            elif what == "value":
                way = f'compile with dynamic="{label.partition(".")[0]}" if it is a number to compute with'
            self.warn((what, label), f"argument {label} has come in {len(seen)} {what}s, and {self.title} was traced and compiled for each"
                                     f" of them; {way}")  # fmt: skip

    def warn(self, topic: Any, message: str) -> None:
        """Warn once per topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            logger.info(message)
            warn(message)
