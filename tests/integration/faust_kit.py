"""What tests of the Faust processes need: a topic and a group of their own, apps as tasks, and the
group's offsets as the broker has them.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from streams.app import AppSettings, SafeApp, build_app, run_app
from tests.patience import PATIENCE_SECONDS

POLL_SECONDS = 0.05


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for a condition, within a deadline."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not holds():
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"it never happened: {what}") from None


def _stuck() -> None:
    raise AssertionError("the app did not stop")


@dataclass
class Running:
    """An app that runs as a task."""

    app: SafeApp
    task: asyncio.Task[None]
    stop: asyncio.Event

    async def ended(self) -> BaseException | None:
        """Wait for the app to end by itself; what it ended with."""
        await asyncio.wait((self.task,), timeout=PATIENCE_SECONDS)
        assert self.task.done(), "the app did not end"
        return self.task.exception()

    async def stopped(self) -> None:
        """Ask the app to stop and wait for it."""
        self.stop.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.task


def run_as_task(app: SafeApp, settings: AppSettings) -> Running:
    """Run an app that has its agents; one that does not stop fails the test."""
    stop = asyncio.Event()
    runs = run_app(app, settings, stop=stop, when_stuck=_stuck)
    return Running(app, asyncio.create_task(runs), stop)


@dataclass
class Workshop:
    """One topic with its group on a shared broker."""

    bootstrap: str
    topic: str
    partitions: int
    producer: AIOKafkaProducer
    running: list[Running] = field(default_factory=list)

    def settings(self, **changes: int) -> AppSettings:
        """Settings of an app in this workshop's group, quick to notice the end of a member."""
        quick: dict[str, Any] = {
            "session_timeout_ms": 6_000,
            "heartbeat_ms": 500,
            "commit_interval_ms": 100,
        }
        return AppSettings(self.bootstrap, f"{self.topic}.group", **(quick | changes))

    def start(self, add: Callable[[SafeApp], None], **changes: int) -> Running:
        """Run an app; `add` gives it its agents."""
        settings = self.settings(**changes)
        app = build_app(settings)
        add(app)
        running = run_as_task(app, settings)
        self.running.append(running)
        return running

    async def put(self, *values: bytes, partition: int = 0) -> None:
        """Append values and wait for them."""
        for value in values:
            await self.producer.send_and_wait(self.topic, value, partition=partition)

    async def committed(self, partition: int = 0) -> int | None:
        """The group's offset on the broker."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=f"{self.topic}.group",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            offset: int | None = await consumer.committed(TopicPartition(self.topic, partition))
            return offset
        finally:
            await consumer.stop()

    async def committed_becomes(self, offset: int, partition: int = 0) -> None:
        """Wait until the group's offset is this one."""
        found: int | None = None
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (found := await self.committed(partition)) != offset:
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"committed stays {found}, not {offset}") from None


@contextlib.asynccontextmanager
async def workshop(bootstrap: str, *, partitions: int = 1) -> AsyncIterator[Workshop]:
    """Make a topic and let go of everything that runs on it at the end."""
    topic = f"t{secrets.token_hex(4)}.events"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    made = Workshop(bootstrap, topic, partitions, producer)
    try:
        yield made
    finally:
        for running in made.running:
            running.stop.set()
        await asyncio.gather(*(one.task for one in made.running), return_exceptions=True)
        await producer.stop()
