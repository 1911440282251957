"""What goes wrong in one history, and how often: each seed draws its own mix.

Uniform rates find nothing rare: in each history it storms somewhere else, in some nowhere, in some
everywhere (after TigerBeetle's swarm testing); most are short, a few are long. `calm` is the same
world after the last fault was healed.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ledger.log.simulated import LogFaults
from tests.simulation.catalogue import OPERATIONS, SETTLE_MS, SKEW_MS, TOGETHER
from tests.simulation.tables import FIRST, FIRST_GATED, FIRST_TOGETHER

PROCESSES: Final = (
    "processor_crash",
    "processor_pause",
    "processor_cut_off",
    "executor_crash",
    "executor_pause",
    "executor_declines",
    "inquirer_crash",
    "inquirer_pause",
    "door_crash",
    "projector_crash",
    "projector_pause",
)
PROVIDER: Final = (
    "refuses",
    "refuses_for_now",
    "fails_before",
    "fails_after",
    "drops_before",
    "drops_after",
    "slow",
    "commits_late",
    "connect_fails",
)
FINDING_OUT: Final = (
    "search_silent",
    "search_inconclusive",
    "webhook_lost",
    "webhook_twice",
    "webhook_early",
    "webhook_of_other_money",
    "webhook_of_other_account",
)
CALLERS: Final = ("repeats", "conflicts", "cancels", "stranger_reports")
PEOPLE: Final[Mapping[str, float]] = {
    "person_silent": 0.5,
    "person_denies": 0.3,
    "says_twice": 0.6,
    "withdraws": 0.5,
    "copies": 1.0,
    "outsiders": 0.8,
    "forgeries": 0.6,
    "transplants": 1.0,
    "asked_again": 1.0,
    "table_changes": 1.0,
    "revocations": 1.0,
    "facts_move": 0.6,
    "previews_fail": 0.7,
}
"""What people do, what is done to them, and what moves meanwhile: the largest share of each."""
ASKED: Final = 0.2
"""The part of histories in which somebody decides."""
HELD: Final = 0.06
"""The part of histories in which an operator keeps something from starting."""
PERFORMED: Final = 0.04
PERFORMED_AND_ASKED: Final = 0.15
"""The part of histories in which callers carry things out themselves; with people, and without."""
SETTLED: Final = 0.7
"""The part of histories with people in which they settle what needs one; there nobody else finds
out much.
"""
DESK: Final[Mapping[str, float]] = {
    "resolves": 1.0,
    "desk_outsiders": 0.3,
    "desk_forgeries": 0.3,
    "desk_transplants": 0.7,
    "desk_disagrees": 0.3,
    "desk_forgets": 1.0,
    "says_twice": 0.4,
}
UNCLEAR: Final[Mapping[str, float]] = {
    "drops_after": 0.6,
    "drops_before": 0.3,
    "connect_fails": 0.2,
    "webhook_lost": 0.9,
    "search_silent": 0.9,
}
GATED: Final = 0.15
"""The part of histories in which actions have to pass gates."""
GATES: Final[Mapping[str, float]] = {
    "message_lost": 0.6,
    "message_twice": 0.5,
    "message_late": 0.5,
    "cancels": 0.6,
    "crosses": 0.8,
    "looks_alike": 0.7,
    "occurs_again": 0.7,
    "reports_steps": 1.0,
    "table_changes": 0.7,
    "processor_crash": 0.05,
    "webhook_of_other_money": 0.4,
    "refuses": 0.4,
    "search_silent": 0.9,
}
"""What befalls messages to and from gates and what callers do that meet there: at most so often."""
SILENCED: Final = 0.01
"""The part of histories in which the provider goes silent and stays so, beyond every bound: what is
in doubt then comes to a person in time.
"""
SILENT: Final[Mapping[str, float]] = {"search_silent": 1.0, "webhook_lost": 1.0}
MISSED: Final = 0.015
"""The part of histories in which events of the stream of webhooks get lost behind the door."""
MISSING: Final[Mapping[str, float]] = {
    "webhook_skipped": 0.6,
    "committed_early": 0.1,
    "matcher_crash": 0.1,
    "webhook_unmarked": 1.0,
    "taken_back": 0.7,
    "drops_after": 0.5,
}
"""What befalls such events, and what makes them matter, at most so often."""
DAMAGED: Final = 0.1
"""The part of histories with a read model of which somebody edits rows, and they lie for a while
after everything else was healed.
"""
CROWDED: Final = 0.2
"""The part of histories with a read model in which there is little room for what waits for its
stream, so that inboxes are not read on.
"""
CROWDING: Final[Mapping[str, float]] = {"database_slow": 0.7, "database_away": 0.5}
IN_ORDER: Final = 0.07
"""The part of histories in which actions revise each other, undo each other, and are steps."""
OTHERS: Final[Mapping[str, float]] = {
    "refuses": 0.5,
    "refuses_for_now": 0.3,
    "drops_after": 0.5,
    "drops_before": 0.4,
    "commits_late": 0.4,
    "fails_after": 0.2,
    "connect_fails": 0.3,
    "webhook_lost": 1.0,
    "webhook_of_other_money": 0.2,
    "search_silent": 0.6,
    "taken_back": 0.5,
    "table_changes": 0.8,
    "withdrawals": 0.5,
    "person_denies": 0.3,
    "person_silent": 0.4,
    "withdraws": 0.4,
    "message_lost": 0.4,
    "message_twice": 0.3,
    "processor_crash": 0.05,
    "executor_pause": 0.1,
    "executor_declines": 0.2,
}
"""What befalls them: at most so often. Whatever else there was in the history stays away."""
FORESEEN: Final = 0.25
"""The part of those that are about what a provider foresees, and nothing else."""
AWAY: Final = ("forgets", "offers_replayed", "database_away", "database_slow")
ONCE: Final = ("poison", "withdrawals", "clock_steps", "made_anew", "rebuilds")
LOG: Final = ("lost", "unacknowledged", "late", "split")
MOST: Final[Mapping[tuple[str, ...], tuple[float, float]]] = {
    PROCESSES: (0.05, 0.25),
    PROVIDER: (0.2, 0.6),
    FINDING_OUT: (0.2, 0.5),
    CALLERS: (0.2, 0.5),
    AWAY: (0.2, 0.5),
    ONCE: (0.4, 1.0),
    LOG: (0.06, 0.35),
}
"""The largest shares by kind of fault: on a common day, and when it storms."""
THEMES: Final[tuple[tuple[Mapping[str, float], Mapping[str, Any]], ...]] = (
    # Contradictions about money, while nobody answers.
    (
        {
            "webhook_of_other_money": 0.7,
            "webhook_lost": 0.3,
            "search_silent": 0.4,
            "drops_after": 0.4,
            "drops_before": 0.4,
            "refuses_for_now": 0.2,
            "refuses": 0.2,
            "executor_pause": 0.15,
            "inquirer_pause": 0.4,
        },
        {"operations": ("charge", "payout"), "pause_ms": 4_000},
    ),
    # Holders that speak late.
    (
        {"executor_pause": 0.35, "webhook_lost": 1.0, "search_silent": 0.9, "connect_fails": 0.4},
        {"pause_ms": 4_000, "chaos_ms": 4_000},
    ),
    # A provider that ignores its keys, and one that is still busy with them.
    (
        {"drops_after": 0.5, "fails_after": 0.3, "commits_late": 0.4, "search_inconclusive": 0.5},
        {"operations": ("fee", "charge"), "chaos_ms": 4_000},
    ),
    # Callers that take back what providers do not want.
    (
        {
            "cancels": 0.8,
            "conflicts": 0.5,
            "refuses_for_now": 0.8,
            "connect_fails": 0.2,
            "webhook_of_other_money": 0.2,
        },
        {"operations": ("charge", "payout", "fee")},
    ),
    # The same once more, with nothing but that.
    (
        {
            "cancels": 0.8,
            "refuses_for_now": 0.8,
            "connect_fails": 0.2,
            "webhook_of_other_money": 0.3,
        },
        {"operations": ("charge", "payout", "fee")},
    ),
    # A database that answers late, while much goes on.
    (
        {
            "database_slow": 0.5,
            "processor_cut_off": 0.05,
            "refuses_for_now": 0.4,
            "connect_fails": 0.3,
            "cancels": 0.5,
        },
        {"held_max": 0, "projection_lag_ms": 10, "processors": 2},
    ),
    # Nobody who takes it on.
    (
        {"executor_declines": 0.97},
        {"executors": 9, "chaos_ms": 9_000, "actions": 1},
    ),
)
"""What comes together seldom by itself, and has states of its own; the last one half as often."""
THEMED: Final = 0.4
HALF: Final = 0.5
COMMON, STORMY = 0.2, 0.6
"""Which part of the faults of a kind there is, then and then."""


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
    held_max: int | None = None
    """Streams that a processor holds; None where it has no database and holds all."""
    waiting_max: int | None = None
    """How many inputs may wait for their stream; None where there is room for as many as come."""
    projectors: int = 1
    projection_lag_ms: int = 30
    operations: tuple[str, ...] = OPERATIONS
    table: str | None = None
    """The decision table that is published first; None where none ever is, and nobody decides."""
    performs: bool = False
    """Whether callers carry out what they ask for."""
    gated: bool = False
    """Whether actions have to pass gates: then they meet on few targets and in few runs."""
    together: bool = False
    """Whether actions belong together: they revise or undo each other, or are steps of a plan."""
    outlasts: Mapping[str, float] = field(default_factory=dict)
    """Faults that no healing ends, where the provider stays away."""
    missed: bool = False
    """Whether events of the stream of webhooks may get lost, and be swept up."""
    before_midnight_ms: int = 0
    """How long before a day of its ceilings ends the history begins."""
    actions: int = 2
    partitions: int = 1
    chaos_ms: int = 4_000

    def calm(self) -> "Weather":
        """No new fault: what is on its way still arrives."""
        shares, log = dict(self.outlasts), LogFaults(delay_ms=4)
        return replace(self, shares=shares, log=log, caches_errors=False)


def with_people(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories people who are asked, and an operator who holds."""
    if chance.random() < ASKED:
        weather = _asked(weather, chance)
    if chance.random() < HELD:
        weather = replace(weather, shares={**weather.shares, "holds": 1.0})
    if chance.random() < (PERFORMED_AND_ASKED if weather.table else PERFORMED):
        late = {"call_forgotten": chance.random() * HALF, "says_late": chance.random() * HALF}
        weather = replace(weather, shares={**weather.shares, **late}, performs=True)
    return weather


def with_desk(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories with people somebody who settles what needs one."""
    if weather.table is None or chance.random() >= SETTLED:
        return weather
    shares = {**weather.shares, **{fault: most * chance.random() for fault, most in DESK.items()}}
    if chance.random() < STORMY:
        shares |= UNCLEAR
        weather = replace(weather, chaos_ms=max(4_000, weather.chaos_ms))
    if chance.random() < HALF:
        # What was sent and is not declared any more, so that nothing finds out about it.
        shares |= {"withdrawals": 1.0, "drops_after": 0.7, "executor_declines": 0.0}
        weather = replace(weather, operations=(chance.choice((*OPERATIONS, "fee")),))
    shares["resolves"] = 1.0
    table = "auto" if chance.random() < HALF else weather.table
    return replace(weather, shares=shares, table=table)


def with_gates(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories gates: of targets, of runs and of days."""
    if chance.random() >= GATED:
        return weather
    shares, storms = dict(weather.shares), chance.random() < HALF
    for fault, most in GATES.items():
        if chance.random() < (STORMY if storms else 2 * COMMON):
            shares[fault] = max(shares.get(fault, 0.0), chance.random() * most)
    table = chance.choice(FIRST_GATED)
    if weather.table is not None and chance.random() < HALF:
        table = "all, asked"
    if chance.random() < SETTLED:
        shares |= {fault: most * chance.random() for fault, most in DESK.items()}
        shares["resolves"] = 1.0
        if chance.random() < HALF:
            shares |= UNCLEAR
    return replace(
        weather,
        shares=shares,
        table=table,
        gated=True,
        before_midnight_ms=chance.choice((0, 600, 2_000, 60_000)),
        operations=tuple(chance.sample(OPERATIONS, k=chance.randint(1, 3))),
        actions=chance.choice((2, 3, 3, 4, 5)),
        partitions=chance.choice((1, 2, 2, 3)),
        chaos_ms=max(4_000, weather.chaos_ms),
    )


def with_silence(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories a provider that never says anything again."""
    if chance.random() >= SILENCED or weather.gated or weather.together:
        return weather
    outlasts = {**SILENT, "drops_after": chance.random(), "drops_before": HALF * chance.random()}
    return replace(weather, shares={**weather.shares, **outlasts}, outlasts=outlasts)


def with_misses(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories a stream of webhooks that loses some."""
    if chance.random() >= MISSED or weather.gated or weather.together or weather.outlasts:
        return weather
    drawn = {fault: most * chance.random() for fault, most in MISSING.items()}
    shares = {**weather.shares, **drawn, "webhook_lost": 0.0}
    return replace(
        weather,
        shares=shares,
        missed=True,
        webhook_late_ms=chance.choice((50, 1_000)),
        actions=max(2, weather.actions),
        chaos_ms=max(4_000, weather.chaos_ms),
    )


def with_others(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories actions that belong together."""
    if chance.random() >= IN_ORDER:
        return weather
    stays = {*PROCESSES, *AWAY, *ONCE} - {"poison", "clock_steps", "made_anew"}
    shares = {fault: share / 2 for fault, share in weather.shares.items() if fault in stays}
    storms = chance.random() < HALF
    for fault, most in OTHERS.items():
        if chance.random() < (STORMY if storms else 2 * COMMON):
            shares[fault] = chance.random() * most
    if chance.random() < HALF:
        shares |= {"drops_after": 0.4, "webhook_lost": 0.8}
    if chance.random() < SETTLED:
        shares |= {fault: most * chance.random() for fault, most in DESK.items()}
        shares["resolves"] = 1.0
    return replace(
        weather,
        shares=shares,
        table=chance.choice(FIRST_TOGETHER),
        performs=False,
        gated=False,
        together=True,
        before_midnight_ms=0,
        operations=TOGETHER,
        actions=0,
        partitions=chance.choice((1, 2)),
        chaos_ms=chance.choice((4_000, 6_000, 9_000)),
    )


def with_damage(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories rows that somebody edited."""
    if weather.held_max is None or weather.outlasts or chance.random() >= DAMAGED:
        return weather
    # Several streams, so that there are others than the damaged one.
    shares = {**weather.shares, "rows_damaged": HALF * chance.random()}
    return replace(weather, shares=shares, actions=max(3, weather.actions), partitions=1)


def with_little_room(weather: Weather, chance: random.Random) -> Weather:
    """The same weather, and in some histories room for few inputs that wait for their stream."""
    if weather.held_max is None or weather.outlasts or chance.random() >= CROWDED:
        return weather
    drawn = {fault: most * chance.random() for fault, most in CROWDING.items()}
    return replace(
        weather,
        shares={**weather.shares, **drawn},
        waiting_max=chance.choice((1, 2, 3)),
        actions=max(3, weather.actions),
        chaos_ms=max(4_000, weather.chaos_ms),
    )


def _asked(weather: Weather, chance: random.Random) -> Weather:
    shares, storms = dict(weather.shares), chance.random() < HALF
    for fault, most in PEOPLE.items():
        if chance.random() < (STORMY if storms else COMMON):
            shares[fault] = chance.random() * most
    table = chance.choice(FIRST)
    if chance.random() < FORESEEN:
        # What a provider foresees, and what moves before it is acted on.
        shares |= {"facts_move": chance.random(), "cancels": 0.0, "executor_declines": 0.0}
        weather = replace(weather, operations=("payout",), chaos_ms=max(4_000, weather.chaos_ms))
    return replace(weather, shares=shares, table=table)


def draw(chance: random.Random) -> Weather:
    """The weather of one history, as far as no person is in it."""
    storms = chance.choice((0.1, 0.3, 0.5))
    shares: dict[str, float] = {}
    for kind, (usual, strong) in MOST.items():
        is_stormy = chance.random() < storms
        some, most = (STORMY, strong) if is_stormy else (COMMON, usual)
        for fault in kind:
            if chance.random() < some:
                shares[fault] = chance.random() * most
    if chance.random() < 0.3:
        shares["webhook_lost"] = 1.0
    log = LogFaults(
        delay_ms=chance.choice((2, 8, 40)),
        late_ms=chance.choice((100, 1_500)),
        patience_ms=chance.choice((200, 600)),
        clock_ms=chance.choice((0, 0, SKEW_MS // 2, SKEW_MS)),
        clock_changes=0.05,
        **{name: shares.pop(name, 0.0) for name in LOG},
    )
    sizes: Mapping[str, Any] = {}
    if chance.random() < THEMED:
        theme, sizes = THEMES[min(int(chance.random() * (len(THEMES) - HALF)), len(THEMES) - 1)]
        shares |= theme
    weather = Weather(
        log=log,
        shares=shares,
        processors=chance.choice((1, 1, 1, 2)),
        executors=chance.choice((1, 1, 1, 1, 2)),
        inquirers=chance.choice((1, 1, 1, 2)),
        pause_ms=chance.choice((200, 1_500, 4_000)),
        webhook_late_ms=chance.choice((50, 1_000, 6_000)),
        caches_errors=chance.random() < 0.2,
        held_max=chance.choice((None, None, None, None, 0, 1)),
        projectors=chance.choice((1, 1, 2)),
        projection_lag_ms=chance.choice((10, 100, 1_500)),
        operations=tuple(chance.sample(OPERATIONS, k=chance.randint(1, len(OPERATIONS)))),
        actions=chance.choice((1, 1, 1, 1, 1, 1, 2, 2, 2, 4)),
        partitions=chance.choice((1, 1, 1, 1, 2)),
        chaos_ms=chance.choice((1_500, 1_500, 1_500, 1_500, 4_000, 9_000)),
    )
    return replace(weather, **sizes)
