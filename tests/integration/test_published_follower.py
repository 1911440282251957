"""Whoever follows the config topic of a real broker knows, once asked, all that was published."""

import asyncio

import pytest

from gateway.wiring.publishing import publish_document
from ledger.client.published import PublishedFollower
from ledger.core.catalogue import catalogue_hash
from tests.integration.installation import CATALOGUE, installed
from tests.servers import Addresses

pytestmark = pytest.mark.servers

PUBLISHED = 5
ASKING = 20


def failed(fault: Exception) -> None:
    """A follower that can no longer follow fails the test."""
    raise fault


async def test_what_was_published_is_known_to_whoever_asks_after_it(servers: Addresses) -> None:
    """Each time at once, by many who ask at a time, and without waiting for the next look."""
    async with (
        installed(servers.kafka_bootstrap) as one,
        PublishedFollower(one.log, on_failure=failed) as follower,
    ):
        for number in range(PUBLISHED):
            text = f"{CATALOGUE}\n# {number}\n"
            offset, is_new = await publish_document(one.log, "catalogue", text)
            assert is_new
            assert all(await asyncio.gather(*(follower.catch_up() for _ in range(ASKING))))
            known = follower.now()
            assert known.next_offset > offset
            assert known.catalogue is not None
            assert known.catalogue.content_hash == catalogue_hash(text)
