"""Executors: the product's `Assignments` and `objection` behind a shell that calls the provider,
and may end or stand still before the last check, after it, and before it tells what it saw.
"""

from dataclasses import dataclass
from functools import partial

from ledger.core.inputs import NoAnswer, NotSent, ReportedOutcome, Retry
from ledger.core.preview import Change, moved
from ledger.core.records import Decision
from ledger.core.request import RecordedRequest
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing, read_ledger
from ledger.log.topics import Topic
from streams.assignments import Assignment, Assignments, objection
from tests.simulation.catalogue import CONNECT_MS, IDLE_MS, OFFERED, OPERATIONS, RESPONSE_MS
from tests.simulation.processes import Process
from tests.simulation.provider import Entry, Provider
from tests.simulation.world import World

OFFER_RENEW_MS = 1_400
OFFER_VALID_MS = 2_100
NETWORK_MS = 60
HALF = 0.5
"""How often an executor begins at a place that somebody knows, and not at the genesis."""
LEDGER, OFFERS, ATTEMPTS = Topic.LEDGER.value, Topic.OFFERS.value, Topic.ATTEMPTS.value


@dataclass(slots=True)
class Call:
    """One call under way, and whether anything was heard of it."""

    assignment: Assignment
    request: RecordedRequest
    is_over: bool = False


class Executor(Process):
    """One incarnation of an executor."""

    def __init__(self, world: World, number: int, provider: Provider) -> None:
        super().__init__(world, "executor", number)
        self.provider = provider
        slots = {part: world.chance.randint(1, 3) for part in range(world.partitions)}
        operations = OFFERED if world.weather.together else OPERATIONS
        self.assignments = Assignments(self.name, operations, slots)
        self._reads = dict.fromkeys(slots, False)
        self._renews = True
        begins_late = world.chance.random() < HALF
        for partition in slots:
            if begins_late:
                next_offset, epoch = world.known_end(partition)
                self.assignments.begin(partition, next_offset=next_offset, epoch=epoch)
            for record in world.log.read(
                LEDGER, partition, self.assignments.next_offset(partition)
            ):
                self.assignments.feed(record)
            self.assignments.caught_up(partition)
        self.listen(LEDGER, self._heard)
        self.after(world.soon(), self._renew)

    # Offering

    def _renew(self) -> None:
        """Offer what is free, every so often, as long as anything may still be started."""
        self._renews = self.world.wants_capacity()
        if self._renews:
            self.after(OFFER_RENEW_MS, self._renew)
            for partition in range(self.world.partitions):
                self._offer(partition)

    def _offer(self, partition: int) -> None:
        offered = self.assignments.offer(partition, self.mono_ms(), valid_ms=OFFER_VALID_MS)
        if offered is None or self.may_break("before its offer"):
            return
        record = outgoing(
            offered,
            stream=str(partition),
            subject=None,
            event_id=f"{self.name}.{offered.sequence}",
            source="/executor",
        )
        self.send(OFFERS, partition, [record], lambda _appended: None)

    # Following

    def _heard(self, partition: int) -> None:
        if not self._reads[partition]:
            self._reads[partition] = True
            self.after(self.world.soon(30), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        self._reads[partition] = False
        for record in self.world.log.read(
            LEDGER, partition, self.assignments.next_offset(partition)
        ):
            for assignment in self.assignments.feed(record):
                self.trace(f"reads its start of {assignment.start.action}")
                self._begin(assignment)
        if not self._renews:
            self._renew()
        elif self.assignments.wants_to_offer(partition) and self.world.wants_capacity():
            self._offer(partition)

    # Acting

    def _begin(self, assignment: Assignment) -> None:
        """Look once, open the connection, look again, and send."""
        if self.may_break("with its start read"):
            return
        intent = assignment.intent
        request = self._request_of(assignment) if intent is None else intent.request
        early = self._objection(assignment, request)
        if early is None and self.world.happens("executor_declines"):
            early = "shutting_down"
        if early is not None:
            self._decline(assignment, early)
            return
        if self.world.happens("connect_fails"):
            failed = NotSent(code="connect_failed", retry=Retry.LATER)
            self.after(CONNECT_MS, lambda: self._report(assignment, failed))
            return
        call = Call(assignment, request)
        connect_ms = self.world.chance.randint(1, CONNECT_MS)
        self.after(connect_ms, lambda: self._connected(call))

    def _request_of(self, assignment: Assignment) -> RecordedRequest:
        """The request as it stands at the place that the start points to."""
        place = (assignment.partition, assignment.start.intent_offset)
        (record,) = self.world.log.read(LEDGER, *place, records_max=1)
        read = read_ledger(record.value)
        assert isinstance(read, Decision)
        self.world.reach("intent read again")
        return next(
            fact.request
            for fact in read.facts
            if fact.type == "intent.recorded" and fact.action == assignment.start.action
        )

    def _objection(self, assignment: Assignment, request: RecordedRequest) -> str | None:
        return objection(assignment, request, self.mono_ms(), margin_ms=IDLE_MS)

    def _moved(self, assignment: Assignment) -> tuple[Change, ...]:
        """What is no longer as people were shown it."""
        approval = assignment.start.approval
        if approval is None or approval.observed is None:
            return ()
        return moved(approval.observed, self.provider.observed(), {})

    def _connected(self, call: Call) -> None:
        """The last check; after it comes the first byte, however long that takes."""
        opened_at = self.world.time.now
        last = self._objection(call.assignment, call.request)
        moved_on = self._moved(call.assignment)
        if last is None and moved_on:
            self.world.reach("declined: volatile_changed")
            self._tell(call.assignment, call.assignment.decline("volatile_changed", moved_on))
            return
        if last is not None:
            self._decline(call.assignment, last)
            return
        if self.may_break("before the first byte"):
            return
        self.go_on(lambda: self._first_byte(call, opened_at))

    def _first_byte(self, call: Call, checked_at: int) -> None:
        start, now = call.assignment.start, self.world.time.now
        if now > checked_at:
            self.world.reach("paused before the first byte")
        self.after(RESPONSE_MS, lambda: self._heard_back(call, NoAnswer(code="response_timeout")))
        if now - checked_at > IDLE_MS:
            # The provider closed the connection meanwhile: what is written meets nobody.
            self.world.reach("socket was closed")
            self._heard_back(call, NoAnswer(code="connection_closed"))
            return
        self.trace(f"sends {start.action} attempt {start.attempt}")
        entry = Entry(
            key=start.provider_key,
            account=start.account,
            action=start.action,
            attempt=start.attempt,
            request_hash=start.request_hash,
            money=call.request.money,
            sent_at=now,
            arrived_at=now,
        )

        def answer(outcome: ReportedOutcome) -> None:
            if not self.is_gone:
                self.go_on(lambda: self._heard_back(call, outcome))

        delay_ms = self.world.chance.randint(1, NETWORK_MS)
        self.world.time.after(delay_ms, lambda: self.provider.receive(entry, answer))

    def _heard_back(self, call: Call, outcome: ReportedOutcome) -> None:
        """The first that is heard counts; an answer after the deadline is not read."""
        if call.is_over:
            return
        call.is_over = True
        if not self.may_break("with its answer read"):
            self.go_on(partial(self._report, call.assignment, outcome))

    # Telling

    def _report(self, assignment: Assignment, outcome: ReportedOutcome) -> None:
        self.trace(f"reports {assignment.start.action} {outcome.kind}")
        self._tell(assignment, assignment.report(outcome))

    def _decline(self, assignment: Assignment, code: str) -> None:
        self.world.reach(f"declined: {code}")
        self.trace(f"declines {assignment.start.action} {code}")
        self._tell(assignment, assignment.decline(code))

    def _tell(self, assignment: Assignment, said: Wire) -> None:
        """Make it durable; only then is the slot free again."""
        start = assignment.start
        name = f"{start.action}.{start.attempt}"
        record = outgoing(
            said,
            stream=assignment.stream,
            subject=start.action,
            event_id=f"{self.name}.{name}",
            source="/executor",
        )
        self.send(
            ATTEMPTS,
            assignment.partition,
            [record],
            lambda _appended: self.assignments.ended(assignment),
        )
