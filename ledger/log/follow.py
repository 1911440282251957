"""Small reads that several processes need before they work: the published configuration, the
partitions of the installation.

Nothing here decides: what a partition has adopted is in its own ledger. Called at the start of
processes.
"""

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Publish
from ledger.core.records import Genesis
from ledger.log.admin import read_genesis
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic


async def published_catalogue(log: KafkaLog) -> Catalogue | None:
    """The newest valid catalogue on the config topic, or None where none was published."""
    place = (Topic.CONFIG.value, 0)
    reader = await log.reader({place: 0})
    newest: Catalogue | None = None
    try:
        end = (await reader.end_offsets([place]))[place]
        next_offset = 0
        while next_offset < end:
            for record in await reader.read(timeout_ms=500):
                next_offset = record.offset + 1
                given = read_input(record)
                if isinstance(given, Publish):
                    parsed = parse_catalogue(given.content)
                    newest = parsed if isinstance(parsed, Catalogue) else newest
    finally:
        await reader.close()
    return newest


async def operations_of_published(log: KafkaLog, providers: frozenset[str]) -> tuple[str, ...]:
    """Names of the published operations that run on the given providers."""
    catalogue = await published_catalogue(log)
    operations = () if catalogue is None else catalogue.operations
    return tuple(sorted({one.name for one in operations if one.provider in providers}))


async def genesis_of(log: KafkaLog) -> Genesis:
    """Partitions and generation of the installation. Raises TopicsError, TruncatedLogError."""
    return await read_genesis(log, Topic.LEDGER, 0)
