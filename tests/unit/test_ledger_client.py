"""The client of the ledger over a log in memory: whose answer it gives to whom.

Family `kafka`, beside C151 and C161: offsets that begin anew.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from ledger.client.client import ClientFailedError, LedgerClient, UndecidedError
from ledger.core import inputs as i
from ledger.core.money import Money
from ledger.log.kafka import KafkaLog, Start
from ledger.log.port import Appended, Outgoing
from ledger.log.reading import Place
from ledger.log.topics import Topic
from ledger.log.trouble import TruncatedLogError
from tests import examples as x
from tests.ledgers import LedgerBuilder, MemoryLog, MemoryReader

OTHER = "charge:v1:acme:another-1"


class Installation(MemoryLog):
    """A log of one partition with a processor behind it; its inbox can be made anew."""

    def __init__(self) -> None:
        """Nothing was asked for yet."""
        self.builder = LedgerBuilder()
        self.asked: list[i.Decidable] = []
        self.place: Appended | None = None
        super().__init__(self.builder.records())

    async def reader(self, places: Mapping[Place, int | Start]) -> MemoryReader:
        """From an offset, or from the end of a topic that holds nothing here."""
        begins = {at: one if isinstance(one, int) else 0 for at, one in places.items()}
        return await super().reader(begins)

    async def appender(self) -> "Installation":
        """It takes appends itself."""
        return self

    async def append(self, topic: str, _: int, records: Sequence[Outgoing]) -> list[Appended]:
        """Decide what a test has said is asked for; or only give it the place that a test names."""
        assert topic == Topic.INTENTS
        assert len(records) == 1
        if self.place is not None:
            return [self.place]
        known = len(self.builder.records())
        decision = self.builder.take(self.asked.pop(0))
        self.extend(self.builder.records()[known:])
        return [Appended(decision.cause.offset, decision.decided_at)]

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize("later_ms", [0, 60_000])
@pytest.mark.parametrize("second", [OTHER, x.CHARGE])
async def test_no_decision_of_before_answers_what_stands_at_its_place_now(
    second: str, later_ms: int
) -> None:
    """The inbox was deleted and made anew, and gives the offset of the first input again: neither
    another action nor the same one is told by the decision of then. The input counts as undecided,
    and the client ends, because what it follows is not what it writes to.
    """
    log = Installation()
    first = x.propose()
    log.asked.append(first)
    async with LedgerClient(cast("KafkaLog", log), 1) as client:
        answer = await client.propose(first, timeout_ms=5_000)
        assert answer.decision.facts
        log.place = Appended(answer.offset, answer.decision.decided_at + max(later_ms, 1))
        changed: dict[str, Any] = {"money": Money(minor=1, currency="EUR")}
        again = i.Propose(key=second, request=x.request(second).model_copy(update=changed))
        with pytest.raises(UndecidedError):
            await client.propose(again, timeout_ms=100)
        assert client.failure is not None
        assert isinstance(client.failure.exception(), TruncatedLogError)
        with pytest.raises(ClientFailedError):
            await client.propose(first, timeout_ms=100)


async def test_the_decision_on_an_input_is_its_answer() -> None:
    """Also where the broker's clock gave it the very time at which it was decided."""
    log = Installation()
    asked = [x.propose(), i.Propose(key=OTHER, request=x.request(OTHER))]
    log.asked += asked
    async with LedgerClient(cast("KafkaLog", log), 1) as client:
        for one in asked:
            answer = await client.propose(one, timeout_ms=5_000)
            assert {fact.action for fact in answer.decision.facts} == {one.key}
            assert answer.appended_at == answer.decision.decided_at
