"""Small reads that several processes need before they work: the published configuration, the
partitions of the installation.

Nothing here decides: what a partition has adopted is in its own ledger. Called at the start of
processes.
"""

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Publish
from ledger.core.records import Genesis
from ledger.log.admin import check_counts, read_genesis
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.reading import read_up_to
from ledger.log.topics import Topic


async def published_catalogue(log: KafkaLog) -> Catalogue | None:
    """The newest valid catalogue on the config topic, or None where none was published."""
    place = (Topic.CONFIG.value, 0)
    reader = await log.reader({place: 0})
    newest: Catalogue | None = None
    try:
        ends = await reader.end_offsets([place])
        async for records in read_up_to(reader, {place: 0}, ends):
            for record in records:
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
    """Partitions and generation of the installation, as its ledger begins and as the broker has it.
    Raises TopicsError, TruncatedLogError, LogUnreachableError.
    """
    genesis = await read_genesis(log, Topic.LEDGER, 0)
    await check_counts(log, genesis.partitions, [Topic.LEDGER])
    return genesis
