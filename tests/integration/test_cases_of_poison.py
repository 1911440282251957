"""Public failure cases about records that nobody can read, in every topic that a process follows:
each is set aside with its bytes, or passed over where nothing depends on it, and what stands behind
it is done.
"""

import asyncio
import logging
from collections import Counter

import pytest
from aiokafka import AIOKafkaProducer

from ledger.client.client import LedgerClient
from ledger.core.limits import RECORD_BYTES_MAX
from ledger.log.quarantine import sha256_of
from ledger.log.topics import INBOXES, INPUT_BYTES_MAX, Topic, partition_of
from tests.integration.counting import CountingProvider
from tests.integration.faust_kit import until
from tests.integration.installation import PARTITIONS, Installation, charge, installed, settled
from tests.integration.reconciling import (
    KEY,
    know_action,
    quarantine,
    receive,
    reconciling,
    rows_become,
    settlement,
)
from tests.integration.strange_headers import STANDS_FOR, with_no_text
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POISON: dict[str, tuple[bytes | None, bytes | None]] = {
    "no JSON, no key": (None, b"{bad"),
    "a tombstone": (b"acme/x", None),
    "nothing at all": (None, None),
    "empty": (b"", b""),
    "not UTF-8": (b"\xff\xfe", b"\xff\xfe"),
    "half a character": (b"acme/x", b'{"data":"\\ud83d"}'),
    "a member twice, far inside": (b"acme/x", b'{"data":{"a":[{"b":1,"b":2}]}}'),
    "an array of arrays": (b"acme/x", b"[" * 100_000),
    "a number of a million digits": (b"acme/x", b'{"data":' + b"9" * 100_000 + b"}"),
    "compressed by hand": (b"acme/x", b"\x1f\x8b\x08\x00" + bytes(60)),
    "an event of another topic": (
        b"acme/x",
        b'{"specversion":"1.0","id":"1","source":"/x","datacontenttype":"application/json",%b}'
        % b'"type":"actionledger.executor.offered.v1","data":{}',
    ),
    "too large": (b"acme/x", b'"' + b"x" * (RECORD_BYTES_MAX - 4_096) + b'"'),
    "a header without a value": (b"acme/x", b"{bad"),
    "a header whose name is no text": (b"acme/x", b"{bad"),
    "a header whose name is six times as large in JSON": (b"acme/x", b"{bad"),
    "headers that are larger in JSON": (b"acme/x", b"{bad"),
}
HEADERS: dict[str, list[tuple[str, bytes | None]]] = {
    "a header without a value": [("h", None)],
    "a header whose name is no text": [(STANDS_FOR, b"")],
    "a header whose name is six times as large in JSON": [("\x01" * 900_000, b"")],
    "headers that are larger in JSON": [("", b"")] * 450_000,
}


async def put_poison(one: Installation, topic: Topic, partition: int) -> list[int]:
    """Write all of it as any client can; the offsets."""
    producer = AIOKafkaProducer(
        bootstrap_servers=one.log.bootstrap,
        max_request_size=4 * RECORD_BYTES_MAX,
        max_batch_size=RECORD_BYTES_MAX,
    )
    await producer.start()
    offsets = []
    try:
        for name, (key, value) in POISON.items():
            # By itself the producer takes no record without both; other clients do.
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=None, headers=HEADERS.get(name, []))
            sent = await producer.send_batch(
                with_no_text(batch), one.log.prefix + topic, partition=partition
            )
            offsets.append((await sent).offset)
        return offsets
    finally:
        await producer.stop()


async def test_a_large_record_of_a_small_batch_holds_nobody_up(servers: Addresses) -> None:
    """A broker bounds what a batch is on its disk. A record of one that is larger than quarantine
    takes is set aside by its beginning; the action behind it is carried out.
    """
    provider = CountingProvider()
    proposal = charge("behind-it")
    partition = partition_of("acme/behind-it", PARTITIONS)
    large = bytes(8 * RECORD_BYTES_MAX)
    async with installed(servers.kafka_bootstrap) as one:
        producer = AIOKafkaProducer(
            bootstrap_servers=one.log.bootstrap,
            compression_type="gzip",
            max_batch_size=2 * len(large),
        )
        await producer.start()
        try:
            batch = producer.create_batch()
            batch.append(key=b"acme/behind-it", value=large, timestamp=None)
            batch.close()
            topic = one.log.prefix + Topic.INTENTS
            await (await producer.send_batch(batch, topic, partition=partition))
        finally:
            await producer.stop()
        await one.processor()
        await one.executor(provider)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            await settled(client, proposal.key, "completed")
        (kept,) = await quarantine(one)
    assert (kept.reason, kept.sha256) == ("too_large", sha256_of(large))
    assert kept.whole_bytes == len(b"acme/behind-it") + len(large)
    assert set(provider.calls.values()) == {1}


@pytest.mark.case("C149")
async def test_c149_poison_in_every_inbox_holds_nobody_up(servers: Addresses) -> None:
    """C149: sixteen kinds in each of the five inboxes. Each has one decision that names why, each
    stands in quarantine, and the action behind them is carried out.
    """
    provider = CountingProvider()
    proposal = charge("behind-it-all")
    partition = partition_of("acme/behind-it-all", PARTITIONS)
    async with installed(servers.kafka_bootstrap) as one:
        places = {
            (topic.value, offset)
            for topic in INBOXES
            for offset in await put_poison(one, topic, partition)
        }
        await one.processor()
        await one.executor(provider)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            await settled(client, proposal.key, "completed")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                aside = {
                    (decision.cause.topic, decision.cause.offset)
                    for decision in await one.decisions()
                    if decision.quarantined is not None
                }
                if aside >= places:
                    break
        assert aside == places
        kept = {(one.topic, one.offset): one for one in await quarantine(one)}
        assert set(kept) == places
        whole = Counter(each.whole_bytes is None for each in kept.values())
        assert whole == {True: (len(POISON) - 3) * len(INBOXES), False: 3 * len(INBOXES)}
    assert provider.calls == Counter([proposal.key])
    assert INPUT_BYTES_MAX[Topic.INTENTS] < RECORD_BYTES_MAX


@pytest.mark.case("C149")
async def test_c149_poison_among_offers_and_configuration_changes_nothing(
    servers: Addresses,
) -> None:
    """C149: what executors and operators write is read by the same rule: the catalogue that holds
    goes on holding, and capacity that is offered behind it is spent.
    """
    provider = CountingProvider()
    proposals = [charge(f"capacity-{number}") for number in range(9)]
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        for partition in range(PARTITIONS):
            await put_poison(one, Topic.OFFERS, partition)
        await put_poison(one, Topic.CONFIG, 0)
        await one.executor(provider)
        for partition in range(PARTITIONS):
            await put_poison(one, Topic.OFFERS, partition)
        async with LedgerClient(one.log, PARTITIONS) as client:
            for proposal in proposals:
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "completed")
            await one.crash(0)
            await one.processor()
            again = await client.propose(proposals[0], timeout_ms=PATIENCE_MS)
            assert again.decision.unchanged is not None
    assert provider.calls == Counter(proposal.key for proposal in proposals)


@pytest.mark.case("C149")
async def test_c149_poison_among_webhooks_and_notices_is_set_aside(
    servers: Addresses, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C149: the reconciler sets every kind aside with its bytes, from both of its topics, and the
    webhook behind them finds its action.
    """
    caplog.set_level(logging.INFO)
    hook = settlement("evt_behind", action_key=KEY)
    async with (
        installed(servers.kafka_bootstrap) as one,
        reconciling(one, database_url) as beside,
    ):
        for partition in range(PARTITIONS):
            await put_poison(one, Topic.WEBHOOKS, partition)
            await put_poison(one, Topic.ATTENTION, partition)
        await know_action(beside.pool, KEY)
        await receive(one, hook)
        await rows_become(beside.pool, 1)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                aside = Counter(one.topic for one in await quarantine(one))
                if aside == {
                    Topic.WEBHOOKS.value: PARTITIONS * len(POISON),
                    Topic.ATTENTION.value: PARTITIONS * len(POISON),
                }:
                    break

        def matched() -> int:
            handled = [line for line in caplog.records if line.message == "webhooks_handled"]
            return sum(getattr(line, "matched", 0) for line in handled)

        # The row may be seen before the line is written.
        await until(lambda: matched() == 1, "the webhook behind them finds its action")
