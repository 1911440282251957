"""A saga that is led from step to step by what becomes of its actions, in the core alone."""

from dataclasses import replace
from typing import Final

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide.schedule import awaits_offer
from ledger.core.rejections import Refused
from ledger.core.sagas import Saga, SagaStatus
from ledger.core.state import Action
from ledger.core.statement import Move
from tests import asking
from tests import examples as x
from tests.examples_of_sagas import TRAVELS, plan, stands, trip
from tests.unit.core.language import Story, Then

GENERATION: Final = "generation-1"
PEOPLE: Final = asking.people(asking.people_text())
NO: Final = i.Refusal(code="sold_out", retry=i.Retry.NEVER)
LATER: Final = i.Refusal(code="busy", retry=i.Retry.LATER)
LOST: Final = i.NoAnswer(code="timeout")
YES: Final = i.Success(reference="ref-1")
LEASE_OVER_MS: Final = x.LEASE_MS + x.SKEW_MS
FOUND_OUT_MS: Final = LEASE_OVER_MS + x.LAG_MS + x.SETTLE_MS


class Travelling(Story):
    """One trip, at `at` milliseconds after it was opened."""

    def __init__(self, opened: i.OpenSaga | None = None, config: Config = TRAVELS) -> None:
        """Open it, with capacity for its first step at hand."""
        super().__init__(replace(config, people=PEOPLE))
        self.at = 0
        self.sequence = 0
        self.opening = self.says(plan() if opened is None else opened)

    @property
    def saga(self) -> Saga:
        """The trip as it stands."""
        return trip(self.known.stream)

    def has_come_to(self, status: SagaStatus) -> bool:
        """Whether it stands so now."""
        return self.saga.status is status

    @property
    def statuses(self) -> list[tuple[str, str | None]]:
        """The status of each step, and of its compensation."""
        return stands(self.known.stream)

    def says(self, said: i.Decidable, *, later_ms: int = 0, key: str | None = None) -> Then:
        """Decide an input; an executor has capacity for the action under `key`."""
        self.at += later_ms
        offer = None
        if key is not None:
            self.sequence += 1
            offer = x.offer(
                at=self.at,
                until=self.at + 10_000,
                key=key,
                incarnation=f"executor-{self.sequence}",
                sequence=self.sequence,
            )
        return self.hears(said, at=self.at, offer=offer)

    def refused(self, said: i.Decidable) -> Refused:
        """An input that is refused, and changes nothing."""
        refused = self.says(said).decided.refused
        assert refused is not None
        return refused

    def begins(self, key: str) -> Action:
        """Once its wait is over, if it waits, an executor comes by, and the action starts."""
        action = self.action(key)
        if action.running is None:
            timer = action.timer
            later_ms = 0 if timer is None else max(0, timer.due_at - x.T0 - self.at)
            assert awaits_offer(action, x.T0 + self.at + later_ms), (key, action.status)
            self.says(x.tick(), key=key, later_ms=later_ms)
        action = self.action(key)
        assert action.running is not None, (key, action.status)
        return action

    def does(self, key: str, outcome: i.ReportedOutcome = YES) -> None:
        """The action starts, if it has not, and its holder reports what came of it."""
        attempt = self.begins(key).attempts[-1]
        self.says(
            i.Report(
                key=key,
                attempt=attempt.number,
                fencing_token=attempt.fencing_token,
                holder=attempt.holder,
                outcome=outcome,
            )
        )

    def finds(self, key: str, meaning: i.Meaning) -> None:
        """The provider is asked what became of an action, and answers."""
        while self.action(key).lookup is None:
            timer = self.action(key).timer
            assert timer is not None, (key, self.action(key).status)
            later_ms = max(timer.due_at - x.T0 - self.at, 0) + FOUND_OUT_MS
            self.says(x.tick(), later_ms=later_ms)
        lookup = self.action(key).lookup
        assert lookup is not None
        evidence = x.found_out(meaning, key=key, lookup=lookup.number, source=f"{key} {self.at}")
        self.says(evidence)

    def settles(self, key: str, move: Move) -> Then:
        """Ada settles the case of an action."""
        said = asking.resolution(
            self.action(key), "ada", move, ledger=GENERATION, at=x.T0 + self.at
        )
        return self.says(
            asking.judged(asking.judge(said), PEOPLE, at=x.T0 + self.at, ledger=GENERATION),
            key=key,
        )

    def started(self) -> list[str]:
        """Which actions have begun, in the order in which they did."""
        return [fact.action for fact in self.facts if fact.type == "attempt.started"]
