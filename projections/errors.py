"""What can go wrong around the read side, told so that a person can act on it.

LedgerError
├── MigrationError            the schema cannot be brought to what this program needs
│   └── SchemaAheadError      a newer version has brought it further
├── ForeignLogError           the tables were filled from another log than this one
├── PartitionStoppedError     an accepted record cannot be projected; other partitions go on
│   └── PartitionWaitsError   so it is until the damaged rows of a stream were made anew
├── DamagedRowsError          a stream is neither in its row nor in its stored facts
├── DatabaseUnavailableError  Postgres failed too often in a row
├── RebuildRunningError       somebody else is rebuilding
├── RebuildBehindError        rebuilt tables may not replace those that are ahead of them
└── SwapBlockedError          what others built or hold keeps tables from being replaced
"""

from typing import Final

import asyncpg

from ledger.core.errors import LedgerError

AWAY: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.TransactionRollbackError,
    asyncpg.InsufficientResourcesError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TransactionTimeoutError,
    # Tables were altered or exchanged under a transaction; the next one reads them anew.
    asyncpg.InvalidCachedStatementError,
    # A standby that has not taken over yet, or a primary that was put aside.
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.PostgresSystemError,
    asyncpg.InterfaceError,
    # What a pool says of a connection that is lost in the moment in which it is given back.
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)
"""What comes of a database that is away, restarting, full or busy: nothing was done."""


class MigrationError(LedgerError):
    """The schema cannot be brought to what this program needs. `file` names the migration."""

    def __init__(self, message: str, *, hint: str, file: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.file = file


class SchemaAheadError(MigrationError):
    """A newer version of the program has migrated the schema further than this one knows."""

    def __init__(self, schema: str, version: str) -> None:
        super().__init__(
            f"The schema {schema} has migration {version}, which this program does not know.",
            hint="The database is ahead: run the newer version of the program.",
        )


class ForeignLogError(LedgerError):
    """The tables of a partition were filled from another log, or that log has lost its end."""

    def __init__(self, message: str, *, hint: str, partition: int) -> None:
        super().__init__(message, hint=hint)
        self.partition = partition


class PartitionStoppedError(LedgerError):
    """A record that counts cannot be projected. Everything before it is in the tables."""

    def __init__(self, partition: int, offset: int, why: str) -> None:
        super().__init__(
            f"Ledger partition {partition} stops at offset {offset}: {why}.",
            hint="The record counts and is never skipped. Run a version that can read it, or find "
            "the fault with `actionledger replay`; the other partitions go on.",
        )
        self.partition = partition
        self.offset = offset
        self.why = why


class PartitionWaitsError(PartitionStoppedError):
    """The next record is about a stream whose rows were edited or deleted. It is projected as soon
    as they were made anew.
    """

    def __init__(self, partition: int, offset: int, damaged: "DamagedRowsError") -> None:
        super().__init__(partition, offset, damaged.message.rstrip("."))
        self.hint = damaged.hint
        self.stream = damaged.stream


class DamagedRowsError(LedgerError):
    """Rows of a stream were edited or deleted, or say what this version does not know, so that
    nothing here says how it stands.
    """

    def __init__(self, stream: str, why: str) -> None:
        super().__init__(
            f"Rows of {stream} lead to no state: {why}.",
            hint="Where they were edited or deleted, `actionledger rebuild --swap` makes all rows "
            "anew from the log; where a newer version wrote them, run that one.",
        )
        self.stream = stream


class DatabaseUnavailableError(LedgerError):
    """Postgres failed again and again; nothing was written by halves."""


class RebuildRunningError(LedgerError):
    """Another process is rebuilding the same schema."""


class RebuildBehindError(LedgerError):
    """The rebuilt tables stand behind the live ones. Nothing was exchanged."""


class SwapBlockedError(LedgerError):
    """What others have built on the tables, or read in them, keeps them from being replaced."""
