"""The set-up step: topics with their genesis records, a first catalogue, the tables.

Guarantees that running it again changes nothing that is in place. Ends by itself.
"""

import asyncio
import logging
import secrets

import asyncpg

from gateway.settings import Settings
from gateway.wiring.installation import open_log
from gateway.wiring.life import Life
from gateway.wiring.publishing import default_catalogue, publish_catalogue
from ledger.log.admin import apply_topics
from ledger.log.follow import published_catalogue
from ledger.log.kafka import KafkaLog
from projections.migrate import migrate

logger = logging.getLogger("actionledger.process")


async def run(settings: Settings, life: Life) -> None:
    """Bring log and database to what the processes need. Raises TopicsError, MigrationError."""
    log = open_log(settings, "setup")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_set_up_log(log, settings))
        tasks.create_task(_set_up_tables(settings))
    life.beat()


async def _set_up_log(log: KafkaLog, settings: Settings) -> None:
    generation = await apply_topics(
        log,
        partitions=settings.partitions,
        generation=secrets.token_hex(8),
        flush_records=settings.flush.records,
    )
    logger.info("topics_applied", extra={"generation": generation})
    if await published_catalogue(log) is None:
        offset, _ = await publish_catalogue(log, default_catalogue())
        logger.info("catalogue_published", extra={"offset": offset})


async def _set_up_tables(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.database_url)
    try:
        for file in await migrate(connection):
            logger.info("migration_applied", extra={"file": file})
    finally:
        await connection.close()
