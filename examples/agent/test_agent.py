"""The agent against a ledger in memory: `pip install './sdk[testing]' pytest pytest-asyncio` in a
checkout of the ledger, then `pytest` in this folder, or in a copy of it.
"""

from pathlib import Path

from agent import charge_renewal

from actionledger import Call, Succeeded, testing

CATALOGUE = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
KEY = "charge:v1:acme:inv-7"


class PlayedBank:
    """The bank as the world of the test plays it."""

    def __init__(self, world: testing.World) -> None:
        self._provider = world.provider
        self.calls = 0

    async def charge(self, call: Call, minor: int) -> str:
        """Charge under the call's key."""
        self.calls += 1
        return await self._provider.call(call, "charge", minor=minor, currency="USD")


async def test_a_renewal_is_charged_once_however_often_it_is_asked_for() -> None:
    """The second call is answered from the record."""
    async with testing.ledger(CATALOGUE) as world:
        bank = PlayedBank(world)
        assert "was done, once" in await charge_renewal(world.ledger, bank, "inv-7", 4_990)
        again = await charge_renewal(world.ledger, bank, "inv-7", 4_990)
        assert "already been done" in again
        assert bank.calls == len(world.provider.effects) == 1


async def test_a_lost_answer_is_unknown_and_then_found_out() -> None:
    """The model is told not to try another way; the charge is found, and there is one."""
    async with testing.ledger(CATALOGUE) as world:
        bank = PlayedBank(world)
        world.provider.drop_next_answer()
        told = await charge_renewal(world.ledger, bank, "inv-7", 4_990)
        assert "not known" in told
        await world.advance(minutes=11)
        result = await world.ledger.get(KEY)
        assert isinstance(result, Succeeded)
        assert result.proof == "lookup"
        assert bank.calls == len(world.provider.effects) == 1


async def test_a_declined_card_fails_for_good() -> None:
    """The bank's no is believed, because the catalogue says so."""
    async with testing.ledger(CATALOGUE) as world:
        world.provider.refuse_next("card_declined")
        told = await charge_renewal(world.ledger, PlayedBank(world), "inv-7", 4_990)
        assert "card_declined" in told
        assert world.provider.effects == ()
