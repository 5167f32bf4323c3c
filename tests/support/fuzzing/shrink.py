"""From a program that fails to the smallest that fails in the same way: parts are left out as long as it still does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fuzzing.program import Block, Line, Program, renamed


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 600) -> Program:
    """The smallest program found; `fails` says whether one still does."""
    left = tries
    smaller = True
    while smaller and left > 0:
        smaller = False
        for candidate in candidates(program):
            left -= 1
            if fails(candidate):
                program, smaller = candidate, True
                break
            if left <= 0:
                break
    return program


def candidates(program: Program) -> Iterator[Program]:
    """Programs that are simpler by one thing, the boldest first."""
    count = len(program.body)
    for size in (count // 2, count // 4):
        for start in range(0, count, max(size, 1)):
            if size > 1:
                yield replace(program, body=program.body[:start] + program.body[start + size :])
    for body in bodies(program.body, [leaf.name for leaf in (*program.args, *program.state)]):
        yield replace(program, body=body)
    if len(program.calls) > 1:
        yield replace(program, calls=program.calls[:-1])
    if any(program.calls):
        yield replace(program, calls=tuple("" for _ in program.calls))
    for result in simpler_results(program.result):
        yield replace(program, result=result)
    yield from _fewer_leaves(program)
    if program.packed:
        yield replace(program, packed=False)


def _fewer_leaves(program: Program) -> Iterator[Program]:
    for kind in ("args", "state"):
        found = getattr(program, kind)
        for i, leaf in enumerate(found):
            rest = found[:i] + found[i + 1 :]
            if kind == "state" or len(found) > 1:
                yield replace(program, **{kind: rest})
            if leaf.grad:
                yield replace(program, **{kind: (*found[:i], replace(leaf, grad=False), *found[i + 1 :])})
            if len(leaf.shape) > 1 and leaf.same is None:
                yield replace(program, **{kind: (*found[:i], replace(leaf, shape=leaf.shape[1:]), *found[i + 1 :])})


def bodies(body: tuple[Any, ...], names: list[str]) -> Iterator[tuple[Any, ...]]:
    """The lines without one of them, whose name is then another's; blocks without their heads; and simpler lines."""
    for i, part in enumerate(body):
        before, after = body[:i], body[i + 1 :]
        if isinstance(part, Block):
            yield (*before, *after)
            yield (*before, *part.body, *after)
            if part.other:
                yield (*before, *part.other, *after)
            for inner in bodies(part.body, names):
                yield (*before, replace(part, body=inner), *after)
            for inner in bodies(part.other, names):
                if inner:
                    yield (*before, replace(part, other=inner), *after)
            continue
        if part.name is None:
            yield (*before, *after)
            continue
        for other in dict.fromkeys((*part.uses, *names)):
            if other != part.name:
                yield (*before, *(renamed(p, {part.name: other}) for p in after))
        if part.text not in ("{0} * 2", "{0}") and part.uses:
            yield (*before, Line("{0} * 2", part.uses[:1], part.name), *after)


def simpler_results(result: Any) -> Iterator[Any]:
    if isinstance(result, str):
        return
    items = list(result.values()) if isinstance(result, dict) else list(result)
    yield from items
    for i, item in enumerate(items):
        rest = items[:i] + items[i + 1 :]
        if rest and not isinstance(result, dict):
            yield type(result)(rest)
        if isinstance(result, dict) and len(result) > 1:
            yield {k: v for j, (k, v) in enumerate(result.items()) if j != i}
        for inner in simpler_results(item):
            yield {**result, list(result)[i]: inner} if isinstance(result, dict) else type(result)((*items[:i], inner, *items[i + 1 :]))
