"""The ledger straight on Kafka, for the gateway and for services trusted with the tenant they name.

A proposal, or what a person signed, returns when it is durable and decided. How an action goes on
is read from the ledger, except that a success is told a little earlier: see
`ledger.client.progress`. Must never be handed to an agent: it can write any tenant's intents.
"""

import asyncio
import secrets
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

from ledger.client.progress import ActionsSeen, Progress
from ledger.core.errors import LedgerError
from ledger.core.facts import AttemptStarted
from ledger.core.ids import stream_key_of
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
from ledger.core.invariants import BrokenInvariantError
from ledger.core.records import Decision
from ledger.core.sagas import Saga
from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.envelope import outgoing
from ledger.log.fold import Begin
from ledger.log.kafka import KafkaLog, KafkaReader, Start
from ledger.log.port import Appended, AppendUnknownError, Outgoing, Record
from ledger.log.reading import read_up_to
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.trouble import LogUnreachableError, TruncatedLogError

__all__ = [
    "Answer",
    "ClientFailedError",
    "LedgerClient",
    "NotDurableError",
    "Progress",
    "UndecidedError",
]

READ_MS = 500
ANSWERS_REMEMBERED_MAX = 8_192
"""Decisions kept for whoever asks next: the one on an input may be read before the broker's
acknowledgement of that input has come back.
"""


class NotDurableError(LedgerError):
    """The input may or may not have reached the log. Asking again with the same key is always
    right.
    """


class UndecidedError(LedgerError):
    """The input is durable, at `partition` and `offset` of its inbox, and has no decision yet."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(
            "The input is recorded and not decided yet.",
            hint="Ask for the action again; the same input again is answered the same way.",
        )
        self.partition = partition
        self.offset = offset


class ClientFailedError(LedgerError):
    """The client can no longer follow the log; the process must end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision on an input, and where the input stands in its inbox."""

    decision: Decision
    partition: int
    offset: int
    appended_at: int


_Asked = Propose | Cancel | CallerReport | AskAgain | ReportStep | OpenSaga | CancelSaga
_Place = tuple[Topic, int, int]
"""Where an input stands: its inbox, partition and offset."""


def _not_durable() -> NotDurableError:
    return NotDurableError(
        "The log did not acknowledge the input; it may be there or not.",
        hint="Ask again with the same key.",
    )


def _made_anew(place: _Place) -> TruncatedLogError:
    topic, partition, offset = place
    return TruncatedLogError(
        f"{topic} {partition} gave the offset {offset} again, on which the ledger has decided.",
        hint="The topic was deleted or made anew. Restore it; never let it start over.",
    )


class LedgerClient:
    """Proposes, cancels and follows. One a process; safe for any number of concurrent callers."""

    def __init__(
        self,
        log: KafkaLog,
        partitions: int,
        *,
        begin_at: Mapping[int, Begin] | None = None,
        approvals: KafkaLog | None = None,
    ) -> None:
        """`begin_at` gives, by partition, a ledger offset and what is known there; without it the
        ledger is read from its beginning. `approvals` is the log as the one principal has it that
        may write what people sign; without it the client's own does.
        """
        self._log = log
        self._partitions = partitions
        self._seen = ActionsSeen(partitions, begin_at or {})
        self._source = f"/actionledger/client/{secrets.token_hex(4)}"
        self._answers: OrderedDict[_Place, Decision] = OrderedDict()
        self._asked: dict[_Place, asyncio.Future[Decision]] = {}
        self._watched: dict[str, list[asyncio.Future[None]]] = {}
        self._concerned: Counter[bytes] = Counter()
        """Streams about which somebody here waits for a word."""
        # An intent counts once by its key, a decision of a person once by its nonce: another
        # producer may repeat either.
        self._appenders = {
            Topic.INTENTS: SteadyAppender(log.appender),
            Topic.APPROVALS: SteadyAppender((approvals or log).appender),
        }
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[KafkaReader] = []
        self.failure: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Read what is there, then follow. Raises LogUnreachableError, TruncatedLogError."""
        self.failure = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        parts = range(self._partitions)
        begins = {(Topic.LEDGER.value, part): self._seen.next_offset(part) for part in parts}
        ledger = await self._log.reader(begins)
        self._readers.append(ledger)
        attempts = await self._log.reader(
            {(Topic.ATTEMPTS.value, part): Start.END for part in parts}
        )
        self._readers.append(attempts)
        ends = await ledger.end_offsets(begins)
        async for records in read_up_to(ledger, begins, ends):
            for record in records:
                self._feed(record)
        self._tasks = [
            asyncio.create_task(self._follow(ledger), name="ledger_client_ledger"),
            asyncio.create_task(self._follow(attempts), name="ledger_client_attempts"),
        ]

    async def close(self) -> None:
        """Stop following and let go of the broker."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for reader in self._readers:
            await reader.close()
        for appender in self._appenders.values():
            await appender.close()
        failure = self.failure
        if failure is not None and not failure.cancel() and not failure.cancelled():
            failure.exception()  # heard by whoever waits for it; nobody else has to

    async def propose(self, proposal: Propose, *, timeout_ms: int) -> Answer:
        """Make an intent durable and wait for its decision. Raises NotDurableError, UndecidedError,
        MalformedId.
        """
        return await self._ask(proposal, timeout_ms)

    async def cancel(self, cancellation: Cancel, *, timeout_ms: int) -> Answer:
        """Ask that an action not begin. Raises NotDurableError, UndecidedError, MalformedId."""
        return await self._ask(cancellation, timeout_ms)

    async def report(self, said: CallerReport, *, timeout_ms: int) -> Answer:
        """Record what a caller says of its own attempt; as `propose`. Again changes nothing."""
        return await self._ask(said, timeout_ms)

    async def ask_again(self, given: AskAgain, *, timeout_ms: int) -> Answer:
        """Have people asked once more; as `propose`. While they are asked it changes nothing."""
        return await self._ask(given, timeout_ms)

    async def report_step(self, given: ReportStep, *, timeout_ms: int) -> Answer:
        """Record what an agent says of a step of its run; as `propose`. Again changes nothing."""
        return await self._ask(given, timeout_ms)

    async def open_saga(self, given: OpenSaga, *, timeout_ms: int) -> Answer:
        """Record a plan of several actions, whole or not at all; as `propose`."""
        return await self._ask(given, timeout_ms)

    async def cancel_saga(self, given: CancelSaga, *, timeout_ms: int) -> Answer:
        """Call off what of a saga has not begun; as `propose`. Again changes nothing."""
        return await self._ask(given, timeout_ms)

    def saga(self, stream: str, name: str) -> Saga | None:
        """A saga as it stands; None where its plan was recorded before this client began."""
        try:
            return self._seen.saga(stream, name)
        except BrokenInvariantError as fault:
            self.fail(fault)
            raise

    async def judge(self, given: Judge, *, timeout_ms: int) -> Answer:
        """Record what a person has signed; as `propose`. The same again counts once."""
        self._check()
        stream = stream_key_of(given.key)
        with self._concern(stream):
            partition, record = self._record(given, stream)
            crash_point("judgement_read")
            appending = self._append(Topic.APPROVALS, partition, record)
            appended = await crash_while("judgement_sent", appending)
            crash_point("judgement_acked")
            answer = await self._answered(Topic.APPROVALS, stream, appended, timeout_ms)
            crash_point("judgement_decided")
            return answer

    def caller_start(self, key: str, nonce: str) -> AttemptStarted | None:
        """The start that lets a call act now, if this client has read it; raises MalformedId."""
        return self._seen.caller_start(key, nonce)

    async def progress(
        self, key: str, *, after_version: int = 0, timeout_ms: int = 0
    ) -> Progress | None:
        """How an action stands, as soon as it stands later than `after_version`; None when the time
        is up, or when its intent was recorded before this client began. Raises MalformedId.
        """
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1_000
        with self._concern(stream_key_of(key)):
            while True:
                now = self._progress_of(key)
                if now is not None and now.version > after_version:
                    return now
                changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._watched.setdefault(key, []).append(changed)
                try:
                    async with asyncio.timeout_at(deadline):
                        await changed
                except TimeoutError:
                    return None
                finally:
                    self._unwatch(key, changed)

    @contextmanager
    def _concern(self, stream: str) -> Iterator[None]:
        """Read what the log says of a stream as it comes, for as long as the block runs."""
        key = stream.encode()
        self._concerned[key] += 1
        try:
            yield
        finally:
            self._concerned[key] -= 1
            if not self._concerned[key]:
                del self._concerned[key]

    # Asking

    async def _ask(self, given: _Asked, timeout_ms: int) -> Answer:
        """Put an intent, or what concerns one, into its inbox, and wait for its decision."""
        self._check()
        stream = stream_of_input(given)
        with self._concern(stream):
            partition, record = self._record(given, stream)
            crash_point("intent_parsed")
            appending = self._append(Topic.INTENTS, partition, record)
            appended = await crash_while("intent_sent", appending)
            crash_point("intent_acked")
            answer = await self._answered(Topic.INTENTS, stream, appended, timeout_ms)
            crash_point("intent_decided")
            return answer

    def _record(self, given: _Asked | Judge, stream: str) -> tuple[int, Outgoing]:
        record = outgoing(
            given,
            stream=stream,
            subject=getattr(given, "key", stream),
            event_id=secrets.token_hex(12),
            source=self._source,
        )
        return partition_of(stream, self._partitions), record

    async def _append(self, topic: Topic, partition: int, record: Outgoing) -> Appended:
        try:
            (appended,) = await self._appenders[topic].append(topic, partition, [record])
        except (AppendUnknownError, LogUnreachableError) as unknown:
            raise _not_durable() from unknown
        return appended

    async def _answered(
        self, topic: Topic, stream: str, appended: Appended, timeout_ms: int
    ) -> Answer:
        if appended.offset < 0:
            # The broker has it and cannot say where, so nobody could tell its decision.
            raise _not_durable()
        partition = partition_of(stream, self._partitions)
        place = (topic, partition, appended.offset)
        decision = self._answers.get(place) or await self._decision(place, timeout_ms)
        # An inbox that was made anew has its offsets again: it is the decision of what stood there.
        if decision.stream != stream or decision.decided_at < appended.timestamp:
            self.fail(_made_anew(place))
            raise UndecidedError(partition, appended.offset)
        return Answer(decision, partition, appended.offset, appended.timestamp)

    async def _decision(self, place: _Place, timeout_ms: int) -> Decision:
        waiting: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._asked[place] = waiting
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await waiting
        except TimeoutError:
            raise UndecidedError(*place[1:]) from None
        finally:
            del self._asked[place]

    def _check(self) -> None:
        if self.failure is None or self.failure.done():
            raise ClientFailedError(
                "This client does not follow the log.", hint="Start it, or start the process anew."
            )

    # Following

    async def _follow(self, reader: KafkaReader) -> None:
        try:
            while True:
                for record in await reader.read(timeout_ms=READ_MS):
                    if record.topic == Topic.LEDGER:
                        self._feed(record)
                    else:
                        self._hear(record)
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self.fail(fault)
            raise

    def fail(self, fault: Exception) -> None:
        """Nothing more can be said from here, or from what stands beside: the process must end."""
        if self.failure is not None and not self.failure.done():
            self.failure.set_exception(fault)
        for place, waiting in self._asked.items():
            if not waiting.done():
                waiting.set_exception(UndecidedError(*place[1:]))

    def _progress_of(self, key: str) -> Progress | None:
        """How an action stands as far as the log was read. A record that counts and cannot be read
        may come to light only here.
        """
        try:
            return self._seen.progress_of(key)
        except BrokenInvariantError as fault:
            self.fail(fault)
            raise

    def _feed(self, record: Record) -> None:
        if record.key not in self._concerned:
            # Nobody here waits for it: the work of folding it is left to whoever asks.
            self._seen.feed_later(record)
            return
        read = self._seen.feed(record)
        if read is None:
            return
        if read.cause.topic in self._appenders:
            place = (Topic(read.cause.topic), record.partition, read.cause.offset)
            waiting = self._asked.get(place)
            if waiting is not None and not waiting.done():
                waiting.set_result(read)
            self._answers[place] = read
            if len(self._answers) > ANSWERS_REMEMBERED_MAX:
                self._answers.popitem(last=False)
        for fact in read.facts:
            self._wake(fact.action)

    def _hear(self, record: Record) -> None:
        if record.key not in self._concerned:
            return
        done = self._seen.hear(record)
        if done is not None:
            self._wake(done)

    def _wake(self, key: str) -> None:
        for changed in self._watched.get(key, ()):
            if not changed.done():
                changed.set_result(None)

    def _unwatch(self, key: str, changed: "asyncio.Future[None]") -> None:
        waiting = self._watched.get(key, [])
        if changed in waiting:
            waiting.remove(changed)
        if not waiting:
            self._watched.pop(key, None)
