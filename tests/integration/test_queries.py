"""Reads of the projections on a real Postgres: for one tenant, in order, with their causes."""

from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest

from ledger.core import inputs as i
from ledger.core.ids import event_id, stream_key_of
from ledger.core.state import Stream
from ledger.core.statement import Move
from projections.cold import ColdStore
from projections.limits import ROWS_READ_MAX
from projections.queries import Queries, lag
from projections.query_rows import ALL, CauseRow
from projections.states import load_streams
from tests import examples as x
from tests import examples_of_people as people
from tests.ledgers import LedgerBuilder, history
from tests.projecting import project, projected
from tests.unit.core.test_caller import config

pytestmark = pytest.mark.servers


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


@pytest.fixture
def queries(pool: asyncpg.Pool) -> Queries:
    """Reads over the pool."""
    return Queries(pool)


def story() -> LedgerBuilder:
    """A charge asked for twice, then for another amount, unknown, and settled by a webhook."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.propose())
    builder.take(x.propose(request=x.request(money=x.EUR_499)))
    builder.take(x.report(x.no_answer()), later_ms=4_000)
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None), later_ms=1_000)
    return builder


async def test_an_action_is_found_by_its_key(pool: asyncpg.Pool, queries: Queries) -> None:
    """Its tenant sees it with times in milliseconds, another tenant sees nothing."""
    await project(pool, story())
    action = await queries.action("acme", x.CHARGE)
    assert action is not None
    assert (action.status, action.proof, action.provider_reference) == (
        "completed",
        "webhook",
        x.REFERENCE,
    )
    assert (action.created_at, action.updated_at) == (x.T0, x.T0 + 5_000)
    assert (action.attempts, action.holder, action.next_due_at) == (1, None, None)
    assert await queries.action("globex", x.CHARGE) is None
    assert await queries.action(ALL, x.CHARGE) == action
    assert await queries.action("acme", x.PAYOUT) is None


async def test_an_action_says_that_its_caller_carries_it_out(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """Else who reads it waits for what begins with their own next call only."""
    builder = LedgerBuilder(config=config())
    builder.take(x.propose())
    builder.take(x.propose(x.PAYOUT, caller=i.CallerOffer(nonce="n" * 16, valid_ms=1_000)))
    await project(pool, builder)
    told = [await queries.action("acme", key) for key in (x.CHARGE, x.PAYOUT)]
    assert [one and one.performer for one in told] == [None, "caller"]


async def test_a_result_is_the_providers_json(pool: asyncpg.Pool, queries: Queries) -> None:
    """What the provider answered comes back as the value it was."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.success()))
    await project(pool, builder)
    action = await queries.action("acme", x.CHARGE)
    assert action is not None
    assert action.result == {"paid": True}


async def test_a_timeline_is_in_order_and_can_go_on(pool: asyncpg.Pool, queries: Queries) -> None:
    """Facts come by version, with their data and cause; a reader goes on behind what it has."""
    await project(pool, story())
    events = await queries.timeline("acme", x.CHARGE)
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert events[0].type == "intent.recorded"
    assert events[0].data["request"]["money"] == {"minor": 4_990, "currency": "EUR"}
    assert events[0].cause == CauseRow("intents", 0, 1)
    assert events[-1].type == "action.completed"
    later = await queries.timeline("acme", x.CHARGE, after_version=3, limit=1)
    assert later == events[3:4]
    assert await queries.timeline("globex", x.CHARGE) == ()


async def test_attempts_are_told(pool: asyncpg.Pool, queries: Queries) -> None:
    """Each try with its holder and what became of it."""
    await project(pool, story())
    (attempt,) = await queries.attempts("acme", x.CHARGE)
    assert (attempt.number, attempt.status, attempt.holder) == (1, "settled", x.HOLDER)
    assert (attempt.started_at, attempt.ended_at) == (x.T0, x.T0 + 5_000)
    assert await queries.attempts("globex", x.CHARGE) == ()


async def test_why_tells_what_an_input_became(pool: asyncpg.Pool, queries: Queries) -> None:
    """An accepted input is its facts, a refused one its refusal, an unknown place nothing."""
    await project(pool, story())
    accepted = await queries.why_input("acme", "intents", 0, 1)
    assert [one.reason for one in accepted] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
    ]
    (repeated,) = await queries.why_input("acme", "intents", 0, 2)
    assert (repeated.outcome, repeated.reason) == ("unchanged", "replayed")
    (refused,) = await queries.why_input("acme", "intents", 0, 3)
    assert (refused.outcome, refused.reason) == ("refused", "conflicted")
    assert refused.action_key == x.CHARGE
    assert refused.details["details"][0]["path"] == "/money/minor"
    assert await queries.why_input("acme", "intents", 0, 4) == ()
    assert await queries.why_input("globex", "intents", 0, 1) == ()
    assert len(await queries.why_input(ALL, "intents", 0, 1)) == 3


async def test_why_tells_everything_about_an_action(pool: asyncpg.Pool, queries: Queries) -> None:
    """Facts and refusals of one key stand together, in the order of the log."""
    await project(pool, story())
    told = await queries.why_action("acme", x.CHARGE)
    assert [one.outcome for one in told] == [
        *["facts"] * 3,
        "unchanged",
        "refused",
        *["facts"] * 4,
    ]
    assert told[-1].cause.topic == "evidence"
    assert [one.ledger_offset for one in told] == sorted(one.ledger_offset for one in told)
    assert await queries.why_action("globex", x.CHARGE) == ()


async def test_why_knows_what_a_tick_said(pool: asyncpg.Pool, queries: Queries) -> None:
    """An input that lives no longer is told by its copy."""
    builder = LedgerBuilder()
    builder.take(x.propose(), executor=None)
    builder.take(x.tick(), executor=None)
    await project(pool, builder)
    (tick,) = await queries.why_input("acme", "internal", 0, 0)
    assert tick.cause.copied == f"tick due {x.T0}"


async def test_unknowns_are_listed_with_their_next_step(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """An uncertain action says since when, and when it is asked about."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()), later_ms=4_000)
    await project(pool, builder)
    (unknown,) = await queries.unknowns("acme")
    assert (unknown.action_key, unknown.unknown_since) == (x.CHARGE, x.T0 + 4_000)
    assert unknown.next_due_at == x.T0 + 4_000 + x.LOOKUPS[0]
    assert (unknown.next_step, unknown.evidence, unknown.evidence_count) == ("lookup", (), 0)
    (started,) = [
        one for one in await queries.timeline("acme", x.CHARGE) if one.type == "attempt.started"
    ]
    assert unknown.key_used_at == started.decided_at
    assert unknown.key_until == started.data["key_expires_at"] > started.decided_at
    assert await queries.unknowns("globex") == ()
    assert await queries.unknowns(["acme", "globex"]) == (unknown,)
    assert await queries.unknowns(ALL) == (unknown,)
    assert await queries.unknowns(ALL, limit=0) == ()


async def test_an_unknown_says_what_was_found_so_far(pool: asyncpg.Pool, queries: Queries) -> None:
    """While the provider is asked it says so; what came of it stands there, the oldest first, and
    of much evidence the newest.
    """
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()))
    builder.take(x.tick(), later_ms=x.LOOKUPS[0] + 1)
    await project(pool, builder)
    (asked,) = await queries.unknowns("acme")
    assert (asked.next_step, asked.evidence) == ("asked", ())
    found = x.found_out(i.Meaning.INCONCLUSIVE, lookup=1, source="lookup:1")
    builder.take(found.model_copy(update={"code": "http_503"}))
    for number in range(10):
        builder.take(x.found_out(i.Meaning.PENDING, lookup=None, source=f"webhook:{number}"))
    await project(pool, builder)
    (unknown,) = await queries.unknowns("acme")
    assert unknown.next_step == "retry", "what was not answered is asked again under the key"
    assert unknown.evidence_count == 11
    assert [(one.kind, one.meaning) for one in unknown.evidence] == [("webhook", "pending")] * 8


async def test_unknowns_are_counted_by_provider_and_age(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """Each is counted once, under the smallest age that it is below."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()))
    await project(pool, builder)
    (unknown,) = await queries.unknowns("acme")
    assert unknown.unknown_since is not None
    ages = {}
    for later_ms in (0, 60_000, 3_599_999, 3_600_000, 90_000_000):
        now_ms = unknown.unknown_since + later_ms
        (found,) = await queries.unknown_ages(("*",), now_ms=now_ms)
        assert (found.provider, found.actions) == (unknown.provider, 1)
        ages[later_ms] = found.below
    assert list(ages.values()) == ["1m", "10m", "1h", "6h", "older"]
    assert await queries.unknown_ages("globex", now_ms=0) == ()


async def test_cases_for_people_are_listed(pool: asyncpg.Pool, queries: Queries) -> None:
    """What needs a person is there until it is settled; an alarm stays."""
    builder = LedgerBuilder()
    builder.take(x.propose(x.EMAIL))
    builder.take(x.report(x.no_answer(), key=x.EMAIL))
    builder.take(x.propose())
    builder.take(x.report(x.success()), later_ms=1)
    builder.take(x.found_out(i.Meaning.EFFECT, lookup=None, reference="ch_2"), later_ms=1)
    await project(pool, builder)
    cases = await queries.cases("acme")
    assert [(case.action_key, case.kind, case.reason) for case in cases] == [
        (x.EMAIL, "review", "no_way_to_find_out"),
        (x.CHARGE, "alarm", "second_effect"),
    ]
    assert await queries.cases("globex") == ()
    builder.take(x.found_out(i.Meaning.EFFECT, key=x.EMAIL, lookup=None, reference="m_1"))
    await project(pool, builder)
    assert [case.kind for case in await queries.cases("acme")] == ["alarm"]


async def test_a_settled_case_is_listed_no_more_and_says_by_whom(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """What a person signed ends a case and an alarm, and stands beside both for analysts."""
    builder = LedgerBuilder(
        generation=people.GENERATION, config=replace(x.CONFIG, people=people.PEOPLE)
    )
    builder.take(x.propose(x.EMAIL))
    opened = builder.take(x.report(x.no_answer(), key=x.EMAIL)).facts[-1]
    builder.take(x.propose())
    builder.take(x.report(x.success()))
    alarm = builder.take(x.found_out(i.Meaning.EFFECT, lookup=None, reference="ch_2")).facts[-1]
    await project(pool, builder)
    assert len(await queries.cases("acme")) == 2
    sheet = await queries.case_sheet("acme", x.EMAIL)
    assert sheet is not None
    assert sheet.action == builder.streams[stream_key_of(x.EMAIL)].action(x.EMAIL)
    assert sheet.events[-1].type == "review.opened"
    assert sheet.is_whole
    assert await queries.case_sheet("globex", x.EMAIL) is None
    for move, fact in ((Move.EFFECT_EXISTS, opened), (Move.ACKNOWLEDGE, alarm)):
        said = people.resolution(move, case=fact.version, key=fact.action)
        decision = builder.take(people.judged(said))
        assert decision.refused is None, decision.refused
    await project(pool, builder)
    assert await queries.cases("acme") == ()
    (settled,) = await queries.resolutions("acme", x.EMAIL)
    assert (settled.move, settled.person, settled.reference) == (
        "effect_exists",
        "ada",
        "ch_person",
    )
    assert await queries.resolutions("globex", x.EMAIL) == ()
    rows = await pool.fetch(
        "select kind, is_open, move, person from actionledger_api_v1.review_cases order by kind"
    )
    assert [tuple(row) for row in rows] == [
        ("alarm", False, "acknowledge", "ada"),
        ("review", False, "effect_exists", "ada"),
    ]


async def test_actions_are_found_by_the_providers_name(
    pool: asyncpg.Pool, queries: Queries
) -> None:
    """A name of the provider's leads to every action that is known under it."""
    builder = LedgerBuilder()
    for event in ("one", "two"):
        builder.take(x.propose(f"charge:v1:acme:{event}"))
        builder.take(x.report(x.success("ch_7"), key=f"charge:v1:acme:{event}"))
    await project(pool, builder)
    found = await queries.actions_by_reference("main", "ch_7")
    assert found == ("charge:v1:acme:one", "charge:v1:acme:two")
    assert await queries.actions_by_reference("other", "ch_7") == ()


async def test_a_stream_comes_back_as_it_was(pool: asyncpg.Pool, queries: Queries) -> None:
    """The folded state is exact, and says up to where it speaks."""
    builder = history(31, partitions=2)
    await project(pool, builder)
    key, stream = next(item for item in builder.streams.items() if item[1].actions)
    held = await queries.stream(key)
    assert held is not None
    assert held.stream == stream
    assert await queries.stream("acme/nothing") is None


async def test_cold_streams_say_up_to_where_they_speak(pool: asyncpg.Pool) -> None:
    """Missing keys are new as of the projected offset, even where nothing is found."""
    builder = story()
    await project(pool, builder)
    store = ColdStore(pool)
    found = (await store.load({0: [x.STREAM, "acme/new"]}))[0]
    assert found.projected_offset == builder.ends()[0]
    assert {key: held.stream for key, held in found.streams.items()} == builder.streams
    nothing = (await store.load({0: ["acme/new"]}))[0]
    assert (nothing.projected_offset, dict(nothing.streams)) == (builder.ends()[0], {})
    assert (await store.load({7: [x.STREAM]}))[7].projected_offset == 0


@pytest.mark.parametrize(
    "damage",
    [
        "update actionledger.streams set fold_version = 0, state = 'of another version'",
        "update actionledger.streams set state = state || ' '",
    ],
)
async def test_a_foreign_state_is_folded_again_from_its_facts(
    pool: asyncpg.Pool, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What another version wrote, or somebody edited, is made anew from what is stored."""
    builder = history(32)
    await project(pool, builder)
    await pool.execute(damage)
    keys = [key for key, stream in builder.streams.items() if stream != Stream(key)]
    found = (await ColdStore(pool).load({0: keys}))[0]
    assert {key: held.stream for key, held in found.streams.items()} == {
        key: builder.streams[key] for key in keys
    }
    assert "stream_state_folded_again" in caplog.messages


async def test_a_projector_goes_on_from_a_foreign_state(pool: asyncpg.Pool) -> None:
    """After an upgrade of the fold, streams are taken up from their facts and written anew."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    await project(pool, builder)
    await pool.execute("update actionledger.streams set fold_version = 0, state = 'old'")
    builder.take(x.report(x.success()))
    await project(pool, builder)
    async with pool.acquire() as connection:
        held = await load_streams(connection, [x.STREAM])
    assert held[x.STREAM].stream == builder.streams[x.STREAM]


@pytest.mark.law("S7")
async def test_event_ids_are_derived_as_the_core_does(pool: asyncpg.Pool) -> None:
    """The database derives the id of every fact as the ledger does, and no two facts share one."""
    await project(pool, history(11, partitions=2))
    rows = await pool.fetch(
        "select event_id, tenant_id, action_key, version, type, cause_topic, cause_partition,"
        " cause_offset, ordinal from actionledger_api_v1.action_events"
    )
    assert [row["event_id"] for row in rows] == [event_id(*tuple(row)[1:]) for row in rows]
    assert len({row["event_id"] for row in rows}) == len(rows) > 0


async def test_due_streams_come_earliest_first(pool: asyncpg.Pool, queries: Queries) -> None:
    """Timers of a partition up to a time, one line a stream."""
    builder = LedgerBuilder()
    for event in ("later", "sooner"):
        builder.take(x.propose(f"charge:v1:acme:{event}"))
    builder.take(x.report(x.no_answer(), key="charge:v1:acme:sooner"))
    await project(pool, builder)
    due = await queries.streams_due(0, x.T0 + 60_000)
    assert [one.stream_key for one in due] == ["acme/sooner", "acme/later"]
    assert [one.due_at for one in due] == [x.T0 + x.LOOKUPS[0], x.T0 + x.LEASE_MS]
    assert len(await queries.streams_due(0, x.T0 + x.LOOKUPS[0])) == 1
    assert await queries.streams_due(1, x.T0 + 60_000) == ()


async def test_offsets_and_lag(pool: asyncpg.Pool, queries: Queries) -> None:
    """Each partition says where it stands; what the log has more is the lag."""
    builder = history(33, partitions=2)
    await project(pool, builder)
    offsets = await queries.offsets()
    ends = builder.ends()
    assert {place: one.next_offset for place, one in offsets.items()} == ends
    assert offsets[0].generation == builder.generation
    assert lag(offsets, {0: ends[0] + 3, 1: ends[1], 2: 5}) == {0: 3, 1: 0, 2: 5}


async def test_lists_have_an_end(pool: asyncpg.Pool, queries: Queries) -> None:
    """However much is asked for, no answer is longer than the limit."""
    builder = LedgerBuilder()
    for event in range(ROWS_READ_MAX + 1):
        key = f"email:v1:acme:event-{event}"
        builder.take(x.propose(key))
        builder.take(x.report(x.no_answer(), key=key))
    await project(pool, builder, batch_records=2_000)
    cases = await queries.cases("acme", limit=10 * ROWS_READ_MAX)
    assert len(cases) == ROWS_READ_MAX


async def test_tenants_are_those_that_have_an_action(pool: asyncpg.Pool, queries: Queries) -> None:
    """Each once, however many actions it has, and of one scope none but its own."""
    assert await queries.tenants(ALL) == ()
    builder = LedgerBuilder()
    for key in ("charge:v1:globex:e-1", "charge:v1:acme:e-1", "charge:v1:acme:e-2"):
        builder.take(x.propose(key), executor=None)
    await project(pool, builder)
    assert await queries.tenants(ALL) == ("acme", "globex")
    assert await queries.tenants("globex") == ("globex",)
    assert await queries.tenants("Acme") == ()
    assert await queries.tenants(ALL, limit=1) == ("acme",)


async def test_reads_by_key_use_an_index(pool: asyncpg.Pool) -> None:
    """The reads on the way of a request never walk a whole table."""
    builder = LedgerBuilder()
    for event in range(2_000):
        builder.take(x.propose(f"charge:v1:acme:event-{event}"), executor=None)
    await project(pool, builder, batch_records=2_000)
    await pool.execute("analyze")
    asked = {
        "actions": "select * from actionledger.actions where action_key = 'charge:v1:acme:event-7'",
        "action_events": "select * from actionledger.action_events"
        " where cause_topic = 'intents' and cause_partition = 0 and cause_offset = 9"
        " and ordinal = 0",
        "streams": "select * from actionledger.streams where stream_key = any ('{acme/event-1}')",
    }
    for table, query in asked.items():
        plan = "\n".join(row[0] for row in await pool.fetch(f"explain {query}"))
        assert f"Seq Scan on {table}" not in plan, plan
