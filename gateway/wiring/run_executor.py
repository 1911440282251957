"""The executor: the one process that can perform, for the operations of the providers it knows."""

import asyncio

from gateway.settings import Settings
from gateway.wiring.catalogue_watch import stop_when_catalogue_changes
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from reconciler.providers import registry
from streams.executor import SKEW_MS_DEFAULT, Executor


async def run(settings: Settings, life: Life) -> None:
    """Offer capacity and act until asked to stop. Raises what must end the process."""
    log = open_log(settings, "executor")
    genesis = await genesis_of(log)
    catalogue = await published_catalogue(log)
    async with await open_pool(settings) as pool:
        begin = await begin_at(log, pool, genesis)
    performers = registry.performers(providers(settings, catalogue))
    skew_ms = SKEW_MS_DEFAULT if catalogue is None else catalogue.timing.skew_ms
    executor = Executor(log, genesis.partitions, performers, skew_ms=skew_ms, begin_at=begin)
    try:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(stop_when_catalogue_changes(log, catalogue, life))
            await executor.run(life.stop, beat=life.beat)
            # It may also end by itself, to make way for a new incarnation.
            watching.cancel()
    finally:
        for performer in performers.values():
            await performer.close()
