"""Finding out: the inquirer, which asks what the ledger wants asked and sweeps up what was parked;
and the door, which keeps what the provider tells. Both may say a thing twice, and neither can make
an effect.
"""

from collections.abc import Callable
from functools import partial

from ledger.core.facts import PreviewStarted
from ledger.core.ids import stream_key_of
from ledger.core.inputs import PreviewRead
from ledger.core.preview import Foreseen
from ledger.log.envelope import outgoing
from ledger.log.port import Appended, Outgoing
from ledger.log.topics import Topic, partition_of
from reconciler.evidence import Placed, lookup_evidence, lookup_record
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup
from streams.inquiring import BEGINNING, Asked, Inquiring, Position
from tests.simulation.matchers import WebhookRow, WebhookRows
from tests.simulation.processes import Process
from tests.simulation.provider import Event, Provider
from tests.simulation.world import World

LOOKUPS_AT_ONCE = 4
SWEEP_MS = 1_000
LEDGER, EVIDENCE, WEBHOOKS = Topic.LEDGER.value, Topic.EVIDENCE.value, Topic.WEBHOOKS.value


class Inquirer(Process):
    """The product's `Inquiring` of every partition, behind a shell that may end anywhere and is
    begun again at the position that the one before it had shown.
    """

    def __init__(
        self,
        world: World,
        number: int,
        provider: Provider,
        shown: dict[int, Position],
        webhooks: WebhookRows | None = None,
    ) -> None:
        super().__init__(world, "inquirer", number)
        self.provider = provider
        self.webhooks = webhooks
        self._shown = shown
        self._partitions = [
            Inquiring(part, shown.get(part, BEGINNING)) for part in range(world.partitions)
        ]
        self._reads: set[int] = set()
        self._shows = [0] * world.partitions
        self.listen(LEDGER, self._heard)
        for partition in range(world.partitions):
            self._heard(partition)
        if webhooks is not None:
            self.after(SWEEP_MS, self._sweep)

    def _heard(self, partition: int) -> None:
        if partition not in self._reads:
            self._reads.add(partition)
            self.after(self.world.soon(90), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        self._reads.discard(partition)
        inquiring = self._partitions[partition]
        for record in self.world.log.read(LEDGER, partition, inquiring.next_offset):
            inquiring.feed(record)
        inquiring.caught_up()
        inquiring.told(len(inquiring.notices()))
        for asked in inquiring.take_questions(LOOKUPS_AT_ONCE):
            if not self.is_gone:
                self._ask(inquiring, asked)
        self._shows[partition] += 1
        if self._shows[partition] % 2:
            self._shown[partition] = inquiring.position

    def _ask(self, inquiring: Inquiring, asked: Asked) -> None:
        """Ask a little later, and tell what came of it."""
        if not self.may_break("with its question read"):
            self.after(self.world.soon(200), lambda: self._search(inquiring, asked))

    def _search(self, inquiring: Inquiring, asked: Asked) -> None:
        world, started = self.world, asked.started
        if isinstance(started, PreviewStarted):
            self._foresee(inquiring, asked, started)
            return
        if world.happens("search_silent"):
            world.reach("search was silent")
            inquiring.answered(asked)
            return
        found = self.provider.find(started.account, started.provider_key)
        answer: Lookup = Absent()
        if world.happens("search_inconclusive"):
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
            if self.may_break("with its answer found"):
                return
            self.after(world.soon(50), tell)

    def _foresee(self, inquiring: Inquiring, asked: Asked, started: PreviewStarted) -> None:
        """Say what would happen, that nothing can be said, or nothing."""
        world = self.world
        if world.happens("search_silent"):
            inquiring.answered(asked)
            return
        fails = world.happens("previews_fail")
        world.reach("preview failed" if fails else "preview foreseen")
        read = PreviewRead(
            key=started.action,
            preview=started.preview,
            provider=started.provider,
            account=started.account,
            foreseen=None if fails else Foreseen(observed=self.provider.observed()),
            code="no_answer" if fails else None,
        )
        stream = stream_key_of(started.action)
        record = outgoing(read, stream=stream, subject=None, event_id="preview", source="/inquirer")
        place = Placed(partition_of(stream, world.partitions), record)
        if not self.may_break("with its answer found"):
            tell = partial(self._tell, place, lambda: inquiring.answered(asked))
            self.after(world.soon(50), tell)

    def _sweep(self) -> None:
        """Look again at what is parked under a name that became known meanwhile."""
        assert self.webhooks is not None
        for row in self.webhooks.matchable():
            placed = row.evidence(self.world.partitions)
            if placed is not None:
                self._tell(placed, partial(self._swept, row))
            if self.may_break("with its sweep begun"):
                return
        self.after(SWEEP_MS, self._sweep)

    def _swept(self, row: WebhookRow) -> None:
        assert self.webhooks is not None
        self.world.reach("parked webhook swept up")
        self.trace(f"sweeps up {row.mapped.event_id}")
        self.webhooks.record(row)

    def _tell(self, placed: Placed, then: Callable[[], None]) -> None:
        self.send(EVIDENCE, placed.partition, [placed.record], lambda _appended: then())


class Door(Process):
    """Where webhooks come in: each is kept before the provider hears that it was received."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, "door", number)

    def receive(self, event: Event, received: Callable[[], None]) -> None:
        """Keep a webhook, then answer it."""
        if not self.may_break("with a webhook read"):
            self.go_on(lambda: self._keep(event, received))

    def _keep(self, event: Event, received: Callable[[], None]) -> None:
        record = Outgoing(event.account.encode(), event.told())

        def kept(_appended: list[Appended]) -> None:
            if not self.may_break("with a webhook kept"):
                self.go_on(received)

        self.send(WEBHOOKS, 0, [record], kept)


def deliver(doors: list[Process]) -> Callable[[Event, Callable[[], None]], None]:
    """How the provider reaches a door, if there is one."""

    def tell(event: Event, received: Callable[[], None]) -> None:
        for door in doors[:1]:
            assert isinstance(door, Door)
            door.receive(event, received)

    return tell
