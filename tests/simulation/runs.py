"""Many histories, over several processes; and the way from a broken one to its smallest cause.

Called by the command line and by the tests. A seed is a history wherever it is lived.
"""

import gc
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from ledger.log.simulated import Struck
from tests.simulation.history import Outcome, run
from tests.simulation.saboteurs import SABOTEURS, sabotaged
from tests.simulation.world import Only

PIECE = 500
NICENESS = 10
"""Of the processes that live histories. Tests of servers run beside them and are waited for; these
wait for nothing, so they take what is left, and everything when the others are done.
"""
SHRINKING_RUNS_MAX = 600
SABOTAGED_MAX = 5_000
"""Far below the histories of every run: in so many seeds every saboteur is to be found."""


@dataclass(slots=True)
class Tally:
    """What came of some histories: those that broke a law, in how many a state was reached, and
    the CPU seconds of the processes that lived them.
    """

    histories: int = 0
    broken: list[tuple[int, str]] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 0.0

    def add(self, other: "Tally") -> None:
        """Count others' histories as well."""
        self.histories += other.histories
        self.broken += other.broken
        self.reached += other.reached
        self.cpu_s += other.cpu_s


def live(
    seed: int, *, saboteur: str | None = None, only: Only | None = None, tracing: bool = False
) -> Outcome:
    """One history, with a saboteur at work if one is named."""
    with _uncollected(), nullcontext() if saboteur is None else sabotaged(saboteur):
        return run(seed, only=only, tracing=tracing)


@contextmanager
def _uncollected() -> Iterator[None]:
    """A history lets go of itself when it is over; searching for cycles meanwhile finds next to
    nothing and takes a fifth of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def piece(first: int, count: int, saboteur: str | None = None) -> Tally:
    """Some histories one after the other, as far as none breaks a law."""
    tally, began = Tally(), time.process_time()
    gc.collect()
    gc.freeze()  # what is there by now stays, and is not looked through again
    with _uncollected():
        for seed in range(first, first + count):
            outcome = live(seed, saboteur=saboteur)
            tally.histories += 1
            tally.reached.update(outcome.reached.keys())
            if outcome.broken:
                tally.broken.append((seed, outcome.broken))
                break
    tally.cpu_s = time.process_time() - began
    return tally


def many(
    first: int,
    histories: int,
    *,
    workers: int,
    saboteur: str | None = None,
    heard: Callable[[Tally], None] = lambda _tally: None,
) -> Tally:
    """So many histories in so many processes, until one breaks a law. `heard` is told the sum after
    every piece.
    """
    whole = Tally()
    spawned = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, spawned, initializer=os.nice, initargs=(NICENESS,)) as pool:
        begins = range(first, first + histories, PIECE)
        ends = (min(PIECE, first + histories - begin) for begin in begins)
        for tally in pool.map(piece, begins, ends, [saboteur] * len(begins)):
            whole.add(tally)
            heard(whole)
            if whole.broken:
                pool.shutdown(cancel_futures=True)
                break
    return whole


# Saboteurs


def shows(saboteur: str, seed: int) -> bool:
    """Whether a seed breaks a law with a saboteur at work, and none without."""
    broken = live(seed, saboteur=saboteur).broken
    return SABOTEURS[saboteur].is_noticed(broken) and live(seed).broken is None


def first_that_shows(saboteur: str) -> int | None:
    """The first seed in which a saboteur is caught, or None."""
    return next((seed for seed in range(SABOTAGED_MAX) if shows(saboteur, seed)), None)


# Shrinking


def only(struck: Iterable[Struck]) -> Only:
    """Faults as a history takes them: nothing but these happens."""
    occasions: dict[str, set[int]] = {}
    for fault, occasion in struck:
        occasions.setdefault(fault, set()).add(occasion)
    return {fault: frozenset(some) for fault, some in occasions.items()}


def told(struck: Iterable[Struck]) -> str:
    """Faults in words that `read` understands."""
    return " ".join(f"{fault}#{occasion}" for fault, occasion in struck)


def read(words: str) -> list[Struck]:
    """Faults from words. Raises ValueError."""
    pairs = (word.split("#") for word in words.split())
    return [(fault, int(occasion)) for fault, occasion in pairs]


def shrink(outcome: Outcome, saboteur: str | None = None) -> list[Struck]:
    """The fewest faults with which the seed of a broken history still breaks a law: left out kind
    by kind, then one by one, as often as that helps.
    """
    kept = list(outcome.struck)
    runs = 0

    def breaks_without(some: set[Struck]) -> bool:
        nonlocal runs
        runs += 1
        rest = only(one for one in kept if one not in some)
        again = live(outcome.seed, saboteur=saboteur, only=rest)
        return again.broken is not None and runs < SHRINKING_RUNS_MAX

    before = -1
    while before != len(kept) and runs < SHRINKING_RUNS_MAX:
        before = len(kept)
        kinds = [{one for one in kept if one[0] == kind} for kind in dict(kept)]
        singles = [{one} for one in reversed(kept)]
        for some in (*sorted(kinds, key=len, reverse=True), *singles):
            if some <= set(kept) and breaks_without(some):
                kept = [one for one in kept if one not in some]
    return kept
