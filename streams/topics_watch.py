"""While a processor decides: look every minute whether its topics still keep what is written.

Guarantees that a processor ends where somebody gave a topic a retention or compaction, as none
begins on such a topic: the broker deletes first what the ledger rests on. A look that fails says
nothing about topics, so it ends nothing. Run by the processor beside its rounds.
"""

import asyncio
import logging

from ledger.core.errors import LedgerError
from ledger.log.admin import TopicsError, check_keeping
from ledger.log.kafka import KafkaLog

logger = logging.getLogger("actionledger")

CHECK_SECONDS = 60.0


async def watch_topics(log: KafkaLog, partitions: int, stop: asyncio.Event) -> None:
    """Look until `stop` is set. Raises TopicsError, with the name of the topic and the setting."""
    while not stop.is_set():
        await asyncio.sleep(CHECK_SECONDS)
        try:
            await check_keeping(log, partitions)
        except TopicsError:
            raise
        except LedgerError as failed:
            kind, why = type(failed).__name__, failed.message
            logger.warning("topics_not_looked_at", extra={"error": kind, "why": why})
