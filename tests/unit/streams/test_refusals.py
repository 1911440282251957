"""Every name that an input can be refused by, from the record that leads to it."""

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
from ledger.core.people import People
from ledger.core.policy import Policy
from ledger.core.records import Decision
from ledger.core.rejections import MEANINGS, Rejection
from ledger.core.state import Stream
from ledger.core.statement import Move, Say, SignedByKey
from ledger.log.port import Record
from ledger.log.topics import partition_of
from streams.deciding import Seat
from tests import examples_of_people as p
from tests.asking import policy
from tests.examples import (
    CHARGE,
    CONFIG,
    EUR_499,
    PAYOUT,
    T0,
    automatic,
    cancel,
    completed,
    expired,
    found_out,
    offer,
    propose,
    recorded,
    report,
    request,
    review,
    started,
    succeeded,
    success,
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


def _reports(principal: str, reporter: str) -> Case:
    """A step of a run, of which as many report as may."""
    keys = (gate_key("acme", GateKind.RUN, f"run-{number}") for number in count())
    key = next(key for key in keys if partition_of(key, PARTITIONS) == PARTITION)
    reporters = tuple(
        Reporter(f"agent-{number}", "agent:billing", 1) for number in range(REPORTERS_MAX)
    )
    known = Stream(key, gate=Gate(REPORTERS_MAX, T0, {}, reporters=reporters))
    said = i.ReportStep(gate=key, principal=principal, reporter=reporter, step=1)
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
    Rejection.OTHER_TARGET: Case(
        record(
            _UNDOES.model_copy(
                update={"request": _UNDOES.request.model_copy(update={"target": "order:A-1"})}
            )
        ),
        seat(READY, config=TRAVELS),
    ),
    Rejection.COMPENSATION_EXCEEDS: Case(
        record(_UNDOES.model_copy(update={"key": f"{PAYOUT}#again"})),
        seat(Story(TRAVELS).after(propose(), _UNDOES), config=TRAVELS),
    ),
    Rejection.NOT_ALLOWED: Case(record(i.Propose(key=CHARGE, request=_STRANGER)), seat()),
    Rejection.RUN_MISSING: Case(record(propose()), seat(config=under(policy(_PER_RUN)))),
    Rejection.TOO_MANY_REPORTERS: _reports("agent:billing", "one-more"),
    Rejection.OTHER_REPORTER: _reports("agent:other", "agent-1"),
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
