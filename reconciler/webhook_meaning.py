"""What a record of the topic `webhooks` says: its place, what its provider's mapping made of it,
and the names by which it is looked up.

Guarantees that each name is found out once, whoever asks for it, and that the hash of what gave a
record its meaning changes with that code. Must never look at a table. Used by the webhook desk.
"""

import hashlib
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from ledger.core.ids import is_action_key
from ledger.log.port import Record
from ledger.log.webhook_record import WebhookReceived
from reconciler import statement_lines
from reconciler.evidence import Receipt
from reconciler.orphan_notes import OrphanNote
from reconciler.parking import EventName, Position, Reference
from reconciler.providers.events import DescribedMapping
from reconciler.providers.port import MappedWebhook, Unrecognised, WebhookMapping
from reconciler.repeats import fact_of
from reconciler.statement_lines import STATEMENTS
from reconciler.statement_matching import Said, said_by


def _hash_of(code: ModuleType | type, described: str = "") -> str:
    source = inspect.getsource(code) + described
    return f"sha256:{hashlib.sha256(source.encode()).hexdigest()}"


def mapping_hash(mapping: WebhookMapping) -> str:
    """The hash of what gives a provider's webhooks their meaning: code, and a description where the
    code reads one.
    """
    described = mapping.described if isinstance(mapping, DescribedMapping) else ""
    return _hash_of(inspect.getmodule(type(mapping)) or type(mapping), described)


STATEMENT_MAPPING_HASH: Final = _hash_of(statement_lines)
"""The same for lines of settlement files and listings: one mapping reads those of all providers."""


@dataclass(slots=True)
class Understood:
    """A record that could be read, with what the mapping made of it. `event` is what the provider
    names it by, `reference` the provider's name for the effect, `key` the key that the provider was
    given where that names no action, `claimed` the keys of actions that it bears, `said` its
    content and `fact` the hash of what happened; each None, or empty, where there is none.
    """

    record: Record
    received: WebhookReceived
    receipt: Receipt
    mapped: MappedWebhook | Unrecognised
    mapping_hash: str
    event: EventName
    reference: Reference | None = None
    key: Reference | None = None
    claimed: tuple[str, ...] = ()
    said: Said | None = None
    fact: str | None = None

    @property
    def position(self) -> Position:
        """Where the record stands."""
        return Position(self.receipt.partition, self.receipt.offset)

    @property
    def is_statement(self) -> bool:
        """Whether it is a line of a settlement file or of a listing."""
        return self.received.source in STATEMENTS


@dataclass(frozen=True, slots=True)
class Noted:
    """An operator's word on an orphan."""

    orphan: EventName
    note: OrphanNote
    noted_at: int


def understood(
    record: Record,
    received: WebhookReceived,
    mapped: MappedWebhook | Unrecognised,
    mapped_by: str,
) -> Understood:
    """A record with what its mapping says; `mapped_by` is the hash of that mapping."""
    provider, account, source = received.provider, received.account, received.source
    receipt = Receipt(provider, account, record.partition, record.offset, received.sha256, source)
    if isinstance(mapped, Unrecognised):
        event = EventName(provider, account, received.event_id)
        return Understood(record, received, receipt, mapped, mapped_by, event)
    names, given = mapped.names, mapped.provider_key
    marks = (mapped.action_key, given)
    claimed = tuple(mark for mark in marks if mark is not None and is_action_key(mark))
    return Understood(
        record,
        received,
        receipt,
        mapped,
        mapped_by,
        event=EventName(provider, account, mapped.event_id),
        reference=None if names is None else Reference(provider, account, names),
        key=None if given is None or given in claimed else Reference(provider, account, given),
        claimed=claimed,
        said=said_by(mapped),
        fact=fact_of(mapped, source),
    )
