"""Rows of streams that another version of the fold wrote, or that somebody edited: as many as there
are, they come back whole, and one that does not keeps nobody else.
"""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from ledger.client.client import LedgerClient, UndecidedError
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Tick
from ledger.core.records import Genesis
from ledger.core.state import Stream
from ledger.log.envelope import outgoing, read_ledger
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from projections import projector as module
from projections.cold import ColdStore
from projections.errors import DamagedRowsError
from projections.limits import COLD_CALL_MS_MAX, FOLDED_AGAIN_MAX
from projections.rebuild import Afterwards, rebuild
from projections.statements import Connection
from projections.states import Loaded, load_streams, load_undamaged
from streams import cold_loading, waiting_inputs
from tests.examples import propose, report, success
from tests.integration.installation import PARTITIONS, Installation, charge, installed, settled
from tests.integration.test_cold_streams import all_projected, proposed, settle
from tests.ledgers import LedgerBuilder, MemoryLog, MemoryReader, history
from tests.patience import PATIENCE_SECONDS
from tests.projecting import project, projected, projected_to, running, until
from tests.servers import Addresses

pytestmark = pytest.mark.servers

OTHER_VERSION = "update actionledger.streams set fold_version = 0, state = 'of another version'"


class CountedLog(MemoryLog):
    """Counts its readers."""

    readers = 0

    async def reader(self, places: Mapping[tuple[str, int], int]) -> MemoryReader:
        """See `MemoryLog.reader`."""
        self.readers += 1
        return await super().reader(places)


def many() -> LedgerBuilder:
    """More charges than are folded again by one query, of two partitions."""
    builder = LedgerBuilder(2)
    for number in range(FOLDED_AGAIN_MAX * 5 // 4):
        key = f"charge:v1:acme:e{number}"
        builder.take(propose(key))
        builder.take(report(success(f"ch_{number}"), key=key))
    return builder


def keys_of(builder: LedgerBuilder) -> dict[int, list[str]]:
    """The keys of all streams, by partition."""
    keys: dict[int, list[str]] = {part: [] for part in builder.ends()}
    for key, stream in builder.streams.items():
        if stream != Stream(key):
            keys[builder.partition(key)].append(key)
    return keys


async def test_more_foreign_rows_than_one_query_folds_come_back_whole(database_url: str) -> None:
    """After an upgrade of the fold that may be all there are; others have their turn meanwhile."""
    builder = many()
    keys = keys_of(builder)
    async with projected(database_url) as pool:
        await project(pool, builder)
        await pool.execute(OTHER_VERSION)
        turns = 0

        async def take_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(take_turns())
        loaded = await ColdStore(pool).load(keys)
        other.cancel()
        assert {part: cold.projected_offset for part, cold in loaded.items()} == builder.ends()
        held = {key: one.stream for cold in loaded.values() for key, one in cold.streams.items()}
        assert held == builder.streams
        assert turns > 10
        async with pool.acquire() as connection:
            again = await load_streams(connection, list(builder.streams))
        assert {key: one.stream for key, one in again.items()} == builder.streams


async def test_folding_again_may_take_longer_than_a_question(database_url: str) -> None:
    """A ceiling of a large tenant has more facts than are read in the time of one question; asked
    anew each time, it would never come.
    """
    builder = history(105, partitions=2)
    async with projected(database_url) as pool:
        await project(pool, builder)
        await pool.execute(OTHER_VERSION)
        count = await pool.fetchval("select count(*) from actionledger.action_events")
        each_s = 1.2 * COLD_CALL_MS_MAX / 1_000 / count
        await pool.execute(
            f"""
            alter table actionledger.action_events rename to kept;
            create view actionledger.action_events as
            select kept.* from actionledger.kept, lateral (select pg_sleep({each_s}), version) as s
            """  # noqa: S608 - a number of ours
        )
        loaded = await ColdStore(pool).load(keys_of(builder))
    held = {key: one.stream for cold in loaded.values() for key, one in cold.streams.items()}
    assert held == {key: one for key, one in builder.streams.items() if one != Stream(key)}


@pytest.mark.parametrize(
    "damage",
    [
        "delete from actionledger.action_events where action_key = $1",
        "delete from actionledger.action_events where action_key = $1 and version = 2",
        "update actionledger.action_events set data = '{}' where action_key = $1 and version = 1",
    ],
)
async def test_a_stream_whose_rows_lie_is_not_taken_for_new(database_url: str, damage: str) -> None:
    """It is neither there nor new, whoever asks; the others come."""
    builder = LedgerBuilder()
    for event in ("good", "bad"):
        builder.take(propose(f"charge:v1:acme:{event}"))
        builder.take(report(success(f"ch_{event}"), key=f"charge:v1:acme:{event}"))
    async with projected(database_url) as pool:
        await project(pool, builder)
        await pool.execute(OTHER_VERSION)
        await pool.execute(damage, "charge:v1:acme:bad")
        cold = (await ColdStore(pool).load({0: ["acme/good", "acme/bad", "acme/new"]}))[0]
        assert (set(cold.streams), set(cold.damaged)) == ({"acme/good"}, {"acme/bad"})
        async with pool.acquire() as connection:
            with pytest.raises(DamagedRowsError, match="acme/bad"):
                await load_streams(connection, ["acme/good", "acme/bad"])


async def test_a_stream_whose_row_was_deleted_is_not_taken_for_new(database_url: str) -> None:
    """Of actions and of gates: it was an empty stream to its owner, who made every effect of it a
    second time. A filter of keys has it too, so that it is asked for.
    """
    builder = history(105, partitions=2)
    keys = keys_of(builder)
    async with projected(database_url) as pool:
        await project(pool, builder)
        assert await pool.fetchval("select count(*) from actionledger.gates") > 0
        await pool.execute("delete from actionledger.streams")
        store = ColdStore(pool)
        cold = await store.load({part: [*known, "acme/new"] for part, known in keys.items()})
        for partition, known in keys.items():
            assert set(cold[partition].damaged) == set(known)
            assert cold[partition].streams == {}
        found, behind = set[str](), ""
        while True:
            page = await store.keys(keys, behind, 7)
            found.update(key for _, key in page.keys)
            if page.behind is None:
                break
            behind = page.behind
        assert found == {key for known in keys.values() for key in known}
        async with pool.acquire() as connection:
            with pytest.raises(DamagedRowsError, match="its row is gone"):
                await load_streams(connection, [*keys[0], "acme/new"])
            assert await load_streams(connection, ["acme/new"]) == {}


@pytest.mark.parametrize(
    "damage",
    [
        ["delete from actionledger.streams where stream_key = 'acme/bad'"],
        [OTHER_VERSION, "delete from actionledger.action_events where action_key ~ 'bad$'"],
    ],
)
async def test_a_projector_waits_for_damaged_rows_in_one_partition(
    database_url: str,
    damage: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Others go on; rows that are made anew beside it are all that it waits for. It ended again and
    again, and nothing was projected any more.
    """
    monkeypatch.setattr(module, "DAMAGED_LOOK_MS", 50)
    looks = 0

    async def counted(connection: Connection, keys: Collection[str], *, schema: str) -> Loaded:
        nonlocal looks
        looks += "acme/bad" in keys
        return await load_undamaged(connection, keys, schema=schema)

    monkeypatch.setattr(module, "load_undamaged", counted)
    builder = LedgerBuilder(2)
    bad = builder.partition("acme/bad")
    other = next(
        f"e{number}" for number in range(99) if builder.partition(f"acme/e{number}") != bad
    )
    for event in ("bad", other):
        builder.take(propose(f"charge:v1:acme:{event}"))
    log = CountedLog(builder.everything())
    async with projected(database_url) as pool:
        await project(pool, builder)
        for statement in damage:
            await pool.execute(statement)
        stands = builder.ends()
        for event in ("bad", other):
            builder.take(report(success(f"ch_{event}"), key=f"charge:v1:acme:{event}"))
        for partition, end in stands.items():
            log.extend(builder.records(partition)[end:])
        ends = builder.ends()
        async with running(log, pool, ends) as projector:
            await until(lambda: bad in projector.waiting, "it waits")
            await projected_to(pool, ends | {bad: stands[bad]})
            opened = log.readers
            await until(lambda: looks > 3, "it looks again")
            assert log.readers == opened
            assert (projector.waiting[bad].stream, projector.stopped) == ("acme/bad", {})
            await rebuild(log, pool, afterwards=Afterwards.SWAP)
            await projected_to(pool, ends)
        for message in ("projection_waits", "stream_rows_damaged"):
            told = [one for one in caplog.records if one.message == message]
            assert [one.__dict__["stream"] for one in told] == ["acme/bad"]


@pytest.mark.parametrize(
    "damage",
    [
        [OTHER_VERSION, "delete from actionledger.action_events where action_key = $1"],
        ["delete from actionledger.streams where $1 = any (action_keys)"],
    ],
)
async def test_only_what_needs_damaged_rows_waits_for_them(
    servers: Addresses, database_url: str, damage: list[str]
) -> None:
    """Events that somebody deleted, and a fold of another version; or a row that is gone: a
    proposal about that stream is decided by nobody until the rows were made anew from the log, and
    all others are.
    """
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor(ColdStore(pool))
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with running(one.log, pool, range(PARTITIONS)):
                proposals = await settle(client, 2 * PARTITIONS)
                await all_projected(one, pool)
            await one.crash(0)
            bad = proposals[0]
            for statement in damage:
                await pool.execute(statement, *([bad.key] if "$1" in statement else []))
            await one.processor(ColdStore(pool))
            for given in proposals[1:]:
                assert (await proposed(client, given)).decision.unchanged is not None
            with pytest.raises(UndecidedError):
                await client.propose(bad, timeout_ms=1_000)
            assert (await proposed(client, charge("other"))).decision.facts
            await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
            async with asyncio.timeout(PATIENCE_SECONDS):
                answer = await proposed(client, bad)
            assert answer.decision.unchanged is not None


async def test_a_processor_takes_partitions_over_with_damaged_rows_in_them(
    servers: Addresses, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The projector waits, and with it the place where a take-over begins to fold: it ended every
    processor that the partition was given to, with all that it owned.
    """
    monkeypatch.setattr(module, "DAMAGED_LOOK_MS", 100)
    monkeypatch.setattr(cold_loading, "DAMAGED_ASKED_MS", 100)
    bad = charge("bad")
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor(ColdStore(pool))
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with running(one.log, pool, range(PARTITIONS)):
                await proposed(client, bad)
                await all_projected(one, pool)
            await pool.execute(
                "delete from actionledger.streams where $1 = any (action_keys)", bad.key
            )
            await one.executor()
            await settled(client, bad.key, "completed")
            async with running(one.log, pool, range(PARTITIONS)) as projector:
                await until(lambda: bool(projector.waiting), "it waits")
                await one.crash(0)
                await one.processor(ColdStore(pool))
                beside = charge(beside_of(bad.key))
                await proposed(client, beside)
                await settled(client, beside.key, "completed")
                with pytest.raises(UndecidedError):
                    await client.propose(bad, timeout_ms=1_000)
                await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
                answer = await proposed(client, bad)
            assert answer.decision.unchanged is not None


async def test_what_is_due_by_time_is_done_beside_damaged_rows(
    servers: Addresses, database_url: str
) -> None:
    """While an input about a damaged stream waits, another action of its partition, which waited
    for capacity, is started by a timer and carried out: leases, lookups and deadlines of the whole
    partition stood still until the rows were made anew.
    """
    bad = charge("bad")
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor(ColdStore(pool))
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with running(one.log, pool, range(PARTITIONS)):
                await proposed(client, bad)
                await all_projected(one, pool)
            await one.crash(0)
            await pool.execute(
                "delete from actionledger.streams where $1 = any (action_keys)", bad.key
            )
            await one.processor(ColdStore(pool))
            beside = charge(beside_of(bad.key))
            await proposed(client, beside)
            with pytest.raises(UndecidedError):
                await client.propose(bad, timeout_ms=1_000)
            await one.executor()
            await settled(client, beside.key, "completed")
            await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
            assert (await proposed(client, bad)).decision.unchanged is not None
            await settled(client, bad.key, "completed")


async def test_where_too_much_waits_time_stands_still_and_what_is_internal_is_read_on(
    servers: Addresses,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Beside a damaged stream its inbox is read no further, and no tick of its partition is decided
    or written; behind a tick that lay there messages waited for it. Once the rows are made anew
    everything has its turn.
    """
    monkeypatch.setattr(waiting_inputs, "WAITING_INPUTS_MAX", 1)
    bad = charge("bad")
    partition = partition_of(stream_key_of(bad.key), PARTITIONS)
    beside, behind = (charge(event) for event in two_beside(bad.key))
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor(ColdStore(pool))
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with running(one.log, pool, range(PARTITIONS)):
                await proposed(client, bad)
                await all_projected(one, pool)
            await one.crash(0)
            await pool.execute(
                "delete from actionledger.streams where $1 = any (action_keys)", bad.key
            )
            await one.processor(ColdStore(pool))
            await proposed(client, beside)
            with pytest.raises(UndecidedError):
                await client.propose(bad, timeout_ms=1_000)
            (full,) = [line for line in caplog.records if line.message == "waiting_inputs_full"]
            assert vars(full)["topics"] == [Topic.INTENTS]
            stream = stream_key_of(beside.key)
            tick = Tick(stream=stream, generation=await generation_of(one), due_at=1)
            due = outgoing(tick, stream=stream, subject=None, event_id="t", source="/tests")
            await one.executor()
            await one.put(Topic.INTERNAL, partition, due, Outgoing(stream.encode(), b"garbage"))
            with pytest.raises(UndecidedError):
                await client.propose(behind, timeout_ms=1_000)
            await until(
                lambda: any(line.message == "input_quarantined" for line in caplog.records),
                "what lies behind the tick is decided",
            )
            assert len(await one.records(Topic.INTERNAL, partition)) == 2
            ticked = {one.cause.copied for one in await one.decisions()}
            assert not any(copied and copied.startswith("tick") for copied in ticked)
            await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
            for given in (bad, beside, behind):
                await settled(client, given.key, "completed")


async def generation_of(one: Installation) -> str:
    """The generation of an installation's log."""
    first = read_ledger((await one.records(Topic.LEDGER, 0))[0].value)
    assert isinstance(first, Genesis)
    return first.generation


def two_beside(key: str) -> list[str]:
    """Two events whose streams lie in the partition of another action's."""
    partition = partition_of(stream_key_of(key), PARTITIONS)
    events = (f"e{number}" for number in range(99))
    return [one for one in events if partition_of(f"acme/{one}", PARTITIONS) == partition][:2]


def beside_of(key: str) -> str:
    """An event whose stream lies in the partition of another action's."""
    return two_beside(key)[0]
