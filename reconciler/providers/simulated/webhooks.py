"""Webhooks of the simulated provider: what is told, signed, and sent again until it is taken.

Guarantees: the bytes that are signed are the bytes that are sent; an event keeps its id over every
sending; events of one request leave in the order of its plan; what was not taken when the process
ended is sent by the next one. Must never follow a redirect, or hold up an answer unless the plan
says early. The server is its only caller.
"""

import asyncio
import base64
import heapq
import os
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import quote

import aiohttp
from pydantic import Field
from standardwebhooks import Webhook

from ledger.core.wire import Count, Milliseconds, Text, Wire
from reconciler.providers.simulated.api import Event, EventData, EventType
from reconciler.providers.simulated.faults import WebhookStep

JOURNAL_NAME: Final = "webhooks.jsonl"
TRIES_MAX: Final = 12
BACKOFF_MS_MAX: Final = 30_000
SENDING_SECONDS_MAX: Final = 10
SENDINGS_AT_ONCE_MAX: Final = 16
_IDLE_SECONDS: Final = 60.0
_FILE_MODE: Final = 0o600
_OPENED: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
_NEVER: Final = 2**53


class Sending(Wire):
    """One event on its way; sendings with the same `chain` leave one after the other."""

    number: Count
    chain: Count
    account: Text
    event_id: Text
    body: Annotated[str, Field(max_length=64 * 1024)]
    due_at: Milliseconds
    signature: Literal["genuine", "forged"]
    state: Literal["waiting", "taken", "given_up"] = "waiting"


@dataclass(frozen=True, slots=True)
class Told:
    """One event to be sent `delay_ms` from now: a forged one is signed by somebody else, a lost one
    is never sent.
    """

    event_id: str
    body: str
    delay_ms: int = 0
    is_forged: bool = False
    is_lost: bool = False


class Listed(NamedTuple):
    """One event of an account as its list of events has it, from `due_at` on."""

    event_id: str
    body: str
    due_at: int


Sign: TypeAlias = Callable[[str, str, str], Mapping[str, str]]
"""From an event's id, its body and the secret to the headers that it is sent with."""


@dataclass(slots=True)
class _Chain:
    """What is left of one request's plan, and how often its first event was tried."""

    sendings: list[Sending]
    tries: int = 0


def planned(
    step: WebhookStep, outcome: EventType, *, settlement: Literal["at_once", "pending_first"]
) -> tuple[EventType, ...]:
    """The event types of one step, in the order in which they are sent."""
    match step.kind:
        case "out_of_order":
            return (outcome, "effect.pending")
        case "twice":
            return (outcome, outcome)
        case "forged":
            return (outcome,)
        case _:
            return ("effect.pending", outcome) if settlement == "pending_first" else (outcome,)


class Outbox:
    """Queues events on disk and sends them: one task runs `run`, others queue meanwhile."""

    def __init__(
        self, folder: Path, *, seed: int, retry_first_ms: int, sign: Sign | None = None
    ) -> None:
        """Read what was queued before. Nothing is sent until there is an address."""
        self._sign = signed_headers if sign is None else sign
        self._path = folder / JOURNAL_NAME
        self._retry_first_ms = retry_first_ms
        self._chance = random.Random(f"webhooks|{seed}")  # noqa: S311 - repeatable on purpose
        self._url: str | None = None
        self._secret: str | None = None
        self._due: list[tuple[int, int, _Chain]] = []
        self._events: defaultdict[str, dict[str, Listed]] = defaultdict(dict)
        self._last_number = 0
        self._last_event = 0
        self._wake = asyncio.Event()
        self._slots = asyncio.Semaphore(SENDINGS_AT_ONCE_MAX)
        self._running: set[asyncio.Task[None]] = set()
        self._session: aiohttp.ClientSession | None = None
        self._descriptor = os.open(self._path, _OPENED, _FILE_MODE)
        self._read_again()

    def address(self, url: str | None, secret: str | None) -> None:
        """Send to this URL, signed with this secret (`whsec_…`), from now on.

        `{account}` in the URL stands for the account that an event is about.
        """
        self._url, self._secret = url, secret
        self._wake.set()

    def queue(
        self,
        steps: Sequence[WebhookStep],
        outcome: EventType,
        account: str,
        data: EventData,
        *,
        settlement: Literal["at_once", "pending_first"],
    ) -> _Chain | None:
        """Write a request's events to the journal; None if its plan has none.

        The chain is not sent until it is given to `release` or `send_now`.
        """
        queued: list[Told] = []
        now = _now()
        for step in steps:
            told = _wrong(data) if step.kind == "wrong_amount" else data
            bodies: dict[EventType, tuple[str, str]] = {}
            for event_type in planned(step, outcome, settlement=settlement):
                # `twice` is one event that is sent two times, so a type has one id in a step.
                if event_type not in bodies:
                    bodies[event_type] = self._event(event_type, account, told, now)
                event_id, body = bodies[event_type]
                queued.append(
                    Told(
                        event_id,
                        body,
                        step.delay_ms,
                        is_forged=step.kind == "forged",
                        is_lost=step.kind == "lost",
                    )
                )
        return self.tell(account, queued)

    def tell(self, account: str, told: Sequence[Told]) -> _Chain | None:
        """Write events that leave in this order to the journal; None if there are none.

        The chain is not sent until it is given to `release` or `send_now`.
        """
        sendings: list[Sending] = []
        chain = self._last_number + 1
        now = _now()
        for one in told:
            self._last_number += 1
            sendings.append(
                Sending(
                    number=self._last_number,
                    chain=chain,
                    account=account,
                    event_id=one.event_id,
                    body=one.body,
                    due_at=now + one.delay_ms,
                    signature="forged" if one.is_forged else "genuine",
                    state="given_up" if one.is_lost else "waiting",
                )
            )
        for sending in sendings:
            self._note(sending)
            self._list(sending)
        waiting = [one for one in sendings if one.state == "waiting"]
        return _Chain(waiting) if waiting else None

    def events(self, account: str) -> Sequence[Listed]:
        """The events of an account as they were told of, whether they were sent or not: the one
        list of what happened. What somebody forged is none of them.
        """
        return tuple(self._events.get(account, {}).values())

    def _list(self, sending: Sending) -> None:
        if sending.signature == "genuine":
            listed = Listed(sending.event_id, sending.body, sending.due_at)
            self._events[sending.account].setdefault(sending.event_id, listed)

    def release(self, chain: _Chain | None) -> None:
        """Let a queued chain go when it is due."""
        if chain is not None and chain.sendings:
            first = chain.sendings[0]
            heapq.heappush(self._due, (first.due_at, first.number, chain))
            self._wake.set()

    async def send_now(self, chain: _Chain | None) -> None:
        """Send a queued chain before returning; what is not taken goes on by itself."""
        if chain is not None:
            await self._advance(chain, until=_NEVER)

    async def flush(self) -> int:
        """Try everything that waits, whenever it is due; returns how many events still wait."""
        chains = [chain for _, _, chain in self._due]
        self._due.clear()
        async with asyncio.TaskGroup() as group:
            for chain in chains:
                group.create_task(self._send(chain, until=_NEVER))
        if self._running:
            await asyncio.wait(tuple(self._running))
        return sum(len(chain.sendings) for _, _, chain in self._due)

    def reset(self) -> None:
        """Forget everything that waits, and the journal."""
        os.ftruncate(self._descriptor, 0)
        self._due.clear()
        self._events.clear()
        self._last_number = self._last_event = 0

    async def run(self) -> None:
        """Send what is due until cancelled; closes its connections and the journal then."""
        timeout = aiohttp.ClientTimeout(total=SENDING_SECONDS_MAX)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as self._session,
                asyncio.TaskGroup() as group,
            ):
                while True:
                    await self._wait()
                    while self._url is not None and self._due and self._due[0][0] <= _now():
                        _, _, chain = heapq.heappop(self._due)
                        task = group.create_task(self._send(chain, until=_now()))
                        self._running.add(task)
                        task.add_done_callback(self._running.discard)
        finally:
            self.close()

    def close(self) -> None:
        """Close the journal; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _wait(self) -> None:
        """Until the next chain is due, something is queued, or the address changes."""
        idle = _IDLE_SECONDS
        if self._url is not None and self._due:
            idle = min(max(self._due[0][0] - _now(), 0) / 1000, _IDLE_SECONDS)
        try:
            async with asyncio.timeout(idle):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    async def _send(self, chain: _Chain, *, until: int) -> None:
        async with self._slots:
            await self._advance(chain, until=until)

    async def _advance(self, chain: _Chain, *, until: int) -> None:
        """Send the chain's events that are due, in order; stop at the first that is not taken."""
        while chain.sendings and chain.sendings[0].due_at <= until:
            sending = chain.sendings[0]
            chain.tries += 1
            if await self._deliver(sending):
                self._finish(chain, "taken")
            elif sending.signature == "forged" or chain.tries >= TRIES_MAX:
                # A forger does not try again.
                self._finish(chain, "given_up")
            else:
                wait = min(self._retry_first_ms * 2 ** (chain.tries - 1), BACKOFF_MS_MAX)
                due_at = _now() + wait // 2 + self._chance.randrange(wait // 2 + 1)
                chain.sendings[0] = sending.model_copy(update={"due_at": due_at})
                break
        self.release(chain)

    def _finish(self, chain: _Chain, state: Literal["taken", "given_up"]) -> None:
        self._note(chain.sendings.pop(0).model_copy(update={"state": state}))
        chain.tries = 0

    async def _deliver(self, sending: Sending) -> bool:
        """One POST; True if it was answered with 2xx."""
        if self._url is None or self._secret is None or self._session is None:
            return False
        raw = sending.body.encode()
        url = self._url.replace("{account}", quote(sending.account, safe=""))
        headers = self._sign(
            sending.event_id,
            sending.body,
            self._secret if sending.signature == "genuine" else FORGERS_SECRET,
        )
        try:
            async with self._session.post(
                url, data=raw, headers=headers, allow_redirects=False
            ) as answer:
                return 200 <= answer.status < 300  # noqa: PLR2004 - the class of success
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _event(
        self, event_type: EventType, account: str, data: EventData, now: int
    ) -> tuple[str, str]:
        self._last_event += 1
        event = Event(
            id=f"evt_{self._last_event}",
            type=event_type,
            account=account,
            created_at=now,
            data=data,
        )
        return event.id, event.model_dump_json()

    def _note(self, sending: Sending) -> None:
        os.write(self._descriptor, sending.model_dump_json().encode() + b"\n")

    def _read_again(self) -> None:
        latest: dict[int, Sending] = {}
        for raw in self._path.read_bytes().splitlines(keepends=True):
            if raw.endswith(b"\n"):
                sending = Sending.model_validate_json(raw)
                latest[sending.number] = sending
                self._list(sending)
                self._last_event = max(self._last_event, int(sending.event_id.removeprefix("evt_")))
        self._last_number = max(latest, default=0)
        for chain in _chains(latest.values()):
            self.release(chain)


FORGERS_SECRET: Final = "whsec_" + base64.b64encode(b"whoever knows this is no provider").decode()


def signed_headers(event_id: str, body: str, secret: str) -> dict[str, str]:
    """Headers of Standard Webhooks for a body that is sent now."""
    now = datetime.now(UTC)
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(event_id, now, body),
    }


def _chains(sendings: Iterable[Sending]) -> list[_Chain]:
    waiting: defaultdict[int, list[Sending]] = defaultdict(list)
    for sending in sorted(sendings, key=lambda one: one.number):
        if sending.state == "waiting":
            waiting[sending.chain].append(sending)
    return [_Chain(chain) for chain in waiting.values()]


def _wrong(data: EventData) -> EventData:
    """The same event with ten times the amount."""
    if data.amount is None:
        return data
    wrong = data.amount.model_copy(update={"minor": data.amount.minor * 10})
    return data.model_copy(update={"amount": wrong})


def _now() -> int:
    return time.time_ns() // 1_000_000
