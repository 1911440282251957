"""Events that a provider never sent, read from its own list, on the real Kafka and Postgres."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import asyncpg
import pytest

from gateway.cli.doctor import FoundError, _events
from gateway.settings import Settings
from gateway.wiring import compare_desk
from gateway.wiring.compare_desk import compare_provider
from ledger.core.inputs import EvidenceKind
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook
from projections.migrate import FOLDER, migrate
from reconciler.comparing import Period
from reconciler.providers.registry import ProviderSettings, event_sources, webhook_mappings
from reconciler.providers.simulated.event_source import SimulatedEventSource
from reconciler.pulling import EventPuller, Hole, Pulled, close_hole, holes
from streams.clock import wall_ms
from tests.contract.calls import Call, performing
from tests.contract.stage import ProviderProcess, SimulatedStage
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.integration.reconciling import (
    all_records,
    desk,
    evidence,
    know_action,
    migrated,
    receive,
    rows,
    rows_become,
)
from tests.integration.test_holds import settings_of
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

PROVIDER = "simulated"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """Run one provider for this module; nobody takes its webhooks."""
    process = ProviderProcess(tmp_path_factory.mktemp("events"))
    process.start()
    yield process
    process.stop()


async def lost(process: ProviderProcess, count: int = 1) -> list[Call]:
    """Make effects of one account whose events are never sent."""
    process.control("reset", {})
    stage = SimulatedStage(process)
    first = Call.on(stage)
    calls = [first, *(Call(stage, first.account) for _ in range(count - 1))]
    scripts = [
        {"match": {"action_key": call.action_key}, "webhooks": [{"kind": "lost"}]} for call in calls
    ]
    process.control("script", {"scripts": scripts})
    async with performing(stage) as performer:
        for call in calls:
            await call.perform(performer)
    return calls


@dataclass
class Pulling:
    """Pullers beside an installation, as the inquirer runs one."""

    one: Installation
    pool: asyncpg.Pool
    appender: SteadyAppender
    url: str
    account: str
    ahead_ms: int = 0

    async def pull(self) -> Pulled | None:
        """Read the account once, as a process does that was just started."""
        settings = [ProviderSettings(PROVIDER, PROVIDER, self.url, {self.account: self._key})]
        sources = event_sources(settings)
        puller = EventPuller(
            self.appender,
            self.pool,
            sources,
            webhook_mappings(settings),
            partitions=PARTITIONS,
            now_ms=lambda: wall_ms() + self.ahead_ms,
        )
        try:
            return await puller.pull(PROVIDER, self.account)
        finally:
            await sources[PROVIDER].close()

    @property
    def _key(self) -> str:
        return f"sk_sim_{self.account}"

    async def make_due(self, seen_at_ms: int | None = None) -> None:
        """As after the interval; with `seen_at_ms` as before the position was stored."""
        await self.pool.execute(
            "update actionledger.event_pulls set next_at = now() - interval '1 second',"
            " seen_at = coalesce(to_timestamp($1::float8 / 1000), seen_at)",
            seen_at_ms,
        )

    async def brought(self) -> list[WebhookReceived]:
        """Everything on the topic `webhooks`."""
        read = [read_webhook(record) for record in await all_records(self.one, Topic.WEBHOOKS)]
        return [one for one in read if isinstance(one, WebhookReceived)]

    async def handle(self) -> None:
        """Take all of it to where it belongs."""
        records = await all_records(self.one, Topic.WEBHOOKS)
        await desk(self.one, self.pool, self.appender).handle(records)

    async def know(self, calls: Sequence[Call]) -> None:
        """Let the tables have the actions that were made by these calls."""
        keys = [call.action_key for call in calls]
        await know_action(self.pool, *keys, account=self.account)

    async def position(self) -> asyncpg.Record:
        """How far the reading is."""
        row = await self.pool.fetchrow("select * from actionledger.event_pulls")
        assert row is not None
        return row


@asynccontextmanager
async def pulling(
    servers: Addresses, database_url: str, url: str, account: str
) -> AsyncIterator[Pulling]:
    """An installation with nothing on it yet."""
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        appender = SteadyAppender(one.log.appender)
        try:
            yield Pulling(one, pool, appender, url, account)
        finally:
            await appender.close()


@pytest.mark.case("C067")
async def test_c067_thirty_events_that_never_came_are_brought_in_once(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """C067: what the provider does not send again is read from its list: each event becomes one
    webhook, one row and one piece of evidence, and reading again brings nothing.
    """
    calls = await lost(process, 30)
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        await all_.know(calls)
        assert await all_.pull() == Pulled(30, 30)
        assert await all_.pull() is None, "it is not due"
        brought = await all_.brought()
        assert {one.source for one in brought} == {"pulled"}
        await all_.handle()
        found = await rows_become(all_.pool, 30)
        assert {row["classification"] for row in found.values()} == {"matched"}
        assert {row["source"] for row in found.values()} == {"pulled"}
        told = await evidence(all_.one)
        assert sorted(given.key for given in told) == sorted(call.action_key for call in calls)
        assert {given.kind for given in told} == {EvidenceKind.WEBHOOK}
        await all_.make_due()
        assert await all_.pull() == Pulled(30, 0)
        assert len(await all_.brought()) == 30
        row = await all_.position()
        assert (row["events"], row["missed"], row["trouble"]) == (60, 30, None)


async def test_what_came_by_itself_is_not_brought_again(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """An event that has a row, whatever the row says, is known; one whose webhook is on its way
    counts once although it comes twice.
    """
    calls = await lost(process, 2)
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        await all_.know(calls)
        await all_.pull()
        pulled = await all_.brought()
        sent = [one.model_copy(update={"source": "webhook"}) for one in pulled]
        await receive(all_.one, sent[0])
        await all_.handle()
        kinds = sorted(row["classification"] for row in (await rows(all_.pool)).values())
        assert kinds == ["duplicate", "matched", "matched"]
        assert len({given.source_id for given in await evidence(all_.one)}) == 2
        await all_.make_due(seen_at_ms=0)
        assert await all_.pull() == Pulled(2, 0)


async def test_a_crash_before_the_position_is_stored_reads_again_and_counts_once(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """R4: a page is on the log, the position before it and the process gone: the next one brings
    the page again, and of each event one row decides.
    """
    calls = await lost(process, 3)
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        await all_.know(calls)
        await all_.pull()
        await all_.make_due(seen_at_ms=0)
        assert await all_.pull() == Pulled(3, 3)
        assert len(await all_.brought()) == 6
        await all_.handle()
        kinds = sorted(row["classification"] for row in (await rows(all_.pool)).values())
        assert kinds == ["duplicate"] * 3 + ["matched"] * 3
        assert len({given.source_id for given in await evidence(all_.one)}) == 3


async def test_of_several_inquirers_one_reads(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """The row of the account is claimed; the others go away with nothing."""
    calls = await lost(process, 1)
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        found = await asyncio.gather(*(all_.pull() for _ in range(4)))
        assert sorted(map(str, found)) == sorted(["None", "None", "None", str(Pulled(1, 1))])


async def test_a_list_that_fails_is_named_and_the_position_stays(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """Nothing is left out: the reading begins again where it was."""
    calls = await lost(process, 1)
    account = calls[0].account
    async with pulling(servers, database_url, "http://127.0.0.1:9", account) as away:
        assert await away.pull() == Pulled(0, 0)
        failed = await away.position()
        assert failed["trouble"] == "connect_refused"
        away.url = process.url
        await away.make_due()
        assert await away.pull() == Pulled(1, 1)
        row = await away.position()
        assert row["trouble"] is None
        assert row["seen_at"] > failed["seen_at"]


async def test_a_list_that_was_not_read_for_longer_than_it_is_kept_is_told(
    servers: Addresses,
    database_url: str,
    process: ProviderProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Of which time, in the log and by the doctor, until a comparison of all of it was whole."""
    calls = await lost(process, 1)
    monkeypatch.setattr(SimulatedEventSource, "kept_ms", 3 * DAY_MS)
    settings = Settings.from_environment({"ACTIONLEDGER_DATABASE": database_url})
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        began = wall_ms()
        assert await all_.pull() == Pulled(1, 1)
        assert await _events(settings) == "every list of events was read in time"
        all_.ahead_ms = 5 * DAY_MS
        await all_.pull()
        assert "events_may_be_lost" in caplog.messages
        (hole,) = await holes(all_.pool)
        assert (hole.provider, hole.account) == (PROVIDER, all_.account)
        late = SimulatedEventSource.overlap_ms
        assert began - late <= hole.since <= wall_ms() - late
        assert began + 2 * DAY_MS <= hole.until <= wall_ms() + 2 * DAY_MS
        caplog.clear()
        await all_.make_due()
        await all_.pull()
        assert "events_may_be_lost" not in caplog.messages
        with pytest.raises(FoundError, match="may be lost") as found:
            await _events(settings)
        assert found.value.hint is not None
        assert f"provider compare {PROVIDER} --account {all_.account}" in found.value.hint
        assert "such as disputes" in found.value.hint
        await close_hole(all_.pool, replace(hole, since=hole.since + 1, until=hole.until - 1))
        assert await holes(all_.pool) == [hole]
        await close_hole(all_.pool, replace(hole, since=hole.since - 1_000))
        assert await holes(all_.pool) == []


async def test_a_list_without_news_that_is_read_in_time_has_no_hole(
    servers: Addresses,
    database_url: str,
    process: ProviderProcess,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What counts is when the list was last read whole, not when its newest event happened: an
    account may have none for longer than the provider keeps them.
    """
    calls = await lost(process, 1)
    monkeypatch.setattr(SimulatedEventSource, "kept_ms", 3 * DAY_MS)
    async with pulling(servers, database_url, process.url, calls[0].account) as all_:
        for day in range(0, 11, 2):
            all_.ahead_ms = day * DAY_MS
            assert await all_.pull() == Pulled(1, 1), "its webhook has no row here"
            assert await holes(all_.pool) == []
        assert "events_may_be_lost" not in caplog.messages


async def test_a_list_that_cannot_be_read_is_told_of_what_it_lost_since(
    servers: Addresses, database_url: str, process: ProviderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reading that ends early counts as none; what was compared meanwhile is not told again, and
    with the first whole reading it ends.
    """
    calls = await lost(process, 1)
    monkeypatch.setattr(SimulatedEventSource, "kept_ms", 3 * DAY_MS)
    async with pulling(servers, database_url, "http://127.0.0.1:9", calls[0].account) as all_:
        assert await all_.pull() == Pulled(0, 0)
        assert await holes(all_.pool) == []
        for day in (2, 4):
            all_.ahead_ms = day * DAY_MS
            await all_.pull()
        (first,) = await holes(all_.pool)
        await close_hole(all_.pool, first)
        all_.url = process.url
        for day in (5, 6):
            all_.ahead_ms = day * DAY_MS
            assert await all_.pull() == Pulled(1, 1)
            (second,) = await holes(all_.pool)
            assert second.since == first.until
            assert first.until < second.until <= wall_ms() + 2 * DAY_MS


async def has_hole(pool: asyncpg.Pool, account: str, since: int, until: int) -> Hole:
    """Let it be told that events of this time may be lost."""
    await pool.execute(
        "insert into actionledger.event_pulls"
        " (provider, account, seen_at, next_at, hole_begin, hole_end)"
        " values ($1, $2, now(), now(), to_timestamp($3::float8 / 1000),"
        " to_timestamp($4::float8 / 1000))"
        " on conflict (provider, account) do update"
        " set hole_begin = excluded.hole_begin, hole_end = excluded.hole_end",
        PROVIDER,
        account,
        since,
        until,
    )
    hole = Hole(PROVIDER, account, since, until)
    assert hole in await holes(pool)
    return hole


async def test_what_was_compared_is_taken_off_a_hole_from_either_end(database_url: str) -> None:
    """A time with more effects than one comparison takes is compared in parts; one in the middle or
    beside it takes nothing off.
    """
    left: dict[tuple[int, int], tuple[int, int] | None] = {
        (1_000, 9_000): None,
        (0, 10_000): None,
        (0, 4_000): (4_000, 9_000),
        (1_000, 8_999): (8_999, 9_000),
        (4_000, 9_000): (1_000, 4_000),
        (1_001, 20_000): (1_000, 1_001),
        (1_001, 8_999): (1_000, 9_000),
        (0, 1_000): (1_000, 9_000),
        (0, 500): (1_000, 9_000),
        (9_000, 10_000): (1_000, 9_000),
        (9_500, 10_000): (1_000, 9_000),
        (5_000, 2_000): (1_000, 9_000),
        (500, 400): (1_000, 9_000),
    }
    async with migrated(database_url) as pool:
        other = await has_hole(pool, "other", 1_000, 9_000)
        for (since, until), rest in left.items():
            hole = await has_hole(pool, "main", 1_000, 9_000)
            await close_hole(pool, replace(hole, since=since, until=until))
            wanted = [] if rest is None else [replace(hole, since=rest[0], until=rest[1])]
            assert await holes(pool) == [*wanted, other], (since, until)
        hole = await has_hole(pool, "main", 1_000, 9_000)
        for since, until in ((0, 3_000), (7_000, 9_000), (3_000, 7_000)):
            await close_hole(pool, replace(hole, since=since, until=until))
        assert await holes(pool) == [other]


async def test_comparisons_of_shorter_times_end_a_hole(
    servers: Addresses, database_url: str, process: ProviderProcess
) -> None:
    """One after the other; what the provider's list cannot show yet was compared by none."""
    process.control("reset", {})
    now = wall_ms()
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        settings = replace(settings_of(one, database_url), provider_urls={PROVIDER: process.url})
        hole = await has_hole(pool, "main", now - DAY_MS, now + DAY_MS)
        half = Period(now - DAY_MS, now - DAY_MS // 2)
        await compare_provider(settings, PROVIDER, "main", half, patience_ms=0)
        assert await holes(pool) == [replace(hole, since=half.until)]
        rest = Period(half.until, now + DAY_MS)
        await compare_provider(settings, PROVIDER, "main", rest, patience_ms=0)
        (later,) = await holes(pool)
        assert half.until < later.since <= wall_ms()
        await has_hole(pool, "main", half.until, now - HOUR_MS)
        await compare_provider(settings, PROVIDER, "main", rest, patience_ms=0)
        assert await holes(pool) == []


async def test_a_hole_ends_once_it_is_known_what_a_comparison_found(
    servers: Addresses,
    database_url: str,
    process: ProviderProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever ends the command while it follows what it brought has heard of nothing."""
    process.control("reset", {})
    now = wall_ms()
    period = Period(now - 2 * DAY_MS, now - HOUR_MS)
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        settings = replace(settings_of(one, database_url), provider_urls={PROVIDER: process.url})
        hole = await has_hole(pool, "main", now - DAY_MS, now - HOUR_MS)
        following = asyncio.Event()

        async def never(*_: object, **__: object) -> NoReturn:
            following.set()
            await asyncio.Event().wait()
            raise AssertionError

        with monkeypatch.context() as patched:
            patched.setattr(compare_desk, "decided", never)
            comparing = asyncio.create_task(
                compare_provider(settings, PROVIDER, "main", period, patience_ms=0)
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                await following.wait()
        comparing.cancel()
        await asyncio.wait([comparing])
        assert comparing.cancelled()
        assert await holes(pool) == [hole]
        await compare_provider(settings, PROVIDER, "main", period, patience_ms=0)
        assert await holes(pool) == []


async def test_a_list_that_an_older_program_read_counts_as_it_left_it(
    empty_database_url: str, tmp_path: Path
) -> None:
    """Whole up to its last reading, where that was whole; else up to its newest event."""
    for path in FOLDER.glob("*.sql"):
        if path.name < "0031":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    connection = await asyncpg.connect(empty_database_url)
    try:
        await migrate(connection, folder=tmp_path)
        await connection.executemany(
            "insert into actionledger.event_pulls"
            " (provider, account, seen_at, next_at, pulled_at, trouble)"
            " values ('stripe', $1, '2026-01-01Z', now(), $2, $3)",
            [
                ("quiet", datetime(2026, 3, 1, tzinfo=UTC), None),
                ("broken", datetime(2026, 3, 1, tzinfo=UTC), "connect_refused"),
                ("begun", None, None),
            ],
        )
        await migrate(connection)
        rows = await connection.fetch("select account, read_to from actionledger.event_pulls")
    finally:
        await connection.close()
    assert {account: at.strftime("%m-%d") for account, at in rows} == {
        "quiet": "03-01",
        "broken": "01-01",
        "begun": "01-01",
    }
