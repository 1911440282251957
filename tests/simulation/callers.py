"""Callers: agents that propose, lose the answer and ask again, change their mind, or say nonsense.

What a caller was told is kept, so that the oracle can hold the ledger to it: an acknowledged intent
is in the log.
"""

from dataclasses import dataclass, field
from functools import partial

from ledger.core.inputs import Cancel, Propose
from ledger.core.money import Money
from ledger.core.request import Request
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing
from ledger.log.topics import Topic, partition_of
from tests.simulation.catalogue import WITH_MONEY
from tests.simulation.crossings import Crossings
from tests.simulation.performers import Performers
from tests.simulation.world import World

POISON = (
    b"",
    b"{bad",
    b'{"specversion":"1.0","type":"actionledger.intent.propose.v9"}',
    b'{"a":1,"a":2}',
    b'{"n":1.5}',
    b"\xff\xfe\x00",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One act that a caller wants."""

    said: Propose
    stream: str

    @property
    def key(self) -> str:
        """The action key."""
        return self.said.key


@dataclass(slots=True)
class Callers:
    """Everybody who asks for something."""

    world: World
    wanted: list[Wanted] = field(default_factory=list)
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
    left: int = 0
    performers: Performers | None = None
    """Where callers carry out what they ask for."""
    _said: int = 0

    def begin(self) -> None:
        """Spread what is wanted over the first half of the chaos."""
        world, chance = self.world, self.world.chance
        streams = [f"acme/order-{number}" for number in range(1, chance.randint(1, 2) + 1)]
        crossings = Crossings(world) if world.weather.gated else None
        for number in range(world.weather.actions):
            operation = chance.choice(world.weather.operations)
            stream = chance.choice(streams) if crossings is None else crossings.stream(number)
            event = stream.partition("/")[2]
            key = f"{operation}:v1:acme:{event}#{number}"
            request = _request(operation, number)
            if crossings is not None:
                request = crossings.request(request)
            said = Propose(key=key, request=request)
            if crossings is not None:
                said = crossings.proposal(said)
            wanted = Wanted(said, stream)
            self.wanted.append(wanted)
            self.left += 1
            at_ms = chance.randint(1, world.weather.chaos_ms // 2)
            world.time.after(at_ms, partial(self._wants, wanted))
        for at_ms, report, gate in () if crossings is None else crossings.reports():
            world.time.after(at_ms, partial(self.say, report, gate))
        if world.happens("poison"):
            world.time.after(chance.randint(1, world.weather.chaos_ms), self._poison)

    def _wants(self, wanted: Wanted) -> None:
        """Propose, and later perhaps again, otherwise, or no more."""
        world = self.world
        self.left -= 1
        self._propose(wanted)
        if self.performers is not None:
            self.performers.calls_again(wanted.key, partial(self._propose, wanted))
        later = world.chance.randint
        if world.happens("repeats"):
            world.time.after(later(1, 3_000), lambda: self._propose(wanted))
        if world.happens("conflicts"):
            request = _request_otherwise(wanted.said.request)
            other = Wanted(Propose(key=wanted.key, request=request), wanted.stream)
            world.time.after(later(1, 3_000), lambda: self._propose(other))
        if world.happens("cancels"):
            cancel = Cancel(key=wanted.key, principal="agent:billing")
            world.time.after(later(1, 3_000), lambda: self.say(cancel, wanted.stream))

    def _propose(self, wanted: Wanted) -> None:
        said = wanted.said
        if self.performers is not None:
            offers = self.performers.offers(wanted.key, said.request)
            said = said.model_copy(update={"caller": offers})
        self.say(said, wanted.stream)

    def say(self, said: Wire, stream: str) -> None:
        """Append through a producer of its own; without an answer say it once more, as new."""
        self._said += 1
        record = outgoing(
            said, stream=stream, subject=None, event_id=f"in-{self._said}", source="/gateway"
        )
        partition = partition_of(stream, self.world.partitions)
        self._append(partition, record)

    def _append(self, partition: int, record: Outgoing) -> None:
        world = self.world

        def done(appended: list[Appended] | None) -> None:
            if appended is None:
                world.reach("intent said again")
                world.time.after(world.soon(500), lambda: self._append(partition, record))
            else:
                self.acknowledged.append((partition, record.value))

        world.log.producer().send(Topic.INTENTS.value, partition, [record], done)

    def _poison(self) -> None:
        """Somebody writes what nobody can read, or what belongs elsewhere."""
        world, chance = self.world, self.world.chance
        if world.is_calm:
            return
        topic = chance.choice((Topic.INTENTS, Topic.ATTEMPTS, Topic.EVIDENCE))
        partition = chance.randrange(world.partitions)
        value = chance.choice(POISON)
        if chance.random() < 0.3 and self.wanted:
            wanted = chance.choice(self.wanted)
            value = outgoing(
                wanted.said, stream=wanted.stream, subject=None, event_id="stray", source="/gateway"
            ).value
        world.reach("poison written")
        world.log.append(topic.value, partition, [Outgoing(b"acme/stray", value)])


def _request(operation: str, number: int) -> Request:
    money = Money(minor=4_990 + number, currency="EUR") if operation in WITH_MONEY else None
    return Request(
        operation=operation,
        version=1,
        params={"text": f"item {number}"},
        money=money,
        principal="agent:billing",
        environment="live",
    )


def _request_otherwise(request: Request) -> Request:
    return request.model_copy(update={"params": {"text": "something else"}})
