"""From an inbox record to its one decision: every name that an input can be refused by, and every
way in which bytes can be no input.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue, catalogue_hash
from ledger.core.config import Config
from ledger.core.gates import Gate, Reporter
from ledger.core.ids import GateKind, gate_key
from ledger.core.limits import REPORTERS_MAX, STREAM_ACTIONS_ORDINARY_MAX
from ledger.core.offers import Offer
from ledger.core.people import People
from ledger.core.policy import Policy
from ledger.core.records import Adopted, Decision, Genesis
from ledger.core.rejections import MEANINGS, Rejection
from ledger.core.state import Status, Stream
from ledger.core.statement import Move, Say, SignedByKey
from ledger.core.wire import Wire
from ledger.log.envelope import encode
from ledger.log.fold import InForce
from ledger.log.port import Record
from ledger.log.topics import partition_of
from streams.deciding import Seat, config_of, is_adoptable_catalogue, make_decision
from tests import examples_of_people as p
from tests.asking import policy
from tests.examples import (
    CATALOGUE_TEXT,
    CHARGE,
    CONFIG,
    EUR_499,
    PAYOUT,
    STEP_MS,
    STREAM,
    T0,
    TICKET,
    automatic,
    cancel,
    completed,
    decline,
    declined,
    expired,
    found_out,
    offer,
    propose,
    recorded,
    report,
    request,
    retry_due,
    review,
    started,
    succeeded,
    success,
    tick,
)
from tests.examples_of_sagas import TRAVELS, cancel_trip, plan, step, under, undo
from tests.unit.core.language import Given, Story, given
from tests.unit.streams.seats import PARTITION, PARTITIONS, made, record, seat

READY = given(recorded(), automatic())
RUNNING = READY.and_then(started())


def publish(text: str, content_hash: str | None = None) -> i.Publish:
    """Publish a catalogue."""
    return i.Publish(
        kind="catalogue", content=text, content_hash=content_hash or catalogue_hash(text)
    )


# --- every refusal -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """What leads to a refusal."""

    read: Record
    seat: Seat


ASKED = given(recorded(), p.ruled(deadline=p.PEOPLE_MS), p.previewed(), p.asking())
SKEWED = T0 + CONFIG.timing.skew_ms


def says(
    history: Given = ASKED,
    *,
    registered: People = p.PEOPLE,
    policy: Policy = p.ONE,
    by: str | None = None,
    at: int = 0,
    **changes: Any,  # noqa: ANN401 - fields of a model
) -> Case:
    """Somebody's signed decision, appended `at`, about what one person of finance is asked."""
    said = p.statement(**changes)
    read = record(p.judge(said, by).model_copy(update={"key": CHARGE}), topic="approvals")
    config = p.under(policy, registered)
    return Case(read._replace(timestamp=T0 + at), seat(history, config=config))


def settles(move: Move, history: Given, *, case: int = 3, **named: str) -> Case:
    """Somebody's signed resolution of a case, with what it names."""
    said = p.resolution(move, case=case).model_copy(update={"reference": None} | named)
    return Case(record(p.judge(said), topic="approvals"), seat(history, config=p.under(p.FREE)))


def _forged() -> Case:
    """A decision under ada's name that another key signed."""
    case = says()
    (_, key, ada) = ("", CHARGE, p.judge(p.statement()))
    (_, _, ben) = ("", CHARGE, p.judge(p.statement(comment="other")))
    assert isinstance(ada.signed, SignedByKey)
    assert isinstance(ben.signed, SignedByKey)
    body, proof = ada.signed.jws.rpartition(".")[0], ben.signed.jws.rpartition(".")[2]
    forged = i.Judge(key=key, signed=SignedByKey(jws=f"{body}.{proof}"))
    return replace(case, read=record(forged, topic="approvals"))


_WITHDRAWN = READY.and_then(review("operation_withdrawn"))
_REVOKED = p.people(p.ADA.model_copy(update={"revoked": True}), *p.EVERYBODY[1:])
_BEGUN = ASKED.and_then(p.agreed(p.approves()), p.start_of(p.approves()))


_UNDOES = propose(PAYOUT, compensates=CHARGE)
_TRAVELLING = Story(TRAVELS).after(plan())
_DENIED = """
[[row]]
name = "never"
outcome = "deny"
reason = "Not here."
"""


_PER_RUN = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 3

[[row]]
name = "all"
outcome = "automatic"
ceilings = ["run"]
reason = "Every action counts in its run."
"""
_AT_CEILING = READY.and_then(review("ceiling_reached").model_copy(update={"names": "run"}))


def _reports_too_many() -> Case:
    """One more who reports steps of a run, of which as many report as may."""
    keys = (gate_key("acme", GateKind.RUN, f"run-{number}") for number in count())
    key = next(key for key in keys if partition_of(key, PARTITIONS) == PARTITION)
    reporters = tuple(Reporter(f"agent-{number}", 1) for number in range(REPORTERS_MAX))
    known = Stream(key, gate=Gate(REPORTERS_MAX, T0, {}, reporters=reporters))
    said = i.ReportStep(gate=key, principal="agent:billing", reporter="one-more", step=1)
    return Case(record(said, stream=key), replace(seat(), stream_of=lambda _key: known))


def _full() -> Given:
    items = (
        recorded().model_copy(update={"action": f"{CHARGE}#{number}"})
        for number in range(STREAM_ACTIONS_ORDINARY_MAX)
    )
    return given(*items)


_STRANGER = request().model_copy(update={"principal": "person:eve"})
_SECOND = request().model_copy(update={"version": 2})
_FOREIGN = found_out(i.Meaning.EFFECT, lookup=None, account="other")

_ONLY_CALLER = Catalogue(
    tuple(one.model_copy(update={"performer": "caller"}) for one in CONFIG.catalogue.operations),
    CONFIG.content_hash,
)
_OFFERS = i.CallerOffer(nonce="5f3a", valid_ms=1_000)

REFUSALS: dict[Rejection, Case] = {
    Rejection.MISROUTED: Case(record(propose()), seat(partition=(PARTITION + 1) % PARTITIONS)),
    Rejection.MALFORMED_KEY: Case(
        record(propose().model_copy(update={"key": "renewal-1"})), seat()
    ),
    Rejection.KEY_MISMATCH: Case(record(i.Propose(key=PAYOUT, request=request())), seat()),
    Rejection.HASH_MISMATCH: Case(record(propose(request_hash="sha256:00")), seat()),
    Rejection.CONFLICTED: Case(record(propose(request=request(money=EUR_499))), seat(READY)),
    Rejection.UNSTABLE_KEY: Case(
        record(i.Propose(key=f"{CHARGE}#attempt-2", request=request())), seat()
    ),
    Rejection.UNKNOWN_ACTION: Case(record(cancel()), seat()),
    Rejection.UNKNOWN_ATTEMPT: Case(record(report(success()), topic="attempts"), seat(READY)),
    Rejection.STALE_TOKEN: Case(
        record(report(success(), holder="somebody-else"), topic="attempts"), seat(RUNNING)
    ),
    Rejection.FOREIGN_ACCOUNT: Case(record(_FOREIGN, topic="evidence"), seat(RUNNING)),
    Rejection.UNKNOWN_LOOKUP: Case(
        record(found_out(i.Meaning.PENDING), topic="evidence"), seat(RUNNING)
    ),
    Rejection.UNKNOWN_OPERATION: Case(record(propose()), seat(config=None)),
    Rejection.OTHER_VERSION: Case(
        record(i.Propose(key="charge:v2:acme:renewal-1", request=_SECOND)), seat(READY)
    ),
    Rejection.REVISION_NEEDS_PERSON: Case(
        record(i.Propose(key=f"{CHARGE}~2", request=request())), seat(READY)
    ),
    Rejection.UNKNOWN_ORIGINAL: Case(
        record(i.Propose(key=f"{CHARGE}~2", request=request(), revises=CHARGE)), seat()
    ),
    Rejection.REVISION_UNFIT: Case(
        record(i.Propose(key=f"{CHARGE}~2", request=request(), revises=CHARGE)), seat(READY)
    ),
    Rejection.NOT_A_COMPENSATION: Case(record(_UNDOES), seat(READY)),
    Rejection.NOTHING_TO_UNDO: Case(
        record(_UNDOES), seat(READY.and_then(expired()), config=TRAVELS)
    ),
    Rejection.COMPENSATION_EXCEEDS: Case(
        record(_UNDOES.model_copy(update={"key": f"{PAYOUT}#again"})),
        seat(Story(TRAVELS).after(propose(), _UNDOES), config=TRAVELS),
    ),
    Rejection.NOT_ALLOWED: Case(record(i.Propose(key=CHARGE, request=_STRANGER)), seat()),
    Rejection.RUN_MISSING: Case(record(propose()), seat(config=under(policy(_PER_RUN)))),
    Rejection.TOO_MANY_REPORTERS: _reports_too_many(),
    Rejection.ACCEPTS_UNFIT: settles(Move.ALLOW, _AT_CEILING, accepts="other"),
    Rejection.NEEDS_EXECUTOR: Case(record(propose(caller=_OFFERS)), seat()),
    Rejection.NEEDS_CALLER: Case(
        record(propose()), seat(config=Config(_ONLY_CALLER, CONFIG.content_hash))
    ),
    Rejection.INVALID_REQUEST: Case(
        record(i.Propose(key=CHARGE, request=request().model_copy(update={"money": None}))), seat()
    ),
    Rejection.STREAM_FULL: Case(record(propose()), seat(_full())),
    Rejection.SIGNATURE_INVALID: _forged(),
    Rejection.UNKNOWN_SIGNER: says(by="zoe"),
    Rejection.SIGNER_REVOKED: says(registered=_REVOKED),
    Rejection.OTHER_LEDGER: says(ledger="generation-0"),
    Rejection.OTHER_ACTION: says(key=PAYOUT),
    Rejection.OTHER_TENANT: says(tenant="globex"),
    Rejection.OTHER_ENVIRONMENT: says(environment="test"),
    Rejection.OTHER_REQUEST: says(request_hash="sha256:00"),
    Rejection.OTHER_PERSON: says(by="ben"),
    Rejection.NOT_FOR_TENANT: says(name="dan"),
    Rejection.REQUESTER_DECIDES: says(name="eve"),
    Rejection.NOTHING_ASKED: says(READY),
    Rejection.NO_CASE: settles(Move.NO_EFFECT, READY),
    Rejection.CASE_MOVED: settles(Move.NO_EFFECT, _WITHDRAWN, case=2),
    Rejection.REFERENCE_UNFIT: settles(Move.NO_EFFECT, _WITHDRAWN, reference="ch_1"),
    Rejection.MOVE_NOT_SAFE: settles(Move.LOOK_AGAIN, _WITHDRAWN),
    Rejection.APPROVAL_SPENT: says(_BEGUN, decision=Say.WITHDRAW),
    Rejection.NONCE_DEAD: says(nonce="nonce-0"),
    Rejection.OTHER_POLICY: says(policy_hash="sha256:00"),
    Rejection.OTHER_PREVIEW: says(preview_hash="sha256:00"),
    Rejection.APPROVAL_EXPIRED: says(at=p.VALID_MS),
    Rejection.EXPIRY_BEYOND_REQUEST: says(until=p.VALID_MS + 1),
    Rejection.ISSUED_IN_FUTURE: says(issued_at=SKEWED + 1),
    Rejection.NOT_IN_GROUP: says(name="cleo"),
    Rejection.NOTHING_TO_WITHDRAW: says(decision=Say.WITHDRAW),
    Rejection.ALREADY_FINAL: Case(record(cancel()), seat(READY.and_then(expired()))),
    Rejection.ATTEMPT_OPEN: Case(record(cancel()), seat(RUNNING)),
    Rejection.IN_REVIEW: Case(record(cancel()), seat(_WITHDRAWN)),
    Rejection.SAGA_UNFIT: Case(
        record(plan(step("flight"), step("flight", key=f"{CHARGE}2"))), seat()
    ),
    Rejection.STEP_DENIED: Case(record(plan()), seat(config=under(policy(_DENIED)))),
    Rejection.UNKNOWN_SAGA: Case(record(cancel_trip()), seat()),
    Rejection.COMPENSATION_PLANNED: Case(record(cancel(undo("car"))), seat(_TRAVELLING)),
    Rejection.INVALID_CONFIGURATION: Case(
        record(publish("[[operation]]\nname = 1"), topic="config"), seat()
    ),
}


def test_every_refusal_is_reached_and_explained() -> None:
    """No refusal is without an input that leads to it and a sentence that says what it means."""
    assert set(REFUSALS) == set(Rejection)
    assert set(MEANINGS) == set(Rejection)
    assert all(meaning.sentence.endswith(".") for meaning in MEANINGS.values())


@pytest.mark.parametrize("code", Rejection)
def test_a_refusal_is_the_whole_answer(code: Rejection) -> None:
    """The decision holds the refusal and nothing else, for exactly this input and place."""
    case = REFUSALS[code]
    decision = made(case.read, case.seat).decision
    assert decision.refused is not None
    assert decision.refused.code is code
    assert (decision.at, decision.epoch, decision.decided_at) == (7, 2, T0)
    cause = (decision.cause.topic, decision.cause.partition, decision.cause.offset)
    assert cause == (case.read.topic, PARTITION, 3)
    assert decision.facts == ()
    assert (decision.unchanged, decision.quarantined, decision.adopted) == (None, None, None)


def test_what_a_person_has_tried_again_takes_capacity_in_the_same_decision() -> None:
    """A signed resolution is read as an approval is, and its start spends an offer at hand."""
    said = p.resolution(Move.TRY_AGAIN, case=3)
    at_hand = offer()
    here = seat(_WITHDRAWN, config=p.under(p.FREE), pick=lambda _operation, _declined: at_hand)
    answer = made(record(p.judge(said), topic="approvals"), here)
    kinds = [fact.type for fact in answer.decision.facts]
    assert kinds == ["review.resolved", "policy.decided", "attempt.started"]
    assert answer.offer_spent == at_hand


def test_refusals_come_in_order_of_precedence() -> None:
    """An input that is wrong in two ways is refused by the more fundamental one."""
    both = i.Propose(key="charge:v7:acme:renewal-1", request=_STRANGER, request_hash="sha256:00")
    assert _refusal(both, seat()) is Rejection.KEY_MISMATCH
    wrong_hash = i.Propose(key=CHARGE, request=_STRANGER, request_hash="sha256:00")
    assert _refusal(wrong_hash, seat(_full())) is Rejection.HASH_MISMATCH
    bare = _STRANGER.model_copy(update={"money": None})
    assert _refusal(i.Propose(key=CHARGE, request=bare), seat(_full())) is Rejection.NOT_ALLOWED
    poor = request().model_copy(update={"money": None})
    assert _refusal(i.Propose(key=CHARGE, request=poor), seat(_full())) is Rejection.INVALID_REQUEST
    revised = i.Propose(key=f"{CHARGE}~2", request=poor, revises=CHARGE)
    assert _refusal(revised, seat(_full())) is Rejection.UNKNOWN_ORIGINAL


def _refusal(given_input: i.Propose, at: Seat) -> Rejection:
    refused = made(record(given_input), at).decision.refused
    assert refused is not None
    return refused.code


# --- what is no input --------------------------------------------------------------------------


@pytest.mark.case("C149")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "not_json"),
        (b"{bad", "not_json"),
        (b"\xff\xfe", "not_utf8"),
        (b'{"a":1,"a":2}', "duplicate_key"),
        (b'{"a":1.5}', "float_refused"),
        (b'{"a":9007199254740993}', "integer_too_large"),
        (b'{"a":NaN}', "not_a_number"),
        (b'{"a":"\\ud83d"}', "lone_surrogate"),
        (b"[" * 40 + b"]" * 40, "too_deep"),
        (b'"' + b"x" * 131_072 + b'"', "too_large"),
        (b"{}", "not_an_event_of_this_topic"),
    ],
)
def test_c149_bytes_that_are_no_input_are_quarantined_by_name(value: bytes, reason: str) -> None:
    """A record that cannot be read gets a decision that says why and by which hash it is found."""
    read = record(propose())._replace(value=value, key=None)
    answer = made(read, seat())
    assert answer.decision.quarantined is not None
    assert answer.decision.quarantined.reason == reason
    assert answer.decision.quarantined.size_bytes == len(value)
    assert answer.unreadable is not None
    assert answer.decision.facts == ()


@pytest.mark.parametrize(
    ("given_input", "topic"),
    [
        (report(success()), "intents"),
        (propose(), "attempts"),
        (decline(), "evidence"),
        (tick(), "evidence"),
        (found_out(i.Meaning.EFFECT, lookup=None), "attempts"),
        (propose(), "approvals"),
        (propose(), "internal"),
        (propose(), "config"),
        (publish(CATALOGUE_TEXT), "intents"),
    ],
)
def test_a_topic_holds_what_its_writers_may_say(given_input: Wire, topic: str) -> None:
    """What may be written to one inbox cannot be said through another."""
    quarantined = made(record(given_input, topic=topic), seat(RUNNING)).decision.quarantined
    assert quarantined is not None
    assert quarantined.reason == "not_an_event_of_this_topic"


def test_an_event_of_a_later_version_is_kept_for_later() -> None:
    """A type that this version does not know is quarantined, never dropped and never guessed."""
    body = json.loads(record(propose()).value)
    for change in (
        {"type": "actionledger.intent.propose.v2"},
        {"specversion": "1.1"},
        {"data": {**body["data"], "urgency": "high"}},
    ):
        read = record(propose())._replace(value=json.dumps({**body, **change}).encode())
        assert made(read, seat()).decision.quarantined is not None


def test_a_genesis_record_is_no_input() -> None:
    """The first record of an inbox gets no decision."""
    value = encode(
        Genesis(generation="g", partition=0, partitions=1), event_id="genesis", source="/tests"
    )
    assert make_decision(record(propose())._replace(value=value), seat()) is None


@pytest.mark.parametrize("key", [None, b"", b"acme/renewal-2", STREAM.encode() + b" "])
def test_the_key_of_a_record_is_its_stream(key: bytes | None) -> None:
    """A record whose key does not say its stream was put where chance wanted."""
    decision = made(record(propose())._replace(key=key), seat()).decision
    assert decision.refused is not None
    assert decision.refused.code is Rejection.MISROUTED


def test_a_fault_of_ours_stops_one_input_and_not_the_partition() -> None:
    """Whatever breaks inside a decision becomes a quarantine with the input's hash; what comes next
    is decided as if it had not been.
    """
    impossible = replace(RUNNING.action(), status=Status.AWAITING_APPROVAL)
    late = replace(seat(Given(Stream(STREAM, (impossible,)))), decided_at=T0 + STEP_MS)
    answer = made(record(tick(), topic="internal"), late)
    assert answer.decision.quarantined is not None
    assert answer.decision.quarantined.reason == "broken_invariant"
    assert answer.decision.stream == STREAM

    def fails(operation: str, declined_by: frozenset[str]) -> Offer | None:
        raise ZeroDivisionError("a fault of ours")

    answer = made(record(propose()), seat(pick=fails))
    assert answer.decision.quarantined is not None
    assert answer.decision.quarantined.reason == "fault_in_decide"
    assert answer.unreadable is not None
    assert "ZeroDivisionError" in answer.unreadable.detail


# --- capacity ----------------------------------------------------------------------------------


def capacity_for(*keys: str) -> Callable[[str, frozenset[str]], Offer | None]:
    """One executor that offers these operations, five milliseconds after T0."""
    offers = {made_for.operation: made_for for made_for in (offer(at=5, key=key) for key in keys)}

    def pick(operation: str, declined_by: frozenset[str]) -> Offer | None:
        found = offers.get(operation)
        return None if found is None or found.incarnation in declined_by else found

    return pick


def test_a_start_is_not_decided_before_its_offer() -> None:
    """Log time moves to the offer where that came later, so that the holder always stops first."""
    answer = made(record(propose()), seat(pick=capacity_for(CHARGE)))
    assert answer.offer_spent == offer(at=5)
    assert answer.decision.decided_at == T0 + 5
    assert [fact.type for fact in answer.decision.facts][-1] == "attempt.started"


def test_an_offer_that_is_not_spent_moves_no_time() -> None:
    """A proposal that is refused is decided at its own time."""
    answer = made(record(propose(request_hash="sha256:00")), seat(pick=capacity_for(CHARGE)))
    assert answer.offer_spent is None
    assert answer.decision.decided_at == T0


def test_a_repeated_proposal_looks_for_no_capacity() -> None:
    """What is known starts nothing by being asked for again."""
    answer = made(record(propose()), seat(READY, pick=capacity_for(CHARGE)))
    assert answer.decision.unchanged is not None


def test_capacity_for_the_second_action_is_not_held_up_by_the_first() -> None:
    """A stream whose first action nobody can serve starts its second one."""
    both = READY.and_then(recorded(TICKET), automatic(TICKET))
    answer = made(record(tick(), topic="internal"), seat(both, pick=capacity_for(TICKET)))
    assert answer.offer_spent is not None
    assert {fact.action for fact in answer.decision.facts} == {TICKET}
    back = READY.and_then(started(), declined(), retry_due(0), recorded(TICKET), automatic(TICKET))
    answer = made(record(tick(), topic="internal"), seat(back, pick=capacity_for(CHARGE, TICKET)))
    assert {fact.action for fact in answer.decision.facts} == {TICKET}


def test_a_tick_is_copied_into_its_decision() -> None:
    """Ticks do not live for ever; the decision that answers one says what it was."""
    decision = made(record(tick(), topic="internal"), seat(READY)).decision
    assert decision.cause.copied == f"tick due {T0}"
    assert decision.unchanged is not None


# --- configuration -----------------------------------------------------------------------------


def test_a_valid_catalogue_is_adopted_with_its_text() -> None:
    """What holds from here on stands in the ledger itself."""
    decision = made(record(publish(CATALOGUE_TEXT), topic="config"), seat()).decision
    assert isinstance(decision.adopted, Adopted)
    assert decision.adopted.offset == 3
    config = config_of(InForce(decision.adopted))
    assert config is not None
    assert config.operation("charge", 1) is not None
    assert is_adoptable_catalogue(publish(CATALOGUE_TEXT))


def test_a_large_catalogue_is_read() -> None:
    """A catalogue larger than an intent is no poison."""
    long_text = CATALOGUE_TEXT + "# padding\n" * 10_000
    decision = made(record(publish(long_text), topic="config"), seat()).decision
    assert decision.adopted is not None


def test_a_catalogue_under_a_wrong_hash_is_refused() -> None:
    """The hash that people signed is the hash of the text or nothing is adopted."""
    wrong = publish(CATALOGUE_TEXT, "sha256:00")
    decision = made(record(wrong, topic="config"), seat()).decision
    assert decision.refused is not None
    assert decision.refused.code is Rejection.INVALID_CONFIGURATION
    assert not is_adoptable_catalogue(wrong)


def test_an_invalid_catalogue_is_refused_with_its_lines() -> None:
    """Every mistake is named by its line."""
    decision = made(record(publish("[[operation]]\nname = 1"), topic="config"), seat()).decision
    assert decision.refused is not None
    assert {detail.code for detail in decision.refused.details} >= {"line_2"}


def test_an_offer_in_an_inbox_is_no_input() -> None:
    """Capacity is offered on its own topic only."""
    offered = i.Offered(
        incarnation="x", sequence=1, operations=(), slots=1, seen_offset=0, valid_ms=1
    )
    decision = made(record(offered, topic="offers"), seat()).decision
    assert decision.quarantined is not None


def test_a_decision_is_a_function_of_record_and_seat() -> None:
    """The same input at the same place gives the same decision, to the byte."""
    for case in REFUSALS.values():
        first, second = made(case.read, case.seat).decision, made(case.read, case.seat).decision
        assert isinstance(first, Decision)
        assert first.model_dump_json() == second.model_dump_json()
    done = RUNNING.and_then(succeeded(), completed())
    again = made(record(propose()), seat(done)).decision
    assert again.unchanged is not None
    assert (again.unchanged.reason, again.unchanged.reference) == ("replayed", "ch_1")
