"""Find where a NaN in a kernel comes from: run its graph again in the interpreter, and follow the NaN back from the results."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from symgrad.compiler.ir.graph import INPUT, LITERAL, OUTPUT, Graph, Value
from symgrad.compiler.ir.interpret import evaluate, values_of
from symgrad.debug import NanWatch
from symgrad.mode import local
from symgrad.observer import Observer

Lines = Mapping[Value, str]


def active_nan_watch() -> NanWatch | None:
    """Return the innermost observer of this thread that looks for NaN, or None: see `symgrad.debug.nans`."""
    capture = local.mode.capture
    while isinstance(capture, Observer) and not isinstance(capture, NanWatch):
        capture = capture.outer
    return capture if isinstance(capture, NanWatch) else None


def check_nans(watch: Any, graph: Graph, operands: Sequence[Any], lines: Lines, name: str) -> None:
    """Raise FloatingPointError if a result of the graph is NaN and no input is; the message names the operation that produced the first
    NaN."""
    arrays = [np.asarray(x) for x in operands]
    if any(map(watch.bad, arrays)):
        return
    found = _culprit(watch, graph, arrays, lines)
    if found is not None:
        raise FloatingPointError(f"{watch.message(*found)}, in the kernel of {name}")


def check_loop_nans(watch: Any, name: str, operands: Sequence[Any], attrs: Mapping[str, Any], lines: Lines) -> None:
    """Raise FloatingPointError if a loop or branch produced a NaN; it has run already, while a function is traced."""
    for graph, given in loop_iterations(name, operands, attrs):
        found = _culprit(watch, graph, given, lines)
        if found is not None:
            raise FloatingPointError(watch.message(*found))


def _culprit(watch: Any, graph: Graph, arrays: Sequence[Any], lines: Lines) -> tuple[str, list[Any], str] | None:
    """Return the operation that produced the first NaN, its operands and its source line, or None; inside a loop, the operation of the
    body."""
    known = values_of(graph, arrays)
    bad = next((v for v in graph.outputs if watch.bad(known[v])), None)
    if bad is None:
        return None
    culprit = _origin(watch, bad, known)
    operands = [None if a is None else known[a] for a in culprit.args]
    line = _line(culprit, lines) or "?"
    for inner, given in loop_iterations(culprit.op, operands, culprit.attrs):
        found = _culprit(watch, inner, given, lines)
        if found is not None:
            return found if found[2] != "?" else (*found[:2], line)
    return culprit.op, operands, line


def loop_iterations(name: str, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Iterator[tuple[Graph, list[Any]]]:
    """Iterate over the graphs that a loop or a branch runs in turn, each with its inputs."""
    if name == "cond":
        yield attrs["true"] if operands[0] else attrs["false"], list(operands[1:])
    elif name == "while_loop":
        carry, shared = list(operands[: attrs["carries"]]), operands[attrs["carries"] :]
        while evaluate(attrs["condition"], [*carry, *shared])[0]:
            yield attrs["body"], [*carry, *shared]
            carry = evaluate(attrs["body"], [*carry, *shared])
    elif name == "scan":
        carries, end, body = attrs["carries"], attrs["carries"] + attrs["slices"], attrs["body"]
        carry, slices, shared = list(operands[:carries]), operands[carries:end], operands[end:]
        for i in range(attrs["length"])[:: -1 if attrs["reverse"] else 1]:
            given = [*carry, *(np.asarray(x[i]) for x in slices), *shared]
            yield body, given
            carry = evaluate(body, given)[:carries]


def _origin(watch: Any, v: Value, known: Mapping[Value, Any]) -> Value:
    """Follow a NaN back to a value none of whose arguments is NaN."""
    while True:
        if v.op == OUTPUT:
            v = v.args[0]
        before = next((a for a in v.args if a is not None and _has_nan(watch, known[a])), None)
        if before is None:
            return v
        v = before


def _has_nan(watch: Any, found: Any) -> bool:
    return any(map(watch.bad, found)) if isinstance(found, tuple) else watch.bad(found)


def _line(v: Value, lines: Lines) -> str | None:
    """Return the user's source line of a value or of its nearest ancestor that has one: derivatives have none of their own."""
    queue, seen = deque([v]), {v}
    while queue:
        v = queue.popleft()
        if v in lines and v.op not in (INPUT, LITERAL):
            return lines[v]
        fresh = [a for a in v.args if a is not None and a not in seen]
        seen.update(fresh)
        queue.extend(fresh)
    return None
