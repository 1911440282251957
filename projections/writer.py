"""Batches into Postgres: rows and offsets in one transaction, or nothing of either.

Guarantees that offsets move only from the value they were read with: who finds them elsewhere has
been overtaken, writes nothing and reads again. Holds one connection of its own, because it teaches
it to take times as the log's milliseconds. Called by the projector and nobody else.
"""

from enum import Enum
from operator import attrgetter
from typing import Final

import asyncpg
from pydantic_core import from_json

from ledger.core.records import Adopted
from ledger.log.crashpoints import crash_point
from ledger.log.fold import PartitionFold
from projections.errors import ForeignLogError
from projections.fold import Batch
from projections.limits import DATABASE_CALL_MS_MAX, WRITER_FROZEN_MS_MAX
from projections.rows import (
    ACTIONS,
    APPROVAL_DECISIONS,
    APPROVALS,
    ATTEMPTS,
    DECISIONS,
    EVENTS,
    GATE_EVENTS,
    GATE_RESERVATIONS,
    GATES,
    OFFSETS,
    PREVIEWS,
    REFERENCES,
    REVIEW_CASES,
    REVIEW_RESOLUTIONS,
    STREAMS,
    Table,
    offsets_row,
    read_holds,
)
from projections.statements import LIVE_SCHEMA, OWN_LIMITS, Connection, statements

_WRITTEN: Final = (
    EVENTS,
    DECISIONS,
    REVIEW_CASES,
    REVIEW_RESOLUTIONS,
    PREVIEWS,
    APPROVAL_DECISIONS,
    GATE_EVENTS,
    STREAMS,
    ACTIONS,
    ATTEMPTS,
    APPROVALS,
    GATES,
    GATE_RESERVATIONS,
    REFERENCES,
)
"""Tables of a batch. Rows of the first seven are always new, because the offsets that go with them
are; those of the others may be there already. All are staged: see decision 0012."""

# Postgres counts microseconds from 2000-01-01.
_EPOCH_US: Final = 946_684_800_000_000


class WriterAheadError(Exception):
    """Another projector has moved a partition on since it was read here. Nothing was written."""


class Wake(Enum):
    """Whether a commit wakes who listens: only the live schema has listeners."""

    LISTENERS = "listeners"
    NOBODY = "nobody"


class BatchWriter:
    """Writes batches over one connection. `load` first; after any error `load` again."""

    def __init__(self, connection: Connection, schema: str, cluster: str | None = None) -> None:
        self._connection = connection
        self._schema = schema
        self._cluster = cluster
        self._sql = statements("merge.sql", schema)
        self._wake = Wake.LISTENERS if schema == LIVE_SCHEMA else Wake.NOBODY

    async def prepare(self) -> None:
        """Make the staging tables, let times be sent as milliseconds, and a frozen writer end.
        Limits that the database has for others do not hold here.
        """
        await self._connection.execute(OWN_LIMITS)
        await self._connection.set_type_codec(
            "timestamptz",
            schema="pg_catalog",
            format="tuple",
            encoder=_to_postgres,
            decoder=_from_postgres,
        )
        await self._connection.execute(self._sql["stage"])
        await self._connection.execute(
            f"set idle_in_transaction_session_timeout = {WRITER_FROZEN_MS_MAX}"
        )

    async def load(self, partitions: list[int]) -> dict[int, PartitionFold]:
        """Where each partition stands; one that was never projected stands at 0.

        Raises ForeignLogError where the rows were filled from another cluster than this one.
        """
        await self._connection.execute(self._sql["begin_partition"], partitions)
        rows = await self._connection.fetch(self._sql["load_offsets"], partitions)
        for row in rows:
            if self._cluster is not None and row["cluster"] not in {None, self._cluster}:
                raise ForeignLogError(
                    f"Ledger partition {row['partition']} was projected from the Kafka cluster "
                    f"{row['cluster']}; this one is {self._cluster}.",
                    hint="Point to the cluster that wrote it, or project into an empty schema.",
                    partition=row["partition"],
                )
        return {row["partition"]: fold_of(row) for row in rows}

    async def write(self, batch: Batch) -> None:
        """Commit a batch. Raises WriterAheadError, or what Postgres says; then nothing is in."""
        if not batch.folds:
            return
        async with self._connection.transaction():
            # First, so that a second writer of a partition waits before it has copied anything.
            await self._claim(batch)
            crash_point("offsets_claimed")
            if sum([await self._copy(batch, table) for table in _WRITTEN]):
                await self._connection.execute(
                    self._sql["merge"], timeout=DATABASE_CALL_MS_MAX / 1_000
                )
            crash_point("rows_written")

    async def _claim(self, batch: Batch) -> None:
        rows = [
            (batch.starts[partition].next_offset, *offsets_row(fold, self._cluster))
            for partition, fold in batch.folds.items()
        ]
        was, *columns = (list(column) for column in zip(*rows, strict=True))
        # Texts can be long and change rarely: they are sent only when they do.
        for name, of in _TEXTS:
            column = columns[OFFSETS.columns.index(name)]
            for place, (partition, fold) in enumerate(batch.folds.items()):
                if of(fold) is of(batch.starts[partition]):
                    column[place] = None
        claimed = await self._connection.fetch(
            self._sql["claim"],
            columns[0],
            was,
            *columns[1:],
            self._wake is Wake.LISTENERS,
            timeout=DATABASE_CALL_MS_MAX / 1_000,
        )
        if len(claimed) != len(rows):
            ahead = set(batch.folds) - {row["partition"] for row in claimed}
            raise WriterAheadError(f"partitions {sorted(ahead)} were moved by another projector")

    async def _copy(self, batch: Batch, table: Table) -> int:
        rows = batch.rows.get(table.name)
        if not rows:
            return 0
        await self._connection.copy_records_to_table(
            f"stage_{table.name}",
            records=rows,
            columns=table.columns,
            timeout=DATABASE_CALL_MS_MAX / 1_000,
        )
        return len(rows)


def fold_of(row: asyncpg.Record) -> PartitionFold:
    """Where a partition stands, from its row as `load_offsets` gives it."""
    adopted = None
    if row["adopted_kind"] is not None:
        adopted = Adopted(
            kind=row["adopted_kind"],
            content=row["adopted_content"],
            content_hash=row["adopted_hash"],
            offset=row["adopted_offset"],
        )
    return PartitionFold(
        partition=row["partition"],
        generation=row["generation"],
        partitions=row["partitions"],
        epoch=row["epoch"],
        next_offset=row["next_offset"],
        decided_at=row["decided_at"],
        adopted=adopted,
        holds=read_holds(row["holds"]),
        policy=_adopted(row["policy"]),
        people=_adopted(row["people"]),
        positions=from_json(row["positions"]),
        void_count=row["void_count"],
    )


def _adopted(text: str | None) -> Adopted | None:
    return None if text is None else Adopted.model_validate_json(text)


_TEXTS: Final = (
    ("adopted_content", attrgetter("adopted")),
    ("policy", attrgetter("policy")),
    ("people", attrgetter("people")),
)


def _to_postgres(at: int) -> tuple[int]:
    return (at * 1_000 - _EPOCH_US,)


def _from_postgres(stored: tuple[int]) -> int:
    return (stored[0] + _EPOCH_US) // 1_000
