"""The projector: ledger and positions into Postgres, rows and offsets in one transaction."""

from gateway.settings import Settings
from gateway.wiring.installation import begin_at, open_log, open_pool
from gateway.wiring.life import Life
from ledger.log.admin import cluster_id
from ledger.log.follow import genesis_of
from projections.projector import Projector


async def run(settings: Settings, life: Life) -> None:
    """Project until asked to stop. Raises what must end the process."""
    log = open_log(settings, "projector")
    genesis = await genesis_of(log)
    cluster = await cluster_id(log)
    async with await open_pool(settings) as pool:
        await begin_at(log, pool, genesis)
        projector = Projector(log, pool, range(genesis.partitions), cluster=cluster)
        await projector.run(life.stop, beat=life.beat)
