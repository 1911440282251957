"""One history: chaos, then healing, then judgement.

In the first phase everything may go wrong. Then no new fault comes, everything that ended is
started again, and by a bound of virtual time every action must have an end or a person (V1). Last
the oracle reads log and book. A seed gives the same history byte for byte: `digest` proves it.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from ledger.core.limits import RESERVATIONS_MAX
from ledger.core.state import Status
from ledger.log.simulated import Struck
from ledger.log.topics import Topic
from streams.inquiring import Position
from tests.simulation import laws
from tests.simulation.agents import Agents
from tests.simulation.bounds import bounded, bounds_ms
from tests.simulation.broken import BrokenLawError, law
from tests.simulation.callers import Callers
from tests.simulation.careless import Careless
from tests.simulation.catalogue import ATTEMPTS_MAX, CARELESS, RESERVATIONS, SETTLED_BY_MS
from tests.simulation.codec import read_once
from tests.simulation.deciders import Deciders
from tests.simulation.desk import Desk
from tests.simulation.executors import Executor
from tests.simulation.finders import Door, Inquirer, deliver
from tests.simulation.matchers import Matcher, WebhookRows
from tests.simulation.observer import Observer
from tests.simulation.operators import FAR_MS, Operators
from tests.simulation.oracle import Judge
from tests.simulation.oracle_bounds import Doubts
from tests.simulation.performers import Performers
from tests.simulation.processes import Supervisor
from tests.simulation.processors import Processor
from tests.simulation.provider import Provider
from tests.simulation.readmodel import Projector, ReadModel, projected_whole
from tests.simulation.signatures import stubbed
from tests.simulation.weather import Weather
from tests.simulation.world import Only, World

SLICE_MS = 500
STATES_EVERY = 8
"""In one history of so many every state is compared whole, and callers follow."""
CODEC_ASKED_EVERY = 64
"""In one history of so many every reader reads every byte itself."""
SIGNED_EVERY = 16
"""In one history of so many signatures are real ones."""
DAMAGED_MS = 30_000
"""How long rows lie after everything else is well."""
DRAIN_MS = 8_000
"""After everything is settled: what is still on its way arrives, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one history. `broken` names the law that does not hold, if one does not."""

    seed: int
    broken: str | None
    reached: Counter[str]
    records: int
    struck: tuple[Struck, ...] = field(default=(), repr=False)
    lines: tuple[str, ...] = field(default=(), repr=False)


class History:
    """Everything that takes part, put together."""

    def __init__(
        self,
        seed: int,
        *,
        weather: Weather | None = None,
        only: Only | None = None,
        tracing: bool = False,
    ) -> None:
        self.world = world = World(seed, weather=weather, only=only, tracing=tracing)
        drawn = world.weather
        self.provider = Provider(world)
        self.callers = Callers(world)
        self.observer = Observer(world)
        world.known_end = self.observer.known_end
        cold = None if drawn.held_max is None else ReadModel(world)
        self.model = ReadModel(world) if cold is None and drawn.missed else cold
        self.webhooks = WebhookRows(self.model) if self.model and drawn.missed else None
        Supervisor(world, lambda number: Processor(world, number, cold), drawn.processors)
        Supervisor(world, lambda number: Executor(world, number, self.provider), drawn.executors)
        shown = dict[int, Position]()
        Supervisor(
            world,
            lambda number: Inquirer(world, number, self.provider, shown, self.webhooks),
            drawn.inquirers,
        )
        doors = Supervisor(world, lambda number: Door(world, number), 1)
        self.provider.tell = deliver(doors.alive)
        Supervisor(world, lambda number: Matcher(world, number, self.webhooks), 1)
        if self.model is not None:
            model = self.model
            Supervisor(world, lambda number: Projector(world, number, model), drawn.projectors)
        Operators(world, self.model, self.observer).begin()
        self.is_signed = not seed % SIGNED_EVERY
        self.deciders = Deciders(world, really=self.is_signed)
        if drawn.table is not None:
            self.deciders.begin()
            Desk(world, self.provider, self.observer, self.deciders).begin()
        if drawn.performs:
            performers = Performers(world, self.provider, self.callers.say)
            self.callers.performers = performers
            performers.begin()
        if drawn.together:
            agents = Agents(world, self.observer, self.callers.say)
            agents.begin()
            Careless(agents, self.deciders).begin()
        world.wants_capacity = self._wants_capacity
        self.healthy_at = 0

    def run(self) -> Outcome:
        """Live it, and judge it. Never raises for a broken law."""
        broken = None
        try:
            with bounded(self.world.weather), self._in_short():
                self._live()
                self._judge()
        except BrokenLawError as found:
            broken = str(found)
        except Exception as fault:  # noqa: BLE001 - a fault of the product is a broken law too
            broken = f"{type(fault).__name__}: {fault}"
        return Outcome(
            seed=self.world.seed,
            broken=broken,
            reached=self.world.reached,
            records=self._record_count(),
            struck=tuple(self.world.draws.struck),
            lines=tuple(self.world.lines or ()),
        )

    @contextmanager
    def _in_short(self) -> Iterator[None]:
        """What takes time and decides nothing is done once, or in a shorter way; not in all."""
        reads_all = not self.world.seed % CODEC_ASKED_EVERY
        with (
            nullcontext() if reads_all else read_once(),
            nullcontext() if self.is_signed else stubbed(),
        ):
            yield

    def _live(self) -> None:
        world = self.world
        begin = world.time.now
        self.callers.begin()
        world.time.run(until=begin + world.weather.chaos_ms)
        world.heal()
        if self.model is not None and self.model.damaged:
            self._live_with_damage(self.model)
        # Nobody decides what comes from the future before it has come.
        away_ms = max(world.weather.pause_ms, FAR_MS if world.is_stepped else 0)
        self.healthy_at = world.time.now + away_ms
        longest = max(bounds_ms(world.weather).values()) if world.weather.outlasts else 0
        self._settle(world.time.now + SETTLED_BY_MS + longest)
        world.time.run(until=world.time.now + DRAIN_MS)
        self._settle(world.time.now + DRAIN_MS + longest)

    def _live_with_damage(self, model: ReadModel) -> None:
        """Everything is well again but the rows of one stream: the times of all others are kept
        whose inputs do not wait behind it. Then those rows are made anew.
        """
        away_ms = max(self.world.weather.pause_ms, FAR_MS if self.world.is_stepped else 0)
        self.world.time.run(until=self.world.time.now + away_ms + DAMAGED_MS)
        laws.times_are_kept_beside_damage(self.world, self.observer, model)
        model.damaged = frozenset()

    def _settle(self, bound: int) -> None:
        """Go on until everything has its end or a person, and the read model knows. Past the bound
        V1 or V2 is broken.
        """
        while not (self.observer.is_settled() and self._is_projected()):
            law(
                self.world.time.now < bound,
                "V2" if self.observer.is_settled() else "V1",
                [(a.key, str(a.status), a.timer) for a in self.observer.actions()],
            )
            self.world.time.run(until=self.world.time.now + SLICE_MS)

    def _is_projected(self) -> bool:
        """Whether the read model stands at the end of the log."""
        law(self.model is None or not self.model.has_stopped, "S13", "the projection stopped")
        return self.model is None or all(
            fold.next_offset == self.world.log.end_offset(Topic.LEDGER.value, part)
            for part, fold in self.model.live.folds.items()
        )

    # Judgement

    def _wants_capacity(self) -> bool:
        """Whether executors go on offering: not while nothing can start, to save the time."""
        return self.callers.left > 0 or self.observer.may_start()

    def _judge(self) -> None:
        most = RESERVATIONS if self.world.weather.together else RESERVATIONS_MAX
        doubts = Doubts(bounds_ms(self.world.weather), self.healthy_at)
        judge = Judge(self.world.log, self.provider.book, most, doubts)
        judge.judge()
        self._accepted_means_kept()
        self._the_fold_agrees(judge)
        self._projections_agree()
        laws.timers_wait(self.world, judge)
        if self.webhooks is not None:
            laws.parked_webhooks_are_swept_up(self.world.log, judge, self.webhooks)
        if not self.world.seed % STATES_EVERY:
            laws.callers_are_told_the_truth(self.world.log, judge)
            laws.states_are_the_plain_ones(self.world.log, self.observer.streams)
        self._reached(judge)
        if self.model is not None and self.model.makes_rows:
            laws.nothing_unfoldable_is_passed(self.world.log, judge)

    def _accepted_means_kept(self) -> None:
        """S10: what was acknowledged to a caller, or to the provider, is in the log."""
        log = self.world.log
        for topic, acknowledged in (
            (Topic.INTENTS, self.callers.acknowledged),
            (Topic.APPROVALS, self.deciders.acknowledged),
            (Topic.WEBHOOKS, [(0, event.told()) for event in self.provider.received]),
        ):
            kept = {
                (part, record.value)
                for part in range(log.partitions)
                for record in log.read(topic.value, part, 0)
            }
            for part, value in acknowledged:
                law((part, value) in kept, "S10", f"{topic} {part} lost {value!r}")

    def _the_fold_agrees(self, judge: Judge) -> None:
        """S6, S22: the product's fold says what the plain one says, of every action."""
        self.observer.look()
        ours = {
            action.key: (
                str(action.status),
                action.version,
                action.review,
                [str(attempt.status) for attempt in action.attempts],
            )
            for action in self.observer.actions()
        }
        plain = {
            key: (
                action.status,
                action.version,
                action.review,
                [a.outcome for a in action.attempts],
            )
            for key, action in judge.actions.items()
        }
        law(ours == plain, "S22", (ours, plain))
        voids = sum(fold.void_count for fold in self.observer.folds)
        law(voids == judge.void, "S15", f"{voids} void records, by the plain rule {judge.void}")

    def _projections_agree(self) -> None:
        """S13, S14: the read model never went back and says what the fold says, in whatever batches
        it was written, begun again and swapped.
        """
        model = self.model
        if model is None:
            return
        law(not model.live.went_back, "S13", "the read model went back")
        streams = {key: held.stream for key, held in model.live.streams.items()}
        law(streams == self.observer.streams, "S14", "the projection is not the fold")
        if model.makes_rows:
            whole = projected_whole(self.world)
            law(whole.told() == model.live.told(), "S13", "the rows depend on their batches")

    def _reached(self, judge: Judge) -> None:
        """Count the states of actions that this history came to."""
        reach = self.world.reach
        if judge.void:
            reach("void record")
        self.world.reached.update(judge.answers)
        for action in judge.actions.values():
            early = action.review == "attempts_exhausted" and action.operation == "charge"
            if early and len(action.counted) < ATTEMPTS_MAX:
                reach("retries stopped by the key window")
            reach(f"ended: {action.status}")
            if action.review:
                reach(f"review: {action.review}")
            if action.review == "lookups_exhausted" and self.world.weather.outlasts:
                reach("a provider stayed away beyond the bound")
            if action.completed:
                reach(f"proof: {action.completed['proof']}")
            if len(action.counted) > 1:
                reach(f"retried: {action.operation}")
            for attempt in action.attempts:
                reach(f"attempt: {attempt.outcome}")
        made = Counter(entry.action for entry in self.provider.book if entry.effect)
        for key, count in made.items():
            if count > 1 and judge.actions[key].intent["account"] == CARELESS:
                reach("second effect of a careless provider")
                if judge.actions[key].review == "second_effect":
                    reach("second effect found out")
        if any(action.status is Status.COMPLETED for action in self.observer.actions()):
            reach("completed at all")

    def _record_count(self) -> int:
        log = self.world.log
        return sum(
            log.end_offset(topic.value, part)
            for topic in Topic
            for part in range(1 if topic is Topic.CONFIG else log.partitions)
        )

    def digest(self) -> str:
        """The hash of every byte of every topic."""
        digest, log = hashlib.sha256(), self.world.log
        for topic in Topic:
            for part in range(1 if topic is Topic.CONFIG else log.partitions):
                for record in log.read(topic.value, part, 0):
                    digest.update(f"{topic}/{part}/{record.offset}@{record.timestamp}".encode())
                    digest.update(record.value)
        return digest.hexdigest()


def run(seed: int, *, only: Only | None = None, tracing: bool = False) -> Outcome:
    """The history of a seed, with all its faults or only with some of them."""
    history = History(seed, only=only, tracing=tracing)
    outcome = history.run()
    history.world.forget()
    return outcome
