"""What the HTTP door works with, in memory: the ledger, the read model, the API keys.

Guarantees that waiting lets time pass on the hand-moved clock and on no other. Called by the door.
"""

import secrets
from collections.abc import Sequence
from typing import Final

from gateway.keys import Caller
from gateway.memory.clock import HandClock
from gateway.memory.processes import PARTITION, PARTITIONS
from ledger.client.client import Answer, Progress, UndecidedError
from ledger.client.seen import ActionsSeen
from ledger.core.facts import AttemptStarted
from ledger.core.ids import ActionKey, event_id, stream_key_of
from ledger.core.inputs import CallerReport, Cancel, Propose
from ledger.core.records import Decision
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.simulated import SimulatedLog
from ledger.log.topics import Topic
from projections.views import ActionView, CauseView, EventView

_INTENTS: Final = Topic.INTENTS.value


class MemoryLedger:
    """Proposes, cancels, reports and follows; reads every ledger record as it lands."""

    def __init__(self, log: SimulatedLog, clock: HandClock) -> None:
        self._log = log
        self._clock = clock
        self._seen = ActionsSeen(PARTITIONS, {})
        self._answers: dict[int, Decision] = {}

    def feed(self, record: Record) -> Decision | None:
        """Read the next ledger record; the decision if it is one."""
        read = self._seen.feed(record)
        if read is not None and read.cause.topic == _INTENTS:
            self._answers[read.cause.offset] = read
        return read

    async def propose(self, given: Propose, *, timeout_ms: int) -> Answer:
        """Record an intent and wait for its decision."""
        return await self._ask(given, timeout_ms)

    async def cancel(self, given: Cancel, *, timeout_ms: int) -> Answer:
        """Record a cancellation and wait for its decision."""
        return await self._ask(given, timeout_ms)

    async def report(self, said: CallerReport, *, timeout_ms: int) -> Answer:
        """Record a caller's word and wait for its decision."""
        return await self._ask(said, timeout_ms)

    def caller_start(self, key: str, nonce: str) -> AttemptStarted | None:
        """The start that lets this one call act now."""
        return self._seen.caller_start(key, nonce)

    async def progress(
        self, key: str, *, after_version: int = 0, timeout_ms: int = 0
    ) -> Progress | None:
        """How an action stands once its version is above `after_version`; None if not in time."""

        def is_later() -> bool:
            known = self._seen.progress_of(key)
            return known is not None and known.version > after_version

        if is_later() or timeout_ms == 0:
            return self._seen.progress_of(key) if is_later() else None
        is_there = await self._clock.until(is_later, self._clock.now + timeout_ms)
        return self._seen.progress_of(key) if is_there else None

    async def _ask(self, given: Propose | Cancel | CallerReport, timeout_ms: int) -> Answer:
        record = outgoing(
            given,
            stream=stream_key_of(given.key),
            subject=given.key,
            event_id=secrets.token_hex(12),
            source="/actionledger/client/memory",
        )
        (appended,) = self._log.append(_INTENTS, PARTITION, [record])
        offset = appended.offset
        decided = await self._clock.until(
            lambda: offset in self._answers, self._clock.now + timeout_ms
        )
        if not decided:
            raise UndecidedError(PARTITION, offset)
        return Answer(self._answers.pop(offset), PARTITION, offset, appended.timestamp)


class MemoryQueries:
    """The read model: everything is in memory, so an action that is not is not there at all."""

    def __init__(self) -> None:
        self._events: dict[str, list[EventView]] = {}

    def feed(self, read: Decision) -> None:
        """Keep the facts of a decision by their action."""
        for ordinal, fact in enumerate(read.facts):
            cause = read.cause
            view = EventView(
                version=fact.version,
                type=fact.type,
                decided_at=read.decided_at,
                data=fact.model_dump(mode="json", exclude_none=True),
                event_id=event_id(
                    ActionKey.parse(fact.action).tenant,
                    fact.action,
                    fact.version,
                    fact.type,
                    cause.topic,
                    cause.partition,
                    cause.offset,
                    ordinal,
                ),
                partition=PARTITION,
                ledger_offset=read.at,
                ordinal=ordinal,
                cause=CauseView(cause.topic, cause.partition, cause.offset, cause.copied),
            )
            self._events.setdefault(fact.action, []).append(view)

    async def action(self, tenant: str, action_key: str) -> ActionView | None:  # noqa: ARG002
        """None: whoever follows the log knows every action there is."""
        return None

    async def timeline(
        self, tenant: str, action_key: str, *, after_version: int = 0, limit: int
    ) -> Sequence[EventView]:
        """The facts of an action above a version, in order."""
        if ActionKey.parse(action_key).tenant != tenant:
            return ()
        known = self._events.get(action_key, ())
        return [one for one in known if one.version > after_version][:limit]


class MemoryKeys:
    """One key for each caller that the installation has."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}

    def add(self, caller: Caller) -> str:
        """A key for a caller."""
        key = f"memory-{len(self._callers) + 1}"
        self._callers[key] = caller
        return key

    def caller(self, presented: str) -> Caller | None:
        """Who a key belongs to."""
        return self._callers.get(presented)


class MemoryAppender:
    """Appends webhooks that came through the door."""

    def __init__(self, log: SimulatedLog) -> None:
        self._log = log

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Append at once."""
        return self._log.append(str(topic), partition, records)

    async def close(self) -> None:
        """There is nothing to close."""
