"""An owner that meets a fault of ours inside a decision: it goes on, and does not run wild."""

import pytest

from ledger.core import inputs as i
from ledger.core.decide import Decided, decide
from ledger.core.records import Decision
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing, Record
from streams import deciding
from streams.owner import Owner
from tests.examples import STEP_MS, STREAM, T0, cancel, propose
from tests.ledgers import GENERATION, LedgerBuilder

real_decide = decide


class Run:
    """One owner of the only partition; what it appends lands at once."""

    def __init__(self) -> None:
        self.owner = Owner(0, 1, GENERATION, "nonce")
        for record in LedgerBuilder().records():
            self.owner.feed(record)
        self.owner.barrier()
        self.owner.opened(Appended(self.owner.fold.next_offset, T0), 0)
        self._ends: dict[str, int] = {}

    def decides(self, topic: str, sent: Outgoing, *, at: int = 0) -> Decision:
        """Decide one input and take over what landed."""
        offset = self._ends.get(topic, self.owner.position(topic))
        self._ends[topic] = offset + 1
        record = Record(topic, 0, offset, T0 + at, sent.key, sent.value, sent.headers)
        batch = self.owner.take([record], at)
        self.owner.landed(batch, [Appended(batch.first_at, T0 + at)], at)
        (decision,) = batch.read
        return decision


def said(given: i.Propose | i.Cancel) -> Outgoing:
    """An input for its inbox."""
    return outgoing(given, stream=STREAM, subject=None, event_id="e", source="/tests")


def test_a_tick_that_meets_a_fault_is_not_repeated_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stream is ticked again after its next input, not at once: else one fault would fill the
    log.
    """

    def decide_no_tick(*arguments: object) -> Decided:
        if isinstance(arguments[2], i.Tick):
            raise ZeroDivisionError("a fault of ours")
        return real_decide(*arguments)  # type: ignore[arg-type] # passed on as they came

    run = Run()
    assert run.decides("intents", said(propose())).facts
    monkeypatch.setattr(deciding, "decide", decide_no_tick)
    (tick,) = run.owner.ticks(STEP_MS)
    decision = run.decides("internal", tick, at=STEP_MS)
    assert decision.quarantined is not None
    assert decision.stream == STREAM
    assert run.owner.ticks(STEP_MS) == []
    assert run.owner.ticks(STEP_MS * 2) == []
    assert run.decides("intents", said(propose()), at=STEP_MS * 2).unchanged is not None
    assert len(run.owner.ticks(STEP_MS * 2)) == 1


def test_other_inputs_of_a_faulty_stream_are_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is set aside with its input; state stays as it was, and the next input meets it."""

    def decide_no_proposal(*arguments: object) -> Decided:
        if isinstance(arguments[2], i.Propose):
            raise KeyError("a fault of ours")
        return real_decide(*arguments)  # type: ignore[arg-type] # passed on as they came

    run = Run()
    assert run.decides("intents", said(propose())).facts
    monkeypatch.setattr(deciding, "decide", decide_no_proposal)
    before = run.owner.memory.stream(STREAM)
    assert run.decides("intents", said(propose()), at=1).quarantined is not None
    assert run.owner.memory.stream(STREAM) == before
    assert run.decides("intents", said(cancel()), at=2).facts
