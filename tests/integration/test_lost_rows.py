"""Rows of webhooks that the tables have lost, and records that never had one, on real servers."""

import asyncio
from collections.abc import Mapping, Sequence

import asyncpg
import pytest

from ledger.log.port import Outgoing, Record
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, webhook_outgoing
from reconciler.lost_rows import LostRows
from reconciler.orphan_notes import OrphanNote, note_received
from reconciler.parking import Position
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.receiving import WebhookDesk
from reconciler.windows import WebhookWindow
from streams.clock import wall_ms
from tests.integration.installation import PARTITIONS, installed
from tests.integration.reconciling import (
    KEY,
    SIMULATED,
    all_records,
    desk,
    know_action,
    migrated,
    quarantine,
    receive,
    rows,
    settlement,
)
from tests.servers import Addresses

pytestmark = pytest.mark.servers

FAULTY = "evt_faulty"
LOOKED_AT = OrphanNote(by="ada", note="not ours")


class Faulty(SimulatedMapping):
    """Our own code fails on one event."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Read all others."""
        if FAULTY.encode() in raw:
            raise ZeroDivisionError
        return super().map(raw)


def note(event_id: str, raw: bytes | None = None) -> WebhookReceived:
    """An operator's word on the effect of this event, or something else in its place."""
    at_ms = wall_ms()
    named = {"provider": "simulated", "account": "main", "event_id": event_id}
    if raw is None:
        return note_received(LOOKED_AT, **named, at_ms=at_ms)
    return WebhookReceived.of(raw, **named, sent_at=at_ms, headers={}, source="note")


def ends_of(records: list[Record]) -> dict[int, int]:
    """Where each partition ends that has records."""
    return {one.partition: one.offset + 1 for one in records}


async def look(whole: LostRows, handled: Mapping[int, int]) -> None:
    """Look once whether the tables are as far as what was handled."""
    stop = asyncio.Event()

    def once() -> Mapping[int, int]:
        stop.set()
        return handled

    await whole.keep(once, stop)


async def lose_rows(pool: asyncpg.Pool) -> None:
    """Postgres was restored, and has no webhook."""
    await pool.execute("delete from actionledger.webhooks")


async def test_what_has_no_row_is_handled_once_and_what_lost_one_each_time(
    servers: Addresses, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind the last row stand a note, something that is none, a record on which our code fails
    and one that nobody can read: at every start all of them are seen, and none is set aside again
    or called a row that was lost. Rows that are lost twice under one process come back twice.
    """
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        taken = desk(one, pool, appender, {"simulated": Faulty()})
        first = settlement("evt_1", reference="ch_1")
        behind = (note("evt_1"), note("evt_1", b"{}"), settlement(FAULTY, reference="ch_2"))
        written = [webhook_outgoing(webhook) for webhook in (first, *behind)]
        await one.put(Topic.WEBHOOKS, 0, *written, Outgoing(b"key", b"no webhook"))
        records = await all_records(one, Topic.WEBHOOKS)
        await LostRows(taken, pool, one.log).handle(records)
        set_aside = {"not_a_note", "handling_failed"}
        before = await quarantine(one)
        assert set_aside < {one.reason for one in before}
        assert len(before) == 3

        for _ in range(3):
            started = LostRows(taken, pool, one.log)
            await look(started, ends_of(records))
            assert started.made_again == 0
        assert "webhooks_made_again" not in caplog.messages

        whole = LostRows(taken, pool, one.log)
        for times in (1, 2):
            await lose_rows(pool)
            await look(whole, ends_of(records))
            assert whole.made_again == times
            (row,) = (await rows(pool)).values()
            assert (row["event_id"], row["seen_by"]) == ("evt_1", LOOKED_AT.by)
        told = [line for line in caplog.records if line.message == "webhooks_made_again"]
        assert [line.__dict__["count"] for line in told] == [1, 1]
        assert await quarantine(one) == before
        await appender.close()


async def test_what_is_made_again_is_nothing_that_came_now(
    servers: Addresses, database_url: str
) -> None:
    """The live window counts a webhook when it comes: made again after days it would look as if
    matching took days.
    """
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        await know_action(pool, KEY)
        appender, window = SteadyAppender(one.log.appender), WebhookWindow()
        now_ms = wall_ms()
        taken = WebhookDesk(
            appender, pool, SIMULATED, partitions=PARTITIONS, now_ms=lambda: now_ms, window=window
        )
        await receive(one, settlement("evt_1", action_key=KEY))
        records = await all_records(one, Topic.WEBHOOKS)
        whole = LostRows(taken, pool, one.log)
        await whole.handle(records)
        counted = window.webhooks(now_ms), window.matched_within(now_ms)
        assert sum(counted[1]) == 1
        await lose_rows(pool)
        await look(whole, ends_of(records))
        assert whole.made_again == 1
        assert (window.webhooks(now_ms), window.matched_within(now_ms)) == counted
        await appender.close()


class PutBack(WebhookDesk):
    """Postgres is restored just before, or just after, a batch is handled."""

    when = ""

    async def handle(self, records: Sequence[Record]) -> list[Position]:
        """Lose all rows at the moment that is asked for."""
        when, self.when = self.when, ""
        if when == "before":
            await lose_rows(self._pool)
        places = await super().handle(records)
        if when == "after":
            await lose_rows(self._pool)
        return places


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("is_started_again", [False, True])
async def test_tables_that_are_put_back_while_a_batch_is_handled_lose_nothing(
    servers: Addresses, database_url: str, when: str, *, is_started_again: bool
) -> None:
    """Between the look at what is missing and the rows of the batch, also where the process ends
    with it and reads the batch a second time.
    """
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        taken = PutBack(appender, pool, SIMULATED, partitions=PARTITIONS, now_ms=wall_ms)
        hooks = [settlement(f"evt_{number}", reference=f"ch_{number}") for number in range(3)]
        await one.put(Topic.WEBHOOKS, 0, *(webhook_outgoing(hook) for hook in hooks))
        records = await all_records(one, Topic.WEBHOOKS)
        whole = LostRows(taken, pool, one.log)
        await whole.handle(records[:2])
        if is_started_again:
            # What came of it was lost with the process, and the group's offset stayed before it.
            await lose_rows(pool)
            await taken.handle(records[2:])
            whole = LostRows(taken, pool, one.log)
        taken.when = when
        await whole.handle(records[2:])
        await look(whole, ends_of(records))
        found = await rows(pool)
        assert sorted(row["event_id"] for row in found.values()) == ["evt_0", "evt_1", "evt_2"]
        assert await quarantine(one) == []
        await appender.close()
