"""The ledger straight on Kafka, for the gateway and for services trusted with the tenant they name.

A proposal returns when it is durable and decided. Progress is what the accepted log says, with one
shortcut: at the acknowledgement of its holder's report a success is told at once, because nothing
can undo it. Every other answer is the ledger's own status. Must never be handed to an agent: it can
write any tenant's intents.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import JsonValue

from ledger.core.errors import LedgerError
from ledger.core.evolve import Place, evolve
from ledger.core.facts import IntentRecorded
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Cancel, Propose, Report, Success
from ledger.core.records import Decision
from ledger.core.state import Action, Stream
from ledger.log.envelope import outgoing, read_input
from ledger.log.fold import PartitionFold
from ledger.log.kafka import KafkaAppender, KafkaLog, KafkaReader, Start
from ledger.log.port import AppendUnknownError, Record
from ledger.log.topics import Topic, partition_of

READ_MS = 500
STREAMS_REMEMBERED_MAX = 65_536
ANSWERS_REMEMBERED_MAX = 16_384


class NotDurableError(LedgerError):
    """The input may or may not have reached the log. Asking again with the same key is always
    right.
    """


class UndecidedError(LedgerError):
    """The input is durable, at `partition` and `offset` of `intents`, and has no decision yet."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(
            "The intent is recorded and not decided yet.",
            hint="Ask for the action again; the same proposal again is answered the same way.",
        )
        self.partition = partition
        self.offset = offset


class ClientFailedError(LedgerError):
    """The client can no longer follow the log; the process must end."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The decision on an input, and where the input stands in `intents`."""

    decision: Decision
    partition: int
    offset: int
    appended_at: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How an action stands. `ledger_offset` is the place in its partition that says so;
    `next_check_at` is when it next does something by itself, retry or lookup.
    """

    key: str
    version: int
    status: str
    reference: str | None
    result: Mapping[str, JsonValue] | None
    code: str | None
    proof: str | None
    ledger_partition: int
    ledger_offset: int
    attempts: int = 0
    next_check_at: int | None = None


class LedgerClient:
    """Proposes, cancels and follows. One a process; safe for any number of concurrent callers."""

    def __init__(
        self,
        log: KafkaLog,
        partitions: int,
        *,
        begin_at: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`begin_at` gives, by partition, a ledger offset and the epoch known there; without it the
        ledger is read from its beginning.
        """
        self._log = log
        self._partitions = partitions
        self._folds = {part: PartitionFold(part) for part in range(partitions)}
        for part, (offset, epoch) in (begin_at or {}).items():
            self._folds[part].next_offset, self._folds[part].epoch = offset, epoch
        self._source = f"/actionledger/client/{secrets.token_hex(4)}"
        self._streams: OrderedDict[str, tuple[Stream, int]] = OrderedDict()
        self._succeeded: OrderedDict[str, Success] = OrderedDict()
        self._answers: OrderedDict[tuple[int, int], Decision] = OrderedDict()
        self._asked: dict[tuple[int, int], asyncio.Future[Decision]] = {}
        self._watched: dict[str, list[asyncio.Future[None]]] = {}
        self._appender: KafkaAppender | None = None
        self._appending = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._readers: list[KafkaReader] = []
        self.failure: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Read what is there, then follow. Raises LogUnreachableError."""
        self.failure = asyncio.get_running_loop().create_future()
        self._appender = await self._log.appender()
        parts = range(self._partitions)
        ledger = await self._log.reader(
            {(Topic.LEDGER.value, part): self._folds[part].next_offset for part in parts}
        )
        attempts = await self._log.reader(
            {(Topic.ATTEMPTS.value, part): Start.END for part in parts}
        )
        self._readers = [ledger, attempts]
        ends = await ledger.end_offsets([(Topic.LEDGER.value, part) for part in parts])
        while any(self._folds[part].next_offset < end for (_, part), end in ends.items()):
            for record in await ledger.read(timeout_ms=READ_MS):
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
        if self._appender is not None:
            await self._appender.close()
        if self.failure is not None and not self.failure.done():
            self.failure.cancel()

    async def propose(self, proposal: Propose, *, timeout_ms: int) -> Answer:
        """Make an intent durable and wait for its decision. Raises NotDurableError, UndecidedError,
        MalformedId.
        """
        return await self._ask(proposal, timeout_ms)

    async def cancel(self, cancellation: Cancel, *, timeout_ms: int) -> Answer:
        """Ask that an action not begin. Raises NotDurableError, UndecidedError, MalformedId."""
        return await self._ask(cancellation, timeout_ms)

    async def progress(
        self, key: str, *, after_version: int = 0, timeout_ms: int = 0
    ) -> Progress | None:
        """How an action stands, as soon as it stands later than `after_version`; None when the time
        is up, or when its intent was recorded before this client began.
        """
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1_000
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

    # Asking

    async def _ask(self, given: Propose | Cancel, timeout_ms: int) -> Answer:
        self._check()
        stream = stream_key_of(given.key)
        partition = partition_of(stream, self._partitions)
        record = outgoing(
            given,
            stream=stream,
            subject=given.key,
            event_id=secrets.token_hex(12),
            source=self._source,
        )
        assert self._appender is not None  # noqa: S101 - started, or `_check` had raised
        appender = self._appender
        try:
            (appended,) = await appender.append(Topic.INTENTS, partition, [record])
        except AppendUnknownError as unknown:
            await self._replace(appender)
            raise NotDurableError(
                "The log did not acknowledge the intent; it may be there or not.",
                hint="Ask again with the same key.",
            ) from unknown
        place = (partition, appended.offset)
        decision = self._answers.get(place) or await self._decision(place, timeout_ms)
        return Answer(decision, partition, appended.offset, appended.timestamp)

    async def _decision(self, place: tuple[int, int], timeout_ms: int) -> Decision:
        waiting: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self._asked[place] = waiting
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await waiting
        except TimeoutError:
            raise UndecidedError(*place) from None
        finally:
            del self._asked[place]

    async def _replace(self, spent: KafkaAppender) -> None:
        """A producer is spent after any failure; the first caller to notice brings a new one."""
        async with self._appending:
            if self._appender is spent:
                self._appender = await self._log.appender()
                await spent.close()

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
            if self.failure is not None and not self.failure.done():
                self.failure.set_exception(fault)
            raise

    def _feed(self, record: Record) -> None:
        read = self._folds[record.partition].feed(record)
        if not isinstance(read, Decision):
            return
        if read.cause.topic == Topic.INTENTS:
            place = (record.partition, read.cause.offset)
            waiting = self._asked.get(place)
            if waiting is not None and not waiting.done():
                waiting.set_result(read)
            self._answers[place] = read
            if len(self._answers) > ANSWERS_REMEMBERED_MAX:
                self._answers.popitem(last=False)
        if read.facts:
            self._fold(read)

    def _fold(self, read: Decision) -> None:
        """Keep the actions whose intent was seen here; others are the read model's to answer."""
        known, _ = self._streams.get(read.stream, (Stream(read.stream), 0))
        seen = {action.key for action in known.actions}
        seen.update(fact.action for fact in read.facts if isinstance(fact, IntentRecorded))
        facts = tuple(fact for fact in read.facts if fact.action in seen)
        if not facts:
            return
        place = Place(offset=read.at, decided_at=read.decided_at)
        for fact in facts:
            known = evolve(known, fact, place)
        self._streams[read.stream] = (known, read.at)
        self._streams.move_to_end(read.stream)
        if len(self._streams) > STREAMS_REMEMBERED_MAX:
            self._streams.popitem(last=False)
        for fact in facts:
            self._wake(fact.action)

    def _hear(self, record: Record) -> None:
        """A holder's report is durable: tell its success before the ledger has decided it."""
        given = read_input(record)
        if isinstance(given, Report) and isinstance(given.outcome, Success):
            action = self._action(given.key)
            if action is None or action.running is None:
                return
            running = action.running
            if (running.number, running.fencing_token, running.holder) == (
                given.attempt,
                given.fencing_token,
                given.holder,
            ):
                self._succeeded[given.key] = given.outcome
                if len(self._succeeded) > ANSWERS_REMEMBERED_MAX:
                    self._succeeded.popitem(last=False)
                self._wake(given.key)

    def _action(self, key: str) -> Action | None:
        known = self._streams.get(stream_key_of(key))
        return None if known is None else known[0].action(key)

    def _progress_of(self, key: str) -> Progress | None:
        action = self._action(key)
        if action is None:
            return None
        partition = partition_of(stream_key_of(key), self._partitions)
        offset = self._streams[stream_key_of(key)][1]
        early = self._succeeded.get(key)
        if early is not None and action.running is not None:
            return Progress(
                key=key,
                version=action.version + 1,
                status="completed",
                reference=early.reference,
                result=early.result,
                code=None,
                proof="report",
                ledger_partition=partition,
                ledger_offset=offset,
                attempts=action.counted_attempts,
            )
        return Progress(
            key=key,
            version=action.version,
            status=action.status,
            reference=action.reference,
            result=action.result,
            code=action.code or action.review,
            proof=action.proof,
            ledger_partition=partition,
            ledger_offset=offset,
            attempts=action.counted_attempts,
            next_check_at=None if action.timer is None else action.timer.due_at,
        )

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
