"""The stream of webhooks behind the door: the matcher, which turns each into evidence, and the rows
that say what became of it.

What a webhook is and whose is the product's to say; the shell around it may lose an event for good,
as a worker does that goes on past one, or whose offset was committed before anything came of it.
Where that may happen webhooks name an effect as their provider does, and wait parked until the
ledger knows the name.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ledger.core.money import Money
from ledger.log.port import Appended, Record
from ledger.log.topics import Topic
from projections.rows import REFERENCES
from reconciler.evidence import Placed, Receipt, webhook_evidence, webhook_record
from reconciler.matching import AWAITS_REFERENCE, Match, Matched, Parked, match_webhook
from reconciler.providers.port import MappedWebhook
from tests.simulation.processes import Process
from tests.simulation.readmodel import ReadModel
from tests.simulation.world import World

EVIDENCE, WEBHOOKS = Topic.EVIDENCE.value, Topic.WEBHOOKS.value
PROVIDER: Final = "simulated"


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """One webhook, and whose it is by what was known under its name."""

    receipt: Receipt
    mapped: MappedWebhook
    match: Match

    @classmethod
    def of(cls, receipt: Receipt, mapped: MappedWebhook, known: Collection[str]) -> "WebhookRow":
        """What it is now."""
        match = match_webhook(mapped, account=receipt.account, known=known)
        return cls(receipt, mapped, match)

    @property
    def awaits_reference(self) -> bool:
        """Whether it is parked until the ledger knows the name."""
        return isinstance(self.match, Parked) and self.match.reason in AWAITS_REFERENCE

    def evidence(self, partitions: int) -> Placed | None:
        """What the ledger is to hear of it, if it is somebody's."""
        if not isinstance(self.match, Matched):
            return None
        evidence = webhook_evidence(self.match, self.mapped, self.receipt)
        return webhook_record(evidence, self.receipt, partitions)


@dataclass(slots=True)
class WebhookRows:
    """The table of webhooks, beside what projectors know; and how far the stream was committed."""

    model: ReadModel
    rows: dict[int, WebhookRow] = field(default_factory=dict)
    committed: int = 0
    _done: set[int] = field(default_factory=set)

    def known(self, account: str, mapped: MappedWebhook) -> tuple[str, ...]:
        """The actions whose effect has this name, as far as that was projected."""
        there = self.model.live.rows.get(REFERENCES.name, {})
        return tuple(str(key[2]) for key in there if key[:2] == (account, mapped.names))

    def matchable(self) -> list[WebhookRow]:
        """What is parked under a name that is known by now, as it is by that."""
        return [
            WebhookRow.of(row.receipt, row.mapped, known)
            for row in self.rows.values()
            if row.awaits_reference and (known := self.known(row.receipt.account, row.mapped))
        ]

    def record(self, row: WebhookRow) -> None:
        """Write down what became of one, after its evidence is durable; what was matched stays."""
        before = self.rows.get(row.receipt.offset)
        if before is None or before.awaits_reference:
            self.rows[row.receipt.offset] = row

    def done(self, offset: int) -> None:
        """Nothing is to be done about a record any more: commit as far as all before it are."""
        self._done.add(offset)
        while self.committed in self._done:
            self.committed += 1


class Matcher(Process):
    """Turns webhooks into evidence. One that ends begins again with everything that was kept, or
    where rows are kept, at what was committed.
    """

    def __init__(self, world: World, number: int, rows: WebhookRows | None = None) -> None:
        super().__init__(world, "matcher", number)
        self._rows = rows
        self._next = 0 if rows is None else rows.committed
        self.listen(WEBHOOKS, self._heard)
        self._heard(0)

    def _heard(self, _partition: int) -> None:
        self.after(self.world.soon(), self._read)

    def _read(self) -> None:
        for record in self.world.log.read(WEBHOOKS, 0, self._next):
            self._next = record.offset + 1
            self.after(self.world.soon(), partial(self._match, record))

    def _match(self, record: Record) -> None:
        if self._rows is not None and self._is_missed(self._rows, record.offset):
            return
        receipt, mapped = _understood(record)
        known = () if self._rows is None else self._rows.known(receipt.account, mapped)
        row = WebhookRow.of(receipt, mapped, known)
        self.trace(f"webhook {mapped.event_id} is {row.match}")
        placed, told = row.evidence(self.world.partitions), partial(self._told, row)
        if placed is None:
            told([])
        else:
            self.send(EVIDENCE, placed.partition, [placed.record], told)

    def _is_missed(self, rows: WebhookRows, offset: int) -> bool:
        """Whether the stream loses this event, and perhaps what was read with it."""
        world = self.world
        if world.happens("webhook_skipped"):
            world.reach("webhook skipped")
            self.trace(f"skips webhook {offset}")
            rows.done(offset)
            return True
        if world.happens("committed_early"):
            world.reach("webhooks committed before anything came of them")
            rows.committed = max(rows.committed, self._next)
            self.crash("with offsets committed")
            return True
        return False

    def _told(self, row: WebhookRow, _appended: list[Appended]) -> None:
        if self._rows is None or self.may_break("with its evidence told"):
            return
        if row.awaits_reference:
            self.world.reach("webhook parked")
        self._rows.record(row)
        self._rows.done(row.receipt.offset)


def _understood(record: Record) -> tuple[Receipt, MappedWebhook]:
    """What was received where, and what the provider's body means."""
    event: dict[str, Any] = json.loads(record.value)
    account, money = event["account"], event["money"]
    mapped = MappedWebhook(
        meaning="final",
        effect="exists" if event["exists"] else "none",
        event_id=event["id"],
        event_type="effect.settled" if event["exists"] else "effect.failed",
        account=account,
        reference=event["reference"],
        action_key=event["action"],
        provider_key=event["action"],
        money=None if money is None else Money(**money),
        occurred_at=record.timestamp,
    )
    return Receipt(PROVIDER, account, 0, record.offset, sha256="00" * 32), mapped
