"""Ends a process in good order when another catalogue is published: it works with one for life.

Guarantees that work in progress is finished first; the supervisor starts the process again, and it
then knows the new operations and accounts. The owner of a partition needs none of this: it adopts
each version where it stands in the log. Called by executor, inquirer and reconciler.
"""

import logging
from typing import Final

from gateway.wiring.life import Life
from ledger.core.catalogue import Catalogue
from ledger.log.kafka import KafkaLog
from ledger.log.published import CONFIG_PLACE, Published

logger = logging.getLogger("actionledger.process")

READ_MS: Final = 300


async def stop_when_catalogue_changes(log: KafkaLog, known: Catalogue | None, life: Life) -> None:
    """Follow the config topic until the process stops; ask it to when a new version is there."""
    reader = await log.reader({CONFIG_PLACE: 0})
    try:
        end = (await reader.end_offsets([CONFIG_PLACE]))[CONFIG_PLACE]
        published, in_use = Published(), None if known is None else known.content_hash
        while not life.stop.is_set():
            for record in await reader.read(timeout_ms=READ_MS):
                published.feed(record)
            newest = None if published.catalogue is None else published.catalogue.content_hash
            # Before that, what was read may be history.
            if newest != in_use and published.next_offset >= end:
                logger.info("catalogue_changed", extra={"hash": newest})
                life.ask_to_stop()
    finally:
        await reader.close()
