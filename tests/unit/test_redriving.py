"""A redrive and the note about it: nothing is put back that could not be noted."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.wiring import quarantine_desk as desk
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, AppendUnknownError, Outgoing, Record
from ledger.log.quarantine import QuarantinedRecord, RedrivenRecord, quarantined, read_quarantine
from ledger.log.redrive import Redrive, plan_redrive
from tests.examples import STREAM, propose


@dataclass
class Broker:
    """A log that takes every batch and says that it stands at this offset."""

    offset: int
    appended: list[tuple[str, Outgoing]] = field(default_factory=list)

    async def appender(self) -> "Broker":
        """Itself."""
        return self

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Keep what came."""
        self.appended += [(topic, one) for one in records]
        return [Appended(self.offset, 0)] * len(records)

    async def close(self) -> None:
        """Nothing is open."""


async def put_back(broker: Broker, by: str) -> int:
    """Put one record back that was set aside by a fault."""
    sent = outgoing(propose(), stream=STREAM, subject=None, event_id="e", source="/tests")
    stood = Record("intents", 0, 17, 0, sent.key, sent.value, sent.headers)
    noted = quarantined(stood, reason="fault_in_decide", detail="KeyError")
    entry = read_quarantine(Record("quarantine", 3, 0, 0, noted.key, noted.value, noted.headers))
    assert isinstance(entry, QuarantinedRecord)
    planned = plan_redrive(entry, 1)
    assert isinstance(planned, Redrive)
    log: Any = broker
    return await desk.redrive(log, entry, planned, by=by)


async def test_a_redrive_is_noted_with_its_place() -> None:
    """First the record, then who put it back and where it stands."""
    broker = Broker(99)
    assert await put_back(broker, "ops") == 99
    (first, _), (second, note) = broker.appended
    assert (first, second) == ("intents", "quarantine")
    read = read_quarantine(Record("quarantine", 3, 1, 0, note.key, note.value, note.headers))
    assert isinstance(read, RedrivenRecord)
    assert (read.by, read.redriven_to) == ("ops", 99)


@pytest.mark.parametrize("by", ["o" * (TEXT_CHARS_MAX + 1), "half \ud800"])
async def test_a_name_that_cannot_be_noted_puts_nothing_back(by: str) -> None:
    """It was put back first, and then the note about it ended in a stack trace."""
    broker = Broker(99)
    with pytest.raises(desk.NameUnfitError, match="name"):
        await put_back(broker, by)
    assert broker.appended == []


async def test_a_place_that_the_broker_does_not_say_is_unknown() -> None:
    """A batch that it has already: it stands there, and nobody can note where."""
    with pytest.raises(AppendUnknownError, match="did not say where"):
        await put_back(Broker(-1), "ops")
