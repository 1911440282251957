"""Acceptance: which records of a ledger partition count, for every reader the same."""

import itertools

import pytest

from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.records import (
    Cause,
    Decision,
    EpochOpened,
    Genesis,
    LedgerRecord,
    Verdict,
    accept,
)
from tests.examples import STREAM, T0

GENESIS = Genesis(generation="generation-1", partition=0, partitions=1)


def decision(at: int, epoch: int) -> Decision:
    """A decision made for a place in an epoch."""
    cause = Cause(topic="intents", partition=0, offset=1)
    return Decision(at=at, epoch=epoch, cause=cause, decided_at=T0, stream=STREAM)


def barrier(at: int, epoch: int) -> EpochOpened:
    """A barrier made for a place."""
    return EpochOpened(at=at, epoch=epoch, nonce="nonce")


def plainly(epoch: int, offset: int, record: LedgerRecord) -> bool:
    """The rule in one sentence, written a second time: right place, and this epoch or the next."""
    if isinstance(record, Genesis):
        return offset == 0
    wanted = epoch if isinstance(record, Decision) else epoch + 1
    return record.at == offset and record.epoch == wanted


@pytest.mark.law("S15")
def test_every_reader_accepts_the_same() -> None:
    """Over every small epoch, place and record, acceptance is the one rule and nothing else."""
    numbers = range(4)
    for epoch, offset, at, of_epoch in itertools.product(numbers, repeat=4):
        for record in (decision(at, of_epoch), barrier(at, of_epoch), GENESIS):
            accepted = accept(epoch, offset, record) is Verdict.ACCEPTED
            assert accepted == plainly(epoch, offset, record), (epoch, offset, record)


def test_what_is_void_says_why() -> None:
    """A stale epoch and a wrong place are told apart."""
    assert accept(2, 7, decision(7, 1)) is Verdict.VOID_EPOCH
    assert accept(2, 7, decision(7, 3)) is Verdict.VOID_EPOCH
    assert accept(2, 7, decision(6, 2)) is Verdict.VOID_OFFSET
    assert accept(2, 7, barrier(7, 2)) is Verdict.VOID_EPOCH
    assert accept(2, 7, barrier(6, 3)) is Verdict.VOID_OFFSET
    assert accept(2, 7, GENESIS) is Verdict.VOID_OFFSET


def test_a_broken_invariant_survives_optimisation() -> None:
    """It raises what it says, and nothing when it holds."""
    invariant(condition=True, why="holds")
    with pytest.raises(BrokenInvariantError, match="does not"):
        invariant(condition=False, why="does not")
