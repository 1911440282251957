"""Small reads that several processes need before they work: the published configuration, the
partitions of the installation.

Nothing here decides: what a partition has adopted is in its own ledger. Called at the start of
processes.
"""

from ledger.core.catalogue import Catalogue
from ledger.core.records import Genesis
from ledger.log.admin import check_counts, read_genesis, require_topics
from ledger.log.kafka import KafkaLog
from ledger.log.published import read_published
from ledger.log.topics import Topic


async def published_catalogue(log: KafkaLog) -> Catalogue | None:
    """The newest valid catalogue on the config topic, or None where none was published."""
    return (await read_published(log)).catalogue


async def genesis_of(log: KafkaLog) -> Genesis:
    """Partitions and generation of the installation, as its ledger begins and as the broker has it.
    Raises TopicsError, TruncatedLogError, LogUnreachableError.
    """
    await require_topics(log)
    genesis = await read_genesis(log, Topic.LEDGER, 0)
    await check_counts(log, genesis.partitions, [Topic.LEDGER])
    return genesis
