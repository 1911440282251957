"""Folded streams out of Postgres, exact, or folded again from their stored facts.

Guarantees that a stream is either the state at its `next_offset` or an error; a row that another
version of the fold wrote, or whose bytes are damaged, is never guessed at. Called by the projector
for its cold streams, and by the owners of partitions for theirs.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import asyncpg
from pydantic import TypeAdapter

from ledger.core.evolve import Place, evolve
from ledger.core.facts import AnyFact, Fact
from ledger.core.gates import AnyGateFact, Gate, GateFact, evolve_gate
from ledger.core.ids import is_gate_key
from ledger.core.invariants import invariant
from ledger.core.snapshot import FOLD_VERSION, ForeignSnapshotError, load
from ledger.core.state import Stream
from projections.fold import Held
from projections.limits import DATABASE_CALL_MS_MAX, STREAMS_ASKED_MAX
from projections.statements import LIVE_SCHEMA, Connection, statements

logger = logging.getLogger("actionledger.projections")
FACT: TypeAdapter[AnyFact] = TypeAdapter(Fact)
"""Reads a stored fact."""
GATE_FACT: TypeAdapter[AnyGateFact] = TypeAdapter(GateFact)
"""Reads a stored fact about a gate."""


@dataclass(frozen=True, slots=True)
class ColdStreams:
    """Streams of a partition as of `projected_offset`: a key that is missing here was new then."""

    projected_offset: int
    streams: Mapping[str, Held]


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
    """The streams among `keys` that have a row, in one query."""
    invariant(len(keys) <= STREAMS_ASKED_MAX, "more streams asked for than one query may")
    rows = await connection.fetch(
        statements("queries.sql", schema)["streams"],
        list(keys),
        timeout=DATABASE_CALL_MS_MAX / 1_000,
    )
    return await held_of(connection, rows, schema)


async def load_cold_streams(
    connection: Connection, partition: int, keys: Collection[str], *, schema: str = LIVE_SCHEMA
) -> ColdStreams:
    """The streams among `keys`, and the offset up to which the projection of their partition went.

    One snapshot: a caller that has let go of streams at higher offsets than `projected_offset`
    must wait and ask again before "missing" means "new".
    """
    invariant(len(keys) <= STREAMS_ASKED_MAX, "more streams asked for than one query may")
    # Rows of another version need a second query, which must see what the first one saw.
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        rows = await connection.fetch(
            statements("queries.sql", schema)["cold_streams"],
            partition,
            list(keys),
            timeout=DATABASE_CALL_MS_MAX / 1_000,
        )
        found = [row for row in rows if row["stream_key"] is not None]
        streams = await held_of(connection, found, schema)
    return ColdStreams(rows[0]["projected_offset"] if rows else 0, streams)


async def held_of(
    connection: Connection, rows: Sequence[asyncpg.Record], schema: str
) -> dict[str, Held]:
    """The streams of rows; where one is of another version or damaged, folded from its facts."""
    held: dict[str, Held] = {}
    for row in rows:
        try:
            if row["fold_version"] != FOLD_VERSION:
                raise ForeignSnapshotError(f"fold version {row['fold_version']}")
            stream = load(row["state"])
        except ForeignSnapshotError as foreign:
            logger.warning(
                "stream_state_folded_again",
                extra={"stream": row["stream_key"], "why": str(foreign)[:200]},
            )
            stream = await _fold_again(connection, row, schema)
        held[row["stream_key"]] = Held(stream, row["next_offset"])
    return held


async def _fold_again(connection: Connection, row: asyncpg.Record, schema: str) -> Stream:
    """The stream from its stored facts. Raises BrokenInvariantError, ValueError where they lie."""
    key, next_offset = row["stream_key"], row["next_offset"]
    if is_gate_key(key):
        return await _gate_again(connection, key, next_offset, schema)
    stream = Stream(key)
    facts = await connection.fetch(statements("queries.sql", schema)["facts"], row["action_keys"])
    for stored in facts:
        place = Place(offset=stored["ledger_offset"], decided_at=stored["decided_at"])
        stream = evolve(stream, FACT.validate_json(stored["data"]), place)
    _check_end(key, facts, next_offset)
    return stream


async def _gate_again(connection: Connection, key: str, next_offset: int, schema: str) -> Stream:
    """A gate from its stored facts."""
    gate: Gate | None = None
    facts = await connection.fetch(statements("queries.sql", schema)["gate_facts"], key)
    for stored in facts:
        gate = evolve_gate(gate, GATE_FACT.validate_json(stored["data"]), stored["decided_at"])
    _check_end(key, facts, next_offset)
    return Stream(key, gate=gate)


def _check_end(key: str, facts: Sequence[asyncpg.Record], next_offset: int) -> None:
    invariant(
        bool(facts) and facts[-1]["ledger_offset"] + 1 == next_offset,
        f"the stored facts of {key} end elsewhere than its state",
    )
