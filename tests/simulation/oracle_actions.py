"""One action as the judge has it: what its facts say, in their order."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.oracle_claims import TOLD, AtGates
from tests.simulation.oracle_desk import OnDesk
from tests.simulation.oracle_people import Asked

Json = dict[str, Any]
ENDED: Final = frozenset({"completed", "failed", "denied", "cancelled", "expired", "superseded"})


@dataclass
class PlainAttempt:
    """A start and what became of it."""

    start: Json
    decided_at: int
    landed_at: int
    outcome: str = "running"

    @property
    def is_open(self) -> bool:
        """Whether it may have had its effect."""
        return self.outcome in {"running", "unresolved"}


@dataclass
class PlainAction:
    """What the facts of one action say, in their order."""

    key: str
    intent: Json
    version: int = 1
    status: str = "proposed"
    attempts: list[PlainAttempt] = field(default_factory=list)
    completed: Json | None = None
    review: str | None = None
    lookups: dict[int, int] = field(default_factory=dict)
    evidence: list[Json] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    asked: Asked = field(default_factory=Asked)
    gates: AtGates = field(default_factory=AtGates)
    desk: OnDesk = field(default_factory=OnDesk)
    was_ever_noted: bool = False
    """Whether `was_noted` was true after any case of it, and not only after the last one."""

    @property
    def operation(self) -> str:
        """The name of its operation."""
        return self.key.partition(":")[0]

    @property
    def is_open(self) -> bool:
        """Whether some attempt may have had its effect."""
        return any(attempt.is_open for attempt in self.attempts)

    @property
    def counted(self) -> list[PlainAttempt]:
        """Attempts that were not given back."""
        return [one for one in self.attempts if one.outcome != "declined"]

    # As others look at it that revise it, undo it, or come after it.

    @property
    def revises(self) -> str | None:
        """The action that it comes in the place of."""
        revised: str | None = self.intent.get("revises")
        return revised

    @property
    def compensates(self) -> str | None:
        """The action that it undoes."""
        undone: str | None = self.intent.get("compensates")
        return undone

    @property
    def money(self) -> int | None:
        """Its amount."""
        money = self.intent["request"].get("money")
        return None if money is None else int(money["minor"])

    @property
    def is_final(self) -> bool:
        """Whether it has come to its end."""
        return self.status in ENDED

    @property
    def is_unsettled(self) -> bool:
        """Whether nobody knows if its effect is there."""
        return self.is_open or (self.desk.opened is not None and self.desk.reason in TOLD)

    @property
    def was_noted(self) -> bool:
        """Whether a person has taken note of an effect, or of what speaks against one."""
        noted = self.desk.settled is not None and self.desk.settled["move"] == "acknowledge"
        return noted and self.review in TOLD

    @property
    def has_effect(self) -> bool:
        """Whether it is settled that its effect is there."""
        if self.is_unsettled or not self.is_final:
            return False
        is_left = self.review == "compensation_failed" and self.compensates is None
        return self.status == "completed" or self.was_noted or is_left

    @property
    def is_without_effect(self) -> bool:
        """Whether it surely has none, and never will."""
        return self.is_final and not self.is_unsettled and not self.has_effect

    @property
    def is_reversed(self) -> bool:
        """Whether its effect came to nothing later, and a person has taken note of that."""
        is_against = self.review == "evidence_conflicts" and self.desk.opened is None
        return self.status == "completed" and is_against and self.was_noted
