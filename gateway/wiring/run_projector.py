"""The projector: ledger and positions into Postgres, rows and offsets in one transaction."""

import asyncio
from typing import Final

from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from gateway.wiring.life import BEAT_SECONDS, Life
from ledger.log.follow import genesis_of
from projections.projector import Projector

POLL_SECONDS: Final = BEAT_SECONDS / 2


async def run(settings: Settings, life: Life) -> None:
    """Project until asked to stop. Raises what must end the process."""
    log = open_log(settings, "projector")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        projector = Projector(log, pool, range(genesis.partitions))
        async with asyncio.TaskGroup() as tasks:
            beating = tasks.create_task(_beat(projector, life))
            await projector.run(life.stop)
            beating.cancel()


async def _beat(projector: Projector, life: Life) -> None:
    """Tell of life once it follows the log."""
    await projector.ready.wait()
    while True:
        life.beat()
        await asyncio.sleep(POLL_SECONDS)
