"""Webhooks from the topic to evidence, on the real Kafka and the real Postgres."""

import asyncio
import base64
import dataclasses
import hashlib
from collections import Counter

import pytest

from ledger.core.ids import ProviderKeyRule, provider_key
from ledger.core.inputs import EvidenceKind, Meaning
from ledger.log.port import Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookReceived, webhook_key
from reconciler import sweeping
from reconciler.orphans import find_orphan, list_orphans
from reconciler.parking import TEST_EVENT, Position, parked_counts
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.receiving import FAULT
from reconciler.sweeping import sweep_parked
from streams.clock import wall_ms
from tests.integration.installation import PARTITIONS, installed
from tests.integration.reconciling import (
    KEY,
    MONEY,
    all_records,
    classified,
    desk,
    evidence,
    know_action,
    know_reference,
    migrated,
    quarantine_becomes,
    receive,
    reconciling,
    rows_become,
    settlement,
    source_of,
)
from tests.servers import Addresses

DAY_MS = 24 * 3_600_000
OTHER = "charge:v1:acme:renewal-2"
UNDO = "refund:v1:acme:renewal-1"


async def test_our_key_in_the_metadata_makes_evidence(
    servers: Addresses, database_url: str
) -> None:
    """A signed webhook that carries our key is evidence about its action, and a matched row."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await know_action(all_.pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        (place,) = await receive(one, webhook)
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["action_key"]) == ("matched", KEY)
        assert (row["matched_by"], row["reason"]) == ("metadata", None)
        assert row["mapping_hash"].startswith("sha256:")
        (found,) = await evidence(one)
        assert (found.key, found.kind, found.meaning) == (
            KEY,
            EvidenceKind.WEBHOOK,
            Meaning.EFFECT,
        )
        assert (found.reference, found.money, found.account) == ("ch_1", MONEY, "main")
        assert found.source_id == source_of(webhook)
        assert found.raw_sha256 == webhook.sha256


async def test_a_known_reference_makes_evidence(servers: Addresses, database_url: str) -> None:
    """Reference first, webhook second: it is matched when it comes."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await know_reference(all_.pool, "ch_1", KEY)
        (place,) = await receive(one, settlement("evt_1"))
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["matched_by"]) == ("matched", "reference")
        assert [found.key for found in await evidence(one)] == [KEY]


async def test_a_webhook_before_its_reference_is_parked_and_then_matched(
    servers: Addresses, database_url: str
) -> None:
    """Webhook first, reference second: the inquirer's sweep makes the same evidence, once."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await all_.inquirer()
        webhook = settlement("evt_1")
        (place,) = await receive(one, webhook)
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["reason"]) == ("parked", "reference_unknown")
        assert await evidence(one) == []
        await know_reference(all_.pool, "ch_1", KEY)
        await classified(all_.pool, place, "matched")
        (found,) = await evidence(one)
        assert (found.key, found.source_id) == (KEY, source_of(webhook))
        again = await sweep_parked(all_.pool, all_.appender, partitions=PARTITIONS, now_ms=wall_ms)
        assert again == 0
        assert len(await evidence(one)) == 1


async def test_a_webhook_that_bears_only_the_shortened_key_finds_its_action(
    servers: Addresses, database_url: str
) -> None:
    """What the provider was given is a name: of a webhook that comes before the attempt is known,
    and of one that comes after it; on another account it is nobody's.
    """
    charged, foreign = f"{KEY}-of-a-long-name", f"{OTHER}-of-a-long-name"
    rule = ProviderKeyRule(length_max=32)
    key, elsewhere = provider_key(charged, rule), provider_key(foreign, rule)
    early, late = (settlement(f"evt_{n}", provider_key=key, reference=f"ch_{n}") for n in (1, 2))
    stranger = settlement("evt_3", provider_key=elsewhere, reference="ch_3")
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await all_.inquirer()
        (place,) = await receive(one, early)
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["reason"]) == ("parked", "reference_unknown")
        await know_action(all_.pool, charged, begun_at=wall_ms(), provider_key=key)
        await know_action(
            all_.pool, foreign, account="other", begun_at=wall_ms(), provider_key=elsewhere
        )
        await classified(all_.pool, place, "matched")
        second, third = await receive(one, late, stranger)
        found = await rows_become(all_.pool, 3)
        for matched in (found[place], found[second]):
            assert (matched["classification"], matched["matched_by"]) == ("matched", "provider_key")
            assert matched["action_key"] == charged
        assert (found[third]["classification"], found[third]["reason"]) == (
            "parked",
            "reference_unknown",
        )
        assert {one.key for one in await evidence(one)} == {charged}


async def test_a_webhook_with_the_key_of_no_action_is_an_orphan_until_the_action_appears(
    servers: Addresses, database_url: str
) -> None:
    """The tables may be behind, so the ledger is told at once; a person sees it as long as there is
    no action, and the sweep matches it when there is one. What states no effect waits as well.
    """
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        charged = settlement("evt_1", action_key=KEY)
        refused = settlement("evt_2", action_key=OTHER, event_type="effect.refused")
        first, second = await receive(one, charged, refused)
        found = await rows_become(all_.pool, 2)
        assert (found[first]["classification"], found[first]["reason"]) == (
            "parked",
            "orphan_effect",
        )
        assert found[second]["reason"] == "action_unknown"
        told = {given.key: given.source_id for given in await evidence(one)}
        assert told == {KEY: source_of(charged), OTHER: source_of(refused)}
        for tenants, count in ((("*",), 1), (("globex", "acme"), 1), (("globex",), 0), ((), 0)):
            listed, total = await list_orphans(all_.pool, tenants, limit=10)
            assert (len(listed), total) == (count, count)
            shown = await find_orphan(all_.pool, tenants, Position(*first))
            assert (shown is not None) == bool(count)
        (orphan,), _ = await list_orphans(all_.pool, ("acme",), limit=10)
        assert (orphan.event_id, orphan.source, orphan.why) == ("evt_1", "webhook", "orphan_effect")
        assert await find_orphan(all_.pool, ("*",), Position(*second)) is None

        await know_action(all_.pool, OTHER)
        await all_.inquirer()
        await classified(all_.pool, second, "matched")
        assert (await rows_become(all_.pool, 2))[first]["classification"] == "parked"
        await know_action(all_.pool, KEY)
        await classified(all_.pool, first, "matched")
        again = {(given.key, given.source_id) for given in await evidence(one)}
        assert again == set(told.items()), "told again under the same source, which counts once"


async def test_an_action_that_appears_on_another_account_is_a_case(
    servers: Addresses, database_url: str
) -> None:
    """In both orders a key proves nothing on an account that did not sign it."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        (place,) = await receive(one, settlement("evt_1", action_key=KEY))
        await classified(all_.pool, place, "parked")
        await know_action(all_.pool, KEY, account="second")
        for _ in range(2):
            swept = await sweep_parked(
                all_.pool, all_.appender, partitions=PARTITIONS, now_ms=wall_ms
            )
            assert swept == 0
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["reason"]) == ("parked", "account_differs")


async def test_what_waits_on_keeps_nothing_behind_it_waiting(
    servers: Addresses, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reversal that bears the key of a compensation which does not exist waits on, though the
    name of its effect is known; one sweep comes past it, and ends.
    """
    monkeypatch.setattr(sweeping, "SWEEP_ROWS_MAX", 1)
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        appender = SteadyAppender(one.log.appender)
        at_desk = desk(one, pool, appender, {"simulated": Undoing()})
        await receive(
            one,
            *(settlement(f"evt_{number}", action_key=UNDO) for number in range(3)),
            settlement("evt_last", reference="ch_2", action_key=None),
        )
        await at_desk.handle(await all_records(one, Topic.WEBHOOKS))
        await know_reference(pool, "ch_1", KEY)
        await know_reference(pool, "ch_2", OTHER)
        swept = await sweep_parked(pool, appender, partitions=PARTITIONS, now_ms=wall_ms)
        kinds = Counter(row["classification"] for row in (await rows_become(pool, 4)).values())
        assert (swept, kinds) == (1, {"parked": 3, "matched": 1})
        await know_action(pool, UNDO)
        swept = await sweep_parked(pool, appender, partitions=PARTITIONS, now_ms=wall_ms)
        assert swept == 3
        await appender.close()


async def test_c055_two_deliveries_on_two_nodes_count_once(
    servers: Addresses, database_url: str
) -> None:
    """C055: of deliveries of one event handled at the same moment by two processes, one row
    decides, and whatever evidence was written names one source.
    """
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        await know_action(pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        places = [*await receive(one, webhook), *await receive(one, webhook)]
        records = await all_records(one, Topic.WEBHOOKS)
        appenders = [SteadyAppender(one.log.appender) for _ in range(2)]
        nodes = [desk(one, pool, appender) for appender in appenders]
        await asyncio.gather(
            *(node.handle([record]) for node, record in zip(nodes, records, strict=True))
        )
        found = await rows_become(pool, 2)
        assert set(found) == set(places)
        assert sorted(row["classification"] for row in found.values()) == ["duplicate", "matched"]
        assert len({given.source_id for given in await evidence(one)}) == 1
        for appender in appenders:
            await appender.close()


@pytest.mark.case("C057")
async def test_c057_one_fact_under_eleven_event_ids_counts_once(
    servers: Addresses, database_url: str
) -> None:
    """C057: eleven events with ids of their own about one object at one moment: one row decides,
    the others point to it, and all that is told bears one source. The same object at another moment
    is told.
    """
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        await know_action(pool, KEY)
        at = wall_ms()
        burst = [
            settlement(f"evt_{number}", action_key=KEY, occurred_at=at) for number in range(11)
        ]
        later = settlement("evt_later", action_key=KEY, occurred_at=at + 1)
        await receive(one, *burst, later)
        records = await all_records(one, Topic.WEBHOOKS)
        appenders = [SteadyAppender(one.log.appender) for _ in range(2)]
        # As two workers have them, each some, at the same moment.
        halves = (records[::2], records[1::2])
        await asyncio.gather(
            *(
                desk(one, pool, mine).handle(half)
                for mine, half in zip(appenders, halves, strict=True)
            )
        )
        found = await rows_become(pool, 12)
        kinds = Counter(row["classification"] for row in found.values())
        assert kinds == {"matched": 2, "duplicate": 10}
        first = next(
            place
            for place, row in found.items()
            if row["classification"] == "matched" and row["event_id"] != "evt_later"
        )
        repeated = [row for row in found.values() if row["classification"] == "duplicate"]
        assert {(row["repeats_partition"], row["repeats_offset"]) for row in repeated} == {first}
        assert {row["reason"] for row in repeated} == {"same_fact"}
        sources = {given.source_id for given in await evidence(one)}
        assert sources == {source_of(burst[0]), source_of(later)}
        for appender in appenders:
            await appender.close()


@pytest.mark.case("C061")
async def test_c061_one_event_at_two_endpoints_is_applied_for_both(
    servers: Addresses, database_url: str
) -> None:
    """C061: one event id, told to the endpoints of two accounts with secrets of their own, is two
    events: each is evidence for its own account's action. At an endpoint of an account that it does
    not speak for it is nobody's.
    """
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await know_action(all_.pool, KEY)
        await know_action(all_.pool, OTHER, account="second")
        at = wall_ms()
        first = settlement("evt_1", action_key=KEY, occurred_at=at)
        second = settlement(
            "evt_1", action_key=OTHER, account="second", verified_for="second", occurred_at=at
        )
        astray = settlement("evt_2", action_key=KEY, account="main", verified_for="second")
        places = await receive(one, first, second, astray)
        rows = await rows_become(all_.pool, 3)
        matched = [(rows[place]["account"], rows[place]["action_key"]) for place in places[:2]]
        assert matched == [("main", KEY), ("second", OTHER)]
        assert rows[places[2]]["reason"] == "account_differs"
        told = {(given.key, given.account) for given in await evidence(one)}
        assert told == {(KEY, "main"), (OTHER, "second")}


async def test_a_redelivery_is_a_row_and_no_more_evidence(
    servers: Addresses, database_url: str
) -> None:
    """An event that was told before is recorded as repeated and told no second time."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await know_action(all_.pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        (first,) = await receive(one, webhook)
        await classified(all_.pool, first, "matched")
        (second,) = await receive(one, webhook)
        await classified(all_.pool, second, "duplicate")
        assert len(await evidence(one)) == 1


async def test_what_an_event_says_otherwise_under_the_same_id_is_told_too(
    servers: Addresses, database_url: str
) -> None:
    """A provider that names its events by the object tells of its end under the id of its
    beginning: each is a piece of its own, and each once.
    """
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await know_action(all_.pool, KEY)
        began = settlement("obj_1", action_key=KEY, event_type="effect.pending")
        ended = settlement("obj_1", action_key=KEY)
        places = await receive(one, began, ended, began, ended)
        rows = await rows_become(all_.pool, 4)
        kinds = [rows[place]["classification"] for place in places]
        assert kinds == ["matched", "matched", "duplicate", "duplicate"]
        told = [(given.meaning, given.source_id) for given in await evidence(one)]
        assert {meaning for meaning, _ in told} == {Meaning.PENDING, Meaning.EFFECT}
        assert len({source for _, source in told}) == 2


async def test_a_batch_read_again_changes_nothing(servers: Addresses, database_url: str) -> None:
    """After a crash the same records are handled again: same rows, no further evidence."""
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        await know_action(pool, KEY)
        webhook = settlement("evt_1", action_key=KEY)
        await receive(one, webhook, settlement("evt_2", reference="ch_2"), webhook)
        records = await all_records(one, Topic.WEBHOOKS)
        appender = SteadyAppender(one.log.appender)
        for _ in range(2):
            await desk(one, pool, appender).handle(records)
            found = await rows_become(pool, 3)
            kinds = sorted(row["classification"] for row in found.values())
            assert kinds == ["duplicate", "matched", "parked"]
            assert len(await evidence(one)) == 1
        await appender.close()


@pytest.mark.case("C149")
async def test_c149_poison_is_set_aside_and_those_behind_it_go_on(
    servers: Addresses, database_url: str
) -> None:
    """C149: an unreadable record stands in quarantine with its bytes, place and hash; the webhooks
    behind it in the same partition are handled.
    """
    poison = b"{bad"
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        webhooks = [settlement(f"evt_{number}", action_key=KEY) for number in range(40)]
        in_line = [w for w in webhooks if partition_of(webhook_key(w), PARTITIONS) == 0]
        await receive(one, *in_line[:3])
        (at,) = await one.put(Topic.WEBHOOKS, 0, Outgoing(b"key", poison))
        await receive(one, *in_line[3:])
        await rows_become(all_.pool, len(in_line))
        assert {found.source_id for found in await evidence(one)} == {
            source_of(webhook) for webhook in in_line
        }
        (aside,) = await quarantine_becomes(one, 1)
        assert (aside.topic, aside.partition, aside.offset) == ("webhooks", 0, at)
        assert aside.reason == "not_json"
        assert aside.sha256 == hashlib.sha256(poison).hexdigest()
        assert base64.b64decode(aside.value_base64) == poison


class Undoing(SimulatedMapping):
    """Takes what bears a key for money that was given back of the charge it names."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Read a reversal, or what there is."""
        mapped = super().map(raw)
        assert isinstance(mapped, MappedWebhook)
        if mapped.action_key is None:
            return mapped
        return dataclasses.replace(
            mapped, effect="reversed", reference=f"re_{mapped.event_id}", reverses=mapped.reference
        )


class Stumbling(SimulatedMapping):
    """A mapping with a fault of ours in it."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Fail on one event, against the port's word."""
        if b"evt_bad" in raw:
            raise ZeroDivisionError("a fault of ours")
        return super().map(raw)


async def test_a_fault_of_ours_sets_one_record_aside(servers: Addresses, database_url: str) -> None:
    """A record on which our code fails stands in quarantine; those beside it are handled."""
    mappings = {"simulated": Stumbling()}
    async with (
        installed(servers.kafka_bootstrap) as one,
        reconciling(one, database_url, mappings) as all_,
    ):
        await know_action(all_.pool, KEY)
        names = ["evt_1", "evt_bad", "evt_2", "evt_3"]
        await receive(one, *(settlement(name, action_key=KEY) for name in names))
        found = await rows_become(all_.pool, 3)
        assert {row["classification"] for row in found.values()} == {"matched"}
        (aside,) = await quarantine_becomes(one, 1)
        assert aside.reason == FAULT
        assert "ZeroDivisionError" in aside.detail


async def test_a_webhook_proves_nothing_on_an_account_that_did_not_sign_it(
    servers: Addresses, database_url: str
) -> None:
    """A secret of one account cannot settle an action on another."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        forged = settlement("evt_1", action_key=KEY, account="main", verified_for="sandbox")
        (place,) = await receive(one, forged)
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["reason"]) == ("parked", "account_differs")
        assert await evidence(one) == []


async def test_a_reference_of_two_actions_is_a_case_and_not_a_match(
    servers: Addresses, database_url: str
) -> None:
    """Parked, then known under two actions: it waits for a person and is swept no more."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        (place,) = await receive(one, settlement("evt_1"))
        await classified(all_.pool, place, "parked")
        await know_reference(all_.pool, "ch_1", KEY, OTHER)
        assert (
            await sweep_parked(all_.pool, all_.appender, partitions=PARTITIONS, now_ms=wall_ms) == 0
        )
        row = (await rows_become(all_.pool, 1))[place]
        assert (row["classification"], row["reason"]) == ("parked", "reference_ambiguous")
        assert await evidence(one) == []


async def test_parked_is_a_question_of_time(servers: Addresses, database_url: str) -> None:
    """After thirty days a webhook is no longer parked and no reference matches it any more; what no
    mapping understands is counted beside, but for a test that an operator has sent.
    """
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        strange = settlement("evt_2").model_copy(update={"provider": "unheard-of"})
        tested = WebhookReceived.of(
            settlement("evt_3").raw().replace(b"effect.settled", TEST_EVENT.encode()),
            provider="simulated",
            account="main",
            event_id="evt_3",
            sent_at=wall_ms(),
            headers={},
        )
        await receive(one, settlement("evt_1"), strange, tested)
        await rows_become(all_.pool, 3)
        counts = {"parked:reference_unknown": 1, "unrecognised:provider_unknown": 1}
        async with all_.pool.acquire() as connection:
            assert await parked_counts(connection, now_ms=wall_ms()) == counts
            late_ms = wall_ms() + 30 * DAY_MS
            assert await parked_counts(connection, now_ms=late_ms) == {}
            assert await parked_counts(connection, now_ms=wall_ms() - DAY_MS) == {}
        await know_reference(all_.pool, "ch_1", KEY)
        late = await sweep_parked(
            all_.pool, all_.appender, partitions=PARTITIONS, now_ms=lambda: late_ms
        )
        assert late == 0
        assert await evidence(one) == []
