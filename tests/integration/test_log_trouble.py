"""Readers and appenders while the broker is away: what they tell, and that their end is an end."""

import asyncio
import gc
import secrets

import psutil
import pytest
from aiokafka.conn import AIOKafkaConnection

from gateway import local
from ledger.log import clients
from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaAppender, KafkaLog, KafkaReader
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.topics import Topic
from ledger.log.trouble import LogUnreachableError, TruncatedLogError
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

pytestmark = pytest.mark.servers

INTENTS = (Topic.INTENTS.value, 0)
LOOK_SECONDS = 0.02
TURNS_MAX = 300
"""Of the loop, in which a client is started on a broker nearby."""

RECORD = Outgoing(b"acme/renewal", b"{}")


@pytest.fixture
async def log(module_servers: local.Servers) -> KafkaLog:
    """Topics of its own on a broker that runs when the test begins."""
    if not module_servers.kafka.is_running:
        await module_servers.kafka.restart()
    log = KafkaLog(module_servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await apply_topics(log, partitions=1, generation="g")
    return log


async def pending(appender: KafkaAppender) -> asyncio.Task[object]:
    """An append that waits for a broker that does not answer."""
    waiting = asyncio.create_task(appender.append(*INTENTS, [RECORD, RECORD]))
    await asyncio.wait({waiting}, timeout=0.5)
    assert not waiting.done()
    return waiting


async def assert_ends(
    reader: KafkaReader, appender: KafkaAppender, before: set[asyncio.Task[object]]
) -> None:
    """Both ends are ends, and leave nothing running."""
    await reader.close()
    await appender.close()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while asyncio.all_tasks() - before:
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_reader_and_an_appender_end_while_the_broker_is_dead(
    log: KafkaLog, module_servers: local.Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing them raises nothing, cancels nobody, fails what still waits, and leaves no task that
    would go on sending when the broker is back.
    """
    monkeypatch.setattr(clients, "CLOSE_DEADLINE_SECONDS", 0.3)
    before = asyncio.all_tasks()
    reader, appender = await log.reader({INTENTS: 0}), await log.appender()
    await appender.append(*INTENTS, [RECORD])
    await module_servers.kafka.kill()
    waiting = await pending(appender)
    assert await reader.read(timeout_ms=500) is not None
    await assert_ends(reader, appender, before | {waiting})
    with pytest.raises(AppendUnknownError):
        await waiting


async def test_a_reader_and_an_appender_end_while_the_broker_is_frozen(
    log: KafkaLog, module_servers: local.Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that holds its connections open and says nothing holds nobody up."""
    monkeypatch.setattr(clients, "CLOSE_DEADLINE_SECONDS", 0.3)
    before = asyncio.all_tasks()
    reader, appender = await log.reader({INTENTS: 0}), await log.appender()
    await appender.append(*INTENTS, [RECORD])
    assert module_servers.kafka.identity is not None
    broker = psutil.Process(module_servers.kafka.identity.pid)
    broker.suspend()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while broker.status() != psutil.STATUS_STOPPED:
                await asyncio.sleep(LOOK_SECONDS)
        waiting = await pending(appender)
        await assert_ends(reader, appender, before | {waiting})
        with pytest.raises(AppendUnknownError):
            await waiting
    finally:
        broker.resume()


async def test_a_position_outside_the_log_is_lost_records_and_nothing_else_is(
    log: KafkaLog, module_servers: local.Servers
) -> None:
    """A reader that stands behind the end is told so; one whose broker is away reads nothing, and
    whoever asks a dead broker for a new reader hears that it is unreachable.
    """
    reader = await log.reader({INTENTS: 100})
    with pytest.raises(TruncatedLogError):
        await reader.read(timeout_ms=PATIENCE_MS)
    await reader.close()
    with pytest.raises(TruncatedLogError):
        await log.read_one(*INTENTS, 100)
    following = await log.reader({INTENTS: 0})
    await module_servers.kafka.kill()
    for _ in range(3):
        await following.read(timeout_ms=200)
    await following.close()
    with pytest.raises(LogUnreachableError):
        await log.reader({INTENTS: 0})


async def test_a_reader_whose_fetching_died_says_so(log: KafkaLog) -> None:
    """Where the client's own task has ended, silence is not an empty log."""
    reader = await log.reader({INTENTS: 0})
    assert len(await reader.read(timeout_ms=PATIENCE_MS)) == 1
    fetching = reader._consumer._fetcher.error_future
    fetching.cancel()
    await asyncio.wait({fetching})
    with pytest.raises(LogUnreachableError):
        await reader.read(timeout_ms=10)
    await reader.close()


async def test_a_start_that_is_given_up_leaves_no_connection(log: KafkaLog) -> None:
    """Wherever it is cut: before it is connected, while it asks, or when it just has begun."""
    before, ended = connected(), 0
    for turns in range(0, TURNS_MAX, 5):
        starting = asyncio.create_task(log.appender())
        for _ in range(turns):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        ended += starting.cancelled()
        if not starting.cancelled():
            await starting.result().close()
    assert ended, "none was cut: a start takes fewer turns than the first one looks at"
    assert connected() <= before


def connected() -> set[AIOKafkaConnection]:
    """Every connection to a broker that this process has open, whoever made it."""
    made = [one for one in gc.get_objects() if isinstance(one, AIOKafkaConnection)]
    return {one for one in made if one.connected()}
