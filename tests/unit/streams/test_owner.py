"""The owner of a partition between appends: its log time, its ticks, the offers it remembers."""

from collections.abc import Sequence

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import catalogue_hash
from ledger.core.invariants import invariant
from ledger.core.records import Decision
from ledger.core.state import Status, Stream
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing, read_input
from ledger.log.fold import fold_decision
from ledger.log.port import Appended, Outgoing, Record
from streams import deciding, owner
from streams.offers import OfferBook
from streams.owner import FAULT_PAUSE_MS, Owner
from tests.examples import CATALOGUE_TEXT, T0, propose
from tests.ledgers import GENERATION, LedgerBuilder

SECONDS = 1_000


class Run:
    """One owner of the only partition, and the appends it makes, each acknowledged at once."""

    def __init__(self, history: Sequence[Record] | None = None) -> None:
        self.owner = Owner(0, 1, GENERATION, "nonce")
        self.mono_ms = 0
        self._offsets: dict[str, int] = {}
        for record in LedgerBuilder().records() if history is None else history:
            self.owner.feed(record)
        self.owner.barrier()
        self.owner.opened(Appended(self.owner.fold.next_offset, T0), self.mono_ms)

    def record(
        self, given: Wire, *, topic: str = "intents", stream: str = "acme/e", at: int = T0
    ) -> Record:
        """An input as it is read from its inbox."""
        sent = outgoing(given, stream=stream, subject=None, event_id="e", source="/tests")
        return self.read(sent, topic=topic, at=at)

    def read(self, sent: Outgoing, *, topic: str, at: int = T0) -> Record:
        """A record as it is read back."""
        offset = self._offsets.get(topic, self.owner.position(topic))
        self._offsets[topic] = offset + 1
        return Record(topic, 0, offset, at, sent.key, sent.value, sent.headers)

    def decide(self, *records: Record, took_ms: int = 0, at: int | None = None) -> list[Decision]:
        """Decide and append; the acknowledgement takes `took_ms` and brings the time `at`."""
        batch = self.owner.take(records, self.mono_ms)
        self.mono_ms += took_ms
        appended = [
            Appended(batch.first_at + place, batch.decided_at if at is None else at)
            for place in range(len(batch.records))
        ]
        self.owner.landed(batch, appended, self.mono_ms)
        return batch.read

    def offered(
        self, slots: int, *, sequence: int = 1, at: int = T0, valid_ms: int = 60_000
    ) -> None:
        """One executor offers slots for charges."""
        given = i.Offered(
            incarnation="holder",
            sequence=sequence,
            operations=("charge",),
            slots=slots,
            seen_offset=self.owner.fold.next_offset - 1,
            valid_ms=valid_ms,
        )
        self.owner.offered(self.record(given, topic="offers", at=at))


def charge(number: int) -> i.Propose:
    """One of many charges, each of an event of its own."""
    return propose(f"charge:v1:acme:e{number}")


def waiting(run: Run, count: int) -> None:
    """So many actions that wait for capacity."""
    records = [run.record(charge(number), stream=f"acme/e{number}") for number in range(count)]
    run.decide(*records)


def test_log_time_stays_between_what_the_broker_said_and_what_has_passed_since() -> None:
    """A clock that runs fast here is brought back by the next append; an old time that comes with a
    late acknowledgement does not bring it back, nor make inputs seem to come from the future.
    """
    run = Run()
    run.mono_ms = 100 * SECONDS
    assert run.owner.running_at(run.mono_ms) == T0 + 100 * SECONDS
    run.decide(run.record(charge(1), stream="acme/e1"), took_ms=2, at=T0 + 97 * SECONDS)
    assert run.owner.running_at(run.mono_ms) == T0 + 97 * SECONDS + 2
    run.decide(run.record(charge(2), stream="acme/e2"), took_ms=9 * SECONDS, at=T0 + 97 * SECONDS)
    assert run.owner.running_at(run.mono_ms) == T0 + 106 * SECONDS


def test_clocks_that_were_set_back_start_nothing_until_they_are_there_again_and_are_told() -> None:
    """All clocks were a day ahead, and are set right: what is decided keeps the time of before,
    nothing is started by an offer of now, and the owner says how far it is ahead.
    """
    day = 86_400 * SECONDS
    run = Run()
    assert run.owner.ahead_ms(run.mono_ms) == 0
    run.decide(run.record(charge(1), stream="acme/e1", at=T0 + day))
    assert run.owner.ahead_ms(run.mono_ms) == 0
    run.mono_ms += SECONDS
    run.offered(3, at=T0)
    (decided,) = run.decide(run.record(charge(2), stream="acme/e2", at=T0), at=T0)
    assert decided.decided_at == T0 + day
    assert run.owner.memory.stream("acme/e2").actions[0].status is Status.READY
    assert run.owner.ahead_ms(run.mono_ms) == day
    run.mono_ms += day
    run.offered(3, sequence=2, at=T0 + day)
    (decided,) = run.decide(run.record(charge(3), stream="acme/e3", at=T0 + day))
    assert run.owner.memory.stream("acme/e3").actions[0].status is Status.ATTEMPTING
    assert run.owner.ahead_ms(run.mono_ms) == 0


def test_an_overtaken_owner_folds_what_was_decided_in_an_earlier_time() -> None:
    """A broker's clock steps back between two epochs: what the next owner decides in its time is
    no broken rule for the one before, which knows its barrier's time and nobody else does.
    """
    history = LedgerBuilder().records()
    before, after = (Owner(0, 1, GENERATION, nonce) for nonce in ("before", "after"))
    for record in history:
        before.feed(record)
        after.feed(record)
    barrier = before.barrier()
    before.opened(Appended(len(history), T0 + 200), 0)
    after.feed(Record("ledger", 0, len(history), T0 + 200, *barrier))
    next_barrier = after.barrier()
    after.opened(Appended(len(history) + 1, T0), 0)
    sent = outgoing(charge(1), stream="acme/e1", subject=None, event_id="e", source="/tests")
    batch = after.take([Record("intents", 0, after.position("intents"), T0, *sent)], 0)
    before.feed(Record("ledger", 0, len(history) + 1, T0, *next_barrier))
    (decided,) = (
        before.feed(Record("ledger", 0, batch.first_at + place, T0, *written))
        for place, written in enumerate(batch.records)
    )
    assert isinstance(decided, Decision)
    assert decided.decided_at < T0 + 200
    assert before.fold.epoch == after.fold.epoch


def test_no_more_ticks_than_there_are_slots() -> None:
    """A thousand actions wait and three slots come: three are ticked, not all of them, and no other
    before those are decided.
    """
    run = Run()
    waiting(run, 1_000)
    assert run.owner.ticks(run.mono_ms) == []
    run.offered(3)
    ticks = run.owner.ticks(run.mono_ms)
    assert len(ticks) == 3
    assert run.owner.ticks(run.mono_ms) == []
    run.decide(*(run.read(tick, topic="internal") for tick in ticks))
    statuses = [stream.actions[0].status for stream in run.owner.memory]
    assert statuses.count(Status.ATTEMPTING) == 3
    assert run.owner.ticks(run.mono_ms) == []
    run.offered(5, sequence=2)
    again = [
        read_input(run.read(tick, topic="x")._replace(topic="internal"))
        for tick in run.owner.ticks(run.mono_ms)
    ]
    assert len(again) == 5


def test_what_has_lapsed_is_forgotten_when_something_new_is_offered() -> None:
    """Incarnations come and go; looking for capacity does not get slower with each that went."""
    book = OfferBook()
    for number in range(100):
        given = i.Offered(
            incarnation=f"holder-{number}",
            sequence=1,
            operations=("charge",),
            slots=2,
            seen_offset=0,
            valid_ms=1_000,
        )
        book.offered(given, T0 + number * 2_000)
    assert len(book._standing) == 1
    assert book.slots_left(T0 + 99 * 2_000) == 2
    assert book.slots_left(T0 + 200 * 2_000) == 0


def test_a_stream_in_which_we_fail_is_tried_again_later_and_not_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A tick that meets a fault of ours is set aside; the next one comes ten minutes later, while
    all others go on.
    """
    run = Run()
    waiting(run, 2)
    run.offered(1)
    (tick,) = run.owner.ticks(run.mono_ms)
    monkeypatch.setattr(deciding, "decide", _fail)
    (read,) = run.decide(run.read(tick, topic="internal"))
    assert read.quarantined is not None
    assert read.quarantined.reason == "fault_in_decide"
    monkeypatch.undo()
    (other,) = run.owner.ticks(run.mono_ms)
    assert other.key != tick.key
    run.decide(run.read(other, topic="internal"))
    run.offered(2, sequence=2)
    assert run.owner.ticks(run.mono_ms) == []
    run.mono_ms += FAULT_PAUSE_MS
    run.offered(2, sequence=3, at=T0 + FAULT_PAUSE_MS)
    assert tick.key in {again.key for again in run.owner.ticks(run.mono_ms)}


def _fail(*_: object) -> None:
    raise ZeroDivisionError


def test_a_decision_that_cannot_be_folded_is_set_aside_and_nothing_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its input gets a small answer, with the same place; the next input is decided."""
    run = Run()
    real = fold_decision

    def fold(stream: Stream, decision: Decision) -> Stream:
        invariant(decision.stream != "acme/e1", "a fault of ours")
        return real(stream, decision)

    monkeypatch.setattr(owner, "fold_decision", fold)
    first = run.record(charge(1), stream="acme/e1")
    second = run.record(charge(2), stream="acme/e2")
    bad, good = run.decide(first, second)
    assert bad.quarantined is not None
    assert bad.quarantined.reason == "fault_in_fold"
    assert bad.facts == ()
    assert good.facts


def test_a_tick_of_another_installation_is_set_aside() -> None:
    """`internal` has no genesis record, so each of its records says where it belongs."""
    run = Run()
    waiting(run, 1)
    foreign = i.Tick(stream="acme/e0", generation="another", due_at=T0)
    (read,) = run.decide(run.record(foreign, topic="internal", stream="acme/e0"))
    assert read.quarantined is not None
    assert read.quarantined.reason == "foreign_generation"
    run.offered(1)
    assert len(run.owner.ticks(run.mono_ms)) == 1


def test_who_waits_is_served_before_who_comes_now() -> None:
    """A slot for which a tick is on its way is not given to a new intent that overtakes it."""
    run = Run()
    waiting(run, 1)
    run.offered(1)
    (tick,) = run.owner.ticks(run.mono_ms)
    run.decide(run.record(charge(7), stream="acme/e7"))
    assert run.owner.memory.stream("acme/e7").actions[0].status is Status.READY
    run.decide(run.read(tick, topic="internal"))
    assert run.owner.memory.stream("acme/e0").actions[0].status is Status.ATTEMPTING
    run.offered(2, sequence=2)
    run.decide(run.record(charge(8), stream="acme/e8"))
    assert run.owner.memory.stream("acme/e8").actions[0].status is Status.ATTEMPTING


def test_a_withdrawn_operation_makes_what_waits_for_it_due_at_once() -> None:
    """No capacity will ever come for it: it goes to a person when the catalogue is adopted, and not
    at its deadline.
    """
    run = Run()
    waiting(run, 1)
    assert run.owner.ticks(run.mono_ms) == []
    name = 'name = "charge"'
    text = CATALOGUE_TEXT.replace(name, 'name = "levy"')
    publish = i.Publish(kind="catalogue", content=text, content_hash=catalogue_hash(text))
    (adopted,) = run.decide(run.record(publish, topic="config", stream="catalogue"))
    assert adopted.adopted is not None
    run.mono_ms += owner.ADOPTION_SPREAD_MS
    (tick,) = run.owner.ticks(run.mono_ms)
    (read,) = run.decide(run.read(tick, topic="internal"))
    assert [fact.type for fact in read.facts] == ["review.opened"]
    assert run.owner.ticks(run.mono_ms) == []
