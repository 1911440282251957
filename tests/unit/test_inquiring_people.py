"""The inquirer where people decide: previews are asked for, and whoever is wanted is told."""

import pytest

from ledger.core import facts as f
from ledger.core.money import Money
from ledger.core.preview import Preview, preview_hash
from ledger.core.records import Cause, Decision, EpochOpened, Genesis, LedgerRecord
from ledger.core.state import Stream
from ledger.log.attention_record import (
    AttentionKind,
    AttentionRaised,
    PeopleWanted,
    read_attention,
)
from ledger.log.envelope import encode_ledger, ledger_headers
from ledger.log.port import Record
from streams import inquiring
from streams.inquiring import Inquiring
from tests.examples import CHARGE, STREAM, T0, recorded
from tests.unit.core.language import numbered

MONEY = Money(minor=12_000, currency="EUR")


class Ledger:
    """One partition, written fact by fact and followed by one inquirer."""

    def __init__(self) -> None:
        self.step = Inquiring(0)
        self.offset = 0
        self.put(Genesis(generation="g", partition=0, partitions=1))
        self.put(EpochOpened(at=self.offset, epoch=1, nonce="n"))
        self.step.caught_up()

    def put(self, record: LedgerRecord) -> None:
        """Write a record and let it be read."""
        value = encode_ledger(record, generation="g", partition=0)
        headers = ledger_headers(record)
        self.step.feed(Record("ledger", 0, self.offset, T0, STREAM.encode(), value, headers))
        self.offset += 1

    def decide(self, *facts: f.AnyFact) -> None:
        """Write a decision."""
        decision = Decision(
            at=self.offset,
            epoch=1,
            cause=Cause(topic="intents", partition=0, offset=self.offset),
            decided_at=T0,
            stream=STREAM,
            facts=tuple(numbered(Stream(STREAM), facts)),
        )
        self.put(decision)

    def told(self) -> list[AttentionRaised]:
        """What it would tell, read back from the bytes."""
        found = []
        for notice in self.step.notices():
            record = Record("attention", notice.partition, 0, 0, None, notice.record.value, ())
            raised = read_attention(record)
            assert isinstance(raised, AttentionRaised)
            found.append(raised)
        return found


def preview_started(number: int = 1) -> f.PreviewStarted:
    """The ledger wants to know what would happen."""
    return f.PreviewStarted(
        action=CHARGE,
        version=0,
        preview=number,
        provider="simulated",
        account="main",
        intent_offset=2,
        answer_by=T0 + 1_000,
    )


def preview_recorded(number: int = 1) -> f.PreviewRecorded:
    """The ledger knows what would happen."""
    content = Preview(
        request_hash=recorded().request_hash,
        provider="simulated",
        account="main",
        target="order:A-1842",
        money=MONEY,
    )
    return f.PreviewRecorded(
        action=CHARGE,
        version=0,
        preview=number,
        content=content,
        preview_hash=preview_hash(content),
    )


def requested(number: int = 1) -> f.ApprovalRequested:
    """People are asked."""
    return f.ApprovalRequested(
        action=CHARGE,
        version=0,
        round=number,
        nonce="n" * 16,
        expires_at=T0 + 600_000,
        policy_hash="sha256:1",
        row="large",
        preview_hash="sha256:2",
        quorum=2,
        groups=("finance",),
    )


def test_a_preview_that_the_ledger_wants_is_asked_for_with_its_intent() -> None:
    """What it is about stands in the same decision, or is read at the place that is named."""
    ledger = Ledger()
    ledger.decide(recorded(), preview_started())
    (question,) = ledger.step.take_questions(10)
    assert question.identity == ("preview.started", CHARGE, 1)
    assert question.intent is not None
    assert question.intent.request_hash == recorded().request_hash
    ledger.step.answered(question)
    ledger.decide(preview_started(2))
    (later,) = ledger.step.take_questions(10)
    assert (later.number, later.intent) == (2, None)


def test_behind_many_that_wait_an_intent_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand questions wait at most, and intents of 64 KiB are not kept for all of them."""
    monkeypatch.setattr(inquiring, "INTENTS_KEPT_MAX", 0)
    ledger = Ledger()
    ledger.decide(recorded(), preview_started())
    (question,) = ledger.step.take_questions(10)
    assert isinstance(question.started, f.PreviewStarted)
    assert (question.intent, question.started.intent_offset) == (None, 2)


def test_a_preview_that_is_there_or_not_wanted_any_more_is_not_asked_for() -> None:
    """Answered, failed, or its action is over: nobody asks the provider for nothing."""
    for fact in (
        f.PreviewFailed(action=CHARGE, version=0, preview=1, code="down"),
        f.ActionDenied(action=CHARGE, version=0, by="policy"),
        f.ActionExpired(action=CHARGE, version=0),
    ):
        ledger = Ledger()
        ledger.decide(recorded(), preview_started(), fact)
        assert ledger.step.take_questions(10) == []
    ledger = Ledger()
    ledger.decide(recorded(), preview_started())
    ledger.decide(preview_recorded(), requested())
    assert ledger.step.take_questions(10) == []


def test_people_who_are_asked_are_told_what_about() -> None:
    """Whom, until when, how many, and the amount as it was recorded: never as an agent words it."""
    ledger = Ledger()
    ledger.decide(recorded(), preview_recorded(), requested())
    (raised,) = ledger.told()
    assert (raised.kind, raised.code) == (AttentionKind.APPROVAL_REQUESTED, "large")
    assert raised.people == PeopleWanted(
        round=1,
        groups=("finance",),
        quorum=2,
        expires_at=T0 + 600_000,
        money=MONEY,
        target="order:A-1842",
    )


def test_people_who_may_decide_after_a_time_are_told_then() -> None:
    """Nobody decided in time: only those who come into it now are wanted."""
    ledger = Ledger()
    ledger.decide(f.ApprovalEscalated(action=CHARGE, version=0, groups=("board",)))
    (raised,) = ledger.told()
    assert raised.kind is AttentionKind.APPROVAL_ESCALATED
    assert raised.people == PeopleWanted(groups=("board",))
