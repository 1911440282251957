"""Recorded intents under another decision table: what would have been ruled otherwise.

Guarantees that it only reads, that only intents that count are counted, and that what was ruled is
taken from the log, not ruled again. Facts of an operation are those of the catalogue that is given:
what it says today, not what it said then. Ceilings are compared by their names: whether one would
have been reached is not computed. Called by `actionledger policy whatif` and by auditors; `WhatIf`
alone is pure, `what_if` reads a log.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from ledger.audit.reading import feed_ledger
from ledger.core.catalogue import Catalogue
from ledger.core.facts import IntentRecorded, PolicyDecided
from ledger.core.ids import ActionKey
from ledger.core.policy import Asks, Gates, Outcome, Policy, barred
from ledger.core.records import Decision
from ledger.log.envelope import MARK_EPOCH, marks_of
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.reading import ReadableLog

KEYS_SHOWN_MAX: Final = 5
"""Actions named for one kind of difference."""

_INTENT: Final = b'"type":"intent.recorded"'
_RULING: Final = b'"type":"policy.decided"'


@dataclass(frozen=True, slots=True)
class Said:
    """What a table said of an action."""

    row: str
    outcome: str
    asks: Asks | None = None
    gates: Gates | None = None

    @property
    def effect(self) -> tuple[str, Asks | None, Gates | None]:
        """What it means for the action, whatever the row is called."""
        never_begins = self.outcome == Outcome.DENY
        return self.outcome, self.asks, None if never_begins else self.gates


@dataclass(slots=True)
class Move:
    """Intents that one table ruled one way and the other rules another way, or the same."""

    was: Said
    would_be: Said
    count: int = 0
    keys: list[str] = field(default_factory=list)

    @property
    def is_difference(self) -> bool:
        """Whether something would have gone otherwise; another row of the same effect would not."""
        return self.was.effect != self.would_be.effect


@dataclass(slots=True)
class WhatIf:
    """Intents so far, by what was ruled and what would be. Feed it records of each partition in
    order, from the first on; decisions before `since`, in log time, are not counted, nor intents of
    other tenants than `tenant` where one is named. `undeclared` counts those whose operation the
    catalogue does not have, by its name and version; `missing`, of the others, facts by their name.
    """

    policy: Policy
    catalogue: Catalogue
    since: int = 0
    tenant: str | None = None
    intent_count: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    undeclared: Counter[str] = field(default_factory=Counter)
    folds: dict[int, PartitionFold] = field(default_factory=dict)
    _moves: dict[tuple[Said, Said], Move] = field(default_factory=dict)
    _unruled: dict[str, IntentRecorded] = field(default_factory=dict)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Differences first, the most frequent of them first."""
        found = self._moves.values()
        return tuple(sorted(found, key=lambda one: (not one.is_difference, -one.count)))

    @property
    def difference_count(self) -> int:
        """Intents that would have gone otherwise."""
        return sum(move.count for move in self._moves.values() if move.is_difference)

    @property
    def unruled_count(self) -> int:
        """Intents that no table has ruled yet: steps of plans, and what waits for another one."""
        return sum(self._is_asked_about(key) for key in self._unruled)

    def feed(self, record: Record) -> None:
        """Take the next record. Raises what `PartitionFold.feed` raises."""
        fold = self.folds.setdefault(record.partition, PartitionFold(record.partition))
        marks = marks_of(record)
        if marks is not None and MARK_EPOCH not in marks and not self._tells(record.value):
            fold.skip(record)
            return
        read = fold.feed(record)
        if isinstance(read, Decision):
            self._count(read)

    def _tells(self, value: bytes) -> bool:
        return _INTENT in value or (bool(self._unruled) and _RULING in value)

    def _count(self, decision: Decision) -> None:
        """Hold each intent against its first ruling: that of a step of a plan comes at its turn."""
        for fact in decision.facts:
            if isinstance(fact, IntentRecorded) and decision.decided_at >= self.since:
                self._unruled[fact.action] = fact
            elif isinstance(fact, PolicyDecided) and fact.action in self._unruled:
                self._compare(self._unruled.pop(fact.action), fact)

    def _compare(self, intent: IntentRecorded, ruled: PolicyDecided) -> None:
        if not self._is_asked_about(intent.action):
            return
        request, tenant = intent.request, ActionKey.parse(intent.action).tenant
        operation = self.catalogue.operation(request.operation, request.version)
        ruling = None if operation is None else barred(operation, request)
        if ruling is None:
            ruling = self.policy.rule(operation, request, tenant, intent.revises, intent.performer)
        was = Said(ruled.row, ruled.outcome, ruled.asks, ruled.gates)
        would_be = Said(ruling.row, ruling.outcome.value, ruling.asks, ruling.gates)
        move = self._moves.setdefault((was, would_be), Move(was, would_be))
        move.count += 1
        if len(move.keys) < KEYS_SHOWN_MAX:
            move.keys.append(intent.action)
        self.intent_count += 1
        if operation is None:
            # That says why all else is missing, too.
            self.undeclared[f"{request.operation} v{request.version}"] += 1
        else:
            self.missing.update(ruling.missing)

    def _is_asked_about(self, key: str) -> bool:
        return self.tenant in {None, ActionKey.parse(key).tenant}


async def what_if(
    log: ReadableLog,
    partitions: Iterable[int],
    policy: Policy,
    catalogue: Catalogue,
    *,
    since: int = 0,
    tenant: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> WhatIf:
    """Every intent of these partitions that was recorded at or after a log time, up to where they
    end now; of one tenant, where one is named.

    `progress` hears of records read and of how many there are. Raises BrokenInvariantError and what
    the log raises.
    """
    compared = WhatIf(policy, catalogue, since, tenant)
    await feed_ledger(log, partitions, compared.feed, progress=progress)
    return compared
