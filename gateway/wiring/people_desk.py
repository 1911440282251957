"""Who may decide, changed: one change made from what is in force, published, adopted everywhere.

Guarantees that a change which is in force was made from what was in force before it, and that a
revocation counts from the moment it is published: executors heed it before owners adopt it. Called
by the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.settings import Settings
from gateway.wiring.installation import folds_at, open_log
from gateway.wiring.publishing import publish_document
from ledger.core.people import People, people_hash
from ledger.core.people_text import NotChanged
from ledger.log.adoption import await_adopted
from ledger.log.published import read_published


@dataclass(frozen=True, slots=True)
class Changed:
    """A document of people in the log. `was_published` is False where it was in force before;
    `waiting` are the partitions that have not adopted it yet.
    """

    content_hash: str
    was_published: bool
    offset: int
    partitions: int
    waiting: tuple[int, ...]


async def people_in_force(settings: Settings) -> People:
    """Who may decide, as it was published last."""
    return (await read_published(open_log(settings, "cli"))).people


async def change_people(
    settings: Settings,
    change: Callable[[People], str | NotChanged],
    *,
    timeout_ms: int,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> Changed | NotChanged:
    """Publish what a change makes of the people in force, and wait until every partition has
    adopted it; or why the change is none.

    Raises DocumentRefusedError, OvertakenDocumentError, RevokedComesBackError, AppendUnknownError,
    and what reading the log raises.
    """
    log = open_log(settings, "operator")
    people = (await read_published(log)).people
    text = change(people)
    if isinstance(text, NotChanged):
        return text
    offset, was_published = await publish_document(log, "people", text)
    # It stands from here on: what follows only tells who has heard of it.
    folds = await folds_at(settings, log)
    waiting = await await_adopted(
        log,
        folds,
        offset,
        timeout_ms=timeout_ms,
        progress=lambda done: progress(done, len(folds)),
    )
    return Changed(people_hash(text), was_published, offset, len(folds), waiting)
