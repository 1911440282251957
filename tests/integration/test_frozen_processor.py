"""A processor that is suspended with decisions in its hands, and wakes when another has its place.

Broker assumption 13, with the product's own processor as a process of its own.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import psutil
import pytest

from gateway.local.processes import Child, Command, Identity
from ledger.client.client import LedgerClient
from ledger.core.records import EpochOpened, Verdict, accept
from ledger.log.envelope import read_ledger
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic
from tests.integration.installation import PARTITIONS, Installation, charge
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

SESSION_MS = 1_500
INTENTS = 12
LOOK_SECONDS = 0.02
ROOT = Path(__file__).parents[2]


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


@pytest.fixture
async def here(servers: Addresses) -> AsyncIterator[Installation]:
    """An installation whose group misses a member soon."""
    prefix = f"t{secrets.token_hex(4)}.actionledger."
    log = KafkaLog(servers.kafka_bootstrap, prefix=prefix, group_session_ms=SESSION_MS)
    one = Installation(log)
    await one.begin()
    try:
        yield one
    finally:
        while one.tasks:
            await one.crash()


def freezing(log: KafkaLog, folder: Path) -> Child:
    """Start the processor that will freeze."""

    def nobody(_: Identity) -> None:
        """The kernel ends it with us."""

    return Child(
        Command(
            name="processor",
            argv=(
                *(sys.executable, "-m", "tests.integration.freezing_processor"),
                *(log.bootstrap, log.prefix, str(log.group_session_ms)),
            ),
            log=folder / "processor.log",
            env={"PATH": "/usr/bin:/bin"},
            cwd=ROOT,
            death_signal=signal.SIGKILL,
        ),
        nobody,
    )


def awake(one: Installation) -> Installation:
    """The same one for a member that is not missed so soon: only the frozen one is to be."""
    return Installation(KafkaLog(one.log.bootstrap, prefix=one.log.prefix), one.tasks)


async def void_count(one: Installation) -> int:
    """How many records of the ledger count for nobody."""
    count = 0
    for partition in range(PARTITIONS):
        epoch = 0
        for record in await one.records(Topic.LEDGER, partition):
            read = read_ledger(record.value)
            if accept(epoch, record.offset, read) is not Verdict.ACCEPTED:
                count += 1
            elif isinstance(read, EpochOpened):
                epoch = read.epoch
    return count


async def test_13_what_a_frozen_owner_sends_when_it_wakes_is_void(
    here: Installation, tmp_path: Path
) -> None:
    """13: the broker takes the late records of the old owner, behind the barrier of the new one;
    every reader voids them, each intent has the one decision of the new owner, and the old one
    goes.
    """
    old = freezing(here.log, tmp_path)
    frozen = psutil.Process(old.identity.pid)
    try:
        async with LedgerClient(here.log, PARTITIONS) as client, asyncio.TaskGroup() as tasks:
            for number in range(INTENTS):
                proposal = charge(f"frozen-{number}")
                tasks.create_task(client.propose(proposal, timeout_ms=PATIENCE_MS))
            await until(lambda: frozen.status() == psutil.STATUS_STOPPED)
            new = await awake(here).processor()
            await until(lambda: set(new._owners) == set(range(PARTITIONS)))
        assert await void_count(here) == 0
        os.kill(old.identity.pid, signal.SIGCONT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await void_count(here):
                await asyncio.sleep(LOOK_SECONDS)
        await until(lambda: not old.is_running)
        async with LedgerClient(here.log, PARTITIONS) as client:
            await client.propose(charge("after"), timeout_ms=PATIENCE_MS)
    finally:
        await old.kill()
    causes = Counter(
        (decision.cause.partition, decision.cause.offset)
        for decision in await here.decisions()
        if decision.cause.topic == Topic.INTENTS
    )
    assert len(causes) == INTENTS + 1
    assert set(causes.values()) == {1}
