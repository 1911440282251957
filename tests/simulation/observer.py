"""Readers of the ledger that act on nothing: an observer that knows what is settled, and the
projector's own step, fed in batches of any size, ended and begun again anywhere.
"""

from dataclasses import dataclass, replace

from ledger.core.records import Decision
from ledger.core.state import Action, Status, Stream
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.topics import Topic
from projections.fold import Folding, Held, read_batch
from projections.rows import PROJECTED, REFERENCES, Row
from tests.simulation.catalogue import CLASSES
from tests.simulation.world import World

LEDGER, CONFIG = Topic.LEDGER.value, Topic.CONFIG.value
INBOXES = (Topic.INTENTS.value, Topic.ATTEMPTS.value, Topic.EVIDENCE.value)
BATCH_MAX = 9
ENDS_BEFORE_COMMIT = 0.1

KEYS = {
    table.name: tuple(table.columns.index(column) for column in table.key) for table in PROJECTED
}


class Observer:
    """The product's fold of every partition, as far as it was asked for."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.folds = [PartitionFold(part) for part in range(world.partitions)]
        self.streams: dict[str, Stream] = {}
        self._looked_at = -1
        self._is_settled = False

    def look(self) -> None:
        """Fold what has landed."""
        for fold in self.folds:
            for record in self.world.log.read(LEDGER, fold.partition, fold.next_offset):
                read = fold.feed(record)
                if isinstance(read, Decision) and read.facts:
                    stream = self.streams.get(read.stream) or Stream(read.stream)
                    self.streams[read.stream] = fold_decision(stream, read)

    def actions(self) -> list[Action]:
        """Every action that is known."""
        return [action for stream in self.streams.values() for action in stream.actions]

    def is_undecided(self, partition: int) -> bool:
        """Whether an inbox of a partition holds what was not decided yet."""
        log, positions = self.world.log, self.folds[partition].positions
        if log.end_offset(CONFIG, 0) > positions.get(CONFIG, 0):
            return True
        return any(
            log.end_offset(topic, partition) > max(1, positions.get(topic, 0)) for topic in INBOXES
        )

    def is_settled(self) -> bool:
        """Whether everything that was asked has an end or a person."""
        if self._looked_at != self.world.log.landings:
            self._looked_at = self.world.log.landings
            self.look()
            self._is_settled = self._judge()
        return self._is_settled

    def _judge(self) -> bool:
        if any(self.is_undecided(fold.partition) for fold in self.folds):
            return False
        return all(
            action.is_final or action.status is Status.NEEDS_REVIEW for action in self.actions()
        )

    def may_start(self) -> bool:
        """Whether anything may be started that is known or lies in an inbox."""
        if self.is_settled():
            return False
        if any(self.is_undecided(fold.partition) for fold in self.folds):
            return True
        return any(_may_start(action) for action in self.actions())


def _may_start(action: Action) -> bool:
    if action.is_final or action.status is Status.NEEDS_REVIEW:
        return False
    return not action.attempts or CLASSES[action.request.operation] != "none"


@dataclass(slots=True)
class Tables:
    """What a projector has written: rows by table and key, streams, and where it stands."""

    folds: dict[int, PartitionFold]
    streams: dict[str, Held]
    rows: dict[str, dict[Row, Row]]


def project(world: World, *, whole: bool) -> Tables:
    """Project the ledger: in one batch, or in batches of any size, begun again at any time."""
    folds = {part: PartitionFold(part) for part in range(world.partitions)}
    tables = Tables(folds, {}, {})
    chance = world.chance
    pending = True
    while pending:
        pending = False
        for part in range(world.partitions):
            some = None if whole else chance.randint(1, BATCH_MAX)
            start = tables.folds[part].next_offset
            records = world.log.read(LEDGER, part, start, records_max=some)
            if not records:
                continue
            pending = True
            known = dict(tables.streams)
            (read,) = read_batch(tables.folds, records)
            folding = Folding(known)
            changed = folding.add(read)
            if not whole and chance.random() < ENDS_BEFORE_COMMIT:
                world.reach("projector crashed before its commit")
                continue
            _commit(tables, folding, changed)
    return tables


def _commit(tables: Tables, folding: Folding, changed: dict[str, Held]) -> None:
    """Rows and offsets change together."""
    batch = folding.seal()
    assert not batch.stopped, batch.stopped
    for partition, fold in batch.folds.items():
        tables.folds[partition] = replace(fold, positions=dict(fold.positions))
    tables.streams.update(changed)
    for table, rows in batch.rows.items():
        kept = tables.rows.setdefault(table, {})
        for row in rows:
            key = tuple(row[column] for column in KEYS[table])
            if table == REFERENCES.name:
                kept.setdefault(key, row)  # the first time counts
            else:
                kept[key] = row
