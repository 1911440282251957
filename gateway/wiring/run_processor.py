"""The processor: the one writer of the ledger, over the partitions that its group gives it."""

from gateway.settings import Settings
from gateway.wiring.installation import begin_at, open_log, open_pool
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from projections.cold import ColdStore
from streams.processor import SKEW_MS_DEFAULT, Processor


async def run(settings: Settings, life: Life) -> None:
    """Decide until asked to stop. Raises what must end the process."""
    log = open_log(settings, "processor")
    genesis = await genesis_of(log)
    catalogue = await published_catalogue(log)
    skew_ms = SKEW_MS_DEFAULT if catalogue is None else catalogue.timing.skew_ms
    async with await open_pool(settings) as pool:
        await begin_at(log, pool, genesis)
        processor = Processor(log, genesis.partitions, skew_ms=skew_ms, store=ColdStore(pool))
        await processor.run(life.stop, beat=life.beat)
