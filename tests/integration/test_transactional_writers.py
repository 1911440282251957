"""Services that write their intents in Kafka transactions: the marks of a commit take offsets that
no reader ever sees, at the end of a partition too, and hold nobody up.
"""

import pytest
from aiokafka import AIOKafkaProducer

from ledger.client.client import LedgerClient
from ledger.log.topics import INBOXES, Topic, partition_of
from tests.integration.counting import CountingProvider
from tests.integration.installation import PARTITIONS, charge, installed, settled
from tests.integration.test_cases_of_positions import record_of
from tests.patience import PATIENCE_MS
from tests.servers import Addresses

pytestmark = pytest.mark.servers


@pytest.mark.case("C153")
async def test_c153_the_marks_of_transactions_are_no_gap_and_no_end(servers: Addresses) -> None:
    """C153: intents of committed transactions are carried out with plain ones between; ticks do not
    wait for marks behind the last record; a processor that starts anew goes on.
    """
    provider = CountingProvider()
    events = [f"event-{number}" for number in range(40)]
    proposals = [charge(name) for name in events if partition_of(f"acme/{name}", PARTITIONS) == 0]
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        producer = AIOKafkaProducer(
            bootstrap_servers=one.log.bootstrap, transactional_id=one.log.prefix + "relay"
        )
        await producer.start()
        try:
            async with LedgerClient(one.log, PARTITIONS) as client:
                partition, _ = record_of(proposals[0])
                for number, proposal in enumerate(proposals[:-1]):
                    partition, record = record_of(proposal)
                    if number % 2:
                        await client.propose(proposal, timeout_ms=PATIENCE_MS)
                        continue
                    async with producer.transaction():
                        await producer.send_and_wait(
                            one.log.prefix + Topic.INTENTS,
                            record.value,
                            key=record.key,
                            partition=partition,
                        )
                async with producer.transaction():
                    for topic in INBOXES:
                        if topic is not Topic.INTERNAL:
                            await producer.send_and_wait(
                                one.log.prefix + topic, b"{", key=b"x", partition=partition
                            )
                # Nobody offered capacity so far: every start is a tick's.
                await one.executor(provider)
                for proposal in proposals[:-1]:
                    await settled(client, proposal.key, "completed")
                await one.crash(0)
                await one.processor()
                last = proposals.pop()
                await client.propose(last, timeout_ms=PATIENCE_MS)
                await settled(client, last.key, "completed")
        finally:
            await producer.stop()
    assert set(provider.calls.values()) == {1}
    assert len(provider.calls) == len(proposals) + 1
