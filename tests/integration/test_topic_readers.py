"""Inboxes that are read side by side, each by a client of its own, from real partitions."""

import asyncio
import inspect
from collections.abc import AsyncIterator

import pytest

from ledger.log.kafka import BEHIND_RECORDS_MIN, FETCH_WAIT_BEHIND_MS, FETCH_WAIT_MS
from ledger.log.port import Outgoing, Record
from ledger.log.topics import Topic
from ledger.log.trouble import TruncatedLogError
from streams.topic_readers import TopicReaders
from tests.integration.installation import PARTITIONS, Installation, installed
from tests.patience import PATIENCE_SECONDS
from tests.projecting import until
from tests.servers import Addresses

pytestmark = pytest.mark.servers

INTENTS, ATTEMPTS = Topic.INTENTS.value, Topic.ATTEMPTS.value
FIRST = 1
"""Every inbox begins with the record of its genesis."""


@pytest.fixture
async def one(servers: Addresses) -> AsyncIterator[Installation]:
    """An installation in which nobody runs."""
    async with installed(servers.kafka_bootstrap) as found:
        yield found


@pytest.fixture
async def readers(one: Installation) -> AsyncIterator[TopicReaders]:
    """Readers of intents and attempts, of no partition yet."""
    found = TopicReaders(one.log, [INTENTS, ATTEMPTS], records_max=100)
    await found.start()
    try:
        yield found
    finally:
        await found.close()


async def put(one: Installation, topic: str, *values: bytes, partition: int = 0) -> None:
    """Append values to a partition."""
    appender = await one.log.appender()
    try:
        await appender.append(topic, partition, [Outgoing(b"k", value) for value in values])
    finally:
        await appender.close()


async def values(readers: TopicReaders, count: int) -> list[tuple[str, int, bytes]]:
    """What is read until so many records came, each with its topic and partition."""
    found: list[Record] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found) < count:
            found += await readers.read(200)
    return [(record.topic, record.partition, record.value) for record in found]


async def read_ahead(readers: TopicReaders, topic: str) -> None:
    """Wait until the client of a topic has read something that was not given yet."""

    def has_read() -> bool:
        one = next(one for one in readers._readers if one.topic == topic)
        reading = one.go_on(100)
        if reading.done() and not reading.result():
            one.take()  # nothing came in time: it reads on
        return one.reading is not None and reading.done()

    await until(has_read, f"something of {topic} is read")


async def test_every_place_is_read_in_order_from_where_it_was_put(
    one: Installation, readers: TopicReaders
) -> None:
    """Places that nobody put anywhere are not read."""
    await put(one, INTENTS, b"1", b"2", b"3")
    await put(one, ATTEMPTS, b"a", b"b")
    await put(one, INTENTS, b"elsewhere", partition=1)
    await readers.assign({0, 1})
    readers.read_on(0, {INTENTS: FIRST + 1, ATTEMPTS: FIRST})
    found = await values(readers, 4)
    assert [value for topic, _, value in found if topic == INTENTS] == [b"2", b"3"]
    assert [value for topic, _, value in found if topic == ATTEMPTS] == [b"a", b"b"]


async def test_what_was_read_and_not_given_is_not_given_once_its_partition_is_put_anew(
    one: Installation, readers: TopicReaders
) -> None:
    """A client reads on while its last records are worked on: what it brought comes again from the
    new place, and not before; of the partition beside it nothing is lost.
    """
    await readers.assign({0, 1})
    for partition in (0, 1):
        readers.read_on(partition, {INTENTS: FIRST, ATTEMPTS: FIRST})
    assert await readers.read(50) == []
    await put(one, INTENTS, b"1", b"2")
    await put(one, INTENTS, b"beside", partition=1)
    await read_ahead(readers, INTENTS)
    readers.read_on(0, {INTENTS: FIRST + 1, ATTEMPTS: FIRST})
    found = await values(readers, 2)
    assert (INTENTS, 0, b"2") in found
    assert (INTENTS, 1, b"beside") in found
    assert (INTENTS, 0, b"1") not in found


async def test_a_new_share_forgets_what_was_read_of_the_one_before(
    one: Installation, readers: TopicReaders
) -> None:
    """Nothing that was read of a partition is given after it was handed over and came back."""
    await readers.assign({0})
    readers.read_on(0, {INTENTS: FIRST, ATTEMPTS: FIRST})
    assert await readers.read(50) == []
    await put(one, INTENTS, b"1", b"2")
    await read_ahead(readers, INTENTS)
    await readers.assign(set())
    await readers.assign({0})
    assert await readers.read(50) == []
    readers.read_on(0, {INTENTS: FIRST + 1, ATTEMPTS: FIRST})
    assert await values(readers, 1) == [(INTENTS, 0, b"2")]


async def test_what_is_read_ahead_does_not_count_as_given(
    one: Installation, readers: TopicReaders
) -> None:
    """A tick that waits for an inbox must not be let go by records that nobody has seen."""
    places = {(INTENTS, 0), (ATTEMPTS, 0)}
    await readers.assign({0})
    readers.read_on(0, {INTENTS: FIRST, ATTEMPTS: FIRST})
    assert await readers.read(50) == []
    assert await readers.read_to(places) == {(INTENTS, 0): FIRST, (ATTEMPTS, 0): FIRST}
    await put(one, INTENTS, b"1")
    await read_ahead(readers, INTENTS)
    assert await readers.read_to(places) == {(ATTEMPTS, 0): FIRST}
    assert await values(readers, 1) == [(INTENTS, 0, b"1")]
    assert (await readers.read_to(places))[INTENTS, 0] == FIRST + 1


async def test_a_place_that_is_held_back_is_read_on_when_it_may(
    one: Installation, readers: TopicReaders
) -> None:
    """Meanwhile the other inboxes of its partition go on."""
    await readers.assign({0})
    readers.read_on(0, {INTENTS: FIRST, ATTEMPTS: FIRST})
    readers.hold_back({(INTENTS, 0)})
    await put(one, INTENTS, b"1")
    await put(one, ATTEMPTS, b"a")
    assert await values(readers, 1) == [(ATTEMPTS, 0, b"a")]
    readers.hold_back(set())
    assert await values(readers, 1) == [(INTENTS, 0, b"1")]


async def test_a_place_that_is_put_anew_is_held_back_when_it_is_said_again(
    one: Installation, readers: TopicReaders
) -> None:
    """Its partition is read on from another position; too much waits in it still, or again. It was
    taken for held back already, and was read on without an end.
    """
    await readers.assign({0})
    readers.read_on(0, {INTENTS: FIRST, ATTEMPTS: FIRST})
    readers.hold_back({(INTENTS, 0)})
    readers.read_on(0, {INTENTS: FIRST, ATTEMPTS: FIRST})
    readers.hold_back({(INTENTS, 0)})
    await put(one, INTENTS, b"1")
    await put(one, ATTEMPTS, b"a")
    assert await values(readers, 1) == [(ATTEMPTS, 0, b"a")]


async def test_a_failure_that_is_seen_while_partitions_change_hands_is_raised_to_who_reads(
    one: Installation, readers: TopicReaders
) -> None:
    """The group's client swallows what is raised while it takes partitions over: a member would
    look alive, and decide for nobody.
    """
    await readers.assign({0})
    readers.read_on(0, {INTENTS: 1_000_000, ATTEMPTS: FIRST})
    reader = next(one for one in readers._readers if one.topic == INTENTS)
    reading = reader.go_on(100)
    await until(reading.done, "the client has failed")
    await readers.assign(set())
    await readers.assign({0})
    with pytest.raises(TruncatedLogError):
        await readers.read(50)


async def test_a_reader_that_is_behind_lets_no_fetch_wait_for_other_partitions(
    one: Installation,
) -> None:
    """While many records come at a time the broker is to answer soon, and not once few do."""
    await put(one, INTENTS, *(b"%d" % number for number in range(2 * BEHIND_RECORDS_MIN)))
    reader = await one.log.reader({(INTENTS, partition): 0 for partition in range(PARTITIONS)})
    fetcher = reader._consumer._fetcher
    assert "self._fetch_max_wait_ms" in inspect.getsource(fetcher._get_actions_per_node)
    waits: dict[bool, set[int]] = {True: set(), False: {fetcher._fetch_max_wait_ms}}
    async with asyncio.timeout(PATIENCE_SECONDS):
        count = 0
        while count < 2 * BEHIND_RECORDS_MIN + PARTITIONS * FIRST:
            read = await reader.read(timeout_ms=200, records_max=BEHIND_RECORDS_MIN)
            count += len(read)
            waits[len(read) >= BEHIND_RECORDS_MIN].add(fetcher._fetch_max_wait_ms)
    assert waits == {True: {FETCH_WAIT_BEHIND_MS}, False: {FETCH_WAIT_MS}}
    await reader.close()
