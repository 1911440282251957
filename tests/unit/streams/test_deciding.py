"""From an inbox record to its one decision, and every way in which bytes can be no input."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import catalogue_hash
from ledger.core.offers import Offer
from ledger.core.records import Adopted, Genesis
from ledger.core.rejections import Rejection
from ledger.core.state import Status, Stream
from ledger.core.wire import Wire
from ledger.log import published
from ledger.log.envelope import encode
from ledger.log.fold import InForce
from streams.deciding import config_of, is_adoptable_catalogue, make_decision
from tests.examples import (
    CATALOGUE_TEXT,
    CHARGE,
    STEP_MS,
    STREAM,
    T0,
    TICKET,
    automatic,
    decline,
    declined,
    found_out,
    offer,
    propose,
    recorded,
    report,
    retry_due,
    started,
    success,
    tick,
)
from tests.unit.core.language import Given, given
from tests.unit.streams.seats import made, record, seat

READY = given(recorded(), automatic())
RUNNING = READY.and_then(started())


def publish(text: str, content_hash: str | None = None) -> i.Publish:
    """Publish a catalogue."""
    return i.Publish(
        kind="catalogue", content=text, content_hash=content_hash or catalogue_hash(text)
    )


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


@pytest.mark.parametrize("kind", ["catalogue", "policy", "people"])
def test_a_document_that_meets_a_fault_of_ours_stops_nobody(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Owners refuse it by name, and every other reader passes it over: it is read for ever."""

    def parse(_: str) -> NoReturn:
        raise IndexError("a fault of ours")

    monkeypatch.setattr(published, f"parse_{kind}", parse)
    poison = publish(f"# a poisonous {kind}\n").model_copy(update={"kind": kind})
    decision = made(record(poison, topic="config"), seat()).decision
    assert decision.refused is not None
    assert decision.refused.code is Rejection.INVALID_CONFIGURATION
    assert [one.message for one in decision.refused.details] == [
        "It could not be read: IndexError."
    ]
    known = published.Published()
    known.feed(record(poison, topic="config")._replace(offset=0))
    assert known == published.Published(next_offset=1)


def test_an_offer_in_an_inbox_is_no_input() -> None:
    """Capacity is offered on its own topic only."""
    offered = i.Offered(
        incarnation="x", sequence=1, operations=(), slots=1, seen_offset=0, valid_ms=1
    )
    decision = made(record(offered, topic="offers"), seat()).decision
    assert decision.quarantined is not None
