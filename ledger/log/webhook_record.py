"""What a provider says unasked, as it stands on the topic `webhooks`: the raw bytes it came as, and
what the door checked.

Guarantees that the bytes are those that came in: they travel in base64 beside their SHA-256, which
the reader computes again. Says nothing of what they mean: nobody has judged it yet. Written by the
webhook receiver before it answers 2xx, and in its role by who brings a settlement file, a listing
or events that were fetched; read by the reconciler and by whoever rebuilds.
"""

import base64
import binascii
import hashlib
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from ledger.core.limits import (
    IDENTIFIER_CHARS_MAX,
    WEBHOOK_BYTES_MAX,
    WEBHOOK_HEADERS_MAX,
)
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Milliseconds, Text, Wire
from ledger.log.envelope import CONTENT_TYPE, Unreadable
from ledger.log.port import Outgoing, Record

WEBHOOK_TYPE: Final = "actionledger.webhook.received.v1"
SOURCE: Final = "/actionledger/webhooks"

_RAW_CHARS_MAX: Final = (WEBHOOK_BYTES_MAX + 2) // 3 * 4
_RECORD_BYTES_MAX: Final = 2 * WEBHOOK_BYTES_MAX
_Identifier = Annotated[str, Field(min_length=1, max_length=IDENTIFIER_CHARS_MAX)]


WebhookSource: TypeAlias = Literal["webhook", "settlement", "listing", "pulled", "note"]
"""How it came: sent by the provider; a line of its settlement file; an effect of its own list; an
event fetched from its list of events. The second and third have a form of our own
(`reconciler.statement_lines`), the others are the provider's words. A note is an operator's, on
another record of the same event id (`reconciler.orphan_notes`).
"""


class WebhookReceived(Wire):
    """One verified webhook. `account` is the one whose secret verified it, `event_id` and `sent_at`
    are the provider's own, stable over redeliveries. `source` is not written for a webhook.
    """

    provider: _Identifier
    account: _Identifier
    event_id: _Identifier
    sent_at: Milliseconds
    headers: Annotated[dict[str, Text], Field(max_length=WEBHOOK_HEADERS_MAX)]
    raw_base64: Annotated[str, Field(max_length=_RAW_CHARS_MAX)]
    sha256: Text
    source: WebhookSource = "webhook"

    @classmethod
    def of(
        cls,
        raw: bytes,
        *,
        provider: str,
        account: str,
        event_id: str,
        sent_at: int,
        headers: dict[str, str],
        source: WebhookSource = "webhook",
    ) -> Self:
        """The record of a body as it was received. Raises ValueError for what is too long."""
        if len(raw) > WEBHOOK_BYTES_MAX:
            raise ValueError(f"a webhook has at most {WEBHOOK_BYTES_MAX} bytes, not {len(raw)}")
        return cls(
            provider=provider,
            account=account,
            event_id=event_id,
            sent_at=sent_at,
            headers=headers,
            raw_base64=base64.b64encode(raw).decode(),
            sha256=hashlib.sha256(raw).hexdigest(),
            source=source,
        )

    def raw(self) -> bytes:
        """The body that the provider signed. Raises ValueError when it is not what was received."""
        raw = base64.b64decode(self.raw_base64, validate=True)
        if hashlib.sha256(raw).hexdigest() != self.sha256:
            raise ValueError("the body does not have the hash it was received with")
        return raw


class _Envelope(Wire):
    specversion: Literal["1.0"]
    id: Text
    source: Text
    type: Literal["actionledger.webhook.received.v1"]
    subject: Text | None = None
    partitionkey: Text | None = None
    datacontenttype: Literal["application/json"]
    time: Text | None = None
    traceparent: Text | None = None
    tracestate: Text | None = None
    data: WebhookReceived


_READER: Final[TypeAdapter[_Envelope]] = TypeAdapter(_Envelope)


def webhook_key(received: WebhookReceived) -> str:
    """What spreads webhooks over partitions, and brings all sendings of one event to the same."""
    return f"{received.provider}/{received.account}/{received.event_id}"


def webhook_outgoing(received: WebhookReceived) -> Outgoing:
    """The webhook as a record for its topic. The same webhook gives the same bytes."""
    key = webhook_key(received)
    value = (
        b'{"specversion":"1.0","id":%b,"source":%b,"type":%b,"partitionkey":%b,'
        b'"datacontenttype":"application/json","data":%b}'
    ) % (
        to_json(key),
        to_json(SOURCE),
        to_json(WEBHOOK_TYPE),
        to_json(key),
        received.__pydantic_serializer__.to_json(received, exclude_defaults=True),
    )
    return Outgoing(key.encode(), value, (CONTENT_TYPE,))


def read_webhook(record: Record) -> WebhookReceived | Unreadable:
    """What a record of `webhooks` says, or why it says nothing. Never raises for any bytes."""
    try:
        parse(record.value or b"", bytes_max=_RECORD_BYTES_MAX)
        received = _READER.validate_json(record.value).data
        received.raw()
    except MalformedJson as malformed:
        return Unreadable(malformed.code, str(malformed))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return Unreadable("not_an_event_of_this_topic", f"{where}: {first['msg']}")
    except (binascii.Error, ValueError) as changed:
        return Unreadable("body_changed", str(changed))
    return received
