"""A real SMTP server (aiosmtpd) that keeps what it took, and does wrong what it is told to."""

import asyncio
import contextlib
import email
import email.policy
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from tests.patience import PATIENCE_SECONDS

USER, PASSWORD = "ledger", "s3cret-of-the-mail"


@dataclass(frozen=True, slots=True)
class Kept:
    """One message that the server took, for whom, and from whom."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    raw: bytes


@dataclass
class MailServer:
    """What it took, and what it does to whom: `faults` by recipient, each met once but for
    `always`.

    `close_at_recipient`: ends the connection before DATA. `close_in_data`: after DATA, before the
    dot. `close_after_dot`, `slow`: takes the message first. `nonsense`: takes it and answers what
    is no reply. Else the reply itself, to RCPT or, after `data:`, to the message.

    Without slots: aiosmtpd looks at every member, and before Python 3.11.3 one of slots raises.
    """

    port: int = 0
    kept: list[Kept] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    always: dict[str, str] = field(default_factory=dict)
    slow_seconds: float = 3.0
    asks_login: bool = True
    _own: dict[int, str] = field(default_factory=dict)

    def _fault(self, recipient: str) -> str:
        return self.faults.pop(recipient, "") or self.always.get(recipient, "")

    async def handle_MAIL(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a sender who has logged in."""
        if self.asks_login and not session.authenticated:
            return "530 5.7.0 log in first"
        envelope.mail_from = address
        return "250 2.1.0 taken"

    async def handle_RCPT(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take a recipient, or meet its fault."""
        fault = self._fault(address)
        match fault:
            case "close_at_recipient":
                _end(server)
                return "421 closing"
            case "close_in_data" | "close_after_dot" | "slow" | "nonsense":
                self._own[id(session)] = fault
            case _ if fault.startswith("data:"):
                self._own[id(session)] = fault
            case _ if fault:
                return fault
            case _:
                pass
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 taken"

    async def handle_DATA(  # noqa: N802 - the server's name for it
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Keep a message, or meet a fault."""
        fault = self._own.pop(id(session), "")
        if fault.startswith("data:"):
            return fault.removeprefix("data:")
        raw = envelope.original_content or b""
        message = email.message_from_bytes(raw, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        self.kept.append(Kept(envelope.mail_from or "", tuple(envelope.rcpt_tos), message, raw))
        match fault:
            case "close_after_dot":
                _end(server)
            case "slow":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), self.slow_seconds)
            case "nonsense":
                return "2x0 what"
            case _:
                pass
        return "250 2.0.0 kept"


class _ClosingInData(SMTP):
    """Ends the connection where a message would begin, for who asked for it."""

    async def smtp_DATA(self, arg: str) -> None:  # noqa: N802
        own: dict[int, str] = self.event_handler._own
        if own.get(id(self.session)) == "close_in_data":
            own.pop(id(self.session))
            await self.push("354 go ahead")
            _end(self)
            return
        await super().smtp_DATA(arg)


def _end(server: SMTP) -> None:
    assert isinstance(server.transport, asyncio.Transport)
    server.transport.abort()


def _login(_: SMTP, __: Session, ___: Envelope, ____: str, given: object) -> AuthResult:
    is_known = isinstance(given, LoginPassword) and (
        (given.login, given.password) == (USER.encode(), PASSWORD.encode())
    )
    return AuthResult(success=is_known, handled=False)


@contextmanager
def mail_server(
    *, tls: ssl.SSLContext | None = None, implicit: bool = False, asks_login: bool = True
) -> Iterator[MailServer]:
    """Run it in a thread of its own. With `tls` it wants STARTTLS, or TLS from the first byte."""
    server, ready, loop = (
        MailServer(asks_login=asks_login),
        threading.Event(),
        asyncio.new_event_loop(),
    )

    def protocol() -> SMTP:
        return _ClosingInData(
            server,
            loop=loop,
            hostname="mail.test",
            tls_context=None if implicit else tls,
            require_starttls=tls is not None and not implicit,
            authenticator=_login if asks_login else None,
            auth_require_tls=False,
            auth_exclude_mechanism=() if asks_login else ("LOGIN", "PLAIN"),
            enable_SMTPUTF8=False,
        )

    async def run() -> None:
        listening = await loop.create_server(
            protocol, "127.0.0.1", 0, ssl=tls if implicit else None
        )
        server.port = listening.sockets[0].getsockname()[1]
        ready.set()
        async with listening:
            await stop.wait()
        # The conversations that a test left behind end with their server.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def work() -> None:
        loop.run_until_complete(run())
        loop.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(PATIENCE_SECONDS)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE_SECONDS)
