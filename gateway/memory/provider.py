"""The simulated provider without a server: its own book, rules and faults, in virtual time.

Guarantees that what it answers, and when, is what the real simulated provider answers: the same
book and the same desk decide, the same adapter reads. It stands where the adapter's HTTP client
stands. Must never be softer: a script that it cannot play raises.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from gateway.memory.clock import HandClock
from reconciler.providers.http_exchange import Answered, Broken, Exchanged, Message, Trouble
from reconciler.providers.port import Deadlines
from reconciler.providers.simulated.answers import written
from reconciler.providers.simulated.api import (
    API_KEY_PREFIX,
    KEY_HEADER,
    PREVIEWS_PATH,
    Effect,
    EffectRequest,
    Event,
    EventData,
    EventType,
    Problem,
    ProblemAnswer,
    SearchAnswer,
)
from reconciler.providers.simulated.book import Arrival, Book, Mark
from reconciler.providers.simulated.effects import Clock, Desk, Made, Not
from reconciler.providers.simulated.faults import (
    Asked,
    Course,
    Delivery,
    Faults,
    Personality,
    Script,
    WebhookStep,
)
from reconciler.providers.simulated.foresight import Foresight

TRAVEL_MS: Final = 5
"""A request on its way, and an answer back."""

_REFUSED: Final = 402
_BROKEN: Final = {
    Delivery.DROPPED: Trouble.CONNECTION_LOST,
    Delivery.HALF: Trouble.ANSWER_CUT_SHORT,
    Delivery.OVERSIZED: Trouble.ANSWER_TOO_LARGE,
}
_MARKS: Final[dict[str, Mark]] = {
    "key": "key",
    "reference": "reference",
    "action_key": "action_key",
}


class MemoryProvider:
    """One provider with one book, in a folder that its owner throws away."""

    def __init__(self, clock: HandClock, folder: Path, *, seed: int) -> None:
        self.personality = Personality()
        self.tell: Callable[[bytes], None] = lambda _raw: None
        self.webhooks_after_ms: int | None = None
        self._clock = clock
        self._book = Book(folder)
        self._faults = Faults(seed)
        self.foresight = Foresight()
        self._desk = Desk(self._book, Clock(lambda: clock.now, clock.sleep))
        self._events = 0

    def script(self, script: Script) -> None:
        """Play a fault for the next requests that fit it."""
        self._faults.add((script,))

    def effects(self, account: str) -> tuple[Effect, ...]:
        """Everything that was made, in its order."""
        return tuple(self._book.effects(account))

    async def close(self) -> None:
        """Close the book. The adapters close their clients too; only the first counts."""
        self._book.close()

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = lambda: None,
    ) -> Exchanged:
        """What an HTTP client would bring back, after as long as it would take."""
        await self._clock.sleep(TRAVEL_MS)
        before_first_byte()
        url = urlsplit(message.path)
        account = dict(message.headers)["Authorization"].removeprefix(f"Bearer {API_KEY_PREFIX}")
        if message.method == "GET":
            return self._search(account, dict(parse_qsl(url.query)))
        operation = unquote(url.path.rpartition("/")[2])
        if url.path.startswith(PREVIEWS_PATH):
            return await self._foreseen(account, operation, message, deadlines.response_ms)
        return await self._create(account, operation, message, deadlines.response_ms)

    async def _foreseen(
        self, account: str, operation: str, message: Message, response_ms: int
    ) -> Exchanged:
        """What a request would do. Nothing of it gets near the book."""
        body = EffectRequest.model_validate_json(message.body)
        fault, seen = self.foresight.see(Asked(account, operation, body.metadata.action_key), body)
        delay_ms = TRAVEL_MS if fault is None else fault.delay_ms + TRAVEL_MS
        await self._clock.sleep(min(delay_ms, response_ms))
        if delay_ms > response_ms:
            return Broken(Trouble.ANSWER_TIMED_OUT)
        match None if fault is None else fault.kind:
            case "down":
                return _problem(503, "previews_unavailable")
            case "refuse":
                return _problem(422, "" if fault is None else fault.code)
            case "garbage":
                return Answered(200, (), b'{"effect": "On')
            case "drop":
                return Broken(Trouble.CONNECTION_LOST)
            case _:
                return Answered(200, (), seen.model_dump_json().encode())

    async def _create(
        self, account: str, operation: str, message: Message, response_ms: int
    ) -> Exchanged:
        body = EffectRequest.model_validate_json(message.body)
        key = dict(message.headers).get(KEY_HEADER)
        course, steps = self._faults.next(Asked(account, operation, body.metadata.action_key))
        text = body.params.get("description")
        arrival = Arrival(
            request_id=self._book.next_request_id(),
            account=account,
            operation=operation,
            key=None if self.personality.keys == "unsupported" else key,
            body=body,
            description=text if isinstance(text, str) else None,
            parameters_hash=hashlib.sha256(operation.encode() + message.body).hexdigest(),
            arrived_at=self._clock.now,
        )
        deciding = self._decided(arrival, course, steps)
        if course.before_ms + course.after_ms + TRAVEL_MS > response_ms:
            # Nobody is there any more to hear the answer; the provider goes on all the same.
            _ = self._clock.spawn(deciding)
            await self._clock.sleep(response_ms)
            return Broken(Trouble.ANSWER_TIMED_OUT)
        outcome = await deciding
        await self._clock.sleep(course.after_ms + TRAVEL_MS)
        return _left(outcome, course)

    async def _decided(
        self, arrival: Arrival, course: Course, steps: tuple[WebhookStep, ...]
    ) -> Made | Not:
        outcome = await self._desk.decide(arrival, self.personality, course)
        is_refusal = isinstance(outcome, Not) and outcome.status == _REFUSED
        if self.webhooks_after_ms is not None and (
            is_refusal or (isinstance(outcome, Made) and outcome.is_new)
        ):
            for step in steps:
                self._announce(arrival, outcome, step)
        return outcome

    def _announce(self, arrival: Arrival, outcome: Made | Not, step: WebhookStep) -> None:
        """Tell of what happened, as the step says. A forged one ends at the door."""
        if step.kind == "forged":
            return
        body, amount = arrival.body, arrival.body.amount
        if step.kind == "wrong_amount" and amount is not None:
            amount = amount.model_copy(update={"minor": amount.minor + 1})
        data = EventData(
            effect_id=outcome.effect.id if isinstance(outcome, Made) else None,
            operation=arrival.operation,
            target=body.target,
            description=arrival.description,
            amount=amount,
            key=arrival.key,
            reference=body.reference,
            metadata=body.metadata,
            code=outcome.problem.code if isinstance(outcome, Not) else None,
        )
        told: EventType = "effect.settled" if isinstance(outcome, Made) else "effect.refused"
        self._events += 1
        event = Event(
            id=f"evt_{self._events}",
            type=told,
            account=arrival.account,
            created_at=self._clock.now,
            data=data,
        )
        raw = event.model_dump_json().encode()
        after_ms = (self.webhooks_after_ms or 0) + step.delay_ms
        for _ in range(2 if step.kind == "twice" else 1):
            self._clock.after(after_ms, lambda: self.tell(raw))

    def _search(self, account: str, query: dict[str, str]) -> Answered:
        """Effects under a mark, as far as the index reaches."""
        match self.personality.search:
            case "unavailable":
                return _problem(503, "search_unavailable")
            case "none":
                return _problem(403, "search_not_offered")
            case "offered":
                pass
        (asked, value), *_ = query.items()
        if asked == "key" and self.personality.keys == "unsupported":
            return _problem(400, "keys_not_supported")
        until = self._clock.now - self.personality.search_lag_ms
        found = self._book.marked(account, _MARKS[asked], value)
        visible = tuple(effect for effect in found if effect.committed_at <= until)
        answer = SearchAnswer(effects=visible, searched_until_at=until)
        return Answered(200, (), answer.model_dump_json().encode())


def _left(outcome: Made | Not, course: Course) -> Exchanged:
    """What of an answer arrives."""
    status, raw, headers = written(outcome, course, "memory:")
    if status == 0:
        return Broken(Trouble.CONNECTION_LOST)
    if course.delivery in _BROKEN:
        return Broken(_BROKEN[course.delivery])
    if course.delivery is Delivery.GARBAGE:
        raw = b'{"effect": {"id": "ch_'
    return Answered(status, tuple((name.lower(), text) for name, text in headers.items()), raw)


def _problem(status: int, code: str) -> Answered:
    answer = ProblemAnswer(error=Problem(code=code, message="As it behaves."))
    return Answered(status, (), answer.model_dump_json().encode())
