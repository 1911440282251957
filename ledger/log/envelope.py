"""The only place that knows the bytes: CloudEvents 1.0, structured mode, one JSON document a
record.

Reads back what it wrote and refuses everything else by name. The envelope is written around the
already encoded data, which is several times faster than building and dumping one model. Kafka
headers repeat marks so that a reader may skip a record; they are never the truth. Format: the
CloudEvents Kafka protocol binding, 3.3 (structured content mode).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from ledger.core import inputs as i
from ledger.core.facts import (
    AnyFact,
    ApprovalEscalated,
    ApprovalRequested,
    AttemptStarted,
    AttemptUnresolved,
    LookupStarted,
    PreviewStarted,
    ReviewOpened,
)
from ledger.core.limits import RECORD_BYTES_MAX
from ledger.core.records import Decision, EpochOpened, Genesis, LedgerRecord
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Text, Wire
from ledger.log.port import Headers, Outgoing, Record
from ledger.log.topics import INPUT_BYTES_MAX, Topic

CONTENT_TYPE: tuple[str, bytes] = (
    "content-type",
    b"application/cloudevents+json; charset=UTF-8",
)
SOURCES_REMEMBERED = 1_024
MARKS = "marks"
"""Header of ledger records: what a skipping reader may look for, separated by blanks."""
MARK_MESSAGE = b"message"
"""Of an internal record: no tick, so it need not wait for what could answer one."""
MARK_EPOCH = b"epoch"
MARK_CONFIG = b"config"
MARK_START = b"start="
MARK_LOOKUP = b"lookup"
MARK_ATTENTION = b"attention"


class _Envelope(Wire):
    """The attributes that every event of ours bears; `time`, tracing and who signed it are the
    sender's affair and never folded.
    """

    specversion: Literal["1.0"]
    id: Text
    source: Text
    subject: Text | None = None
    partitionkey: Text | None = None
    datacontenttype: Literal["application/json"]
    time: Text | None = None
    traceparent: Text | None = None
    tracestate: Text | None = None
    correlationid: Text | None = None
    causationid: Text | None = None
    signature: Text | None = None


class _Propose(_Envelope):
    type: Literal["actionledger.intent.propose.v1"]
    data: i.Propose


class _Cancel(_Envelope):
    type: Literal["actionledger.action.cancel.v1"]
    data: i.Cancel


class _OpenSaga(_Envelope):
    type: Literal["actionledger.saga.open.v1"]
    data: i.OpenSaga


class _CancelSaga(_Envelope):
    type: Literal["actionledger.saga.cancel.v1"]
    data: i.CancelSaga


class _AskAgain(_Envelope):
    type: Literal["actionledger.approval.ask.v1"]
    data: i.AskAgain


class _Judge(_Envelope):
    type: Literal["actionledger.approval.decide.v1"]
    data: i.Judge


class _PreviewRead(_Envelope):
    type: Literal["actionledger.preview.report.v1"]
    data: i.PreviewRead


class _CallerReport(_Envelope):
    type: Literal["actionledger.caller.report.v1"]
    data: i.CallerReport


class _Report(_Envelope):
    type: Literal["actionledger.attempt.report.v1"]
    data: i.Report


class _Decline(_Envelope):
    type: Literal["actionledger.attempt.decline.v1"]
    data: i.Decline


class _Evidence(_Envelope):
    type: Literal["actionledger.evidence.report.v1"]
    data: i.Evidence


class _ReportStep(_Envelope):
    type: Literal["actionledger.step.report.v1"]
    data: i.ReportStep


class _GateAsk(_Envelope):
    type: Literal["actionledger.gate.ask.v1"]
    data: i.GateAsk


class _GateAnswer(_Envelope):
    type: Literal["actionledger.gate.answer.v1"]
    data: i.GateAnswer


class _GateKeep(_Envelope):
    type: Literal["actionledger.gate.keep.v1"]
    data: i.GateKeep


class _GateClose(_Envelope):
    type: Literal["actionledger.gate.close.v1"]
    data: i.GateClose


class _GateTaken(_Envelope):
    type: Literal["actionledger.gate.taken.v1"]
    data: i.GateTaken


class _Tick(_Envelope):
    type: Literal["actionledger.stream.tick.v1"]
    data: i.Tick


class _Publish(_Envelope):
    type: Literal["actionledger.config.publish.v1"]
    data: i.Publish


class _Offered(_Envelope):
    type: Literal["actionledger.executor.offered.v1"]
    data: i.Offered


class _Genesis(_Envelope):
    type: Literal["actionledger.genesis.recorded.v1"]
    data: Genesis


class _EpochOpened(_Envelope):
    type: Literal["actionledger.epoch.opened.v1"]
    data: EpochOpened


class _Decision(_Envelope):
    type: Literal["actionledger.decision.recorded.v1"]
    data: Decision


def _adapter(union: Any) -> TypeAdapter[_Envelope]:  # noqa: ANN401 - a union is no type
    return TypeAdapter(union)


_READERS: dict[Topic, TypeAdapter[_Envelope]] = {
    Topic.INTENTS: _adapter(
        Annotated[
            _Propose
            | _Cancel
            | _OpenSaga
            | _CancelSaga
            | _AskAgain
            | _CallerReport
            | _ReportStep
            | _Genesis,
            Field(discriminator="type"),
        ]
    ),
    Topic.ATTEMPTS: _adapter(Annotated[_Report | _Decline | _Genesis, Field(discriminator="type")]),
    Topic.EVIDENCE: _adapter(
        Annotated[_Evidence | _PreviewRead | _Genesis, Field(discriminator="type")]
    ),
    Topic.APPROVALS: _adapter(Annotated[_Judge | _Genesis, Field(discriminator="type")]),
    Topic.INTERNAL: _adapter(
        Annotated[
            _Tick | _GateAsk | _GateAnswer | _GateKeep | _GateClose | _GateTaken,
            Field(discriminator="type"),
        ]
    ),
    Topic.CONFIG: _adapter(_Publish),
    Topic.OFFERS: _adapter(_Offered),
    Topic.LEDGER: _adapter(
        Annotated[_Decision | _EpochOpened | _Genesis, Field(discriminator="type")]
    ),
}

# What the adapter's own method calls once it has looked at its many options.
_read_ledger = _READERS[Topic.LEDGER].validator.validate_json
_DOORS: dict[str, tuple[int, Callable[[bytes], _Envelope]]] = {
    topic.value: (INPUT_BYTES_MAX.get(topic, RECORD_BYTES_MAX), reader.validator.validate_json)
    for topic, reader in _READERS.items()
}

_TYPES: dict[Any, str] = {
    kind.model_fields["data"].annotation: get_args(kind.model_fields["type"].annotation)[0]
    for kind in (
        _Propose,
        _Cancel,
        _OpenSaga,
        _CancelSaga,
        _AskAgain,
        _Judge,
        _PreviewRead,
        _CallerReport,
        _Report,
        _Decline,
        _Evidence,
        _ReportStep,
        _GateAsk,
        _GateAnswer,
        _GateKeep,
        _GateClose,
        _GateTaken,
        _Tick,
        _Publish,
        _Offered,
        _Genesis,
        _EpochOpened,
        _Decision,
    )
}
_MESSAGES = frozenset(get_args(i.Message))
TYPES: tuple[str, ...] = tuple(sorted(_TYPES.values()))
"""Every event type on the wire."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a record of an inbox cannot be an input: a name and a sentence, never a trace."""

    reason: str
    detail: str


def encode(
    data: Wire,
    *,
    event_id: str,
    source: str,
    subject: str | None = None,
    partition_key: str | None = None,
) -> bytes:
    """The event as bytes. The same arguments give the same bytes."""
    head = b'{"specversion":"1.0","id":%b,%b' % (to_json(event_id), _of_kind(source, type(data)))
    if subject is not None:
        head += b'"subject":%b,' % to_json(subject)
    if partition_key is not None:
        head += b'"partitionkey":%b,' % to_json(partition_key)
    body = data.__pydantic_serializer__.to_json(data, exclude_none=True)
    return b'%b"datacontenttype":"application/json","data":%b}' % (head, body)


@lru_cache(maxsize=SOURCES_REMEMBERED)
def _of_kind(source: str, kind: type) -> bytes:
    """What is the same in every event of a kind from one writer."""
    return b'"source":%b,"type":%b,' % (to_json(source), to_json(_TYPES[kind]))


def outgoing(
    data: Wire, *, stream: str, subject: str | None, event_id: str, source: str
) -> Outgoing:
    """An input as a record for its inbox, keyed by its stream."""
    value = encode(data, event_id=event_id, source=source, subject=subject, partition_key=stream)
    if type(data) in _MESSAGES:
        return Outgoing(stream.encode(), value, (CONTENT_TYPE, (MARKS, MARK_MESSAGE)))
    return Outgoing(stream.encode(), value, (CONTENT_TYPE,))


def is_message(record: Record) -> bool:
    """Whether an internal record says that it is a message; what does not may be a tick."""
    return marks_of(record) == MARK_MESSAGE


def read_input(record: Record) -> i.Input | i.Publish | i.Offered | Genesis | Unreadable:
    """What an inbox record says, or why it says nothing. Never raises for any bytes."""
    try:
        bytes_max, read = _DOORS.get(record.topic) or _DOORS[Topic(record.topic)]
        parse(record.value, bytes_max=bytes_max)
        envelope = read(record.value)
    except MalformedJson as malformed:
        return Unreadable(malformed.code, str(malformed))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return Unreadable("not_an_event_of_this_topic", f"{where}: {first['msg']}")
    data: i.Input | i.Publish | i.Offered | Genesis = envelope.data  # type: ignore[attr-defined]
    return data


def encode_ledger(record: LedgerRecord, *, generation: str, partition: int) -> bytes:
    """A ledger record as bytes; its id is its epoch and place, so that a record written again is
    the same event.
    """
    source = f"/actionledger/{generation}/{partition}"
    match record:
        case Decision():
            return encode(
                record,
                event_id=f"{record.epoch}.{record.at}",
                source=source,
                partition_key=record.stream or None,
            )
        case EpochOpened():
            return encode(record, event_id=f"{record.epoch}.{record.at}", source=source)
        case Genesis():
            return encode(record, event_id="genesis", source=source)


def read_ledger(value: bytes) -> LedgerRecord:
    """A ledger record from its bytes. Raises ValidationError: a reader for whom the record counts
    must stop.
    """
    record: LedgerRecord = _read_ledger(value).data
    return record


def holds_nul(value: bytes) -> bool:
    """Whether a text in a record has U+0000, the one character that no column of Postgres holds. A
    backslash before `u0000` is text of the caller's.
    """
    return b"\\" in value and _NUL in value and _has_nul(from_json(value))


_NUL = b"\\u0000"


def _has_nul(value: object) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
        case list():
            return any(_has_nul(item) for item in value)
        case _:
            return False


_FACTS = b'"facts":['
_BETWEEN_FACTS = '},{"type":"'
_AFTER_FACTS = b"]}}"


def fact_texts(value: bytes, decision: Decision) -> list[str]:
    """The facts of a decision that was read from `value`, each in the text that the record has.

    Cut out of it where that is certain, which is five times faster than writing each anew: quotes
    stand bare between members only, so where there are as many pieces as facts, the cuts are right.
    """
    facts = decision.facts
    start = value.find(_FACTS)
    if start >= 0 and value.endswith(_AFTER_FACTS):
        texts = value[start + len(_FACTS) : -len(_AFTER_FACTS)].decode().split(_BETWEEN_FACTS)
        if len(texts) == len(facts):
            for place in range(1, len(texts)):
                texts[place - 1] += "}"
                texts[place] = '{"type":"' + texts[place]
            return texts
    return [
        fact.__pydantic_serializer__.to_json(fact, exclude_none=True).decode() for fact in facts
    ]


def ledger_headers(record: LedgerRecord) -> Headers:
    """The marks by which executors and the inquirer find the few records that concern them."""
    match record:
        case Decision():
            marks = [_mark(fact) for fact in record.facts if type(fact) in _MARKED]
            if record.cause.topic == Topic.CONFIG:
                marks = [MARK_CONFIG]
            return (CONTENT_TYPE, (MARKS, b" ".join(marks)))
        case Genesis() | EpochOpened():
            return (CONTENT_TYPE, (MARKS, MARK_EPOCH))


_MARKED: dict[type, bytes] = {
    AttemptStarted: MARK_START,
    LookupStarted: MARK_LOOKUP,
    PreviewStarted: MARK_LOOKUP,
    AttemptUnresolved: MARK_ATTENTION,
    ReviewOpened: MARK_ATTENTION,
    ApprovalRequested: MARK_ATTENTION,
    ApprovalEscalated: MARK_ATTENTION,
}


def _mark(fact: AnyFact) -> bytes:
    mark = _MARKED[type(fact)]
    return mark + fact.holder.encode() if isinstance(fact, AttemptStarted) else mark


def marks_of(record: Record) -> bytes | None:
    """The marks of a ledger record, or None where it bears none and must be read."""
    for name, value in record.headers:
        if name == MARKS:
            return value
    return None
