"""What is said of a refund before it is made: how much is left, in which currency, or why not."""

import dataclasses

import pytest

from ledger.core.money import Money
from ledger.core.preview import Foreseen
from reconciler.providers.port import ProviderRequest, Unforeseen
from reconciler.providers.registry import previewers
from tests.contract.stripe_shop import Shop
from tests.contract.stripe_stage import StripeStage
from tests.patience import PATIENCE_MS


async def foreseen(shop: Shop, request: ProviderRequest) -> Foreseen | Unforeseen:
    """Ask what it would do, twice: the second look has to see the same facts."""
    previewer = previewers([shop.stage.settings()])["simulated"]
    try:
        seen = await previewer.preview(request, timeout_ms=PATIENCE_MS)
        again = await previewer.recheck(request, timeout_ms=PATIENCE_MS)
    finally:
        await previewer.close()
    assert again == (seen if isinstance(seen, Unforeseen) else seen.observed)
    return seen


async def test_a_refund_says_what_is_left(stripe: StripeStage) -> None:
    """In the payment's own currency, less what was given back before; nothing is done by asking."""
    shop = Shop(stripe)
    payment = await shop.paid()
    await shop.perform(shop.refund(payment, 1_000))
    for original in (payment, payment.replace("pi_", "ch_")):
        assert await foreseen(shop, shop.refund(original, 990)) == Foreseen(
            effect="Gives back 9.90 USD of 49.90 USD that were paid",
            target=original,
            scope="one payment",
            observed={"refundable_minor": 3_990, "currency": "USD"},
        )
    assert len(await shop.listed("/v1/refunds")) == 1


async def test_a_refund_in_another_currency_is_told_before_it_is_made(stripe: StripeStage) -> None:
    """Stripe would give back as many minor units of the payment's own currency."""
    shop = Shop(stripe)
    refund = shop.refund(await shop.paid(), 990)
    euros = dataclasses.replace(refund, money=Money(minor=990, currency="EUR"))
    assert await foreseen(shop, euros) == Unforeseen("payment_in_another_currency")


@pytest.mark.parametrize(("minor", "original"), [(4_991, "pi_1"), (1, "pi_77"), (1, "in_1")])
async def test_a_refund_that_cannot_be_is_not_foreseen(
    stripe: StripeStage, minor: int, original: str
) -> None:
    """More than was paid, or of nothing that Stripe knows."""
    shop = Shop(stripe)
    await shop.paid()
    seen = await foreseen(shop, shop.refund(original, minor))
    nothing = original != "pi_1"
    assert seen == Unforeseen("nothing_to_refund" if nothing else "more_than_is_left")


async def test_a_disputed_payment_has_nothing_to_give_back(stripe: StripeStage) -> None:
    """The bank has it."""
    shop = Shop(stripe)
    payment = await shop.paid()
    await shop.control("dispute", payment_intent=payment)
    assert await foreseen(shop, shop.refund(payment, 1)) == Unforeseen("charge_disputed")


async def test_nobody_foresees_a_payment(stripe: StripeStage) -> None:
    """What a card will answer is known when it has."""
    shop = Shop(stripe)
    assert await foreseen(shop, shop.payment()) == Unforeseen("preview_not_offered")
