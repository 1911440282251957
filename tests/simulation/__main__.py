"""Simulated histories from the command line: `python -m tests.simulation --seed 17 --trace`.

Without a seed it goes on from one drawn at random, and says from which. Exit code 1 means that a
law was broken; the seed that broke it is printed and repeats it.
"""

import argparse
import secrets
import sys
import time

from tests.simulation.history import Outcome, run
from tests.simulation.saboteurs import SABOTEURS, sabotaged

HISTORIES_DEFAULT = 2_000
PROGRESS_EVERY = 100
SEEDS = 1_000_000_000


def main() -> int:
    """Run what was asked for."""
    asked = _arguments()
    if asked.seed is not None and asked.histories is None:
        return _one(run_under(asked.seed, asked.saboteur, tracing=asked.trace))
    first = secrets.randbelow(SEEDS) if asked.seed is None else asked.seed
    return _many(first, asked.histories or HISTORIES_DEFAULT, asked.saboteur)


def run_under(seed: int, saboteur: str | None, *, tracing: bool = False) -> Outcome:
    """The history of a seed, with a saboteur at work if one is named."""
    if saboteur is None:
        return run(seed, tracing=tracing)
    with sabotaged(saboteur):
        return run(seed, tracing=tracing)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; alone, the only one")
    parser.add_argument("--histories", type=int, help="how many seeds, one after the other")
    parser.add_argument("--trace", action="store_true", help="tell what happens, step by step")
    parser.add_argument("--saboteur", choices=sorted(SABOTEURS), help="break the product first")
    return parser.parse_args()


def _one(outcome: Outcome) -> int:
    """Tell one history."""
    for line in outcome.lines:
        _say(line)
    _say(f"seed {outcome.seed}: {outcome.records} records, digest {outcome.digest[:16]}")
    _say(f"reached: {', '.join(sorted(outcome.reached))}")
    _say(outcome.broken or "every law holds")
    return 1 if outcome.broken else 0


def _many(first: int, histories: int, saboteur: str | None) -> int:
    """Run seeds until one breaks a law."""
    _say(f"seeds {first} to {first + histories - 1}")
    began = time.monotonic()
    for count, seed in enumerate(range(first, first + histories), start=1):
        outcome = run_under(seed, saboteur)
        if outcome.broken:
            _say(f"\nseed {seed} breaks a law after {count} histories: {outcome.broken}")
            _say(f"repeat it: make sim SEED={seed}")
            return 1
        if count % PROGRESS_EVERY == 0 or count == histories:
            rate = count / (time.monotonic() - began)
            sys.stdout.write(f"\r{count} of {histories} histories, {rate:.0f} a second")
            sys.stdout.flush()
    _say("\nevery law holds")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
