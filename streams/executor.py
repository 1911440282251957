"""The executor: offers capacity, acts on the starts that name it, reports what became of them. It
never improvises.

One call for one start, at most once, with the key the ledger recorded; the last check stands
between the open connection and the first byte. Trouble with Kafka ends the process: starts that it
had not acted on are declined by nobody and lapse, which the ledger knows.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import assert_never

from ledger.core import inputs as i
from ledger.core.facts import AttemptStarted
from ledger.core.request import RecordedRequest, canonical_form
from ledger.log.crashpoints import crash_point
from ledger.log.envelope import outgoing, read_ledger
from ledger.log.follow import operations_of_published
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic
from reconciler.providers import port
from streams.clock import check_skew, mono_ms
from streams.hands import Assignment, Hands, objection

logger = logging.getLogger("actionledger")

READ_MS = 500
OFFER_RENEW_SECONDS = 2.0
OFFER_CHECK_SECONDS = 0.02
OFFER_VALID_MS = 6_000
WITHDRAWN_MS = 300
"""How long a start may still come after all offers were taken back: owners read offers at once."""

SLOTS_DEFAULT = 256
MARGIN_MS_DEFAULT = 1_000
SKEW_MS_DEFAULT = 5_000
HARD_STOP_GRACE_MS = 250
"""How far a call may run over its own deadlines before it is cut off and counted as unresolved."""


class Executor:
    """One incarnation: a random name, born with the process."""

    def __init__(
        self,
        log: KafkaLog,
        partitions: int,
        performers: Mapping[str, port.Performer],
        *,
        slots: int = SLOTS_DEFAULT,
        margin_ms: int = MARGIN_MS_DEFAULT,
        skew_ms: int = SKEW_MS_DEFAULT,
        begin_at: Mapping[int, tuple[int, int]] | None = None,
    ) -> None:
        """`begin_at` gives, by partition, a ledger offset and the epoch known there; without it the
        ledger is read from its beginning.
        """
        self._log = log
        self._partitions = partitions
        self._performers = performers
        self._slots = {part: max(1, slots // partitions) for part in range(partitions)}
        self._margin_ms = margin_ms
        self._skew_ms = skew_ms
        self._begin_at = begin_at or {}
        self._renew = asyncio.Event()
        self.incarnation = secrets.token_hex(8)
        self.ready = asyncio.Event()
        self.acted_count = 0

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set, then finish the calls at work. Raises whatever must end the
        process. `beat` is called by every round once capacity is offered.
        """
        self._appender = await self._log.appender()
        operations = await operations_of_published(self._log, frozenset(self._performers))
        self._hands = Hands(self.incarnation, operations, self._slots)
        for partition, (offset, epoch) in self._begin_at.items():
            self._hands.begin(partition, next_offset=offset, epoch=epoch)
        places = {
            (Topic.LEDGER.value, part): self._hands.next_offset(part)
            for part in range(self._partitions)
        }
        self._reader = await self._log.reader(places)
        try:
            await self._catch_up()
            async with asyncio.TaskGroup() as calls:
                offering = calls.create_task(self._offer(stop))
                while not stop.is_set():
                    for record in await self._reader.read(timeout_ms=READ_MS):
                        for assignment in self._hands.feed(record):
                            calls.create_task(self._act(assignment))
                    if self.ready.is_set():
                        beat()
                offering.cancel()
                await self._withdraw()
        finally:
            await self._reader.close()
            await self._appender.close()

    async def _catch_up(self) -> None:
        """Read to where every partition ends now: only then is the epoch surely the current one."""
        places = [(Topic.LEDGER.value, part) for part in range(self._partitions)]
        ends = await self._reader.end_offsets(places)
        while any(self._hands.next_offset(part) < end for (_, part), end in ends.items()):
            for record in await self._reader.read(timeout_ms=READ_MS):
                self._hands.feed(record)
        for part in range(self._partitions):
            self._hands.caught_up(part)

    # Offers

    async def _offer(self, stop: asyncio.Event) -> None:
        """Renew every offer every few seconds, and sooner where the ledger runs short of slots."""
        renewed_at = -OFFER_VALID_MS
        while not stop.is_set():
            now = mono_ms()
            all_due = now - renewed_at >= OFFER_RENEW_SECONDS * 1_000
            due = [
                part
                for part in range(self._partitions)
                if all_due or self._hands.wants_to_offer(part)
            ]
            if all_due:
                renewed_at = now
            await asyncio.gather(*(self._send_offer(part) for part in due))
            self.ready.set()
            await asyncio.sleep(OFFER_CHECK_SECONDS)

    async def _withdraw(self) -> None:
        """Take every offer back, and decline at once what was started before that was heard: else
        it would wait for its lease to lapse.
        """
        self._hands.withdraw()
        await asyncio.gather(*(self._send_offer(part) for part in range(self._partitions)))
        until = mono_ms() + WITHDRAWN_MS
        while mono_ms() < until:
            for record in await self._reader.read(timeout_ms=WITHDRAWN_MS // 10):
                for assignment in self._hands.feed(record):
                    await self._tell(assignment, assignment.decline("stopping"))
                    self._hands.ended(assignment)

    async def _send_offer(self, partition: int) -> None:
        offered = self._hands.offer(partition, mono_ms(), valid_ms=OFFER_VALID_MS)
        if offered is None:
            return
        record = outgoing(
            offered,
            stream=str(partition),
            subject=None,
            event_id=f"{self.incarnation}.{partition}.{offered.sequence}",
            source=f"/actionledger/executor/{self.incarnation}",
        )
        (appended,) = await self._appender.append(Topic.OFFERS, partition, [record])
        check_skew(appended.timestamp, skew_ms=self._skew_ms)

    # Acting

    async def _act(self, assignment: Assignment) -> None:
        """Make the one call that a start allows, and report."""
        request = assignment.request or await self._request_at(assignment)
        answer = await self._call(assignment, request)
        await self._tell(assignment, answer)
        self._hands.ended(assignment)
        self.acted_count += 1

    async def _request_at(self, assignment: Assignment) -> RecordedRequest:
        """The request as the ledger recorded it, from the place that the start points to."""
        record = await self._log.read_one(
            Topic.LEDGER, assignment.partition, assignment.start.intent_offset
        )
        return request_in(record.value, assignment.start.action)

    async def _call(self, assignment: Assignment, request: RecordedRequest) -> i.Report | i.Decline:
        start = assignment.start
        performer = self._performers.get(start.provider)
        if performer is None:
            return assignment.decline("no_such_provider_here")
        passed = False

        def last_check() -> None:
            nonlocal passed
            code = objection(assignment, request, mono_ms(), margin_ms=self._margin_ms)
            if code is not None:
                raise port.Declined(code)
            crash_point("before_first_byte")
            passed = True

        early = objection(assignment, request, mono_ms(), margin_ms=self._margin_ms)
        if early is not None:
            return assignment.decline(early)
        limit_ms = start.connect_ms + start.response_ms + HARD_STOP_GRACE_MS
        try:
            async with asyncio.timeout(limit_ms / 1_000):
                outcome = await performer.perform(
                    provider_request(start, request),
                    provider_key=start.provider_key,
                    deadlines=port.Deadlines(start.connect_ms, start.response_ms),
                    before_first_byte=last_check,
                )
        except TimeoutError:
            if not passed:
                return assignment.decline("deadline_over")
            outcome = port.Unresolved("hard_deadline")
        if isinstance(outcome, port.NotSent) and not passed:
            last = objection(assignment, request, mono_ms(), margin_ms=self._margin_ms)
            if last is not None:
                return assignment.decline(last)
        return assignment.report(reported(outcome))

    async def _tell(self, assignment: Assignment, answer: i.Report | i.Decline) -> None:
        """Make the answer durable; at this acknowledgement a success may be believed."""
        kind = "report" if isinstance(answer, i.Report) else "decline"
        record = outgoing(
            answer,
            stream=assignment.stream,
            subject=answer.key,
            event_id=f"{answer.key}.{answer.attempt}.{answer.fencing_token}.{kind}",
            source=f"/actionledger/executor/{self.incarnation}",
        )
        await self._appender.append(Topic.ATTEMPTS, assignment.partition, [record])


def request_in(value: bytes, action: str) -> RecordedRequest:
    """The request of an action in the ledger record that recorded its intent."""
    read = read_ledger(value)
    for fact in getattr(read, "facts", ()):
        if fact.type == "intent.recorded" and fact.action == action:
            request: RecordedRequest = fact.request
            return request
    raise LookupError(f"no intent of {action} at the place its start points to")


def canonical_params(request: RecordedRequest) -> dict[str, object]:
    """The parameters in the form that was hashed, so that what is sent is what was approved."""
    return dict(canonical_form(request)["params"])  # type: ignore[arg-type] # params are an object


def provider_request(start: AttemptStarted, request: RecordedRequest) -> port.ProviderRequest:
    """What the adapter is given: the recorded request, nothing added."""
    return port.ProviderRequest(
        action_key=start.action,
        operation=request.operation,
        version=request.version,
        target=request.target,
        params=canonical_params(request),
        money=request.money,
        account=start.account,
        request_hash=start.request_hash,
    )


def reported(outcome: port.Outcome) -> i.ReportedOutcome:
    """An adapter's outcome in the words of the log."""
    match outcome:
        case port.Succeeded(reference, result):
            return i.Success(reference=reference, result=dict(result))
        case port.Refused(code, retry, retry_after_ms):
            return i.Refusal(code=code, retry=i.Retry(retry), retry_after_ms=retry_after_ms)
        case port.NotSent(code, retry):
            return i.NotSent(code=code, retry=i.Retry(retry))
        case port.Unresolved(code):
            return i.NoAnswer(code=code)
        case _:
            assert_never(outcome)
