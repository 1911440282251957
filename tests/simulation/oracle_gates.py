"""S19, judged from the log alone: what actions ask of gates, what gates grant, and what started.

Written once more from the rules, over the JSON of records. Partitions are put together in the order
in which their records landed, and every law is held at every prefix of that.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.crash.plain_gates import CLAIMS, awaits, claim
from tests.simulation.broken import law

Json = dict[str, Any]
BEFORE: Final = frozenset({"awaiting_approval", "blocked", "ready"})
"""Before anything began."""
__all__ = ["BEFORE", "CLAIMS", "AtGates"]


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
        """In which round it came behind whom."""
        for one in self.state["claims"]:
            if one["status"] == "queued":
                return one["round"], one["behind"]
        return None

    def claim(self, key: str, status: str, fact: Json, record: Json) -> tuple[str, int | None]:
        """One fact more: the status after it, and the end of its step where that begins."""
        self.state["status"] = status
        deadline = self.state.pop("step_deadline_at", None)
        wrong = claim(self.state, fact, record["decided_at"])
        law(wrong is None, "S19", f"{key}: {wrong}")
        after: str = self.state["status"]
        deadline = self.state.pop("step_deadline_at", None)
        return after, deadline

    def after(self, fact: Json, status: str, before: str) -> str:
        """The status that people and the table lead to, as long as gates owe answers."""
        if fact["type"] == "policy.decided":
            if status == "ready" and self.awaits:
                status = "blocked"
        elif status == "ready" and before == "blocked":
            status = "blocked"
        if status != "blocked":
            self.state.pop("wait_until", None)
        return status
