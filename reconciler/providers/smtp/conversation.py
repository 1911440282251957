"""One connection to a mail server, in a thread, with the moment of no return known exactly.

The first byte that can have an effect is the dot that ends the message: up to it a server that
loses the connection must not deliver (RFC 5321, 4.1.1.4 and 4.1.1.10). So whatever breaks before it
is proof that nothing was sent, and whatever breaks after it proves nothing.

Guarantees that `cut` and the final dot exclude each other: who cuts is told which came first, and
after a cut that came first the dot never leaves. Must never send twice or go on in the clear where
TLS was asked for. Called by the performer; built on smtplib, which speaks the protocol.
"""

import contextlib
import re
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from reconciler.providers.http_exchange import Trouble, connect_trouble
from reconciler.providers.smtp.description import Server
from reconciler.providers.smtp.message import Letter

_ENHANCED: Final = re.compile(rb"([245])\.(\d{1,3})\.(\d{1,3})(?:\s|$)")
_GO_AHEAD: Final = 354
_END: Final = b".\r\n"
_NONE: Final = -1
_OTHERS_SECONDS: Final = 2.0
"""For each address of a server behind which there is another one: a dead one must not take all the
time that there is."""


class Broke(Exception):
    """The conversation ended without an answer; `code` says how."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server said: its number, and the number and its enhanced status as a code."""

    number: int
    code: str

    @property
    def is_positive(self) -> bool:
        """True for a yes."""
        return 200 <= self.number < 300  # noqa: PLR2004 - the first digit is the answer

    @property
    def is_passing(self) -> bool:
        """True for a no that may be a yes later."""
        return 400 <= self.number < 500  # noqa: PLR2004

    @property
    def is_no(self) -> bool:
        """True for a no of either sort."""
        return 400 <= self.number < 600  # noqa: PLR2004


@dataclass(frozen=True, slots=True)
class Handed:
    """How it went: what the server said of each recipient in their order, and what it said last.

    `is_whole` when that was said of the whole message; before it, nothing was handed in.
    """

    recipients: tuple[Reply, ...]
    last: Reply
    is_whole: bool


class _Smtp(smtplib.SMTP):
    """The library's connection, to whichever address of its server answers."""

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        *others, last = dict.fromkeys((str(one[4][0]), port) for one in found)
        for address in others:
            with contextlib.suppress(OSError):
                connected = socket.create_connection(address, min(timeout, _OTHERS_SECONDS))
                connected.settimeout(timeout)
                return connected
        return socket.create_connection(last, timeout)


class _SmtpOverTls(smtplib.SMTP_SSL, _Smtp):
    """The same for a server that speaks TLS from the beginning."""


@dataclass(slots=True)
class Conversation:
    """One connection. `open` and `hand_in` block, each closes what it leaves broken or cut; the
    others do not. Nothing runs twice.
    """

    server: Server
    tls: ssl.SSLContext | None
    user: str | None
    password: str = field(repr=False)
    _smtp: smtplib.SMTP | None = None
    _is_cut: bool = False
    _is_past: bool = False
    _is_at_work: bool = False
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def open(self, seconds: float) -> None:
        """Connect, go over to TLS, log in: nothing of the request. Raises Broke."""
        try:
            with self._working():
                self._open(time.monotonic() + seconds, seconds)
        except Broke:
            self.close()
            raise
        except smtplib.SMTPAuthenticationError as refused:
            self.close()
            raise Broke(f"login_refused_{refused.smtp_code}") from None
        except smtplib.SMTPResponseException as refused:
            self.close()
            raise Broke(f"smtp_{max(refused.smtp_code, 0)}") from None
        except TimeoutError:
            self.close()
            raise Broke(Trouble.CONNECT_TIMED_OUT.value) from None
        # smtplib's own errors are OSErrors too.
        except OSError as error:
            self.close()
            raise Broke(connect_trouble(error).value) from None
        except ValueError:
            self.close()
            raise Broke(Trouble.CONNECT_FAILED.value) from None

    def hand_in(self, letter: Letter, seconds: float) -> Handed:
        """Hand one letter in, once. Raises Broke; `is_past_the_end` then says what that proves."""
        try:
            with self._working():
                handed = self._hand_in(letter, time.monotonic() + seconds)
                # The answer is there: whether the server hears the goodbye changes nothing.
                with contextlib.suppress(OSError):
                    self._next(time.monotonic() + seconds).putcmd("quit")
            return handed
        except TimeoutError:
            raise Broke(Trouble.ANSWER_TIMED_OUT.value) from None
        except (OSError, ValueError):
            raise Broke(Trouble.CONNECTION_LOST.value) from None
        finally:
            self.close()

    def cut(self) -> None:
        """Drop the connection, whatever its thread is doing. After this the dot does not leave; a
        thread that is at work closes what it has.
        """
        with self._turn:
            self._is_cut = True
            sock = None if self._smtp is None else self._smtp.sock
            is_at_work = self._is_at_work
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        if not is_at_work:
            self.close()

    @property
    def is_past_the_end(self) -> bool:
        """True once the dot may have left. After `cut` it stays as it is."""
        with self._turn:
            return self._is_past

    def close(self) -> None:
        """Close at once; idempotent. Never while another thread is at work here."""
        if self._smtp is not None:
            self._smtp.close()

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """A thread is at work inside. What was cut meanwhile it closes, since nobody else may."""
        with self._turn:
            self._is_at_work = True
        try:
            yield
        finally:
            with self._turn:
                self._is_at_work = False
                is_cut = self._is_cut
            if is_cut:
                self.close()

    def _open(self, deadline: float, seconds: float) -> None:
        server = self.server
        smtp: smtplib.SMTP
        if server.tls == "implicit":
            smtp = _SmtpOverTls(
                server.host, server.port, server.hello, timeout=seconds, context=self.tls
            )
        else:
            smtp = _Smtp(server.host, server.port, server.hello, timeout=seconds)
        with self._turn:
            self._smtp = smtp
        self._next(deadline).ehlo_or_helo_if_needed()
        if server.tls == "starttls":
            try:
                self._next(deadline).starttls(context=self.tls)
            except smtplib.SMTPNotSupportedError:
                raise Broke("tls_not_offered") from None
            self._next(deadline).ehlo_or_helo_if_needed()
        if self.user is not None:
            try:
                self._next(deadline).login(self.user, self.password)
            except (smtplib.SMTPResponseException, smtplib.SMTPServerDisconnected):
                raise
            except smtplib.SMTPException:
                raise Broke("login_not_offered") from None
        self._next(deadline)

    def _hand_in(self, letter: Letter, deadline: float) -> Handed:
        reply = _reply(*self._next(deadline).mail(letter.envelope_from))
        if not reply.is_positive:
            return Handed((), reply, is_whole=False)
        told = [_reply(*self._next(deadline).rcpt(one)) for one in letter.recipients]
        refused = [reply for reply in told if not reply.is_positive]
        if len(refused) == len(told) or (refused and not letter.leaves_out):
            passing = next((reply for reply in refused if reply.is_passing), refused[0])
            return Handed(tuple(told), passing, is_whole=False)
        reply = _reply(*self._next(deadline).docmd("DATA"))
        if reply.number != _GO_AHEAD:
            return Handed(tuple(told), reply, is_whole=False)
        self._next(deadline).send(letter.data)
        smtp = self._next(deadline)
        with self._turn:
            if self._is_cut:
                raise ConnectionResetError
            self._is_past = True
        smtp.send(_END)
        return Handed(tuple(told), _reply(*smtp.getreply()), is_whole=True)

    def _next(self, deadline: float) -> smtplib.SMTP:
        """The connection for one more step, which has the time that is left.

        Raises TimeoutError, ConnectionResetError.
        """
        smtp, left = self._smtp, deadline - time.monotonic()
        if smtp is None or smtp.sock is None or self._is_cut:
            raise ConnectionResetError
        if left <= 0:
            raise TimeoutError
        smtp.sock.settimeout(left)
        return smtp


def _reply(number: int, said: bytes) -> Reply:
    """A reply as a number and a code: `smtp_550_5_1_1`. Of its words nothing is kept."""
    if number == _NONE:
        return Reply(number, Trouble.ANSWER_INVALID.value)
    match = _ENHANCED.match(said)
    status = "" if match is None else "_" + "_".join(part.decode() for part in match.groups())
    return Reply(number, f"smtp_{number}{status}")
