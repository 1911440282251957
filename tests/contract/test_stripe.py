"""What Stripe's answers say, and what its keys remember."""

import dataclasses
from pathlib import Path

import pytest

from ledger.core.money import Money
from reconciler.providers.port import (
    Absent,
    Found,
    Inconclusive,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from tests.contract.stage import ProviderProcess
from tests.contract.stripe_shop import Shop
from tests.contract.stripe_stage import MODULE, StripeStage


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("pm_card_visa_chargeDeclined", "card_declined"),
        ("pm_card_visa_chargeDeclinedInsufficientFunds", "insufficient_funds"),
        ("pm_card_chargeDeclinedExpiredCard", "expired_card"),
        ("pm_card_chargeDeclinedProcessingError", "processing_error"),
        ("pm_card_authenticationRequired", "authentication_required"),
    ],
)
async def test_a_decline_is_refused_with_the_issuers_reason(
    stripe: StripeStage, method: str, code: str
) -> None:
    """It is final, it is the same under the same key, and the payment it leaves is no effect."""
    shop = Shop(stripe)
    request = shop.payment(method)
    assert await shop.perform(request) == Refused(code, Retry.NEVER)
    assert await shop.perform(request) == Refused(code, Retry.NEVER)
    left = await shop.listed("/v1/payment_intents")
    assert [one["status"] for one in left] == ["requires_payment_method"]
    assert await shop.find(request) == Absent()


@pytest.mark.case("C085")
async def test_c085_what_a_bank_has_not_answered_stays_open(stripe: StripeStage) -> None:
    """C085: a payment in processing is neither found nor absent, however often one looks, and is
    found when its bank has answered.
    """
    shop = Shop(stripe)
    request = shop.payment("pm_sepaDebit")
    assert await shop.perform(request) == Unresolved("payment_processing")
    for _ in range(3):
        assert await shop.find(request) == Inconclusive("payment_intent_pending")
    await shop.control("settle", id="pi_1", status="succeeded")
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert found.reference == "pi_1"


async def test_a_payment_that_its_bank_refuses_is_absent(stripe: StripeStage) -> None:
    """The bank's late no leaves a payment that waits for another card: no money has moved."""
    shop = Shop(stripe)
    request = shop.payment("pm_usBankAccount")
    assert await shop.perform(request) == Unresolved("payment_processing")
    await shop.control("settle", id="pi_1", status="failed", reason="insufficient_funds")
    assert await shop.find(request) == Absent()


async def test_a_hold_is_an_effect_where_a_hold_was_asked_for(stripe: StripeStage) -> None:
    """With manual capture the authorised amount is what the action asked for."""
    shop = Shop(stripe)
    request = shop.payment(capture="manual")
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    assert outcome.result["status"] == "requires_capture"


async def test_refunds_add_up_to_what_was_paid(stripe: StripeStage) -> None:
    """In part and in part again, and no minor unit beyond; each refusal is definite."""
    shop = Shop(stripe)
    payment = await shop.paid()
    first = await shop.perform(shop.refund(payment, 1_990))
    assert isinstance(first, Succeeded)
    assert first.reference == "re_1"
    assert first.result["payment_intent"] == payment
    over = await shop.perform(shop.refund(payment, 3_001))
    assert over == Refused("invalid_request_error", Retry.NEVER)
    assert isinstance(await shop.perform(shop.refund(payment, 3_000)), Succeeded)
    again = await shop.perform(shop.refund(payment, 1))
    assert again == Refused("charge_already_refunded", Retry.NEVER)
    nothing = await shop.perform(shop.refund("pi_77", 1))
    assert nothing == Refused("resource_missing", Retry.NEVER)


async def test_a_refund_by_its_charge_is_the_same_refund(stripe: StripeStage) -> None:
    """A reference may be the name of the charge."""
    shop = Shop(stripe)
    payment = await shop.paid()
    outcome = await shop.perform(shop.refund(payment.replace("pi_", "ch_"), 500))
    assert isinstance(outcome, Succeeded)
    assert outcome.result["payment_intent"] == payment


@pytest.mark.case("C085")
async def test_c085_a_pending_refund_is_found_when_it_arrives(stripe: StripeStage) -> None:
    """C085: Stripe says pending and sends nothing; the refund is settled by the list, days later,
    and one that fails in the end is none.
    """
    shop = Shop(stripe)
    payment = await shop.paid("pm_card_pendingRefund")
    request, other = shop.refund(payment, 1_000), shop.refund(payment, 500)
    assert await shop.perform(request) == Unresolved("refund_pending")
    assert await shop.perform(other) == Unresolved("refund_pending")
    assert await shop.find(request) == Inconclusive("refund_pending")
    await shop.control("settle", id="re_1", status="succeeded", webhooks=[])
    await shop.control("settle", id="re_2", status="failed", webhooks=[])
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert (found.reference, found.money) == ("re_1", Money(minor=1_000, currency="USD"))
    assert await shop.find(other) == Absent()


async def test_a_disputed_payment_is_not_given_back_twice(stripe: StripeStage) -> None:
    """What the bank has taken back cannot be refunded as well."""
    shop = Shop(stripe)
    payment = await shop.paid()
    await shop.control("dispute", payment_intent=payment, amount=1_000)
    assert await shop.perform(shop.refund(payment, 100)) == Refused("charge_disputed", Retry.NEVER)


@pytest.mark.case("C073")
@pytest.mark.parametrize(
    ("minor", "currency", "shown"),
    [(18_600, "KWD", 18_600), (500, "JPY", 500), (5, "ISK", 500), (1_200, "MGA", 12)],
)
async def test_c073_amounts_arrive_in_stripes_own_units(
    stripe: StripeStage, minor: int, currency: str, shown: int
) -> None:
    """C073: what Stripe counts otherwise than ISO is converted exactly, both ways."""
    shop = Shop(stripe)
    request = shop.payment(minor=minor, currency=currency)
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    assert (await shop.fetch(f"/v1/payment_intents/{outcome.reference}"))["amount"] == shown
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert found.money == Money(minor=minor, currency=currency)


# --- what a key remembers -------------------------------------------------------------------------


async def test_a_kept_500_hides_the_payment_from_its_key_and_not_from_a_lookup(
    stripe: StripeStage,
) -> None:
    """The same key is answered with the same 500; the lookup sees the payment behind it."""
    shop = Shop(stripe)
    request = shop.payment()
    stripe.script(request.action_key, "fail_after_commit")
    assert [await shop.perform(request) for _ in range(2)] == [Unresolved("api_error")] * 2
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert found.provider_key == request.action_key


async def test_a_key_is_answered_with_what_was_answered_first(stripe: StripeStage) -> None:
    """Whatever has become of the payment since: refunded, it still shows as it was taken."""
    shop = Shop(stripe)
    request = shop.payment()
    first = await shop.perform(request)
    assert isinstance(first, Succeeded)
    await shop.control("settle", id=first.reference, status="canceled")
    assert await shop.perform(request) == first
    assert await shop.find(request) == Absent(), "a lookup sees it as it is"


async def test_a_key_belongs_to_one_address(stripe: StripeStage) -> None:
    """A refund under the key of a payment is refused: nothing of it happened."""
    shop = Shop(stripe)
    request = shop.payment()
    payment = await shop.perform(request)
    assert isinstance(payment, Succeeded)
    refund = dataclasses.replace(shop.refund(payment.reference, 100), action_key=request.action_key)
    assert await shop.perform(refund) == Refused("idempotency_error", Retry.NEVER)
    assert await shop.listed("/v1/refunds") == []


async def test_what_was_not_executed_is_not_remembered(stripe: StripeStage) -> None:
    """After a refusal of its limit the same key makes the payment."""
    shop = Shop(stripe)
    request = shop.payment()
    stripe.script(request.action_key, "limit", retry_after_s=2)
    assert await shop.perform(request) == Refused("rate_limit", Retry.LATER, 2_000)
    assert isinstance(await shop.perform(request), Succeeded)


async def test_a_limit_of_the_account_comes_before_its_keys(stripe: StripeStage) -> None:
    """Over the limit nothing is executed or looked up, and how long to wait is told; within it
    the same key makes the payment.
    """
    shop = Shop(stripe)
    request = shop.payment()
    await shop.control("rate", per_second=0, retry_after_s=9)
    assert await shop.perform(request) == Refused("rate_limit", Retry.LATER, 9_000)
    assert await shop.find(request) == Inconclusive("rate_limit", 9_000)
    await shop.control("rate", per_second=None)
    assert isinstance(await shop.perform(request), Succeeded)


async def test_the_marks_are_on_the_first_request(stripe: StripeStage) -> None:
    """What the provider keeps says whose it is, from the very request that made it."""
    shop = Shop(stripe)
    request = shop.payment()
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    shown = await shop.fetch(f"/v1/payment_intents/{outcome.reference}")
    assert shown["metadata"] == {
        "actionledger_account": shop.account,
        "actionledger_action_key": request.action_key,
        "actionledger_operation": "pay",
        "actionledger_provider_key": request.action_key,
        "actionledger_request_hash": request.request_hash,
    }


async def test_killed_it_comes_back_with_what_has_happened(tmp_path: Path) -> None:
    """Payments, disputes, events and the memory of keys outlive the process."""
    process = ProviderProcess(tmp_path, module=MODULE)
    process.start()
    try:
        shop = Shop(StripeStage(process))
        request = shop.payment()
        first = await shop.perform(request)
        assert isinstance(first, Succeeded)
        opened = await shop.control("dispute", payment_intent=first.reference)
        process.kill()
        process.start()
        assert await shop.perform(request) == first
        dispute = await shop.fetch(f"/v1/disputes/{opened}")
        assert dispute["payment_intent"] == first.reference
        types = [one["type"] for one in await shop.listed("/v1/events")]
        assert types.count("payment_intent.succeeded") == 1
        assert types.count("charge.dispute.created") == 1
    finally:
        process.stop()
