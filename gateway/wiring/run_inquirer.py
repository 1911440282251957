"""The inquirer: puts the ledger's questions to providers. Its clients can only look."""

import asyncio

from gateway.settings import Settings
from gateway.wiring.catalogue_watch import stop_when_catalogue_changes
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from reconciler.providers import registry
from streams.inquirer import Inquirer


async def run(settings: Settings, life: Life) -> None:
    """Find out until asked to stop. Raises what must end the process."""
    log = open_log(settings, "inquirer")
    catalogue = await published_catalogue(log)
    known = providers(settings, catalogue)
    finders, previewers = registry.finders(known), registry.previewers(known)
    async with await open_pool(settings) as pool:
        await begin_at(log, pool, await genesis_of(log))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(stop_when_catalogue_changes(log, catalogue, life))
                inquirer = Inquirer(
                    log, finders, previewers=previewers, catalogue=catalogue, pool=pool
                )
                tasks.create_task(inquirer.run(life.stop, life.beat))
        finally:
            for finder in finders.values():
                await finder.close()
            for previewer in previewers.values():
                await previewer.close()
