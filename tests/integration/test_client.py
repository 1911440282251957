"""The client on the real Kafka: many callers at once, and what it does when records are poison."""

import asyncio

import pytest

from ledger.client.client import LedgerClient
from ledger.core.inputs import Propose, Report, Success
from ledger.core.limits import BATCH_BYTES_MAX
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from tests.integration.installation import PARTITIONS, charge, installed, settled
from tests.patience import PATIENCE_MS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

REASON = "r" * 4_000


def large(number: int) -> Propose:
    """One of many proposals of 4 kB for the same business event."""
    given = charge(f"burst#{number}")
    request = given.request.model_copy(update={"params": {"customer": REASON}})
    return given.model_copy(update={"request": request})


async def test_a_burst_of_proposals_to_one_partition_is_durable_as_a_whole(
    servers: Addresses,
) -> None:
    """What a producer puts into one batch is never more than the topic takes: else the broker would
    refuse all of it, and every caller with it.
    """
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        proposals = [large(number) for number in range(400)]
        assert sum(len(REASON) for _ in proposals) > 2 * BATCH_BYTES_MAX
        async with LedgerClient(one.log, PARTITIONS) as client:
            answers = await asyncio.gather(
                *(client.propose(proposal, timeout_ms=PATIENCE_MS) for proposal in proposals)
            )
        partition = partition_of("acme/burst", PARTITIONS)
        assert {answer.partition for answer in answers} == {partition}
        assert len({answer.offset for answer in answers}) == len(proposals)


async def test_a_report_that_names_nothing_stops_no_client(servers: Addresses) -> None:
    """Whatever stands in `attempts`, the client follows on and answers."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            for key in ("", "no-key-at-all", "charge:v1:acme:unknown"):
                poison = Report(
                    key=key,
                    attempt=1,
                    fencing_token=1,
                    holder="nobody",
                    outcome=Success(reference="ch_0"),
                )
                record = outgoing(
                    poison, stream="acme/x", subject=None, event_id=key, source="/test"
                )
                for partition in range(PARTITIONS):
                    await one.put(Topic.ATTEMPTS, partition, record)
            proposal = charge("after-the-poison")
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            await settled(client, proposal.key, "completed")
            assert client.failure is not None
            assert not client.failure.done()
