"""The executor: the one process that can perform, for the operations of the providers it knows.

Guarantees that providers do not wait for each other: each has an incarnation of its own,
with offers, slots and calls. One that gave a start back gets a new incarnation here, while the
others work on.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gateway.settings import Settings
from gateway.wiring.catalogue_watch import stop_when_catalogue_changes
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.kafka import KafkaLog
from reconciler.providers import registry
from reconciler.providers.port import Performer, Previewer
from streams.executor import SKEW_MS_DEFAULT, Executor


@dataclass(slots=True)
class Beats:
    """The heartbeat of several that work side by side: it is heard when each of them has moved."""

    beat: Callable[[], None]
    names: frozenset[str]
    heard: set[str] = field(default_factory=set)

    def of(self, name: str) -> Callable[[], None]:
        """The heartbeat of one of them."""

        def hear() -> None:
            self.heard.add(name)
            if self.heard == self.names:
                self.heard.clear()
                self.beat()

        return hear


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients of the providers that one incarnation acts at."""

    performers: Mapping[str, Performer]
    previewers: Mapping[str, Previewer]


async def run(settings: Settings, life: Life) -> None:
    """Offer capacity and act until asked to stop. Raises what must end the process."""
    log = open_log(settings, "executor")
    catalogue = await published_catalogue(log)
    known = providers(settings, catalogue)
    performers, previewers = registry.performers(known), registry.previewers(known)
    skew_ms = SKEW_MS_DEFAULT if catalogue is None else catalogue.timing.skew_ms
    # Without any provider it still follows and shows that it lives.
    by_provider = {name: Clients({name: one}, previewers) for name, one in performers.items()}
    by_provider = by_provider or {"": Clients({}, {})}
    beats = Beats(life.beat, frozenset(by_provider))
    try:
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(stop_when_catalogue_changes(log, catalogue, life))
            async with asyncio.TaskGroup() as working:
                for name, own in by_provider.items():
                    working.create_task(
                        _work(settings, log, own, skew_ms, life.stop, beats.of(name))
                    )
            watching.cancel()
    finally:
        for performer in performers.values():
            await performer.close()
        for previewer in previewers.values():
            await previewer.close()


async def _work(
    settings: Settings,
    log: KafkaLog,
    clients: Clients,
    skew_ms: int,
    stop: asyncio.Event,
    beat: Callable[[], None],
) -> None:
    """One incarnation after another, until asked to stop."""
    genesis = await genesis_of(log)
    while not stop.is_set():
        async with await open_pool(settings) as pool:
            begin = await begin_at(log, pool, genesis)
        executor = Executor(
            log,
            genesis.partitions,
            clients.performers,
            previewers=clients.previewers,
            skew_ms=skew_ms,
            begin_at=begin,
        )
        await executor.run(stop, beat=beat)
