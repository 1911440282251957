"""What the database tells of gates and of how actions hang together: it is what the ledger says, it
adds up, and it brings back what an owner has let go of.
"""

import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import asyncpg
import pytest
from pydantic_core import from_json

from ledger.core import inputs as i
from ledger.core.decide.schedule import due_at
from ledger.core.gates import SIDE_EFFECTS, STEPS, Gate, spend
from ledger.core.ids import GateKind, gate_key
from ledger.core.sagas import SagaStatus, saga_of
from ledger.core.state import Action, Status, Stream
from ledger.core.statement import Move
from projections.cold import ColdStore
from projections.projector import Projector
from projections.queries import Queries
from projections.query_rows import ALL
from tests import asking
from tests import examples as x
from tests.examples_of_sagas import plan, planned, step, under
from tests.ledgers import GENERATION, LedgerBuilder, MemoryLog, history
from tests.projecting import digest, project, projected
from tests.tree import ROOT
from tests.unit.core.crossing import A, B, Crossing, ceiling, passes

pytestmark = pytest.mark.servers

SEEDS = (101, 102, 103)
RUN = gate_key("acme", GateKind.RUN, "r1")
TARGET = gate_key("acme", GateKind.TARGET, "order:A-1842")


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


@pytest.fixture
def queries(pool: asyncpg.Pool) -> Queries:
    """Reads over the pool."""
    return Queries(pool)


def gates_of(builder: LedgerBuilder) -> dict[str, Gate]:
    """Every gate as the ledger has it."""
    found = {key: stream.gate for key, stream in builder.streams.items()}
    return {key: gate for key, gate in found.items() if gate is not None}


def met() -> Crossing:
    """Two actions of a run meet at a target: the first holds it, the second waits behind it."""
    world = Crossing(ceiling(side_effects=5) + passes("run", target=True))
    world.proposes(A, run="r1", batch="night")
    world.proposes(B, run="r1", batch="night")
    return world


# --- what the tables say -------------------------------------------------------------------------


async def test_what_of_a_run_waits_for_a_person_at_a_ceiling_is_told(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """Of the run and its tenant alone, and no longer than it waits."""
    world = Crossing(ceiling(side_effects=1) + passes("run"))
    for key in (A, B):
        world.proposes(key, run="r1")
    await project(pool, world.ledger)
    assert await queries.paused("acme", "r1") == ((B, "run"),)
    assert await queries.paused("acme", "r2") == ()
    assert await queries.paused("globex", "r1") == ()
    world.settles(B, Move.NO_EFFECT)
    await project(pool, world.ledger)
    assert await queries.paused("acme", "r1") == ()


@pytest.mark.parametrize("seed", SEEDS)
async def test_every_gate_stands_as_the_ledger_has_it(pool: asyncpg.Pool, seed: int) -> None:
    """Used, reserved, who holds, who waits, and when a grant is sent again."""
    builder = history(seed, partitions=2)
    await project(pool, builder)
    rows = {row["gate_key"]: row for row in await pool.fetch("select * from actionledger.gates")}
    gates = gates_of(builder)
    assert rows.keys() == gates.keys()
    for key, gate in gates.items():
        row, granted = rows[key], list(gate.granted)
        assert from_json(row["used"]) == gate.used
        reserved = Counter[str]()
        for one in granted:
            reserved.update(one.demand)
        assert from_json(row["reserved"]) == reserved
        assert (row["version"], row["granted"]) == (gate.version, len(granted))
        assert row["queued"] == len(list(gate.queue))
        holds = row["kind"] == GateKind.TARGET and granted
        assert row["holder"] == (granted[0].action if holds else None)


_USED = """
select gate_key, dimension, sum(amount)::bigint as amount
from (
    select gate_key, taken.key as dimension, taken.value::bigint as amount
    from actionledger_api_v1.gate_reservations, json_each_text(demand) as taken
    where spent
    union all
    select gate_key, taken.key, taken.value::bigint
    from actionledger_api_v1.gate_events, json_each_text(data -> 'amounts') as taken
    where type = 'step.reported'
) as every
group by gate_key, dimension
"""
_RESERVED = """
select gate_key, taken.key as dimension, sum(taken.value::bigint)::bigint as amount
from actionledger_api_v1.gate_reservations, json_each_text(demand) as taken
where status = 'granted'
group by gate_key, taken.key
"""


@pytest.mark.parametrize("seed", SEEDS)
async def test_what_gates_have_taken_adds_up(pool: asyncpg.Pool, seed: int) -> None:
    """Used is what was spent and reported, reserved what is granted and not closed: asked of the
    database alone, for every gate and dimension.
    """
    await project(pool, history(seed, steps=300, partitions=2))
    gates = await pool.fetch("select * from actionledger_api_v1.gates")
    for column, query in (("used", _USED), ("reserved", _RESERVED)):
        told = {
            (gate["gate_key"], dimension): amount
            for gate in gates
            for dimension, amount in from_json(gate[column]).items()
            if amount
        }
        summed = {tuple(row)[:2]: row["amount"] for row in await pool.fetch(query)}
        assert told
        assert told == {key: amount for key, amount in summed.items() if amount}


async def test_reservations_are_told_from_asking_to_the_end(pool: asyncpg.Pool) -> None:
    """Each with its number, when it was asked for, granted and closed, and whether it was spent."""
    world = met()
    world.completes(A, at=40)
    world.fails(B, at=70)
    await project(pool, world.ledger)
    rows = await pool.fetch(
        "select action_key, status, grant_number, spent, asked_at < granted_at as waited,"
        " granted_at < closed_at as held from actionledger_api_v1.gate_reservations"
        " where gate_key = $1 order by grant_number",
        TARGET,
    )
    assert [tuple(row) for row in rows] == [
        (A, "closed", 1, True, False, True),
        (B, "closed", 2, False, True, True),
    ]


async def test_tables_do_not_depend_on_batches(pool: asyncpg.Pool, database_url: str) -> None:
    """One record a batch or all in one, and over a restart in between: the same rows."""
    builder = history(104, steps=120, partitions=2)
    await project(pool, builder, batch_records=1)
    once = await digest(pool)
    await pool.execute("drop schema actionledger cascade; drop schema actionledger_api_v1 cascade")
    async with projected(database_url) as again:
        log = MemoryLog(builder.everything())
        ends = {place: end // 2 for place, end in builder.ends().items()}
        await Projector(log, again, [0, 1]).run_until(ends)
        await project(again, builder)
        assert await digest(again) == once


# --- what an owner reads back --------------------------------------------------------------------


def places(builder: LedgerBuilder) -> Iterator[tuple[int, str]]:
    """Every timer as the owner has it, before any allowance."""
    for key, stream in builder.streams.items():
        for action in stream.actions:
            when = due_at(action, action.updated_at, skew_ms=0)
            if when is not None:
                yield (when, key)
        if stream.gate is not None and stream.gate.due_at is not None:
            yield (stream.gate.due_at, key)


@pytest.mark.parametrize("seed", SEEDS)
async def test_timers_of_actions_and_gates_come_back_in_one_order(
    pool: asyncpg.Pool, seed: int
) -> None:
    """Page by page, each behind the last: every timer once, those of gates and of final actions
    that have yet to hear from one among them.
    """
    builder = history(seed, steps=150, events=12)
    await project(pool, builder)
    store, found, behind = ColdStore(pool), list[tuple[int, str]](), (0, "")
    while page := await store.due(0, behind, x.T0 + 10**9, 3):
        found += page
        behind = page[-1]
    # A stream may have several timers at one moment, and is loaded once.
    assert sorted(set(found)) == sorted(set(places(builder)))
    assert found == sorted(found)
    assert any("/run:" in key or "/target:" in key or "/window:" in key for _, key in found)


async def test_a_final_action_comes_back_until_its_gate_has_answered(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """What it gives back got lost: its stream is due although nothing else will happen to it."""
    world = met()
    world.hears(x.tick(RUN), at=6_000)
    assert any(one.kept for one in world.action(A).claims)
    world.holds_back = True
    world.completes(A, at=6_040)
    world.ledger.said.clear()
    await project(pool, world.ledger)
    action = await queries.action("acme", A)
    assert action is not None
    assert action.status == Status.COMPLETED
    assert action.next_due_at == due_at(world.action(A), world.now, skew_ms=0)
    assert action.next_due_at is not None
    due = await ColdStore(pool).due(0, (0, ""), action.next_due_at, 10)
    assert (action.next_due_at, x.STREAM) in due


@pytest.mark.parametrize(
    "damage",
    [
        "select 1",
        "update actionledger.streams set fold_version = 0, state = 'of another version'",
        "update actionledger.streams set state = state || ' '",
    ],
)
async def test_a_gate_comes_back_whole(pool: asyncpg.Pool, damage: str) -> None:
    """An owner that has let go of a gate loads it as it was; what another version of the program
    wrote is folded again from its facts.
    """
    builder = history(105, partitions=2)
    await project(pool, builder)
    await pool.execute(damage)
    keys: dict[int, list[str]] = {0: [], 1: []}
    for key in gates_of(builder):
        keys[builder.partition(key)].append(key)
    loaded = await ColdStore(pool).load(keys)
    held = {key: one.stream for cold in loaded.values() for key, one in cold.streams.items()}
    assert held == {key: builder.streams[key] for key in gates_of(builder)}


# --- what doors and analysts ask -----------------------------------------------------------------


async def test_a_run_shows_what_it_has_used(pool: asyncpg.Pool, queries: Queries) -> None:
    """What the ledger counts and what the agent said, of its own tenant only."""
    world = met()
    report = i.ReportStep(gate=RUN, principal="agent:billing", step=1, amounts={"tokens": 70})
    decision = world.hears(report)
    world.completes(A, at=40)
    await project(pool, world.ledger)
    (run,) = await queries.runs("acme")
    assert run == await queries.gate("acme", RUN)
    assert (run.kind, run.name, run.granted) == ("run", "r1", 1)
    assert run.used == {SIDE_EFFECTS: 1, spend("EUR"): 4_990, STEPS: 1, "tokens": 70}
    assert run.reserved == {SIDE_EFFECTS: 1, spend("EUR"): 4_990}
    assert run.taken(SIDE_EFFECTS) == 2
    assert [one.action_key for one in await queries.actions_of_run("acme", "r1")] == [A, B]
    assert await queries.runs("globex") == ()
    assert await queries.gate("globex", RUN) is None
    assert await queries.actions_of_run("globex", "r1") == ()
    (why,) = await queries.why_input("acme", "intents", 0, decision.cause.offset)
    assert (why.reason, why.action_key, why.details["amounts"]) == (
        "step.reported",
        None,
        {STEPS: 1, "tokens": 70},
    )
    (told,) = await pool.fetch("select * from actionledger_api_v1.runs")
    assert (told["run"], from_json(told["used"])) == ("r1", run.used)


async def test_what_waits_says_for_whom_and_since_when(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """Behind the holder of its target; or for the answer of a gate."""
    world = met()
    await project(pool, world.ledger)
    first, second = await queries.reservations("acme", TARGET)
    assert (first.action_key, first.status, first.grant_number) == (A, "granted", 1)
    assert (second.action_key, second.status, second.grant_number) == (B, "queued", None)
    action = await queries.action("acme", B)
    assert action is not None
    assert (action.status, action.blocked_reason, action.blocked_by) == ("blocked", "target", A)
    (waits,) = await pool.fetch("select * from actionledger_api_v1.blocked_actions")
    assert (waits["action_key"], waits["waits_for"]) == (B, A)
    assert waits["blocked_since"] is not None
    assert waits["blocked_version"] == action.blocked_version
    world.holds_back = True
    world.proposes("charge:v1:acme:renewal-3", run="r1")
    await project(pool, world.ledger)
    unanswered = await queries.action("acme", "charge:v1:acme:renewal-3")
    assert unanswered is not None
    assert (unanswered.blocked_reason, unanswered.blocked_by) == ("unanswered", RUN)


async def test_a_case_names_what_it_is_about(pool: asyncpg.Pool, queries: Queries) -> None:
    """The ceiling that was reached stands in the list of people's work."""
    world = Crossing(ceiling(side_effects=1) + passes("run"))
    world.proposes(A, run="r1")
    world.proposes(B, run="r1")
    await project(pool, world.ledger)
    (case,) = await queries.cases("acme")
    assert (case.action_key, case.reason, case.names) == (B, "ceiling_reached", "run")
    assert await pool.fetchval("select names from actionledger_api_v1.review_cases") == "run"


async def test_a_batch_is_counted(pool: asyncpg.Pool, queries: Queries) -> None:
    """How many of its actions stand where; nobody else's among them."""
    world = met()
    world.proposes("charge:v1:acme:renewal-4", run="r1", batch="morning", target="order:B-7")
    await project(pool, world.ledger)
    rows = await pool.fetch(
        "select batch, actions, in_progress, blocked, completed from actionledger_api_v1.batches"
        " order by batch desc"
    )
    assert [tuple(row) for row in rows] == [("night", 2, 1, 1, 0), ("morning", 1, 1, 0, 0)]
    assert [one.action_key for one in await queries.actions_of_batch("acme", "night")] == [A, B]


async def test_the_page_for_analysts_is_true(pool: asyncpg.Pool) -> None:
    """Every view is on it, every query of it runs, and budgets add up as it says."""
    page = (ROOT / "docs/ANALYSTS.md").read_text(encoding="utf-8")
    views = await pool.fetch("select viewname from pg_views where schemaname like '%_api_v1'")
    assert [row[0] for row in views if f"`{row[0]}`" not in page] == []
    await project(pool, history(106, steps=300, partitions=2))
    answers = [
        await pool.fetch(query)
        for block in re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
        for query in block.split(";")
        if query.strip()
    ]
    assert answers[0]
    assert answers[-1] == []


# --- sagas ---------------------------------------------------------------------------------------


def trips(seed: int, count: int) -> LedgerBuilder:
    """Plans that go every way: each is led through outcomes drawn by a seed."""
    chance = random.Random(seed)
    config = replace(under(), people=asking.people(asking.people_text()))
    builder = LedgerBuilder(config=config)
    for number in range(count):
        event = f"trip-{number}"
        items = [
            step(
                item,
                key=f"charge:v1:acme:{event}#{item}",
                request=x.request(x.CHARGE),
                compensation=planned(f"payout:v1:acme:{event}#{item}", **_PAYS),
            )
            for item in ("flight", "hotel", "car")
        ]
        builder.take(plan(*items, stream=f"acme/{event}", saga=f"saga-{number % 7}"))
        for _ in range(chance.randrange(40)):
            _leads_on(chance, builder, f"acme/{event}")
    return builder


_PAYS = {"operation": "payout"}
_OUTCOMES: tuple[i.ReportedOutcome, ...] = (
    *[x.success()] * 4,
    x.refusal("no", i.Retry.NEVER),
    x.no_answer(),
)


def _leads_on(chance: random.Random, builder: LedgerBuilder, key: str) -> None:
    """Something happens to one of the actions of a plan."""
    stream = builder.streams[key]
    running = [one for one in stream.actions if one.running is not None]
    cases = [one for one in stream.actions if one.case is not None]
    if running:
        action, attempt = running[0], running[0].attempts[-1]
        outcome = chance.choice(_OUTCOMES)
        report = x.report(
            outcome,
            key=action.key,
            attempt=attempt.number,
            token=attempt.fencing_token,
            holder=attempt.holder,
        )
        builder.take(report, later_ms=40)
    elif cases and chance.random() < 0.5:
        builder.take(_settled(chance, builder, cases[0]))
    else:
        builder.take(x.tick(key), later_ms=chance.choice((1, 1_000, 20_000)))


def _settled(chance: random.Random, builder: LedgerBuilder, action: Action) -> i.Decidable:
    at = builder.decided_at(x.STREAM)
    move = chance.choice((Move.EFFECT_EXISTS, Move.NO_EFFECT, Move.ACKNOWLEDGE, Move.TRY_AGAIN))
    said = asking.resolution(action, "ada", move, ledger=GENERATION, at=at)
    return asking.judged(asking.judge(said), builder.config.people, at=at, ledger=GENERATION)


def stand_of(stream: Stream) -> SagaStatus:
    """How the only plan of a business event stands."""
    (name,) = {one.saga.saga for one in stream.actions if one.saga is not None}
    saga = saga_of(stream, name)
    assert saga is not None
    return saga.status


async def test_a_saga_stands_as_the_ledger_has_it(pool: asyncpg.Pool, queries: Queries) -> None:
    """Whatever became of its steps, the view says of it what the ledger says."""
    builder = trips(1, 120)
    await project(pool, builder)
    expected = {key: stand_of(stream).value for key, stream in builder.streams.items()}
    rows = await pool.fetch("select * from actionledger_api_v1.sagas")
    assert {row["stream_key"]: row["status"] for row in rows} == expected
    assert set(expected.values()) == {status.value for status in SagaStatus}
    for row in rows:
        steps = from_json(row["step_statuses"])
        assert [one["step"] for one in steps] == [1, 2, 3]
        assert row["steps"] == len(steps)
    assert len(await queries.actions_of_saga(ALL, "saga-0")) == 6 * sum(
        number % 7 == 0 for number in range(120)
    )
