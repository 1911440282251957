"""What needs eyes: low-volume copies of a few facts on the topic `attention`, derived, never
authoritative.

Guarantees that a fact is told under the same id however often it is told: the id is its place in
the ledger. Losing one loses nothing but a notice; the ledger and the read models have it all.
Written by the inquirer, read by the attention agent and by whoever alerts people.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import to_json

from ledger.core.money import Money
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Count, Milliseconds, Text, Wire
from ledger.log.envelope import CONTENT_TYPE, Unreadable
from ledger.log.port import Outgoing, Record

ATTENTION_TYPE: Final = "actionledger.attention.raised.v1"


class AttentionKind(StrEnum):
    """What happened that somebody may want to see."""

    BECAME_UNKNOWN = "became_unknown"
    SETTLED = "settled"
    NEEDS_REVIEW = "needs_review"
    APPROVAL_REQUESTED = "approval_requested"
    APPROVAL_ESCALATED = "approval_escalated"


class PeopleWanted(Wire):
    """Who may decide about an action, and what is known of it here. `groups` empty: anybody who may
    for its tenant. `target` was chosen by an agent.
    """

    round: Count | None = None
    groups: tuple[Text, ...]
    quorum: Count | None = None
    expires_at: Milliseconds | None = None
    money: Money | None = None
    target: Text | None = None


class AttentionRaised(Wire):
    """A fact of the ledger as a notice. `code` says why unknown, how settled, what to review, or by
    which row people are asked; `ordinal` is the fact's place in its decision.
    """

    kind: Annotated[AttentionKind, Field(strict=False)]
    action: Text
    stream: Text
    version: Count
    code: Text
    decided_at: Milliseconds
    ledger_partition: Count
    ledger_offset: Count
    ordinal: Count
    people: PeopleWanted | None = None


class _Envelope(Wire):
    specversion: Literal["1.0"]
    id: Text
    source: Text
    type: Literal["actionledger.attention.raised.v1"]
    subject: Text
    partitionkey: Text
    datacontenttype: Literal["application/json"]
    data: AttentionRaised


_READER: Final[TypeAdapter[_Envelope]] = TypeAdapter(_Envelope)


@dataclass(frozen=True, slots=True)
class Notice:
    """A record for the topic, with the partition it belongs to: that of its stream."""

    partition: int
    record: Outgoing


def attention_notice(raised: AttentionRaised) -> Notice:
    """The notice as a record, on the partition its stream has in the ledger."""
    event_id = f"{raised.ledger_partition}/{raised.ledger_offset}/{raised.ordinal}"
    value = (
        b'{"specversion":"1.0","id":%b,"source":"/actionledger/inquirer","type":%b,"subject":%b,'
        b'"partitionkey":%b,"datacontenttype":"application/json","data":%b}'
    ) % (
        to_json(event_id),
        to_json(ATTENTION_TYPE),
        to_json(raised.action),
        to_json(raised.stream),
        raised.__pydantic_serializer__.to_json(raised, exclude_none=True),
    )
    record = Outgoing(raised.stream.encode(), value, (CONTENT_TYPE,))
    return Notice(raised.ledger_partition, record)


def read_attention(record: Record) -> AttentionRaised | Unreadable:
    """What a record of `attention` says, or why it says nothing. Never raises for any bytes."""
    try:
        parse(record.value or b"")
        return _READER.validate_json(record.value).data
    except MalformedJson as malformed:
        return Unreadable(malformed.code, str(malformed))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return Unreadable("not_an_event_of_this_topic", f"{where}: {first['msg']}")
