"""Errors of the libraries we stand on, told as trouble with a way out.

Guarantees that what an operator may meet (a server that is away, a file that cannot be read) is
told in our words. What is not named here is a fault of ours and keeps its stack. Called by `app`.
"""

import sys

from gateway.database_trouble import database_trouble
from ledger.core.errors import LedgerError


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
    if (httpx := sys.modules.get("httpx")) is not None and isinstance(fault, httpx.TransportError):
        return DoorTroubleError(
            f"The ledger does not answer ({type(fault).__name__}).",
            hint="See `actionledger status`; asking again with the same intent is always safe.",
        )
    if (trouble := database_trouble(fault)) is not None:
        return trouble
    if isinstance(fault, OSError) and fault.filename is not None:
        return FileTroubleError(
            f"{fault.filename}: {fault.strerror}.", hint="Name a file that can be used."
        )
    return None
