"""How one action stands with gates, and with the other actions of its business event that it waits
for: as its own facts say it, in their order.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.crash.plain_gates import CLAIMS, awaits, claim
from tests.simulation.broken import law

Json = dict[str, Any]
BEFORE: Final = frozenset({"awaiting_approval", "blocked", "ready"})
"""Before anything began."""
TOLD: Final = frozenset(
    {
        "amount_differs",
        "evidence_conflicts",
        "effect_without_attempt",
        "second_effect",
        "reversed_elsewhere",
        "returned_too_much",
    }
)
"""Cases that an effect opened, or two pieces that disagree about one."""
__all__ = ["BEFORE", "CLAIMS", "TOLD", "AtGates"]


@dataclass
class AtGates:
    """How an action stands with gates."""

    state: Json = field(default_factory=lambda: {"claims": []})
    allowed: list[str] = field(default_factory=list)

    @property
    def awaits(self) -> bool:
        """Whether a gate has yet to grant what it needs to start."""
        return awaits(self.state)

    @property
    def wait_until(self) -> int | None:
        """Until when it waits, while it is blocked."""
        until: int | None = self.state.get("wait_until")
        return until

    @property
    def blocked_by(self) -> tuple[int, str] | None:
        """In which round, or at which version, it came behind whom."""
        blocked = self.state.get("blocked")
        if blocked is not None:
            return blocked["version"], blocked["by"]
        for one in self.state["claims"]:
            if one["status"] == "queued":
                return one["round"], one["behind"]
        return None

    def claim(self, key: str, status: str, fact: Json, record: Json) -> tuple[str, int | None]:
        """One fact more: the status after it, and the end of its step where that begins."""
        self.state["status"] = status
        wrong = claim(self.state, fact, record["decided_at"])
        law(wrong is None, "S19", f"{key}: {wrong}")
        after: str = self.state["status"]
        deadline: int | None = self.state.pop("step_deadline_at", None)
        return after, deadline

    def after(self, fact: Json, status: str, before: str) -> str:
        """The status that people and the table lead to, as long as gates owe answers."""
        if fact["type"] == "policy.decided":
            was = self.state.pop("blocked", None)
            if status == "ready" and self.awaits:
                status = "blocked"
            if status != "blocked" or was is not None:
                self.state.pop("wait_until", None)
            if status == "blocked" and was is not None and "step_deadline_at" in fact:
                self.state["wait_until"] = fact["step_deadline_at"]
        elif status == "ready" and (before == "blocked" or self.awaits):
            status = "blocked"
        return status

    def block(self, fact: Json) -> None:
        """Another action of its business event comes first."""
        self.state["blocked"] = {name: fact[name] for name in ("reason", "by", "version")}
        self.state.pop("wait_until", None)
        if fact.get("wait_until") is not None:
            self.state["wait_until"] = fact["wait_until"]
