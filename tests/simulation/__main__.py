"""Simulated histories from the command line: `python -m tests.simulation --seed 17`.

Without a seed it lives many, from one drawn at random, and says from which; it fails when one
breaks a law, or when they do not come to every state often enough. With a seed it lives that one
and tells it step by step. A history that breaks a law is shrunk: its faults are left out one by
one, and the fewest that still break it are printed. Exit code 1 means that a law was broken.
With `--named` it says of the saboteurs whose named seed no longer shows them which one does.
"""

import argparse
import secrets
import sys
import time

from tests.simulation.history import Outcome
from tests.simulation.reached import RARE, REACHED, REACHED_MIN
from tests.simulation.runs import (
    Tally,
    first_that_shows,
    live,
    many,
    only,
    read,
    shows,
    shrink,
    told,
)
from tests.simulation.saboteurs import SABOTEURS

HISTORIES_DEFAULT = 200_000
WORKERS_DEFAULT = 2
SEEDS = 1_000_000_000


def main() -> int:
    """Run what was asked for."""
    asked = _arguments()
    if asked.named:
        return _named()
    if asked.seed is not None and asked.histories is None:
        faults = None if asked.faults is None else only(read(asked.faults))
        return _one(live(asked.seed, saboteur=asked.saboteur, only=faults, tracing=True), asked)
    first = secrets.randbelow(SEEDS) if asked.seed is None else asked.seed
    return _many(first, asked)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; alone, the only one, and told")
    parser.add_argument("--histories", type=int, help="how many seeds, one after the other")
    parser.add_argument("--workers", type=int, default=WORKERS_DEFAULT, help="processes at work")
    parser.add_argument("--faults", help='nothing but these, as "executor_crash#1 batch_late#4"')
    parser.add_argument("--saboteur", choices=sorted(SABOTEURS), help="break the product first")
    parser.add_argument("--named", action="store_true", help="try the seeds named for saboteurs")
    return parser.parse_args()


def _named() -> int:
    """Try the seed that is named for each saboteur, and find another where it shows nothing."""
    stale = [name for name, saboteur in SABOTEURS.items() if not shows(name, saboteur.seed)]
    for name in stale:
        _say(f"{name}: {SABOTEURS[name].seed} -> {first_that_shows(name)}")
    return 1 if stale else 0


def _one(outcome: Outcome, asked: argparse.Namespace) -> int:
    """Tell one history, and the smallest that breaks the same way."""
    for line in outcome.lines:
        _say(line)
    _say(f"seed {outcome.seed}: {outcome.records} records, {len(outcome.struck)} faults")
    _say(f"reached: {', '.join(sorted(outcome.reached))}")
    if outcome.broken is None:
        _say("every law holds")
        return 0
    _tell_broken(outcome, asked)
    return 1


def _tell_broken(outcome: Outcome, asked: argparse.Namespace) -> None:
    _say(f"seed {outcome.seed} breaks a law: {outcome.broken}")
    faults = shrink(outcome, asked.saboteur)
    saboteur = "" if asked.saboteur is None else f" SABOTEUR={asked.saboteur}"
    _say(f"smallest faults, {len(faults)} of {len(outcome.struck)}: {told(faults)}")
    _say(f"repeat it: make sim SEED={outcome.seed}{saboteur}")
    _say(f'the small one: make sim SEED={outcome.seed}{saboteur} FAULTS="{told(faults)}"')


def _many(first: int, asked: argparse.Namespace) -> int:
    """Live many until one breaks a law; count what they come to."""
    histories = asked.histories or HISTORIES_DEFAULT
    _say(f"seeds {first} to {first + histories - 1}")
    began = time.monotonic()

    def heard(sum_so_far: Tally) -> None:
        rate = sum_so_far.histories / (time.monotonic() - began)
        _say(f"\r{sum_so_far.histories} of {histories} histories, {rate:.0f} a second", end="")

    tally = many(first, histories, workers=asked.workers, saboteur=asked.saboteur, heard=heard)
    _say("")
    reached = sum(1 for state in REACHED if tally.reached[state])
    _say(
        f"{tally.histories} histories, {tally.cpu_s:.0f} s of CPU,"
        f" {1_000 * tally.cpu_s / tally.histories:.1f} ms each;"
        f" {time.monotonic() - began:.0f} s in all; {reached} of {len(REACHED)} states reached"
    )
    if tally.broken:
        seed, _ = tally.broken[0]
        _tell_broken(live(seed, saboteur=asked.saboteur), asked)
        return 1
    _say("every law holds")
    # In fewer histories than the standard says, each state is due as many times fewer.
    due = REACHED_MIN * histories // HISTORIES_DEFAULT
    dues = {state: due // 10 if state in RARE else due for state in REACHED}
    rare = {state: tally.reached[state] for state in REACHED if tally.reached[state] < dues[state]}
    for state, count in sorted(rare.items(), key=lambda one: one[1]):
        _say(f"too rarely reached, {count} times and not {dues[state]}: {state}")
    return 1 if rare else 0


def _say(line: str, end: str = "\n") -> None:
    sys.stdout.write(f"{line}{end}")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
