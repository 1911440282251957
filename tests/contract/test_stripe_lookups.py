"""What is concluded from Stripe's searches, lists and objects."""

import asyncio
import dataclasses

import pytest

from ledger.core.money import Money
from reconciler.providers.contract.stage import DEADLINES, always
from reconciler.providers.port import Absent, Found, Inconclusive, Succeeded, Unresolved
from reconciler.providers.stripe.finder import StripeFinder
from tests.contract.calls import eventually, finding, performing
from tests.contract.stripe_shop import Shop
from tests.contract.stripe_stage import StripeStage
from tests.patience import PATIENCE_MS


@pytest.mark.case("C095")
async def test_c095_an_index_that_is_behind_is_no_absence(stripe: StripeStage) -> None:
    """C095: the search knows nothing for a minute; the list does, so the effect is found at once
    and nothing is created a second time.
    """
    shop = Shop(stripe, search_lag_ms=60_000)
    request = shop.payment()
    stripe.script(request.action_key, "commit_then_drop")
    assert isinstance(await shop.perform(request), Unresolved)
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert len(await shop.listed("/v1/payment_intents")) == 1


@pytest.mark.case("C097")
async def test_c097_a_search_only_gives_candidates(stripe: StripeStage) -> None:
    """C097: what a search shows beside the question is nobody's evidence, what it hides is found by
    list and by reference, and the evidence names the direct read it comes from.
    """
    shop = Shop(stripe)
    stranger = await shop.paid()
    request = shop.payment()
    await shop.control("search", also=[stranger], shows_nothing=True)
    assert await shop.find(request) == Absent()
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    for reference in (None, outcome.reference):
        found = await shop.find(request, reference)
        assert isinstance(found, Found)
        assert found.reference == outcome.reference
        assert found.result["read"] == f"GET /v1/payment_intents/{outcome.reference}"


@pytest.mark.case("C097")
async def test_c097_a_stale_candidate_is_read_again(stripe: StripeStage) -> None:
    """C097: a canceled payment that a search still shows is concluded from as it is now."""
    shop = Shop(stripe)
    request = shop.payment()
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    await shop.control("settle", id=outcome.reference, status="canceled")
    await shop.control("search", also=[outcome.reference])
    assert await shop.find(request) == Absent()


@pytest.mark.case("C099")
async def test_c099_what_finishes_after_we_gave_up_is_found_later(stripe: StripeStage) -> None:
    """C099: while the first request still runs nothing is there and its key is in use; afterwards
    there is one payment.
    """
    shop = Shop(stripe)
    request = shop.payment()
    stripe.script(request.action_key, "commit_late", late_ms=2_500)
    async with performing(stripe) as performer:
        running = asyncio.create_task(
            performer.perform(
                request,
                provider_key=request.action_key,
                deadlines=dataclasses.replace(DEADLINES, response_ms=200),
                before_first_byte=always,
            )
        )
        assert await running == Unresolved("answer_timed_out")
    assert await shop.find(request) == Absent()
    assert await shop.perform(request) == Unresolved("idempotency_key_in_use")
    await eventually(lambda: len(stripe.book(shop.account)) == 2)
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert found.further_references == ()


async def test_a_second_payment_of_an_action_is_shown(stripe: StripeStage) -> None:
    """Made past the ledger with our mark, or by a key that was forgotten: never passed over."""
    shop = Shop(stripe, search_lag_ms=60_000)
    request = shop.payment()
    first = await shop.perform(request)
    assert isinstance(first, Succeeded)
    again = dataclasses.replace(request)
    async with performing(stripe) as performer:
        second = await performer.perform(
            again, provider_key="another-key", deadlines=DEADLINES, before_first_byte=always
        )
    assert isinstance(second, Succeeded)
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert (found.reference, found.further_references) == (first.reference, (second.reference,))


async def test_the_list_of_effects_leaves_out_what_moved_no_money(stripe: StripeStage) -> None:
    """Payments and refunds, by our words; declined, pending and canceled ones are none."""
    shop = Shop(stripe)
    payment = await shop.paid()
    await shop.perform(shop.payment("pm_card_visa_chargeDeclined"))
    await shop.perform(shop.payment("pm_sepaDebit"))
    refund = shop.refund(payment, 990)
    await shop.perform(refund)
    async with finding(stripe) as finder:
        listed = [
            one
            async for one in finder.list_effects(
                account=shop.account, since_at=0, timeout_ms=PATIENCE_MS
            )
        ]
    assert [(one.reference, one.operation) for one in listed] == [
        (payment, "pay"),
        ("re_1", "refund"),
    ]
    assert listed[1].action_key == refund.action_key
    assert listed[1].money == Money(minor=990, currency="USD")


async def test_a_list_that_is_too_long_is_no_absence(stripe: StripeStage) -> None:
    """What was not read to its end says nothing; what is found in it is found all the same."""
    shop = Shop(stripe, search_lag_ms=60_000)
    async with performing(stripe) as performer:
        first, *_, last = requests = [shop.payment() for _ in range(101)]
        for request in requests:
            await performer.perform(
                request,
                provider_key=request.action_key,
                deadlines=DEADLINES,
                before_first_byte=always,
            )
    settings = stripe.settings()
    finder = StripeFinder(stripe.process.url, settings.api_keys, pages_max=1)
    found = [
        await finder.find(
            account=shop.account,
            provider_key=request.action_key,
            action_key=request.action_key,
            reference=None,
            timeout_ms=PATIENCE_MS,
        )
        for request in (first, last)
    ]
    await finder.close()
    assert found[0] == Inconclusive("too_many_to_look_through")
    assert isinstance(found[1], Found)
    assert isinstance(await shop.find(first), Found), "read to its end it is there"
