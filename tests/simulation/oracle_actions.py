"""One action as the judge has it: what its facts say, in their order."""

from dataclasses import dataclass, field
from typing import Any

from tests.simulation.oracle_desk import OnDesk
from tests.simulation.oracle_gates import AtGates
from tests.simulation.oracle_people import Asked

Json = dict[str, Any]


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
