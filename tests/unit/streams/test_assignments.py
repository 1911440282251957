"""An executor's assignments: which starts are its own, until when, and what it offers."""

import pytest

from ledger.core import inputs as i
from ledger.core.facts import AnyFact, AttemptStarted
from ledger.core.records import Cause, Decision, EpochOpened, Genesis, LedgerRecord
from ledger.core.state import Stream
from ledger.log.envelope import encode_ledger, ledger_headers
from ledger.log.port import Record
from streams import assignments
from streams.assignments import Assignment, Assignments, objection
from tests.examples import (
    CALL_MS,
    CHARGE,
    EMAIL,
    KEY_MARGIN_MS,
    KEY_WINDOW_MS,
    LEASE_MS,
    PAYOUT,
    STREAM,
    T0,
    automatic,
    recorded,
    request,
    started,
)
from tests.unit.core.language import numbered

ME = "executor-1"
MARGIN_MS = 1_000
SENT_MONO_MS = 50_000
"""When the offer was sent, on the holder's own clock."""


class Ledger:
    """One partition, written record by record and read by one incarnation."""

    def __init__(self, *, slots: int = 3, name: str = ME) -> None:
        self.assignments = Assignments(name, ("charge", "payout", "email"), {0: slots})
        self.epoch = 0
        self.offset = 0
        self.put(Genesis(generation="g", partition=0, partitions=1))
        self.open_epoch()
        self.assignments.caught_up(0)

    def put(self, record: LedgerRecord, *, marked: bool = True) -> list[Assignment]:
        """Write a record at the end and let the incarnation read it."""
        value = encode_ledger(record, generation="g", partition=0)
        headers = ledger_headers(record) if marked else ()
        read = Record("ledger", 0, self.offset, T0, b"k", value, headers)
        self.offset += 1
        return self.assignments.feed(read)

    def open_epoch(self) -> None:
        """A new owner."""
        self.epoch += 1
        self.put(EpochOpened(at=self.offset, epoch=self.epoch, nonce="n"))

    def decide(
        self, *facts: AnyFact, epoch: int | None = None, at: int | None = None, marked: bool = True
    ) -> list[Assignment]:
        """Write a decision."""
        decision = Decision(
            at=self.offset if at is None else at,
            epoch=self.epoch if epoch is None else epoch,
            cause=Cause(topic="intents", partition=0, offset=self.offset),
            decided_at=T0,
            stream=STREAM,
            facts=tuple(numbered(Stream(STREAM), facts)),
        )
        return self.put(decision, marked=marked)

    def offer(self, mono_ms: int = SENT_MONO_MS) -> i.Offered:
        """Offer what is free."""
        offered = self.assignments.offer(0, mono_ms, valid_ms=6_000)
        assert offered is not None
        return offered


def begin(key: str = CHARGE, **changes: object) -> AttemptStarted:
    """A start for this incarnation."""
    return started(key=key, intent_offset=2).model_copy(update={"holder": ME, **changes})


def assigned(ledger: Ledger, key: str = CHARGE) -> Assignment:
    """The one assignment of an intent that was started at once."""
    ledger.offer()
    (assignment,) = ledger.decide(recorded(key), automatic(key), begin(key))
    return assignment


def test_a_start_that_names_it_is_its_own_with_the_recorded_request() -> None:
    """What is sent comes from the ledger, and the lease counts from when the offer was sent."""
    assignment = assigned(Ledger())
    assert assignment.start.action == CHARGE
    assert assignment.intent is not None
    assert assignment.intent.request.model_dump() == request().model_dump()
    assert assignment.offered_mono_ms == SENT_MONO_MS


def test_a_start_of_somebody_else_is_not() -> None:
    """Marks let it pass over such records; names decide where there are none."""
    ledger = Ledger()
    ledger.offer()
    assert ledger.decide(recorded(), automatic(), begin(holder="executor-2")) == []
    assert ledger.decide(begin(EMAIL, holder="executor-12"), marked=False) == []
    similar = Ledger(name="executor")
    similar.offer()
    assert similar.decide(recorded(), automatic(), begin()) == []


def test_a_record_without_marks_is_read() -> None:
    """Headers may help to skip; their absence hides nothing."""
    ledger = Ledger()
    ledger.offer()
    assert len(ledger.decide(recorded(), automatic(), begin(), marked=False)) == 1


@pytest.mark.law("S3")
def test_a_start_that_does_not_count_is_not_acted_on() -> None:
    """An old epoch's start, and one at the wrong place, move nothing."""
    ledger = Ledger()
    ledger.offer()
    ledger.open_epoch()
    assert ledger.decide(recorded(), automatic(), begin(), epoch=1) == []
    assert ledger.decide(recorded(), automatic(), begin(), at=77) == []
    assert len(ledger.decide(recorded(), automatic(), begin())) == 1


def test_one_start_is_acted_on_once() -> None:
    """The same attempt of the same action is never assigned twice to one incarnation."""
    ledger = Ledger()
    assigned(ledger)
    assert ledger.decide(begin()) == []


def test_nothing_is_acted_on_before_everything_old_was_read() -> None:
    """An incarnation that has not caught up cannot know that a start still counts."""
    ledger = Ledger()
    ledger.assignments._places[0].is_current = False
    assert ledger.assignments.offer(0, SENT_MONO_MS, valid_ms=1) is None
    ledger.assignments._places[0].sent[1] = assignments._Sent(SENT_MONO_MS)
    assert ledger.decide(recorded(), automatic(), begin()) == []


def test_a_start_for_an_offer_that_it_never_made_is_left_to_lapse() -> None:
    """Without the moment of sending no lease can be counted."""
    ledger = Ledger()
    ledger.offer()
    assert ledger.decide(recorded(), automatic(), begin(offer_sequence=7)) == []
    assert ledger.offer().slots == 3


def test_a_later_start_points_to_where_the_request_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that was read before its start is still at hand; one that is not kept any more has
    to be read again at its place.
    """
    ledger = Ledger()
    ledger.decide(recorded(), automatic(), marked=True)
    ledger.offer()
    (assignment,) = ledger.decide(begin())
    assert assignment.start.intent_offset == 2
    assert assignment.intent is not None
    assert check(assignment, 0) is None

    monkeypatch.setattr(assignments, "RECORDS_KEPT_MAX", 1)
    late = Ledger()
    late.decide(recorded(), automatic())
    late.offer()
    (assignment,) = late.decide(begin())
    assert assignment.intent is None


def test_a_start_of_an_offer_that_is_forgotten_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was this incarnation's own, so nobody else acts on it: its slot counts until then."""
    monkeypatch.setattr(assignments, "OFFERS_UNSPENT_MAX", 1)
    ledger = Ledger(slots=3)
    ledger.offer()
    ledger.offer()
    (assignment,) = ledger.decide(recorded(), automatic(), begin(offer_sequence=1))
    assert check(assignment, 0) == "lease_over"
    assert ledger.offer().slots == 2
    ledger.assignments.ended(assignment)
    assert ledger.offer().slots == 3


# --- until when --------------------------------------------------------------------------------


def check(assignment: Assignment, after_ms: int, **changes: object) -> str | None:
    """The last check, so long after the offer was sent."""
    asked = request(EMAIL if assignment.start.action == EMAIL else CHARGE)
    asked = asked.model_copy(update=changes)
    return objection(assignment, asked, SENT_MONO_MS + after_ms, margin_ms=MARGIN_MS)


def test_the_holder_sends_only_what_was_recorded() -> None:
    """Another request than the one that was hashed is not sent."""
    assignment = assigned(Ledger())
    assert check(assignment, 0) is None
    assert check(assignment, 0, target="order:B-7") == "request_hash_differs"
    assert check(assignment, 0, params={"text": "more"}) == "request_hash_differs"


def test_the_call_must_begin_before_its_deadline() -> None:
    """The deadline of the call, counted from the offer."""
    assignment = assigned(Ledger())
    assert check(assignment, CALL_MS - 1) is None
    assert check(assignment, CALL_MS) == "deadline_over"


def test_the_lease_ends_a_margin_early() -> None:
    """The holder stops before the ledger believes that it has."""
    assignment = assigned(Ledger())
    assert check(assignment, LEASE_MS - MARGIN_MS - 1) == "deadline_over"
    assert check(assignment, LEASE_MS - MARGIN_MS) == "lease_over"


def test_a_call_does_not_begin_behind_the_key_window() -> None:
    """Where the window closes before anything else it is the window that counts."""
    ledger = Ledger()
    ledger.offer()
    closing = begin(key_expires_at=T0 + 300)
    (assignment,) = ledger.decide(recorded(), automatic(), closing)
    assert check(assignment, 299) is None
    assert check(assignment, 300) == "key_window_closed"
    keyless = assigned(Ledger(), EMAIL)
    assert check(keyless, CALL_MS - 1) is None
    assert KEY_WINDOW_MS - KEY_MARGIN_MS > LEASE_MS


def test_a_late_start_shortens_the_lease_and_never_lengthens_it() -> None:
    """The time between offer and start is the ledger's: the holder's clock began at the offer."""
    ledger = Ledger()
    ledger.offer()
    late = begin(offered_at=T0, lease_until=T0 + 700 + LEASE_MS, deadline_at=T0 + 700 + CALL_MS)
    (assignment,) = ledger.decide(recorded(), automatic(), late)
    assert assignment.until(late.deadline_at) == SENT_MONO_MS + 700 + CALL_MS
    assert check(assignment, 700 + CALL_MS - 1) is None


# --- offering ----------------------------------------------------------------------------------


def test_an_offer_tells_what_is_free_and_up_to_where_was_read() -> None:
    """Starts that the ledger made meanwhile count against it by that offset."""
    ledger = Ledger(slots=3)
    first = ledger.offer()
    assert (first.incarnation, first.sequence, first.slots, first.seen_offset) == (ME, 1, 3, 1)
    (assignment,) = ledger.decide(recorded(), automatic(), begin())
    second = ledger.offer()
    assert (second.sequence, second.slots, second.seen_offset) == (2, 2, 2)
    ledger.assignments.ended(assignment)
    assert ledger.offer().slots == 3


def test_a_new_offer_is_wanted_when_the_ledger_knows_of_less_than_half() -> None:
    """Not while what was offered still stands or is at work; as soon as slots are free again that
    the ledger does not know of.
    """
    ledger = Ledger(slots=4)
    assert ledger.assignments.wants_to_offer(0)
    ledger.offer()
    held = []
    for number in range(1, 5):
        assert not ledger.assignments.wants_to_offer(0), number
        key = f"{PAYOUT}#{number}"
        start = begin(PAYOUT, action=key)
        held += ledger.decide(recorded(PAYOUT).model_copy(update={"action": key}), start)
    assert not ledger.assignments.wants_to_offer(0)
    ledger.assignments.ended(held[0])
    assert ledger.assignments.wants_to_offer(0)


def test_less_is_offered_while_calls_wait_here_and_more_is_taken_back() -> None:
    """What the ledger may start shrinks as soon as it is more than twice what should be."""
    ledger = Ledger(slots=8)
    assert ledger.offer().slots == 8
    ledger.assignments.limit(5)
    assert not ledger.assignments.wants_to_offer(0)
    ledger.assignments.limit(1)
    assert ledger.assignments.wants_to_offer(0)
    assert ledger.offer().slots == 1
    ledger.assignments.limit(0)
    assert ledger.assignments.wants_to_offer(0)
    assert ledger.offer().slots == 0
    assert not ledger.assignments.wants_to_offer(0)
    ledger.assignments.limit(None)
    assert ledger.assignments.wants_to_offer(0)
    assert ledger.offer().slots == 8


def test_who_stops_takes_its_offers_back() -> None:
    """The last offer has no slots."""
    ledger = Ledger()
    ledger.offer()
    ledger.assignments.withdraw()
    assert ledger.offer().slots == 0
    assert not ledger.assignments.wants_to_offer(0)


def test_what_it_says_bears_the_marks_of_the_start() -> None:
    """Report and decline name attempt, token and holder as the start did."""
    assignment = assigned(Ledger())
    said = assignment.report(i.NoAnswer(code="timeout"))
    assert (said.key, said.attempt, said.fencing_token, said.holder) == (CHARGE, 1, 1, ME)
    back = assignment.decline("lease_over")
    assert (back.key, back.attempt, back.fencing_token, back.holder) == (CHARGE, 1, 1, ME)
