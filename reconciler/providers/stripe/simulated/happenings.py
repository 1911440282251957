"""What happens at the simulated Stripe without a request of ours, and how tests let it happen.

Guarantees that whatever happens is on disk, shows in the object, and has its events. Must never be
reachable where real money is: nothing here asks who calls. Used by the server.
"""

import time
from typing import Annotated, Final, Literal

from aiohttp import web
from pydantic import Field

from ledger.core.wire import Count, Text, Wire
from reconciler.providers.simulated.errors import parsed
from reconciler.providers.simulated.faults import NORMAL_WEBHOOKS, WebhookPlan
from reconciler.providers.simulated.webhooks import Outbox
from reconciler.providers.stripe.simulated.errors import Refusal
from reconciler.providers.stripe.simulated.events import Journal, events_of, planned
from reconciler.providers.stripe.simulated.limits import RateLimit
from reconciler.providers.stripe.simulated.lists import SearchTrouble
from reconciler.providers.stripe.simulated.objects import PAYMENT, Happening, Shelf, Thing
from reconciler.providers.stripe.simulated.reports import payout_report

_CSV: Final = "text/csv"


class Settle(Wire):
    """The body of `POST /control/settle`: a bank has answered for a payment or a refund."""

    id: Text
    status: Literal["succeeded", "failed", "canceled"]
    reason: Text | None = None
    webhooks: WebhookPlan = NORMAL_WEBHOOKS


class Dispute(Wire):
    """The body of `POST /control/dispute`: a cardholder wants money back. `amount` is Stripe's."""

    payment_intent: Text
    amount: Count | None = None
    reason: Text = "fraudulent"
    status: Literal["needs_response", "warning_needs_response"] = "needs_response"
    webhooks: WebhookPlan = NORMAL_WEBHOOKS


class CloseDispute(Wire):
    """The body of `POST /control/dispute/close`."""

    id: Text
    status: Literal["won", "lost", "warning_closed"]
    webhooks: WebhookPlan = NORMAL_WEBHOOKS


class Searches(Wire):
    """The body of `POST /control/search`: what searches show from now on."""

    also: Annotated[tuple[Text, ...], Field(strict=False, max_length=100)] = ()
    shows_nothing: bool = False


class Rate(Wire):
    """The body of `POST /control/rate`: requests of an account in a second; null is no limit."""

    per_second: Annotated[int, Field(ge=0)] | None
    retry_after_s: Annotated[int, Field(ge=0, le=86_400)] = 0


class Happenings:
    """The routes under `/control` that are Stripe's own."""

    def __init__(
        self,
        shelf: Shelf,
        journal: Journal,
        outbox: Outbox,
        search: SearchTrouble,
        limit: RateLimit,
    ) -> None:
        self._shelf, self._journal, self._outbox = shelf, journal, outbox
        self._search, self._limit = search, limit

    def routes(self) -> list[web.RouteDef]:
        """The routes."""
        return [
            web.post("/control/settle", self.settle),
            web.post("/control/dispute", self.open_dispute),
            web.post("/control/dispute/close", self.close_dispute),
            web.post("/control/search", self.set_search),
            web.post("/control/rate", self.set_rate),
            web.get("/control/payouts/{account}.csv", self.show_payout),
        ]

    async def settle(self, request: web.Request) -> web.StreamResponse:
        """Let a payment or a refund come to its end."""
        given = await parsed(request, Settle)
        thing = self._known(given.id)
        # A payment that fails goes back to waiting for another way to pay.
        failed = given.status == "failed" and thing.kind == PAYMENT
        status = "requires_payment_method" if failed else given.status
        reason = given.reason or ("generic_decline" if failed else None)
        happening = Happening(
            number=self._journal.next_number,
            id=thing.id,
            status=status,
            at=_now(),
            reason=reason,
        )
        return self._happen(thing.account, happening, given.webhooks)

    async def open_dispute(self, request: web.Request) -> web.StreamResponse:
        """Let a cardholder dispute a payment."""
        given = await parsed(request, Dispute)
        payment = self._known(given.payment_intent)
        number = self._journal.next_number
        happening = Happening(
            number=number,
            id=f"du_{number}",
            status=given.status,
            at=_now(),
            about=payment.id,
            reason=given.reason,
            amount=given.amount,
        )
        return self._happen(payment.account, happening, given.webhooks)

    async def close_dispute(self, request: web.Request) -> web.StreamResponse:
        """Let the bank decide a dispute."""
        given = await parsed(request, CloseDispute)
        dispute = self._known(given.id)
        happening = Happening(
            number=self._journal.next_number, id=dispute.id, status=given.status, at=_now()
        )
        return self._happen(dispute.account, happening, given.webhooks)

    async def set_search(self, request: web.Request) -> web.StreamResponse:
        """Let searches show what does not match, or nothing."""
        given = await parsed(request, Searches)
        self._search.also, self._search.shows_nothing = given.also, given.shows_nothing
        return web.json_response({})

    async def set_rate(self, request: web.Request) -> web.StreamResponse:
        """Limit the requests of each account from now on."""
        given = await parsed(request, Rate)
        self._limit.per_second, self._limit.retry_after_s = given.per_second, given.retry_after_s
        return web.json_response({})

    async def show_payout(self, request: web.Request) -> web.StreamResponse:
        """The payout report of everything so far."""
        account = request.match_info["account"]
        return web.Response(
            text=payout_report(self._shelf, account, "po_1"), content_type=_CSV, charset="utf-8"
        )

    def _known(self, object_id: str) -> Thing:
        thing = self._shelf.get(object_id)
        if thing is None:
            raise Refusal(404, f"No such object: '{object_id}'", code="resource_missing")
        return thing

    def _happen(
        self, account: str, happening: Happening, webhooks: WebhookPlan
    ) -> web.StreamResponse:
        self._journal.happen(account, happening)
        thing = self._known(happening.id)
        kept = self._journal.tell(account, events_of(thing, self._shelf), None)
        self._outbox.release(self._outbox.tell(account, planned(webhooks, kept)))
        return web.json_response({"id": happening.id})


def _now() -> int:
    return time.time_ns() // 1_000_000
