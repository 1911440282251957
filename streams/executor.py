"""The executor: offers capacity, acts on the starts that name it, reports what became of them.

It makes one call for one start, at most once, with the key that the ledger recorded (see
`streams.provider_call`), and only after it has found out on its own, from what is published, that
the start is allowed (see `streams.authorization`). The report is sent until it is durable, also
while the broker is away. Trouble that ends the process takes back the offers first and lets running
calls finish; a start that was not acted on is declined, or its lease lapses, and the ledger goes
on.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

from ledger.core import inputs as i
from ledger.core.errors import LedgerError
from ledger.core.facts import IntentRecorded
from ledger.core.operation import Operation
from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.envelope import outgoing
from ledger.log.fold import Begin
from ledger.log.follow import genesis_of
from ledger.log.gathering import GatheringAppender
from ledger.log.kafka import KafkaLog
from ledger.log.port import AppendUnknownError
from ledger.log.published import CONFIG_PLACE, Published
from ledger.log.reading import read_up_to
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.trouble import LogUnreachableError
from reconciler.providers import port
from reconciler.providers.limits import CONNECTIONS_MAX
from streams.assignments import Assignment, Assignments, intent_in
from streams.authorization import Grounds, Permit
from streams.clock import SKEW_MS_DEFAULT, check_skew, mono_ms, wall_ms
from streams.older_requests import OlderRequests
from streams.provider_call import act

logger = logging.getLogger("actionledger")

READ_MS = 500
OFFER_RENEW_SECONDS = 2.0
OFFER_CHECK_SECONDS = 0.02
OFFER_VALID_MS = 6_000
WITHDRAWN_MS = 300
"""How long a start may still come after all offers were taken back: owners read offers at once."""

SLOTS_DEFAULT = 2_048
"""Starts that may be at hand at once. Spread over the partitions this must outlast the time between
two offers: a start that finds no slot costs a tick. Calls of one provider are CONNECTIONS_MAX."""

WAITING_MAX = 64
"""Starts that may wait here for a call of theirs to begin: they wait in the ledger, where nothing
runs out, instead of here, where their deadline does."""

WORK_AFTER_DECLINE_MS = 5_000
"""How long an incarnation that declined a start works on. The ledger never gives that action to it
again, so a new incarnation has to come, also where this is the only executor."""

MARGIN_MS_DEFAULT = 1_000
TELL_MS_MAX = 600_000
"""How long a report is tried again while no broker takes it. Nobody else knows what it says."""

TELL_AGAIN_SECONDS = 0.5

CONFIG_READ_SECONDS_MAX = 2.0
"""How long a start that is not allowed by what was read so far waits until the configuration has
been read to its end: owners may have adopted what is not read here yet.
"""

__all__ = ["MARGIN_MS_DEFAULT", "SKEW_MS_DEFAULT", "SLOTS_DEFAULT", "Executor"]


class Executor:
    """One incarnation: a random name, drawn when it begins to run."""

    def __init__(  # noqa: PLR0913 - what one incarnation is made of; most of it has a default
        self,
        log: KafkaLog,
        partitions: int,
        performers: Mapping[str, port.Performer],
        *,
        previewers: Mapping[str, port.Previewer] | None = None,
        slots: int = SLOTS_DEFAULT,
        margin_ms: int = MARGIN_MS_DEFAULT,
        skew_ms: int = SKEW_MS_DEFAULT,
        begin_at: Mapping[int, Begin] | None = None,
    ) -> None:
        """`begin_at` gives, by partition, a ledger offset and what is known there; without it the
        ledger is read from its beginning. `previewers` read again what people saw, by provider.
        """
        self._log = log
        self._partitions = partitions
        self._performers = performers
        self._previewers = previewers or {}
        self._slots = {part: max(1, slots // partitions) for part in range(partitions)}
        self._margin_ms = margin_ms
        self._skew_ms = skew_ms
        self._begin_at = begin_at or {}
        self._older = OlderRequests(log)
        self._calls = {name: asyncio.Semaphore(CONNECTIONS_MAX) for name in performers}
        self._starts_waiting = 0
        """Starts at hand whose call has not begun, because its provider has as many as it may."""
        self._ends_at: int | None = None
        """When this incarnation ends because it declined a start, in monotonic milliseconds."""
        self._config_read = asyncio.Condition()
        """Notified whenever more of the configuration was read."""
        self._config_lock = asyncio.Lock()
        """Held by whoever waits until the configuration is read to its end."""
        self._config_complete_at = 0.0
        """A moment before which everything published has been read, in monotonic seconds."""
        self.incarnation = secrets.token_hex(8)
        self.ready = asyncio.Event()
        self.acted_count = 0

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set, or until a start was given back and its supervisor is to bring
        a new incarnation; then finish the calls at work. Raises whatever must end the process.
        `beat` is called by every round once capacity is offered.
        """
        # Whoever runs again is somebody else: what the one before knew of its starts is gone.
        self.incarnation, self._ends_at = secrets.token_hex(8), None
        async with AsyncExitStack() as opened:
            await self._open(opened)
            await self._catch_up()
            trouble: ExceptionGroup[Exception] | None = None
            async with asyncio.TaskGroup() as calls:
                try:
                    async with asyncio.TaskGroup() as beside:
                        offering = beside.create_task(self._offer(stop))
                        hearing = beside.create_task(self._follow_config(stop))
                        await self._follow(stop, calls, beat)
                        offering.cancel()
                        hearing.cancel()
                except* Exception as failure:  # noqa: BLE001 - raised again, after the calls
                    trouble = failure
                await self._withdraw(calls, is_reading=trouble is None)
            if trouble is not None:
                raise trouble

    async def _open(self, opened: AsyncExitStack) -> None:
        operations = await self._read_config(opened)
        self._assignments = Assignments(self.incarnation, operations, self._slots)
        for partition, begin in self._begin_at.items():
            self._assignments.begin(partition, next_offset=begin.next_offset, epoch=begin.epoch)
        # What is said here counts once by what it says: another producer may repeat it.
        self._appender = SteadyAppender(self._log.appender)
        # What many calls have to say at a time goes into one append.
        self._reports = GatheringAppender(self._appender)
        opened.push_async_callback(self._reports.close)
        self._reader = await self._log.reader(self._positions())
        opened.push_async_callback(self._reader.close)
        opened.push_async_callback(self._older.close)

    async def _read_config(self, opened: AsyncExitStack) -> tuple[str, ...]:
        """Read what is published to its end; the operations that run on the providers here."""
        reader = await self._log.reader({CONFIG_PLACE: 0})
        opened.push_async_callback(reader.close)
        genesis = await genesis_of(self._log)
        self._config_reader, self._published = reader, Published()
        self._grounds = Grounds(self._published, genesis.generation)
        ends = await reader.end_offsets([CONFIG_PLACE])
        async for records in read_up_to(reader, {CONFIG_PLACE: 0}, ends):
            for record in records:
                self._published.feed(record)
        catalogue = self._published.catalogue
        operations = () if catalogue is None else catalogue.operations
        own = [one for one in operations if one.provider in self._performers]
        unseen = {one.name for one in own if self._lacks_preview(one)}
        for name in sorted(unseen):
            logger.error("preview_not_offered", extra={"operation": name})
        return tuple(sorted({one.name for one in own} - unseen))

    def _lacks_preview(self, operation: Operation) -> bool:
        """Whether what people see of an operation could not be read again just before it."""
        return operation.preview == "provider" and operation.provider not in self._previewers

    async def _follow_config(self, stop: asyncio.Event) -> None:
        """Hear of what is published: before the ledger adopts it, and whatever it adopts."""
        while not stop.is_set():
            for record in await self._config_reader.read(timeout_ms=READ_MS):
                self._published.feed(record)
            async with self._config_read:
                self._config_read.notify_all()

    async def _refusal(self, permit: Permit) -> str | None:
        """Why a start must not be acted on, by everything published before this call, or None. An
        objection counts only then: what allows the start may have been published and not be read
        here yet.
        """
        if permit.objection() is None:
            return None
        came_at = time.monotonic()
        with contextlib.suppress(TimeoutError, LedgerError):
            async with asyncio.timeout(CONFIG_READ_SECONDS_MAX), self._config_lock:
                # Many may come at once, as under a hold: one look answers all who came before it.
                if self._config_complete_at < came_at:
                    self._config_complete_at = await self._complete_config()
        return permit.objection()

    async def _complete_config(self) -> float:
        """Wait until everything published before this call is read; the time of the call."""
        published, began_at = self._published, time.monotonic()
        ends = await self._config_reader.end_offsets([CONFIG_PLACE])
        async with self._config_read:
            await self._config_read.wait_for(lambda: published.next_offset >= ends[CONFIG_PLACE])
        return began_at

    def _positions(self) -> dict[tuple[str, int], int]:
        return {
            (Topic.LEDGER.value, part): self._assignments.next_offset(part)
            for part in range(self._partitions)
        }

    async def _catch_up(self) -> None:
        """Read to where every partition ends now: only then is the epoch surely the current one."""
        begins = self._positions()
        ends = await self._reader.end_offsets(begins)
        async for records in read_up_to(self._reader, begins, ends):
            for record in records:
                self._assignments.feed(record)
        for part in range(self._partitions):
            self._assignments.caught_up(part)

    async def _follow(
        self, stop: asyncio.Event, calls: asyncio.TaskGroup, beat: Callable[[], None]
    ) -> None:
        """Act on each start that names this incarnation, until it is to stop."""
        while not stop.is_set() and not self._has_to_end():
            for record in await self._reader.read(timeout_ms=READ_MS):
                for assignment in self._assignments.feed(record):
                    crash_point("offer_spent")
                    calls.create_task(self._act(assignment))
            if self.ready.is_set():
                beat()

    def _has_to_end(self) -> bool:
        """Whether a new incarnation has to take over, because this one declined a start."""
        if self._ends_at is None or mono_ms() < self._ends_at:
            return False
        logger.warning("executor_makes_way", extra={"incarnation": self.incarnation})
        return True

    # Offers

    async def _offer(self, stop: asyncio.Event) -> None:
        """Renew every offer every few seconds, and sooner where the ledger runs short of slots."""
        renewed_at = -OFFER_VALID_MS
        while not stop.is_set():
            now = mono_ms()
            all_due = now - renewed_at >= OFFER_RENEW_SECONDS * 1_000
            self._assignments.limit(self._slots_each())
            due = [
                part
                for part in range(self._partitions)
                if all_due or self._assignments.wants_to_offer(part)
            ]
            if all_due:
                renewed_at = now
            if due:
                async with asyncio.TaskGroup() as sending:
                    for part in due:
                        sending.create_task(self._send_offer(part))
            await asyncio.sleep(OFFER_CHECK_SECONDS)

    def _slots_each(self) -> int | None:
        """How many more starts each partition may bring while some wait here; None: no limit."""
        if not self._starts_waiting:
            return None
        return max(0, WAITING_MAX - self._starts_waiting) // self._partitions

    async def _send_offer(self, partition: int) -> None:
        """Offer what is free. While no broker takes it there is no capacity, and no harm."""
        sent_at = wall_ms()
        offered = self._assignments.offer(
            partition,
            mono_ms(),
            valid_ms=OFFER_VALID_MS,
            appended_from=sent_at - self._skew_ms,
        )
        if offered is None:
            return
        record = outgoing(
            offered,
            stream=str(partition),
            subject=None,
            event_id=f"{self.incarnation}.{partition}.{offered.sequence}",
            source=f"/actionledger/executor/{self.incarnation}",
        )
        try:
            appending = self._appender.append(Topic.OFFERS, partition, [record])
            (appended,) = await crash_while("offer_sent", appending)
        except (AppendUnknownError, LogUnreachableError) as unknown:
            logger.warning("offer_not_acknowledged", extra={"reason": str(unknown)})
            return
        check_skew(appended.timestamp, sent_at=sent_at, skew_ms=self._skew_ms)
        self.ready.set()

    async def _withdraw(self, calls: asyncio.TaskGroup, *, is_reading: bool) -> None:
        """Take every offer back, and decline at once what was started before that was heard: else
        it would wait for its lease to lapse.
        """
        self._assignments.withdraw()
        with contextlib.suppress(LedgerError, ExceptionGroup):
            async with asyncio.TaskGroup() as sending:
                for part in range(self._partitions):
                    sending.create_task(self._send_offer(part))
        crash_point("offers_withdrawn")
        until = mono_ms() + WITHDRAWN_MS
        while is_reading and mono_ms() < until:
            for record in await self._reader.read(timeout_ms=WITHDRAWN_MS // 10):
                for assignment in self._assignments.feed(record):
                    calls.create_task(self._give_back(assignment, "stopping"))

    # Acting

    async def _act(self, assignment: Assignment) -> None:
        """Make the one call that a start allows, and report."""
        start = assignment.start
        performer = self._performers.get(start.provider)
        if performer is None:
            await self._give_back(assignment, "no_such_provider_here")
            return
        intent = assignment.intent or await self._intent_of(assignment)
        if intent is None:
            await self._give_back(assignment, "request_not_readable")
            return
        permit = Permit(self._grounds, start, intent)
        refused = await self._refusal(permit)
        if refused is not None:
            await self._give_back(assignment, refused)
            return
        self._starts_waiting += 1
        async with self._calls[start.provider]:
            self._starts_waiting -= 1
            answer = await act(
                assignment,
                intent.request,
                performer,
                margin_ms=self._margin_ms,
                refuses=permit.objection,
                previewer=self._previewers.get(start.provider),
                declared=self._grounds.operation(intent.request),
            )
        crash_point("answer_read")
        await self._tell(assignment, answer)
        self.acted_count += 1

    async def _intent_of(self, assignment: Assignment) -> IntentRecorded | None:
        """The intent of a start that points to a record which is not at hand any more."""
        start = assignment.start
        try:
            record = await self._older.read(assignment.partition, start.intent_offset)
        except LedgerError as trouble:
            logger.warning(
                "request_not_read", extra={"action": start.action, "reason": str(trouble)}
            )
            return None
        return intent_in(record.value, start.action)

    async def _give_back(self, assignment: Assignment, code: str) -> None:
        await self._tell(assignment, assignment.decline(code))

    async def _tell(self, assignment: Assignment, answer: i.Report | i.Decline) -> None:
        """Make the answer durable, however long no broker takes it; at this acknowledgement a
        success may be believed, and the slot is free again.
        """
        kind = "report" if isinstance(answer, i.Report) else "decline"
        if isinstance(answer, i.Decline):
            crash_point("start_declined")
            logger.warning("start_given_back", extra={"action": answer.key, "code": answer.code})
            if self._ends_at is None:
                self._ends_at = mono_ms() + WORK_AFTER_DECLINE_MS
        record = outgoing(
            answer,
            stream=assignment.stream,
            subject=answer.key,
            event_id=f"{answer.key}.{answer.attempt}.{answer.fencing_token}.{kind}",
            source=f"/actionledger/executor/{self.incarnation}",
        )
        until = mono_ms() + TELL_MS_MAX
        while True:
            try:
                appending = self._reports.append(Topic.ATTEMPTS, assignment.partition, [record])
                await crash_while("report_sent", appending)
                break
            except (AppendUnknownError, LogUnreachableError) as unknown:
                # It may be there although nobody said so; there it counts once.
                if mono_ms() >= until:
                    raise
                logger.warning(
                    "report_not_acknowledged",
                    extra={"action": assignment.start.action, "reason": str(unknown)},
                )
            await asyncio.sleep(TELL_AGAIN_SECONDS)
        crash_point("report_acked")
        self._assignments.ended(assignment)
