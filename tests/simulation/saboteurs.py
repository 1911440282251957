"""Seeded bugs: each breaks one guard of the product while it is at work, and the simulation must
find it within a stated number of seeds. A guard whose absence nobody notices guards nothing.

The product has no switch for this; names in its modules are replaced and put back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ledger.core import evolve as evolving
from ledger.core import inputs as i
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide import attempts, dispatch, evidence, intake, schedule
from ledger.core.decide import time as ticking
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.facts import ActionCompleted, ActionFailed, AttemptAbsent, AttemptUnresolved
from ledger.core.records import Cause, Decision, EpochOpened, Genesis, LedgerRecord, Verdict
from ledger.core.request import request_hash
from ledger.core.state import Action, Attempt, AttemptStatus, Lookup, Status, Stream
from ledger.log import fold
from ledger.log.envelope import Unreadable, read_ledger
from ledger.log.port import Appended, Record
from streams import deciding, hands
from streams.hands import Assignment
from streams.owner import Batch, Owner
from tests.simulation import executors, processors


@dataclass(frozen=True, slots=True)
class Saboteur:
    """What is broken, and within how many seeds from 0 the simulation must notice."""

    what: str
    found_within: int
    patches: tuple[tuple[Any, str, Any], ...]


@contextmanager
def sabotaged(name: str) -> Iterator[None]:
    """The product with one guard removed."""
    patches = SABOTEURS[name].patches
    kept = [(place, attribute, getattr(place, attribute)) for place, attribute, _ in patches]
    for place, attribute, broken in patches:
        setattr(place, attribute, broken)
    try:
        yield
    finally:
        for place, attribute, original in kept:
            setattr(place, attribute, original)


# --- acceptance --------------------------------------------------------------------------------


def _accepts_any_place(epoch: int, offset: int, record: LedgerRecord) -> Verdict:
    match record:
        case Genesis():
            return Verdict.ACCEPTED if offset == 0 else Verdict.VOID_OFFSET
        case EpochOpened():
            return Verdict.ACCEPTED if record.epoch == epoch + 1 else Verdict.VOID_EPOCH
        case Decision():
            return Verdict.ACCEPTED if record.epoch == epoch else Verdict.VOID_EPOCH


def _checks_no_place(self: Owner, at: int, appended: Appended) -> None:
    """The record that was sent is taken for the record that stands there."""


def _positions_before_landing(self: Owner, batch: Batch) -> None:
    """Inputs count as decided as soon as they are sent."""
    for read in batch.read:
        self.fold.positions[read.cause.topic] = read.cause.offset + 1


_original_append = processors.Processor._append


def _append_and_move_on(self: processors.Processor, seat: processors.Seat, batch: Batch) -> None:
    _positions_before_landing(seat.owner, batch)
    _original_append(self, seat, batch)


def _forgets_the_batch_and_goes_on(self: processors.Processor, seat: processors.Seat) -> None:
    """After a loss the inputs of the batch are not read again."""
    self.world.reach("continuity lost")
    seat.owner.lost()
    self._catch_up(seat)


# --- retries and keys --------------------------------------------------------------------------


def _new_key_for_every_attempt(action: Action, operation: Operation) -> str:
    return f"{action.key}/{len(action.attempts) + 1}"


def _no_invariants(condition: object, why: str) -> None:
    """Asserts nothing."""


def _no_window(action: Action, operation: Operation) -> int | None:
    return None


def _retries_whatever_the_class(
    action: Action, operation: Operation, at: int
) -> schedule.Bar | None:
    if at >= action.step_deadline_at:
        return schedule.Bar.STEP_DEADLINE
    return schedule.Bar.ATTEMPTS if action.counted_attempts >= 4 else None


def _fails_on_any_refusal(
    draft: Draft, key: str, code: str, retry: i.Retry, retry_after_ms: int | None = None
) -> None:
    action = draft.action(key)
    if retry is i.Retry.NEVER and not action.is_final and action.status is not Status.NEEDS_REVIEW:
        draft.add(ActionFailed(action=key, version=draft.version(key), code=code))
        return
    _original_after_no_effect(draft, key, code, retry, retry_after_ms)


_original_after_no_effect = schedule.after_no_effect


# --- finding out -------------------------------------------------------------------------------


def _believes_absence_at_once(draft: Draft, key: str, given: i.Evidence, asked: Lookup) -> None:
    """Not found is taken for did not happen."""
    for attempt in draft.action(key).attempts:
        if attempt.status is AttemptStatus.UNRESOLVED:
            draft.add(
                AttemptAbsent(
                    action=key,
                    version=draft.version(key),
                    attempt=attempt.number,
                    source_id=given.source_id,
                )
            )
    after = draft.action(key)
    if after.status is Status.READY:
        evidence._after_absence(draft, after)


_original_absent = evidence._absent


def _absence_without_horizon(draft: Draft, key: str, given: i.Evidence, asked: Lookup) -> None:
    """The provider's settle horizon is forgotten; search lag and skew are not."""
    config = draft.config
    operations = tuple(
        operation.model_copy(update={"settle_horizon_ms": 0})
        for operation in config.catalogue.operations
    )
    catalogue = replace(config.catalogue, operations=operations)
    draft.config = Config(catalogue, config.content_hash)
    _original_absent(draft, key, given, asked)
    draft.config = config


def _any_money_will_do(draft: Draft, key: str, given: i.Evidence) -> None:
    action = draft.action(key)
    if action.status is Status.COMPLETED or not action.is_open:
        return
    draft.add(
        ActionCompleted(
            action=key,
            version=draft.version(key),
            proof="webhook" if given.kind is i.EvidenceKind.WEBHOOK else "lookup",
            reference=given.reference or key,
        )
    )


def _late_word_reopens(
    draft: Draft, action: Action, attempt: Attempt, outcome: i.ReportedOutcome
) -> Decided:
    """A late answer overwrites what was final."""
    if isinstance(outcome, i.NoAnswer) and action.is_final:
        draft.add(
            AttemptUnresolved(
                action=action.key,
                version=draft.version(action.key),
                attempt=attempt.number,
                code=outcome.code,
            )
        )
        return draft.decided()
    return replayed(action, "already_recorded")


class _Everything:
    """A table that accepts whatever comes."""

    def __contains__(self, pair: object) -> bool:
        return True


def _a_lapse_is_a_failure(draft: Draft, key: str) -> None:
    """A lost answer is taken for a failure."""
    action = draft.action(key)
    if action.status is Status.UNKNOWN:
        draft.add(ActionFailed(action=key, version=draft.version(key), code="timeout"))


# --- leases and capacity -----------------------------------------------------------------------


_original_begin = executors.Executor._begin


def _counts_from_reading(self: executors.Executor, assignment: Assignment) -> None:
    """The lease is counted from when the start was read, not from when the offer was sent."""
    _original_begin(self, replace(assignment, offered_mono_ms=self.mono_ms()))


class _Gullible(fold.PartitionFold):
    """A reader to whom everything counts that stands in the log."""

    def feed(self, record: Record) -> LedgerRecord:
        """Take the next record, whoever wrote it."""
        self.next_offset = record.offset + 1
        return read_ledger(record.value)


# --- intake ------------------------------------------------------------------------------------


_original_propose = intake.propose


def _takes_the_other_body(draft: Draft, given: i.Propose) -> Decided:
    """A known key stands for whatever was asked last."""
    known = draft.stream.action(given.key)
    operation = None if known is None else draft.operation(known)
    if known is None or operation is None or known.attempts:
        return _original_propose(draft, given)
    if request_hash(given.request) == known.request_hash:
        return replayed(known, "replayed")
    others = tuple(one for one in draft.stream.actions if one.key != given.key)
    draft.stream = Stream(draft.stream.key, others)
    intake._record(draft, given, request_hash(given.request), operation)
    return draft.decided()


def _skips_poison(
    record: Record, cause: Cause, seat: deciding.Seat, why: Unreadable, stream_key: str = ""
) -> None:
    """What cannot be read is passed over without a word."""


SABOTEURS: dict[str, Saboteur] = {
    "no_place_check": Saboteur(
        "a record counts wherever it stands",
        100,
        ((fold, "accept", _accepts_any_place),),
    ),
    "own_record_not_checked": Saboteur(
        "what was sent is believed to stand where it was meant to",
        100,
        ((Owner, "_check_place", _checks_no_place),),
    ),
    "inputs_not_read_again": Saboteur(
        "after a loss of continuity the batch is forgotten with its inputs",
        100,
        ((processors.Processor, "_lost", _forgets_the_batch_and_goes_on),),
    ),
    "new_key_on_retry": Saboteur(
        "every attempt has a key of its own",
        50,
        ((schedule, "_provider_key", _new_key_for_every_attempt),),
    ),
    "key_window_not_checked": Saboteur(
        "the provider is trusted to remember a key for ever",
        250,
        ((schedule, "key_window_closes_at", _no_window),),
    ),
    "retry_without_a_key": Saboteur(
        "every class is tried again",
        50,
        (
            (schedule, "bar", _retries_whatever_the_class),
            (ticking, "bar", _retries_whatever_the_class),
        ),
    ),
    "failed_on_first_refusal": Saboteur(
        "one refusal fails the action while another attempt is open",
        600,
        (
            (attempts, "after_no_effect", _fails_on_any_refusal),
            (evolving, "invariant", _no_invariants),
            (evolving, "ACCEPTED", _Everything()),
        ),
    ),
    "not_found_is_failed": Saboteur(
        "not found is taken for did not happen",
        50,
        ((evidence, "_absent", _believes_absence_at_once),),
    ),
    "no_settle_horizon": Saboteur(
        "a call is believed to be over when its lease is",
        150,
        ((evidence, "_absent", _absence_without_horizon),),
    ),
    "timeout_is_failure": Saboteur(
        "a lost answer is taken for a failure",
        50,
        (
            (attempts, "find_out", _a_lapse_is_a_failure),
            (evolving, "invariant", _no_invariants),
            (evolving, "ACCEPTED", _Everything()),
        ),
    ),
    "lease_from_reading": Saboteur(
        "the holder counts its lease from when it reads its start",
        600,
        ((executors.Executor, "_begin", _counts_from_reading),),
    ),
    "void_starts_acted_on": Saboteur(
        "an executor acts on a start that does not count",
        200,
        ((hands, "PartitionFold", _Gullible),),
    ),
    "final_left_by_late_answer": Saboteur(
        "a late answer overwrites a final status",
        50,
        (
            (attempts, "_late", _late_word_reopens),
            (evolving, "invariant", _no_invariants),
            (evolving, "ACCEPTED", _Everything()),
        ),
    ),
    "other_body_accepted": Saboteur(
        "a known key stands for whatever was asked last",
        250,
        ((dispatch, "propose", _takes_the_other_body), (evolving, "invariant", _no_invariants)),
    ),
    "poison_skipped": Saboteur(
        "a record that cannot be read is passed over in silence",
        150,
        ((deciding, "_quarantined", _skips_poison),),
    ),
    "money_not_compared": Saboteur(
        "a webhook of any amount completes",
        200,
        ((evidence, "_effect", _any_money_will_do),),
    ),
    "offset_before_ack": Saboteur(
        "inputs count as decided when they are sent",
        50,
        ((processors.Processor, "_append", _append_and_move_on),),
    ),
}
