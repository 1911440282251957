"""Webhooks looked at again: trouble that passes, mappings that are taught, what stays nobody's."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
import pytest

from ledger.core.money import Money
from ledger.log.port import Record
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived
from reconciler.limits import COMPOSITE_AFTER_MS, PARKED_MS, UNMATCHED_ALARM_MS
from reconciler.parking import Position, lock_composites
from reconciler.providers.port import About, MappedWebhook, Unrecognised, WebhookMapping
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.receiving import WebhookDesk
from reconciler.replaying import Replayed, replay
from reconciler.sweeping import sweep_parked, tell_unmatched
from reconciler.webhook_rows import (
    State,
    WebhookView,
    find_webhook,
    list_webhooks,
    open_places,
    suggestions,
    unmatched,
)
from streams.agents import settle
from streams.clock import wall_ms
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.integration.reconciling import (
    KEY,
    all_records,
    desk,
    evidence,
    know_action,
    know_reference,
    migrated,
    receive,
    rows,
    settlement,
    source_of,
)
from tests.servers import Addresses

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
ORDER = "order:A-1842"


class Troubled(SimulatedMapping):
    """Reads webhooks once its surroundings are well again: it finds them away some times."""

    def __init__(self, times: int) -> None:
        """Fail so often."""
        self.left = times
        self.calls = 0

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Fail as a network does, or read."""
        self.calls += 1
        if self.left:
            self.left -= 1
            raise OSError("away")
        return super().map(raw)


class Untaught(SimulatedMapping):
    """Does not know settlements yet."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Recognise nothing."""
        return Unrecognised("unknown_event_type", "effect.settled")


class Silent(SimulatedMapping):
    """Takes settlements for something that says nothing of an effect."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Read, and call it irrelevant."""
        mapped = super().map(raw)
        assert isinstance(mapped, MappedWebhook)
        return dataclasses.replace(mapped, meaning="irrelevant", effect="pending")


@dataclass
class Again:
    """An installation, its tables, and a desk for any mapping."""

    one: Installation
    pool: asyncpg.Pool
    appender: SteadyAppender

    def desk(self, mapping: WebhookMapping | None = None) -> WebhookDesk:
        """A desk with this mapping."""
        taught = SimulatedMapping() if mapping is None else mapping
        return desk(self.one, self.pool, self.appender, {"simulated": taught})

    async def records(self) -> list[Record]:
        """Everything on the topic."""
        return await all_records(self.one, Topic.WEBHOOKS)

    async def replay(self, mapping: WebhookMapping | None = None) -> list[Replayed]:
        """Look again at all of the topic."""
        return await replay(
            self.desk(mapping),
            self.pool,
            self.appender,
            await self.records(),
            partitions=PARTITIONS,
        )

    async def view(self, place: tuple[int, int], now_ms: int | None = None) -> WebhookView:
        """The row of a place for a person."""
        at = wall_ms() if now_ms is None else now_ms
        found = await find_webhook(self.pool, Position(*place), now_ms=at)
        assert found is not None
        return found

    async def sweep(
        self,
        *,
        shared: frozenset[tuple[str, str]] = frozenset(),
        later_ms: int = 0,
        shown_ms: int | None = None,
    ) -> int:
        """Sweep so much later, with tables that are whole then, or at another distance from now;
        how many were matched.
        """
        return await sweep_parked(
            self.pool,
            self.appender,
            partitions=PARTITIONS,
            now_ms=lambda: wall_ms() + later_ms,
            shown_ms=wall_ms() + (later_ms if shown_ms is None else shown_ms),
            shared_accounts=shared,
        )

    async def told_about(self, webhook: WebhookReceived) -> tuple[int, int]:
        """Take one that says what it is about; where it stands."""
        (place,) = await receive(self.one, webhook)
        record = next(one for one in await self.records() if (one.partition, one.offset) == place)
        await self.desk(Told()).handle([record])
        return place

    async def standing(self) -> dict[str, str]:
        """What became of each event."""
        found = await rows(self.pool)
        return {row["event_id"]: row["classification"] for row in found.values()}


@asynccontextmanager
async def again(servers: Addresses, database_url: str) -> AsyncIterator[Again]:
    """An installation with nothing on it yet."""
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        appender = SteadyAppender(one.log.appender)
        try:
            yield Again(one, pool, appender)
        finally:
            await appender.close()


@pytest.mark.case("C059")
async def test_c059_evaluation_that_fails_twice_is_done_again_from_the_store(
    servers: Addresses, database_url: str
) -> None:
    """C059: the webhook is durable before anybody evaluates it; evaluation that fails twice is done
    a third time from the topic; the operator's redelivery beside it is a row and nothing else.
    """
    async with again(servers, database_url) as all_:
        await know_action(all_.pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        await receive(all_.one, webhook, webhook)
        troubled = Troubled(2)
        await settle(all_.desk(troubled).handle, await all_.records(), deadline_ms=30_000)
        assert troubled.calls == 4, "twice in vain, then the webhook and its redelivery"
        kinds = sorted(row["classification"] for row in (await rows(all_.pool)).values())
        assert kinds == ["duplicate", "matched"]
        (told,) = await evidence(all_.one)
        assert told.source_id == source_of(webhook)
        # By hand, once more: nothing.
        await receive(all_.one, webhook)
        await all_.desk().handle(await all_.records())
        assert len(await evidence(all_.one)) == 1


@pytest.mark.case("C063")
async def test_c063_what_nobody_knows_is_listed_with_its_age_and_alarmed_and_never_dropped(
    servers: Addresses, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C063: one webhook meets an action that is not there yet and is applied when it is; the other
    names a reference that never appears: it is listed with its age, alarmed after the limit,
    expired after 30 days, and still there.
    """
    async with again(servers, database_url) as all_:
        first, never = settlement("evt_1", reference="ch_1"), settlement("evt_2", reference="ch_2")
        places = await receive(all_.one, first, never)
        await all_.desk().handle(await all_.records())
        await know_reference(all_.pool, "ch_1", KEY)
        swept = await sweep_parked(all_.pool, all_.appender, partitions=PARTITIONS, now_ms=wall_ms)
        assert swept == 1
        assert await all_.standing() == {"evt_1": "matched", "evt_2": "parked"}
        assert [told.key for told in await evidence(all_.one)] == [KEY]

        now_ms = wall_ms()
        assert await tell_unmatched(all_.pool, now_ms=now_ms) == 0
        late_ms = now_ms + UNMATCHED_ALARM_MS + HOUR_MS
        assert await tell_unmatched(all_.pool, now_ms=late_ms) == 1
        (alarm,) = [one for one in caplog.records if one.message == "webhooks_unmatched"]
        assert alarm.levelname == "WARNING"
        assert (alarm.__dict__["count"], alarm.__dict__["reason"]) == (1, "reference_unknown")
        assert alarm.__dict__["oldest_minutes"] in {119, 120}

        (waiting,) = await unmatched(all_.pool, now_ms=late_ms)
        assert (waiting.waiting, waiting.expired) == (1, 0)
        assert waiting.oldest_at == (await all_.view(places[1])).received_at
        over_ms = now_ms + PARKED_MS + HOUR_MS
        (expired,) = await unmatched(all_.pool, now_ms=over_ms)
        assert (expired.waiting, expired.expired, expired.oldest_at) == (0, 1, None)
        listed = await list_webhooks(all_.pool, State.EXPIRED, now_ms=over_ms, limit=10)
        assert [(one.event_id, one.state) for one in listed] == [("evt_2", State.EXPIRED)]
        assert await list_webhooks(all_.pool, State.PARKED, now_ms=over_ms, limit=10) == []
        assert len(await rows(all_.pool)) == 2


async def test_a_mapping_that_is_taught_settles_what_was_not_recognised(
    servers: Addresses, database_url: str
) -> None:
    """Unrecognised, then irrelevant by a wrong mapping, then matched: each look leads on, evidence
    comes once, and looking again at what is matched changes nothing.
    """
    async with again(servers, database_url) as all_:
        await know_action(all_.pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        await receive(all_.one, webhook)
        await all_.desk(Untaught()).handle(await all_.records())
        (place,) = await open_places(all_.pool, limit=10)
        assert (await all_.view(place)).state is State.UNRECOGNISED
        (look,) = await all_.replay(Silent())
        assert (look.before, look.after) == ("unrecognised:unknown_event_type", "irrelevant")
        assert await evidence(all_.one) == []
        (look,) = await all_.replay()
        assert (look.before, look.after, look.is_changed) == ("irrelevant", "matched", True)
        for _ in range(2):
            (look,) = await all_.replay()
            assert (look.after, look.is_changed) == ("matched", False)
        assert [told.source_id for told in await evidence(all_.one)] == [source_of(webhook)]
        (row,) = (await rows(all_.pool)).values()
        assert (row["action_key"], row["matched_by"]) == (KEY, "metadata")


async def test_a_look_at_a_repeated_event_makes_it_point_to_the_one_that_decides(
    servers: Addresses, database_url: str
) -> None:
    """Two deliveries that nobody understood: taught, one decides, the other repeats it."""
    async with again(servers, database_url) as all_:
        await know_action(all_.pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        first, second = await receive(all_.one, webhook, webhook)
        await all_.desk(Untaught()).handle(await all_.records())
        looks = await all_.replay()
        assert [look.after for look in looks] == ["matched", "duplicate"]
        decides, repeats = sorted((first, second))
        assert (await all_.view(repeats)).repeats == f"webhooks/{decides[0]}/{decides[1]}"
        assert len(await evidence(all_.one)) == 1


async def test_a_record_without_a_row_is_taken_as_it_arrives(
    servers: Addresses, database_url: str
) -> None:
    """What the reconciler has not come to is handled by the look, and counts once after it."""
    async with again(servers, database_url) as all_:
        await know_action(all_.pool, KEY)
        await receive(all_.one, settlement("evt_1", action_key=KEY))
        (look,) = await all_.replay()
        assert (look.before, look.after) == (None, "matched")
        await all_.desk().handle(await all_.records())
        assert await all_.standing() == {"evt_1": "matched"}
        assert len(await evidence(all_.one)) == 1


async def test_a_person_is_given_a_hint_and_nothing_is_matched_by_it(
    servers: Addresses, database_url: str
) -> None:
    """An action of the same account, amount and currency whose outcome is open is named; another
    amount, account or outcome is not.
    """
    async with again(servers, database_url) as all_:
        (place,) = await receive(all_.one, settlement("evt_1", reference="ch_9"))
        await all_.desk().handle(await all_.records())
        view = await all_.view(place)
        assert (view.amount_minor, view.currency) == (4_990, "EUR")
        assert await suggestions(all_.pool, view) == []
        dearer = Money(minor=5_000, currency="EUR")
        await know_action(all_.pool, KEY)
        await know_action(all_.pool, "charge:v1:acme:renewal-2", money=dearer)
        await know_action(all_.pool, "charge:v1:acme:renewal-3", status="completed")
        await know_action(all_.pool, "charge:v1:acme:renewal-4", account="other")
        hints = await suggestions(all_.pool, view)
        assert [(one.action_key, one.status) for one in hints] == [(KEY, "unknown")]
        assert (await all_.view(place)).state is State.PARKED


class Told(SimulatedMapping):
    """Reads what its description declares to name an action."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Read, and say what it is about."""
        mapped = super().map(raw)
        assert isinstance(mapped, MappedWebhook)
        return dataclasses.replace(mapped, about=About("charge", ORDER))


async def test_a_declared_composite_matches_the_one_action_that_fits(
    servers: Addresses, database_url: str
) -> None:
    """Neither mark nor known reference: a minute later, when the tables have whatever was begun
    before it came, it is the one action's; another target, sum, account or operation fits none, and
    an account of its name at another provider is shared for nobody here.
    """
    async with again(servers, database_url) as all_:
        begun = wall_ms() - 1_000
        dearer = Money(minor=5_000, currency="EUR")
        await know_action(all_.pool, KEY, target=ORDER, begun_at=begun)
        for number, other in enumerate(
            (
                {"target": ORDER, "money": dearer},
                {"target": "order:A-1"},
                {"target": ORDER, "account": "other"},
            )
        ):
            key = f"charge:v1:acme:renewal-{number + 2}"
            await know_action(all_.pool, key, begun_at=begun, **other)  # type: ignore[arg-type]
        await know_action(all_.pool, "refund:v1:acme:renewal-5", target=ORDER, begun_at=begun)
        await know_action(all_.pool, "charge:v1:acme:renewal-6", target=ORDER, status="denied")
        webhook = settlement("evt_1", reference=None, occurred_at=wall_ms())
        place = await all_.told_about(webhook)
        assert (await all_.view(place)).reason == "reference_missing"
        assert await all_.sweep() == 0, "it waits for its reference first"
        assert await all_.sweep(later_ms=HOUR_MS, shown_ms=0) == 0, "the tables are an hour behind"
        shared = frozenset({("simulated", "main")})
        assert await all_.sweep(shared=shared, later_ms=COMPOSITE_AFTER_MS) == 0
        elsewhere = frozenset({("bank", "main")})
        assert await all_.sweep(shared=elsewhere, later_ms=COMPOSITE_AFTER_MS) == 1
        view = await all_.view(place)
        assert (view.state, view.action_key, view.matched_by) == (State.MATCHED, KEY, "composite")
        (told,) = await evidence(all_.one)
        assert (told.key, told.source_id) == (KEY, source_of(webhook))
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 0
        assert len(await evidence(all_.one)) == 1


@pytest.mark.parametrize(
    ("asked_ms", "begun_ms", "occurred_ms", "is_fitting"),
    [
        # A colleague charged by hand while it waited for people.
        (-2 * HOUR_MS, 600_000, 0, False),
        # Told late: it was begun before the webhook came, and after its effect was made.
        (-2 * HOUR_MS, -HOUR_MS, -2 * HOUR_MS, False),
        (-4 * DAY_MS, -4 * DAY_MS, 0, False),
        # It waited for people for a week: what counts is when it was begun.
        (-7 * DAY_MS, -HOUR_MS, 0, True),
        # The clock of the provider is a little behind.
        (-2 * HOUR_MS, -1_000, -31_000, True),
    ],
)
async def test_an_action_that_was_begun_after_the_effect_did_not_make_it(
    servers: Addresses,
    database_url: str,
    asked_ms: int,
    begun_ms: int,
    occurred_ms: int,
    is_fitting: bool,  # noqa: FBT001 - pytest gives it
) -> None:
    """When it was asked for says nothing: people may have let it wait for hours or days."""
    async with again(servers, database_url) as all_:
        now_ms = wall_ms()
        webhook = settlement("evt_1", reference=None, occurred_at=now_ms + occurred_ms)
        place = await all_.told_about(webhook)
        await know_action(
            all_.pool, KEY, target=ORDER, asked_at=now_ms + asked_ms, begun_at=now_ms + begun_ms
        )
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == is_fitting
        assert ((await all_.view(place)).state is State.MATCHED) == is_fitting


async def test_two_effects_that_name_one_action_are_a_case_for_a_person(
    servers: Addresses, database_url: str
) -> None:
    """In one sweep or one after the other: a second effect must not vanish as a repetition. What
    bears one name is one effect, however often it is told.
    """
    async with again(servers, database_url) as all_:
        begun = wall_ms() - HOUR_MS
        await know_action(all_.pool, KEY, target=ORDER, begun_at=begun)
        both = [settlement(f"evt_{n}", reference=None, occurred_at=begun + n) for n in (1, 2)]
        places = [await all_.told_about(one) for one in both]
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 0
        assert [(await all_.view(one)).reason for one in places] == ["composite_ambiguous"] * 2
        assert await evidence(all_.one) == []

        second = "charge:v1:acme:renewal-2"
        await all_.pool.execute("update actionledger.actions set target = 'order:A-1'")
        await know_action(all_.pool, second, target=ORDER, begun_at=begun)
        named = [settlement(f"evt_{n}", reference="ch_9", occurred_at=begun + n) for n in (3, 4)]
        places = [await all_.told_about(one) for one in named]
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 2
        await all_.pool.execute("update actionledger.actions set status = 'completed'")
        for reference in (None, "ch_10"):
            moment = wall_ms() - HOUR_MS // 2
            late = settlement(f"evt_{reference}", reference=reference, occurred_at=moment)
            place = await all_.told_about(late)
            assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 0
            assert (await all_.view(place)).reason == "composite_ambiguous"
        assert [told.key for told in await evidence(all_.one)] == [second] * 2


@pytest.mark.parametrize("status", ["completed", "cancelled", "superseded"])
async def test_of_several_actions_that_fit_a_person_chooses_until_a_reference_tells(
    servers: Addresses, database_url: str, status: str
) -> None:
    """Though one of them has ended: what was begun may have made the effect. It is named as a case,
    with what it may be about, and is matched the day its reference is known.
    """
    async with again(servers, database_url) as all_:
        begun = wall_ms() - 1_000
        await know_action(all_.pool, KEY, target=ORDER, begun_at=begun)
        ended = "charge:v1:acme:renewal-2"
        await know_action(all_.pool, ended, target=ORDER, status=status, begun_at=begun)
        place = await all_.told_about(settlement("evt_1", reference="ch_9", occurred_at=wall_ms()))
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 0
        view = await all_.view(place)
        assert (view.state, view.reason) == (State.PARKED, "composite_ambiguous")
        assert [one.action_key for one in await suggestions(all_.pool, view)] == [KEY]
        assert await evidence(all_.one) == []
        await know_reference(all_.pool, "ch_9", KEY)
        assert await all_.sweep() == 1
        assert (await all_.view(place)).matched_by == "reference"


async def test_what_no_composite_can_match_now_is_neither_locked_nor_given(
    servers: Addresses, database_url: str
) -> None:
    """It waits on, for 30 days, beside an action that is settled or none at all."""
    async with again(servers, database_url) as all_:
        begun = wall_ms() - 1_000
        await know_action(all_.pool, KEY, target=ORDER, status="completed", begun_at=begun)
        place = await all_.told_about(settlement("evt_1", reference="ch_10", occurred_at=wall_ms()))
        assert await all_.sweep(later_ms=COMPOSITE_AFTER_MS) == 0
        assert (await all_.view(place)).reason == "reference_unknown"
        for status, given in (("completed", 0), ("unknown", 1)):
            await all_.pool.execute("update actionledger.actions set status = $1", status)
            async with all_.pool.acquire() as connection, connection.transaction():
                found = await lock_composites(
                    connection,
                    after=Position(-1, -1),
                    now_ms=wall_ms() + COMPOSITE_AFTER_MS,
                    shown_ms=wall_ms() + COMPOSITE_AFTER_MS,
                    rows_max=10,
                )
            assert len(found) == given


def test_every_state_can_be_asked_for() -> None:
    """The words of the command are those of the rows, and one that time makes."""
    assert {one.value for one in State} == {
        *("matched", "parked", "irrelevant", "unrecognised", "duplicate", "expired"),
    }


def test_a_replayed_record_says_what_it_was() -> None:
    """A look that changes nothing is told apart from one that does."""
    assert not Replayed(Position(0, 1), "matched", "matched").is_changed
    assert Replayed(Position(0, 1), None, "parked:reference_unknown").is_changed
    assert WebhookReceived.model_fields["source"].default == "webhook"
