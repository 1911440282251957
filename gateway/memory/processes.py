"""The processes of an installation around one partition in memory: the product's own owner,
assignments and inquiring, each behind the thinnest shell.

Guarantees that what is decided, started and asked is decided by the same objects as behind Kafka;
only the carrying is other. Must never decide anything here. Called by the installation.
"""

from collections.abc import Callable
from typing import Final, assert_never

from gateway.memory.clock import HandClock
from ledger.core import inputs as i
from ledger.core.facts import IntentRecorded, LookupStarted, PreviewStarted
from ledger.core.preview import Foreseen
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.published import Published
from ledger.log.simulated import SimulatedLog
from ledger.log.topics import INBOXES, Topic
from reconciler.evidence import lookup_evidence, lookup_record, preview_record
from reconciler.providers import port
from streams.assignments import Assignment, Assignments, intent_in, objection
from streams.authorization import Grounds, Permit
from streams.inquiring import Asked, Inquiring
from streams.owner import Owner
from streams.provider_call import (
    RECHECK_FAILED,
    has_to_hold,
    not_holding,
    previewed_request,
    provider_request,
    reported,
)

PARTITION: Final = 0
PARTITIONS: Final = 1
HOP_MS: Final = 2
"""From an append to whoever reads it."""

OFFER_VALID_MS: Final = 6_000
SLOTS: Final = 10_000
MARGIN_MS: Final = 1_000
LOOKUPS_AT_ONCE: Final = 100
_INPUTS: Final = (
    Topic.CONFIG.value,
    *(topic.value for topic in INBOXES if topic is not Topic.INTERNAL),
)


class Processor:
    """Decides whatever lies in the inboxes, a moment after it came, and whenever time is due."""

    def __init__(
        self,
        log: SimulatedLog,
        clock: HandClock,
        *,
        landed: Callable[[Record], None],
        before_round: Callable[[Owner], None],
    ) -> None:
        self.owner = Owner(PARTITION, PARTITIONS, log.generation, "memory")
        self._landed = landed
        self._before_round = before_round
        self._log = log
        self._clock = clock
        self._wakes_at: int | None = None

    def begin(self) -> None:
        """Open the first epoch. The config inbox has its catalogue by then."""
        for record in self._log.read(Topic.LEDGER.value, PARTITION, 0):
            self.owner.feed(record)
            self._landed(record)
        (appended,) = self._append(Topic.LEDGER, [self.owner.barrier()])
        self.owner.opened(appended, self._clock.now)
        self._tell_landed(appended.offset)
        self._round()

    def wake(self, delay_ms: int = HOP_MS) -> None:
        """Look soon; a look that comes sooner anyway is enough."""
        at = self._clock.now + delay_ms
        if self._wakes_at is None or at < self._wakes_at:
            self._wakes_at = at
            self._clock.after(delay_ms, lambda: self._woken(at))

    def _woken(self, at: int) -> None:
        if self._wakes_at == at:
            self._wakes_at = None
            self._round()

    def _round(self) -> None:
        now = self._clock.now
        self._before_round(self.owner)
        ticks = self.owner.ticks(now)
        if ticks:
            self._append(Topic.INTERNAL, ticks)
        # Ticks come last: whatever lies in the other inboxes wins over a lapse.
        records = [record for topic in _INPUTS for record in self._unread(topic)]
        records += self._unread(Topic.INTERNAL.value)
        batch = self.owner.take(records, now)
        if batch.quarantine:
            self._append(Topic.QUARANTINE, batch.quarantine)
        if batch.records:
            appended = self._append(Topic.LEDGER, batch.records)
            self.owner.landed(batch, appended, now)
            self._tell_landed(appended[0].offset)
            for messages in self.owner.messages(batch).values():
                self._append(Topic.INTERNAL, messages)
                self.wake()
            if self.owner.timetable.awaiting:
                # What this round has made ready meets what capacity there is in the next one.
                self.wake()
        due_at = self.owner.next_due_at()
        if due_at is not None:
            self.wake(max(1, due_at - now))

    def _unread(self, topic: str) -> list[Record]:
        return self._log.read(topic, PARTITION, self.owner.position(topic))

    def _append(self, topic: Topic, records: list[Outgoing]) -> list[Appended]:
        return self._log.append(topic.value, PARTITION, records)

    def _tell_landed(self, offset: int) -> None:
        for record in self._log.read(Topic.LEDGER.value, PARTITION, offset):
            self._landed(record)


class Executor:
    """One incarnation that offers whenever the owner looks, and acts on the starts it is given."""

    def __init__(self, log: SimulatedLog, clock: HandClock, operations: tuple[str, ...]) -> None:
        self.assignments = Assignments("memory", operations, {PARTITION: SLOTS})
        self.assignments.caught_up(PARTITION)
        self.performer: port.Performer | None = None
        self.previewer: port.Previewer | None = None
        self._log = log
        self._clock = clock
        self._grounds = Grounds(Published(), log.generation)
        self._offered_at = -OFFER_VALID_MS

    def offer(self, owner: Owner) -> None:
        """Offer again before the last offer lapses."""
        now = self._clock.now
        if now - self._offered_at < OFFER_VALID_MS // 2:
            return
        offered = self.assignments.offer(PARTITION, now, valid_ms=OFFER_VALID_MS)
        if offered is None:
            return
        self._offered_at = now
        record = outgoing(
            offered,
            stream=str(PARTITION),
            subject=None,
            event_id=f"memory.{offered.sequence}",
            source="/actionledger/executor/memory",
        )
        topic = Topic.OFFERS.value
        (appended,) = self._log.append(topic, PARTITION, [record])
        owner.offered(self._log.read(topic, PARTITION, appended.offset)[0])

    def feed(self, record: Record) -> None:
        """Read one ledger record, and begin what it starts."""
        for assignment in self.assignments.feed(record):
            _ = self._clock.spawn(self._act(assignment))

    async def _act(self, assignment: Assignment) -> None:
        """Make the one call that a start allows, and report."""
        await self._clock.sleep(HOP_MS)
        answer = await self._called(assignment)
        record = outgoing(
            answer,
            stream=assignment.stream,
            subject=answer.key,
            event_id=f"{answer.key}.{answer.attempt}",
            source="/actionledger/executor/memory",
        )
        self._log.append(Topic.ATTEMPTS.value, PARTITION, [record])
        self.assignments.ended(assignment)

    async def _called(self, assignment: Assignment) -> i.Report | i.Decline:
        start, intent = assignment.start, self._intent_of(assignment)
        if self.performer is None or intent is None:
            return assignment.decline("request_not_readable")
        request, permit = intent.request, Permit(self._grounds, start, intent)

        def check() -> None:
            self._read_config()
            code = permit.objection()
            if code is None:
                code = objection(assignment, request, self._clock.now, margin_ms=MARGIN_MS)
            if code is not None:
                raise port.Declined(code)

        try:
            check()
            declined = await self._changed(assignment, intent)
            if declined is not None:
                return declined
            outcome = await self.performer.perform(
                provider_request(start, request),
                provider_key=start.provider_key,
                deadlines=port.Deadlines(start.connect_ms, start.response_ms),
                before_first_byte=check,
            )
        except port.Declined as declined:
            return assignment.decline(declined.code)
        return assignment.report(reported(outcome))

    async def _changed(self, assignment: Assignment, intent: IntentRecorded) -> i.Decline | None:
        """Why the start is given back by what the provider says now of what people saw, or None."""
        start = assignment.start
        declared = self._grounds.operation(intent.request)
        if not has_to_hold(start, declared):
            return None
        if self.previewer is None:
            return assignment.decline("no_previewer_here")
        request = provider_request(start, intent.request)
        read = await self.previewer.recheck(request, timeout_ms=start.response_ms)
        if isinstance(read, port.Unforeseen):
            return assignment.decline(f"{RECHECK_FAILED}{read.code}")
        return not_holding(assignment, read, declared)

    def _read_config(self) -> None:
        published = self._grounds.published
        for record in self._log.read(Topic.CONFIG.value, PARTITION, published.next_offset):
            published.feed(record)

    def _intent_of(self, assignment: Assignment) -> IntentRecorded | None:
        if assignment.intent is not None:
            return assignment.intent
        start = assignment.start
        (record, *_) = self._log.read(Topic.LEDGER.value, PARTITION, start.intent_offset)
        return intent_in(record.value, start.action)


class Inquirer:
    """Asks the provider what the ledger wants asked."""

    def __init__(self, log: SimulatedLog, clock: HandClock, *, answer_ms: int) -> None:
        self.finder: port.Finder | None = None
        self.previewer: port.Previewer | None = None
        self._inquiring = Inquiring(PARTITION)
        self._inquiring.caught_up()
        self._log = log
        self._clock = clock
        self._answer_ms = answer_ms

    def feed(self, record: Record) -> None:
        """Read one ledger record, and begin what it asks."""
        self._inquiring.feed(record)
        self._inquiring.told(len(self._inquiring.notices()))
        for asked in self._inquiring.take_questions(LOOKUPS_AT_ONCE):
            match asked.started:
                case LookupStarted() as lookup:
                    _ = self._clock.spawn(self._look_up(asked, lookup))
                case PreviewStarted() as preview:
                    _ = self._clock.spawn(self._foresee(asked, preview))
                case _:
                    assert_never(asked.started)

    async def _foresee(self, asked: Asked, started: PreviewStarted) -> None:
        await self._clock.sleep(HOP_MS)
        seen: Foreseen | port.Unforeseen = port.Unforeseen("preview_not_offered")
        intent = asked.intent
        if intent is None:
            (record, *_) = self._log.read(Topic.LEDGER.value, PARTITION, started.intent_offset)
            intent = intent_in(record.value, started.action)
        if self.previewer is not None and intent is not None:
            seen = await self.previewer.preview(
                previewed_request(intent, started), timeout_ms=self._answer_ms
            )
        read = i.PreviewRead(
            key=started.action,
            preview=started.preview,
            provider=started.provider,
            account=started.account,
            foreseen=seen if isinstance(seen, Foreseen) else None,
            code=None if isinstance(seen, Foreseen) else seen.code,
        )
        placed = preview_record(read, PARTITIONS)
        self._log.append(Topic.EVIDENCE.value, placed.partition, [placed.record])
        self._inquiring.answered(asked)

    async def _look_up(self, asked: Asked, started: LookupStarted) -> None:
        await self._clock.sleep(HOP_MS)
        answer: port.Lookup = port.Inconclusive("no_finder")
        if self.finder is not None:
            answer = await self.finder.find(
                account=started.account,
                provider_key=started.provider_key,
                action_key=started.action,
                reference=started.reference,
                timeout_ms=self._answer_ms,
            )
        for evidence in lookup_evidence(started, answer):
            placed = lookup_record(evidence, PARTITIONS)
            self._log.append(Topic.EVIDENCE.value, placed.partition, [placed.record])
        self._inquiring.answered(asked)
