"""Everything that happened to an action, in order, each fact with the input that caused it.

Read from the read model, so it is as old as that is; `complete_to_version` says how far it goes.
"""

from pydantic import BaseModel, ConfigDict, JsonValue

from gateway.http import following
from gateway.http.doors import Doors
from gateway.http.limits import TIMELINE_ENTRIES_MAX
from gateway.http.problems import LedgerPlace, No
from ledger.core.ids import ActionKey
from ledger.core.rejections import Rejection


class CauseView(BaseModel):
    """The input that led to a fact: where it stands."""

    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    offset: int


class Entry(BaseModel):
    """One fact. `at` is the log time of its decision; `data` is the fact as the log has it."""

    model_config = ConfigDict(frozen=True)

    version: int
    type: str
    at: int
    event_id: str
    ledger: LedgerPlace
    cause: CauseView
    data: dict[str, JsonValue]


class TimelineView(BaseModel):
    """The facts of one action by version."""

    model_config = ConfigDict(frozen=True)

    key: str
    complete_to_version: int
    entries: tuple[Entry, ...]


async def timeline_of(doors: Doors, key: ActionKey) -> TimelineView | No:
    """The timeline of an action, its first thousand facts."""
    rows = await following.read(
        doors.queries.timeline(key.tenant, str(key), limit=TIMELINE_ENTRIES_MAX)
    )
    if isinstance(rows, No):
        return rows
    if not rows:
        return No(Rejection.UNKNOWN_ACTION)
    entries = tuple(
        Entry(
            version=row.version,
            type=row.type,
            at=row.decided_at,
            event_id=row.event_id,
            ledger=LedgerPlace(partition=row.partition, offset=row.ledger_offset),
            cause=CauseView(
                topic=row.cause.topic, partition=row.cause.partition, offset=row.cause.offset
            ),
            data=row.data,
        )
        for row in rows
    )
    return TimelineView(key=str(key), complete_to_version=entries[-1].version, entries=entries)
