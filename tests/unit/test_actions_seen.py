"""What a client tells of actions from the log alone: no success that the ledger may not record."""

import pytest

from ledger.client import progress
from ledger.client.progress import ActionsSeen, Progress
from ledger.core import inputs as i
from ledger.core.money import Money
from ledger.log.envelope import outgoing
from ledger.log.fold import Begin
from ledger.log.port import Record
from tests.examples import (
    CHARGE,
    HOLDER,
    REFERENCE,
    STREAM,
    propose,
    report,
    request,
    success,
    tick,
)
from tests.examples import found_out as evidence
from tests.ledgers import ASKED, LedgerBuilder

LONG_MS = 3_600_000


class Follower:
    """A client's view of the ledger that a test builds, record by record."""

    def __init__(self) -> None:
        self.ledger = LedgerBuilder()
        self.seen = ActionsSeen(1, {})

    def take(self, given: i.Decidable, *, later_ms: int = 0, executor: str | None = HOLDER) -> None:
        """The ledger decides an input, and the client reads it."""
        self.ledger.take(given, later_ms=later_ms, executor=executor)
        self.catch_up()

    def catch_up(self) -> None:
        """Read what is there."""
        for record in self.ledger.records()[self.seen.next_offset(0) :]:
            self.seen.feed(record)

    def hear(self, given: i.Report, *, key: bytes | None = None, partition: int = 0) -> str | None:
        """A report is durable and not decided."""
        sent = outgoing(given, stream=STREAM, subject=None, event_id="r", source="/tests")
        record = Record("attempts", partition, 1, 0, key or sent.key, sent.value, sent.headers)
        return self.seen.hear(record)

    @property
    def progress(self) -> Progress:
        """How the charge stands."""
        found = self.seen.progress_of(CHARGE)
        assert found is not None
        return found


@pytest.fixture
def charged() -> Follower:
    """A charge whose attempt is at work."""
    follower = Follower()
    follower.take(propose())
    assert follower.progress.status == "attempting"
    return follower


def test_a_success_is_told_when_its_report_is_durable_and_stays_told(charged: Follower) -> None:
    """Earlier than the ledger, under the version that comes next, and never taken back."""
    before = charged.progress
    assert charged.hear(report(success())) == CHARGE
    early = charged.progress
    assert (early.status, early.reference, early.proof) == ("completed", REFERENCE, "report")
    assert early.version == before.version + 1
    assert early.is_early
    charged.take(report(success()))
    assert charged.progress.status == "completed"
    assert charged.progress.version > early.version
    assert not charged.progress.is_early


def test_a_success_stays_told_when_the_lease_lapses_before_the_ledger_comes_to_it(
    charged: Follower,
) -> None:
    """The attempt is then unresolved and still open: its report will complete the action."""
    charged.hear(report(success()))
    charged.take(tick(), later_ms=LONG_MS)
    assert charged.progress.status == "completed"
    charged.take(report(success()))
    assert charged.progress.status == "completed"


@pytest.mark.parametrize(
    "given",
    [
        report(success(), token=7),
        report(success(), holder="somebody-else"),
        report(success(), attempt=2),
        report(success(), attempt=0),
        report(success(), key="charge:v1:acme:other"),
        report(success(), key="no-key-at-all"),
        report(i.NoAnswer(code="timeout")),
    ],
)
def test_nobody_else_can_prove_anything(charged: Follower, given: i.Report) -> None:
    """Only the holder of the attempt speaks for it; a report with a malformed key stops nobody."""
    assert charged.hear(given) is None
    assert charged.progress.status == "attempting"


def test_a_report_that_its_owner_will_not_take_is_not_believed(
    charged: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under another record key it is misrouted, and a huge one may be too large to decide."""
    assert charged.hear(report(success()), key=b"acme/other") is None
    monkeypatch.setattr(progress, "EARLY_BYTES_MAX", 100)
    assert charged.hear(report(success())) is None
    assert charged.progress.status == "attempting"


def test_where_evidence_disagrees_no_report_completes_anything(charged: Follower) -> None:
    """The ledger hands such an action to a person, whatever is reported after."""
    differs = evidence(i.Meaning.EFFECT, lookup=None, money=Money(minor=1, currency="EUR"))
    charged.take(differs)
    assert charged.progress.status == "needs_review"
    charged.hear(report(success()))
    assert charged.progress.status == "needs_review"


def test_an_action_whose_intent_was_not_seen_is_not_known() -> None:
    """From the middle of the ledger on only what begins there is known; the rest is for others."""
    follower = Follower()
    follower.ledger.take(propose())
    follower.seen = ActionsSeen(1, {0: Begin(len(follower.ledger.records()), 1)})
    follower.take(report(success()))
    assert follower.seen.progress_of(CHARGE) is None
    assert follower.hear(report(success())) is None


def test_what_nobody_waits_for_is_read_when_somebody_asks() -> None:
    """Records kept unread say the same as those that were read at once, void ones nothing."""
    eager, lazy = Follower(), Follower()
    for follower in (eager, lazy):
        follower.ledger.take(propose())
        follower.ledger.void()
        follower.ledger.take(report(success()))
        follower.ledger.open_epoch()
    for record in eager.ledger.records():
        eager.seen.feed(record)
    for record in lazy.ledger.records():
        lazy.seen.feed_later(record)
    assert lazy.seen.next_offset(0) == eager.seen.next_offset(0)
    assert lazy.progress == eager.progress
    assert lazy.progress.status == "completed"


def test_a_stream_that_is_asked_for_in_between_misses_nothing(charged: Follower) -> None:
    """What was kept unread comes before what is read now."""
    charged.ledger.take(tick(), later_ms=LONG_MS)
    (lapsed,) = charged.ledger.records()[charged.seen.next_offset(0) :]
    charged.seen.feed_later(lapsed)
    charged.take(report(success()))
    assert charged.progress.status == "completed"


def test_a_stream_whose_records_are_forgotten_is_not_known(
    charged: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was folded of it would be an old state; the read model has the new one."""
    monkeypatch.setattr(progress, "STREAMS_REMEMBERED_MAX", 0)
    charged.ledger.take(tick(), later_ms=LONG_MS)
    (lapsed,) = charged.ledger.records()[charged.seen.next_offset(0) :]
    charged.seen.feed_later(lapsed)
    assert charged.seen.progress_of(CHARGE) is None


def test_a_start_is_told_to_the_one_call_that_it_names_while_it_may_act() -> None:
    """Asked again with the same nonce it is the same start; another call has none, and after the
    lease has lapsed nobody has.
    """
    follower = Follower()
    follower.take(propose(), executor="caller:5f3a")
    start = follower.seen.caller_start(CHARGE, "5f3a")
    assert start is not None
    assert start.holder == "caller:5f3a"
    assert follower.seen.caller_start(CHARGE, "77b1") is None
    follower.take(tick(), later_ms=LONG_MS)
    assert follower.seen.caller_start(CHARGE, "5f3a") is None


def test_a_start_ends_for_a_client_that_never_saw_its_intent() -> None:
    """A client that began to read in between hands out no start on which somebody has acted."""
    follower = Follower()
    follower.take(propose(), executor=None)
    late = ActionsSeen(1, {0: Begin(follower.seen.next_offset(0), 1)})
    follower.take(tick(), executor="caller:5f3a")
    (started,) = follower.ledger.records()[late.next_offset(0) :]
    late.feed(started)
    assert late.caller_start(CHARGE, "5f3a") is not None
    follower.take(tick(), later_ms=LONG_MS)
    (lapsed,) = follower.ledger.records()[late.next_offset(0) :]
    late.feed(lapsed)
    assert late.caller_start(CHARGE, "5f3a") is None


def gated() -> LedgerBuilder:
    """Two charges of one target in runs of their own, the first of which is at work."""
    ledger = LedgerBuilder(config=ASKED)
    for event, name in (("renewal-1", "r1"), ("renewal-2", "r2")):
        given = propose(f"charge:v1:acme:{event}")
        ledger.take(given.model_copy(update={"run": name}), executor=None)
        ledger.deliver(executor=None)
    return ledger


def test_whom_an_action_waits_for_is_told() -> None:
    """The other action, as the log says; and which gates have not answered before."""
    ledger = LedgerBuilder(config=ASKED)
    ledger.take(propose().model_copy(update={"run": "r1"}), executor=None)
    early = ActionsSeen(1, {})
    for record in ledger.records():
        early.feed(record)
    asked = early.progress_of(CHARGE)
    assert asked is not None
    assert (asked.status, asked.blocking) == ("blocked", None)
    assert set(asked.gates) == {one.gate for one in ledger.streams[STREAM].actions[0].claims}
    late = ActionsSeen(1, {})
    for record in gated().records():
        late.feed(record)
    waits = late.progress_of("charge:v1:acme:renewal-2")
    assert waits is not None
    assert waits.blocking is not None
    assert (waits.blocking.by, waits.gates) == (CHARGE, ())


def test_what_gates_decide_is_not_kept_for_later() -> None:
    """A window takes in every action of a day: nobody asks for it here, and it would only grow."""
    ledger = gated()
    lazy = ActionsSeen(1, {})
    for record in ledger.records():
        lazy.feed_later(record)
    assert lazy.next_offset(0) == len(ledger.records())
    assert {key for key in lazy._unread if ":" in key} == set()
    waits = lazy.progress_of("charge:v1:acme:renewal-2")
    assert waits is not None
    assert waits.status == "blocked"


def test_streams_are_forgotten_by_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long intents are bounded as many are: whole streams go, those that nothing came to for
    longest first, and what is still told is as it stands.
    """
    ledger = LedgerBuilder()
    keys = [f"charge:v1:acme:e{number}" for number in range(6)]
    for key in keys:
        ledger.take(propose(key, request=request(key, text="x" * 9_000)))
    ledger.take(report(success(), key=keys[3]))
    monkeypatch.setattr(progress, "STREAMS_REMEMBERED_BYTES_MAX", 40_000)
    at_once, later = ActionsSeen(1, {}), ActionsSeen(1, {})
    for record in ledger.records():
        at_once.feed(record)
        later.feed_later(record)
    for follower in (at_once, later):
        told = [follower.progress_of(key) for key in keys]
        assert told[:3] == [None, None, None]
        assert [one and one.status for one in told[3:]] == ["completed", "attempting", "attempting"]


def test_successes_that_nobody_decides_are_forgotten_by_what_they_take(
    charged: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was heard again counts once; one that is forgotten is told by the ledger."""
    sent = report(i.Success(reference=REFERENCE, result={"text": "x" * 5_000}))
    monkeypatch.setattr(progress, "SUCCESSES_REMEMBERED_BYTES_MAX", 9_000)
    for _ in range(3):
        assert charged.hear(sent) == CHARGE
    assert charged.progress.status == "completed"
    monkeypatch.setattr(progress, "SUCCESSES_REMEMBERED_BYTES_MAX", 4_000)
    charged.hear(sent)
    assert charged.progress.status == "attempting"
    charged.take(sent)
    assert charged.progress.status == "completed"
