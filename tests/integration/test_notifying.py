"""People are told, on real servers: the topic, the table, a webhook receiver and a mail server."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest
from aiohttp import web

from ledger.core.money import Money
from ledger.core.people import People
from ledger.log.attention_record import (
    AttentionKind,
    AttentionRaised,
    PeopleWanted,
    attention_notice,
)
from ledger.log.topics import Topic
from reconciler.notifying import limits, notifier
from reconciler.notifying.destinations import Destinations, Mail, Smtp, Webhook
from reconciler.notifying.messages import Message, Pages
from reconciler.notifying.notifier import Notifier
from reconciler.notifying.sending import send
from reconciler.webhooks import Verified, verify
from streams.clock import wall_ms
from tests.approving import people
from tests.elsewhere import CERTIFICATE
from tests.integration.faust_kit import POLL_SECONDS
from tests.integration.installation import installed
from tests.integration.reconciling import migrated, reconciling
from tests.mailbox import Mailbox
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

SECRET = "whsec_bm90aWZ5IHRoZSBwZW9wbGUgd2hvIGFyZSBhc2tlZA=="
PAGES = Pages("https://ledger.example")
QUIET_MS = 1_500
MINUTE_MS = 60_000


@dataclass
class Receiver:
    """A webhook receiver that verifies what it takes, and answers as a test says."""

    taken: list[tuple[str, dict[str, object]]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    status: int = 204
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    url: str = ""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Receiver"]:
        """Take webhooks on a free port."""
        self.may_answer.set()
        app = web.Application()
        app.add_routes([web.post("/{tail:.*}", self._take)])
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}/hooks/approvals?team=1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        raw = await request.read()
        verified = verify(raw, request.headers, [SECRET], wall_ms())
        assert isinstance(verified, Verified)
        self.tried.append(verified.event_id)
        await self.may_answer.wait()
        if self.status < 300:
            self.taken.append((verified.event_id, json.loads(raw)))
        headers = {"Location": "/elsewhere"} if self.status == 307 else {}
        return web.Response(status=self.status, headers=headers)

    @property
    def actions(self) -> list[str]:
        """The actions that it was told of, in order."""
        waiting: list[str] = []
        for _, body in self.taken:
            data = body["data"]
            assert isinstance(data, dict)
            waiting += [one["action"] for one in data["waiting"]]
        return waiting


def raised(number: int, *, expires_in_ms: int = 600_000) -> AttentionRaised:
    """A request for approval, as the inquirer tells it."""
    return AttentionRaised(
        kind=AttentionKind.APPROVAL_REQUESTED,
        action=f"refund:v1:acme:order-{number}",
        stream=f"acme/order-{number}",
        version=4,
        code="large",
        decided_at=wall_ms(),
        ledger_partition=0,
        ledger_offset=number,
        ordinal=2,
        people=PeopleWanted(
            round=1,
            groups=("finance",),
            quorum=1,
            expires_at=wall_ms() + expires_in_ms,
            money=Money(minor=12_000, currency="EUR"),
            target="order:A-1842",
        ),
    )


async def office() -> People:
    """The document of people."""
    return people()


def notifier_of(
    receiver: Receiver,
    mailbox: Mailbox | None = None,
    *,
    quiet_ms: int = QUIET_MS,
    now_ms: Callable[[], int] = wall_ms,
) -> Callable[[asyncpg.Pool], Notifier]:
    """A notifier that tells the receiver, and Ann by mail."""
    mails = () if mailbox is None else (Mail("ann", "ann@example.org"),)
    smtp = None
    if mailbox is not None:
        smtp = Smtp("127.0.0.1", mailbox.port, "none", "ledger@example.org")
    known = Destinations((Webhook("chat", receiver.url, SECRET),), mails, smtp)

    def build(pool: asyncpg.Pool) -> Notifier:
        return Notifier(pool, known, PAGES, people=office, now_ms=now_ms, quiet_ms=quiet_ms)

    return build


@contextlib.asynccontextmanager
async def running(notifying: Notifier) -> AsyncIterator[Notifier]:
    """Run a notifier, and stop it as its process would."""
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(notifying.run(stop))
        try:
            yield notifying
        finally:
            stop.set()


@contextlib.asynccontextmanager
async def telling(
    database_url: str,
    receiver: Receiver,
    mailbox: Mailbox | None = None,
    *,
    quiet_ms: int = 0,
    now_ms: Callable[[], int] = wall_ms,
) -> AsyncIterator[tuple[Notifier, asyncpg.Pool]]:
    """A notifier that runs on a database of its own, with those whom it tells."""
    async with contextlib.AsyncExitStack() as opened:
        await opened.enter_async_context(receiver.listening())
        if mailbox is not None:
            await opened.enter_async_context(mailbox.listening())
        pool = await opened.enter_async_context(migrated(database_url))
        notifying = notifier_of(receiver, mailbox, quiet_ms=quiet_ms, now_ms=now_ms)(pool)
        yield await opened.enter_async_context(running(notifying)), pool


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(POLL_SECONDS)


async def test_people_who_are_asked_are_told_by_mail_and_webhook(
    servers: Addresses, database_url: str
) -> None:
    """From the topic through the Faust agent: once each, however often the topic says it."""
    receiver, mailbox = Receiver(), Mailbox()
    async with (
        receiver.listening(),
        mailbox.listening(),
        installed(servers.kafka_bootstrap) as one,
        reconciling(one, database_url, notifier_of=notifier_of(receiver, mailbox)) as all_,
    ):
        notice = attention_notice(raised(1))
        await one.put(Topic.ATTENTION, notice.partition, notice.record, notice.record)
        await until(lambda: receiver.taken and mailbox.messages)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await all_.pool.fetchval(
                "select count(*) from actionledger.notices where sent_at is null"
            ):
                await asyncio.sleep(POLL_SECONDS)
    assert receiver.actions == ["refund:v1:acme:order-1"]
    (mail,) = mailbox.messages
    assert mailbox.recipients == ["ann@example.org"]
    assert mail["Subject"] == "An action waits for your decision: refund v1"
    assert mail["Message-ID"].endswith("@example.org>")
    said = mail.get_content()
    assert "120.00 EUR" in said
    assert "https://ledger.example/console/approve/refund:v1:acme:order-1" in said


async def test_what_comes_within_a_minute_is_one_message(database_url: str) -> None:
    """The first at once; all that follows waits and comes together."""
    receiver, moved_ms = Receiver(), [0]

    def now_ms() -> int:
        return wall_ms() + moved_ms[0]

    async with telling(database_url, receiver, quiet_ms=MINUTE_MS, now_ms=now_ms) as (notifying, _):
        await notifying.keep([raised(1)])
        await until(lambda: len(receiver.taken) == 1)
        for number in range(2, 32):
            await notifying.keep([raised(number)])
        assert len(receiver.taken) == 1
        moved_ms[0] = MINUTE_MS
        await until(lambda: len(receiver.taken) == 2)
    _, digest = receiver.taken[1]
    data = digest["data"]
    assert isinstance(data, dict)
    assert [one["action"] for one in data["waiting"]] == [
        f"refund:v1:acme:order-{number}" for number in range(2, 22)
    ]
    assert data["more"] == 10


async def test_a_receiver_that_is_away_is_told_when_it_is_back(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Again and again under one id, so that it can tell; what came meanwhile is a message of its
    own.
    """
    monkeypatch.setattr(notifier, "TRY_AGAIN_FIRST_MS", 50)
    receiver = Receiver(status=503)
    async with telling(database_url, receiver) as (notifying, _):
        await notifying.keep([raised(1)])
        await until(lambda: len(receiver.tried) >= 2)
        # It may be tried before this test goes on, and is answered once the receiver is back.
        receiver.may_answer.clear()
        await notifying.keep([raised(2)])
        receiver.status = 204
        receiver.may_answer.set()
        await until(lambda: len(receiver.taken) == 2)
    assert receiver.actions == ["refund:v1:acme:order-1", "refund:v1:acme:order-2"]
    first, second = (message for message, _ in receiver.taken)
    assert set(receiver.tried) == {first, second}
    assert receiver.tried.count(second) == 1


async def test_a_destination_that_hangs_holds_up_no_other(database_url: str) -> None:
    """The mail is there while the webhook still waits for an answer."""
    receiver, mailbox = Receiver(), Mailbox()
    async with telling(database_url, receiver, mailbox) as (notifying, _):
        receiver.may_answer.clear()
        await notifying.keep([raised(1)])
        await until(lambda: receiver.tried and mailbox.messages)
        await notifying.keep([raised(2)])
        await until(lambda: len(mailbox.messages) >= 2)
        assert receiver.taken == []
        receiver.may_answer.set()
        await until(lambda: len(receiver.taken) >= 2)


async def test_after_enough_tries_it_is_given_up_by_name_and_counted(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Bounded, then logged; what comes later is told all the same."""
    monkeypatch.setattr(notifier, "TRY_AGAIN_FIRST_MS", 1)
    monkeypatch.setattr(notifier, "TRIES_MAX", 3)
    receiver = Receiver(status=500)
    async with telling(database_url, receiver) as (notifying, _):
        await notifying.keep([raised(1)])
        await until(lambda: notifying.given_up_count == 1)
        receiver.status = 204
        await notifying.keep([raised(2)])
        await until(lambda: receiver.taken)
    assert len(receiver.tried) == 4
    assert receiver.actions == ["refund:v1:acme:order-2"]
    (line,) = [one for one in caplog.records if one.msg == "notice_given_up"]
    assert vars(line)["reason"] == "http_500"
    assert vars(line)["destination"] == "webhook:chat"


async def test_a_crash_between_the_message_and_its_row_tells_again_under_the_same_id(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told at least once: whoever takes over after the lease cannot know that it arrived."""
    monkeypatch.setattr("reconciler.notifying.notices.LEASE_MS", 300)
    receiver = Receiver()
    async with receiver.listening(), migrated(database_url) as pool:
        first = notifier_of(receiver, quiet_ms=0)(pool)
        dies = asyncio.create_task(first.run(asyncio.Event()))
        receiver.may_answer.clear()
        await first.keep([raised(1)])
        await until(lambda: receiver.tried)
        dies.cancel()
        await asyncio.wait({dies})
        receiver.may_answer.set()
        async with running(notifier_of(receiver, quiet_ms=0)(pool)):
            await until(lambda: len(receiver.tried) >= 2)
            await until(lambda: receiver.taken)
    assert len(set(receiver.tried)) == 1


async def test_two_reconcilers_tell_it_once(database_url: str) -> None:
    """Whoever comes second sees that it is under way."""
    receiver = Receiver()
    async with receiver.listening(), migrated(database_url) as pool:
        both = [notifier_of(receiver, quiet_ms=0)(pool) for _ in range(2)]
        async with running(both[0]), running(both[1]):
            for number in range(1, 11):
                await asyncio.gather(*(one.keep([raised(number)]) for one in both))
            await until(lambda: len(receiver.actions) >= 10)
    assert sorted(receiver.actions) == sorted(f"refund:v1:acme:order-{n}" for n in range(1, 11))


async def test_what_is_over_is_not_told(database_url: str) -> None:
    """Its time is up, or somebody has decided meanwhile: nobody is called for nothing."""
    receiver = Receiver()
    async with receiver.listening(), migrated(database_url) as pool:
        notifying = notifier_of(receiver, quiet_ms=0)(pool)
        await notifying.keep([raised(1, expires_in_ms=-1), raised(2), raised(3)])
        columns = await pool.fetch(
            "select column_name, data_type, is_nullable from information_schema.columns"
            " where table_schema = 'actionledger' and table_name = 'actions'"
        )
        values = {
            "action_key": "'refund:v1:acme:order-2'",
            "version": "9",
            "status": "'completed'",
        }
        kinds = {"text": "''", "bigint": "0", "integer": "0", "boolean": "false"}
        for row in columns:
            if row["is_nullable"] == "NO" and row["column_name"] not in values:
                plain = kinds.get(row["data_type"], "now()")
                values[row["column_name"]] = plain
        await pool.execute(
            f"insert into actionledger.actions ({', '.join(values)})"  # noqa: S608 - our columns
            f" values ({', '.join(values.values())})"
        )
        async with running(notifying):
            await until(lambda: receiver.taken)
        rows = await pool.fetch("select action_key, trouble from actionledger.notices")
    assert receiver.actions == ["refund:v1:acme:order-3"]
    assert {row["action_key"][-1]: row["trouble"] for row in rows} == {
        "1": "expired",
        "2": "over",
        "3": None,
    }


async def test_a_notice_that_cannot_be_kept_holds_up_none_behind_it(database_url: str) -> None:
    """What no table can hold is logged and left out: an agent never stops over it."""
    receiver = Receiver()
    bad, late = raised(1), raised(2)
    assert bad.people is not None
    assert late.people is not None
    bad = bad.model_copy(update={"people": bad.people.model_copy(update={"target": "a\x00b"})})
    late = late.model_copy(update={"people": late.people.model_copy(update={"expires_at": 2**53})})
    async with telling(database_url, receiver) as (notifying, _):
        await notifying.keep([bad, late, raised(3)])
        await until(lambda: receiver.taken)
    assert receiver.actions == ["refund:v1:acme:order-3"]


async def test_a_database_that_is_away_costs_nothing_but_time(database_url: str) -> None:
    """The notifier goes on; what is kept is told when it is back."""
    receiver = Receiver()
    async with telling(database_url, receiver) as (notifying, pool):
        await pool.execute("alter table actionledger.notices rename to notices_away")
        with pytest.raises(asyncpg.UndefinedTableError):
            await notifying.keep([raised(1)])
        await pool.execute("alter table actionledger.notices_away rename to notices")
        await notifying.keep([raised(1)])
        await until(lambda: receiver.taken)


# --- mail --------------------------------------------------------------------------------------


async def test_mail_goes_over_tls_with_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """STARTTLS with the server's certificate checked, then the password, then the message."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    mailbox = Mailbox(login=("ledger", "open sesame"), tls=context)
    trial = Message("msg_1", (), wall_ms())
    ann = Mail("ann", "ann@example.org")
    async with mailbox.listening():
        smtp = Smtp(
            "localhost", mailbox.port, "starttls", "ledger@example.org", "ledger", "open sesame"
        )
        assert await send(ann, trial, PAGES, smtp) is None
        wrong = Smtp("localhost", mailbox.port, "starttls", "ledger@example.org", "ledger", "guess")
        assert await send(ann, trial, PAGES, wrong) == "login_refused"
    (mail,) = mailbox.messages
    assert mail["Subject"] == "A trial: nothing waits"


async def test_mail_that_cannot_be_sent_says_why() -> None:
    """Every trouble is a code: no certificate that is known, a refused address, nobody there."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    mailbox = Mailbox(tls=context)
    trial, ann = Message("msg_1", (), wall_ms()), Mail("ann", "ann@example.org")
    async with mailbox.listening():
        secure = Smtp("localhost", mailbox.port, "starttls", "ledger@example.org")
        assert await send(ann, trial, PAGES, secure) == "tls_failed"
        mailbox.tls = None
        assert await send(ann, trial, PAGES, secure) == "security_not_offered"
        mailbox.refusal = "550 no such user"
        plain = Smtp("127.0.0.1", mailbox.port, "none", "ledger@example.org")
        assert await send(ann, trial, PAGES, plain) == "recipient_refused"
    assert await send(ann, trial, PAGES, plain) == "not_reached"
    assert await send(ann, trial, PAGES, None) == "no_smtp_server"
    assert mailbox.messages == []


async def test_a_webhook_that_points_elsewhere_is_not_followed(database_url: str) -> None:
    """A redirect is no delivery: what was signed for one address goes to no other."""
    receiver = Receiver(status=307)
    trial = Message("msg_1", (), wall_ms())
    async with receiver.listening():
        chat = Webhook("chat", receiver.url, SECRET)
        assert await send(chat, trial, PAGES, None) == "http_307"
        assert receiver.tried == ["msg_1"]
        receiver.may_answer.clear()
        async with asyncio.timeout(PATIENCE_SECONDS):
            # A busy machine may be too slow to connect, which has another name.
            late = "connect_timed_out"
            while late == "connect_timed_out":
                late = await send(chat, trial, PAGES, None, timeout_ms=100) or "taken"
        assert late in {"timed_out", "answer_timed_out"}
        receiver.may_answer.set()
    gone = Webhook("gone", "http://127.0.0.1:9/", SECRET)
    assert await send(gone, trial, PAGES, None) == "connect_refused"
    assert limits.SEND_MS < limits.LEASE_MS


def test_the_certificate_is_there() -> None:
    """The tests above rely on a certificate for this machine's own names."""
    assert Path(CERTIFICATE).is_file()
