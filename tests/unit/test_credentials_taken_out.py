"""A provider that repeats our credential in its answer gives nothing away: it is taken out."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from reconciler.providers.http_exchange import TAKEN_OUT, Answered, HttpClient, Message
from reconciler.providers.port import Deadlines
from tests.patience import PATIENCE_MS

CREDENTIAL = "sk_live/canary-7f3a"
DEADLINES = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    """The address of a server that answers with the head of the request, as many debug pages do."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        seen = next(line for line in head.split(b"\r\n") if line.startswith(b"Authorization"))
        body = b'{"error": {"code": "' + seen + b'", "escaped": "' + seen.replace(b"/", b"\\/")
        body += b'"}}'
        writer.write(b"HTTP/1.1 402 Payment Required\r\nX-Debug: " + seen + b"\r\n")
        writer.write(b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_an_answer_that_echoes_the_credential_arrives_without_it(echo: str) -> None:
    """In the body, escaped as JSON does, and in a header; the rest of the answer is as it came."""
    client = HttpClient(echo)
    headers = (("Authorization", f"Bearer {CREDENTIAL}"),)
    answered = await client.exchange(
        Message("GET", "/", headers, credential=CREDENTIAL), deadlines=DEADLINES
    )
    await client.close()
    assert isinstance(answered, Answered)
    assert answered.status == 402
    assert b"canary" not in answered.body
    assert answered.body.count(TAKEN_OUT.encode()) == 2
    assert answered.header("x-debug") == f"Authorization: Bearer {TAKEN_OUT}"


async def test_an_answer_without_it_is_left_as_it_came(echo: str) -> None:
    """What was not sent as a credential is nobody's secret, and a word of few letters is none."""
    client = HttpClient(echo)
    answered = await client.exchange(
        Message("GET", "/", (("Authorization", "Bearer abc"),), credential="abc"),
        deadlines=DEADLINES,
    )
    await client.close()
    assert isinstance(answered, Answered)
    assert b"Bearer abc" in answered.body


def test_a_message_shows_no_header() -> None:
    """What ends up in a log line gives nothing away."""
    message = Message("GET", "/", (("Authorization", CREDENTIAL),), credential=CREDENTIAL)
    assert CREDENTIAL not in repr(message)
