"""The gateway: the HTTP door over the log and the read model."""

from gateway.http.serve import serve
from gateway.settings import Settings
from gateway.wiring.installation import begin_at, open_log, open_pool
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of


async def run(settings: Settings, life: Life) -> None:
    """Serve until asked to stop. Raises what must end the process."""
    log = open_log(settings, "gateway")
    genesis = await genesis_of(log)
    async with await open_pool(settings) as pool:
        begin = await begin_at(log, pool, genesis)
    await serve(settings, life.stop, begin_at=begin, beat=life.beat)
