"""A processor that freezes: it stops its own process at the moment at which a batch is decided and
not sent, as a machine does that is suspended. Run as a child by `test_frozen_processor.py`.
"""

import asyncio
import os
import signal
import sys

from ledger.log.kafka import KafkaLog
from streams.owner import Batch
from streams.processor import Processor
from tests.integration.installation import PARTITIONS


class FreezingProcessor(Processor):
    """Freezes once, before it appends the first decision about an intent."""

    has_frozen = False

    async def _append(self, batches: dict[int, Batch]) -> set[int]:
        intents = [
            read
            for batch in batches.values()
            for read in batch.read
            if read.cause.topic == "intents"
        ]
        if intents and not self.has_frozen:
            self.has_frozen = True
            os.kill(os.getpid(), signal.SIGSTOP)
        return await super()._append(batches)


async def main(bootstrap: str, prefix: str, group_session_ms: int) -> None:
    """Work until something ends it."""
    log = KafkaLog(bootstrap, prefix=prefix, group_session_ms=group_session_ms)
    await FreezingProcessor(log, PARTITIONS).run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
