"""Folded streams out of Postgres, exact, or folded again from their stored facts.

Guarantees that a stream is either the state at its `next_offset` or an error; a row that another
version of the fold wrote, or whose bytes are damaged, is never guessed at. Called by the projector
for its cold streams, and by the owners of partitions for theirs.
"""

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import asyncpg
from pydantic import TypeAdapter

from ledger.audit.replay import StoredStream
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AnyFact, Fact
from ledger.core.gates import AnyGateFact, Gate, GateFact, evolve_gate
from ledger.core.ids import is_gate_key
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.snapshot import FOLD_VERSION, ForeignSnapshotError, dump, load
from ledger.core.state import Stream
from projections.errors import DamagedRowsError
from projections.fold import Held
from projections.limits import (
    DAMAGED_TOLD_MAX,
    DATABASE_CALL_MS_MAX,
    FACTS_AT_ONCE_MAX,
    FOLDED_AGAIN_MAX,
    STREAMS_ASKED_MAX,
)
from projections.statements import LIVE_SCHEMA, Connection, statements

logger = logging.getLogger("actionledger.projections")
FACT: TypeAdapter[AnyFact] = TypeAdapter(Fact)
"""Reads a stored fact."""
GATE_FACT: TypeAdapter[AnyGateFact] = TypeAdapter(GateFact)
"""Reads a stored fact about a gate."""

_LIES: Final = (BrokenInvariantError, ValueError)
"""What comes of stored facts that somebody edited or deleted."""


_ROW_GONE: Final = "its row is gone, and what it says elsewhere is there"


@dataclass(frozen=True, slots=True)
class ColdStreams:
    """Streams of a partition as of `projected_offset`: a key that is missing here was new then.

    Of those in `damaged` nothing is known: their rows lie, for the reason given.
    """

    projected_offset: int
    streams: Mapping[str, Held]
    damaged: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Loaded:
    """Streams out of rows, and why others could be had neither from rows nor from stored facts."""

    streams: dict[str, Held] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)

    def add(self, held: Held, last: int | None) -> None:
        """Take a stream that was folded again, if its stored facts end where its row does."""
        key = held.stream.key
        if key in self.damaged:
            return
        if last is None or last + 1 != held.next_offset:
            self.lies(key, "its stored facts end elsewhere than its state")
        else:
            self.streams[key] = held

    def lies(self, key: str, why: str) -> None:
        """Stored facts of a stream lead nowhere."""
        self.damaged[key] = why[:200]


class DamageTold:
    """Says of each stream with damaged rows what is wrong: once, however often whoever needs it
    asks again, and once more if that is mended and comes back.
    """

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, damaged: Mapping[str, str]) -> None:
        """These streams can be had from nowhere, for the reasons given."""
        for key, why in damaged.items():
            if self._told.get(key) == why:
                continue
            self._told[key] = why
            logger.error("stream_rows_damaged", extra={"stream": key, "why": why})
        for key in list(islice(self._told, max(0, len(self._told) - DAMAGED_TOLD_MAX))):
            del self._told[key]

    def came(self, keys: Iterable[str]) -> None:
        """These streams were had."""
        if self._told:
            for key in keys:
                self._told.pop(key, None)


@dataclass(frozen=True, slots=True)
class KeysPage:
    """Partitions and keys of streams, how far the projection of each partition had come in the same
    snapshot, and behind which key the next page begins: None after the last.
    """

    projected: Mapping[int, int]
    keys: Sequence[tuple[int, str]]
    behind: str | None

    def of(self, partition: int) -> list[str]:
        """The keys of one partition."""
        return [key for part, key in self.keys if part == partition]


async def load_streams(
    connection: Connection, keys: Collection[str], *, schema: str = LIVE_SCHEMA
) -> dict[str, Held]:
    """The streams among `keys` that have a row. Raises DamagedRowsError."""
    loaded = await load_undamaged(connection, keys, schema=schema)
    for key, why in loaded.damaged.items():
        raise DamagedRowsError(key, why)
    return loaded.streams


async def load_undamaged(
    connection: Connection, keys: Collection[str], *, schema: str = LIVE_SCHEMA
) -> Loaded:
    """The streams among `keys` that have a row, and why others can be had from nowhere."""
    invariant(len(keys) <= STREAMS_ASKED_MAX, "more streams asked for than one query may")
    held, foreign = own_of(await _rows(connection, keys, schema))
    if not foreign:
        return Loaded(held)
    async with one_snapshot(connection):
        again = await held_of(connection, await _rows(connection, foreign, schema), schema)
    for key in sorted(foreign.keys() - again.streams.keys() - again.damaged.keys()):
        again.lies(key, "its row was there and is not any more")
    return Loaded(held | again.streams, again.damaged)


async def _rows(connection: Connection, keys: Collection[str], schema: str) -> list[asyncpg.Record]:
    sql = statements("queries.sql", schema)["streams"]
    return await connection.fetch(sql, list(keys), timeout=DATABASE_CALL_MS_MAX / 1_000)


@dataclass(frozen=True, slots=True)
class StoredStreams:
    """Streams as rows have them; by version of the fold how many another one wrote. These are in
    the bytes of this version, made from the stored facts; where that failed, as they are.
    """

    rows: Sequence[StoredStream]
    other_versions: Mapping[int, int]


async def stored_streams(
    connection: Connection, partitions: Collection[int], *, schema: str = LIVE_SCHEMA
) -> StoredStreams:
    """Every stream of some partitions, to be compared with the log. What this program could only
    take for the stored facts anyway is compared by them.
    """
    async with one_snapshot(connection):
        rows = await connection.fetch(
            statements("queries.sql", schema)["all_streams"], list(partitions)
        )
        others = [row for row in rows if row["fold_version"] != FOLD_VERSION]
        again = (await held_of(connection, others, schema)).streams
    stored: list[StoredStream] = []
    for row in rows:
        key, version, state = row["stream_key"], row["fold_version"], row["state"]
        if key in again:
            version, state = FOLD_VERSION, dump(again[key].stream)
        stored.append(StoredStream(key, row["next_offset"], version, state))
    return StoredStreams(stored, dict(Counter(row["fold_version"] for row in others)))


def one_snapshot(connection: Connection) -> asyncpg.transaction.Transaction:
    """A transaction in which every query sees what the first one saw."""
    return connection.transaction(isolation="repeatable_read", readonly=True)


def own_of(rows: Iterable[asyncpg.Record]) -> tuple[dict[str, Held], dict[str, str]]:
    """The streams of rows that this version of the fold wrote; and of all others, which have to be
    folded again, why: another version wrote them, or they are damaged or gone.
    """
    held: dict[str, Held] = {}
    foreign: dict[str, str] = {}
    for row in rows:
        try:
            if row["state"] is None:
                raise ForeignSnapshotError(_ROW_GONE)
            if row["fold_version"] != FOLD_VERSION:
                raise ForeignSnapshotError(f"fold version {row['fold_version']}")
            held[row["stream_key"]] = Held(load(row["state"]), row["next_offset"])
        except ForeignSnapshotError as found:
            foreign[row["stream_key"]] = str(found)[:200]
    return held, foreign


async def held_of(connection: Connection, rows: Sequence[asyncpg.Record], schema: str) -> Loaded:
    """The streams of rows; those of another version or damaged are folded from their facts, which
    must be read in the snapshot of the rows. After an upgrade of the fold that may be all of them:
    each part of the answer has its own time, and others have their turn in between.
    """
    held, foreign = own_of(rows)
    loaded = Loaded(held)
    if not foreign:
        return loaded
    for key in [key for key, why in foreign.items() if why == _ROW_GONE]:
        loaded.lies(key, foreign.pop(key))
    if not foreign:
        return loaded
    of_actions: list[asyncpg.Record] = []
    for row in rows:
        if row["stream_key"] not in foreign:
            continue
        if is_gate_key(row["stream_key"]):
            await _fold_gate(connection, row, schema, loaded)
        else:
            of_actions.append(row)
    for piece in _pieces(of_actions):
        await _fold_actions(connection, piece, schema, loaded)
    again = [key for key in foreign if key in loaded.streams]
    if again:
        logger.warning(
            "stream_state_folded_again",
            extra={"count": len(again), "stream": again[0], "why": foreign[again[0]]},
        )
    return loaded


def _pieces(rows: Iterable[asyncpg.Record]) -> Iterator[list[asyncpg.Record]]:
    """Rows with FOLDED_AGAIN_MAX actions together, or a row with more."""
    piece: list[asyncpg.Record] = []
    count = 0
    for row in rows:
        if piece and count + len(row["action_keys"]) > FOLDED_AGAIN_MAX:
            yield piece
            piece, count = [], 0
        piece.append(row)
        count += len(row["action_keys"])
    if piece:
        yield piece


async def _fold_actions(
    connection: Connection, rows: Sequence[asyncpg.Record], schema: str, loaded: Loaded
) -> None:
    """Add streams from the stored facts of their actions."""
    sql = statements("queries.sql", schema)["facts"]
    of_action = {action: row["stream_key"] for row in rows for action in row["action_keys"]}
    streams = {row["stream_key"]: Stream(row["stream_key"]) for row in rows}
    last: dict[str, int] = {}
    async for stored in _stored(connection, sql, list(of_action)):
        key = of_action[stored["action_key"]]
        if key in loaded.damaged:
            continue
        place = Place(offset=stored["ledger_offset"], decided_at=stored["decided_at"])
        try:
            streams[key] = evolve(streams[key], FACT.validate_json(stored["data"]), place)
        except _LIES as fault:
            loaded.lies(key, f"{type(fault).__name__}: {fault}")
        last[key] = stored["ledger_offset"]
    for row in rows:
        key = row["stream_key"]
        loaded.add(Held(streams[key], row["next_offset"]), last.get(key))


async def _fold_gate(
    connection: Connection, row: asyncpg.Record, schema: str, loaded: Loaded
) -> None:
    """Add a gate from its stored facts. A ceiling of a large tenant has a million of them."""
    key = row["stream_key"]
    gate: Gate | None = None
    last: int | None = None
    async for stored in _stored(connection, statements("queries.sql", schema)["gate_facts"], key):
        try:
            gate = evolve_gate(gate, GATE_FACT.validate_json(stored["data"]), stored["decided_at"])
        except _LIES as fault:
            loaded.lies(key, f"{type(fault).__name__}: {fault}")
            return
        last = stored["ledger_offset"]
    loaded.add(Held(Stream(key, gate=gate), row["next_offset"]), last)


def _stored(
    connection: Connection, sql: str, about: str | list[str]
) -> "asyncpg.cursor.CursorFactory":
    """Stored facts, some at a time: each time is a turn for others."""
    return connection.cursor(
        sql, about, prefetch=FACTS_AT_ONCE_MAX, timeout=DATABASE_CALL_MS_MAX / 1_000
    )
