"""What goes wrong in one history, and how often: each seed draws its own mix.

Uniform rates find nothing rare: some histories are calm but for one fault, others are all fault
(after TigerBeetle's swarm testing). `calm` is the same world after the last fault was healed.
"""

import random
from dataclasses import dataclass, replace

from ledger.log.simulated import LogFaults
from tests.simulation.catalogue import OPERATIONS, SETTLE_MS, SKEW_MS

STRONG, WEAK = 0.35, 0.06


@dataclass(frozen=True, slots=True)
class Weather:
    """Shares of what they name, unless they end in `_ms`; counts where they are plain."""

    log: LogFaults
    # Processes
    processors: int
    executors: int
    inquirers: int
    processor_crash: float
    processor_pause: float
    processor_cut_off: float
    executor_crash: float
    executor_pause: float
    executor_declines: float
    inquirer_crash: float
    pause_ms: int
    # What the provider does to a request
    refuses: float
    refuses_for_now: float
    fails_before: float
    fails_after: float
    drops_before: float
    drops_after: float
    slow: float
    commits_late: float
    connect_fails: float
    late_ms: int
    # What it tells
    search_silent: float
    search_inconclusive: float
    webhook_lost: float
    webhook_twice: float
    webhook_early: float
    webhook_late_ms: int
    webhook_foreign: float
    # Callers
    repeats: float
    conflicts: float
    cancels: float
    poison: float
    withdrawals: float
    forgets: float
    # The whole
    operations: tuple[str, ...]
    actions: int
    partitions: int
    chaos_ms: int

    def calm(self) -> "Weather":
        """No new fault: what is on its way still arrives."""
        quiet = {
            name: 0.0 for name, kind in Weather.__annotations__.items() if kind in {float, "float"}
        }
        return replace(self, **quiet, log=LogFaults(delay_ms=4))  # type: ignore[arg-type]


def draw(chance: random.Random) -> Weather:
    """The weather of one history."""

    def share(strength: float = WEAK) -> float:
        """Mostly nothing, sometimes a little, now and then a lot."""
        kind = chance.random()
        if kind < 0.5:
            return 0.0
        return chance.uniform(0, strength if kind < 0.85 else STRONG)

    stormy = chance.random() < 0.7
    log = LogFaults(
        delay_ms=chance.choice((2, 8, 40)),
        lost=share() if stormy else 0.0,
        unacknowledged=share() if stormy else 0.0,
        late=share(),
        late_ms=chance.choice((100, 1_500)),
        split=share(0.3),
        patience_ms=chance.choice((200, 600)),
        clock_ms=chance.choice((0, 0, SKEW_MS // 2, SKEW_MS)),
        clock_changes=0.05,
    )
    return Weather(
        log=log,
        processors=chance.choice((1, 2, 2)),
        executors=chance.choice((1, 2)),
        inquirers=chance.choice((1, 1, 2)),
        processor_crash=share(0.03),
        processor_pause=share(0.03),
        processor_cut_off=share(0.03),
        executor_crash=share(),
        executor_pause=share(),
        executor_declines=share(),
        inquirer_crash=share(),
        pause_ms=chance.choice((200, 1_500, 4_000)),
        refuses=share(0.2),
        refuses_for_now=share(0.3),
        fails_before=share(0.2),
        fails_after=share(0.2),
        drops_before=share(0.2),
        drops_after=share(0.3),
        slow=share(0.2),
        commits_late=share(0.2),
        connect_fails=share(0.2),
        late_ms=SETTLE_MS,
        search_silent=share(0.2),
        search_inconclusive=share(0.2),
        webhook_lost=chance.choice((0.0, 0.3, 1.0)),
        webhook_twice=share(0.3),
        webhook_early=share(0.3),
        webhook_late_ms=chance.choice((50, 1_000, 6_000)),
        webhook_foreign=share(0.1),
        repeats=share(0.4),
        conflicts=share(0.2),
        cancels=share(0.2),
        poison=share(0.1),
        withdrawals=share(0.2),
        forgets=share(0.2),
        operations=tuple(chance.sample(OPERATIONS, k=chance.randint(1, len(OPERATIONS)))),
        actions=chance.randint(1, 4),
        partitions=chance.choice((1, 1, 2)),
        chaos_ms=chance.choice((1_500, 4_000, 9_000)),
    )
