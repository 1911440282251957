"""What Stripe tells: webhooks, its own list of events, and payout reports."""

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx
import pytest
from aiohttp import web

from ledger.core.money import Money
from reconciler.providers.limits import ANSWER_BYTES_MAX
from reconciler.providers.port import Absent, Found, MappedWebhook, Succeeded
from reconciler.providers.registry import event_sources, webhook_mappings, webhook_schemes
from reconciler.providers.stripe.names import EVENTS, PAGE_MAX
from reconciler.webhooks import Verified
from tests.contract.calls import eventually, now_ms
from tests.contract.stripe_shop import Shop
from tests.contract.stripe_stage import StripeStage
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBzaW11bGF0ZWQgU3RyaXBl"


@asynccontextmanager
async def receiving(shop: Shop) -> AsyncIterator[list[MappedWebhook]]:
    """What the webhooks mean that arrive meanwhile, each verified by Stripe's scheme."""
    events: list[MappedWebhook] = []
    settings = dataclasses.replace(shop.stage.settings(), api_keys={})
    scheme = webhook_schemes([settings])["simulated"]
    mapping = webhook_mappings([settings])["simulated"]

    async def take(request: web.Request) -> web.Response:
        raw = await request.read()
        verdict = scheme.verify(raw, request.headers, [SECRET], now_ms())
        if not isinstance(verdict, Verified):
            return web.Response(status=401)
        mapped = mapping.map(raw)
        assert isinstance(mapped, MappedWebhook), (mapped, raw)
        events.append(mapped)
        return web.Response(status=202)

    app = web.Application()
    app.add_routes([web.post("/hooks", take)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hooks"
    await shop.control("webhooks", url=url, secret=SECRET)
    try:
        yield events
    finally:
        await shop.control("webhooks", url=None, secret=None)
        await runner.cleanup()


def told(events: list[MappedWebhook]) -> Mapping[str, MappedWebhook]:
    """The events that mean something, by type."""
    return {one.event_type: one for one in events if one.meaning != "irrelevant"}


async def test_a_payment_is_told_with_all_that_matching_needs(stripe: StripeStage) -> None:
    """Payment and charge name one effect, with marker, key, account and amount."""
    shop = Shop(stripe)
    async with receiving(shop) as events:
        request = shop.payment()
        outcome = await shop.perform(request)
        await eventually(lambda: len(events) == 3)
    assert isinstance(outcome, Succeeded)
    for event_type in ("payment_intent.succeeded", "charge.succeeded"):
        event = told(events)[event_type]
        assert (event.meaning, event.effect) == ("final", "exists")
        assert event.reference == outcome.reference
        assert event.action_key == event.provider_key == request.action_key
        assert (event.account, event.money) == (shop.account, request.money)


async def test_a_decline_is_told_as_no_effect(stripe: StripeStage) -> None:
    """The payment's own event is final; the charge's is not, since another may follow."""
    shop = Shop(stripe)
    async with receiving(shop) as events:
        await shop.perform(shop.payment("pm_card_visa_chargeDeclined"))
        await eventually(lambda: len(events) == 3)
    seen = told(events)
    assert seen["payment_intent.payment_failed"].effect == "none"
    assert seen["charge.failed"].meaning == "progress"


async def test_a_forged_event_is_refused(stripe: StripeStage) -> None:
    """Signed with another secret, it never gets as far as a meaning; the true ones do."""
    shop = Shop(stripe)
    request = shop.payment()
    webhooks = [{"kind": "forged"}, {"kind": "normal"}]
    script = {"match": {"action_key": request.action_key}, "webhooks": webhooks}
    async with receiving(shop) as events:
        await shop.control("script", scripts=[script])
        await shop.perform(request)
        await eventually(lambda: len(events) == 3)


async def test_a_refund_of_ours_is_its_own_effect_and_anothers_gives_back(
    stripe: StripeStage,
) -> None:
    """With our mark it settles its action; without one it reverses the payment it names."""
    shop = Shop(stripe)
    payment = await shop.paid()
    async with receiving(shop) as events:
        ours = shop.refund(payment, 990)
        await shop.perform(ours)
        await eventually(lambda: "refund.created" in told(events))
        event = told(events)["refund.created"]
        assert (event.effect, event.action_key, event.reverses) == (
            "exists",
            ours.action_key,
            None,
        )
        events.clear()
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as somebody:
            await somebody.post(
                f"{stripe.process.url}/v1/refunds",
                headers={"Authorization": f"Bearer sk_test_{shop.account}"},
                data={"payment_intent": payment, "amount": "1000"},
            )
        rows = await unmapped(shop, "refund.created")
    event = webhook_of(shop, rows[-1])
    assert (event.effect, event.reference, event.reverses) == ("reversed", "re_2", payment)
    assert event.money == Money(minor=1_000, currency="USD")


async def unmapped(shop: Shop, event_type: str) -> list[bytes]:
    """Events of one type, as Stripe lists them."""
    settings = shop.stage.settings()
    source = event_sources([settings])["simulated"]
    try:
        return [
            event.raw
            async for page in source.list_events(
                account=shop.account, since_at=0, timeout_ms=PATIENCE_MS
            )
            for event in page
            if f'"{event_type}"'.encode() in event.raw
        ]
    finally:
        await source.close()


def webhook_of(shop: Shop, raw: bytes) -> MappedWebhook:
    """What an event means where the description has one account alone."""
    path = shop.stage.process.folder / "alone.toml"
    text = shop.stage.adapter_file.read_text()
    path.write_text(f'{text}\n[credentials]\n"{shop.account}" = "unread"\n')
    settings = dataclasses.replace(shop.stage.settings(), adapter_file=path, api_keys={})
    mapped = webhook_mappings([settings])["simulated"].map(raw)
    assert isinstance(mapped, MappedWebhook), mapped
    return mapped


@pytest.mark.case("C079")
async def test_c079_a_dispute_gives_back_a_part_under_its_own_name(stripe: StripeStage) -> None:
    """C079: opened, withdrawn and lost are one reversal of that part; an inquiry moves nothing, and
    of one that is won nothing was given back.
    """
    shop = Shop(stripe)
    payment, other = await shop.paid(), await shop.paid()
    opened = await shop.control("dispute", payment_intent=payment, amount=1_200)
    await shop.control("dispute/close", id=opened, status="lost")
    inquiry = await shop.control("dispute", payment_intent=other, status="warning_needs_response")
    await shop.control("dispute/close", id=inquiry, status="won")
    events = [webhook_of(shop, raw) for raw in await unmapped(shop, "dispute")]
    reversals = [one for one in events if one.effect == "reversed"]
    assert {one.event_type for one in reversals} == {
        "charge.dispute.created",
        "charge.dispute.funds_withdrawn",
        "charge.dispute.closed",
    }
    assert {(one.reference, one.reverses, one.money) for one in reversals} == {
        (opened, payment, Money(minor=1_200, currency="USD"))
    }
    rest = {(one.meaning, one.effect) for one in events if one not in reversals}
    assert rest == {("progress", "pending"), ("final", "none")}


async def test_events_that_were_never_sent_are_listed_oldest_first(stripe: StripeStage) -> None:
    """Each with its id, and from the time that is asked for."""
    shop = Shop(stripe)
    requests = [shop.payment() for _ in range(3)]
    for request in requests:
        stripe.process.control(
            "script",
            {"scripts": [{"match": {"action_key": request.action_key}, "webhooks": []}]},
        )
        await shop.perform(request)
    raws = await unmapped(shop, "payment_intent.succeeded")
    mapped = [webhook_of(shop, raw) for raw in raws]
    assert [one.action_key for one in mapped] == [one.action_key for one in requests]
    settings = stripe.settings()
    source = event_sources([settings])["simulated"]
    later = [
        page
        async for page in source.list_events(
            account=shop.account, since_at=now_ms() + 120_000, timeout_ms=PATIENCE_MS
        )
    ]
    await source.close()
    assert later == []


async def test_a_payout_report_shows_every_movement(stripe: StripeStage) -> None:
    """Payments, refunds and disputes, in major units, with the marker in a column."""
    shop = Shop(stripe)
    payment = await shop.paid()
    refund = shop.refund(payment, 990)
    await shop.perform(refund)
    await shop.control("dispute", payment_intent=payment, amount=1_000)
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        url = f"{stripe.process.url}/control/payouts/{shop.account}.csv"
        header, *rows = [line.split(",") for line in (await client.get(url)).text.splitlines()]
    read = [dict(zip(header, row, strict=True)) for row in rows]
    assert [(one["reporting_category"], one["gross"]) for one in read] == [
        ("charge", "49.90"),
        ("refund", "-9.90"),
        ("dispute", "-10.00"),
    ]
    assert {one["payment_intent_id"] for one in read} == {payment}
    assert read[1]["refund_metadata[actionledger_action_key]"] == refund.action_key


async def test_more_than_fits_one_answer_is_read_all_the_same(stripe: StripeStage) -> None:
    """A full page of events or payments is larger than an answer may be: fewer are asked for, so
    that no event is left out and a lookup still proves an absence.
    """
    shop = Shop(stripe)
    requests = [shop.payment(minor=100 + nth) for nth in range(110)]
    for request in requests:
        assert isinstance(await shop.perform(request), Succeeded)
    page = await shop.raw(f"{EVENTS}?limit={PAGE_MAX}")
    assert len(page) > ANSWER_BYTES_MAX
    raws = await unmapped(shop, "payment_intent.succeeded")
    assert [webhook_of(shop, raw).action_key for raw in raws] == [
        one.action_key for one in requests
    ]
    assert isinstance(await shop.find(requests[0]), Found)
    assert await shop.find(shop.payment()) == Absent()
