"""Programs, one after the other: what became of them, and a report on each that went wrong."""

from __future__ import annotations

import re
from collections import Counter

from fuzzing.compare import Verdict, check
from fuzzing.generate import Settings, generate
from fuzzing.program import Program, script
from fuzzing.shrink import shrink


class Campaign:
    """`run(seed)` gives a report, or "" if all is well; `words` counts verdicts, `refusals` what cannot be compiled."""

    def __init__(
        self, backends: tuple[str, ...], settings: Settings | None = None, shrinking: bool = True, without: tuple[str, ...] = ()
    ) -> None:
        self.backends, self.settings, self.shrinking, self.without = backends, settings, shrinking, without
        self.words: Counter[str] = Counter()
        self.refusals: list[str] = []
        self.smallest: Program | None = None

    def run(self, seed: int) -> str:
        program = generate(seed, self.settings)
        verdict = check(program, self.backends, order(program), self.without)
        self.words[verdict.word] += 1
        if verdict.word == "refused":
            self.refusals.append(re.sub(r"^<program \d+>:\d+: ", "", verdict.reason)[:110])
        return self.report(program, verdict) if verdict.word == "wrong" else ""

    def report(self, program: Program, verdict: Verdict) -> str:
        if self.shrinking:
            program = shrink(program, lambda p: alike(check(p, (verdict.backend,), verdict.order, self.without), verdict))
            verdict = check(program, (verdict.backend,), verdict.order, self.without)
        self.smallest = program
        options = ', backend="numpy"' if verdict.backend == "numpy" else ""
        options += f", without={self.without}" if self.without else ""
        gradient = "gradients of gradients of the results" if verdict.order > 1 else "gradients of the results"
        return (
            f"# program {program.seed}, {verdict.backend}, {len(program)} instructions; {gradient} are taken, too\n"
            f"# {verdict.reason[:600]}\n{script(program, options)}"
        )


def order(program: Program) -> int:
    return 2 if program.seed % 6 == 0 and not program.exact else 1


def alike(found: Verdict, wanted: Verdict) -> bool:
    """The same kind of failure: a shrunk program must not end at another one."""
    first, second = (v.reason.split(":")[0][:12].rstrip("0123456789") for v in (found, wanted))
    return found.word == "wrong" and first == second
