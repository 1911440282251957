"""The simulated Stripe as an HTTP server: payments, refunds, lists, searches, events.

Guarantees what the simulated provider does, whose book, desk and faults it uses: an answer leaves
only after its line is in the book, and a request once taken is carried to its end. Its own are the
forms, the errors and what is remembered under a key (docs.stripe.com/error-low-level): everything,
server errors too, but for what was refused before it was executed. Must not be reachable where real
money is: API keys authenticate nothing. Started by `python -m
reconciler.providers.stripe.simulated`.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import orjson
from aiohttp import web

from reconciler.providers.limits import REQUEST_BYTES_MAX
from reconciler.providers.simulated.answers import delivered
from reconciler.providers.simulated.api import EffectRequest
from reconciler.providers.simulated.book import Arrival, Book
from reconciler.providers.simulated.control import Control
from reconciler.providers.simulated.effects import FAILED_AFTER, Desk, Made, Not
from reconciler.providers.simulated.faults import (
    Asked,
    Course,
    Delivery,
    Faults,
    Personality,
    WebhookStep,
)
from reconciler.providers.simulated.foresight import Foresight
from reconciler.providers.simulated.server import ServerSettings
from reconciler.providers.simulated.webhooks import Outbox
from reconciler.providers.stripe.forms import Form, text_of
from reconciler.providers.stripe.names import CHARGES, EVENTS, PAYMENTS, REFUNDS
from reconciler.providers.stripe.simulated.errors import Refusal, answered, error, refusals, refused
from reconciler.providers.stripe.simulated.events import Journal, events_of, planned, signed
from reconciler.providers.stripe.simulated.happenings import Happenings
from reconciler.providers.stripe.simulated.limits import RateLimit
from reconciler.providers.stripe.simulated.lists import Page, SearchTrouble, page_of, searched
from reconciler.providers.stripe.simulated.objects import (
    PAYMENT,
    REFUND,
    Object,
    Shelf,
    Thing,
    charge_shown,
    declined_id,
    payment_of_charge,
    payment_shown,
    shown,
)
from reconciler.providers.stripe.simulated.requests import (
    account_of,
    form_of,
    key_of,
    payment_of,
    refund_of,
)
from reconciler.providers.stripe.simulated.rules import rule_of

_DECLINED: Final = 402
USUAL: Final = Personality(server_errors="remembered", refusals="remembered")
"""As docs.stripe.com/error-low-level has it: once a request is executed, its answer is what the
same key gets, whatever it was, for 24 hours."""


class SimulatedStripe:
    """One Stripe with one book. Opens its folder when built; `app` runs it."""

    def __init__(self, settings: ServerSettings) -> None:
        """Read the book again. Raises UnreadableBook, OSError."""
        self._shelf = Shelf()
        self._book = Book(settings.folder, watch=self._shelf.take)
        self._journal = Journal(settings.folder, self._shelf)
        self._outbox = Outbox(
            settings.folder,
            seed=settings.seed,
            retry_first_ms=settings.webhook_retry_first_ms,
            sign=signed,
        )
        self._faults = Faults(settings.seed)
        self._desk = Desk(self._book, rule=rule_of(self._shelf))
        self._search = SearchTrouble()
        self._limit = RateLimit()
        self._happenings = Happenings(
            self._shelf, self._journal, self._outbox, self._search, self._limit
        )
        self.control = Control(
            settings.folder, self._book, self._outbox, self._faults, Foresight(), usual=USUAL
        )

    def app(self) -> web.Application:
        """Stripe as one application; it sends webhooks while it runs."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX, middlewares=[refusals])
        app.cleanup_ctx.append(self._lifetime)
        app.add_routes(
            [
                web.post(PAYMENTS, self.create_payment),
                web.post(REFUNDS, self.create_refund),
                web.get(f"{PAYMENTS}/search", self.search_payments),
                web.get(PAYMENTS, self.list_payments),
                web.get(REFUNDS, self.list_refunds),
                web.get(EVENTS, self.list_events),
                web.get(f"{PAYMENTS}/{{id}}", self.show),
                web.get(f"{REFUNDS}/{{id}}", self.show),
                web.get("/v1/disputes/{id}", self.show),
                web.get(f"{CHARGES}/{{id}}", self.show_charge),
                web.get(f"{EVENTS}/{{id}}", self.show_event),
                web.get("/v1/book", self.show_book),
                web.get("/health", self.show_health),
                # The first one that fits answers: a reset forgets more here than elsewhere.
                web.post("/control/reset", self.reset),
                *self._happenings.routes(),
                *self.control.routes(),
            ]
        )
        return app

    # --- what has an effect -----------------------------------------------------------------

    async def create_payment(self, request: web.Request) -> web.StreamResponse:
        """Make and confirm a PaymentIntent, or answer for the one made before."""
        account, form = self._account(request), form_of(await request.read())
        body, detail = payment_of(form)
        return await self._effect(request, account, PAYMENT, body, detail)

    async def create_refund(self, request: web.Request) -> web.StreamResponse:
        """Make a Refund, or answer for the one made before."""
        account, form = self._account(request), form_of(await request.read())
        body, detail = refund_of(form, self._shelf)
        return await self._effect(request, account, REFUND, body, detail)

    async def _effect(
        self,
        request: web.Request,
        account: str,
        operation: str,
        body: EffectRequest,
        detail: dict[str, str],
    ) -> web.StreamResponse:
        arrived_at, raw = _now(), await request.read()
        personality = self.control.personality(account)
        key = key_of(request)
        arrival = Arrival(
            request_id=self._book.next_request_id(),
            account=account,
            operation=operation,
            key=key if personality.keys != "unsupported" else None,
            body=body,
            description=detail.get("description"),
            # The endpoint counts as well: a key is for one request to one address.
            parameters_hash="sha256:" + hashlib.sha256(operation.encode() + raw).hexdigest(),
            arrived_at=arrived_at,
            detail=detail,
        )
        asked = Asked(account, operation, body.metadata.action_key)
        course, steps = self._faults.next(asked)
        outcome = await self._desk.decide(arrival, personality, course)
        await self._tell(arrival, steps, outcome)
        if course.after_ms:
            await asyncio.sleep(course.after_ms / 1000)
        status, raw, headers = self._written(arrival, outcome, course, str(request.url))
        headers["Request-Id"] = f"req_{arrival.request_id}"
        return await delivered(request, status, raw, headers, course)

    def _written(
        self, arrival: Arrival, outcome: Made | Not, course: Course, url: str
    ) -> tuple[int, bytes, dict[str, str]]:
        failed = course.delivery is Delivery.SERVER_ERROR and isinstance(outcome, Made)
        if failed:
            outcome = FAILED_AFTER
        if isinstance(outcome, Not):
            return refused(outcome, self._left_by(arrival, outcome), url)
        # What the first request was answered with, whatever has become of it meanwhile.
        made = self._shelf.made[outcome.effect.id]
        headers = {} if outcome.is_new else {"Idempotent-Replayed": "true"}
        return 200, orjson.dumps(shown(made)), headers

    def _left_by(self, arrival: Arrival, no: Not) -> Object | None:
        """The payment that a decline leaves behind; of a repeated one, that of the first."""
        if no.status != _DECLINED or arrival.operation != PAYMENT:
            return None
        first = self._book.line_of_key(arrival.account, arrival.key or "")
        request_id = first.request_id if no.is_replay and first else arrival.request_id
        made = self._shelf.made.get(declined_id(request_id))
        return None if made is None else payment_shown(made)

    async def _tell(
        self, arrival: Arrival, steps: tuple[WebhookStep, ...], outcome: Made | Not
    ) -> None:
        """Keep the events of what just happened and queue them; early ones leave at once."""
        thing: Thing | None = None
        if isinstance(outcome, Made) and outcome.is_new:
            thing = self._shelf.get(outcome.effect.id)
        elif isinstance(outcome, Not) and outcome.status == _DECLINED and not outcome.is_replay:
            thing = self._shelf.get(declined_id(arrival.request_id))
        if thing is None:
            return
        about = events_of(thing, self._shelf)
        kept = self._journal.tell(arrival.account, about, arrival.key)
        chain = self._outbox.tell(arrival.account, planned(steps, kept))
        if any(step.kind == "early" for step in steps):
            await self._outbox.send_now(chain)
        else:
            self._outbox.release(chain)

    # --- what only looks --------------------------------------------------------------------

    async def show(self, request: web.Request) -> web.StreamResponse:
        """One object by its id: never behind, unlike the search."""
        account = self._account(request)
        self._readable(account)
        name = request.match_info["id"]
        thing = self._shelf.get(name)
        if thing is None or thing.account != account:
            raise Refusal(404, f"No such object: '{name}'", code="resource_missing", param="id")
        return _json(shown(thing))

    async def show_charge(self, request: web.Request) -> web.StreamResponse:
        """The charge of a payment."""
        account = self._account(request)
        self._readable(account)
        name = request.match_info["id"]
        thing = self._shelf.get(payment_of_charge(name))
        if thing is None or thing.account != account:
            raise Refusal(404, f"No such charge: '{name}'", code="resource_missing", param="id")
        return _json(charge_shown(thing, self._shelf))

    async def list_payments(self, request: web.Request) -> web.StreamResponse:
        """PaymentIntents, newest first, by time and customer."""
        account, form = self._asked(request)
        customer = _part(form, "customer")
        ids = [
            one
            for one in self._shelf.of_account(account, PAYMENT)
            if customer in {None, self._shelf.things[one].detail.get("customer")}
        ]
        return self._page(PAYMENTS, page_of(ids, self._created, form))

    async def list_refunds(self, request: web.Request) -> web.StreamResponse:
        """Refunds, newest first, by time and payment."""
        account, form = self._asked(request)
        payment = _part(form, "payment_intent")
        ids = [
            one
            for one in self._shelf.of_account(account, REFUND)
            if payment in {None, self._shelf.things[one].of}
        ]
        return self._page(REFUNDS, page_of(ids, self._created, form))

    async def search_payments(self, request: web.Request) -> web.StreamResponse:
        """PaymentIntents by a value of their metadata, as far as the index is."""
        account, form = self._asked(request)
        lag_ms = self.control.personality(account).search_lag_ms
        found = searched(self._shelf, account, form, until_ms=_now() - lag_ms, trouble=self._search)
        data = [shown(thing) for thing in found]
        url = f"{PAYMENTS}/search"
        return _json({"object": "search_result", "url": url, "has_more": False, "data": data})

    async def list_events(self, request: web.Request) -> web.StreamResponse:
        """Events, newest first, by time and type; what no webhook was sent for is there too."""
        account, form = self._asked(request)
        wanted = form.get("types")
        types = (
            {one for one in wanted.values() if isinstance(one, str)}
            if isinstance(wanted, dict)
            else {one for one in [_part(form, "type")] if one is not None}
        )
        kept = {
            one.event_id or "": one
            for one in self._journal.events(account)
            if not types or one.type in types
        }
        page = page_of(tuple(kept), lambda one: kept[one].created_at // 1000, form)
        data = [kept[one].event for one in page.ids]
        return _json({"object": "list", "url": EVENTS, "has_more": page.has_more, "data": data})

    async def show_event(self, request: web.Request) -> web.StreamResponse:
        """One event by its id."""
        account = self._account(request)
        self._readable(account)
        for one in self._journal.events(account):
            if one.event_id == request.match_info["id"]:
                return _json(one.event)
        raise Refusal(404, "No such event.", code="resource_missing", param="id")

    async def show_book(self, _request: web.Request) -> web.StreamResponse:
        """The whole book, all accounts, as it is on disk."""
        return web.FileResponse(self._book.path, headers={"Content-Type": "application/x-ndjson"})

    async def show_health(self, _request: web.Request) -> web.StreamResponse:
        """Say that requests are taken."""
        return web.json_response({"status": "ok"})

    async def reset(self, request: web.Request) -> web.StreamResponse:
        """Start a new world."""
        self._shelf.clear()
        self._journal.reset()
        self._search.clear()
        self._limit.clear()
        return await self.control.reset(request)

    async def _lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        sender = asyncio.create_task(self._outbox.run(), name="simulated webhooks")
        yield
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender
        self._journal.close()
        self._book.close()

    def _account(self, request: web.Request) -> str:
        """Whose request it is, if it is within the limit."""
        account = account_of(request)
        self._limit.take(account)
        return account

    def _asked(self, request: web.Request) -> tuple[str, Form]:
        account = self._account(request)
        self._readable(account)
        return account, form_of(request.query_string.encode())

    def _readable(self, account: str) -> Personality:
        personality = self.control.personality(account)
        match personality.search:
            case "offered":
                return personality
            case "unavailable":
                raise Unavailable
            case "none":
                # A restricted key that may write and not read.
                message = "The provided key does not have the required permissions."
                raise Refusal(403, message, code="permission_missing")

    def _created(self, object_id: str) -> int:
        return self._shelf.things[object_id].created_ms // 1000

    def _page(self, url: str, page: Page) -> web.StreamResponse:
        data = [shown(self._shelf.things[one]) for one in page.ids]
        return _json({"object": "list", "url": url, "has_more": page.has_more, "data": data})


class Unavailable(Refusal):
    """Stripe cannot read just now."""

    def __init__(self) -> None:
        super().__init__(503, "")
        self.body = error("api_error", "Service unavailable.", code="service_unavailable")


def _json(value: object) -> web.StreamResponse:
    # Laid out as Stripe does it.
    return answered(200, orjson.dumps(value, option=orjson.OPT_INDENT_2))


def _part(form: Form, name: str) -> str | None:
    try:
        return text_of(form, name)
    except ValueError as fault:
        raise Refusal(400, f"Invalid string: {fault}.", param=name) from None


def _now() -> int:
    return time.time_ns() // 1_000_000
