"""What the demonstration claims, each claim checked against the log, the book or the database."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence, whether it held, and what was seen."""

    id: str
    text: str
    held: bool
    seen: str


@dataclass(slots=True)
class Told:
    """What came of a demonstration. Times are milliseconds, by phase."""

    chapter: str
    claims: list[Claim] = field(default_factory=list)
    records: list[dict[str, object]] = field(default_factory=list)
    took_ms: dict[str, int] = field(default_factory=dict)
    state_dir: str | None = None

    @property
    def all_held(self) -> bool:
        """Whether the story was told to its end and every claim held."""
        return bool(self.claims) and all(claim.held for claim in self.claims)

    def result(self) -> dict[str, object]:
        """The answer as JSON has it."""
        return {
            "chapter": self.chapter,
            "all_held": self.all_held,
            "claims": self.claims,
            "took_ms": self.took_ms,
            "records": self.records,
            "state_dir": self.state_dir,
        }
