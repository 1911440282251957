"""Why Postgres did not let us in, or did not answer, said so that a person can mend it.

Guarantees that no password is in what is told: of the address only host and port are, and they come
from the error. Looks only at libraries that are loaded: what was not imported did not raise. Called
by the command line and at the end of every process.
"""

import socket
import ssl
import sys
from typing import Any, Final

from ledger.core.errors import LedgerError


class DatabaseTroubleError(LedgerError):
    """Postgres does not answer, or not as it should."""


_VARIABLE: Final = "ACTIONLEDGER_DATABASE"


def database_trouble(fault: BaseException) -> DatabaseTroubleError | None:
    """The trouble that an error of asyncpg stands for; None where it is none of Postgres."""
    if (asyncpg := sys.modules.get("asyncpg")) is not None and isinstance(
        fault,
        asyncpg.PostgresError | asyncpg.InterfaceError | asyncpg.InternalClientError,
    ):
        return _of_the_server(fault, asyncpg)
    return _of_the_connection(fault)


def _of_the_server(fault: BaseException, asyncpg: Any) -> DatabaseTroubleError:  # noqa: ANN401
    if isinstance(fault, asyncpg.UndefinedTableError | asyncpg.InvalidSchemaNameError):
        return DatabaseTroubleError(
            "The database has no tables of this product.",
            hint=f"Run `actionledger run setup` once, or look at {_VARIABLE}.",
        )
    if isinstance(fault, asyncpg.InvalidAuthorizationSpecificationError):
        return DatabaseTroubleError(
            f"Postgres does not let us in: {fault}.",
            hint=f"Look at name and password in {_VARIABLE}, and whether the server wants TLS "
            "(sslmode=verify-full) or a client certificate.",
        )
    if isinstance(fault, asyncpg.InvalidCatalogNameError):
        return DatabaseTroubleError(
            f"Postgres says: {fault}.", hint=f"Create it, or name another one in {_VARIABLE}."
        )
    return DatabaseTroubleError(
        f"Postgres says: {fault}.", hint=f"Look at {_VARIABLE} and its server."
    )


def _of_the_connection(fault: BaseException) -> DatabaseTroubleError | None:
    if isinstance(fault, ssl.SSLCertVerificationError):
        return DatabaseTroubleError(
            f"The certificate of Postgres is not believed: {fault.verify_message}.",
            hint=f"Name who signed it in {_VARIABLE} (sslrootcert=FILE), and the server by the "
            "name that its certificate has.",
        )
    if isinstance(fault, ssl.SSLError):
        return DatabaseTroubleError(
            f"TLS with Postgres failed: {fault.reason or fault}.",
            hint=f"Look at sslmode, sslrootcert, sslcert and sslkey in {_VARIABLE}.",
        )
    if isinstance(fault, ConnectionError) and "SSL upgrade" in str(fault):
        return DatabaseTroubleError(
            "Postgres does not speak TLS.",
            hint=f"Switch it on there (ssl = on), or ask for less with sslmode in {_VARIABLE}.",
        )
    if isinstance(fault, ConnectionError | TimeoutError | socket.gaierror):
        return DatabaseTroubleError(
            f"A server does not answer ({str(fault) or type(fault).__name__}).",
            hint="See `actionledger status` and `actionledger doctor`.",
        )
    return None
