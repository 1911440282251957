"""Standing still is not having nothing to do, and trouble is not a bad record."""

import ssl
from collections.abc import Sequence

import asyncpg
import pytest
from faust.types import TP

from ledger.core.errors import LedgerError
from ledger.log.port import AppendUnknownError, Record
from ledger.log.topics import Topic
from reconciler.receiving import is_trouble
from streams import agents
from streams.agents import EventDeadlineError, settle
from streams.limits import EVENT_DEADLINE_MS
from streams.watchdog import Progress

HERE, THERE = TP("webhooks", 0), TP("webhooks", 1)


def test_nothing_to_do_is_no_standstill() -> None:
    """An app that handled everything may be idle for any time."""
    progress = Progress({})
    for now_ms in range(0, 1_000_000, 1_000):
        assert progress.see({HERE: 5}, {HERE: 5}, now_ms) == 0


def test_work_that_nobody_handles_is_a_standstill() -> None:
    """Time counts from the first look at which work lay there and nothing had moved."""
    progress = Progress({})
    assert progress.see({HERE: 5}, {HERE: 9}, 0) == 0
    assert progress.see({HERE: 5}, {HERE: 9}, 1_000) == 0
    assert progress.see({HERE: 5}, {HERE: 9}, 3_000) == 2_000


def test_any_progress_is_progress() -> None:
    """One handled event on any partition begins the time anew, however much lies elsewhere."""
    progress = Progress({})
    progress.see({HERE: 5, THERE: 0}, {HERE: 9, THERE: 9}, 0)
    progress.see({HERE: 5, THERE: 0}, {HERE: 9, THERE: 9}, 1_000)
    assert progress.see({HERE: 5, THERE: 1}, {HERE: 9, THERE: 9}, 9_000) == 0
    assert progress.see({HERE: 5, THERE: 1}, {HERE: 9, THERE: 9}, 10_000) == 0
    assert progress.see({HERE: 5, THERE: 1}, {HERE: 9, THERE: 9}, 11_000) == 1_000


def test_what_is_made_again_before_events_is_progress() -> None:
    """A restore may take far longer than one event; once it no longer goes on time counts."""
    progress = Progress({})
    for now_ms in range(0, 1_000_000, 1_000):
        assert progress.see({HERE: 5}, {HERE: 9}, now_ms, made_again=now_ms) == 0
    assert progress.see({HERE: 5}, {HERE: 9}, 1_000_000, made_again=999_000) == 0
    assert progress.see({HERE: 5}, {HERE: 9}, 1_003_000, made_again=999_000) == 3_000


async def test_a_deadline_begins_anew_where_something_was_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Trouble late in a restore is the first of its kind, however long that went on before; where
    nothing more is made again the deadline is the event's.
    """
    now_ms, made, tries = 0, 0, 0

    async def handle(_: Sequence[Record]) -> None:
        nonlocal now_ms, made, tries
        tries += 1
        now_ms += EVENT_DEADLINE_MS
        made += tries < 3
        raise ConnectionRefusedError

    monkeypatch.setattr(agents, "mono_ms", lambda: now_ms)
    record = Record(Topic.WEBHOOKS, 0, 0, 0, b"", b"", ())
    with pytest.raises(EventDeadlineError):
        await settle(handle, [record], deadline_ms=EVENT_DEADLINE_MS, made_again=lambda: made)
    assert tries == 3


def test_a_rebalance_begins_the_time_anew() -> None:
    """Without partitions there is no work, and afterwards the time runs from new."""
    progress = Progress({HERE: 5})
    progress.see({HERE: 5}, {HERE: 9}, 0)
    assert progress.see({}, {}, 50_000) == 0
    assert progress.see({HERE: 5}, {HERE: 9}, 60_000) == 0


@pytest.mark.parametrize(
    "failure",
    [
        AppendUnknownError("not acknowledged", hint="again"),
        LedgerError("nobody answers", hint="wait"),
        ConnectionRefusedError(),
        TimeoutError(),
        asyncpg.CannotConnectNowError(),
        asyncpg.DeadlockDetectedError(),
        asyncpg.UndefinedTableError(),
        asyncpg.InterfaceError("the connection is closed"),
        asyncpg.InternalClientError("release() called on a free connection holder"),
        ssl.SSLCertVerificationError("certificate has expired"),
        asyncpg.ClientConfigurationError("no such mode"),
    ],
)
def test_what_may_pass_is_trouble(failure: Exception) -> None:
    """The surroundings' failures are waited for, those that are a ValueError beside it as well."""
    assert is_trouble(failure)


@pytest.mark.parametrize(
    "failure",
    [
        asyncpg.CharacterNotInRepertoireError(),
        asyncpg.CheckViolationError(),
        asyncpg.exceptions.DataError("not a text"),
        UnicodeEncodeError("utf-8", "\ud83d", 0, 1, "surrogates not allowed"),
        ZeroDivisionError(),
        KeyError("missing"),
    ],
)
def test_what_a_record_brings_about_is_its_own(failure: Exception) -> None:
    """Waiting would not help: the record is set aside and those behind it go on."""
    assert not is_trouble(failure)
