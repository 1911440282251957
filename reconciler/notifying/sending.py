"""One try to bring one message to one destination: a signed webhook, or a mail.

Guarantees that every outcome is a value, never an exception but cancellation; that a webhook
follows no redirect and no proxy, and its answer is not read beyond its status; that a mail's
headers hold nothing that an agent chose. The same message has the same id at every try: Standard
Webhooks' `webhook-id`, and the Message-ID of the mail. Called by the notifier and by whoever tries
a destination out.
"""

import asyncio
import smtplib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Final, assert_never
from urllib.parse import urlsplit

from standardwebhooks import Webhook as Signer

from reconciler.notifying.destinations import Destination, Mail, Smtp, Webhook
from reconciler.notifying.limits import SEND_MS
from reconciler.notifying.messages import Message, Pages, payload, subject, text
from reconciler.providers.http_exchange import Answered, Broken, HttpClient
from reconciler.providers.http_exchange import Message as HttpMessage
from reconciler.providers.port import Deadlines

_OK: Final = range(200, 300)


async def send(
    destination: Destination,
    message: Message,
    pages: Pages,
    smtp: Smtp | None,
    *,
    timeout_ms: int = SEND_MS,
) -> str | None:
    """Try once, within `timeout_ms`; None where it was taken, else a code that says why not."""
    match destination:
        case Webhook():
            return await _post(destination, message, pages, timeout_ms)
        case Mail():
            if smtp is None:
                return "no_smtp_server"
            written = mail(destination, message, pages, smtp)
            # The blocking client of the standard library: it waits in a thread of its own, and has
            # its own end.
            return await asyncio.to_thread(_deliver, written, smtp, timeout_ms)
        case _:
            assert_never(destination)


async def _post(webhook: Webhook, message: Message, pages: Pages, timeout_ms: int) -> str | None:
    parts = urlsplit(webhook.url)
    body = payload(message, pages)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = HttpMessage("POST", path, tuple(signed(webhook, message, body).items()), body)
    client = HttpClient(f"{parts.scheme}://{parts.netloc}")
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            exchanged = await client.exchange(
                request, deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms)
            )
    except TimeoutError:
        return "timed_out"
    finally:
        await client.close()
    match exchanged:
        case Answered(status=status):
            return None if status in _OK else f"http_{status}"
        case Broken(trouble):
            return trouble.value
        case _:
            assert_never(exchanged)


def signed(webhook: Webhook, message: Message, body: bytes) -> Mapping[str, str]:
    """The headers of a webhook: Standard Webhooks' three, over exactly these bytes."""
    at = datetime.fromtimestamp(message.sent_at // 1_000, UTC)
    return {
        "Content-Type": "application/json",
        "User-Agent": "actionledger",
        "webhook-id": message.id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Signer(webhook.secret).sign(message.id, at, body.decode()),
    }


def mail(to: Mail, message: Message, pages: Pages, smtp: Smtp) -> EmailMessage:
    """The mail: plain text, from us, told apart by its Message-ID."""
    written = EmailMessage()
    written["From"] = smtp.sender
    written["To"] = to.to
    written["Subject"] = subject(message)
    written["Date"] = format_datetime(datetime.fromtimestamp(message.sent_at / 1_000, UTC))
    written["Message-ID"] = f"<{message.id}@{smtp.sender.rpartition('@')[2]}>"
    # Nobody's absence is to be answered to.
    written["Auto-Submitted"] = "auto-generated"
    written.set_content(text(message, pages), charset="utf-8")
    return written


def _deliver(written: EmailMessage, smtp: Smtp, timeout_ms: int) -> str | None:
    seconds = timeout_ms / 1_000
    context = ssl.create_default_context()
    try:
        server = (
            smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=seconds, context=context)
            if smtp.security == "tls"
            else smtplib.SMTP(smtp.host, smtp.port, timeout=seconds)
        )
        with server:
            if smtp.security == "starttls":
                server.starttls(context=context)
            if smtp.username is not None:
                server.login(smtp.username, smtp.password or "")
            server.send_message(written)
    except smtplib.SMTPRecipientsRefused:
        return "recipient_refused"
    except smtplib.SMTPAuthenticationError:
        return "login_refused"
    except smtplib.SMTPNotSupportedError:
        return "security_not_offered"
    except smtplib.SMTPResponseException as refused:
        return f"smtp_{refused.smtp_code}"
    except ssl.SSLError:
        return "tls_failed"
    except TimeoutError:
        return "timed_out"
    except (smtplib.SMTPException, OSError):
        return "not_reached"
    return None
