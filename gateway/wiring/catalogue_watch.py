"""Ends a process in good order when another catalogue is published: it works with one for life.

Guarantees that work in progress is finished first; the supervisor starts the process again, and it
then knows the new operations and accounts. The owner of a partition needs none of this: it adopts
each version where it stands in the log. Called by executor, inquirer and reconciler.
"""

import logging
from typing import Final

from gateway.wiring.life import Life
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Publish
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic

logger = logging.getLogger("actionledger.process")

READ_MS: Final = 300


async def stop_when_catalogue_changes(log: KafkaLog, known: Catalogue | None, life: Life) -> None:
    """Follow the config topic until the process stops; ask it to when a new version is there."""
    place = (Topic.CONFIG.value, 0)
    reader = await log.reader({place: 0})
    try:
        end = (await reader.end_offsets([place]))[place]
        in_use = newest = None if known is None else known.content_hash
        read_to = 0
        while not life.stop.is_set():
            for record in await reader.read(timeout_ms=READ_MS):
                given = read_input(record)
                read_to = record.offset + 1
                if isinstance(given, Publish) and is_catalogue(given.content):
                    newest = given.content_hash
            # Before that, what was read may be history.
            if newest != in_use and read_to >= end:
                logger.info("catalogue_changed", extra={"hash": newest})
                life.ask_to_stop()
    finally:
        await reader.close()


def is_catalogue(text: str) -> bool:
    """Whether owners will adopt it."""
    return isinstance(parse_catalogue(text), Catalogue)
