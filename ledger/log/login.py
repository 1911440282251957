"""Why a broker did not let a client in, said so that a person can mend it.

aiokafka tells every such trouble as "Unable to bootstrap". Here one connection is opened again,
step by step, and the step that fails says what is wrong: the address, the certificate, the kind of
login, the password. Guarantees to open one connection a broker and to close it. Called by
`ledger.log.clients` after a start has failed, and by `knock` before long work.
"""

import asyncio
import ssl
from typing import Any, Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

from ledger.core.errors import LedgerError
from ledger.log.trouble import LogRefusedError, LogUnreachableError

KNOCK_MS_MAX: Final = 5_000
"""For one connection to one broker, and for its answer."""

BROKERS_TRIED_MAX: Final = 3

_SECURITY_HINT: Final = (
    "Look at ACTIONLEDGER_KAFKA_SECURITY: that listener may want TLS, a login, both or neither."
)


async def knock(bootstrap: str, options: dict[str, Any]) -> None:
    """See that a broker of the list lets a client with these options in. Raises
    LogUnreachableError, LogRefusedError.
    """
    trouble = await refusal(bootstrap, options)
    if trouble is not None:
        raise trouble


async def refusal(bootstrap: str, options: dict[str, Any]) -> LedgerError | None:
    """Why none of the brokers lets a client with these options in; None when one does."""
    trouble: LedgerError | None = None
    for host, port, _ in collect_hosts(bootstrap, randomize=False)[:BROKERS_TRIED_MAX]:
        found = await _refusal_of(host, port, options)
        if found is None:
            return None
        # A broker that says why is worth more than one that does not answer.
        if trouble is None or isinstance(found, LogRefusedError):
            trouble = found
    return trouble


async def _refusal_of(host: str, port: int, options: dict[str, Any]) -> LedgerError | None:
    try:
        connection = await create_conn(host, port, request_timeout_ms=KNOCK_MS_MAX, **options)
        try:
            await connection.send(MetadataRequest([]))
        finally:
            connection.close()
    except (OSError, KafkaError, TimeoutError, ValueError) as failure:
        return _named(f"{host}:{port}", failure, options)
    return None


def _named(place: str, failure: BaseException, options: dict[str, Any]) -> LedgerError:
    """The trouble by its name. The order of the guards is that of a connection's steps."""
    told = failure.__cause__ if isinstance(failure, KafkaConnectionError) else failure
    if isinstance(told, ssl.SSLCertVerificationError):
        return LogRefusedError(
            f"The certificate of the broker at {place} is not believed: {told.verify_message}.",
            hint="Name who signed it with ACTIONLEDGER_KAFKA_CA_FILE, and the broker by the name "
            "that its certificate has.",
        )
    if isinstance(told, ssl.SSLError):
        return LogRefusedError(
            f"TLS with the broker at {place} failed: {told.reason or told}.",
            hint=f"{_SECURITY_HINT} A broker may also ask for a client's certificate: "
            "ACTIONLEDGER_KAFKA_CERTIFICATE_FILE and _KEY_FILE.",
        )
    if isinstance(told, UnsupportedSaslMechanismError):
        return LogRefusedError(
            f"The broker at {place} does not let anybody in by {options.get('sasl_mechanism')}.",
            hint="Set ACTIONLEDGER_KAFKA_SASL_MECHANISM to one that this listener offers.",
        )
    # A server that proves itself wrongly is none that knows this password.
    if isinstance(told, SaslAuthenticationFailed | ValueError):
        return LogRefusedError(
            f"The broker at {place} does not let {options.get('sasl_plain_username')} in: the name "
            "is unknown or the password is wrong.",
            hint="Compare the credentials with the broker's; `actionledger acl apply` gives it "
            "those of a credentials file.",
        )
    if isinstance(told, IllegalSaslStateError):
        return LogRefusedError(f"The broker at {place} expects no login.", hint=_SECURITY_HINT)
    if isinstance(
        failure, KafkaConnectionError | asyncio.IncompleteReadError | ConnectionResetError
    ):
        return LogUnreachableError(
            f"The broker at {place} closed the connection without a word.",
            hint=f"{_SECURITY_HINT} One that is just starting does the same.",
        )
    return LogUnreachableError(
        f"No Kafka broker answers at {place} ({_short(failure)}).",
        hint="Start it, or point ACTIONLEDGER_KAFKA at one that runs.",
    )


def _short(failure: BaseException) -> str:
    if isinstance(failure, OSError) and failure.strerror:
        return failure.strerror
    return str(failure) or type(failure).__name__
