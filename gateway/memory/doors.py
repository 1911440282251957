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
from ledger.client.progress import ActionsSeen
from ledger.core.facts import (
    AttemptStarted,
)
from ledger.core.ids import (
    stream_key_of,
)
from ledger.core.inputs import (
    AskAgain,
    CallerReport,
    Cancel,
    CancelSaga,
    Judge,
    OpenSaga,
    Propose,
    ReportStep,
    stream_of_input,
)
from ledger.core.records import Decision
from ledger.core.sagas import Saga
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.simulated import SimulatedLog
from ledger.log.topics import Topic

_INTENTS: Final = Topic.INTENTS.value
_APPROVALS: Final = Topic.APPROVALS.value
_ASKED: Final = frozenset({_INTENTS, _APPROVALS})


class MemoryLedger:
    """Proposes, cancels, reports and follows; reads every ledger record as it lands."""

    def __init__(self, log: SimulatedLog, clock: HandClock) -> None:
        self._log = log
        self._clock = clock
        self._seen = ActionsSeen(PARTITIONS, {})
        self._answers: dict[tuple[str, int], Decision] = {}

    def feed(self, record: Record) -> Decision | None:
        """Read the next ledger record; the decision if it is one."""
        read = self._seen.feed(record)
        if read is not None and read.cause.topic in _ASKED:
            self._answers[read.cause.topic, read.cause.offset] = read
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

    async def ask_again(self, given: AskAgain, *, timeout_ms: int) -> Answer:
        """Have people asked once more and wait for the decision."""
        return await self._ask(given, timeout_ms)

    async def report_step(self, given: ReportStep, *, timeout_ms: int) -> Answer:
        """Record what an agent says of a step and wait for the decision."""
        return await self._ask(given, timeout_ms)

    async def open_saga(self, given: OpenSaga, *, timeout_ms: int) -> Answer:
        """Record a plan and wait for its decision."""
        return await self._ask(given, timeout_ms)

    async def cancel_saga(self, given: CancelSaga, *, timeout_ms: int) -> Answer:
        """Call a saga off and wait for the decision."""
        return await self._ask(given, timeout_ms)

    def saga(self, stream: str, name: str) -> Saga | None:
        """A saga as it stands."""
        return self._seen.saga(stream, name)

    async def judge(self, given: Judge, *, timeout_ms: int) -> Answer:
        """Record what a person signed and wait for its decision."""
        return await self._ask(given, timeout_ms, _APPROVALS)

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

    async def _ask(
        self,
        given: Propose
        | Cancel
        | CallerReport
        | AskAgain
        | ReportStep
        | OpenSaga
        | CancelSaga
        | Judge,
        timeout_ms: int,
        topic: str = _INTENTS,
    ) -> Answer:
        stream = stream_key_of(given.key) if isinstance(given, Judge) else stream_of_input(given)
        record = outgoing(
            given,
            stream=stream,
            subject=getattr(given, "key", stream),
            event_id=secrets.token_hex(12),
            source="/actionledger/client/memory",
        )
        (appended,) = self._log.append(topic, PARTITION, [record])
        place = (topic, appended.offset)
        decided = await self._clock.until(
            lambda: place in self._answers, self._clock.now + timeout_ms
        )
        if not decided:
            raise UndecidedError(PARTITION, appended.offset)
        return Answer(self._answers.pop(place), PARTITION, appended.offset, appended.timestamp)


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
