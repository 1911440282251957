"""Event ids that a provider uses twice, and what is understood of the second only later."""

import dataclasses

import pytest

from ledger.core.money import Money
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.simulated.mapping import SimulatedMapping
from tests.integration.reconciling import (
    KEY,
    evidence,
    know_action,
    know_reference,
    receive,
    settlement,
)
from tests.integration.test_webhooks_again import Untaught, again
from tests.servers import Addresses

pytestmark = pytest.mark.servers


class Unnamed(SimulatedMapping):
    """Takes settlements for refunds of `ch_1` that have no names of their own, of an amount that
    their time says.
    """

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Read, as a provider that gives its refunds no names."""
        mapped = super().map(raw)
        assert isinstance(mapped, MappedWebhook)
        money = Money(minor=mapped.occurred_at % 1_000, currency="USD")
        return dataclasses.replace(
            mapped, effect="reversed", reference=None, reverses="ch_1", money=money
        )


async def test_a_look_at_another_word_under_a_used_event_id_tells_it_as_its_own(
    servers: Addresses, database_url: str
) -> None:
    """Family hook-order: a provider that uses an event id twice says two things. What is understood
    of the second only later is told under the id that it has then; under that of the first it would
    be taken for it, and lost.
    """
    async with again(servers, database_url) as all_:
        await know_action(all_.pool, KEY)
        await know_reference(all_.pool, "ch_1", KEY)
        first, second = (
            settlement("evt_1", reference=None, occurred_at=1_800_000_000_000 + minor)
            for minor in (100, 250)
        )
        (place,) = await receive(all_.one, first)
        await all_.desk(Unnamed()).handle(await all_.records())
        (other,) = await receive(all_.one, second)
        new = [one for one in await all_.records() if (one.partition, one.offset) == other]
        await all_.desk(Untaught()).handle(new)
        looks = {look.position: look.after for look in await all_.replay(Unnamed())}
        assert looks == {place: "matched", other: "matched"}
        told = await evidence(all_.one)
        assert sorted(one.money.minor for one in told if one.money is not None) == [100, 250]
        assert len({one.source_id for one in told}) == 2
