"""From an inbox record to the one decision record that answers it, without I/O.

What cannot be read, sits in the wrong partition or breaks a rule of ours gets its named answer
here, so that every input has exactly one decision and nothing behind it waits.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeVar, assert_never

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue, Mistake, adopted_catalogue
from ledger.core.config import Config
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import holders_that_declined, may_go_now, may_take_offer
from ledger.core.evolve import Place
from ledger.core.holds import NotOrderable, objection_to, order_hash, parse_order
from ledger.core.ids import (
    ActionKey,
    MalformedId,
    is_gate_key,
    is_stream_key,
)
from ledger.core.invariants import BrokenInvariantError
from ledger.core.offers import Offer, offer_of_caller
from ledger.core.people import NOBODY, People, adopted_people, objection_to_people
from ledger.core.policy import AUTOMATIC, Policy, adopted_policy
from ledger.core.records import Adopted, Cause, Decision, Quarantined
from ledger.core.rejections import Detail, Refused, Rejection, Unchanged
from ledger.core.state import Stream
from ledger.core.unchecked import writer_of, written_with
from ledger.log.envelope import Unreadable, read_input
from ledger.log.fold import InForce
from ledger.log.port import Record
from ledger.log.published import read_document
from ledger.log.quarantine import sha256_of
from ledger.log.topics import partition_of
from ledger.signing.reading import read_signed
from streams.internal_inputs import Internal, objection_to_internal

TEXTS_REMEMBERED = 64

_Document = TypeVar("_Document", Catalogue, Policy, People)

_TICK: Final = "tick"
_cause_of, _decision_of = writer_of(Cause), writer_of(Decision)

PickOffer = Callable[[str, frozenset[str]], Offer | None]
"""Capacity for an operation, from nobody who gave this action back."""


@dataclass(slots=True)
class Seat:
    """Where the next decision of a batch will stand, and what it may look at. One serves the whole
    batch: the owner moves `at`, `decided_at` and what is in force on from decision to decision.
    """

    at: int
    """The ledger offset of the decision."""
    epoch: int
    generation: str
    partition: int
    partitions: int
    decided_at: int
    """Log time of the decision."""
    running_at: int
    """Log time as it runs on between inputs: a caller's offer that lay in an inbox for long is over
    by it, and by `decided_at` would still be fresh.
    """
    config: Config | None
    in_force: InForce
    stream_of: Callable[[str], Stream]
    pick: PickOffer
    pick_for_new: Callable[[str], Offer | None]
    """Capacity for a new action: only what those that wait already leave over."""


@dataclass(frozen=True, slots=True)
class Made:
    """A decision, and what the owner has to do with it."""

    decision: Decision
    offer_spent: Offer | None = None
    unreadable: Unreadable | None = None
    """Why the input is to be quarantined, where it is."""
    messages: tuple[i.Message, ...] = ()
    """To gates and actions, to be sent once the decision stands in the ledger."""


def make_decision(record: Record, seat: Seat) -> Made | None:
    """Answer one inbox record. None for a genesis record, which is no input."""
    cause = _cause_of(topic=record.topic, partition=record.partition, offset=record.offset)
    given = read_input(record)
    match given:
        case (
            i.Propose()
            | i.Report()
            | i.Cancel()
            | i.AskAgain()
            | i.PreviewRead()
            | i.CallerReport()
            | i.Decline()
            | i.Evidence()
        ):
            return _decided(record, given, cause, seat, _stream_of_action(given.key))
        case i.OpenSaga() | i.CancelSaga():
            stream = given.stream if _is_event(given.stream) else None
            return _decided(record, given, cause, seat, stream)
        case i.ReportStep():
            gate = given.gate if is_gate_key(given.gate) else None
            return _decided(record, given, cause, seat, gate)
        case i.GateAsk() | i.GateAnswer() | i.GateKeep() | i.GateClose() | i.GateTaken() | i.Tick():
            return _of_internal(record, given, cause, seat)
        case i.Judge():
            judged = _judged(given, record.timestamp, seat)
            return _decided(record, judged, cause, seat, _stream_of_action(given.key))
        case i.Publish():
            return Made(_published(given, cause, seat))
        case i.Offered():
            return _quarantined(record, cause, seat, Unreadable("not_an_input", "an offer"))
        case Unreadable():
            return _quarantined(record, cause, seat, given)
        case _:
            return None


def is_of_tick(decision: Decision) -> bool:
    """Whether a decision answers a tick. An internal input that cannot be read counts as one, so
    that its stream is left alone for a while.
    """
    copied = decision.cause.copied
    return copied is None or copied.startswith(_TICK)


def _of_internal(record: Record, given: Internal, cause: Cause, seat: Seat) -> Made:
    """Decide a tick, or what an action says to a gate, or a gate to an action. It is copied in few
    words: what it led to are facts, and what it said follows from those of its sender.
    """
    why = objection_to_internal(given, seat.generation)
    if why is not None:
        return _quarantined(record, cause, seat, why)
    if isinstance(given, i.Tick):
        copied = written_with(cause, copied=f"{_TICK} due {given.due_at}")
        return _decided(record, given, copied, seat, given.stream)
    copied = written_with(cause, copied=_in_short(given))
    return _decided(record, given, copied, seat, i.stream_of_message(given))


def _in_short(given: i.Message) -> str:
    match given:
        case i.GateAsk():
            return f"ask {given.round} of {given.action}"
        case i.GateAnswer():
            return f"answer {given.outcome} {given.grant or '-'} to {given.round} from {given.gate}"
        case i.GateKeep():
            return f"keep {given.grant} of {given.action}"
        case i.GateClose():
            spent = "spent" if given.spent else "unspent"
            return f"close {given.grant or '-'} {spent} of {given.round} of {given.action}"
        case i.GateTaken():
            return f"taken {given.round} by {given.gate}"
        case _:
            assert_never(given)


def _judged(given: i.Judge, appended_at: int, seat: Seat) -> i.Judged:
    """A person's decision once its signature was looked at, against the people in force."""
    people = NOBODY if seat.config is None else seat.config.people
    read = read_signed(given.signed, people)
    judged = i.Judged(given.key, given.signed, appended_at, seat.generation)
    if isinstance(read, Rejection):
        return replace(judged, refusal=read)
    return replace(judged, statement=read.statement, key_id=read.key_id)


def _is_event(stream: str) -> bool:
    """Whether it is the key of a business event, and not of a gate."""
    return is_stream_key(stream) and not is_gate_key(stream)


def _stream_of_action(key: str) -> str | None:
    try:
        return ActionKey.parse(key).stream_key
    except MalformedId:
        return None


def _decided(
    record: Record, given: i.Decidable, cause: Cause, seat: Seat, stream_key: str | None
) -> Made:
    """Decide an input for the stream it names, if that stream lives here."""
    if stream_key is None:
        malformed = Refused(code=Rejection.MALFORMED_KEY)
        return Made(_decision(cause, seat, "", Decided(refused=malformed)))
    here = partition_of(stream_key, seat.partitions) == seat.partition
    if not here or record.key != stream_key.encode():
        misrouted = Refused(code=Rejection.MISROUTED)
        return Made(_decision(cause, seat, stream_key, Decided(refused=misrouted)))
    stream, config = seat.stream_of(stream_key), seat.config
    if config is None:
        unknown = Refused(code=Rejection.UNKNOWN_OPERATION)
        return Made(_decision(cause, seat, stream_key, Decided(refused=unknown)))
    try:
        decided, now = _with_capacity(given, record.timestamp, stream, config, seat)
    except BrokenInvariantError as fault:
        why = Unreadable("broken_invariant", str(fault))
        return _quarantined(record, cause, seat, why, stream_key)
    except Exception as fault:  # noqa: BLE001 - one input must not stop the others
        why = Unreadable("fault_in_decide", f"{type(fault).__name__}: {fault}")
        return _quarantined(record, cause, seat, why, stream_key)
    decision = _decision(cause, seat, stream_key, decided, now)
    return Made(decision, decided.offer_spent, messages=decided.messages)


def _with_capacity(
    given: i.Decidable, appended_at: int, stream: Stream, config: Config, seat: Seat
) -> tuple[Decided, int]:
    """Decide with an offer where one may be spent, and without it where it was not; and the log
    time of the decision, which for a start is never before its offer was appended.
    """
    offer = _offer_for(given, appended_at, stream, config, seat)
    if offer is not None:
        now = max(seat.decided_at, offer.appended_at)
        decided = decide(stream, config, given, Place(seat.at, now), offer)
        # One that was not spent has changed nothing, unless time was drawn on to when it came.
        if decided.offer_spent is not None or now == seat.decided_at:
            return decided, now
    now = seat.decided_at
    return decide(stream, config, given, Place(seat.at, now), None), now


def _offer_for(
    given: i.Decidable, appended_at: int, stream: Stream, config: Config, seat: Seat
) -> Offer | None:
    """Capacity for the start that this input may lead to, or None where it leads to none."""
    match given:
        case i.Report():
            return None
        case i.Propose(caller=caller, request=request) if caller is not None:
            own = offer_of_caller(caller, request.operation, appended_at)
            return own if seat.running_at <= own.until_at else None
        case i.OpenSaga(steps=steps):
            if stream.action(steps[0].key) is not None:
                return None
            return seat.pick_for_new(steps[0].request.operation)
        case i.Propose(request=request, key=key):
            if stream.action(key) is not None:
                return None
            return seat.pick_for_new(request.operation)
        case i.Judged(key=key) | i.GateAnswer(key=key):
            action = stream.action(key)
            return None if action is None else seat.pick_for_new(action.request.operation)
        case i.Tick():
            for action in stream.actions:
                may_start = may_take_offer(action, seat.decided_at, config)
                if may_start and may_go_now(stream, action):
                    declined = holders_that_declined(action)
                    offer = seat.pick(action.request.operation, declined)
                    if offer is not None:
                        return offer
            return None
        case _:
            return None


def _decision(
    cause: Cause, seat: Seat, stream_key: str, decided: Decided, now: int | None = None
) -> Decision:
    return _decision_of(
        at=seat.at,
        epoch=seat.epoch,
        cause=cause,
        decided_at=seat.decided_at if now is None else now,
        stream=stream_key,
        gate=decided.gate or None,
        facts=decided.facts,
        refused=decided.refused,
        unchanged=decided.unchanged,
    )


def set_aside(record: Record, made: Made, why: Unreadable) -> Made:
    """The small answer to an input whose decision cannot be written: it is larger than a ledger
    record may be, or it does not read back.
    """
    quarantined = Quarantined(
        reason=why.reason, sha256=sha256_of(record.value), size_bytes=len(record.value)
    )
    small = Decision(
        at=made.decision.at,
        epoch=made.decision.epoch,
        cause=made.decision.cause,
        decided_at=made.decision.decided_at,
        stream=made.decision.stream,
        quarantined=quarantined,
    )
    return Made(small, unreadable=why)


def _quarantined(
    record: Record, cause: Cause, seat: Seat, why: Unreadable, stream_key: str = ""
) -> Made:
    quarantined = Quarantined(
        reason=why.reason, sha256=sha256_of(record.value), size_bytes=len(record.value or b"")
    )
    decision = Decision(
        at=seat.at,
        epoch=seat.epoch,
        cause=cause,
        decided_at=seat.decided_at,
        stream=stream_key,
        quarantined=quarantined,
    )
    return Made(decision, unreadable=why)


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _parsed(given: i.Publish) -> Catalogue | Policy | People | tuple[Mistake, ...]:
    """Every owner of a partition reads the same few texts, and each takes milliseconds."""
    return read_document(given)


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _catalogue(text: str) -> Catalogue:
    return _read(adopted_catalogue(text), "catalogue")


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _policy(text: str) -> Policy:
    return _read(adopted_policy(text), "policy")


@lru_cache(maxsize=TEXTS_REMEMBERED)
def _people(text: str) -> People:
    return _read(adopted_people(text), "document of people")


def _read(parsed: _Document | tuple[Mistake, ...], called: str) -> _Document:
    """What a partition has adopted. Raises BrokenInvariantError: a newer version has adopted it."""
    if isinstance(parsed, tuple):
        raise BrokenInvariantError(f"this version cannot read the {called} in force: {parsed[0]}")
    return parsed


def _published(given: i.Publish, cause: Cause, seat: Seat) -> Decision:
    """Adopt a configuration that is valid; refuse any other, and keep what holds."""
    if given.kind in {"hold", "release"}:
        return _ordered(given, cause, seat)
    parsed = _parsed(given)
    if isinstance(parsed, tuple) or parsed.content_hash != given.content_hash:
        mistakes = parsed if isinstance(parsed, tuple) else ()
        details = tuple(
            Detail(path=mistake.path, code=f"line_{mistake.line}", message=mistake.message)
            for mistake in mistakes
        )
        refused = Refused(code=Rejection.INVALID_CONFIGURATION, details=details)
        return _decision(cause, seat, "", Decided(refused=refused))
    if isinstance(parsed, People):
        objection = objection_to_people(parsed, people_of(seat.in_force))
        if objection is not None:
            detail = Detail(path="replaces", code=objection.value, message=parsed.content_hash)
            refused = Refused(code=Rejection.INVALID_CONFIGURATION, details=(detail,))
            return _decision(cause, seat, "", Decided(refused=refused))
    return _adopted(given, cause, seat)


def _ordered(given: i.Publish, cause: Cause, seat: Seat) -> Decision:
    """Adopt a hold or a release; one that changes nothing is answered by its name."""
    order = parse_order(given.content)
    if order is None or order_hash(given.content) != given.content_hash:
        return _decision(cause, seat, "", Decided(refused=_INVALID_ORDER))
    objection = objection_to(given.kind, order, seat.in_force.holds)
    match objection:
        case None:
            return _adopted(given, cause, seat)
        case NotOrderable.HELD_ALREADY:
            known = Unchanged(reason=objection.value)
            return _decision(cause, seat, "", Decided(unchanged=known))
        case NotOrderable.NOT_HELD | NotOrderable.TOO_MANY_HOLDS:
            detail = Detail(path="scope", code=objection.value, message=str(order.scope))
            refused = Refused(code=Rejection.INVALID_CONFIGURATION, details=(detail,))
            return _decision(cause, seat, "", Decided(refused=refused))
        case _:
            assert_never(objection)


_INVALID_ORDER: Final = Refused(
    code=Rejection.INVALID_CONFIGURATION,
    details=(Detail(path="", code="no_order", message="It names no scope and no operator."),),
)


def _adopted(given: i.Publish, cause: Cause, seat: Seat) -> Decision:
    return Decision(
        at=seat.at,
        epoch=seat.epoch,
        cause=cause,
        decided_at=seat.decided_at,
        stream="",
        adopted=Adopted(
            kind=given.kind,
            content=given.content,
            content_hash=given.content_hash,
            offset=cause.offset,
        ),
    )


def is_adoptable_catalogue(given: i.Publish) -> bool:
    """Whether an owner would adopt this version, and then can decide."""
    if given.kind != "catalogue":
        return False
    parsed = _parsed(given)
    return isinstance(parsed, Catalogue) and parsed.content_hash == given.content_hash


def people_of(in_force: InForce) -> People:
    """Who may decide, by the document that was adopted; nobody before there is one."""
    if in_force.people is None:
        return NOBODY
    return _people(in_force.people.content)


def policy_of(in_force: InForce) -> Policy:
    """The decision table that was adopted; before there is one, the built-in one."""
    if in_force.policy is None:
        return AUTOMATIC
    return _policy(in_force.policy.content)


def config_of(in_force: InForce) -> Config | None:
    """The configuration that what was adopted makes; it was valid when it was adopted. None before
    there is a catalogue.
    """
    if in_force.catalogue is None:
        return None
    return Config(
        _catalogue(in_force.catalogue.content),
        in_force.catalogue.content_hash,
        in_force.holds,
        policy_of(in_force),
        people_of(in_force),
    )
