"""With which content a line was settled that was moving when it first came.

Guarantees that of all contents of a line behind the moving one the first counts, so that a third
one is told from it. Must never change a row. Called by the webhook agent; the statement is in
`settled_lines.sql`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from reconciler.limits import CHANGED_HASH_CHARS
from reconciler.parking import Connection, EventName, Position
from reconciler.sql_files import statements
from reconciler.statement_matching import Said


class Moved(NamedTuple):
    """A line under the id of one that was moving: where it stands, the action that it matches, and
    the provider's name that it bears; None where there is none.
    """

    position: Position
    event: EventName
    action_key: str | None
    reference: str | None


async def settled_lines(connection: Connection, lines: Sequence[Moved]) -> dict[Position, Said]:
    """What settled each line before its own place; a line that nothing settled is absent."""
    if not lines:
        return {}
    found = await connection.fetch(
        statements("reconciler", "settled_lines.sql")["settled_lines"],
        [one.position.partition for one in lines],
        [one.position.offset for one in lines],
        [one.event.provider for one in lines],
        [one.event.account for one in lines],
        [one.event.event_id for one in lines],
        [one.action_key for one in lines],
        [one.reference for one in lines],
        CHANGED_HASH_CHARS,
    )
    return {Position(partition, offset): Said(*said) for partition, offset, *said in found}
