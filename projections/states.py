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
from projections.limits import DATABASE_CALL_MS_MAX, FOLDED_AGAIN_MAX, STREAMS_ASKED_MAX
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
    """The streams of rows; those of another version or damaged are folded from their facts, many in
    a query: after an upgrade of the fold that may be all of them.
    """
    held: dict[str, Held] = {}
    foreign: list[asyncpg.Record] = []
    why = ""
    for row in rows:
        try:
            if row["fold_version"] != FOLD_VERSION:
                raise ForeignSnapshotError(f"fold version {row['fold_version']}")
            held[row["stream_key"]] = Held(load(row["state"]), row["next_offset"])
        except ForeignSnapshotError as found:
            foreign.append(row)
            why = why or str(found)[:200]
    if foreign:
        logger.warning(
            "stream_state_folded_again",
            extra={"count": len(foreign), "stream": foreign[0]["stream_key"], "why": why},
        )
    for start in range(0, len(foreign), FOLDED_AGAIN_MAX):
        part = foreign[start : start + FOLDED_AGAIN_MAX]
        held.update(await _folded_again(connection, part, schema))
    return held


async def _folded_again(
    connection: Connection, rows: Sequence[asyncpg.Record], schema: str
) -> dict[str, Held]:
    """The streams from their stored facts. Raises BrokenInvariantError, ValueError where these
    lie.
    """
    sql = statements("queries.sql", schema)
    ends = {row["stream_key"]: row["next_offset"] for row in rows}
    of_action = {
        action: row["stream_key"]
        for row in rows
        if not is_gate_key(row["stream_key"])
        for action in row["action_keys"]
    }
    streams = {key: Stream(key) for key in ends if not is_gate_key(key)}
    gates: dict[str, Gate | None] = {key: None for key in ends if is_gate_key(key)}
    last: dict[str, int] = {}
    for stored in await connection.fetch(sql["facts"], list(of_action)) if of_action else ():
        key = of_action[stored["action_key"]]
        place = Place(offset=stored["ledger_offset"], decided_at=stored["decided_at"])
        streams[key] = evolve(streams[key], FACT.validate_json(stored["data"]), place)
        last[key] = stored["ledger_offset"]
    for stored in await connection.fetch(sql["gate_facts"], list(gates)) if gates else ():
        key, fact = stored["gate_key"], GATE_FACT.validate_json(stored["data"])
        gates[key] = evolve_gate(gates[key], fact, stored["decided_at"])
        last[key] = stored["ledger_offset"]
    for key, end in ends.items():
        _check_end(key, last.get(key), end)
    streams.update((key, Stream(key, gate=gate)) for key, gate in gates.items())
    return {key: Held(streams[key], end) for key, end in ends.items()}


def _check_end(key: str, last: int | None, next_offset: int) -> None:
    invariant(
        last is not None and last + 1 == next_offset,
        f"the stored facts of {key} end elsewhere than its state",
    )
