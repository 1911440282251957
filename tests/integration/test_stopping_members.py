"""A member of a group that is stopped while it is on its way into it, and one whose broker is away,
on a real broker.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway import local
from gateway.wiring.life import STOP_MS_MAX
from ledger.log.kafka import KafkaLog
from ledger.log.port import Outgoing, Record
from ledger.log.steady import SteadyAppender
from ledger.log.trouble import LogUnreachableError
from streams.agents import add_agent
from streams.app import SafeApp
from tests.integration.faust_kit import until, workshop
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


async def kill(servers: local.Servers) -> Callable[[], None]:
    """Connections are refused from now on."""
    await servers.kafka.kill()
    return lambda: None


async def freeze(servers: local.Servers) -> Callable[[], None]:
    """Connections stay open, and nothing answers. What is given back ends that."""
    identity = servers.kafka.identity
    assert identity is not None
    os.kill(identity.pid, signal.SIGSTOP)
    return lambda: os.kill(identity.pid, signal.SIGCONT)


@pytest.mark.parametrize("leave", [kill, freeze])
@pytest.mark.parametrize(
    "at_work_on",
    ["nothing", "what it cannot commit", "what it cannot do", "what it cannot append"],
)
async def test_a_member_stops_in_order_while_its_broker_is_away(
    own_servers: local.Servers,
    at_work_on: str,
    leave: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Before the process is ended at its deadline, and as one that was told to: its last commit,
    the events it has at work, what they append and its group wait for no broker. What it could not
    do comes again. A stop that was ordered is told as no error of an agent's.
    """
    log = KafkaLog(own_servers.kafka_bootstrap, prefix="")
    appender = SteadyAppender(log.appender)
    came, is_away = asyncio.Event(), asyncio.Event()
    again: list[int] = []

    async def work(_: Sequence[Record]) -> None:
        await appender.append(other.topic, 0, [Outgoing(b"", b"")])
        came.set()
        await is_away.wait()
        if at_work_on == "what it cannot do":
            raise LogUnreachableError("No broker answers.", hint="Wait.")
        if at_work_on == "what it cannot append":
            await appender.append(other.topic, 0, [Outgoing(b"", b"")])

    async def read_again(records: Sequence[Record]) -> None:
        again.extend(record.offset for record in records)

    address = own_servers.kafka_bootstrap
    async with workshop(address) as other, workshop(address) as shop:
        running = shop.start(
            lambda app: add_agent(app, shop.topic, work, deadline_ms=60_000),
            stop_deadline_ms=STOP_MS_MAX,
        )
        if at_work_on == "nothing":
            await until(running.app.safe_consumer.is_member, "the group has taken it in")
        else:
            await shop.put(b"event")
            await came.wait()
        comes_back = await leave(own_servers)
        is_away.set()
        try:
            async with asyncio.timeout(STOP_MS_MAX / 1_000):
                await running.stopped()
                await appender.close()
        finally:
            comes_back()
        assert "consumer_poisoned" not in caplog.messages
        is_left = at_work_on in {"what it cannot do", "what it cannot append"}
        assert ("events_left_at_stop" in caplog.messages) == is_left
        if at_work_on != "what it cannot do":
            return
        if leave is kill:
            await own_servers.kafka.restart()
        shop.start(lambda app: add_agent(app, shop.topic, read_again, deadline_ms=5_000))
        await until(lambda: again == [0], "the event comes again")
