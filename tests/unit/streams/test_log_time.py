"""Owners of partitions whose time is ahead of all clocks are told."""

import pytest

from ledger.log.port import Appended
from streams.log_time import LogTimeWatch
from streams.owner import Owner
from tests.examples import propose
from tests.ledgers import GENERATION, LedgerBuilder

SKEW_MS = 5_000
AHEAD_MS = 3_600_000


def owner_ahead() -> Owner:
    """An owner who opened its epoch an hour before the time of the last decision."""
    builder = LedgerBuilder()
    builder.take(propose(), later_ms=AHEAD_MS)
    owner = Owner(0, 1, GENERATION, "nonce")
    for record in builder.records():
        owner.feed(record)
    at = owner.fold.decided_at - AHEAD_MS
    owner.opened(Appended(owner.fold.next_offset, at), 0)
    return owner


def test_an_owner_ahead_of_all_clocks_is_told_once_and_when_that_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However often is looked; where it comes again, it is told again."""
    caplog.set_level("INFO")
    watch, owner = LogTimeWatch(SKEW_MS), owner_ahead()
    for mono_ms in (0, AHEAD_MS // 2, AHEAD_MS - SKEW_MS - 1, AHEAD_MS - SKEW_MS, AHEAD_MS, 0):
        watch.look(owner, mono_ms)
    assert caplog.messages == ["log_time_ahead", "log_time_reached", "log_time_ahead"]


def test_a_partition_that_comes_back_still_ahead_is_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was somebody else's meanwhile, and this owner knows nothing of the one before."""
    watch = LogTimeWatch(SKEW_MS)
    owner, again = owner_ahead(), owner_ahead()
    for one in (owner, again, again):
        watch.look(one, 0)
    assert caplog.messages == ["log_time_ahead"] * 2
