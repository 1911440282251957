"""Quarantine: records that no consumer can take are kept whole, with where they stood and why, and
what is behind them goes on.

Guarantees that a record is kept with its bytes, key and headers, so that a redrive produces the
same bytes again: identity and signature survive. Of one that no topic takes uncompressed the
beginning is kept, which says so and is never put back. Beside what was set aside stands what was
put back and by whom. Written by every consumer; read by the quarantine desk.
"""

import base64
import hashlib
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from ledger.core.limits import QUARANTINED_BEGINNING_BYTES, QUARANTINED_BYTES_MAX
from ledger.core.wire import Count, Text, Wire
from ledger.log.envelope import CONTENT_TYPE, Unreadable
from ledger.log.port import Headers, Outgoing, Record

QUARANTINED_TYPE: Final = "actionledger.record.quarantined.v1"
REDRIVEN_TYPE: Final = "actionledger.record.redriven.v1"

_DETAIL_CHARS_MAX: Final = 1_000


class QuarantinedRecord(Wire):
    """A record as it stood, and the reason for which it was set aside. Headers are name and base64
    of the value, in their order. `whole_bytes` where the record had more than is kept here: the
    hash is that of its whole value.
    """

    topic: Text
    partition: Count
    offset: Count
    reason: Text
    detail: str
    sha256: Text
    key_base64: str | None = None
    value_base64: str
    headers_base64: tuple[tuple[str, str], ...] = ()
    whole_bytes: Count | None = None

    @property
    def place(self) -> str:
        """Where it stood: the name under which it is found again."""
        return place_of(self.topic, self.partition, self.offset)

    def original(self) -> Outgoing:
        """The record as it stood; one without a key has an empty one. Raises ValueError where what
        is kept is not what was set aside, or not all of it.
        """
        if self.whole_bytes is not None:
            raise ValueError(f"of its {self.whole_bytes} bytes only the beginning is kept")
        value = base64.b64decode(self.value_base64, validate=True)
        if sha256_of(value) != self.sha256:
            raise ValueError("the bytes do not have the hash under which they were set aside")
        key = base64.b64decode(self.key_base64 or "", validate=True)
        headers = tuple(
            (name, base64.b64decode(text, validate=True)) for name, text in self.headers_base64
        )
        return Outgoing(key, value, headers)


class RedrivenRecord(Wire):
    """A quarantined record that was put back where it came from: by whom, and at which offset it
    stands there now.
    """

    topic: Text
    partition: Count
    offset: Count
    sha256: Text
    by: Text
    redriven_to: Count

    @property
    def place(self) -> str:
        """Where the record stood that was set aside."""
        return place_of(self.topic, self.partition, self.offset)


class _Envelope(Wire):
    specversion: Literal["1.0"]
    id: Text
    source: Text
    datacontenttype: Literal["application/json"]


class _Quarantined(_Envelope):
    type: Literal["actionledger.record.quarantined.v1"]
    data: QuarantinedRecord


class _Redriven(_Envelope):
    type: Literal["actionledger.record.redriven.v1"]
    data: RedrivenRecord


_READER: Final[TypeAdapter[_Quarantined | _Redriven]] = TypeAdapter(_Quarantined | _Redriven)


def place_of(topic: str, partition: int, offset: int) -> str:
    """A place in the log as people write it: `intents/3/17`."""
    return f"{topic}/{partition}/{offset}"


def sha256_of(value: bytes | None) -> str:
    """The hash by which a quarantined record is found again; a record without a value counts as
    empty.
    """
    return hashlib.sha256(value or b"").hexdigest()


def quarantined(record: Record, *, reason: str, detail: str) -> Outgoing:
    """The record for the quarantine topic, keyed by the position it was read from: one that fits
    there whatever it was.
    """
    key, value, headers = record.key, record.value or b"", record.headers
    whole_bytes = len(key or b"") + len(value)
    whole_bytes += sum(len(name.encode(errors="surrogatepass")) + len(raw) for name, raw in headers)
    is_whole = whole_bytes <= QUARANTINED_BYTES_MAX
    if not is_whole:
        key = None if key is None else key[:QUARANTINED_BEGINNING_BYTES]
        value, headers = value[:QUARANTINED_BEGINNING_BYTES], ()
    body = QuarantinedRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=reason,
        detail=detail[:_DETAIL_CHARS_MAX].encode(errors="backslashreplace").decode(),
        sha256=sha256_of(record.value),
        key_base64=None if key is None else _base64(key),
        value_base64=_base64(value),
        headers_base64=_headers(headers),
        whole_bytes=None if is_whole else whole_bytes,
    )
    return _outgoing(body.place, body.place, QUARANTINED_TYPE, body)


def redriven(entry: QuarantinedRecord, *, by: str, redriven_to: int) -> Outgoing:
    """The record for the quarantine topic that says what was put back."""
    body = RedrivenRecord(
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        sha256=entry.sha256,
        by=by,
        redriven_to=redriven_to,
    )
    return _outgoing(body.place, f"{body.place}.{redriven_to}", REDRIVEN_TYPE, body)


def read_quarantine(record: Record) -> QuarantinedRecord | RedrivenRecord | Unreadable:
    """What a record of the quarantine topic says, or why it says nothing. Never raises for any
    bytes.
    """
    try:
        # Not strictly: what is kept here may be as strange as what it was kept from.
        return _READER.validate_json(record.value).data
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        return Unreadable("not_an_event_of_this_topic", first["msg"])


def _outgoing(key: str, event_id: str, kind: str, body: Wire) -> Outgoing:
    value = b'{"specversion":"1.0","id":%b,"source":"/actionledger","type":%b,' % (
        to_json(event_id),
        to_json(kind),
    )
    data = body.__pydantic_serializer__.to_json(body, exclude_defaults=True)
    value += b'"datacontenttype":"application/json","data":%b}' % data
    return Outgoing(key.encode(), value, (CONTENT_TYPE,))


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _headers(headers: Headers) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.encode(errors="backslashreplace").decode(), _base64(value)) for name, value in headers
    )
