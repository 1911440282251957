"""Quarantine: records that no consumer can take are kept whole, with where they stood and why, and
what is behind them goes on.

Guarantees that a record is kept with its bytes, key and headers, so that a redrive produces the
same bytes again: identity and signature survive. Of one that has no room here as it would be
written, the beginning is kept, which says so and is never put back. Beside what was set aside
stands what was put back and by whom. Written by every consumer; read by the quarantine desk.
"""

import base64
import hashlib
from typing import Final, Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from ledger.core.limits import QUARANTINED_BEGINNING_BYTES, QUARANTINED_BYTES_MAX
from ledger.core.wire import Count, Text, Wire
from ledger.log.envelope import CONTENT_TYPE, Unreadable
from ledger.log.port import Outgoing, Record, size_of

QUARANTINED_TYPE: Final = "actionledger.record.quarantined.v1"
REDRIVEN_TYPE: Final = "actionledger.record.redriven.v1"

DETAIL_CHARS_MAX: Final = 1_000
"""What is told of why a record is set aside: it may quote the record."""


class QuarantinedRecord(Wire):
    """A record as it stood, and the reason for which it was set aside. Headers are name and base64
    of the value, in their order. `whole_bytes`, of key, value and headers, where the record had
    more than is kept here: the hash is that of its whole value.
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

    def kept(self) -> Outgoing:
        """What is kept of the record; one without a key has an empty one. Raises ValueError where
        that is damaged.
        """
        return Outgoing(
            base64.b64decode(self.key_base64 or "", validate=True),
            base64.b64decode(self.value_base64, validate=True),
            tuple(
                (name, base64.b64decode(text, validate=True)) for name, text in self.headers_base64
            ),
        )

    @property
    def kept_bytes(self) -> int:
        """How many bytes of key, value and headers that are."""
        texts = [self.key_base64 or "", self.value_base64]
        texts += [text for _, text in self.headers_base64]
        names = sum(len(name.encode()) for name, _ in self.headers_base64)
        return names + sum(len(text) * 3 // 4 - text[-2:].count("=") for text in texts)

    def original(self) -> Outgoing:
        """The record as it stood. Raises ValueError where what is kept is not what was set aside,
        or not all of it.
        """
        if self.whole_bytes is not None:
            raise ValueError(f"of its {self.whole_bytes} bytes only the beginning is kept")
        kept = self.kept()
        if sha256_of(kept.value) != self.sha256:
            raise ValueError("the bytes do not have the hash under which they were set aside")
        return kept


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
    there whatever it was. A header without a value counts as one with an empty value.
    """
    headers = tuple((name, value or b"") for name, value in record.headers)
    stood = Outgoing(record.key or b"", record.value or b"", headers)
    if _has_room(stood):
        sent = _sent(record, reason, detail, stood)
        if size_of(sent) <= QUARANTINED_BYTES_MAX:
            return sent
    beginning = Outgoing(
        stood.key[:QUARANTINED_BEGINNING_BYTES], stood.value[:QUARANTINED_BEGINNING_BYTES]
    )
    return _sent(record, reason, detail, beginning, whole_bytes=size_of(stood))


def _has_room(stood: Outgoing) -> bool:
    """Whether a record may fit whole; of one for which that is certain nothing need be written out
    to see that it does not. No text holds a header name that is not UTF-8.
    """
    least_bytes = len(stood.headers) * len('["",""]') + size_of(stood)
    return least_bytes <= QUARANTINED_BYTES_MAX and all(
        not any("\ud800" <= char <= "\udfff" for char in name)
        for name, _ in stood.headers
        if not name.isascii()
    )


def _sent(
    record: Record, reason: str, detail: str, kept: Outgoing, *, whole_bytes: int | None = None
) -> Outgoing:
    body = QuarantinedRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=reason,
        detail=detail[:DETAIL_CHARS_MAX].encode(errors="backslashreplace").decode(),
        sha256=sha256_of(record.value),
        key_base64=None if record.key is None else _base64(kept.key),
        value_base64=_base64(kept.value),
        headers_base64=tuple((name, _base64(value)) for name, value in kept.headers),
        whole_bytes=whole_bytes,
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
