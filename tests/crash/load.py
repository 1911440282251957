"""Agents at work: what they ask for, what befalls it at the provider, and what they were told.

Everything follows from a seed: the same seed asks for the same actions and plays the same faults.
An agent that gets no answer asks again with the same intent; some ask twice, some ask for another
amount under the same key, some die while they wait and are started again.
"""

import asyncio
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson

from actionledger import (
    ApprovalExpired,
    AwaitingApproval,
    Blocked,
    Conflict,
    Denied,
    Expired,
    Failed,
    Intent,
    Ledger,
    LedgerUnavailable,
    Money,
    NeedsReview,
    Pending,
    Result,
    Retries,
    Succeeded,
    Unknown,
)
from tests.crash.evidence import Json
from tests.crash.machine import TENANTS
from tests.patience import PATIENCE_SECONDS

_What = TypeVar("_What")
AGENTS_MAX = 24
OPERATIONS = ("charge", "charge", "ticket", "refund", "charge", "email", "charge", "charge")
RUNS = 3
ANSWER_SECONDS_MAX = 90.0
WAIT_MS = 500
NO_WEBHOOK: list[Json] = []
NORMAL: list[Json] = [{"kind": "normal"}]
PERSONALITIES: dict[str, Json] = {
    "main": {"search_lag_ms": 200},
    "desk": {"keys": "unsupported", "search_lag_ms": 400},
    "mail": {"keys": "unsupported", "search": "none"},
}
COMMIT_LATE: Json = {"kind": "slow", "before_ms": 900}
ANSWER_LATE: Json = {"kind": "slow", "after_ms": 900}


def _plain(kind: str) -> Json:
    return {"kind": kind}


Faults = Mapping[str, Sequence[tuple[int, Json | None]]]
_OF_PAYMENTS: Sequence[tuple[int, Json | None]] = (
    (40, None),
    (12, _plain("commit_then_drop")),
    (8, ANSWER_LATE),
    (6, COMMIT_LATE),
    (8, _plain("refuse")),
    (8, _plain("fail_after_commit")),
    (8, _plain("fail_before_commit")),
    (4, _plain("drop_before_commit")),
    (4, _plain("commit_then_half_answer")),
    (2, _plain("in_progress")),
)


FAULTS: dict[str, Sequence[tuple[int, Json | None]]] = {
    "charge": _OF_PAYMENTS,
    "refund": _OF_PAYMENTS,
    "ticket": (
        (40, None),
        (15, _plain("commit_then_drop")),
        (15, _plain("drop_before_commit")),
        (10, _plain("refuse")),
        (10, _plain("fail_after_commit")),
        (10, ANSWER_LATE),
    ),
    "email": (
        (60, None),
        (20, _plain("commit_then_drop")),
        (10, _plain("refuse")),
        (10, _plain("fail_before_commit")),
    ),
}
"""What befalls the first request of an action, in shares of about a hundred."""

SETTLED_SOON = FAULTS | {
    "ticket": [share for share in FAULTS["ticket"] if share[1] != _plain("drop_before_commit")]
}
"""Without the one fault whose absence takes seconds to be sure of."""

WEBHOOKS: Sequence[tuple[int, list[Json]]] = (
    (34, NORMAL),
    (6, [{"kind": "lost"}]),
    (15, [{"kind": "late", "delay_ms": 800}]),
    (10, [{"kind": "twice"}]),
    (10, [{"kind": "early"}]),
    (5, [{"kind": "out_of_order"}]),
    (5, [{"kind": "forged"}, {"kind": "normal"}]),
    (15, NO_WEBHOOK),
)
QUIET: Sequence[tuple[int, list[Json]]] = ((25, NORMAL), (75, NO_WEBHOOK))
"""E-mails are mostly not told of: then nobody can find out, and a person has to look."""


@dataclass(frozen=True, slots=True)
class Wish:
    """One action that an agent wants, and what is to befall it."""

    tenant: str
    intent: Intent
    fault: Json | None
    webhooks: list[Json]

    @property
    def key(self) -> str:
        """The key that the ledger will give it."""
        intent = self.intent
        return f"{intent.operation}:v{intent.version}:{self.tenant}:{intent.business_event}"


def wishes(seed: int, count: int, faults: Faults = FAULTS) -> list[Wish]:
    """What the agents of a run want, of the operations that have faults: of all, five of eight are
    charges, one is a refund, for which people are asked, one a ticket and one an e-mail.
    """
    chance = random.Random(f"wishes|{seed}")
    operations = [one for one in OPERATIONS if one in faults]
    made = []
    for number in range(count):
        operation = operations[number % len(operations)]
        # Two wishes share a business event, so that streams hold more than one action.
        event = f"event-{seed}-{number // 2}" + ("" if number % 2 else "-b")
        tenant = TENANTS[number // 2 % len(TENANTS)]
        quiet = operation == "email"
        wish = Wish(
            tenant,
            _intent(operation, event, number),
            _drawn(chance, faults[operation]),
            _drawn(chance, QUIET if quiet else WEBHOOKS),
        )
        made.append(wish)
    return made


def _intent(operation: str, event: str, number: int) -> Intent:
    common: dict[str, Any] = {
        "operation": operation,
        "business_event": event,
        "environment": "test",
    }
    match operation:
        case "charge":
            # Two events share an order, and a few runs all of them, so that they meet at gates.
            money = Money(minor=100 + number, currency="EUR")
            order = f"order:{event.removesuffix('-b')}"
            return Intent(**common, target=order, money=money, run=f"run-{number % RUNS}")
        case "refund":
            money = Money(minor=12_000 + number, currency="EUR")
            return Intent(**common, target=f"order:{number}", money=money)
        case "ticket":
            return Intent(**common, params={"title": f"Ticket {number}"})
        case _:
            return Intent(**common, params={"subject": f"Message {number}"})


def _drawn(chance: random.Random, shares: Sequence[tuple[int, _What]]) -> _What:
    return chance.choices([what for _, what in shares], [share for share, _ in shares])[0]


async def script(provider_url: str, wanted: Sequence[Wish]) -> None:
    """Tell the provider how its accounts are and what to do to each action's first request."""
    scripts = [
        {"match": {"action_key": wish.key}, "fault": wish.fault, "webhooks": wish.webhooks}
        for wish in wanted
    ]
    async with httpx.AsyncClient(
        base_url=provider_url, trust_env=False, timeout=PATIENCE_SECONDS
    ) as client:
        for account, personality in PERSONALITIES.items():
            body = {"account": account, "personality": personality}
            (await client.post("/control/personality", json=body)).raise_for_status()
        answer = await client.post("/control/script", json={"scripts": scripts})
        answer.raise_for_status()


@dataclass
class Agents:
    """Agents that share a list of wishes, and the notes of what they were told."""

    url: str
    keys: Mapping[str, str]
    notes: Path
    seed: int
    answer_seconds_max: float = ANSWER_SECONDS_MAX
    answered: int = 0
    progress: asyncio.Event = field(default_factory=asyncio.Event)

    async def work(self, wanted: Sequence[Wish]) -> None:
        """Ask for everything; returns when each wish has an answer."""
        queue = iter(wanted)
        async with asyncio.TaskGroup() as group:
            for number in range(min(AGENTS_MAX, len(wanted))):
                group.create_task(self._agent(number, queue))

    async def reached(self, count: int) -> None:
        """Wait until so many wishes have been answered."""
        while self.answered < count:
            await self.progress.wait()
            self.progress.clear()

    async def _agent(self, number: int, queue: Iterator[Wish]) -> None:
        chance = random.Random(f"agent|{self.seed}|{number}")
        ledgers = {
            tenant: Ledger(
                self.url,
                key,
                retries=Retries(first_ms=50, cap_ms=500),
                # Straight to the door: what the environment says of proxies is not for it.
                transport=httpx.AsyncHTTPTransport(verify=False),
            )
            for tenant, key in self.keys.items()
        }
        try:
            for wish in queue:
                await self._pursue(ledgers[wish.tenant], wish, chance)
                self.answered += 1
                self.progress.set()
        finally:
            for ledger in ledgers.values():
                await ledger.close()

    async def _pursue(self, ledger: Ledger, wish: Wish, chance: random.Random) -> None:
        mood = chance.random()
        if mood < 0.1:
            await self._die_while_asking(ledger, wish, chance)
        await self._ask(ledger, wish.tenant, wish.intent)
        if mood > 0.85:
            await self._ask(ledger, wish.tenant, wish.intent)
        if mood > 0.95 and wish.intent.money is not None:
            other = Money(minor=wish.intent.money.minor * 10, currency="EUR")
            tenfold = wish.intent.model_copy(update={"money": other})
            await self._ask(ledger, wish.tenant, tenfold)

    async def _die_while_asking(self, ledger: Ledger, wish: Wish, chance: random.Random) -> None:
        """The agent is gone before its answer comes; whatever it was told, nobody knows."""
        try:
            async with asyncio.timeout(chance.uniform(0.001, 0.1)):
                await ledger.propose(wish.intent, wait_ms=WAIT_MS)
        except (TimeoutError, LedgerUnavailable):
            self._note(wish.tenant, {"key": wish.key, "answer": "info"})

    async def _ask(self, ledger: Ledger, tenant: str, intent: Intent) -> None:
        """Ask until there is an answer, and note it."""
        async with asyncio.timeout(self.answer_seconds_max):
            while True:
                try:
                    result = await ledger.propose(intent, wait_ms=WAIT_MS)
                except LedgerUnavailable:
                    continue
                self._note(tenant, noted(result))
                return

    def _note(self, tenant: str, line: Json) -> None:
        with self.notes.open("ab") as notes:
            notes.write(orjson.dumps({"tenant": tenant, **line}) + b"\n")


def noted(result: Result) -> Json:
    """An answer as the checker reads it."""
    match result:
        case Conflict(key=key):
            return {"key": key, "answer": "refused", "code": "conflicted"}
        case Succeeded(key=key, reference=reference):
            told: Json = {"key": key, "status": "completed", "reference": reference}
        case Failed(key=key):
            told = {"key": key, "status": "failed"}
        case Expired(key=key):
            # Its step's deadline came before anybody could begin.
            told = {"key": key, "status": "expired"}
        case Unknown(key=key):
            told = {"key": key, "status": "unknown"}
        case NeedsReview(key=key):
            told = {"key": key, "status": "needs_review"}
        case Blocked(key=key):
            told = {"key": key, "status": "blocked"}
        case Pending(key=key, status=status):
            told = {"key": key, "status": status}
        case AwaitingApproval(key=key) | ApprovalExpired(key=key):
            told = {"key": key, "status": "awaiting_approval"}
        case Denied(key=key):
            told = {"key": key, "status": "denied"}
        case other:
            raise AssertionError(f"nobody may be told {other!r} here")
    return {**told, "answer": "ok"}
