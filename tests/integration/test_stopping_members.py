"""A member of a group that is stopped while it is on its way into it, on a real broker."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ledger.log.port import Record
from streams.agents import add_agent
from streams.app import SafeApp
from tests.integration.faust_kit import workshop
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

ROUNDS = 3


async def handle(_: Sequence[Record]) -> None:
    """Nothing comes."""


def before(owner: Any, name: str, tell: Callable[[], None]) -> None:  # noqa: ANN401 - Faust's own
    """Tell of each call of a method before it is made."""
    original = getattr(owner, name)

    def told(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - as above
        tell()
        return original(*given, **named)

    setattr(owner, name, told)


MOMENTS: dict[str, Callable[[SafeApp, Callable[[], None]], None]] = {
    "its thread begins": lambda app, tell: before(app.safe_consumer._thread, "start", tell),
    "it asks to be let in": lambda app, tell: before(app, "on_rebalance_start", tell),
    "it is given partitions": lambda app, tell: before(
        app.safe_consumer, "on_partitions_assigned", tell
    ),
    "it reads": lambda app, tell: before(app.safe_consumer, "getmany", tell),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_member_stops_at_whatever_moment_it_is_told_to(
    servers: Addresses, moment: str
) -> None:
    """Its thread is over when the stop is, well before the deadline after which a process is ended,
    and leaves no member behind that the next one would have to wait for.
    """
    loop = asyncio.get_running_loop()
    async with workshop(servers.kafka_bootstrap) as shop:
        for _ in range(ROUNDS):
            came = asyncio.Event()

            def tell(came: asyncio.Event = came) -> None:
                loop.call_soon_threadsafe(came.set)

            def add(app: SafeApp, tell: Callable[[], None] = tell) -> None:
                add_agent(app, shop.topic, handle, deadline_ms=5_000)
                MOMENTS[moment](app, tell)

            running = shop.start(add)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await came.wait()
            await running.stopped()
            thread = running.app.safe_consumer._thread._thread
            assert thread is not None
            assert not thread.is_alive()
