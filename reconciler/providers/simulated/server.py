"""The simulated provider as an HTTP server: its routes under `/v1`.

Guarantees that an answer leaves only after its line is in the book, and that a request once taken
is carried to its end even if its client is gone, as real providers do. Must not be reachable where
real money is: API keys authenticate nothing. Started by `python -m reconciler.providers.simulated`.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, assert_never

from aiohttp import web

from ledger.core.wire import Wire
from reconciler.providers.limits import LIST_PAGE_EFFECTS_MAX, REQUEST_BYTES_MAX
from reconciler.providers.simulated.answers import answer
from reconciler.providers.simulated.api import (
    API_KEY_PREFIX,
    DESCRIPTION_CHARS_MAX,
    EVENTS_PATH,
    KEY_CHARS_MAX,
    KEY_HEADER,
    PREVIEWS_PATH,
    Effect,
    EffectRequest,
    Event,
    EventData,
    EventsAnswer,
    ListAnswer,
    SearchAnswer,
)
from reconciler.providers.simulated.book import Arrival, Book, Mark
from reconciler.providers.simulated.control import Control
from reconciler.providers.simulated.effects import Desk, Made, Not
from reconciler.providers.simulated.errors import JSON, Refusal, parsed, refusals
from reconciler.providers.simulated.faults import (
    Asked,
    Faults,
    Personality,
    WebhookStep,
)
from reconciler.providers.simulated.foresight import Foresight
from reconciler.providers.simulated.payouts import payout_report
from reconciler.providers.simulated.webhooks import Outbox

_ACCOUNT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_OPERATION: Final = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_MARKS: Final[tuple[Mark, ...]] = ("key", "reference", "action_key")
_REFUSED: Final = 402
_NUMBER_CHARS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What one server needs: its folder, and the seed of everything it leaves to chance."""

    folder: Path
    seed: int = 0
    webhook_retry_first_ms: int = 200


class SimulatedProvider:
    """One provider with one book. Opens its folder when built; `app` runs it."""

    def __init__(self, settings: ServerSettings) -> None:
        """Read the book again. Raises UnreadableBook, OSError."""
        self._book = Book(settings.folder)
        self._outbox = Outbox(
            settings.folder, seed=settings.seed, retry_first_ms=settings.webhook_retry_first_ms
        )
        self._faults = Faults(settings.seed)
        self._desk = Desk(self._book)
        self._foresight = Foresight()
        self.control = Control(
            settings.folder, self._book, self._outbox, self._faults, self._foresight
        )

    def app(self) -> web.Application:
        """The provider as one application; it sends webhooks while it runs."""
        app = web.Application(client_max_size=REQUEST_BYTES_MAX, middlewares=[refusals])
        app.cleanup_ctx.append(self._lifetime)
        app.add_routes(
            [
                web.post("/v1/effects/{operation}", self.create_effect),
                web.post(f"{PREVIEWS_PATH}{{operation}}", self.show_preview),
                web.get("/v1/effects", self.search_effects),
                web.get("/v1/effects/list", self.list_effects),
                web.get("/v1/effects/{id}", self.show_effect),
                web.get(EVENTS_PATH, self.list_events),
                web.get("/v1/payouts/report.csv", self.show_payouts),
                web.get("/v1/book", self.show_book),
                web.get("/health", self.show_health),
                *self.control.routes(),
            ]
        )
        return app

    async def create_effect(self, request: web.Request) -> web.StreamResponse:
        """Make an effect, or answer for the one made before, or do what the script says."""
        arrived_at = _now()
        account = _account(request)
        operation = request.match_info["operation"]
        if _OPERATION.fullmatch(operation) is None:
            raise Refusal(404, "unknown_operation", "There is no such operation.")
        body = await parsed(request, EffectRequest)
        personality = self.control.personality(account)
        course, steps = self._faults.next(Asked(account, operation, body.metadata.action_key))
        arrival = Arrival(
            request_id=self._book.next_request_id(),
            account=account,
            operation=operation,
            key=_key(request, personality),
            body=body,
            description=_description(body),
            parameters_hash=_parameters_hash(operation, await request.read()),
            arrived_at=arrived_at,
        )
        outcome = await self._desk.decide(arrival, personality, course)
        await self._tell(arrival, personality, steps, outcome)
        if course.after_ms:
            await asyncio.sleep(course.after_ms / 1000)
        return await answer(request, outcome, course)

    async def show_preview(self, request: web.Request) -> web.StreamResponse:
        """Say what a request would do. Nothing of it gets near the book."""
        account = _account(request)
        operation = request.match_info["operation"]
        if _OPERATION.fullmatch(operation) is None:
            raise Refusal(404, "unknown_operation", "There is no such operation.")
        body = await parsed(request, EffectRequest)
        asked = Asked(account, operation, body.metadata.action_key)
        fault, seen = self._foresight.see(asked, body)
        if fault is None:
            return _json(seen)
        await asyncio.sleep(fault.delay_ms / 1_000)
        match fault.kind:
            case "slow":
                return _json(seen)
            case "down":
                raise Refusal(503, "previews_unavailable", "Previews are down.")
            case "refuse":
                raise Refusal(422, fault.code, "It would be refused.")
            case "garbage":
                return web.Response(body=b'{"effect": "On', content_type=JSON)
            case "drop":
                if request.transport is not None:
                    request.transport.abort()
                return web.Response()
            case _:
                assert_never(fault.kind)

    async def search_effects(self, request: web.Request) -> web.Response:
        """Search by exactly one of key, client reference or action key, as far as the index is."""
        account = _account(request)
        personality = self._searchable(account)
        asked = [(mark, request.query[mark]) for mark in _MARKS if mark in request.query]
        if len(asked) != 1:
            raise Refusal(400, "one_mark_expected", "Search by key, reference or action_key.")
        mark, value = asked[0]
        if mark == "key" and personality.keys == "unsupported":
            raise Refusal(400, "keys_not_supported", "This account has no keys.")
        until = _now() - personality.search_lag_ms
        found = self._book.marked(account, mark, value)
        visible = tuple(effect for effect in found if effect.committed_at <= until)
        return _json(SearchAnswer(effects=visible[:LIST_PAGE_EFFECTS_MAX], searched_until_at=until))

    async def list_effects(self, request: web.Request) -> web.Response:
        """One page of an account's effects since a time, oldest first, as far as the index is."""
        account = _account(request)
        personality = self._searchable(account)
        since = _number(request, "since")
        start = _number(request, "after")
        until = _now() - personality.search_lag_ms
        page: list[Effect] = []
        position = start
        for effect in self._book.effects(account)[start:]:
            if effect.committed_at > until or len(page) == LIST_PAGE_EFFECTS_MAX:
                break
            position += 1
            if effect.committed_at >= since:
                page.append(effect)
        more = len(page) == LIST_PAGE_EFFECTS_MAX
        return _json(ListAnswer(effects=tuple(page), next=str(position) if more else None))

    async def list_events(self, request: web.Request) -> web.Response:
        """One page of an account's events since a time, those that are due, sent or not."""
        account = _account(request)
        since, position = _number(request, "since"), _number(request, "after")
        page: list[Event] = []
        now = _now()
        for listed in self._outbox.events(account)[position:]:
            if listed.due_at > now or len(page) == LIST_PAGE_EFFECTS_MAX:
                break
            position += 1
            event = Event.model_validate_json(listed.body)
            if event.created_at >= since:
                page.append(event)
        more = len(page) == LIST_PAGE_EFFECTS_MAX
        return _json(EventsAnswer(events=tuple(page), next=str(position) if more else None))

    async def show_effect(self, request: web.Request) -> web.Response:
        """One effect by its id: never behind, unlike the searches."""
        account = _account(request)
        self._searchable(account)
        effect = self._book.effect(request.match_info["id"])
        if effect is None or effect.account != account:
            raise Refusal(404, "no_such_effect", "There is no such effect.")
        return _json(effect)

    async def show_payouts(self, request: web.Request) -> web.StreamResponse:
        """The account's payout report of a time, as CSV; whole, whatever its searches show."""
        effects = self._book.effects(_account(request))
        until = _number(request, "until") if "until" in request.query else _now() + 1
        response = web.StreamResponse(headers={"Content-Type": "text/csv; charset=utf-8"})
        await response.prepare(request)
        for piece in payout_report(effects, since=_number(request, "since"), until=until):
            await response.write(piece.encode())
        await response.write_eof()
        return response

    async def show_book(self, _request: web.Request) -> web.StreamResponse:
        """The whole book, all accounts, as it is on disk."""
        return web.FileResponse(self._book.path, headers={"Content-Type": "application/x-ndjson"})

    async def show_health(self, _request: web.Request) -> web.Response:
        """Say that requests are taken."""
        return web.json_response({"status": "ok"})

    async def _lifetime(self, _app: web.Application) -> AsyncIterator[None]:
        sender = asyncio.create_task(self._outbox.run(), name="simulated webhooks")
        yield
        sender.cancel()
        with suppress(asyncio.CancelledError):
            await sender
        self._book.close()

    async def _tell(
        self,
        arrival: Arrival,
        personality: Personality,
        steps: tuple[WebhookStep, ...],
        outcome: Made | Not,
    ) -> None:
        """Queue the webhooks of what just happened; an early plan leaves before the answer."""
        refused = isinstance(outcome, Not) and outcome.status == _REFUSED
        if not refused and not (isinstance(outcome, Made) and outcome.is_new):
            return
        body = arrival.body
        data = EventData(
            effect_id=outcome.effect.id if isinstance(outcome, Made) else None,
            operation=arrival.operation,
            target=body.target,
            description=arrival.description,
            amount=body.amount,
            key=arrival.key,
            reference=body.reference,
            metadata=body.metadata,
            code=outcome.problem.code if isinstance(outcome, Not) else None,
        )
        chain = self._outbox.queue(
            steps,
            "effect.refused" if refused else "effect.settled",
            arrival.account,
            data,
            settlement=personality.settlement,
        )
        if any(step.kind == "early" for step in steps):
            await self._outbox.send_now(chain)
        else:
            self._outbox.release(chain)

    def _searchable(self, account: str) -> Personality:
        personality = self.control.personality(account)
        match personality.search:
            case "offered":
                return personality
            case "unavailable":
                raise Refusal(503, "search_unavailable", "The search is down.")
            case "none":
                raise Refusal(403, "search_not_offered", "This account has no search.")


def _json(model: Wire) -> web.Response:
    return web.Response(body=model.model_dump_json().encode(), content_type=JSON)


def _account(request: web.Request) -> str:
    """The account that the API key names; raises Refusal."""
    account = request.headers.get("Authorization", "").removeprefix(f"Bearer {API_KEY_PREFIX}")
    if _ACCOUNT.fullmatch(account) is None:
        raise Refusal(401, "unauthorized", f"Send 'Authorization: Bearer {API_KEY_PREFIX}ACCOUNT'.")
    return account


def _key(request: web.Request, personality: Personality) -> str | None:
    """The idempotency key, unless this account knows none."""
    key = request.headers.get(KEY_HEADER) if personality.keys != "unsupported" else None
    if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
        raise Refusal(400, "key_too_long", f"A key has 1 to {KEY_CHARS_MAX} characters.")
    return key


def _description(body: EffectRequest) -> str | None:
    text = body.params.get("description")
    return text[:DESCRIPTION_CHARS_MAX] if isinstance(text, str) else None


def _parameters_hash(operation: str, raw: bytes) -> str:
    """What two requests under one key must share: the operation and the very bytes."""
    return "sha256:" + hashlib.sha256(operation.encode() + b"\n" + raw).hexdigest()


def _number(request: web.Request, name: str) -> int:
    text = request.query.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= _NUMBER_CHARS_MAX):
        raise Refusal(400, "malformed", f"{name} is a whole number.")
    return int(text)


def _now() -> int:
    return time.time_ns() // 1_000_000
