"""The cases, in the order in which one installation goes through them.

Guarantees that a case begins with everything before it projected, that the clock of a load stops
when its last event is visible in Postgres, and that the load generator counts for nothing but the
clock. Called by `benchmarks.run`.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from benchmarks import deciding, following, gating
from benchmarks.figures import Figures, latencies, per_s, rate
from benchmarks.installation import LOAD, PROCESSES, Installation
from benchmarks.load import Measured, Order
from benchmarks.usage import cpu_seconds, rss_mb
from benchmarks.webhooks import webhook


class Case(StrEnum):
    """What is measured."""

    SEQ = "seq"
    REPLAY = "replay"
    INFLIGHT_32 = "inflight_32"
    INFLIGHT_128 = "inflight_128"
    CPU = "cpu"
    INFLIGHT_512 = "inflight_512"
    MEMORY = "memory"
    LAG = "lag"
    RULED = "ruled"
    APPROVED = "approved"
    GATED = "gated"
    PROJECT = "project"
    REBUILD = "rebuild"
    WEBHOOK = "webhook"


IN_FLIGHT: Final = {Case.INFLIGHT_32: 32, Case.INFLIGHT_128: 128, Case.INFLIGHT_512: 512}
ALONGSIDE: Final = {
    Case.CPU: Case.INFLIGHT_128,
    Case.LAG: Case.INFLIGHT_128,
    Case.MEMORY: Case.INFLIGHT_512,
}
"""Cases that are measured during another, or with its figures; it then runs too."""

REPLAY_IN_FLIGHT: Final = 32
SETTLED: Final = 200
WARM_UP: Final = "warm-up"
"""A tenant whose actions all go ahead by themselves."""
WARM_UP_SECONDS_MAX: Final = 1.0
EVENTS_MIN: Final = 100_000
EVENTS_AN_ACTION_MIN: Final = 5
FILL_IN_FLIGHT: Final = 128
LAG_IN_FLIGHT: Final = 128
NO_LIMIT_SECONDS: Final = 600.0

Tell = Callable[[Case, Figures], None]
Say = Callable[[str], None]


async def measure(
    one: Installation, cases: frozenset[Case], seconds: float, tell: Tell, say: Say
) -> None:
    """Measure the cases; `tell` hears of each with its figures, `say` of what goes on."""
    say("warm-up")
    await _load(one, WARM_UP, REPLAY_IN_FLIGHT, min(seconds, WARM_UP_SECONDS_MAX))
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
            if Case.LAG in beside:
                say(Case.LAG)
                tell(Case.LAG, await _lag(one, figures, seconds))
    for case, of_case in OTHERS.items():
        if case in cases:
            say(case)
            tell(case, await of_case(one, seconds))


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
        "per_s": rate(together),
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
        "answered_per_s": rate(measured),
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


async def _lag(one: Installation, at_128: Figures, seconds: float) -> Figures:
    """How far the tables run behind the ledger, at half the rate that 128 callers reach."""
    per_second = at_128["per_s"]
    assert isinstance(per_second, float)
    order = Order(
        what="act", tenant="lag", in_flight=LAG_IN_FLIGHT, seconds=seconds, per_s=per_second / 2
    )
    async with following.watched(one) as lag:
        measured = await one.load.carry_out(order)
        await one.completed_visible(order.tenant, measured.n)
        await one.caught_up()
    return {**following.lags(lag), "at_per_s": rate(measured)}


async def _project(one: Installation, _seconds: float) -> Figures:
    await _fill(one)
    return await following.project(one)


async def _rebuild(one: Installation, _seconds: float) -> Figures:
    await _fill(one)
    return await following.rebuild_and_swap(one)


async def _fill(one: Installation) -> None:
    """As many events as a topic must hold."""
    missing = EVENTS_MIN - await one.database.fetchval(following.EVENTS)
    if missing > 0:
        actions = -(-missing // EVENTS_AN_ACTION_MIN)
        await _load(one, "fill", FILL_IN_FLIGHT, NO_LIMIT_SECONDS, actions)


OTHERS: Final = {
    Case.RULED: deciding.ruled,
    Case.APPROVED: deciding.approved,
    Case.GATED: gating.gated,
    Case.PROJECT: _project,
    Case.REBUILD: _rebuild,
    Case.WEBHOOK: webhook,
}
"""Cases that go on where the one before has left the installation."""


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
