"""The read side: rows and offsets that change together, projectors that may end or stand still
anywhere, a rebuild beside the live tables that is swapped in, and what owners read back from there.

The step is the product's; rows are made in some histories only, because they cost as much as all
the rest. What a projector left behind is judged at the end.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

from ledger.core.decide.schedule import due_at
from ledger.core.snapshot import dump, load
from ledger.core.state import Action, Status
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.topics import Topic, partition_of
from projections.fold import Folding, Held, read_batch
from projections.rows import PROJECTED, REFERENCES, Row
from projections.states import ColdStreams
from tests.simulation.processes import Process
from tests.simulation.world import World

LEDGER = Topic.LEDGER.value
BATCH_MAX = 9
ROWS_EVERY = 8
KEYS = {
    table.name: tuple(table.columns.index(column) for column in table.key) for table in PROJECTED
}


@dataclass(slots=True)
class Tables:
    """What projectors have written: rows by table and key, streams, and where they stand."""

    folds: dict[int, PartitionFold]
    streams: dict[str, Held] = field(default_factory=dict)
    rows: dict[str, dict[Row, Row]] = field(default_factory=dict)
    went_back: int = 0

    @classmethod
    def empty(cls, partitions: int) -> "Tables":
        """Tables into which nothing was projected yet."""
        return cls({part: PartitionFold(part) for part in range(partitions)})

    def commit(self, folding: Folding, changed: dict[str, Held], *, rows: bool) -> None:
        """Write a batch whole."""
        batch = folding.seal() if rows else None
        self._move(folding)
        self.streams.update(changed)
        if batch is not None:
            for table, some in batch.rows.items():
                self._put(table, some)

    def _move(self, folding: Folding) -> None:
        for partition, before in self.folds.items():
            fold = folding.fold_of(partition)
            if fold is not None:
                self.went_back += fold.next_offset < before.next_offset
                self.folds[partition] = replace(fold, positions=dict(fold.positions))

    def _put(self, table: str, rows: list[Row]) -> None:
        kept = self.rows.setdefault(table, {})
        for row in rows:
            key = tuple(row[column] for column in KEYS[table])
            if table == REFERENCES.name:
                kept.setdefault(key, row)  # the first time counts
            else:
                kept[key] = row

    def told(self) -> dict[str, list[object]]:
        """Rows by table in one order, and where each partition stands."""
        rows: dict[str, list[object]] = {
            table: [*sorted(map(repr, some.values()))] for table, some in self.rows.items() if some
        }
        rows["offsets"] = [repr(fold) for _, fold in sorted(self.folds.items())]
        return rows


class ReadModel:
    """The database: the live tables, and those of a rebuild beside them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.makes_rows = world.weather.missed or not world.seed % ROWS_EVERY
        self.live = Tables.empty(world.partitions)
        self.beside: Tables | None = None
        self.has_stopped = False
        self.damaged: frozenset[str] = frozenset()
        """Streams whose live rows somebody has edited; what is made anew is right again."""

    # What projectors do

    def tables(self) -> list[Tables]:
        """All that are kept up to date."""
        return [self.live] if self.beside is None else [self.live, self.beside]

    def rebuild(self) -> None:
        """Begin to project everything anew, beside the live tables."""
        self.beside = Tables.empty(self.world.partitions)

    def swap(self) -> bool:
        """Put the rebuilt tables in the place of the live ones, once they stand where those do."""
        beside, live = self.beside, self.live
        if beside is None or not self.has_caught_up(beside):
            return False
        beside.went_back += live.went_back
        for part, fold in live.folds.items():
            beside.went_back += fold.next_offset > beside.folds[part].next_offset
        self.live, self.beside, self.damaged = beside, None, frozenset()
        self.world.reach("rebuild swapped in")
        if not self.world.is_calm:
            self.world.reach("rebuild swapped in during traffic")
        return True

    def has_caught_up(self, beside: Tables) -> bool:
        """Whether rebuilt tables stand where the live ones do."""
        return all(
            beside.folds[part].next_offset >= fold.next_offset
            for part, fold in self.live.folds.items()
        )

    # What owners ask

    def checkpoint(self, partition: int) -> PartitionFold | None:
        """Where the projection of a partition stands, if it was ever projected."""
        fold = self.live.folds[partition]
        if fold.generation is None:
            return None
        return replace(fold, positions=dict(fold.positions))

    def load(self, partition: int, keys: Collection[str]) -> ColdStreams:
        """The streams among `keys`, and how far the projection of their partition has come."""
        held = {key: self.live.streams[key] for key in keys if key in self.live.streams}
        if held and not self.damaged and self.world.happens("rows_damaged"):
            self.damaged = frozenset([min(held)])
        lies = {key: "edited" for key in keys if key in self.damaged}
        held = {key: one for key, one in held.items() if key not in lies}
        # As the rows have it, which is bytes.
        streams = {key: Held(load(dump(one.stream)), one.next_offset) for key, one in held.items()}
        return ColdStreams(self.live.folds[partition].next_offset, streams, lies)

    def keys(self, partition: int, behind: str, limit: int) -> tuple[list[str], int]:
        """The next keys of a partition, and how far its projection has come."""
        keys = sorted(
            key
            for key in self.live.streams
            if key > behind and partition_of(key, self.world.partitions) == partition
        )
        return keys[:limit], self.live.folds[partition].next_offset

    def due(
        self, partition: int, behind: tuple[int, str], until: int, limit: int
    ) -> list[tuple[int, str]]:
        """What is due, in order, behind a place and up to a time before any allowance."""
        first: dict[str, int] = {}
        for key, when in self._timers(partition):
            if when is not None and behind < (when, key) and when <= until:
                first[key] = min(when, first.get(key, when))
        return sorted((when, key) for key, when in first.items())[:limit]

    def _timers(self, partition: int) -> Iterator[tuple[str, int | None]]:
        """Every row with a timer: of actions, the final ones too, and of gates."""
        for key, action in self._actions(partition):
            yield key, due_at(action, action.updated_at, skew_ms=0)
        for key, held in self.live.streams.items():
            if held.stream.gate is not None and self._is_in(key, partition):
                yield key, held.stream.gate.due_at

    def _is_in(self, key: str, partition: int) -> bool:
        return partition_of(key, self.world.partitions) == partition

    def ready(
        self, partition: int, operation: str, behind: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        """Streams with an action of an operation that waits for capacity, who waits longest first,
        behind a place.
        """
        found = [
            (action.updated_at, key)
            for key, action in self._actions(partition)
            if action.status is Status.READY and action.request.operation == operation
        ]
        return sorted(one for one in found if one > behind)[:limit]

    def _actions(self, partition: int) -> list[tuple[str, Action]]:
        return [
            (key, action)
            for key, held in self.live.streams.items()
            if self._is_in(key, partition)
            for action in held.stream.actions
        ]


class Projector(Process):
    """Follows the ledger a little behind it, into the live tables and those beside them."""

    def __init__(self, world: World, number: int, model: ReadModel) -> None:
        super().__init__(world, "projector", number)
        self.model = model
        self._is_awake = False
        self._heard(0)
        self.listen(LEDGER, self._heard)

    def _heard(self, _partition: int) -> None:
        if not self._is_awake:
            self._is_awake = True
            self.after(self.world.soon(self.world.weather.projection_lag_ms), self._project)

    def _project(self) -> None:
        self._is_awake = False
        log, pending = self.world.log, False
        for tables in self.model.tables():
            for part in range(self.world.partitions):
                start = tables.folds[part].next_offset
                if log.end_offset(LEDGER, part) > start:
                    pending = True
                    most = self.world.chance.randint(1, BATCH_MAX)
                    self._step(tables, log.read(LEDGER, part, start, records_max=most))
                    if self.is_gone:
                        return
        if self.model.beside is not None and self.model.swap():
            self.trace("swaps the rebuilt tables in")
        if pending:
            self._heard(0)

    def _step(self, tables: Tables, records: list[Record]) -> None:
        """Fold some records, and write what they lead to."""
        (read,) = read_batch(tables.folds, records)
        folding = Folding(tables.streams)
        changed = folding.add(read)
        if folding.stopped_partitions:
            # A record that counts and cannot be folded; none of ours may be so.
            self.model.has_stopped = True
        elif not self.may_break("before its commit"):
            self.go_on(partial(self._commit, tables, read.start.next_offset, folding, changed))

    def _commit(
        self, tables: Tables, start: int, folding: Folding, changed: dict[str, Held]
    ) -> None:
        (partition,) = [part for part in tables.folds if folding.fold_of(part) is not None]
        if tables.folds[partition].next_offset != start:
            self.world.reach("another projector was first")
        else:
            tables.commit(folding, changed, rows=self.model.makes_rows)


def projected_whole(world: World) -> Tables:
    """Every partition projected in one batch, with all rows."""
    tables = Tables.empty(world.partitions)
    for part in range(world.partitions):
        records = world.log.read(LEDGER, part, 0)
        (read,) = read_batch(tables.folds, records)
        folding = Folding(tables.streams)
        changed = folding.add(read)
        tables.commit(folding, changed, rows=True)
    return tables
