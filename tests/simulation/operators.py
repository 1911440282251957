"""What operators, brokers and their disks do to a running installation: withdraw an operation, set
clocks, delete a topic and make it anew, rebuild the read model, start a copy of a process.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.core.ids import stream_key_of
from ledger.core.inputs import Report, Success
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from tests.simulation import tables
from tests.simulation.catalogue import SKEW_MS
from tests.simulation.observer import Observer
from tests.simulation.readmodel import ReadModel
from tests.simulation.world import World

FAR_MS = 40 * SKEW_MS
"""How far a clock is off that no installation allows."""
OFFERS = Topic.OFFERS.value
DELETED = (Topic.INTENTS, Topic.ATTEMPTS, Topic.EVIDENCE, Topic.INTERNAL, Topic.OFFERS)


@dataclass(frozen=True, slots=True)
class Operators:
    """Everybody with a hand on the machines."""

    world: World
    model: ReadModel | None
    observer: Observer

    def begin(self) -> None:
        """Spread what will happen over the chaos."""
        for fault, call in (
            ("withdrawals", self._withdraw),
            ("clock_steps", self._step_clocks),
            ("made_anew", self._make_anew),
            ("stranger_reports", self._report_as_another),
            ("stranger_reports", self._report_as_another),
            ("table_changes", self._change_table),
            ("table_changes", self._change_table),
        ):
            if self.world.happens(fault):
                self._some_time(call)
        for fault, call in (("revocations", self._revoke), ("holds", self._hold)):
            if self.world.happens(fault):
                self._some_time(call)
        if self.model is not None and self.world.happens("rebuilds"):
            self._some_time(self.model.rebuild)

    def _some_time(self, call: Callable[[], None]) -> None:
        def comes() -> None:
            if not self.world.is_calm:
                call()

        self.world.time.after(self.world.chance.randint(1, self.world.weather.chaos_ms), comes)

    def _change_table(self) -> None:
        """Another table, or the same in other words."""
        some = tables.GATED if self.world.weather.gated else tables.TABLES
        if self.world.weather.together:
            some = tables.IN_ORDER
        name = self.world.chance.choice(tuple(some))
        self.world.reach(f"table adopted: {name}")
        self.world.publish_one(tables.table(name))

    def _hold(self) -> None:
        """Nothing of an operation, or nothing at all, is to start; healing lets it go on."""
        scopes: tuple[dict[str, str], ...] = (
            {},
            {"tenant": "acme"},
            {"operation": self.world.chance.choice(self.world.weather.operations)},
            {"operation": "email", "provider": "simulated"},
        )
        self.world.reach("held")
        self.world.hold(self.world.chance.choice(scopes))

    def _revoke(self) -> None:
        """Ada lost her key and has another; a while later, perhaps, ben is gone."""
        world = self.world
        world.reach("a key is revoked")
        world.publish_one(tables.people(1))

        def again() -> None:
            if not world.is_calm:
                world.reach("a person is revoked")
                world.publish_one(tables.people(2))

        world.time.after(world.chance.randint(1, 3_000), again)

    def _withdraw(self) -> None:
        """Withdraw an operation that is in use; healing brings it back."""
        self.world.reach("operation withdrawn")
        self.world.is_withdrawn = True
        self.world.publish(without=self.world.chance.choice(self.world.weather.operations))

    def _step_clocks(self) -> None:
        """All brokers run ahead, and a while later their clocks are set back, behind the truth."""
        world, far = self.world, self.world.chance.random() < 1 / 3
        world.is_stepped = True
        ahead_ms = FAR_MS if far else SKEW_MS
        world.reach("clocks far ahead" if far else "clocks ahead, then stepped back")
        world.trace("brokers", f"clocks {ahead_ms} ms ahead")
        world.log.set_clocks(ahead_ms)

        def back() -> None:
            if not world.is_calm:
                world.trace("brokers", "clocks stepped back")
                world.log.set_clocks(0 if far else -SKEW_MS)

        world.time.after(world.chance.randint(50, 1_500), back)

    def _make_anew(self) -> None:
        """Delete a partition of a topic and make it anew; after a while, put back what it held."""
        world, topic = self.world, self.world.chance.choice(DELETED).value
        partition = world.chance.randrange(world.partitions)
        position = self.observer.position(topic, partition)
        if topic != OFFERS and not position:
            return  # nobody could know that it is another one
        world.reach("topic made anew")
        world.trace("operator", f"deletes {topic} {partition}")
        if topic == OFFERS:
            world.log.make_anew(topic, partition)
            return  # nothing in it is missed by anybody
        # Once it has grown past the position there is nothing to tell it from the old one by.
        world.log.make_anew(topic, partition, records_max=position - 1)

        def restore() -> None:
            world.trace("operator", f"restores {topic} {partition}")
            world.log.restore(topic, partition)

        world.time.after(world.chance.randint(50, 1_500), restore)

    def _report_as_another(self) -> None:
        """A copy of an executor, woken from a snapshot, reports a start that is not its own."""
        tried = [action for action in self.observer.actions() if action.attempts]
        if not tried:
            return
        action = self.world.chance.choice(tried)
        attempt = action.attempts[-1]
        token, holder = attempt.fencing_token, "executor-0"
        if self.world.chance.random() < 1 / 2:
            token, holder = token + 1, attempt.holder
        report = Report(
            key=action.key,
            attempt=attempt.number,
            fencing_token=token,
            holder=holder,
            outcome=Success(reference="ef_stranger"),
        )
        stream = stream_key_of(action.key)
        record = outgoing(
            report, stream=stream, subject=None, event_id="stranger", source="/executor"
        )
        self.world.reach("stranger reported")
        partition = partition_of(stream, self.world.partitions)
        self.world.log.append(Topic.ATTEMPTS.value, partition, [record])
