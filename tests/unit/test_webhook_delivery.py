"""A webhook goes straight to its route, and is answered as the framework would have it."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from standardwebhooks import Webhook

from gateway.http import body_bytes
from gateway.http.app import create_app
from gateway.http.body_bytes import Arriving
from gateway.http.doors import Instance
from gateway.http.limits import (
    BODY_HELD_BYTES,
    BODY_PACE_AFTER_MS,
    JUDGEMENTS_IN_FLIGHT_MAX,
    WEBHOOK_BYTES_IN_FLIGHT_MAX,
    WEBHOOKS_ARRIVING_MAX,
)
from gateway.http.webhooks import Accepted, is_delivery
from gateway.settings import Settings
from gateway.webhook_secrets import rotate_secret
from ledger.core.limits import TEXT_CHARS_MAX, WEBHOOK_BYTES_MAX
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.published import Published
from ledger.log.webhook_record import WebhookReceived, read_webhook
from tests.patience import PATIENCE_MS


class Kept:
    """An appender that keeps what it is given, and answers while `answers` is set."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Keep them."""
        self.records.extend(records)
        await self.answers.wait()
        return [Appended(0, 0) for _ in records]

    async def close(self) -> None:
        """Nothing is held."""


@asynccontextmanager
async def trickling(
    http: httpx.AsyncClient, path: str, *, count: int, length: int | str | None, sent: int = 1
) -> AsyncIterator[None]:
    """As many strangers who send so many bytes each, and no more. `length` is what they declare."""
    begun, never = asyncio.Semaphore(0), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"{" * sent
        begun.release()
        await never.wait()

    headers = {"content-type": "application/json"}
    headers |= {} if length is None else {"content-length": str(length)}
    asking = [
        asyncio.create_task(http.post(path, content=body(), headers=headers)) for _ in range(count)
    ]
    for one in asking:
        one.add_done_callback(lambda _: begun.release())
    for _ in asking:
        await begun.acquire()
    try:
        yield
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


@pytest.mark.parametrize(
    ("method", "path", "is_one"),
    [
        ("POST", "/v1/webhooks/stripe", True),
        ("GET", "/v1/webhooks/stripe", False),
        ("POST", "/v1/webhooks/", False),
        ("POST", "/v1/webhooks", False),
        ("POST", "/v1/webhooks/stripe/main", False),
        ("POST", "/v1/webhooksstripe", False),
        ("POST", "/console/v1/webhooks/stripe", False),
    ],
)
def test_only_what_the_route_takes_is_taken_to_it(method: str, path: str, *, is_one: bool) -> None:
    """Everything else goes the framework's way, with its answers."""
    assert is_delivery({"type": "http", "method": method, "path": path}) is is_one


async def test_it_is_counted_under_its_route_and_refused_by_its_codes() -> None:
    """The way there is shorter; what is measured and answered is the same."""
    nobody = cast("Any", None)
    settings = Settings.from_environment({})
    app = create_app(nobody, nobody, nobody, nobody, settings, Instance("g", Published))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        unknown = await http.post("/v1/webhooks/nobody", content=b"{}")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "webhook_source_unknown")
        assert unknown.headers["x-content-type-options"] == "nosniff"
        assert (await http.get("/v1/webhooks/nobody")).status_code == 405
        # A slash that was sent within a name parts nothing: this is no delivery.
        assert (await http.post("/v1%2Fwebhooks/nobody", content=b"{}")).json()["code"] != (
            "webhook_source_unknown"
        )
        twice = await http.post("/v1/webhooks/nobody?account=a&account=b", content=b"{}")
        assert (twice.status_code, twice.json()["code"]) == (400, "invalid_query")
        long = await http.post(f"/v1/webhooks/nobody?account={'a' * 300}", content=b"{}")
        assert (long.status_code, long.json()["code"]) == (404, "webhook_source_unknown")
    counted = app.state.doors.metrics.text().decode()
    assert 'route="/v1/webhooks/{provider}",status="4xx"' in counted


async def test_it_is_kept_with_what_was_signed_and_answered_with_its_own_name(
    tmp_path: Path,
) -> None:
    """Once it is in the log. What is kept of its headers is the first of each, in one order; a
    secret counts from the moment it stands in the file, also the first of an account.
    """
    file, kept, nobody = tmp_path / "secrets.toml", Kept(), cast("Any", None)
    rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, kept, nobody, settings, Instance("g", Published))
    doors = app.state.doors
    doors.webhook_secrets._watched._clock_s = lambda: 0.0  # it never looks by itself
    now = datetime.now(UTC)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        for account, event in (("main", 'evt_"1\\'), ("other", "evt_2")):
            secret = rotate_secret(file, "simulated", account, keep_ms=0)
            answer = await http.post(
                f"/v1/webhooks/simulated?account={account}",
                content=b"{}",
                headers=[
                    ("webhook-id", event),
                    ("Webhook-Timestamp", str(int(now.timestamp()))),
                    ("webhook-signature", Webhook(secret).sign(event, now, "{}")),
                    ("User-Agent", "first"),
                    ("user-agent", "second"),
                    ("content-type", "c" * (TEXT_CHARS_MAX + 1)),
                    ("x-other", "nobody reads this"),
                ],
            )
            assert (answer.status_code, answer.headers["content-type"]) == (202, "application/json")
            assert answer.content == Accepted(event_id=event).model_dump_json().encode()
    for record in kept.records:
        read = read_webhook(Record("webhooks", 0, 0, 0, record.key, record.value, record.headers))
        assert isinstance(read, WebhookReceived)
        assert read.raw() == b"{}"
        names = ["user-agent", "webhook-id", "webhook-signature", "webhook-timestamp"]
        assert list(read.headers) == names
        assert read.headers["user-agent"] == "first"
    assert len(kept.records) == 2


@pytest.mark.parametrize(
    ("passed_ms", "received", "is_late"),
    [
        (0, 0, False),
        (1_999, 0, False),
        (2_000, 0, True),
        (2_000, 99_999, True),
        (2_000, 100_000, False),
        (5_000, 249_999, True),
        (5_000, 250_000, False),
        (9_999, 999_999, False),
    ],
)
def test_a_body_is_late_at_less_than_half_of_the_pace_that_it_needs(
    passed_ms: int, received: int, *, is_late: bool
) -> None:
    """Of a million bytes in ten seconds. In its first two nobody judges it."""
    one = Arriving(1_000_000, 5.0)
    one.received = received
    assert one.is_late(5.0 + passed_ms / 1_000) is is_late


async def test_a_large_body_that_does_not_come_gives_its_place_to_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All places are taken by senders of a byte each: the next webhook is taken all the same, and
    one of them is told that it was too slow.
    """
    monkeypatch.setattr(body_bytes, "BODY_PACE_AFTER_MS", 0)
    file, kept, nobody = tmp_path / "secrets.toml", Kept(), cast("Any", None)
    secret = rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, kept, nobody, settings, Instance("g", Published))
    hook, now, large = "/v1/webhooks/simulated", datetime.now(UTC), "x" * (BODY_HELD_BYTES + 1)
    stamp, signed = str(int(now.timestamp())), Webhook(secret).sign("evt", now, large)
    headers = {"webhook-id": "evt", "webhook-timestamp": stamp, "webhook-signature": signed}
    never, slow = asyncio.Event(), WEBHOOKS_ARRIVING_MAX

    async def trickle() -> AsyncIterator[bytes]:
        yield b"{"
        await never.wait()

    told = {"content-length": str(WEBHOOK_BYTES_MAX)}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        asking = [
            asyncio.create_task(http.post(hook, content=trickle(), headers=told))
            for _ in range(slow)
        ]
        arriving = app.state.doors.webhooks_arriving
        while sum(one.received for one in arriving) < slow:
            assert not any(one.done() for one in asking)
            await asyncio.sleep(0)
        answer = await http.post(hook, content=large, headers=headers)
        assert answer.status_code == 202
        done, left = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert [one.result().json()["code"] for one in done] == ["too_slow"]
        assert len(left) == len(arriving) == slow - 1
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)
    assert not arriving
    assert len(kept.records) == 1


@pytest.mark.parametrize("length", [None, WEBHOOK_BYTES_MAX, f"{WEBHOOK_BYTES_MAX:030}"])
async def test_a_body_is_late_whatever_its_head_says_of_its_length(
    tmp_path: Path, length: int | str | None
) -> None:
    """Without one it was never late after its first 33 KiB, and one with zeros before it took no
    place: 64 senders, or any number, held what is there for ten seconds.
    """
    file, nobody = tmp_path / "secrets.toml", cast("Any", None)
    rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, Kept(), nobody, settings, Instance("g", Published))
    transport, hook = httpx.ASGITransport(app), "/v1/webhooks/simulated"
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://door") as http,
        trickling(http, hook, count=1, length=length, sent=33 * 1_024),
    ):
        (one,) = app.state.doors.webhooks_arriving
        now_s = asyncio.get_running_loop().time()
        assert one.received == 33 * 1_024
        assert one.is_late(now_s + BODY_PACE_AFTER_MS / 1_000)


async def test_strangers_who_send_slowly_take_nobodys_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is asked who they are before a body is whole: neither webhooks nor what people signed
    may wait for bodies that never end. Only what is large waits for what is large.
    """
    monkeypatch.setattr(body_bytes, "BODY_PACE_AFTER_MS", PATIENCE_MS)
    file, kept, nobody = tmp_path / "secrets.toml", Kept(), cast("Any", None)
    secret = rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, kept, nobody, settings, Instance("g", Published))
    transport = httpx.ASGITransport(app)
    hook, decisions, now = "/v1/webhooks/simulated", "/v1/decisions", datetime.now(UTC)

    async def sent(http: httpx.AsyncClient, event: str, body: str) -> tuple[int, str]:
        stamp, signed = str(int(now.timestamp())), Webhook(secret).sign(event, now, body)
        headers = {"webhook-id": event, "webhook-timestamp": stamp, "webhook-signature": signed}
        answer = await http.post(hook, content=body, headers=headers)
        return answer.status_code, answer.json().get("code", "")

    small, large = "{}", "x" * (BODY_HELD_BYTES + 1)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        async with (
            trickling(http, hook, count=256, length=1_000),
            trickling(http, decisions, count=2 * JUDGEMENTS_IN_FLIGHT_MAX, length=1_000),
            trickling(http, hook, count=WEBHOOKS_ARRIVING_MAX, length=WEBHOOK_BYTES_MAX),
        ):
            assert await sent(http, "small", small) == (202, "")
            assert await sent(http, "large", large) == (503, "too_busy")
            headers = {"content-type": "application/json"}
            decided = await http.post(decisions, content=b"{}", headers=headers)
            assert (decided.status_code, decided.json()["code"]) == (400, "invalid_body")
        assert await sent(http, "later", large) == (202, "")
    assert len(kept.records) == 2


async def test_a_burst_is_taken_and_only_the_bytes_that_wait_are_bounded(tmp_path: Path) -> None:
    """A door that appends thousands in a second turns nobody away because hundreds come at once.
    What has no room left is refused by name before it is appended, and one that was is room again.
    """
    file, kept, nobody = tmp_path / "secrets.toml", Kept(), cast("Any", None)
    secret = rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, kept, nobody, settings, Instance("g", Published))
    transport, now = httpx.ASGITransport(app), datetime.now(UTC)

    async def sent(http: httpx.AsyncClient, event: str, body: str) -> tuple[int, str]:
        stamp, signed = str(int(now.timestamp())), Webhook(secret).sign(event, now, body)
        headers = {"webhook-id": event, "webhook-timestamp": stamp, "webhook-signature": signed}
        answer = await http.post("/v1/webhooks/simulated", content=body, headers=headers)
        return answer.status_code, answer.json().get("code", "")

    kept.answers.clear()
    many = 256
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        waiting = [asyncio.create_task(sent(http, f"evt_{n}", "{}")) for n in range(many)]
        while len(kept.records) < many:
            assert not any(one.done() for one in waiting)
            await asyncio.sleep(0)
        doors = app.state.doors
        assert doors.webhook_bytes_in_flight == many * BODY_HELD_BYTES
        # As if so many waited beside them that there is room for one more, and a small one.
        others = WEBHOOK_BYTES_IN_FLIGHT_MAX - (many + 1) * BODY_HELD_BYTES
        doors.webhook_bytes_in_flight += others
        assert await sent(http, "large", "x" * (BODY_HELD_BYTES + 1)) == (503, "too_busy")
        last = asyncio.create_task(sent(http, "last", "{}"))
        while len(kept.records) == many:
            assert not last.done()
            await asyncio.sleep(0)
        assert await sent(http, "one_more", "{}") == (503, "too_busy")
        kept.answers.set()
        assert {await one for one in (*waiting, last)} == {(202, "")}
        assert doors.webhook_bytes_in_flight == others
        assert await sent(http, "one_more", "{}") == (202, "")
    assert len(kept.records) == many + 2


async def test_of_a_body_that_waits_for_the_log_its_record_alone_is_held(tmp_path: Path) -> None:
    """Beside it stood the body and its text in base64: three and a half times what is counted."""
    file, kept, nobody = tmp_path / "secrets.toml", Kept(), cast("Any", None)
    secret = rotate_secret(file, "simulated", "main", keep_ms=0)
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    app = create_app(nobody, nobody, kept, nobody, settings, Instance("g", Published))
    now, body, many = datetime.now(UTC), "x" * WEBHOOK_BYTES_MAX, 4
    stamp, signed = str(int(now.timestamp())), Webhook(secret).sign("evt", now, body)

    async def parts() -> AsyncIterator[bytes]:
        yield body.encode()

    headers = {"webhook-id": "evt", "webhook-timestamp": stamp, "webhook-signature": signed}
    kept.answers.clear()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        tracemalloc.start()
        try:
            asking = [
                asyncio.create_task(
                    http.post("/v1/webhooks/simulated", content=parts(), headers=headers)
                )
                for _ in range(many)
            ]
            while len(kept.records) < many:
                assert not any(one.done() for one in asking)
                await asyncio.sleep(0)
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        kept.answers.set()
        assert [(await one).status_code for one in asking] == [202] * many
    records = sum(len(one.value or b"") for one in kept.records)
    assert records < held < records + many * WEBHOOK_BYTES_MAX // 2
