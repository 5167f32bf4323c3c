"""Print the score by kind, and with -v each formula beside the textbook's."""

from __future__ import annotations

import statistics
import sys

from tests.support.textbook import KINDS
from tests.support.textbook.score import Length, equal, length


def _report(kind: str, found: list[Length]) -> str:
    ratios = sorted(each.ratio for each in found)
    tail = ratios[int(0.9 * (len(ratios) - 1))]
    share = f"{equal(found)}/{len(found)} ({equal(found) / len(found):.0%})"
    return f"{kind:12} {share:14} textbook-equal, median length {statistics.median(ratios):.2f}x, 90th percentile {tail:.2f}x"


def main(*options: str) -> None:
    everything: list[Length] = []
    for kind, entries in KINDS.items():
        found = [length(entry) for entry in entries if not options or options[0] == "-v" or kind in options]
        if not found:
            continue
        everything += found
        print(_report(kind, found))
        for each in found if "-v" in options else ():
            mark = " " if each.equal else "!"
            print(f"  {mark} {each.ours:4} {each.textbook:4}  {each.entry.source}\n         {each.entry.textbook}")
            print("\n".join(f"           {line}" for line in str(each.entry.derivation).splitlines()))
    print(_report("all", everything))


if __name__ == "__main__":
    main(*sys.argv[1:])
