"""An operator's word on an effect that is nobody's: an event on the topic `webhooks`, beside the
line that it is about.

Guarantees that who looked, when, and what they say stays in the log, and that it changes nothing
but a list: the line stays parked and is matched the day its action appears. Must never settle or
decide anything about an action; that takes a signature. Written by the command line in the
receiver's role, read by the webhook agent.
"""

from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError

from ledger.core.canonical import canonicalize
from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Wire
from ledger.log.webhook_record import WebhookReceived
from reconciler.limits import NOTE_CHARS_MAX


class OrphanNote(Wire):
    """Who says what about the orphan that the record's event id names."""

    by: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS_MAX)]
    note: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS_MAX)]


_READER: Final[TypeAdapter[OrphanNote]] = TypeAdapter(OrphanNote)


def note_received(
    note: OrphanNote, *, provider: str, account: str, event_id: str, at_ms: int
) -> WebhookReceived:
    """The record of a note; it comes behind the line that it is about, on the same partition."""
    return WebhookReceived.of(
        canonicalize(note.model_dump()),
        provider=provider,
        account=account,
        event_id=event_id,
        sent_at=at_ms,
        headers={},
        source="note",
    )


def read_note(raw: bytes) -> OrphanNote | str:
    """The note in the body of a record, or why there is none. Never raises for any bytes."""
    try:
        parse(raw)
        return _READER.validate_json(raw)
    except MalformedJson as malformed:
        return str(malformed)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
