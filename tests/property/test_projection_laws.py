"""Laws of the projection's step: what comes of a log depends on the log alone."""

import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_core import from_json

from ledger.core.decide.schedule import due_at
from ledger.core.snapshot import dump, load
from ledger.core.state import Stream
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.fold import Batch, Folding, Held, fold_batch, read_batch
from projections.rows import (
    ACTIONS,
    GATE_EVENTS,
    GATE_RESERVATIONS,
    GATES,
    PROJECTED,
    REFERENCES,
    Row,
    Table,
    offsets_row,
)
from tests.ledgers import LedgerBuilder, history

Tables = dict[str, dict[Row, Row]]


class Store:
    """Tables in memory, merged as the writer's SQL does: later rows win, first names stay."""

    def __init__(self, partitions: int) -> None:
        self.tables: Tables = {table.name: {} for table in PROJECTED}
        self.folds = {place: PartitionFold(place) for place in range(partitions)}
        self.streams: dict[str, Held] = {}

    def write(self, batch: Batch) -> None:
        """Merge a batch, and hold of each stream only what its bytes give back."""
        for table in PROJECTED:
            for row in batch.rows.get(table.name, ()):
                key = key_of(table, row)
                if table is REFERENCES and key in self.tables[table.name]:
                    continue
                self.tables[table.name][key] = row
                if table.name == "streams":
                    self.streams[row[0]] = Held(load(row[6]), row[3])
        self.folds |= batch.folds

    def everything(self) -> Tables:
        """All rows, the offsets too."""
        offsets = {(place,): offsets_row(fold, None) for place, fold in self.folds.items()}
        return {**self.tables, "projection_offsets": offsets}


def key_of(table: Table, row: Row) -> Row:
    """A row's key."""
    return tuple(row[table.columns.index(name)] for name in table.key)


def one_by_one(builder: LedgerBuilder) -> Tables:
    """The tables of a log that is projected record by record."""
    store = Store(builder.count)
    for record in builder.everything():
        store.write(fold_batch(read_batch(store.folds, [record]), store.streams))
    return store.everything()


def shuffled(chance: random.Random, builder: LedgerBuilder) -> list[Record]:
    """Records of all partitions mixed in any way that keeps each partition's own order."""
    waiting = [builder.records(place) for place in range(builder.count)]
    mixed: list[Record] = []
    while any(waiting):
        taken = chance.choice([records for records in waiting if records])
        mixed.append(taken.pop(0))
    return mixed


@pytest.mark.law("S14")
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), sizes=st.lists(st.integers(1, 40), min_size=1))
def test_batches_may_begin_anywhere(seed: int, sizes: list[int]) -> None:
    """Any cut into batches, any mix of partitions: the same rows as record by record."""
    builder = history(seed, steps=80, partitions=2)
    records = shuffled(random.Random(seed), builder)
    store, place, turn = Store(2), 0, 0
    while place < len(records):
        size = sizes[turn % len(sizes)]
        reads = read_batch(store.folds, records[place : place + size])
        store.write(fold_batch(reads, store.streams))
        place, turn = place + size, turn + 1
    assert store.everything() == one_by_one(builder)


@pytest.mark.law("S14")
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), size=st.integers(1, 30))
def test_a_batch_may_grow_in_chunks(seed: int, size: int) -> None:
    """One batch to which chunks are added as they come has the rows of the whole log."""
    builder = history(seed, steps=80)
    store, records = Store(1), builder.records()
    folding, held = Folding(store.streams), store.streams
    folds = dict(store.folds)
    for place in range(0, len(records), size):
        for read in read_batch(folds, records[place : place + size]):
            held |= folding.add(read)
            folds[0] = folding.fold_of(0) or folds[0]
    store.write(folding.seal())
    assert store.everything() == one_by_one(builder)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32), again=st.integers(0, 80))
def test_what_a_loaded_row_has_is_not_folded_twice(seed: int, again: int) -> None:
    """Rows that are ahead of their partition's offset skip the records that they already hold."""
    builder = history(seed, steps=80)
    store = Store(1)
    store.write(fold_batch(read_batch(store.folds, builder.records()), store.streams))
    behind = {0: PartitionFold(0)}
    reads = read_batch(behind, builder.records()[:again])
    batch = fold_batch(reads, store.streams)
    assert not batch.rows["streams"]
    assert not batch.rows["action_events"]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40)
def test_the_rows_hold_the_builders_states(seed: int) -> None:
    """The state in each row is what folding every decision in turn gives."""
    builder = history(seed, steps=80)
    rows = one_by_one(builder)["streams"]
    states = {row[0]: row[6] for row in rows.values()}
    assert states == {
        key: dump(stream) for key, stream in builder.streams.items() if stream != Stream(key)
    }


def named(store: Store, table: Table) -> list[dict[str, object]]:
    """Rows of a table by the names of their columns."""
    rows = store.tables[table.name].values()
    return [dict(zip(table.columns, row, strict=True)) for row in rows]


def whole(builder: LedgerBuilder) -> Store:
    """The tables of a log that is projected in one batch."""
    store = Store(builder.count)
    store.write(fold_batch(read_batch(store.folds, builder.everything()), store.streams))
    return store


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_the_rows_of_gates_add_up(seed: int) -> None:
    """What a gate has used is what was spent of its reservations and reported of its run; what it
    reserves is what is granted and not closed.
    """
    store = whole(history(seed, steps=120, partitions=2))
    used, reserved = (
        defaultdict[object, Counter[str]](Counter),
        defaultdict[object, Counter[str]](Counter),
    )
    for one in named(store, GATE_RESERVATIONS):
        demand = from_json(str(one["demand"]))
        assert (one["status"] == "closed") == (one["spent"] is not None)
        if one["spent"]:
            used[one["gate_key"]].update(demand)
        if one["status"] == "granted":
            reserved[one["gate_key"]].update(demand)
    for event in named(store, GATE_EVENTS):
        if event["type"] == "step.reported":
            used[event["gate_key"]].update(from_json(str(event["data"]))["amounts"])
    for gate in named(store, GATES):
        key = gate["gate_key"]
        assert from_json(str(gate["used"])) == used[key]
        assert from_json(str(gate["reserved"])) == reserved[key]


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32))
def test_every_timer_of_a_stream_stands_in_a_row(seed: int) -> None:
    """Those of actions, of final ones that have yet to hear from a gate too, and those of gates:
    what an owner lets go of comes back in time.
    """
    builder = history(seed, steps=120, partitions=2)
    store = whole(builder)
    stored = {(row["stream_key"], row["next_due_at"]) for row in named(store, ACTIONS)}
    stored |= {(row["gate_key"], row["next_due_at"]) for row in named(store, GATES)}
    timers: set[tuple[object, object]] = set()
    for key, stream in builder.streams.items():
        timers |= {(key, due_at(one, one.updated_at, skew_ms=0)) for one in stream.actions}
        if stream.gate is not None:
            timers.add((key, stream.gate.due_at))
    assert stored == timers
