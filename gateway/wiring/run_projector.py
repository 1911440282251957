"""The projector: ledger and positions into Postgres, rows and offsets in one transaction."""

from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of
from projections.projector import Projector


async def run(settings: Settings, life: Life) -> None:
    """Project until asked to stop. Raises what must end the process."""
    log = open_log(settings, "projector")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        projector = Projector(log, pool, range(genesis.partitions))
        await projector.run(life.stop, beat=life.beat)
