"""A whole installation on the real Kafka for one test: its own topics, processes as tasks."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.wiring.publishing import Kind, publish_document
from ledger.client.client import LedgerClient, Progress
from ledger.core.catalogue import catalogue_hash
from ledger.core.inputs import Propose, Publish
from ledger.core.money import Money
from ledger.core.records import Decision, LedgerRecord, Verdict, accept
from ledger.core.request import Request
from ledger.log.admin import apply_topics
from ledger.log.envelope import outgoing, read_ledger
from ledger.log.kafka import KafkaLog
from ledger.log.port import Outgoing, Record
from ledger.log.topics import Topic
from projections.cold import ColdStore
from reconciler.providers.null import NullPerformer
from reconciler.providers.port import Performer
from streams.executor import MARGIN_MS_DEFAULT, SLOTS_DEFAULT, Executor
from streams.limits import STREAMS_HELD_MAX
from streams.processor import Processor
from tests.patience import PATIENCE_SECONDS

PARTITIONS = 3
CATALOGUE = Path("ledger/catalogue.toml").read_text(encoding="utf-8")


def charge(event: str, *, minor: int = 4_990, tenant: str = "acme") -> Propose:
    """A proposal to charge an order."""
    request = Request(
        operation="charge",
        version=1,
        target="order:A-1842",
        params={"customer": "cus_1"},
        money=Money(minor=minor, currency="EUR"),
        principal="agent:billing",
        environment="production",
    )
    return Propose(key=f"charge:v1:{tenant}:{event}", request=request)


@dataclass
class Installation:
    """Topics of its own on a shared broker, and the processes that a test starts and stops."""

    log: KafkaLog
    tasks: list[tuple[asyncio.Event, asyncio.Task[None]]] = field(default_factory=list)

    async def begin(
        self, catalogue: str = CATALOGUE, documents: Mapping[Kind, str] | None = None
    ) -> None:
        """Make the topics and publish what comes before the catalogue, and then that. Without a
        table everything that is declared goes ahead.
        """
        await apply_topics(self.log, partitions=PARTITIONS, generation=secrets.token_hex(4))
        for kind, text in (documents or {}).items():
            await publish_document(self.log, kind, text)
        published = Publish(
            kind="catalogue", content=catalogue, content_hash=catalogue_hash(catalogue)
        )
        await self.put(
            Topic.CONFIG,
            0,
            outgoing(
                published, stream="catalogue", subject=None, event_id="catalogue.1", source="/test"
            ),
        )

    async def put(self, topic: str, partition: int, *records: Outgoing) -> list[int]:
        """Append raw records; their offsets."""
        appender = await self.log.appender()
        try:
            return [one.offset for one in await appender.append(topic, partition, records)]
        finally:
            await appender.close()

    async def processor(
        self, store: ColdStore | None = None, *, streams_held_max: int = STREAMS_HELD_MAX
    ) -> Processor:
        """Start a processor and wait until it owns something."""
        processor = Processor(self.log, PARTITIONS, store=store, streams_held_max=streams_held_max)
        await self._start(processor.run, processor.ready)
        return processor

    async def executor(
        self,
        performer: Performer | None = None,
        *,
        slots: int = SLOTS_DEFAULT,
        margin_ms: int = MARGIN_MS_DEFAULT,
    ) -> Executor:
        """Start an executor for the catalogue's provider and wait for its first offers."""
        performers = {"simulated": performer or NullPerformer()}
        executor = Executor(self.log, PARTITIONS, performers, slots=slots, margin_ms=margin_ms)
        await self._start(executor.run, executor.ready)
        return executor

    async def _start(
        self, run: Callable[[asyncio.Event], Coroutine[Any, Any, None]], ready: asyncio.Event
    ) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(run(stop))
        self.tasks.append((stop, task))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait(
            {task, waiting}, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        waiting.cancel()
        if task.done():
            await task
        assert ready.is_set()

    async def stop(self, position: int = -1) -> None:
        """Stop one of the started processes gracefully."""
        stop, task = self.tasks.pop(position)
        stop.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await task

    async def crash(self, position: int = -1) -> None:
        """End one of the started processes without letting it finish anything."""
        _, task = self.tasks.pop(position)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def records(self, topic: str, partition: int) -> list[Record]:
        """Everything in a partition now."""
        place = (topic, partition)
        reader = await self.log.reader({place: 0})
        try:
            end = (await reader.end_offsets([place]))[place]
            found: list[Record] = []
            while len(found) < end:
                found.extend(await reader.read(timeout_ms=200))
            return found
        finally:
            await reader.close()

    async def ledger(self) -> list[tuple[int, int, LedgerRecord]]:
        """Every accepted ledger record with its partition and offset."""
        accepted: list[tuple[int, int, LedgerRecord]] = []
        for partition in range(PARTITIONS):
            epoch = 0
            for record in await self.records(Topic.LEDGER, partition):
                read = read_ledger(record.value)
                if accept(epoch, record.offset, read) is Verdict.ACCEPTED:
                    epoch = getattr(read, "epoch", epoch)
                    accepted.append((partition, record.offset, read))
        return accepted

    async def decisions(self) -> list[Decision]:
        """Every accepted decision."""
        return [read for _, _, read in await self.ledger() if isinstance(read, Decision)]


async def settled(client: LedgerClient, key: str, *statuses: str) -> Progress:
    """Wait until an action has one of the statuses, by what stands in the ledger: a success is told
    before, and whoever reads the log or the tables then may come too early.
    """
    version = 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            progress = await client.progress(key, after_version=version, timeout_ms=1_000)
            if progress is not None:
                version = progress.version
                if progress.status in statuses and not progress.is_early:
                    return progress


@contextlib.asynccontextmanager
async def installed(
    bootstrap: str, catalogue: str = CATALOGUE, documents: Mapping[Kind, str] | None = None
) -> AsyncIterator[Installation]:
    """An installation under a prefix of its own; everything started is ended."""
    prefix = f"t{secrets.token_hex(4)}.actionledger."
    installation = Installation(KafkaLog(bootstrap, prefix=prefix))
    try:
        await installation.begin(catalogue, documents)
        yield installation
    finally:
        while installation.tasks:
            await installation.crash()
