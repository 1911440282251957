"""A Faust process as its supervisor sees it: it works, it stops, or it ends and says so."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process

import pytest

from streams.app import EXIT_STUCK
from tests.integration.faust_kit import Workshop, workshop
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses


async def started(shop: Workshop, how: str) -> Process:
    """Start a process whose agent does as it is told."""
    group = shop.settings().group
    program = ("-m", "tests.integration.faust_process", how, shop.bootstrap, shop.topic, group)
    return await asyncio.create_subprocess_exec(
        sys.executable, *program, stdout=PIPE, stderr=DEVNULL
    )


async def ended(process: Process) -> int:
    """Wait for a process to end; its exit code."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.wait()


async def first_line(process: Process) -> bytes:
    """What the process printed first: the offset of the first event it saw."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await process.stdout.readline()


@pytest.mark.parametrize(("how", "exit_code"), [("raise", 1), ("hang", EXIT_STUCK)])
async def test_a_process_that_cannot_go_on_ends_with_an_error(
    servers: Addresses, how: str, exit_code: int
) -> None:
    """A failed agent and one that never comes back end the process; the event is not committed."""
    async with workshop(servers.kafka_bootstrap) as shop:
        await shop.put(b"event")
        process = await started(shop, how)
        assert await first_line(process) == b"0\n"
        assert await ended(process) == exit_code
        assert await shop.committed() is None


async def test_a_process_that_is_told_to_stop_finishes_and_ends_well(servers: Addresses) -> None:
    """On SIGTERM what is handled is committed and the exit code is 0."""
    async with workshop(servers.kafka_bootstrap) as shop:
        await shop.put(b"event")
        process = await started(shop, "work")
        assert await first_line(process) == b"0\n"
        process.terminate()
        assert await ended(process) == 0
        assert await shop.committed() == 1
