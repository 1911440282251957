"""A business event at which several actions stand beside each other, and the people who decide."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.money import Money
from ledger.core.policy import AUTOMATIC, Policy
from ledger.core.state import Case
from ledger.core.statement import Move, Say
from tests import asking
from tests import examples as x
from tests.unit.core.language import Story

if TYPE_CHECKING:
    from ledger.core.rejections import Detail, Rejection

GENERATION: Final = "generation-1"
UNDONE_BY: Final = {"charge": "payout", "note": "email"}
"""What undoes what in this world: money by money, a note by a correction."""


def world(policy: Policy = AUTOMATIC, **declared: object) -> Config:
    """The configuration with compensations, a table and people; every operation declared otherwise
    in some fields.
    """
    operations = tuple(
        one.model_copy(update={"compensation": UNDONE_BY.get(one.name)} | declared)
        for one in x.CONFIG.catalogue.operations
    )
    catalogue = Catalogue(operations, x.CONFIG.content_hash, x.CONFIG.catalogue.timing)
    people = asking.people(asking.people_text())
    return replace(x.CONFIG, catalogue=catalogue, policy=policy, people=people)


def eur(minor: int) -> Money:
    """An amount of euros, in cents."""
    return Money(minor=minor, currency="EUR")


class Event(Story):
    """One business event told from its beginning, input by input; every input comes a millisecond
    after the one before it.
    """

    def __init__(self, config: Config | None = None) -> None:
        """Begin with nothing known."""
        super().__init__(world() if config is None else config)
        self.now = 0
        self._refused: Rejection | None = None
        self.details: tuple[Detail, ...] = ()

    def take(self, given: i.Decidable, *, later: int = 1, acts: bool = False) -> list[str]:
        """The types of the facts that an input leads to; with capacity at hand where it `acts`."""
        self.now += later
        spends = None
        if acts:
            key = self._next_key(given)
            number = len(self.facts) + 1
            spends = x.offer(
                at=self.now, until=self.now + 9, key=key, incarnation=f"executor-{number}"
            )
        then = self.hears(given, at=self.now, offer=spends)
        self._refused = None if then.decided.refused is None else then.decided.refused.code
        self.details = () if then.decided.refused is None else then.decided.refused.details
        return [fact.type for fact in then.decided.facts]

    def refusal(self) -> "Rejection | None":
        """By what the last input was refused, or None."""
        return self._refused

    def _next_key(self, given: i.Decidable) -> str:
        if isinstance(given, i.Tick):
            ready = [one.key for one in self.known.stream.actions if one.status == "ready"]
            return ready[0] if ready else x.CHARGE
        return str(getattr(given, "key", x.CHARGE))

    def propose(self, key: str, *, acts: bool = False, **changes: object) -> list[str]:
        """Somebody asks for the request that a key stands for, in another amount or text."""
        money, text = changes.pop("money", None), changes.pop("text", None)
        asked = x.request(key)
        if money is not None:
            asked = asked.model_copy(update={"money": money})
        if text is not None:
            asked = asked.model_copy(update={"params": {"text": text}})
        given = i.Propose.model_validate({"key": key, "request": asked, **changes})
        return self.take(given, acts=acts)

    def start(self, key: str, **changes: object) -> list[str]:
        """Propose with capacity at hand, so that it starts."""
        return self.propose(key, acts=True, **changes)

    def reports(self, key: str, outcome: i.ReportedOutcome) -> list[str]:
        """The holder of the newest attempt says what became of it."""
        attempt = self.action(key).attempts[-1]
        return self.take(
            x.report(
                outcome,
                key=key,
                attempt=attempt.number,
                token=attempt.fencing_token,
                holder=attempt.holder,
            )
        )

    def completes(self, key: str, reference: str = x.REFERENCE) -> list[str]:
        """An action starts and succeeds."""
        self.propose(key)
        self.take(x.tick(), acts=True)
        return self.reports(key, x.success(reference))

    def goes_on(self, *, later: int = 1) -> list[str]:
        """Time comes, with capacity for what is ready."""
        return self.take(x.tick(), later=later, acts=True)

    def says(self, key: str, say: Say = Say.APPROVE, who: str = "ada") -> list[str]:
        """A person decides about what is asked now."""
        at = x.T0 + self.now + 1
        said = asking.statement(self.action(key), who, say, ledger=GENERATION, at=at)
        return self.take(self._judged(asking.judge(said), at))

    def settles(self, key: str, move: Move, who: str = "ada") -> list[str]:
        """A person settles the case of an action; what it names they let pass where they do."""
        at, case = x.T0 + self.now + 1, self.action(key).case
        said = asking.resolution(self.action(key), who, move, ledger=GENERATION, at=at)
        if move is Move.ALLOW and case is not None:
            said = said.model_copy(update={"accepts": case.names})
        return self.take(self._judged(asking.judge(said), at))

    def allows(self, key: str, accepts: str, who: str = "ada") -> list[str]:
        """A person lets an action pass what blocks it, by its name."""
        at, action = x.T0 + self.now + 1, self.action(key)
        assert action.blocked is not None
        version = action.blocked.version
        said = asking.resolution(
            replace(action, case=_as_a_case(version)), who, Move.ALLOW, ledger=GENERATION, at=at
        ).model_copy(update={"accepts": accepts})
        return self.take(self._judged(asking.judge(said), at))

    def _judged(self, given: i.Judge, at: int) -> i.Judged:
        people = self.known.config.people
        return asking.judged(given, people, at=at, ledger=GENERATION)


def _as_a_case(version: int) -> Case:
    """What blocks an action is signed as a case is."""
    return Case(version, "revised_open", x.T0, version)
