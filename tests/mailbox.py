"""A mail server on this machine that takes what it is sent, or refuses it as a test says.

It speaks as much of SMTP (RFC 5321) as a client needs that delivers one message: EHLO, STARTTLS,
AUTH PLAIN, MAIL, RCPT, DATA, QUIT.
"""

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default


@dataclass
class Mailbox:
    """What arrived. `refusal` is said instead of taking a message; `login` is asked for."""

    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refusal: str | None = None
    login: tuple[str, str] | None = None
    tls: ssl.SSLContext | None = None
    connections: int = 0
    port: int = 0

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator["Mailbox"]:
        """Take mail on a free port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._talk(reader, writer)
        writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_known = self.login is None
        recipients: list[str] = []

        def say(line: str) -> None:
            writer.write(line.encode() + b"\r\n")

        say("220 mailbox")
        while line := await reader.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            match verb.upper():
                case "EHLO":
                    say("250-mailbox")
                    extra = ["STARTTLS"] if self.tls else []
                    extra += ["AUTH PLAIN"] if self.login else []
                    for one in extra:
                        say(f"250-{one}")
                    say("250 8BITMIME")
                case "STARTTLS" if self.tls is not None:
                    say("220 go ahead")
                    await writer.drain()
                    await writer.start_tls(self.tls)
                case "AUTH":
                    given = base64.b64decode(rest.split()[-1]).decode().split("\0")[1:]
                    is_known = self.login == tuple(given)
                    say("235 welcome" if is_known else "535 who are you")
                case "MAIL":
                    say("250 ok" if is_known else "530 log in first")
                case "RCPT":
                    recipients.append(rest.partition("<")[2].partition(">")[0])
                    say(self.refusal or "250 ok")
                case "DATA":
                    say("354 go ahead")
                    raw = (await reader.readuntil(b"\r\n.\r\n"))[:-5].replace(b"\r\n..", b"\r\n.")
                    taken = message_from_bytes(raw, policy=default)
                    self.messages.append(taken)
                    self.recipients += recipients
                    say("250 taken")
                case "QUIT":
                    say("221 bye")
                    await writer.drain()
                    return
                case _:
                    say("250 ok")
            await writer.drain()
