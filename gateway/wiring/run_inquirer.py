"""The inquirer: puts the ledger's questions to providers, and reads their lists of events. Its
clients can only look.
"""

import asyncio

import asyncpg

from gateway.settings import Settings
from gateway.wiring.catalogue_watch import stop_when_catalogue_changes
from gateway.wiring.compare_desk import compared_accounts, receivers_appender
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.steady import SteadyAppender
from reconciler.comparing import Compared, compare_by_itself
from reconciler.providers import registry
from reconciler.pulling import EventPuller
from streams.clock import wall_ms
from streams.inquirer import Inquirer


async def run(settings: Settings, life: Life) -> None:
    """Find out until asked to stop. Raises what must end the process."""
    log = open_log(settings, "inquirer")
    catalogue = await published_catalogue(log)
    known = providers(settings, catalogue)
    finders, previewers = registry.finders(known), registry.previewers(known)
    sources = registry.event_sources(known)
    async with await open_pool(settings) as pool:
        genesis = await genesis_of(log)
        await begin_at(log, pool, genesis)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(stop_when_catalogue_changes(log, catalogue, life))
                inquirer = Inquirer(
                    log,
                    finders,
                    previewers=previewers,
                    catalogue=catalogue,
                    pool=pool,
                    shared_accounts=registry.shared_accounts(known),
                )
                tasks.create_task(inquirer.run(life.stop, life.beat))
                lists = receivers_appender(settings)
                if lists is not None:
                    compared = compared_accounts(
                        known, finders, catalogue, lists, pool, partitions=genesis.partitions
                    )
                    tasks.create_task(_compare(compared, pool, lists, life.stop))
                if sources:
                    # In the receiver's role: only that one may write what providers say.
                    appender = SteadyAppender(open_log(settings, "gateway-webhooks").appender)
                    puller = EventPuller(
                        appender,
                        pool,
                        sources,
                        registry.webhook_mappings(known),
                        partitions=genesis.partitions,
                        now_ms=wall_ms,
                    )
                    tasks.create_task(_pull(puller, appender, life.stop))
        finally:
            for finder in finders.values():
                await finder.close()
            for previewer in previewers.values():
                await previewer.close()
            for source in sources.values():
                await source.close()


async def _compare(
    accounts: list[Compared], pool: asyncpg.Pool, appender: SteadyAppender, stop: asyncio.Event
) -> None:
    try:
        await compare_by_itself(accounts, pool, stop, now_ms=wall_ms)
    finally:
        await appender.close()


async def _pull(puller: EventPuller, appender: SteadyAppender, stop: asyncio.Event) -> None:
    try:
        await puller.run(stop)
    finally:
        await appender.close()
