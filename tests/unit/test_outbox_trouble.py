"""A database that cannot be had is no record's fault: the outbox consumer takes nothing then."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest
from aiokafka.structs import ConsumerRecord
from pydantic import JsonValue

from ledger.log.access import KafkaAccess
from reconciler.providers.kafka.consumer import Outbox, OutboxConsumer, RefusedRecord
from reconciler.providers.kafka.headers import Asked, headers_of
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.port import ProviderRequest
from reconciler.providers.postgres.connecting import Connection

CERTIFICATE = Path(__file__).with_name("loopback.pem")
OUTBOX = Outbox("127.0.0.1:1", ("requests",), "service", KafkaAccess(), "requests.refused")
REQUEST = ProviderRequest("a:v1:acme:1", "a", 1, None, {}, None, "main", "sha256:00")
RECORD = ConsumerRecord(
    "requests", 0, 7, 0, 0, b"k", b"{}", None, 1, 2, headers_of(REQUEST, "key-1")
)


async def never(
    _connection: Connection, _asked: Asked, _value: JsonValue
) -> Mapping[str, JsonValue]:
    """Must not be called: there is no connection."""
    raise AssertionError


async def untold(_report: EffectReport) -> None:
    """Must not be called: nothing is made."""
    raise AssertionError


@asynccontextmanager
async def distrusted_database() -> AsyncIterator[str]:
    """The address of a server that speaks TLS as Postgres does, with a certificate that nobody
    trusts.
    """
    certificate = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.load_cert_chain(CERTIFICATE)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"S")
        try:
            await writer.start_tls(certificate)
        except (OSError, ssl.SSLError):
            writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        yield f"postgresql://shop@127.0.0.1:{port}/shop"


async def taken_from(database: str, tls: ssl.SSLContext | None = None) -> list[RefusedRecord]:
    """What is set aside of one good record, with such a database."""
    refused: list[RefusedRecord] = []

    async def set_aside(one: RefusedRecord) -> None:
        refused.append(one)

    async with asyncpg.create_pool(database, min_size=0, max_size=1, ssl=tls) as pool:
        await OutboxConsumer(OUTBOX, pool, never, untold).take(RECORD, set_aside)
    return refused


async def test_a_certificate_that_is_over_sets_no_record_aside() -> None:
    """Its error is a ValueError beside one of the system: it comes out, so the offset stays."""
    async with distrusted_database() as address:
        with pytest.raises(ssl.SSLCertVerificationError):
            await taken_from(address, ssl.create_default_context())


async def test_an_address_that_is_none_sets_no_record_aside() -> None:
    """The client refuses it with a ValueError of its own, at the first connection."""
    with pytest.raises(asyncpg.InterfaceError) as raised:
        await taken_from("postgresql://shop@127.0.0.1:1/shop?sslmode=sometimes")
    assert isinstance(raised.value, ValueError)


def test_what_is_set_aside_fits_at_last_however_much_came() -> None:
    """The last form holds what we say alone: why, from where, and hashes of what is left out."""
    theirs = [("trace", b"t" * 100_000), ("none", None)]
    said = [("actionledger-refused", b"value_not_json")]
    forms = list(RefusedRecord(b"k" * 5_000, b"v" * 5_000, theirs, said).forms())
    assert [one.value for one in forms] == [b"v" * 5_000, b"", b""]
    assert [len(one.theirs) for one in forms] == [2, 2, 0]
    last = forms[-1]
    assert last.key is None
    headers = dict(last.headers)
    assert headers["actionledger-refused"] == b"value_not_json"
    assert headers["actionledger-refused-value"] == b"left_out"
    assert headers["actionledger-refused-key-and-headers"] == b"left_out"
    assert sum(len(name) + len(value or b"") for name, value in last.headers) < 1_000
    other = RefusedRecord(b"k" * 5_000, b"v" * 5_000, theirs[:1], said)
    *_, last_of_other = other.forms()
    assert last_of_other.said != last.said
