"""A provider's list against the ledger, and what a stream lost, on the real servers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gateway.wiring.compare_desk import report_of
from gateway.wiring.import_desk import STILL_MS_MAX, bringing, decided
from gateway.wiring.orphan_desk import NoSuchOrphanError, list_orphans, note_orphan
from ledger.core.money import Money
from ledger.log.port import Record
from reconciler.comparing import Comparison, Period, compare
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import place_of
from reconciler.parking import Position
from reconciler.providers.port import Inconclusive, ListedEffect, ListingFailed, Lookup
from reconciler.receiving import WebhookDesk
from reconciler.statement_intake import Finding, Standing
from streams.clock import wall_ms
from tests.integration.test_import import LOOK_SECONDS, LOST, Place, charged, row_of, statuses
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

HOUR_MS = 3_600_000


class Listing:
    """A provider that lists what it is told to, and may fail behind its last effect."""

    def __init__(self, effects: Sequence[ListedEffect], *, ends_early: bool = False) -> None:
        self.effects = effects
        self.ends_early = ends_early

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Prove nothing: here only the list counts."""
        assert all((account, provider_key, action_key, timeout_ms))
        assert reference is None
        return Inconclusive("not_asked")

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Show every effect."""
        assert account == "main"
        assert timeout_ms > 0
        for effect in self.effects:
            if effect.committed_at >= since_at:
                yield effect
        if self.ends_early:
            raise ListingFailed("page_lost")

    async def close(self) -> None:
        """Nothing is open."""


def listed(number: int, *, minor: int | None = None, marked: bool = True) -> ListedEffect:
    """The effect of a charge as its provider lists it."""
    return ListedEffect(
        reference=f"ch_{number}",
        operation="charge",
        account="main",
        money=Money(minor=1_000 + number if minor is None else minor, currency="EUR"),
        provider_key=None,
        action_key=f"charge:v1:acme:sale-{number}" if marked else None,
        request_hash=None,
        committed_at=wall_ms(),
    )


async def held_against(
    place: Place, finder: Listing, *, until: int | None = None
) -> tuple[Comparison, list[Finding]]:
    """Compare the last hour; what the ledger made of what was brought, and of what is missing."""
    now = wall_ms() + HOUR_MS if until is None else until
    comparison = Comparison("simulated", "main", Period(now - 3 * HOUR_MS, now))
    async with bringing(place.settings, "listing", "simulated", "main") as bringer:
        await compare(finder, bringer, place.all_.pool, comparison, shown_until=now)
        sought = [one.sought for one in (*comparison.brought, *comparison.unlisted)]
        return comparison, await decided(bringer, sought, patience_ms=STILL_MS_MAX)


async def test_a_list_settles_raises_and_misses(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """What is in order is not brought; uncertain actions are settled; an effect without an action
    and one of other money are told; a completed action that a whole list lacks is named.
    """
    count = LOST + 10
    async with charged(servers, database_url, tmp_path, count) as place:
        effects = [listed(number) for number in range(count - 1)]
        effects[LOST] = listed(LOST, minor=1)
        effects.append(listed(90_001, marked=False))

        early, _ = await held_against(place, Listing(effects[: LOST // 2], ends_early=True))
        assert (early.ended_early, early.not_listed) == ("page_lost", 0)

        comparison, findings = await held_against(place, Listing(effects))

        assert comparison.listed == count
        assert comparison.in_order >= count - LOST - 2
        standings = [one.standing for one in findings]
        assert standings.count(Standing.UNMATCHED) == 1
        assert [one.why for one in findings if one.standing is Standing.CONFLICTING] == [
            "amount_differs",
            "effect_not_listed",
        ]
        assert await statuses(place.all_) == {"completed": count}
        assert [one.action_key for one in comparison.missing] == [
            f"charge:v1:acme:sale-{count - 1}"
        ]
        proofs = await place.all_.pool.fetchval(
            "select count(*) from actionledger.actions where proof = 'listing'"
        )
        assert proofs == LOST

        again, _ = await held_against(place, Listing(effects))
        assert (again.told, again.told_missing, again.not_listed) == (0, 0, 1)

        found, _ = await list_orphans(place.settings, 10)
        assert {one.why for one in found} == {"orphan_effect", "effect_not_listed"}
        (missed,) = [one for one in found if one.why == "effect_not_listed"]
        assert missed.claimed_key == comparison.missing[0].action_key
        for one in found:
            at = place_of(*one.place.split("/"))
            assert at is not None
            await note_orphan(place.settings, at, OrphanNote(by="ops", note="Seen."))
        assert await list_orphans(place.settings, 10) == ([], 0)
        report = report_of(*await held_against(place, Listing(effects)))
        assert (report.orphans, report.noted) == (0, 1)
        assert (report.not_listed, report.not_listed_noted, report.missing) == (0, 1, [])
        assert await statuses(place.all_) == {"completed": count}


async def test_an_orphan_is_listed_until_somebody_says_what_came_of_it(
    servers: Addresses, database_url: str, tmp_path: Path
) -> None:
    """The word is in the log with a name; the first one counts, and the line stays parked. Said
    again to who comes later, it commands no terminal.
    """
    async with charged(servers, database_url, tmp_path, LOST) as place:
        await place.bring([row_of(70_001), row_of(70_002, key=False)])
        found, count = await list_orphans(place.settings, 10)
        assert count == 2
        assert {one.reference for one in found} == {"ch_70001", "ch_70002"}
        partition, offset = map(int, found[0].place.split("/"))
        at = Position(partition, offset)
        note = OrphanNote(by="ops", note="A manual\n\x1b[2Jcharge.")

        await note_orphan(place.settings, at, note)

        left, count = await list_orphans(place.settings, 10)
        assert (count, [one.place for one in left]) == (1, [found[1].place])
        with pytest.raises(NoSuchOrphanError) as raised:
            await note_orphan(place.settings, at, note)
        told = r"ops has looked at it already: A manual\u000a\u001b[2Jcharge."
        assert raised.value.message == told
        with pytest.raises(NoSuchOrphanError, match="is an effect without an action"):
            await note_orphan(place.settings, Position(0, 999_999), note)
        row = await place.all_.pool.fetchrow(
            "select classification, seen_note from actionledger.webhooks"
            " where partition = $1 and topic_offset = $2",
            partition,
            offset,
        )
        assert row is not None
        assert tuple(row) == ("parked", note.note)


async def test_what_the_stream_loses_is_found_by_the_list(
    servers: Addresses,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent never sees two in three lines of a file, and acknowledges them: every action they
    would have settled is uncertain still. The next comparison settles all of them.
    """
    handle = WebhookDesk.handle
    lost: list[Record] = []
    is_lossy = True

    async def lossy(self: WebhookDesk, records: Sequence[Record]) -> list[Position]:
        missed = [record for record in records if is_lossy and record.offset % 3]
        lost.extend(missed)
        kept = [record for record in records if record not in missed]
        return await handle(self, kept) if kept else []

    monkeypatch.setattr(WebhookDesk, "handle", lossy)
    async with charged(servers, database_url, tmp_path, LOST) as place:
        # Their rows would never come: it is not waited for them.
        done = await place.bring([row_of(number) for number in range(LOST)], patience_ms=0)
        assert done.sent == LOST
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(lost) + await rows_count(place) < LOST:
                await asyncio.sleep(LOOK_SECONDS)
        assert lost
        assert (await statuses(place.all_)).get("unknown", 0) > 0
        is_lossy = False

        await held_against(place, Listing([listed(number) for number in range(LOST)]))

        assert await statuses(place.all_) == {"completed": LOST}


async def rows_count(place: Place) -> int:
    """How many webhooks have a row."""
    count: int = await place.all_.pool.fetchval("select count(*) from actionledger.webhooks")
    return count
