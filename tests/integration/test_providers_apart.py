"""Executors share the work by their slots, and a provider that hangs keeps no other one waiting."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.wiring import run_executor
from gateway.wiring.life import Life
from gateway.wiring.run_executor import Beats
from ledger.client.client import LedgerClient
from ledger.core.inputs import Propose
from ledger.core.request import Request
from ledger.log.topics import partition_of
from tests.integration.installation import (
    CATALOGUE,
    PARTITIONS,
    charge,
    installed,
    settled,
)
from tests.integration.test_executing import Watched
from tests.integration.test_holds import settings_of
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.01
TIMING = f"[timing]\nlease_margin_ms = {2 * PATIENCE_MS}"
SLOW_ACTIONS = 200
"""More than calls of one provider may run and wait in an executor."""


def ticket(event: str) -> Propose:
    """A proposal of another provider's operation."""
    request = Request(
        operation="ticket",
        version=1,
        target=None,
        params={"title": "It is late."},
        money=None,
        principal="agent:billing",
        environment="production",
    )
    return Propose(key=f"ticket:v1:acme:{event}", request=request)


def of_two_providers() -> str:
    """The catalogue, with tickets at a provider that answers at once, and for the answer to a
    charge more time than anybody waits here.
    """
    patient = CATALOGUE.replace("response_ms = 10_000", f"response_ms = {2 * PATIENCE_MS}", 1)
    head, *operations = f"{TIMING}\n{patient}".split("[[operation]]")
    apart = [
        text.replace('"simulated"', '"null"') if 'name = "ticket"' in text else text
        for text in operations
    ]
    return "[[operation]]".join([head, *apart])


@contextlib.asynccontextmanager
async def hanging_provider() -> AsyncIterator[tuple[str, list[int]]]:
    """A server that takes every request and answers none: its address, and how many came."""
    came: list[int] = []
    over = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(len(await reader.read(1)))
        await over.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", came
    finally:
        over.set()
        server.close()


async def test_one_slow_provider_does_not_hold_the_actions_of_another(
    servers: Addresses, tmp_path: Path
) -> None:
    """With more calls hanging than may run and wait, actions at the other provider are carried out
    at once, by the same process.
    """
    async with (
        installed(servers.kafka_bootstrap, of_two_providers()) as one,
        hanging_provider() as (
            address,
            came,
        ),
    ):
        settings = replace(
            settings_of(one),
            provider_urls={"simulated": address, "null": "http://localhost"},
            state_dir=tmp_path,
        )
        await one.processor()
        life = Life("executor", tmp_path / "beat")
        executing = asyncio.create_task(run_executor.run(settings, life))
        try:
            async with LedgerClient(one.log, PARTITIONS) as client:
                slow = [charge(f"slow-{number}") for number in range(SLOW_ACTIONS)]
                await asyncio.gather(
                    *(client.propose(each, timeout_ms=PATIENCE_MS) for each in slow)
                )
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while not came:
                        await asyncio.sleep(LOOK_SECONDS)
                quick = [ticket(f"quick-{number}") for number in range(20)]
                async with asyncio.timeout(PATIENCE_SECONDS):
                    for each in quick:
                        await client.propose(each, timeout_ms=PATIENCE_MS)
                        await settled(client, each.key, "completed")
                stuck = [await client.progress(each.key, timeout_ms=0) for each in slow]
                statuses = {one.status for one in stuck if one is not None}
                assert "attempting" in statuses
                assert statuses <= {"attempting", "ready"}
        finally:
            executing.cancel()
            await asyncio.gather(executing, return_exceptions=True)


async def test_slots_are_split_over_partitions_and_two_executors_have_twice_as_many(
    servers: Addresses,
) -> None:
    """Each executor takes as many starts as it has slots, the same number from every partition, and
    the rest waits in the ledger for whoever is free first.
    """
    gate = asyncio.Event()
    first, second = Watched(gate), Watched(gate)
    slots = 2 * PARTITIONS
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(first, slots=slots)
        await one.executor(second, slots=slots)
        proposals = [charge(f"split-{number}") for number in range(60)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await asyncio.gather(
                *(client.propose(each, timeout_ms=PATIENCE_MS) for each in proposals)
            )
            async with asyncio.timeout(PATIENCE_SECONDS):
                while first.at_work + second.at_work < 2 * slots:
                    await asyncio.sleep(LOOK_SECONDS)
            for watched in (first, second):
                homes = [partition_of(_stream(key), PARTITIONS) for key in watched.calls]
                assert sorted(homes) == sorted([*range(PARTITIONS)] * 2)
            gate.set()
            for each in proposals:
                await settled(client, each.key, "completed")
    assert max(first.at_work_max, second.at_work_max) <= slots
    assert sorted(first.calls + second.calls) == sorted(each.key for each in proposals)


def _stream(key: str) -> str:
    *_, tenant, event = key.split(":")
    return f"{tenant}/{event}"


def test_a_heartbeat_is_that_of_all_of_them() -> None:
    """One that no longer moves is not hidden by the others."""
    heard: list[int] = []
    beats = Beats(lambda: heard.append(1), frozenset({"a", "b"}))
    a, b = beats.of("a"), beats.of("b")
    for _ in range(3):
        a()
    assert heard == []
    b()
    assert heard == [1]
    b()
    assert heard == [1]
    a()
    assert heard == [1, 1]
