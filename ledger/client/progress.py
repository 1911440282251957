"""How actions stand, as one reader of the ledger knows them; without I/O. Called by the client.

An action is known here if its intent was read here, and then stands as the accepted records say.
There is one shortcut: a success is told as soon as the executor's report is durable on `attempts`,
before the ledger has decided about it, because nothing can undo such a report. It must never tell a
success that the ledger will refuse, or that other evidence contradicts.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue

from ledger.core.blocking import Blocking, blocking
from ledger.core.config import MAY_BE_HELD, hold_on
from ledger.core.decide.schedule import is_disputed
from ledger.core.evolve import Place, evolve
from ledger.core.facts import (
    ActionCompleted,
    ActionDenied,
    AttemptNotSent,
    AttemptRefused,
    AttemptStarted,
    AttemptSucceeded,
    AttemptUnresolved,
    IntentRecorded,
)
from ledger.core.gates import ClaimStatus
from ledger.core.holds import Hold
from ledger.core.ids import MalformedId, stream_key_of
from ledger.core.inputs import Report, Success
from ledger.core.invariants import BrokenInvariantError
from ledger.core.limits import DECISION_BYTES_MAX
from ledger.core.offers import caller_holder, is_caller
from ledger.core.records import Decision, Verdict, accept
from ledger.core.sagas import Saga, saga_of
from ledger.core.snapshot import dump
from ledger.core.state import OPEN, Action, Approval, Stream
from ledger.log.envelope import MARK_EPOCH, marks_of, read_input, read_ledger
from ledger.log.fold import Begin, PartitionFold
from ledger.log.port import Record
from ledger.log.sizes import Sizes
from ledger.log.topics import partition_of

STREAMS_REMEMBERED_MAX = 16_384
"""About 3 kB each. An action that is not remembered any more is the read model's to answer."""

STREAMS_REMEMBERED_BYTES_MAX = 128 * 1_024 * 1_024
"""What they may take together, in bytes of their records: of long intents there are fewer."""

SUCCESSES_REMEMBERED_MAX = 8_192
"""Reports that were heard and not decided yet."""

SUCCESSES_REMEMBERED_BYTES_MAX = 32 * 1_024 * 1_024
"""What they may take together; one that is forgotten is told when the ledger has decided it."""

CALLER_STARTS_REMEMBERED_MAX = 8_192
"""Starts that callers may act on: more than run at once. One that is forgotten lapses."""

DENIALS_REMEMBERED_MAX = 1_024
"""Who denied an action and why; one that is forgotten is the read model's to tell."""

EARLY_BYTES_MAX = DECISION_BYTES_MAX // 2
"""A larger report might be too large for the decision on it, which would then be no success."""

_ENDS = (AttemptSucceeded, AttemptRefused, AttemptNotSent, AttemptUnresolved, ActionCompleted)
"""Facts after which nobody may act on the start before them any more."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How an action stands, and the ledger record that says so."""

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
    """When it next does something by itself, a retry or a lookup, in milliseconds of log time."""
    held: Hold | None = None
    """The hold that keeps it from starting."""
    approval: Approval | None = None
    """What people were asked last."""
    denied: ActionDenied | None = None
    """Who said no, and why."""
    blocking: Blocking | None = None
    """The action that it waits for."""
    gates: tuple[str, ...] = ()
    """Keys of the gates that it has asked and that have not answered."""
    names: str | None = None
    """What its case is about."""
    performer: Literal["caller"] | None = None
    """`caller` where whoever asked for it carries it out, None where an executor does."""
    is_early: bool = False
    """Whether a success is told by the report alone; the decision comes as a later version,
    and until then nothing follows from it.
    """


class ActionsSeen:
    """The streams of every partition, folded as they are read."""

    def __init__(self, partitions: int, begin_at: Mapping[int, Begin]) -> None:
        """`begin_at` gives, by partition, a ledger offset and what is known there."""
        self._partitions = partitions
        self._folds = {part: PartitionFold(part) for part in range(partitions)}
        for part, begin in begin_at.items():
            self._folds[part].begin(begin)
        self._streams: OrderedDict[str, tuple[Stream, int]] = OrderedDict()
        self._succeeded: OrderedDict[str, tuple[int, Success]] = OrderedDict()
        self._caller_starts: OrderedDict[str, AttemptStarted] = OrderedDict()
        self._denied: OrderedDict[str, ActionDenied] = OrderedDict()
        self._unread: OrderedDict[str, list[tuple[int, Record]]] = OrderedDict()
        """By stream the records that nobody has asked for, each with the epoch at its offset."""
        self._sizes = Sizes()
        self._success_sizes = Sizes()

    def next_offset(self, partition: int) -> int:
        """The next ledger offset to read."""
        return self._folds[partition].next_offset

    def feed(self, record: Record) -> Decision | None:
        """Read the next ledger record; the decision if it is one and counts. Raises
        BrokenInvariantError.
        """
        read = self._folds[record.partition].feed(record)
        if not isinstance(read, Decision):
            return None
        self._catch_up(read.stream)
        if read.facts:
            self._fold(read)
            self._measure(read.stream, len(record.value))
            self._keep_bounds()
        return read

    def feed_later(self, record: Record) -> None:
        """Keep the next ledger record unread until somebody asks for its stream, which for most
        never happens. One that may concern more than its stream is fed at once.
        """
        marks, key = marks_of(record), record.key
        if marks is None or MARK_EPOCH in marks or key is None or b"/" not in key:
            self.feed(record)
            return
        fold = self._folds[record.partition]
        fold.skip(record)
        if b":" in key:
            # A gate is the read model's to answer, and one of a whole day would grow for ever here.
            return
        stream = key.decode(errors="replace")
        self._unread.setdefault(stream, []).append((fold.epoch, record))
        self._unread.move_to_end(stream)
        self._sizes.add(stream, len(record.value))
        self._keep_bounds()

    def _keep_bounds(self) -> None:
        """Forget the streams used longest ago, with all that is unread and all that is folded of
        each: one without the other would be an outdated state.
        """
        while len(self._unread) > STREAMS_REMEMBERED_MAX:
            self._forget(next(iter(self._unread)))
        while self._sizes.total_bytes > STREAMS_REMEMBERED_BYTES_MAX:
            self._forget(self._sizes.oldest())

    def _measure(self, stream: str, size_bytes: int) -> None:
        """Count what a stream takes, now that all of it is folded: `size_bytes` more were read."""
        if stream not in self._streams:
            self._sizes.drop(stream)
            return
        known, _ = self._streams[stream]
        self._sizes.add(stream, size_bytes, lambda: len(dump(known)))

    def _forget(self, stream: str) -> None:
        self._unread.pop(stream, None)
        self._streams.pop(stream, None)
        self._sizes.drop(stream)

    def _catch_up(self, stream: str) -> None:
        """Fold the unread records of a stream. Whether one counts depends on the epoch that was the
        current one at its offset.
        """
        unread = self._unread.pop(stream, ())
        for epoch, record in unread:
            try:
                read = read_ledger(record.value)
            except ValueError as unreadable:
                raise BrokenInvariantError(
                    f"unreadable record at ledger {record.partition} offset {record.offset}"
                ) from unreadable
            is_accepted = accept(epoch, record.offset, read) is Verdict.ACCEPTED
            if is_accepted and isinstance(read, Decision) and read.facts:
                self._fold(read)
        if unread:
            self._measure(stream, 0)

    def _fold(self, read: Decision) -> None:
        """Keep the actions whose intent was seen here; others are the read model's to answer."""
        for fact in read.facts:
            if isinstance(fact, AttemptStarted) and is_caller(fact.holder):
                self._caller_starts[fact.action] = fact
                if len(self._caller_starts) > CALLER_STARTS_REMEMBERED_MAX:
                    self._caller_starts.popitem(last=False)
            elif isinstance(fact, ActionDenied):
                self._denied[fact.action] = fact
                if len(self._denied) > DENIALS_REMEMBERED_MAX:
                    self._denied.popitem(last=False)
            elif isinstance(fact, _ENDS):
                # Also of an action whose intent was not seen here.
                self._caller_starts.pop(fact.action, None)
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
            self._forget(next(iter(self._streams)))
        for action in known.actions:
            if action.is_final:
                self._forget_success(action.key)

    def _forget_success(self, key: str) -> None:
        self._succeeded.pop(key, None)
        self._success_sizes.drop(key)

    def caller_start(self, key: str, nonce: str) -> AttemptStarted | None:
        """The start that lets a call of the action's caller act, while nothing came of it. A call
        whose answer was lost learns it by asking again. Raises MalformedId.
        """
        self._catch_up(stream_key_of(key))
        start = self._caller_starts.get(key)
        return start if start is not None and start.holder == caller_holder(nonce) else None

    def hear(self, record: Record) -> str | None:
        """Read a durable report; the key of the action that it proves to be done, or None."""
        given = read_input(record)
        if not isinstance(given, Report) or not isinstance(given.outcome, Success):
            return None
        if not self._will_be_decided(record, given):
            return None
        action = self._action(given.key)
        if action is None or not 0 < given.attempt <= len(action.attempts):
            return None
        attempt = action.attempts[given.attempt - 1]
        if (attempt.fencing_token, attempt.holder) != (given.fencing_token, given.holder):
            return None
        self._forget_success(given.key)
        self._succeeded[given.key] = (given.attempt, given.outcome)
        self._success_sizes.add(given.key, len(record.value))
        while (
            len(self._succeeded) > SUCCESSES_REMEMBERED_MAX
            or self._success_sizes.total_bytes > SUCCESSES_REMEMBERED_BYTES_MAX
        ):
            self._forget_success(next(iter(self._succeeded)))
        return given.key

    def _will_be_decided(self, record: Record, given: Report) -> bool:
        """Whether the owner of the partition takes this report for what it is."""
        try:
            stream = stream_key_of(given.key)
        except MalformedId:
            return False
        home = partition_of(stream, self._partitions)
        at_home = record.partition == home and record.key == stream.encode()
        return at_home and len(record.value) <= EARLY_BYTES_MAX

    def _early(self, action: Action) -> Success | None:
        """The success that was heard of and that the ledger will record: nothing undoes it but two
        pieces of evidence that disagree, which are for a person.
        """
        number, success = self._succeeded.get(action.key, (0, None))
        if success is None or action.is_final or is_disputed(action):
            return None
        return success if action.attempts[number - 1].status in OPEN else None

    def _action(self, key: str) -> Action | None:
        self._catch_up(stream_key_of(key))
        known = self._streams.get(stream_key_of(key))
        return None if known is None else known[0].action(key)

    def progress_of(self, key: str) -> Progress | None:
        """How an action stands; None for one whose intent was not seen. Raises MalformedId."""
        action = self._action(key)
        if action is None:
            return None
        partition = partition_of(stream_key_of(key), self._partitions)
        offset = self._streams[stream_key_of(key)][1]
        early = self._early(action)
        if early is not None:
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
                is_early=True,
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
            held=self.hold_on(action),
            approval=action.approval,
            denied=self._denied.get(key),
            blocking=blocking(action),
            gates=tuple(one.gate for one in action.claims if one.status is ClaimStatus.ASKED),
            names=None if action.case is None else action.case.names,
            performer=action.performer,
        )

    def saga(self, stream: str, name: str) -> Saga | None:
        """A saga as it stands; None for one whose plan was not seen: it is recorded at once, so of
        any other every action was.
        """
        self._catch_up(stream)
        known = self._streams.get(stream)
        return None if known is None else saga_of(known[0], name)

    def hold_on(self, action: Action) -> Hold | None:
        """The hold, as the action's partition has adopted it, that keeps it from starting."""
        if action.status not in MAY_BE_HELD:
            return None
        partition = partition_of(stream_key_of(action.key), self._partitions)
        return hold_on(action, self._folds[partition].holds)
