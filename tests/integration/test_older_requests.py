"""Requests of before an executor began: whoever waits for one gets it, whatever becomes of others
who wait.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest

from streams.older_requests import OlderRequests
from tests.integration.installation import installed
from tests.servers import Addresses

pytestmark = pytest.mark.servers

GENESIS = (0, 0)
"""The first record of a partition."""

NOWHERE = (0, -1)
"""A place at which nobody can read."""


@pytest.fixture
async def older(servers: Addresses) -> AsyncIterator[OlderRequests]:
    """The older requests of an installation."""
    async with installed(servers.kafka_bootstrap) as one:
        reading = OlderRequests(one.log)
        yield reading
        await reading.close()


async def test_who_gives_up_takes_no_place_away_from_others(older: OlderRequests) -> None:
    """Two wait for one place, and the first is cancelled before it came."""
    first, second = (asyncio.create_task(older.read(*GENESIS)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).key == b"genesis"
    with pytest.raises(asyncio.CancelledError):
        await first
    assert (await older.read(*GENESIS)).key == b"genesis"


async def test_whoever_comes_while_readers_are_let_go_is_served(older: OlderRequests) -> None:
    """A failure is everybody's who waited by then, and of nobody who comes after it."""
    assert (await older.read(*GENESIS)).key == b"genesis"
    for _ in range(3):
        with pytest.raises(ValueError, match="positive integer"):
            await older.read(*NOWHERE)
        assert (await older.read(*GENESIS)).key == b"genesis"
