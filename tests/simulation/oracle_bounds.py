"""How long an effect may be in doubt, judged from the log alone: it has an end, or is with a
person, within the bound that its operation declares.

The bound is of log time, and of a ledger in which somebody decides what is due. For how long owners
were away, stood still or refused a log from the future is not in it; once that is over every bound
that has passed meanwhile is kept at once. For how long a provider is away is in it: one that stays
away for longer means a person.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.simulation.broken import law
from tests.simulation.oracle_actions import PlainAction

Json = dict[str, Any]
LATE_MS: Final = 1_500
"""How late what is due is decided while nothing is wrong: to be read, decided and appended, and by
an owner that has to be found first.
"""


@dataclass
class Doubts:
    """Since when each action is in doubt. `bounds_ms` by operation; `healthy_at` is from when on
    nobody is away any more.
    """

    bounds_ms: Mapping[str, int]
    healthy_at: int
    since: dict[str, int] = field(default_factory=dict)

    def takes(self, action: PlainAction, fact: Json, record: Json) -> None:
        """V1: one fact more. Doubt begins with a start, and anew when a person has settled a case;
        it ends with an end or a person, or once nothing is open any more.
        """
        if not action.attempts:
            return
        now = record["decided_at"]
        is_over = action.is_final or action.status == "needs_review" or not action.is_open
        if is_over or fact["type"] == "review.resolved":
            since = self.since.pop(action.key, None)
            if since is not None:
                bound_ms = self.bounds_ms[action.operation]
                late_ms = now - max(since + bound_ms, self.healthy_at) - LATE_MS
                law(late_ms <= 0, "V1", f"{action.key}: in doubt {late_ms} ms past {bound_ms}")
        if not is_over:
            self.since.setdefault(action.key, now)
