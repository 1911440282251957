"""The words for what crosses business events: actions of several streams, and gates between them.

    world = Crossing(ceiling() + passes("run"))
    world.proposes(A, run="r1")
    assert world.status(A) is Status.ATTEMPTING

What actions and gates say to each other is delivered at once and in order, unless a test holds it
back: then it lies in `world.said`, to be lost, doubled or delivered in another order.
"""

from dataclasses import replace
from typing import Final

from ledger.core import inputs as i
from ledger.core.blocking import blocking
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.gates import Gate, GateFact, Reservation
from ledger.core.ids import GateKind, gate_key, stream_key_of
from ledger.core.limits import RESOLUTION_VALID_MS_MAX
from ledger.core.money import Money
from ledger.core.records import Decision
from ledger.core.rejections import Rejection
from ledger.core.state import Action, Status
from ledger.core.statement import Move, Resolution, Say, Statement
from streams.timetable import next_due_of
from tests import asking
from tests import examples as x
from tests.ledgers import LedgerBuilder

A: Final = x.CHARGE
B: Final = "charge:v1:acme:renewal-2"
C: Final = "charge:v1:acme:renewal-3"
D: Final = "charge:v1:acme:renewal-4"
ORDER: Final = "order:A-1842"
"""The target of every request here, unless a test changes it."""
ALWAYS: Final = 400 * 24 * 3_600_000


def ceiling(name: str = "run", per: str = "run", **limits: object) -> str:
    """The table of a ceiling; without a limit it lets one action through."""
    given = limits or {"side_effects": 1}
    lines = "\n".join(f"{key} = {_toml(value)}" for key, value in given.items())
    return f'[[ceiling]]\nname = "{name}"\nper = "{per}"\n{lines}\n'


def _toml(value: object) -> str:
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {one}" for key, one in value.items()) + " }"
        case str():
            return f'"{value}"'
        case _:
            return str(value)


def passes(*ceilings: str, target: bool = False, outcome: str = "automatic", more: str = "") -> str:
    """A row for every action, which has it pass gates."""
    names = ", ".join(f'"{name}"' for name in ceilings)
    return f"""
[[row]]
name = "guarded"
outcome = "{outcome}"
ceilings = [{names}]
block_target = {str(target).lower()}
reason = "A test says so."
{more}
"""


PEOPLE_AND: Final = 'groups = ["finance"]\nvalid_ms = 30_000'
ONE_AT_A_TIME: Final = passes(target=True)


def under(text: str, **declared: object) -> Config:
    """The configuration with a table, its people, and every operation declared otherwise in some
    fields.
    """
    operations = tuple(one.model_copy(update=declared) for one in x.CONFIG.catalogue.operations)
    catalogue = Catalogue(operations, x.CONFIG.content_hash, x.CONFIG.catalogue.timing)
    people = asking.people(asking.people_text())
    return replace(x.CONFIG, catalogue=catalogue, policy=asking.policy(text), people=people)


class Crossing:
    """Several streams and their gates in one small ledger."""

    def __init__(self, text: str, **declared: object) -> None:
        """Begin with a decision table, and with nothing known."""
        self.ledger = LedgerBuilder(config=under(text, **declared))
        self.holds_back = False
        self.facts: list[GateFact] = []

    # What happens

    def hears(self, said: i.Decidable, *, at: int | None = None, starts: bool = True) -> Decision:
        """Decide an input, `at` after T0 or when the last was decided, and deliver what follows."""
        later_ms = 0 if at is None else x.T0 + at - self.now
        assert later_ms >= 0, "time does not go back"
        executor = x.HOLDER if starts else None
        decision = self.ledger.take(said, later_ms=later_ms, executor=executor)
        self._remember(decision)
        if not self.holds_back:
            self.deliver(starts=starts)
        return decision

    def deliver(self, *, starts: bool = True) -> None:
        """Deliver what was said, in its order, until nobody says any more."""
        for decision in self.ledger.deliver(executor=x.HOLDER if starts else None):
            self._remember(decision)

    def _remember(self, decision: Decision) -> None:
        self.facts += decision.gate or ()

    def proposes(
        self,
        key: str,
        *,
        at: int | None = None,
        money: Money | None = None,
        target: str = ORDER,
        text: str | None = None,
        starts: bool = True,
        **changes: object,
    ) -> Decision:
        """Somebody proposes an action."""
        request = x.request(key, money=money, text=text).model_copy(update={"target": target})
        return self.hears(x.propose(key, request=request, **changes), at=at, starts=starts)

    def reports(
        self, key: str, outcome: i.ReportedOutcome, *, at: int | None = None, attempt: int = 1
    ) -> Decision:
        """Whoever holds the attempt says what came of it."""
        return self.hears(x.report(outcome, key=key, attempt=attempt), at=at)

    def completes(self, key: str, *, at: int | None = None) -> Decision:
        """The provider has confirmed it."""
        return self.reports(key, x.success(f"ch_{key[-1]}"), at=at)

    def fails(self, key: str, *, at: int | None = None) -> Decision:
        """The provider has refused it for good."""
        return self.reports(key, x.refusal("declined", i.Retry.NEVER), at=at)

    def loses(self, key: str, *, at: int | None = None) -> Decision:
        """No answer came."""
        return self.reports(key, x.no_answer(), at=at)

    def allows(
        self, key: str, accepts: str | None, *, who: str = "ada", at: int | None = None
    ) -> Decision:
        """Somebody signs that an action may pass what is in its way."""
        return self.settles(key, Move.ALLOW, who=who, at=at, accepts=accepts)

    def settles(
        self, key: str, move: Move, *, who: str = "ada", at: int | None = None, **named: object
    ) -> Decision:
        """Somebody settles the case of an action, or lets pass what blocks it."""
        action, now = self.action(key), self.now if at is None else x.T0 + at
        waits = blocking(action)
        shown = (0, 0) if waits is None else (waits.version, waits.version)
        if action.case is not None:
            shown = (action.case.opened_version, action.case.moved_version)
        said = Resolution.model_validate(
            {
                "ledger": self.ledger.generation,
                "move": move,
                "approver": who,
                "tenant": "acme",
                "environment": action.request.environment,
                "key": key,
                "request_hash": action.request_hash,
                "case": shown[0],
                "moved": shown[1],
                "issued_at": now,
                "expires_at": now + RESOLUTION_VALID_MS_MAX,
                "comment": "I looked at the provider's own pages.",
                **named,
            }
        )
        return self._judged(said, now, at)

    def says(
        self, key: str, say: Say = Say.APPROVE, *, who: str = "ada", at: int | None = None
    ) -> Decision:
        """Somebody decides about an action that waits for people."""
        now = self.now if at is None else x.T0 + at
        said = asking.statement(self.action(key), who, say, ledger=self.ledger.generation, at=now)
        return self._judged(said, now, at)

    def _judged(self, said: Resolution | Statement, now: int, at: int | None) -> Decision:
        everybody = self.ledger.config.people
        judge = asking.judge(said)
        judged = asking.judged(judge, everybody, at=now, ledger=self.ledger.generation)
        return self.hears(judged, at=at)

    def adopts(self, text: str) -> None:
        """Another decision table is in force, and every action is ruled anew."""
        self.ledger.config = replace(self.ledger.config, policy=asking.policy(text))
        for key in [key for key, stream in self.ledger.streams.items() if stream.actions]:
            self.hears(x.tick(key))

    def waits(self, ms: int) -> None:
        """Time goes by, and every stream does what is due then; what is sent is delivered."""
        until = self.now + ms
        while (due := self._first_due()) is not None and due[0] <= until:
            at, key = due
            self.hears(x.tick(key), at=max(at, self.now) - x.T0)
        for key in list(self.ledger.streams):
            self.hears(x.tick(key), at=until - x.T0)

    def _first_due(self) -> tuple[int, str] | None:
        times = []
        for key, stream in self.ledger.streams.items():
            due = next_due_of(stream, self.now, self.ledger.config)
            if due is not None:
                times.append((due, key))
        return min(times, default=None)

    # What is known

    @property
    def now(self) -> int:
        """Log time."""
        return self.ledger.decided_at(x.STREAM)

    @property
    def said(self) -> list[i.Message]:
        """What was said and not delivered."""
        return list(self.ledger.said)

    def action(self, key: str) -> Action:
        """An action as it stands."""
        action = self.ledger.streams[stream_key_of(key)].action(key)
        assert action is not None
        return action

    def status(self, key: str) -> Status:
        """Where an action stands."""
        return self.action(key).status

    def statuses(self, *keys: str) -> list[Status]:
        """Where actions stand."""
        return [self.status(key) for key in keys]

    def gate(self, key: str) -> Gate:
        """A gate as it stands."""
        gate = self.ledger.streams[key].gate
        assert gate is not None
        return gate

    def run(self, name: str = "r1") -> Gate:
        """The gate of a run."""
        return self.gate(gate_key("acme", GateKind.RUN, name))

    def target(self, name: str = ORDER) -> Gate:
        """The gate of a target."""
        return self.gate(gate_key("acme", GateKind.TARGET, name))

    def window(self, name: str) -> Gate:
        """The gate of a window."""
        return self.gate(gate_key("acme", GateKind.WINDOW, name))

    def held(self, gate: Gate) -> list[str]:
        """Whose reservations a gate has granted, in order."""
        return [one.action for one in gate.granted]

    def queued(self, gate: Gate) -> list[str]:
        """Who waits, in order."""
        return [one.action for one in gate.queue]

    def refusal(self, key: str) -> tuple[str, str | None]:
        """Why a person is needed for an action, and what the case names."""
        case = self.action(key).case
        assert case is not None
        return case.reason, case.names


def refused(decision: Decision) -> Rejection | None:
    """By what an input was refused."""
    return None if decision.refused is None else decision.refused.code


def reservation(gate: Gate, key: str) -> Reservation:
    """The one that a gate holds for an action."""
    (one,) = (one for one in gate.reservations if one.action == key)
    return one
