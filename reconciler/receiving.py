"""What is done with webhooks that were received: read, understood, matched, told to the ledger,
recorded.

Guarantees for every record of a batch, in this order: what cannot be read stands whole on the topic
`quarantine`; what matches an action is durable on `evidence`; then all of it is a row. So a crash
anywhere repeats and never loses, and repeats count once. A fault of ours in one record sets that
record aside and lets the others go on. Trouble with Kafka or Postgres is raised, nothing of the
batch is to be acknowledged then, and the whole batch may be handled again.

Must never ask a provider or decide anything about an action. Called by the webhook agent.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeAlias

import asyncpg

from ledger.core.errors import LedgerError
from ledger.log.crashpoints import crash_point
from ledger.log.envelope import Unreadable
from ledger.log.port import Outgoing, Record
from ledger.log.quarantine import quarantined
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.webhook_record import WebhookReceived, read_webhook
from reconciler.evidence import tellable, webhook_evidence, webhook_record
from reconciler.limits import ACQUIRE_SECONDS
from reconciler.matching import (
    Match,
    Matched,
    Parked,
    ParkedReason,
    match_webhook,
    shared_of,
)
from reconciler.orphan_notes import read_note
from reconciler.parking import (
    Connection,
    Decided,
    EventName,
    Position,
    Reference,
    WebhookRow,
    known_keys,
    known_of,
    named_actions,
    note_orphan,
    record_webhooks,
)
from reconciler.providers.port import MappedWebhook, Unrecognised, WebhookMapping
from reconciler.receiving_log import kind_of, log_batch
from reconciler.settled_lines import Moved, settled_lines
from reconciler.statement_lines import STATEMENTS, changed_event_id, map_statement
from reconciler.statement_matching import NamedAction, Said, match_named, match_statement
from reconciler.topic_identity import TopicMadeAnewError, require_same_rows
from reconciler.webhook_meaning import (
    STATEMENT_MAPPING_HASH,
    Noted,
    Understood,
    mapping_hash,
    understood,
)
from reconciler.windows import WebhookWindow

logger = logging.getLogger("actionledger")

FAULT = "handling_failed"
"""The reason in quarantine of a record on which our own code failed."""


TOLD_AHEAD: Final = "told_ahead"
"""What became of a webhook whose evidence is told while the tables do not have its action."""


def is_trouble(failure: BaseException) -> bool:
    """Whether a failure is the surroundings' and may pass, rather than this record's; another topic
    under the same name does not.

    What Postgres cannot store is the record's: asyncpg says so with a ValueError beside its own
    error, Postgres with a data or constraint error, or that it is too long for an index. An error
    of the connection is not, though one of a certificate is a ValueError as well.
    """
    match failure:
        case TopicMadeAnewError():
            return False
        case OSError() | asyncpg.ClientConfigurationError():
            return True
        case ValueError() | asyncpg.DataError() | asyncpg.IntegrityConstraintViolationError():
            return False
        case asyncpg.ProgramLimitExceededError():
            return False
        case LedgerError() | asyncpg.PostgresError() | asyncpg.InterfaceError():
            return True
        case asyncpg.InternalClientError():
            # A connection was lost in the moment in which it was given back to its pool.
            return True
        case _:
            return False


_Known: TypeAlias = Mapping[Reference, tuple[str, ...]]
"""Action keys by a name, or a key, that a provider has for them."""


_Rowed: TypeAlias = tuple[Position, bool]
"""What has a row now, and whether that was made by this."""


class WebhookDesk:
    """Takes webhooks to where they belong, a batch at a time."""

    def __init__(
        self,
        appender: SteadyAppender,
        pool: asyncpg.Pool,
        mappings: Mapping[str, WebhookMapping],
        *,
        partitions: int,
        now_ms: Callable[[], int],
        shared_accounts: frozenset[tuple[str, str]] = frozenset(),
        window: WebhookWindow | None = None,
    ) -> None:
        """`mappings` by the provider's name; `shared_accounts` are those that others write to,
        each with its provider's name; `window` is shown what became of each.
        """
        self._appender = appender
        self._pool = pool
        self._mappings = mappings
        self._hashes = {name: mapping_hash(mapping) for name, mapping in mappings.items()}
        self._partitions = partitions
        self._now_ms = now_ms
        self._shared = {
            provider: shared_of(provider, shared_accounts) for provider, _ in shared_accounts
        }
        self._window = WebhookWindow() if window is None else window

    async def handle(self, records: Sequence[Record]) -> list[Position]:
        """Take a batch to its end; what of it has a row. Raises trouble of the surroundings only,
        see `is_trouble`, and TopicMadeAnewError.
        """
        return [place for place, _ in await self._each(records, is_again=False)]

    async def handle_again(self, records: Sequence[Record]) -> int:
        """Take a batch to its end that was before; how many rows that has made. What cannot be
        handled was set aside then, and is not again; the window has counted all of it. Raises what
        `handle` does.
        """
        return sum(is_made for _, is_made in await self._each(records, is_again=True))

    async def _each(self, records: Sequence[Record], *, is_again: bool) -> list[_Rowed]:
        crash_point("webhooks_taken")
        try:
            return await self._handle(records, is_again=is_again)
        except Exception as failure:
            if is_trouble(failure) or isinstance(failure, TopicMadeAnewError):
                raise
            if len(records) == 1:
                if not is_again:
                    await self._set_aside(records[0], FAULT, repr(failure))
                logger.exception("webhook_fault", extra=_place(records[0]))
                return []
        # One record at a time tells the one at fault from those beside it.
        return [
            rowed for record in records for rowed in await self._each([record], is_again=is_again)
        ]

    async def _handle(self, records: Sequence[Record], *, is_again: bool) -> list[_Rowed]:
        read = [self._understand(record) for record in records]
        for record, one in zip(records, read, strict=True):
            if isinstance(one, Unreadable) and not is_again:
                await self._set_aside(record, one.reason, one.detail)
        taken = [one for one in read if isinstance(one, Understood)]
        made = await self._take(taken, is_again=is_again) if taken else []
        notes = [one for one in read if isinstance(one, Noted)]
        if notes:
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                for one in notes:
                    await note_orphan(connection, one.orphan, one.note, one.noted_at)
        return made

    async def judge(self, record: Record) -> WebhookRow | None:
        """What a record is by the mappings and the references of this moment; None for one that
        cannot be read or is a note. Nothing is told, written or set aside.
        """
        received = read_webhook(record)
        if isinstance(received, Unreadable) or received.source == "note":
            return None
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            rows, _ = await self._judged(connection, [self._understood(record, received)])
        return rows[0]

    async def _judged(
        self, connection: Connection, taken: Sequence[Understood]
    ) -> tuple[list[WebhookRow], Mapping[EventName, Decided]]:
        """The row of each, and the rows that decide for their events already."""
        known = await known_of(
            connection,
            references={one.reference for one in taken if one.reference is not None},
            events={one.event for one in taken},
            action_keys={key for one in taken for key in one.claimed},
        )
        keyed = await known_keys(connection, {one.key for one in taken if one.key is not None})
        matches = [self._match(one, known.references, keyed) for one in taken]
        # Those that only a reference, or the key at the provider, names.
        others = {one.action_key for one in matches if isinstance(one, Matched)}
        others = others.difference(*(one.claimed for one in taken))
        actions = known.actions | await named_actions(connection, others)
        moved = _moved(taken, matches, known.decided)
        settled = await settled_lines(connection, moved)
        return self._rows(taken, matches, actions, known.decided, settled), known.decided

    async def _take(self, taken: Sequence[Understood], *, is_again: bool) -> list[_Rowed]:
        """Tell and record them."""
        # One connection, so that nothing is asked of the pool or given back to it in between.
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            rows, decided = await self._judged(connection, taken)
            await self._tell(rows, taken, decided)
            crash_point("webhook_evidence_acked")
            repeated, had = await record_webhooks(connection, rows)
            if had:
                await require_same_rows(connection, [row for row in rows if row.position in had])
        crash_point("webhook_rows_written")
        log_batch(rows, repeated)
        if not is_again:
            self._count(rows, repeated)
        return [(row.position, row.position not in had) for row in rows]

    def _count(self, rows: Sequence[WebhookRow], repeated: Collection[Position]) -> None:
        now_ms = self._now_ms()
        for row in rows:
            became = "repeated" if row.position in repeated else _became(row.match)
            is_told = became in {"matched", TOLD_AHEAD}
            waited_ms = max(0, now_ms - row.received_at) if is_told else None
            self._window.add(
                row.receipt.provider, became, now_ms=now_ms, matched_after_ms=waited_ms
            )

    def _understand(self, record: Record) -> Understood | Noted | Unreadable:
        """Read a record and ask its provider's mapping."""
        received = read_webhook(record)
        if isinstance(received, Unreadable):
            return received
        if received.source == "note":
            note = read_note(received.raw())
            if isinstance(note, str):
                return Unreadable("not_a_note", note)
            orphan = EventName(received.provider, received.account, received.event_id)
            return Noted(orphan, note, received.sent_at)
        return self._understood(record, received)

    def _understood(self, record: Record, received: WebhookReceived) -> Understood:
        mapped, mapped_by = self._meaning(received)
        return understood(record, received, mapped, mapped_by)

    def _meaning(self, received: WebhookReceived) -> tuple[MappedWebhook | Unrecognised, str]:
        """What it means, by the mapping for the way it came, and that mapping's hash."""
        if received.source in STATEMENTS:
            mapped = map_statement(received.raw(), source=received.source, account=received.account)
            return tellable(mapped), STATEMENT_MAPPING_HASH
        mapping = self._mappings.get(received.provider)
        if mapping is None:
            return Unrecognised("provider_unknown"), "none"
        return tellable(mapping.map(received.raw())), self._hashes[received.provider]

    async def _set_aside(self, record: Record, reason: str, detail: str) -> None:
        outgoing = quarantined(record, reason=reason, detail=detail)
        await self._appender.append(Topic.QUARANTINE, record.partition, [outgoing])
        logger.error("webhook_quarantined", extra={**_place(record), "reason": reason})

    def _match(self, one: Understood, known: _Known, keyed: _Known) -> Match:
        reference, key = one.reference, one.key
        return match_webhook(
            one.mapped,
            account=one.received.account,
            known=() if reference is None else known.get(reference, ()),
            keyed=() if key is None else keyed.get(key, ()),
            shared=self._shared.get(one.received.provider, frozenset()),
        )

    def _rows(
        self,
        taken: Sequence[Understood],
        matches: Sequence[Match],
        actions: Mapping[str, NamedAction],
        decided: Mapping[EventName, Decided],
        settled: Mapping[Position, Said],
    ) -> list[WebhookRow]:
        """The rows of a batch in its order: of two lines under one id the first one decides, and of
        two webhooks each for itself where they say different things. `settled` has what settled a
        moving line before this batch; within it the first that does counts.
        """
        rows = []
        said = {event: one.said for event, one in decided.items()}
        settled_here: dict[EventName, Said] = {}
        for one, match in zip(taken, matches, strict=True):
            known = decided.get(one.event)
            is_this = known is not None and known.position == one.position
            before = None if is_this else said.get(one.event)
            ended = settled.get(one.position) or settled_here.get(one.event)
            row = self._row(one, match, actions, before, ended)
            rows.append(row)
            if one.said is not None:
                said.setdefault(one.event, one.said)
                if _settles(row, one.said, before):
                    settled_here.setdefault(one.event, one.said)
        return rows

    def _row(
        self,
        one: Understood,
        match: Match,
        actions: Mapping[str, NamedAction],
        before: Said | None,
        settled: Said | None,
    ) -> WebhookRow:
        event_id = one.event.event_id
        action = actions.get(match.action_key) if isinstance(match, Matched) else None
        provider, account = one.received.provider, one.received.account
        if not isinstance(one.mapped, MappedWebhook):
            pass
        elif not one.is_statement:
            match = match_named(
                match, one.mapped, provider=provider, account=account, action=action
            )
            if before is not None and before != one.said:
                event_id = changed_event_id(event_id, one.received.sha256)
        else:
            match = match_statement(
                match,
                one.mapped,
                provider=provider,
                action=action,
                before=before,
                settled=settled,
            )
            if before is not None and before != one.said:
                event_id = changed_event_id(event_id, one.received.sha256)
        return WebhookRow(
            receipt=one.receipt,
            event_id=event_id,
            received_at=one.record.timestamp,
            mapping_hash=one.mapping_hash,
            mapped=one.mapped,
            match=match,
            matched_at=self._now_ms(),
            fact=one.fact,
        )

    async def _tell(
        self,
        rows: Sequence[WebhookRow],
        taken: Sequence[Understood],
        decided: Mapping[EventName, Decided],
    ) -> None:
        """Append the evidence of what was not told before, all partitions at once."""
        by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
        told = set(decided)
        for row, one in zip(rows, taken, strict=True):
            named, event = _told(row.match), one.event
            if row.event_id != event.event_id:
                event = event._replace(event_id=row.event_id)
            if event in told or named is None:
                continue
            if isinstance(row.mapped, MappedWebhook):
                told.add(event)
                evidence = webhook_evidence(
                    named, row.mapped, row.receipt, event_id=row.event_id, fact=one.fact
                )
                placed = webhook_record(evidence, row.receipt, self._partitions)
                by_partition[placed.partition].append(placed.record)
        appends = [
            self._appender.append(Topic.EVIDENCE, partition, records)
            for partition, records in by_partition.items()
        ]
        # All are awaited before the first failure is told, so that none lands behind our back.
        for outcome in await asyncio.gather(*appends, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome


def _moved(
    taken: Sequence[Understood], matches: Sequence[Match], decided: Mapping[EventName, Decided]
) -> list[Moved]:
    """The lines of a batch whose id another content has already, one that was moving: what settled
    each is asked for.
    """
    found = []
    for one, match in zip(taken, matches, strict=True):
        known = decided.get(one.event)
        if not one.is_statement or one.said is None or known is None:
            continue
        if _is_moving(known.said) and not _is_moving(one.said):
            action_key = match.action_key if isinstance(match, Matched) else None
            found.append(Moved(one.position, one.event, action_key, one.said.reference))
    return found


def _settles(row: WebhookRow, said: Said, before: Said | None) -> bool:
    """Whether a line is the settled content of one that was moving, and no contradiction of it."""
    is_changed = row.match == Parked(ParkedReason.LINE_CHANGED)
    return before is not None and _is_moving(before) and not _is_moving(said) and not is_changed


def _is_moving(said: Said) -> bool:
    return said.effect == "pending"


def _told(match: Match) -> Matched | None:
    """The action that the ledger is told of, where it does not hold all of it already."""
    match match:
        case Matched(is_known=False):
            return match
        case Parked(told=told):
            return told
        case _:
            return None


def _became(match: Match) -> str:
    """What is counted: that the tables are behind, or have no such action, is no orphan yet."""
    if isinstance(match, Parked) and match.told is not None:
        return TOLD_AHEAD
    return kind_of(match)


def _place(record: Record) -> dict[str, object]:
    return {"topic": record.topic, "partition": record.partition, "offset": record.offset}
