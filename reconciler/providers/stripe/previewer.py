"""Says what a refund would give back, by reading the payment that it is of.

Guarantees that nothing can be caused: it has no call but GET, and no key. A refund has no currency
of its own at Stripe (docs.stripe.com/api/refunds/create): it is in that of the payment, whatever
the action says. So an action in another currency, or for more than is left, is told before anybody
agrees to it, and again just before it is sent. Of a payment nobody can say beforehand what its card
will answer. Held by the inquirer, and by executors for the look just before they act.
"""

import asyncio
from collections.abc import Mapping

from pydantic import JsonValue

from ledger.core.money import Money, format_money
from ledger.core.preview import Foreseen
from reconciler.providers.http.answers import UnreadableAnswer, value_at
from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Exchanges, HttpClient, Trouble
from reconciler.providers.lookups import Unanswered
from reconciler.providers.port import ProviderRequest, Unforeseen
from reconciler.providers.stripe.asking import Asking
from reconciler.providers.stripe.description import StripeDescription
from reconciler.providers.stripe.effects import money_in, text_or_none
from reconciler.providers.stripe.names import CHARGES, PAYMENTS

_CHARGE = ("ch_", "py_")


class StripePreviewer:
    """Foresees refunds at Stripe."""

    def __init__(
        self,
        description: StripeDescription,
        base_url: str,
        api_keys: Mapping[str, str],
        *,
        http: Exchanges | None = None,
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet;
        raises ValueError for the URL.
        """
        self._description = description
        self._asking = Asking(HttpClient(base_url) if http is None else http, api_keys)

    async def preview(self, request: ProviderRequest, *, timeout_ms: int) -> Foreseen | Unforeseen:
        """Read the payment and say what would be left of it; see the port."""
        perform = self._description.performs.get(request.operation)
        if perform is None or perform.makes != "refund" or request.money is None:
            return Unforeseen("preview_not_offered")
        try:
            original = perform.of.text(names_of(request)) or ""
            async with asyncio.timeout(timeout_ms / 1000):
                charge = await self._charge(request.account, original, timeout_ms)
            return _foreseen(request.money, original, charge)
        except Unanswered as unanswered:
            return Unforeseen(unanswered.code)
        except UnreadableAnswer:
            return Unforeseen(Trouble.ANSWER_INVALID.value)
        except Unsendable:
            return Unforeseen(Trouble.UNSENDABLE.value)
        except TimeoutError:
            return Unforeseen("preview_timed_out")

    async def recheck(
        self, request: ProviderRequest, *, timeout_ms: int
    ) -> Mapping[str, JsonValue] | Unforeseen:
        """Read it again, for the volatile facts alone; see the port."""
        read = await self.preview(request, timeout_ms=timeout_ms)
        return read if isinstance(read, Unforeseen) else read.observed

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._asking.close()

    async def _charge(self, account: str, original: str, timeout_ms: int) -> object:
        """The charge that would be given back; raises Unanswered, UnreadableAnswer."""
        name: str | None = original
        if original.startswith("pi_"):
            payment = await self._asking.one(account, PAYMENTS, original, timeout_ms)
            name = None if payment is None else text_or_none(payment, "latest_charge")
        elif not original.startswith(_CHARGE):
            raise Unanswered("nothing_to_refund")
        charge = None
        if name is not None:
            charge = await self._asking.one(account, CHARGES, name, timeout_ms)
        if charge is None:
            raise Unanswered("nothing_to_refund")
        return charge


def _foreseen(asked: Money, original: str, charge: object) -> Foreseen | Unforeseen:
    """What a refund of this much comes to; raises UnreadableAnswer."""
    taken, given = money_in(charge, "amount_captured"), money_in(charge, "amount_refunded")
    if taken is None or given is None or taken.currency != asked.currency:
        return Unforeseen("payment_in_another_currency")
    left = taken.minor - given.minor
    if asked.minor > left:
        return Unforeseen("more_than_is_left")
    if value_at(charge, ("disputed",)) is True:
        return Unforeseen("charge_disputed")
    return Foreseen(
        effect=f"Gives back {format_money(asked)} of {format_money(taken)} that were paid",
        target=original,
        scope="one payment",
        observed={"refundable_minor": left, "currency": taken.currency},
    )
