"""Finding out: the inquirer, which asks what the ledger wants asked, and the matcher, which turns
what the provider tells into evidence. Both may say a thing twice, and neither can make an effect.
"""

from collections.abc import Callable
from functools import partial

from ledger.log.topics import Topic
from reconciler.evidence import (
    Placed,
    Receipt,
    lookup_evidence,
    lookup_record,
    webhook_evidence,
    webhook_record,
)
from reconciler.matching import Matched, MatchedBy
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup, MappedWebhook
from streams.inquiring import BEGINNING, Asked, Inquiring, Position
from tests.simulation.processes import Process
from tests.simulation.provider import Event, Provider
from tests.simulation.world import World

LOOKUPS_AT_ONCE = 4


class Inquirer(Process):
    """The product's `Inquiring` of every partition, behind a shell that may end anywhere and is
    begun again at the position that the one before it had shown.
    """

    def __init__(
        self, world: World, number: int, provider: Provider, shown: dict[int, Position]
    ) -> None:
        super().__init__(world, "inquirer", number)
        self.provider = provider
        self._shown = shown
        self._partitions = [
            Inquiring(part, shown.get(part, BEGINNING)) for part in range(world.partitions)
        ]
        world.listen(Topic.LEDGER, self._heard)
        for partition in range(world.partitions):
            self._heard(partition)

    def _heard(self, partition: int) -> None:
        if not self.is_gone:
            self.after(self.world.soon(), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        inquiring = self._partitions[partition]
        for record in self.world.log.read(Topic.LEDGER.value, partition, inquiring.next_offset):
            inquiring.feed(record)
        inquiring.caught_up()
        inquiring.told(len(inquiring.notices()))
        for asked in inquiring.take_lookups(LOOKUPS_AT_ONCE):
            if not self.is_gone:
                self._ask(inquiring, asked)
        if self.world.happens(0.5):
            self._shown[partition] = inquiring.position

    def _ask(self, inquiring: Inquiring, asked: Asked) -> None:
        """Ask a little later, and tell what came of it."""
        if not self.may_break(self.world.weather.inquirer_crash, 0.0):
            self.after(self.world.soon(200), lambda: self._search(inquiring, asked))

    def _search(self, inquiring: Inquiring, asked: Asked) -> None:
        weather, world, started = self.world.weather, self.world, asked.started
        if world.happens(weather.search_silent):
            world.reach("search was silent")
            inquiring.answered(asked)
            return
        found = self.provider.find(started.account, started.provider_key)
        answer: Lookup = Absent()
        if world.happens(weather.search_inconclusive):
            answer = Inconclusive("search_unavailable")
        elif found:
            first, *others = found
            assert first.effect is not None
            answer = Found(
                reference=first.effect,
                money=first.money,
                result={},
                provider_key=first.key,
                further_references=tuple(other.effect or "" for other in others),
            )
        world.reach(f"lookup: {type(answer).__name__.lower()}")
        self.trace(f"finds {started.action} {type(answer).__name__}")
        for evidence in lookup_evidence(started, answer):
            placed = lookup_record(evidence, world.partitions)
            tell = partial(self._tell, placed, lambda: inquiring.answered(asked))
            self.after(world.soon(50), tell)

    def _tell(self, placed: Placed, then: Callable[[], None]) -> None:
        self.send(Topic.EVIDENCE.value, placed.partition, [placed.record], lambda _appended: then())


class Matcher(Process):
    """Turns webhooks into evidence. A webhook is kept before it is answered, so a matcher that ends
    begins again with everything it was told.
    """

    def __init__(self, world: World, number: int, told: list[Event]) -> None:
        super().__init__(world, "matcher", number)
        self._told = told
        for place in range(len(told)):
            self.after(world.soon(100), partial(self._match, place))

    def hear(self, place: int) -> None:
        """A webhook came and is kept at this place."""
        if not self.is_gone:
            self.after(self.world.soon(), lambda: self._match(place))

    def _match(self, place: int) -> None:
        event, world = self._told[place], self.world
        receipt = Receipt("simulated", event.account, partition=0, offset=place, sha256="00" * 32)
        mapped = MappedWebhook(
            meaning="final",
            effect="exists" if event.exists else "none",
            event_id=event.id,
            event_type="effect.settled" if event.exists else "effect.failed",
            account=event.account,
            reference=event.reference,
            action_key=event.action,
            provider_key=event.action,
            money=event.money,
            occurred_at=world.time.now,
        )
        matched = Matched(event.action, MatchedBy.METADATA)
        evidence = webhook_evidence(matched, mapped, receipt)
        placed = webhook_record(evidence, receipt, world.partitions)
        self.trace(f"webhook {event.id} for {event.action}")
        self.send(Topic.EVIDENCE.value, placed.partition, [placed.record], lambda _appended: None)


class Door:
    """Where webhooks come in: each is kept before the provider hears that it was received."""

    def __init__(self, provider: Provider) -> None:
        self.told: list[Event] = []
        self.matchers: list[Process] = []
        provider.tell = self._receive

    def _receive(self, event: Event) -> None:
        self.told.append(event)
        for matcher in self.matchers:
            assert isinstance(matcher, Matcher)
            matcher.hear(len(self.told) - 1)
