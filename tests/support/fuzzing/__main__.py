"""Run many programs from the command line; what fails is shrunk and printed as a file that runs."""

from __future__ import annotations

import argparse
import collections
import secrets
import sys
import time

from fuzzing.campaign import Campaign
from symgrad.compiler.rewrite.pipeline import switches


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzzing", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="of the first program; the others follow. Drawn and printed, if it is not given")
    parser.add_argument("--backends", default="interpreter", help="some of interpreter,numpy,xla")
    parser.add_argument("--without", default="", help="rewrites that are switched off: names as in sg.compile(without=...), or all")
    parser.add_argument("--replay", type=int, help="the seed of one program")
    parser.add_argument("--failures", type=int, default=5, help="how many until it stops")
    parser.add_argument("--keep", action="store_true", help="print failures as they were made, not shrunk")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(10**9)
        print(f"seed {options.seed}", flush=True)
    seeds = range(options.seed, options.seed + options.programs) if options.replay is None else [options.replay]
    without = tuple(switches()) if options.without == "all" else tuple(filter(None, options.without.split(",")))
    campaign = Campaign(tuple(options.backends.split(",")), shrinking=not options.keep, without=without)
    began = time.process_time()
    for seed in seeds:
        failure = campaign.run(seed)
        if failure:
            print(failure, flush=True)
        if campaign.words["wrong"] >= options.failures:
            break
    print(dict(campaign.words), f"{time.process_time() - began:.1f} s")
    for reason, count in collections.Counter(campaign.refusals).most_common(12):
        print(f"{count:5} refused: {reason}")
    return 1 if campaign.words["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
