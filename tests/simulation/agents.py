"""Agents that change their mind: they revise what they asked for, take it back in whole or in part,
open plans whose steps undo each other, and call them off; at once, late, and while nobody knows
what became of the first.

They look at what the ledger says of their business event, and then ask. What they ask is often no
longer true when it is decided: that is for the ledger to see.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from ledger.core.ids import ActionKey
from ledger.core.inputs import Cancel, CancelSaga, OpenSaga, Planned, PlannedStep, Propose
from ledger.core.money import Money
from ledger.core.request import Request
from ledger.core.state import Action, Status
from ledger.core.wire import Wire
from tests.simulation.catalogue import STREAM_ACTIONS_ORDINARY, TOGETHER, UNDOES
from tests.simulation.observer import Observer
from tests.simulation.world import Chance, World

AGENT: Final = "agent:billing"
TARGETS: Final = ("order:A", "order:A", "order:A", "order:B")
RUN: Final = "run-1"
WATCHES_MS: Final = 90
PRICES: Final = (900, 1_200, 2_000)
Say = Callable[[Wire, str], None]
Move = Callable[[str], None]


@dataclass(slots=True)
class Agents:
    """All agents of a history in which actions belong together."""

    world: World
    observer: Observer
    say: Say
    chance: Chance = field(init=False)
    _numbers: int = 0
    _plans: list[tuple[str, str]] = field(default_factory=list)

    def begin(self) -> None:
        """Spread what they do over the first part of the chaos: of everything some, or most of it
        plans, or most of it second thoughts.
        """
        chance = self.chance = Chance(f"minds {self.world.seed}")
        most_ms = self.world.weather.chaos_ms * 3 // 4
        first, count, moves = chance.choice(self._days())
        self.world.time.after(chance.randint(1, 400), lambda: first(self._event()))
        for _ in range(count):
            at_ms = chance.randint(1, most_ms)
            self.world.time.after(at_ms, lambda: chance.choice(moves)(self._event()))

    def _days(self) -> tuple[tuple[Move, int, tuple[Move, ...]], ...]:
        """How a day begins, how many moves follow, and which."""
        asks, revises, undoes = self._asks, self._revises, self._undoes
        opens, travels, calls_off = self._opens, self._travels, self._calls_off
        some = (revises, revises, undoes, undoes, undoes, opens, asks, calls_off)
        return (
            (asks, self.chance.randint(5, 9), some),
            (travels, self.chance.randint(1, 3), (travels, travels, undoes, calls_off)),
            (travels, self.chance.randint(1, 3), (travels, revises, undoes, calls_off)),
            (asks, self.chance.randint(5, 8), (revises, revises, undoes, undoes, asks)),
        )

    def _event(self) -> str:
        return "order-1" if self.chance.random() < 7 / 8 else "order-2"

    def known(self, event: str) -> list[Action]:
        """What the ledger says of a business event by now."""
        self.observer.look()
        stream = self.observer.streams.get(f"acme/{event}")
        return [] if stream is None else list(stream.actions)

    def says(self, said: Wire, event: str) -> None:
        """Say it, and sometimes once more."""
        self.say(said, f"acme/{event}")
        if self.chance.random() < 1 / 8:
            later_ms = self.chance.randint(1, 2_000)
            self.world.time.after(later_ms, partial(self.say, said, f"acme/{event}"))

    def item(self) -> str:
        """A name that nothing of the business event has yet."""
        self._numbers += 1
        return f"i{self._numbers}"

    # What they ask for

    def request(self, operation: str, money: Money | None = None) -> Request:
        """A request of an operation, on a target that others want, too."""
        chance = self.chance
        if operation == "charge" and money is None:
            money = Money(minor=chance.choice(PRICES), currency="EUR")
        return Request(
            operation=operation,
            version=1,
            params={"text": f"words {chance.randint(1, 9)}"},
            target=chance.choice(TARGETS),
            money=money,
            principal=AGENT,
            environment="live",
        )

    def _asks(self, event: str) -> None:
        """Something of its own."""
        operation = self.chance.choice(TOGETHER)
        key = f"{operation}:v1:acme:{event}#{self.item()}"
        self.says(Propose(key=key, request=self.request(operation), run=RUN), event)

    def _revises(self, event: str) -> None:
        """Something else instead of what was asked for; most gladly of what is not settled yet."""
        newest = self.newest(event)
        if not newest:
            self._asks(event)
            return
        earlier = self._one_of(newest)
        said = self.revision(earlier, self.request(earlier.request.operation))
        self.says(said, event)

    def newest(self, event: str) -> list[Action]:
        """What may be revised: of every act of no plan the newest."""
        known = [one for one in self.known(event) if one.saga is None]
        return [one for one in known if one.revised_by is None]

    def revision(self, earlier: Action, request: Request) -> Propose:
        """The next revision of an action, with what it compensates."""
        key = ActionKey.parse(earlier.key)
        number = (key.action_id.revision or 1) + 1
        base = earlier.key.partition("~")[0]
        whole = earlier.request.money
        if earlier.compensates is not None and whole is not None and request.money is None:
            request = request.model_copy(update={"money": whole})
        if earlier.compensates is not None:
            request = request.model_copy(update={"target": earlier.request.target})
        return Propose(
            key=f"{base}~{number}",
            request=request,
            revises=earlier.key,
            compensates=earlier.compensates,
            run=RUN,
        )

    def _undoes(self, event: str) -> None:
        """The whole of something, or a part of it, whatever has become of it by now."""
        known = [one for one in self.known(event) if one.request.operation in UNDOES]
        known = [one for one in known if one.compensates is None]
        if not known:
            self._asks(event)
            return
        original = self._one_of(known)
        operation = UNDOES[original.request.operation]
        key = f"{operation}:v1:acme:{event}#{self.item()}"
        request = self.request(operation, self._part(original.request.money))
        request = request.model_copy(update={"target": original.request.target})
        self.says(Propose(key=key, request=request, compensates=original.key, run=RUN), event)

    def _part(self, whole: Money | None) -> Money | None:
        if whole is None or self.chance.random() < 1 / 8:
            return None
        share = self.chance.choice((1, 1, 2, 2, 3))
        return Money(minor=whole.minor // share, currency=whole.currency)

    def _one_of(self, actions: list[Action]) -> Action:
        """One that may have had its effect, if there is one, mostly; else any."""
        is_open = [one for one in actions if one.is_open]
        unsettled = [one for one in actions if not one.is_final]
        for some, share in ((is_open, 7 / 8), (unsettled, 1 / 2)):
            if some and self.chance.random() < share:
                return self.chance.choice(some)
        return self.chance.choice(actions)

    # Plans

    def _opens(self, event: str) -> None:
        """Two to four steps, with what undoes most of them; seldom as many as there is room for."""
        name = f"plan-{self.item()}"
        many = self.chance.random() < 1 / 24
        count = STREAM_ACTIONS_ORDINARY if many else self.chance.randint(2, 4)
        steps = tuple(self.step(event) for _ in range(count))
        self._open(event, name, steps)
        if many or self.chance.random() < 1 / 5:
            self._will_call_off(event, name, 300 if many else 4_000)

    def _open(self, event: str, name: str, steps: tuple[PlannedStep, ...]) -> None:
        self._plans.append((event, name))
        self.says(plan_of(event, name, steps), event)

    def _will_call_off(self, event: str, name: str, most_ms: int) -> None:
        off = CancelSaga(stream=f"acme/{event}", saga=name, principal=AGENT)
        later_ms = self.chance.randint(1, most_ms)
        self.world.time.after(later_ms, partial(self.says, off, event))

    def _travels(self, event: str) -> None:
        """Several steps that can be undone, all of them."""
        name = f"plan-{self.item()}"
        count = self.chance.randint(3, 4)
        steps = tuple(self.step(event, self.chance.choice(tuple(UNDOES))) for _ in range(count))
        self._open(event, name, steps)
        if self.chance.random() < 3 / 4:
            self._watches(event, name, self.chance.randint(1, count - 1))

    def _watches(self, event: str, name: str, done: int) -> None:
        """Call a plan off once so many of its steps are done, and nobody knows of the next."""
        steps = [
            one
            for one in self.known(event)
            if one.saga is not None and one.saga.saga == name and one.saga.role == "step"
        ]
        enough = sum(one.status is Status.COMPLETED for one in steps) >= done
        is_lost = any(one.status is Status.UNKNOWN for one in steps)
        if enough and (is_lost or self.chance.random() < 1 / 8):
            self._will_call_off(event, name, 60)
        elif not self.world.is_calm:
            self.world.time.after(WATCHES_MS, partial(self._watches, event, name, done))

    def step(self, event: str, operation: str | None = None) -> PlannedStep:
        """One step, and mostly what undoes it."""
        operation = operation or self.chance.choice((*TOGETHER, "charge", "charge", "note"))
        item = self.item()
        request = self.request(operation)
        undo = None
        if operation in UNDOES and self.chance.random() < 7 / 8:
            back = UNDOES[operation]
            asked = self.request(back, request.money)
            asked = asked.model_copy(update={"target": request.target})
            undo = Planned(key=f"{back}:v1:acme:{event}#{item}", request=asked)
        key = f"{operation}:v1:acme:{event}#{item}"
        occurrence = item if self._numbers % 2 else None
        return PlannedStep(key=key, request=request, occurrence=occurrence, compensation=undo)

    def _calls_off(self, event: str) -> None:
        """One action, or a whole plan."""
        plans = [name for of, name in self._plans if of == event]
        if plans and self.chance.random() < 1 / 2:
            name = self.chance.choice(plans)
            self.says(CancelSaga(stream=f"acme/{event}", saga=name, principal=AGENT), event)
            return
        known = self.known(event)
        if known:
            self.says(Cancel(key=self.chance.choice(known).key, principal=AGENT), event)


def plan_of(event: str, name: str, steps: tuple[PlannedStep, ...]) -> OpenSaga:
    """A plan under its name."""
    return OpenSaga(stream=f"acme/{event}", saga=name, principal=AGENT, steps=steps, run=RUN)
