"""Documents that are adopted as a whole, for commands: as they were published last, and published
anew until every partition has adopted them.

Guarantees what `publishing` does, and that a command tells apart what stands in the log and who has
heard of it. Called by the command line.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gateway.settings import Settings
from gateway.wiring.installation import folds_at, open_log
from gateway.wiring.publishing import Kind, in_force, publish_document
from ledger.core.inputs import Publish
from ledger.log.adoption import await_adopted
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.published import CONFIG_PLACE, Published, read_published


@dataclass(frozen=True, slots=True)
class PublishedEverywhere:
    """A document in the log. `was_published` is False where it was in force before; `waiting` are
    the partitions that have not adopted it yet. `overtaken_by` is the hash of another one that
    somebody has published since, and None where this one is the newest.
    """

    offset: int
    was_published: bool
    partitions: int
    waiting: tuple[int, ...]
    overtaken_by: str | None = None


async def published_now(settings: Settings) -> Published:
    """What the config topic says. Raises what reading the log raises."""
    return await read_published(open_log(settings, "cli"))


async def source_in_force(settings: Settings, kind: Kind) -> str | None:
    """The text of the document of a kind that was published last, comments included; or None
    where there was none.
    """
    log = open_log(settings, "cli")
    known = in_force(await read_published(log), kind)
    if known is None:
        return None
    topic, partition = CONFIG_PLACE
    given = read_input(await log.read_one(topic, partition, known.offset))
    return given.content if isinstance(given, Publish) else None


async def publish_everywhere(
    settings: Settings,
    kind: Kind,
    text: str,
    *,
    timeout_ms: int,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> PublishedEverywhere:
    """Publish a text unless it is in force, and wait until every partition has adopted it.

    `progress` hears how many partitions have, and of how many. Raises what `publish_document`
    raises, and what reading the log raises.
    """
    log = open_log(settings, "operator")
    offset, was_published = await publish_document(log, kind, text)
    folds = await folds_at(settings, log)
    waiting = await await_adopted(
        log,
        folds,
        offset,
        timeout_ms=timeout_ms,
        progress=lambda done: progress(done, len(folds)),
    )
    overtaken_by = await _overtaken_by(log, kind, offset)
    return PublishedEverywhere(offset, was_published, len(folds), waiting, overtaken_by)


async def _overtaken_by(log: KafkaLog, kind: Kind, offset: int) -> str | None:
    """The hash of the newest document where it is another than the one at an offset."""
    ours = in_force(await read_published(log, end=offset + 1), kind)
    newest = in_force(await read_published(log), kind)
    if ours is None or newest is None or ours.content_hash == newest.content_hash:
        return None
    return newest.content_hash
