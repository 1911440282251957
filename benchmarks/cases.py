"""The cases, in the order in which one installation goes through them.

Guarantees that a case begins with everything before it projected, that the clock of a load stops
when its last event is visible in Postgres, and that the load generator counts for nothing but the
clock. Called by `benchmarks.run`.
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from benchmarks.installation import LOAD, PROCESSES, Installation
from benchmarks.load import Measured, Order
from benchmarks.usage import cpu_seconds, rss_mb
from gateway.wiring.names import Process


class Case(StrEnum):
    """What is measured."""

    SEQ = "seq"
    REPLAY = "replay"
    INFLIGHT_32 = "inflight_32"
    INFLIGHT_128 = "inflight_128"
    CPU = "cpu"
    INFLIGHT_512 = "inflight_512"
    MEMORY = "memory"
    PROJECT = "project"


IN_FLIGHT: Final = {Case.INFLIGHT_32: 32, Case.INFLIGHT_128: 128, Case.INFLIGHT_512: 512}
ALONGSIDE: Final = {Case.CPU: Case.INFLIGHT_128, Case.MEMORY: Case.INFLIGHT_512}
"""Cases that are measured during another, which then runs too."""

REPLAY_IN_FLIGHT: Final = 32
SETTLED: Final = 200
WARM_UP_SECONDS: Final = 1.0
EVENTS_MIN: Final = 100_000
EVENTS_AN_ACTION_MIN: Final = 5
FILL_IN_FLIGHT: Final = 128
NO_LIMIT_SECONDS: Final = 600.0

Figures = Mapping[str, object]
Tell = Callable[[Case, Figures], None]
Say = Callable[[str], None]


async def measure(
    one: Installation, cases: frozenset[Case], seconds: float, tell: Tell, say: Say
) -> None:
    """Measure the cases; `tell` hears of each with its figures, `say` of what goes on."""
    say("warm-up")
    await _load(one, "warm-up", REPLAY_IN_FLIGHT, WARM_UP_SECONDS)
    if Case.SEQ in cases:
        say(Case.SEQ)
        tell(Case.SEQ, latencies(await _load(one, "seq", 1, seconds)))
    if Case.REPLAY in cases:
        say(Case.REPLAY)
        tell(Case.REPLAY, await _replay(one, seconds))
    for case, in_flight in IN_FLIGHT.items():
        beside = {also for also, during in ALONGSIDE.items() if during is case} & cases
        if case in cases or beside:
            say(case)
            figures, cpu = await _in_flight(one, case, in_flight, seconds)
            if case in cases:
                tell(case, figures)
            if Case.CPU in beside:
                tell(Case.CPU, cpu)
            if Case.MEMORY in beside:
                tell(Case.MEMORY, memory(one))
    if Case.PROJECT in cases:
        say(Case.PROJECT)
        tell(Case.PROJECT, await _project(one))


async def _load(
    one: Installation, tenant: str, in_flight: int, seconds: float, actions: int | None = None
) -> Measured:
    """New actions of a tenant, and then everything projected."""
    order = Order(what="act", tenant=tenant, in_flight=in_flight, seconds=seconds)
    if actions is not None:
        order = order.model_copy(update={"actions": actions})
    measured = await one.load.carry_out(order)
    await one.completed_visible(tenant, measured.n)
    await one.caught_up()
    return measured


async def _replay(one: Installation, seconds: float) -> Figures:
    """The same requests again, for actions that are settled: by one caller, then by many."""
    settled = Order(what="repeat", tenant="settled", in_flight=1, seconds=seconds, actions=SETTLED)
    await _load(one, settled.tenant, 8, NO_LIMIT_SECONDS, SETTLED)
    alone = await one.load.carry_out(settled)
    together = await one.load.carry_out(settled.model_copy(update={"in_flight": REPLAY_IN_FLIGHT}))
    await one.caught_up()
    return {
        "n": alone.n,
        "p50_ms": alone.p50_ms,
        "p99_ms": alone.p99_ms,
        "per_s": per_s(together.n, together.ended_s - together.began_s),
    }


async def _in_flight(
    one: Installation, case: Case, in_flight: int, seconds: float
) -> tuple[Figures, Figures]:
    """So many callers; figures of the case, and what an action took of each processor."""
    programs = {**_programs(one), LOAD: one.load.pid}
    before = {name: cpu_seconds(pid) for name, pid in programs.items()}
    order = Order(what="act", tenant=case.value, in_flight=in_flight, seconds=seconds)
    measured = await one.load.carry_out(order)
    visible_s = await one.completed_visible(order.tenant, measured.n)
    used_us = {
        name: round((cpu_seconds(pid) - before[name]) / measured.n * 1e6)
        for name, pid in programs.items()
    }
    await one.caught_up()
    figures = {
        **latencies(measured),
        "per_s": per_s(measured.n, visible_s - measured.began_s),
        "answered_per_s": per_s(measured.n, measured.ended_s - measured.began_s),
    }
    own = {process.value: used_us[process.value] for process in PROCESSES}
    cpu = {
        "n": measured.n,
        "system_us": sum(own.values()),
        "broker_us": used_us["broker"],
        "postgres_us": used_us["postgres"],
        **{f"{name}_us": used for name, used in own.items()},
        "load_us": used_us[LOAD],
    }
    return figures, cpu


async def _project(one: Installation) -> Figures:
    """One projector, from empty tables to everything that the topic holds.

    The clock begins when it follows the log, so that starting an interpreter is not in it.
    """
    query = "select count(*) from actionledger.action_events"
    missing = EVENTS_MIN - await one.database.fetchval(query)
    if missing > 0:
        actions = -(-missing // EVENTS_AN_ACTION_MIN)
        await _load(one, "fill", FILL_IN_FLIGHT, NO_LIMIT_SECONDS, actions)
    projector = one.workers[Process.PROJECTOR]
    await projector.stop()
    await one.empty_tables()
    await projector.start()
    await projector.wait_ready()
    ended_s = await one.caught_up()
    events = await one.database.fetchval(query)
    assert events >= EVENTS_MIN, events
    return {"n": events, "per_s": per_s(events, ended_s - projector.ready_s)}


def memory(one: Installation) -> Figures:
    """Resident memory by process; broker and Postgres beside them."""
    used = {name: rss_mb(pid) for name, pid in _programs(one).items()}
    return {
        "rss_mb": {process.value: used[process.value] for process in PROCESSES},
        "broker_mb": used["broker"],
        "postgres_mb": used["postgres"],
    }


def _programs(one: Installation) -> dict[str, int]:
    """Every process that is part of what is measured, by its first pid."""
    one.check_running()
    found = {"postgres": one.place.postgres_pid}
    for name, program in [("broker", one.kafka), *one.workers.items()]:
        assert program.identity is not None
        found[str(name)] = program.identity.pid
    return found


def latencies(measured: Measured) -> Figures:
    """What callers waited."""
    return {
        "n": measured.n,
        "p50_ms": measured.p50_ms,
        "p99_ms": measured.p99_ms,
        "max_ms": measured.max_ms,
    }


def per_s(count: int, seconds: float) -> float:
    """A rate with one decimal."""
    return round(count / seconds, 1)
