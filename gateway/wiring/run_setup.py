"""The set-up step: topics with their genesis records, a first decision table and catalogue, the
tables.

Guarantees that running it again changes nothing that is in place, and that no partition ever
decides without a table: it is there before the first catalogue. Ends by itself.
"""

import asyncio
import logging
import secrets

import asyncpg

from gateway.settings import Settings
from gateway.wiring.installation import open_log
from gateway.wiring.life import Life
from gateway.wiring.publishing import (
    default_catalogue,
    default_policy,
    in_force,
    publish_document,
)
from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaLog
from ledger.log.published import read_published
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
    published = await read_published(log)
    if in_force(published, "policy") is None:
        file = settings.policy_file
        text = default_policy() if file is None else file.read_text(encoding="utf-8")
        offset, _ = await publish_document(log, "policy", text)
        logger.info("policy_published", extra={"offset": offset})
    if in_force(published, "catalogue") is None:
        offset, _ = await publish_document(log, "catalogue", default_catalogue())
        logger.info("catalogue_published", extra={"offset": offset})


async def _set_up_tables(settings: Settings) -> None:
    connection = await asyncpg.connect(settings.database_url)
    try:
        for file in await migrate(connection):
            logger.info("migration_applied", extra={"file": file})
    finally:
        await connection.close()
