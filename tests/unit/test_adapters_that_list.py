"""Adapters that list badly: what one of them gives, or raises, ends nothing of the others."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from ledger.core.limits import WEBHOOK_BYTES_MAX
from reconciler.comparing import (
    Compared,
    Comparison,
    Period,
    _tellable,
    compare_by_itself,
)
from reconciler.evidence import UNREPORTABLE
from reconciler.providers.events import ListedEvent
from reconciler.providers.port import Finder, ListedEffect, ListingFailed, Lookup
from reconciler.pulling import EventPuller, Pulled

if TYPE_CHECKING:
    import asyncpg

    from ledger.log.steady import SteadyAppender
    from reconciler.statement_intake import StatementIntake

NOW = 1_800_000_000_000
PERIOD = Period(NOW - 1, NOW)
NO_POOL = cast("asyncpg.Pool", None)
"""For what is never asked."""


def effect(reference: str, *, key: str | None = None) -> ListedEffect:
    """An effect as a provider lists it."""
    return ListedEffect(
        reference=reference,
        operation="charge",
        account="main",
        money=None,
        provider_key=key,
        action_key=None,
        request_hash=None,
        committed_at=NOW,
    )


class Lists:
    """A finder whose list ends with an error; then it says so."""

    def __init__(self, failure: Exception, has_ended: asyncio.Event | None = None) -> None:
        self.failure = failure
        self.has_ended = has_ended

    async def find(self, **_asked: Any) -> Lookup:  # noqa: ANN401 - as the port has it
        """Nobody looks anything up here."""
        raise NotImplementedError

    async def list_effects(self, **_asked: Any) -> AsyncIterator[ListedEffect]:  # noqa: ANN401
        """Fail before the first."""
        nothing: tuple[ListedEffect, ...] = ()
        for one in nothing:
            yield one
        if self.has_ended is not None:
            self.has_ended.set()
        raise self.failure

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    "bad", [effect(""), effect("x" * 5_000), effect("\ud800"), effect("ch_1", key="a\0b")]
)
def test_an_effect_that_can_be_no_line_keeps_no_other_from_being_compared(
    bad: ListedEffect, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named in the log, and of a list that has it nothing is said to be missing."""
    comparison = Comparison("simulated", "main", PERIOD)
    good = effect("ch_2")
    assert _tellable([bad, good], comparison) == [good]
    assert comparison.ended_early == UNREPORTABLE
    assert caplog.messages == ["effect_unreportable"]


async def test_an_adapter_that_raises_ends_no_other_account_s_comparison(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The account behind it is compared in the same round."""
    stop = asyncio.Event()
    broken, ended = Lists(ZeroDivisionError("a fault")), Lists(ListingFailed("down"), stop)
    accounts = [
        Compared("simulated", name, cast("Finder", finder), cast("StatementIntake", None), 0)
        for name, finder in (("first", broken), ("second", ended))
    ]
    await compare_by_itself(accounts, NO_POOL, stop, now_ms=lambda: NOW)
    assert caplog.messages == ["compare_failed", "provider_compared"]


class Source:
    """A list of events with two accounts, read again at once."""

    accounts = frozenset({"first", "second"})
    interval_ms = 1
    overlap_ms = 0
    kept_ms = None

    def list_events(self, **_asked: Any) -> AsyncIterator[tuple[ListedEvent, ...]]:  # noqa: ANN401
        """Nobody reads it here."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Reading(EventPuller):
    """Fails for one account as an adapter with a fault would, and counts the other's readings."""

    def __init__(self, enough: asyncio.Event) -> None:
        super().__init__(
            cast("SteadyAppender", None),
            NO_POOL,
            {"simulated": Source()},
            {},
            partitions=1,
            now_ms=lambda: NOW,
        )
        self.enough = enough
        self.read = 0

    async def pull(self, provider: str, account: str) -> Pulled | None:
        """Fail, or read."""
        assert provider == "simulated"
        if account == "first":
            raise ZeroDivisionError("a fault")
        self.read += 1
        if self.read == 2:
            self.enough.set()
        return None


async def test_an_adapter_that_raises_ends_no_other_account_s_reading(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Events of the other account are read on, and the fault is told with its stack."""
    enough = asyncio.Event()
    puller = Reading(enough)
    await puller.run(enough)
    assert puller.read == 2
    failed = [line for line in caplog.records if line.message == "pull_failed"]
    assert failed
    assert all(line.exc_info for line in failed)


@pytest.mark.parametrize(
    "event",
    [
        ListedEvent("evt_1", b"x" * (WEBHOOK_BYTES_MAX + 1)),
        ListedEvent("e" * 5_000, b"{}"),
    ],
    ids=["too large", "a name that is too long"],
)
def test_an_event_that_no_door_would_take_is_told_and_left_out(
    event: ListedEvent, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the inquirer at each of its starts; now its hash is in the log."""
    puller = Reading(asyncio.Event())
    assert puller._told("simulated", "main", event) == (None, None)
    assert caplog.messages == ["event_unreportable"]
