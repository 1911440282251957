"""An action's e-mail as bytes.

Guarantees that the same request under the same key is the same bytes: no clock, no randomness (the
submission server adds the date); that nothing in a request can begin a header, end the message or
add a recipient that the description does not name; and that every byte is ASCII with no line longer
than a server has to take. Called by the performer.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Final

from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import Template, Unsendable
from reconciler.providers.limits import RECIPIENTS_MAX, REQUEST_BYTES_MAX
from reconciler.providers.port import ProviderRequest
from reconciler.providers.smtp.description import Mail, Sender, SmtpDescription, is_address

_SUBJECT_CHARS_MAX: Final = 900
_BEGINS_WITH_DOT: Final = re.compile(rb"(?m)^\.")
_DIGEST_CHARS: Final = 32
_POLICY: Final = SMTP.clone(max_line_length=900)
"""A header stays on one line, so that a mark in it is found as it is: 998 is the most."""


@dataclass(frozen=True, slots=True)
class Letter:
    """What is handed in. `data` is quoted for the wire and does not hold the final dot."""

    reference: str
    envelope_from: str
    recipients: tuple[str, ...]
    data: bytes
    leaves_out: bool


def message_id(provider_key: str, domain: str) -> str:
    """The Message-ID of whatever is sent under a key."""
    digest = hashlib.sha256(f"actionledger.message_id.v1\n{provider_key}".encode()).hexdigest()
    return f"<{digest[:_DIGEST_CHARS]}@{domain}>"


def letter_of(
    described: SmtpDescription, mail: Mail, request: ProviderRequest, provider_key: str
) -> Letter:
    """The message of one request; raises Unsendable."""
    sender = described.senders[request.account]
    names: Mapping[str, object] = {**names_of(request), "provider_key": provider_key}
    reference = message_id(provider_key, described.message_id_domain)
    to, cc, bcc = (_addresses(one, names) for one in (mail.to, mail.cc, mail.bcc))
    recipients = tuple(dict.fromkeys((*to, *cc, *bcc)))
    if not recipients or len(recipients) > RECIPIENTS_MAX:
        raise Unsendable
    message = EmailMessage(policy=_POLICY)
    message["Message-ID"] = reference
    message["From"] = _from(sender)
    for header, addresses in (("To", to), ("Cc", cc)):
        if addresses:
            message[header] = ", ".join(addresses)
    message["Subject"] = _subject(mail.subject, names)
    for header, template in mail.headers:
        value = template.header(names)
        if value is not None:
            message[header] = value
    if described.marks:
        _mark(message, request)
    _write(message, mail, names, reference)
    data = _BEGINS_WITH_DOT.sub(b"..", message.as_bytes())
    if len(data) > REQUEST_BYTES_MAX or not data.isascii():
        raise Unsendable
    data = data if data.endswith(b"\r\n") else data + b"\r\n"
    return Letter(reference, sender.bounces, recipients, data, mail.leaves_out)


def _addresses(template: Template | None, names: Mapping[str, object]) -> tuple[str, ...]:
    """One address or a list of them; raises Unsendable for anything else."""
    value = None if template is None else template.value(names)
    match value:
        case None:
            return ()
        case str():
            given: list[object] = [value]
        case list() | tuple():
            given = list(value)
        case _:
            raise Unsendable
    found = [one for one in given if isinstance(one, str) and is_address(one)]
    if len(found) != len(given):
        raise Unsendable
    return tuple(found)


def _from(sender: Sender) -> str:
    return str(Address(sender.name or "", addr_spec=sender.address))


def _subject(template: Template, names: Mapping[str, object]) -> str:
    text = template.text(names)
    if not text or not text.isprintable() or len(text) > _SUBJECT_CHARS_MAX:
        raise Unsendable
    return text


def _mark(message: EmailMessage, request: ProviderRequest) -> None:
    """The action key and the hash, for whoever reads the server's own records."""
    for header, value in (
        ("X-Action-Key", request.action_key),
        ("X-Request-Hash", request.request_hash),
    ):
        if not value.isascii() or not value.isprintable():
            raise Unsendable
        message[header] = value


def _write(message: EmailMessage, mail: Mail, names: Mapping[str, object], reference: str) -> None:
    text = mail.text.text(names)
    html = None if mail.html is None else mail.html.text(names)
    if text is None:
        raise Unsendable
    try:
        message.set_content(text, cte="base64")
        if html is not None:
            message.add_alternative(html, subtype="html", cte="base64")
            message.set_boundary(f"part-{reference[1 : _DIGEST_CHARS + 1]}")
    except UnicodeError:
        raise Unsendable from None
