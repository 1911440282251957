"""Quarantine: records that no consumer can take are kept whole, with where they stood and why, and
what is behind them goes on.

Redriving produces the same bytes again, so identity and signature survive.
"""

import base64
import hashlib

from ledger.core.wire import Count, Text, Wire
from ledger.log.envelope import CONTENT_TYPE
from ledger.log.port import Outgoing, Record

QUARANTINED_TYPE = "actionledger.record.quarantined.v1"


class QuarantinedRecord(Wire):
    """A record as it stood, and the reason for which it was set aside."""

    topic: Text
    partition: Count
    offset: Count
    reason: Text
    detail: str
    sha256: Text
    key_base64: str | None
    value_base64: str


def sha256_of(value: bytes | None) -> str:
    """The hash by which a quarantined record is found again; a record without a value counts as
    empty.
    """
    return hashlib.sha256(value or b"").hexdigest()


def quarantined(record: Record, *, reason: str, detail: str) -> Outgoing:
    """The record for the quarantine topic, keyed by the position it was read from."""
    body = QuarantinedRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        reason=reason,
        detail=detail[:1_000],
        sha256=sha256_of(record.value),
        key_base64=None if record.key is None else base64.b64encode(record.key).decode(),
        value_base64=base64.b64encode(record.value or b"").decode(),
    )
    position = f"{record.topic}/{record.partition}/{record.offset}"
    value = b'{"specversion":"1.0","id":"%b","source":"/actionledger","type":"%b",' % (
        position.encode(),
        QUARANTINED_TYPE.encode(),
    )
    value += b'"datacontenttype":"application/json","data":%b}' % body.model_dump_json().encode()
    return Outgoing(position.encode(), value, (CONTENT_TYPE,))
