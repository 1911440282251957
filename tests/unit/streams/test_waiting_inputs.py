"""Inputs that wait for their stream, and what goes on beside them."""

import pytest

from ledger.core import inputs as i
from ledger.core.rejections import Rejection
from ledger.core.state import Stream
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.fold import Held
from projections.states import ColdStreams
from streams import waiting_inputs as module
from streams.limits import PASSED_OVER_MS, WELL_AGAIN_MS
from streams.owner import Owner
from streams.waiting_inputs import Fullness, WaitingInputs
from tests.examples import T0, propose
from tests.ledgers import GENERATION, LedgerBuilder

HELD, COLD = "acme/held", "acme/cold"


TAKEN = i.GateTaken(gate="acme/run:r", key="charge:v1:acme:cold", round=1, generation=GENERATION)


def never(key: str) -> bool:
    """Every stream will come soon."""
    return False


def always(key: str) -> bool:
    """No stream will come soon."""
    return True


@pytest.fixture
def owner() -> Owner:
    """An owner that began at the end of its ledger, and holds one stream of it."""
    builder, fold = LedgerBuilder(), PartitionFold(0)
    builder.take(propose())
    for one in builder.records():
        fold.feed(one)
    owner = Owner(0, 1, GENERATION, "nonce", checkpoint=fold)
    hold(owner, HELD)
    return owner


def hold(owner: Owner, key: str) -> None:
    """The projection says that nothing came of a stream yet."""
    assert owner.take_in([key], ColdStreams(owner.fold.next_offset, {}))


def record(topic: str, offset: int, key: str, *, partition: int = 0, value: bytes = b"") -> Record:
    """An input of which only its place and its stream matter."""
    return Record(topic, partition, offset, 0, key.encode(), value, ())


def internal(offset: int, said: Wire, stream: str) -> Record:
    """A tick or a message as it is read."""
    sent = outgoing(said, stream=stream, subject=None, event_id="e-1", source="/tests")
    return Record("internal", 0, offset, T0, sent.key, sent.value, sent.headers)


def tick(offset: int, stream: str) -> Record:
    """The time of a stream has come."""
    return internal(offset, i.Tick(stream=stream, generation=GENERATION, due_at=T0), stream)


def places(given: list[Record]) -> list[tuple[str, int]]:
    """Where they lie."""
    return [(one.topic, one.offset) for one in given]


def test_behind_an_input_that_waits_its_inbox_waits_and_others_go_on(owner: Owner) -> None:
    """Within one inbox nothing overtakes; between inboxes there is no order."""
    waiting = WaitingInputs()
    inputs = [
        record("intents", 0, HELD),
        record("intents", 1, COLD),
        record("intents", 2, HELD),
        record("attempts", 0, HELD),
    ]
    assert places(waiting.decidable(owner, inputs)) == [("intents", 0), ("attempts", 0)]
    assert waiting.places() == {("intents", 0)}
    assert places(waiting.first(0)) == [("intents", 1), ("intents", 2)]
    hold(owner, COLD)
    assert places(waiting.decidable(owner, [])) == [("intents", 1), ("intents", 2)]
    assert waiting.places() == set()


def test_what_waits_keeps_its_order_over_rounds(owner: Owner) -> None:
    """What came first comes first, before what comes with its stream."""
    waiting = WaitingInputs()
    assert waiting.decidable(owner, [record("intents", 0, COLD)]) == []
    assert waiting.decidable(owner, [record("intents", 1, HELD)]) == []
    hold(owner, COLD)
    given = waiting.decidable(owner, [record("intents", 2, HELD)])
    assert [one.offset for one in given] == [0, 1, 2]


def test_inboxes_have_their_turn_in_the_order_in_which_they_began_to_wait(owner: Owner) -> None:
    """In every process: texts of a set are in another order in each."""
    waiting = WaitingInputs()
    topics = ["evidence", "intents", "attempts", "approvals"]
    for offset in range(2):
        waiting.decidable(owner, [record(topic, offset, COLD) for topic in topics])
    hold(owner, COLD)
    given = places(waiting.decidable(owner, [record("intents", 2, HELD)]))
    assert given == [*((topic, offset) for topic in topics for offset in range(2)), ("intents", 2)]


def test_a_partition_that_is_read_again_has_nothing_that_waits(owner: Owner) -> None:
    """It comes again from its position, and no tick waits for what came before."""
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("intents", 0, COLD), record("intents", 1, HELD)])
    assert waiting.has_of(0, HELD.encode())
    waiting.forget(0)
    assert waiting.places() == set()
    assert not waiting.has_of(0, HELD.encode())
    waiting.decidable(owner, [record("intents", 0, COLD)])
    waiting.clear()
    assert waiting.places() == set()
    assert not waiting.has_of(0, COLD.encode())


def test_a_tick_is_decided_beside_an_input_that_waits(owner: Owner) -> None:
    """A damaged stream, or a database that is away, holds up no time but that of the streams of
    which something waits: leases and lookups of the whole partition stood still.
    """
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("intents", 0, COLD)])
    assert waiting.decidable_internal(owner, [tick(0, HELD)], never, 0) == [tick(0, HELD)]


def test_a_tick_does_not_overtake_an_answer_that_waits(owner: Owner) -> None:
    """Behind the input that waits lies one about a stream that is held: its tick is passed over,
    what was promised to it is free, and it comes again by itself.
    """
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("attempts", 0, COLD), record("attempts", 1, HELD)])
    owner.ticking.on_their_way.add(HELD)
    assert waiting.decidable_internal(owner, [tick(0, HELD)], never, 0) == []
    assert ("internal", 0) not in waiting.places()
    assert not owner.ticking.on_their_way
    assert owner.next_due_at() == owner.running_at(0) + PASSED_OVER_MS
    hold(owner, COLD)
    assert len(waiting.decidable(owner, [])) == 2
    assert waiting.decidable_internal(owner, [tick(1, HELD)], never, 0) == [tick(1, HELD)]


def test_a_message_waits_for_no_other_inbox(owner: Owner) -> None:
    """It answers nothing that a person or a provider says."""
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("attempts", 0, COLD), record("attempts", 1, HELD)])
    message = internal(0, TAKEN.model_copy(update={"key": "charge:v1:acme:held"}), HELD)
    assert waiting.decidable_internal(owner, [message], never, 0) == [message]


def test_what_is_internal_waits_for_a_stream_only_while_that_is_to_come(owner: Owner) -> None:
    """In order while it may come soon; and holds up nothing once it will not."""
    waiting = WaitingInputs()
    both = [tick(0, COLD), tick(1, HELD)]
    assert waiting.decidable_internal(owner, both, never, 0) == []
    assert waiting.places() == {("internal", 0)}
    assert waiting.decidable_internal(owner, [], always, 0) == [tick(1, HELD)]
    assert waiting.places() == set()
    assert owner.next_due_at() == owner.running_at(0) + PASSED_OVER_MS


def test_what_is_internal_is_decided_in_order_once_its_stream_has_come(owner: Owner) -> None:
    """What came behind it meanwhile comes behind it."""
    waiting = WaitingInputs()
    assert waiting.decidable_internal(owner, [tick(0, COLD)], never, 0) == []
    hold(owner, COLD)
    assert waiting.decidable_internal(owner, [tick(1, HELD)], never, 0) == [
        tick(0, COLD),
        tick(1, HELD),
    ]


LONG = "k" * 2_000
"""A key that no tick could name: whoever made one ended with its process."""
OF_COLD = i.Tick(stream=COLD, generation=GENERATION, due_at=T0)


def garbage(key: str, value: bytes = b"no event") -> Record:
    """What nobody of ours has written."""
    return Record("internal", 0, 0, T0, key.encode(errors="surrogateescape"), value, ())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (garbage(COLD), "not_json"),
        (garbage(LONG), "not_json"),
        (garbage("acme/\udcff"), "not_json"),
        (garbage(COLD, b""), "not_json"),
        (garbage(COLD, internal(0, propose(), COLD).value), "not_an_event_of_this_topic"),
        (internal(0, OF_COLD.model_copy(update={"generation": "g2"}), COLD), "foreign_generation"),
        (internal(0, OF_COLD.model_copy(update={"stream": "cold"}), COLD), "malformed_stream"),
        (internal(0, TAKEN.model_copy(update={"gate": COLD}), COLD), "malformed_stream"),
        (internal(0, TAKEN.model_copy(update={"key": "no key"}), COLD), "malformed_stream"),
    ],
)
def test_what_is_internal_and_no_tick_is_set_aside_whatever_waits(
    owner: Owner, given: Record, reason: str
) -> None:
    """It was taken for a tick where an input of its key waits, or where that stream is not to be
    had, and was gone without a trace.
    """
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("intents", 0, COLD), Record(*given)._replace(topic="intents")])
    assert waiting.decidable_internal(owner, [given], always, 0) == [given]
    assert waiting.decidable_internal(owner, [given], never, 0) == [given]
    batch = owner.take([given], 0)
    assert [read.quarantined is not None and read.quarantined.reason for read in batch.read] == [
        reason
    ]
    assert len(batch.quarantine) == 1
    assert owner.next_due_at() is None


def test_a_tick_under_the_key_of_another_stream_is_refused_and_not_passed_over(
    owner: Owner,
) -> None:
    """It is no tick of that stream."""
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("intents", 0, COLD)])
    strange = internal(0, OF_COLD.model_copy(update={"stream": HELD}), COLD)
    assert waiting.decidable_internal(owner, [strange], always, 0) == [strange]
    (read,) = owner.take([strange], 0).read
    assert read.refused is not None
    assert read.refused.code is Rejection.MISROUTED


@pytest.mark.parametrize(("bound", "most"), [("WAITING_INPUTS_MAX", 3), ("WAITING_BYTES_MAX", 57)])
def test_no_more_is_read_than_there_is_room_for(
    owner: Owner, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """In number and in bytes, over all partitions; there is room again when some were decided."""
    monkeypatch.setattr(module, bound, most)
    waiting = WaitingInputs()
    given = [record("intents", 0, COLD, value=b"0123456789")]
    given += [record("intents", offset, HELD, value=b"0123456789") for offset in (1, 2)]
    waiting.decidable(owner, given[:2])
    assert waiting.places_full() == set()
    waiting.decidable(owner, given[2:])
    assert waiting.places_full() == {("intents", 0)}
    hold(owner, COLD)
    assert waiting.decidable(owner, []) == given
    assert waiting.places_full() == set()


def test_a_long_queue_has_its_turn_a_part_at_a_time(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is behind that part waits, and so do the ticks of its streams."""
    monkeypatch.setattr(module, "WAITING_TRIED_MAX", 2)
    waiting = WaitingInputs()
    waiting.decidable(owner, [record("intents", offset, COLD) for offset in range(3)])
    assert len(waiting.first(0)) == 2
    hold(owner, COLD)
    assert [one.offset for one in waiting.decidable(owner, [])] == [0, 1]
    assert waiting.has_of(0, COLD.encode())
    fresh = [record("intents", 3, COLD)]
    assert [one.offset for one in waiting.decidable(owner, fresh)] == [2, 3]


def test_keys_and_headers_take_room_as_well(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value is the least of what somebody sends who sends anything; what waits in `internal` is
    counted as all else.
    """
    monkeypatch.setattr(module, "WAITING_BYTES_MAX", 2_000)
    for large in (
        tick(0, COLD)._replace(headers=(("h", b"x" * 2_000),)),
        record("intents", 0, COLD)._replace(headers=(("x" * 2_000, b""),)),
        record("intents", 0, LONG),
    ):
        waiting = WaitingInputs()
        if large.topic == "internal":
            waiting.decidable_internal(owner, [large], never, 0)
        else:
            waiting.decidable(owner, [record("intents", 0, COLD), large])
        assert waiting.places_full() == {(large.topic, 0)}
        waiting.forget(0)
        assert waiting._bytes == 0


def test_where_an_inbox_is_not_read_on_ticks_are_put_off_and_messages_are_not(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick would wait for what is not read, and whatever comes behind it; what actions and gates
    say to each other waited with it. It comes again as soon as time goes on.
    """
    monkeypatch.setattr(module, "WAITING_INPUTS_MAX", 2)
    waiting = WaitingInputs()
    message = internal(1, TAKEN, COLD)
    came = [tick(0, HELD), message, garbage(HELD)]
    waiting.decidable(owner, [record("attempts", 0, COLD)])
    assert not waiting.stands_still(0)
    waiting.decidable(owner, [record("attempts", 1, HELD)])
    assert waiting.stands_still(0)
    assert not waiting.stands_still(1)
    owner.ticking.on_their_way.add(HELD)
    assert waiting.without_ticks(owner, came, 0) == [message, garbage(HELD)]
    assert not owner.ticking.on_their_way
    assert owner.next_due_at() == owner.running_at(0)
    hold(owner, COLD)
    waiting.decidable(owner, [])
    assert not waiting.stands_still(0)


def test_time_goes_on_where_only_internal_is_not_read_on(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds no answer to a timer."""
    monkeypatch.setattr(module, "WAITING_INPUTS_MAX", 1)
    waiting = WaitingInputs()
    waiting.decidable_internal(owner, [tick(0, COLD)], never, 0)
    assert waiting.places_full() == {("internal", 0)}
    assert not waiting.stands_still(0)


def test_a_tick_that_is_passed_over_comes_again_ever_later_until_its_stream_is_there(
    owner: Owner,
) -> None:
    """Each is a record of the log: a tick in five seconds for every stream that is out of reach
    was a thousand in a second.
    """
    waiting, pauses, now = WaitingInputs(), [], owner.running_at(0)
    for offset in range(6):
        assert waiting.decidable_internal(owner, [tick(offset, COLD)], always, 0) == []
        due_at = owner.next_due_at()
        assert due_at is not None
        pauses.append(due_at - now)
    assert pauses == [5_000, 10_000, 20_000, 40_000, 60_000, 60_000]
    held = {COLD: Held(Stream(COLD), owner.fold.next_offset)}
    assert owner.take_in([COLD], ColdStreams(owner.fold.next_offset, held))
    waiting.decidable(owner, [record("intents", 0, "acme/other"), record("intents", 1, COLD)])
    assert waiting.decidable_internal(owner, [tick(6, COLD)], always, 0) == []
    assert owner.next_due_at() == now + PASSED_OVER_MS


def test_that_too_much_waits_is_told_once_until_there_was_room_for_a_while() -> None:
    """What fills and empties every few seconds is one trouble; what comes back later is another."""
    fullness, full = Fullness(), {("intents", 0)}
    told = [fullness.begins(full if at % 2 == 0 else (), at) for at in range(4)]
    assert told == [True, False, False, False]
    assert not fullness.begins(full, WELL_AGAIN_MS)
    assert not fullness.begins(full, 2 * WELL_AGAIN_MS), "it was full all the while"
    assert not fullness.begins((), 3 * WELL_AGAIN_MS + 1)
    assert fullness.begins(full, 3 * WELL_AGAIN_MS + 1)
