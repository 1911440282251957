"""Lines and webhooks of odd kinds, on the real servers: none holds up those behind it, none counts
on another account, and none waits for ever for an action that is there.
"""

import random
from dataclasses import replace

import pytest

from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.money import Money
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived
from reconciler.evidence import UNREPORTABLE
from reconciler.limits import LINE_ID_CHARS_MAX, PARKED_MS
from reconciler.orphans import list_orphans
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.receiving import WebhookDesk
from reconciler.statement_lines import StatementLine
from reconciler.sweeping import sweep_parked
from reconciler.webhook_rows import State, list_webhooks, unmatched
from reconciler.windows import WebhookWindow
from streams.clock import wall_ms
from tests import examples as x
from tests.integration.installation import PARTITIONS, installed
from tests.integration.reconciling import (
    KEY,
    SIMULATED,
    all_records,
    classified,
    desk,
    evidence,
    know_action,
    migrated,
    receive,
    reconciling,
    rows_become,
    settlement,
)
from tests.ledgers import LedgerBuilder
from tests.projecting import project
from tests.servers import Addresses
from tests.statements import received_line

pytestmark = pytest.mark.servers

DAMAGED = "update actionledger.webhooks set what where partition = $1 and topic_offset = $2"
LONG = "".join(random.Random(7).choices([chr(code) for code in range(0x4E00, 0x9FA5)], k=1_000))
"""Three bytes each, and nothing that could be made shorter."""


def line(line_id: str, **more: object) -> WebhookReceived:
    """A line of a settlement file about a charge."""
    said = StatementLine.model_validate(
        {
            "line_id": line_id,
            "reference": "ch_1",
            "money": Money(minor=4_990, currency="EUR"),
            "effect": "exists",
            "occurred_at": x.T0,
            "raw_sha256": "ab" * 32,
            **more,
        }
    )
    return received_line(said, source="settlement", provider="simulated", account="main")


@pytest.mark.parametrize("field", ["reference", "action_key"])
async def test_a_name_too_long_for_a_tree_is_a_name_like_any_other(
    servers: Addresses, database_url: str, field: str
) -> None:
    """Three thousand bytes in a row: an orphan beside the others, and it can be found."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        good = [line(f"good-{number}", reference=f"ch_{number}") for number in range(8)]
        await receive(one, *good[:4], line("long", **{field: LONG}), *good[4:])
        rows = await rows_become(all_.pool, len(good) + 1)
        assert {row["reason"] for row in rows.values()} == {"orphan_effect"}
        column = {"reference": "reference", "action_key": "claimed_key"}[field]
        assert [row[column] for row in rows.values()].count(LONG) == 1


class Rambling(SimulatedMapping):
    """An adapter of somebody's own that gives names which the log cannot hold."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say of one event more than can be told."""
        mapped = super().map(raw)
        assert isinstance(mapped, MappedWebhook)
        is_long = mapped.event_id == "evt_long"
        return replace(mapped, reference="x" * (TEXT_CHARS_MAX + 1)) if is_long else mapped


async def test_a_meaning_that_the_log_cannot_hold_is_none(
    servers: Addresses, database_url: str
) -> None:
    """The webhook is kept and counted as one that nobody understood, whether its action is known
    or comes later: once it was parked, its match would have ended every inquirer.
    """
    mappings = {"simulated": Rambling()}
    async with (
        installed(servers.kafka_bootstrap) as one,
        reconciling(one, database_url, mappings) as all_,
    ):
        long, good = settlement("evt_long", action_key=KEY), settlement("evt_1", action_key=KEY)
        first, second = await receive(one, long, good)
        rows = await rows_become(all_.pool, 2)
        assert (rows[first]["classification"], rows[first]["reason"]) == (
            "unrecognised",
            "unreportable_answer",
        )
        assert rows[second]["classification"] == "parked"


async def test_a_key_of_an_action_on_another_account_is_a_case(
    servers: Addresses, database_url: str
) -> None:
    """Whoever holds the secret of one account can write the key of any action: it stays nobody's,
    where somebody sees it, and the ledger hears nothing.
    """
    builder = LedgerBuilder()
    builder.take(x.propose())
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await project(all_.pool, builder)
        foreign = settlement(
            "evt_1", action_key=x.CHARGE, account="sandbox", verified_for="sandbox"
        )
        own = settlement("evt_2", action_key=x.CHARGE)
        first, second = await receive(one, foreign, own)
        rows = await rows_become(all_.pool, 2)
        assert (rows[first]["classification"], rows[first]["reason"]) == (
            "parked",
            "account_differs",
        )
        assert rows[second]["classification"] == "matched"
        (found,) = await evidence(one)
        assert found.account == "main"


async def test_a_line_with_our_key_as_provider_key_is_matched_when_its_action_appears(
    servers: Addresses, database_url: str
) -> None:
    """The tables were behind when it came, and nobody else ever names its reference."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        (place,) = await receive(one, line("l" * LINE_ID_CHARS_MAX, provider_key=x.CHARGE))
        await classified(all_.pool, place, "parked")
        await project(all_.pool, builder)
        swept = await sweep_parked(all_.pool, all_.appender, partitions=PARTITIONS, now_ms=wall_ms)
        assert swept == 1
        (found,) = await evidence(one)
        assert found.key == x.CHARGE


async def test_what_is_told_ahead_of_the_tables_is_counted_as_no_orphan(
    servers: Addresses, database_url: str
) -> None:
    """Its evidence is in the log, and so is how long that took; what the tables say comes later."""
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        await receive(one, settlement("1", action_key=KEY), settlement("2"))
        appender, window = SteadyAppender(one.log.appender), WebhookWindow()
        seen = WebhookDesk(
            appender, pool, SIMULATED, partitions=PARTITIONS, now_ms=wall_ms, window=window
        )
        await seen.handle(await all_records(one, Topic.WEBHOOKS))
        await appender.close()
        now = wall_ms()
        assert window.webhooks(now) == {"simulated": {"reference_unknown": 1, "told_ahead": 1}}
        assert sum(window.matched_within(now)) == len(await evidence(one)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            DAMAGED.replace("what", "event_type = repeat('x', 5000)"), id="a text that is too long"
        ),
        pytest.param(DAMAGED.replace("what", "currency = 'no currency'"), id="money that is none"),
        pytest.param(
            DAMAGED.replace("what", "effect = 'undone'"), id="an effect that had another name"
        ),
    ],
)
async def test_what_an_older_version_kept_ends_no_sweep(
    servers: Addresses, database_url: str, damage: str
) -> None:
    """A parked webhook in words that the log cannot hold is one that no mapping understands, which
    a replay reads again from its bytes; the one behind it is matched by the same sweep.
    """
    other = f"{KEY}#2"
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        odd, good = await receive(
            one, settlement("evt_odd", action_key=KEY), settlement("evt_good", action_key=other)
        )
        await desk(one, pool, appender).handle(await all_records(one, Topic.WEBHOOKS))
        told = len(await evidence(one))
        await pool.execute(damage, odd[0], odd[1])
        await know_action(pool, KEY, other)
        swept = await sweep_parked(pool, appender, partitions=PARTITIONS, now_ms=wall_ms)
        found = await rows_become(pool, 2)
        assert (swept, found[good]["classification"]) == (1, "matched")
        assert (found[odd]["classification"], found[odd]["reason"]) == (
            "unrecognised",
            UNREPORTABLE,
        )
        assert len(await evidence(one)) == told + 1
        await appender.close()


async def test_a_key_of_no_action_is_nobodys_for_a_month_and_listed_for_ever(
    servers: Addresses, database_url: str
) -> None:
    """What bears a well-formed key of an action that does not exist is told and parked. After 30
    days no action that appears under it is taken for its maker, for that was made later; the effect
    stays on the list of those who look, and what states none among the expired.
    """
    other = f"{KEY}#2"
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        await receive(
            one,
            settlement("evt_1", action_key=KEY),
            settlement("evt_2", action_key=other, event_type="effect.refused"),
        )
        await desk(one, pool, appender).handle(await all_records(one, Topic.WEBHOOKS))
        assert {given.key for given in await evidence(one)} == {KEY, other}
        reasons = {row["event_id"]: row["reason"] for row in (await rows_become(pool, 2)).values()}
        assert reasons == {"evt_1": "orphan_effect", "evt_2": "action_unknown"}

        late_ms = wall_ms() + PARKED_MS
        await know_action(pool, KEY, other)
        swept = await sweep_parked(pool, appender, partitions=PARTITIONS, now_ms=lambda: late_ms)
        assert swept == 0
        expired = await list_webhooks(pool, State.EXPIRED, now_ms=late_ms, limit=10)
        assert {view.event_id for view in expired} == {"evt_1", "evt_2"}
        assert [(one.waiting, one.expired) for one in await unmatched(pool, now_ms=late_ms)] == [
            (0, 1),
            (0, 1),
        ]
        (orphan,), _ = await list_orphans(pool, ("*",), limit=10)
        assert orphan.event_id == "evt_1"
        swept = await sweep_parked(pool, appender, partitions=PARTITIONS, now_ms=wall_ms)
        assert swept == 2, "within the month it is theirs"
        await appender.close()
