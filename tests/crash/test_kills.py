"""Kill every process and the broker in the middle of 300 actions: what was promised still holds.

Real processes, real Kafka, real Postgres, a provider with a book of its own that loses answers,
answers late, refuses and fails, before and after its commit. The checker judges the run by log,
book and projections alone.
"""

import asyncio
import os
import random
from pathlib import Path

import pytest

from gateway.local import Servers
from ledger.log.kafka import KafkaLog
from ledger.log.port import Outgoing
from tests.crash.load import Agents, script, wishes
from tests.crash.machine import PROCESSES, PROVIDER, machine
from tests.crash.settling import settled
from tests.patience import CAMPAIGN_SECONDS

ACTIONS = 300
SEED_VARIABLE = "ACTIONLEDGER_TEST_SEED"
POISON = (
    ("intents", 0, b"{no json"),
    ("intents", 1, b'{"specversion":"1.0","type":"actionledger.intent.propose.v1","data":{}}'),
    ("attempts", 1, bytes(range(256))),
    ("evidence", 2, b'{"a":1,"a":2}'),
    ("internal", 0, b""),
    ("webhooks", 1, b"nobody signed this"),
)
"""Bytes that no writer of ours would write, for inboxes and webhooks."""


def seed_of_run() -> int:
    """The seed that is asked for, or one that was never used."""
    given = os.environ.get(SEED_VARIABLE)
    return random.SystemRandom().randrange(10**6) if given is None else int(given)


async def poison(log: KafkaLog) -> None:
    """Write records that nobody can read between those that count."""
    appender = await log.appender()
    try:
        for topic, partition, value in POISON:
            await appender.append(topic, partition, [Outgoing(b"acme/poison", value)])
    finally:
        await appender.close()


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_kills_lose_nothing_and_repeat_nothing(own_servers: Servers, tmp_path: Path) -> None:
    """No acknowledged intent is lost, nothing happens twice, and everything comes to an end."""
    seed = seed_of_run()
    print(f"seed {seed}: repeat with {SEED_VARIABLE}={seed}")  # noqa: T201 - shown on failure
    wanted = wishes(seed, ACTIONS)
    servers = own_servers
    kafka, guarded = servers.kafka_bootstrap, servers.kafka_guarded
    async with machine(kafka, servers.admin_url, tmp_path, guarded=guarded) as running:
        await running.start(PROVIDER)
        await script(running.provider_url, wanted)
        await running.start(*PROCESSES)
        agents = Agents(running.url, running.keys, running.clients_file, seed)
        async with asyncio.TaskGroup() as group:
            group.create_task(agents.work(wanted))
            for number, victim in enumerate((*PROCESSES, "kafka"), start=1):
                await agents.reached(number * ACTIONS // 9)
                if victim == "kafka":
                    await servers.kafka.kill()
                    await servers.kafka.restart()
                else:
                    await running.end(victim)
            await poison(running.log)
        report = await settled(running, ACTIONS)
        print(report)  # noqa: T201
        assert report.is_right
        assert all(-9 in running.endings()[name] for name in PROCESSES), running.endings()
