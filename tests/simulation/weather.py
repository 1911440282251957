"""What goes wrong in one history, and how often: each seed draws its own mix.

Uniform rates find nothing rare: some histories are calm but for one or two faults, others are all
fault (after TigerBeetle's swarm testing); most are short, a few are long. `calm` is the same world
after the last fault was healed.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ledger.log.simulated import LogFaults
from tests.simulation.catalogue import OPERATIONS, SETTLE_MS, SKEW_MS

MOST: Final[Mapping[str, float]] = {
    # What processes do at their steps
    "processor_crash": 0.03,
    "processor_pause": 0.03,
    "processor_cut_off": 0.03,
    "executor_crash": 0.06,
    "executor_pause": 0.06,
    "executor_declines": 0.06,
    "inquirer_crash": 0.06,
    "inquirer_pause": 0.06,
    "door_crash": 0.06,
    "projector_crash": 0.1,
    # What the provider does to a request
    "refuses": 0.2,
    "refuses_for_now": 0.3,
    "fails_before": 0.2,
    "fails_after": 0.2,
    "drops_before": 0.2,
    "drops_after": 0.3,
    "slow": 0.2,
    "commits_late": 0.2,
    "connect_fails": 0.2,
    # What it tells
    "search_silent": 0.2,
    "search_inconclusive": 0.2,
    "webhook_lost": 0.3,
    "webhook_twice": 0.3,
    "webhook_early": 0.3,
    "webhook_of_other_money": 0.1,
    "webhook_of_other_account": 0.1,
    # What callers and strangers say
    "repeats": 0.4,
    "conflicts": 0.2,
    "cancels": 0.2,
    "poison": 0.1,
    "stranger_reports": 0.1,
    # What operators, brokers and their disks do
    "withdrawals": 0.2,
    "forgets": 0.2,
    "offers_replayed": 0.2,
    "clock_steps": 0.2,
    "made_anew": 0.05,
    "rebuilds": 0.3,
}
"""Every fault with the largest share of its occasions that is usual; a strong one goes beyond."""
STRONG: Final = 0.35
LOG_FAULTS: Final = ("lost", "unacknowledged", "late", "split")


@dataclass(frozen=True, slots=True)
class Weather:
    """Shares by fault, and the sizes of the world."""

    log: LogFaults
    shares: Mapping[str, float] = field(default_factory=dict)
    processors: int = 1
    executors: int = 1
    inquirers: int = 1
    pause_ms: int = 1_500
    late_ms: int = SETTLE_MS
    webhook_late_ms: int = 1_000
    caches_errors: bool = False
    operations: tuple[str, ...] = OPERATIONS
    actions: int = 2
    partitions: int = 1
    chaos_ms: int = 4_000

    def calm(self) -> "Weather":
        """No new fault: what is on its way still arrives."""
        return replace(self, shares={}, log=LogFaults(delay_ms=4), caches_errors=False)


def draw(chance: random.Random) -> Weather:
    """The weather of one history."""
    kind = chance.random()
    names = (*MOST, *LOG_FAULTS)
    if kind < 0.25:
        # Calm, but for very few faults, and those often.
        shares = {name: chance.uniform(0.1, STRONG) for name in chance.sample(names, k=2)}
    else:
        # One fault in five, or one in two; mostly a little, now and then a lot.
        some = 0.2 if kind < 0.7 else 0.5
        shares = {
            name: chance.random() * (MOST.get(name, 0.06) if chance.random() < 0.7 else STRONG)
            for name in names
            if chance.random() < some
        }
    if chance.random() < 0.3:
        shares["webhook_lost"] = 1.0
    log = LogFaults(
        delay_ms=chance.choice((2, 8, 40)),
        late_ms=chance.choice((100, 1_500)),
        patience_ms=chance.choice((200, 600)),
        clock_ms=chance.choice((0, 0, SKEW_MS // 2, SKEW_MS)),
        clock_changes=0.05,
        **{name: shares.pop(name, 0.0) for name in LOG_FAULTS},
    )
    return Weather(
        log=log,
        shares=shares,
        processors=chance.choice((1, 1, 2)),
        executors=chance.choice((1, 1, 2)),
        inquirers=chance.choice((1, 1, 1, 2)),
        pause_ms=chance.choice((200, 1_500, 4_000)),
        webhook_late_ms=chance.choice((50, 1_000, 6_000)),
        caches_errors=chance.random() < 0.2,
        operations=tuple(chance.sample(OPERATIONS, k=chance.randint(1, len(OPERATIONS)))),
        actions=chance.choice((1, 1, 1, 1, 2, 2, 2, 3, 3, 4)),
        partitions=chance.choice((1, 1, 1, 2)),
        chaos_ms=chance.choice((1_500, 1_500, 1_500, 4_000, 4_000, 9_000)),
    )
