"""Errors of the libraries we stand on, told as trouble with a way out.

Guarantees that what an operator may meet (a server that is away, a file that cannot be read) is
told in our words. What is not named here is a fault of ours and keeps its stack. Called by `app`.
"""

import sys

from ledger.core.errors import LedgerError


class DatabaseTroubleError(LedgerError):
    """Postgres does not answer, or not as it should."""


class DoorTroubleError(LedgerError):
    """The HTTP door does not answer."""


class FileTroubleError(LedgerError):
    """A file cannot be read or written."""


def as_trouble(fault: BaseException) -> LedgerError | None:
    """The trouble that an error stands for, or None where it is a fault of ours.

    Looks only at libraries that are loaded: what was not imported did not raise.
    """
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    if isinstance(fault, LedgerError):
        return fault
    if (asyncpg := sys.modules.get("asyncpg")) is not None:
        if isinstance(fault, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
            return DatabaseTroubleError(
                "The database has no tables of this product.",
                hint="Run `actionledger run setup` once, or look at ACTIONLEDGER_DATABASE.",
            )
        if isinstance(fault, asyncpg.PostgresError | asyncpg.InterfaceError):
            return DatabaseTroubleError(
                f"Postgres says: {fault}.", hint="Look at ACTIONLEDGER_DATABASE and its server."
            )
    if (httpx := sys.modules.get("httpx")) is not None and isinstance(fault, httpx.TransportError):
        return DoorTroubleError(
            f"The ledger does not answer ({type(fault).__name__}).",
            hint="See `actionledger status`; asking again with the same intent is always safe.",
        )
    if isinstance(fault, ConnectionError | TimeoutError):
        return DatabaseTroubleError(
            f"A server does not answer ({str(fault) or type(fault).__name__}).",
            hint="See `actionledger status` and `actionledger doctor`.",
        )
    if isinstance(fault, OSError) and fault.filename is not None:
        return FileTroubleError(
            f"{fault.filename}: {fault.strerror}.", hint="Name a file that can be used."
        )
    return None
