"""Sends e-mail through a described server.

Guarantees the promises of the port. The guard runs when the server has taken the login, before MAIL
FROM: the first byte of the request itself. It could run later, before the dot that alone has an
effect, but then addresses would have left under a lease that was over; and what follows it is
bounded by the deadline that the lease counts with. Built by the kind, held by executors only.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import JsonValue

from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.limits import MAIL_CONNECTIONS_MAX
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    Partial,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.smtp.conversation import Broke, Conversation, Handed, Reply
from reconciler.providers.smtp.description import SmtpDescription
from reconciler.providers.smtp.message import Letter, letter_of

_Made = TypeVar("_Made")


class SmtpPerformer:
    """Sends e-mail as a description says. Each message has a connection of its own."""

    def __init__(
        self,
        described: SmtpDescription,
        passwords: Mapping[str, str],
        tls: ssl.SSLContext | None,
    ) -> None:
        """`passwords` by account, for those that log in. Nothing is opened yet."""
        self._described = described
        self._passwords = passwords
        self._tls = tls
        self._slots = asyncio.Semaphore(MAIL_CONNECTIONS_MAX)
        self._threads = ThreadPoolExecutor(MAIL_CONNECTIONS_MAX, "actionledger-smtp")

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Send one message, once; see the port."""
        mail = self._described.mails.get(request.operation)
        if mail is None:
            return NotSent("operation_not_described", Retry.NEVER)
        sender = self._described.senders.get(request.account)
        if sender is None or (sender.user is not None and request.account not in self._passwords):
            return NotSent("account_not_configured", Retry.LATER)
        try:
            letter = letter_of(self._described, mail, request, provider_key)
        except (Unsendable, UnicodeError, ValueError):
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        password = self._passwords.get(request.account, "")
        line = Conversation(self._described.server, self._tls, sender.user, password)
        async with _slot(self._slots, deadlines) as has_slot:
            if not has_slot:
                return NotSent(Trouble.NO_FREE_CONNECTION.value, Retry.LATER)
            return await self._send(line, letter, deadlines, before_first_byte)

    async def close(self) -> None:
        """Let the threads end; idempotent. Running calls end with their connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _send(
        self,
        line: Conversation,
        letter: Letter,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        try:
            async with asyncio.timeout(deadlines.connect_ms / 1000):
                await self._in_thread(line.open, deadlines.connect_ms / 1000)
        except (TimeoutError, asyncio.CancelledError) as ended:
            line.cut()
            if isinstance(ended, asyncio.CancelledError):
                raise
            return NotSent(Trouble.CONNECT_TIMED_OUT.value, Retry.LATER)
        except Broke as broke:
            return NotSent(broke.code, Retry.LATER)
        try:
            before_first_byte()
        except Declined as declined:
            line.close()
            return NotSent(declined.code, Retry.LATER)
        except BaseException:
            line.close()
            raise
        try:
            seconds = deadlines.response_ms / 1000
            async with asyncio.timeout(seconds):
                return outcome_of(letter, await self._in_thread(line.hand_in, letter, seconds))
        except TimeoutError:
            line.cut()
            return _broken(Trouble.ANSWER_TIMED_OUT.value, line)
        except Broke as broke:
            return _broken(broke.code, line)
        finally:
            # Whoever is cancelled leaves a thread behind that has to end, and may not send.
            line.cut()

    async def _in_thread(self, work: Callable[..., _Made], *arguments: object) -> _Made:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)


@asynccontextmanager
async def _slot(slots: asyncio.Semaphore, deadlines: Deadlines) -> AsyncIterator[bool]:
    """A slot for one connection, held inside; False where none came free within the time."""
    try:
        async with asyncio.timeout(deadlines.connect_ms / 1000):
            await slots.acquire()
    except TimeoutError:
        yield False
        return
    try:
        yield True
    finally:
        slots.release()


def outcome_of(letter: Letter, handed: Handed) -> Outcome:
    """What the server's replies mean."""
    last = handed.last
    if last.is_no:
        return Refused(last.code, Retry.LATER if last.is_passing else Retry.NEVER)
    if not handed.is_whole:
        return NotSent(last.code, Retry.LATER)
    if not last.is_positive:
        # Neither yes nor no: it says nothing of what became of the message.
        return Unresolved(last.code)
    if all(reply.is_positive for reply in handed.recipients):
        return Succeeded(letter.reference, {"code": last.code})
    return Partial(letter.reference, {"code": last.code, **_each(handed.recipients)})


def _each(replies: tuple[Reply, ...]) -> Mapping[str, JsonValue]:
    """By number in the order of the request: an address has no place in the ledger's facts."""
    return {
        f"recipient_{number}": {"exists": reply.is_positive, "code": reply.code}
        for number, reply in enumerate(replies, start=1)
    }


def _broken(code: str, line: Conversation) -> NotSent | Unresolved:
    """What a conversation without an answer proves: nothing, once the dot may have left."""
    return Unresolved(code) if line.is_past_the_end else NotSent(code, Retry.LATER)
