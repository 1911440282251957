"""What blocks an action, told from its state: another action of its stream, or one that holds its
target. Read by `decide`, by every door that shows an action, and by the tests.
"""

from dataclasses import dataclass

from ledger.core.gates import ClaimStatus
from ledger.core.ids import GateKind, gate_kind
from ledger.core.state import Action, Status


@dataclass(frozen=True, slots=True)
class Blocking:
    """What an action waits for, and the version under which a person may let it pass."""

    version: int
    by: str
    why: str

    @property
    def may_be_allowed(self) -> bool:
        """Whether a person may take the risk: what waits for its turn in a plan is not a risk."""
        return self.why in {"revised_open", GateKind.TARGET.value}


def blocking(action: Action) -> Blocking | None:
    """What blocks the action, or None: another action of its stream, or one that holds its
    target.
    """
    if action.status is not Status.BLOCKED:
        return None
    if action.blocked is not None:
        return Blocking(action.blocked.version, action.blocked.by, action.blocked.reason)
    for claim in action.claims:
        if claim.status is ClaimStatus.QUEUED and claim.behind is not None:
            return Blocking(claim.round, claim.behind, gate_kind(claim.gate).value)
    return None
