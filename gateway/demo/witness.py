"""Who watches the log during the demonstration: everything about one tenant, as it comes, from now
on.

Guarantees that what is shown stands in the log: it reads the topics themselves, never what a
process says of them. Called by the story.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from gateway.cli.reading import document_of
from ledger.core.errors import LedgerError
from ledger.log.kafka import KafkaLog, KafkaReader, Start
from ledger.log.topics import Topic

READ_MS: Final = 100
WAIT_SECONDS_MAX: Final = 60.0
BY_STREAM: Final = (
    Topic.INTENTS,
    Topic.APPROVALS,
    Topic.ATTEMPTS,
    Topic.EVIDENCE,
    Topic.LEDGER,
)

Document = dict[str, Any]
"""A record as `gateway.cli.reading.document_of` tells it."""


class NotSeenError(LedgerError):
    """Something that the story waits for did not come into the log."""


class Witness:
    """All records of a tenant's streams and all webhooks about its actions, in the order of their
    append times.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._of_tenant = f"{tenant}/".encode()
        self._changed = asyncio.Event()
        self._shown = 0
        self.seen: list[Document] = []

    def new(self, last: Document | None = None) -> list[Document]:
        """What came since this was asked before, up to a record and including it."""
        fresh = sorted(self.seen, key=_order)[self._shown :]
        if last is not None:
            fresh = [one for one in fresh if _order(one) <= _order(last)]
        self._shown += len(fresh)
        return fresh

    async def until(self, what: str, holds: Callable[[Document], bool]) -> Document:
        """The first record for which it holds. Raises NotSeenError."""
        try:
            async with asyncio.timeout(WAIT_SECONDS_MAX):
                while True:
                    for one in self.seen:
                        if holds(one):
                            return one
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise NotSeenError(
                f"The log does not say within {WAIT_SECONDS_MAX:.0f} s: {what}.",
                hint="Run it again with --keep and look at the logs of the processes.",
            ) from None

    async def watch(self, reader: KafkaReader) -> None:
        """Read until cancelled."""
        while True:
            for record in await reader.read(timeout_ms=READ_MS):
                if record.topic == Topic.WEBHOOKS:
                    document = document_of(record)
                    if is_of_tenant(self._tenant, _action_of(document)):
                        self.seen.append(document)
                elif (record.key or b"").startswith(self._of_tenant):
                    self.seen.append(document_of(record))
            self._changed.set()


def is_of_tenant(tenant: str, action_key: object) -> bool:
    """Whether what somebody names is the key of an action of a tenant; anything may be named."""
    return isinstance(action_key, str) and action_key.split(":")[2:3] == [tenant]


def _action_of(webhook: Document) -> object:
    """The action that the simulated provider says a webhook is about; others say anything."""
    found: object = webhook.get("body")
    for name in ("data", "metadata", "action_key"):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _order(document: Document) -> tuple[int, bool]:
    """By append time; an input before the decision on it."""
    return document["timestamp"], document["topic"] == Topic.LEDGER


@asynccontextmanager
async def watching(log: KafkaLog, partitions: int, tenant: str) -> AsyncIterator[Witness]:
    """A witness of a tenant, for as long as the block runs."""
    witness = Witness(tenant)
    topics = (*BY_STREAM, Topic.WEBHOOKS)
    places = [(topic.value, part) for topic in topics for part in range(partitions)]
    reader = await log.reader(dict.fromkeys(places, Start.END))
    task = asyncio.create_task(witness.watch(reader), name="witness")
    try:
        yield witness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reader.close()
