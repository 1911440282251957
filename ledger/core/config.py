"""The configuration that a decision may depend on: only what has been adopted in the partition's
own log.

`Config` is immutable and built once a version. Before a decision table is adopted the named
bootstrap policy `AUTOMATIC` holds: every declared operation goes ahead by itself. The set-up step
publishes a table before the first catalogue, so only trials and tests know that time.
"""

from dataclasses import dataclass
from typing import Final

from ledger.core.catalogue import Catalogue, Operation, Timing
from ledger.core.holds import Hold, Holds, holding
from ledger.core.ids import ActionKey
from ledger.core.people import NOBODY, People
from ledger.core.policy import AUTOMATIC, Policy
from ledger.core.state import Action, Status

__all__ = [
    "MAY_BE_HELD",
    "Config",
    "hold_on",
]


@dataclass(frozen=True, slots=True)
class Config:
    """The operation catalogue in force and the hash of its source text; and the holds, the decision
    table and the people in force.
    """

    catalogue: Catalogue
    content_hash: str
    holds: Holds = ()
    policy: Policy = AUTOMATIC
    people: People = NOBODY

    @property
    def timing(self) -> Timing:
        """The bounds on clocks and waits that hold in this installation."""
        return self.catalogue.timing

    def operation(self, name: str, version: int) -> Operation | None:
        """The declaration in force, or None when it was withdrawn or never there."""
        return self.catalogue.operation(name, version)

    def hold_on(self, action: Action) -> Hold | None:
        """The hold that keeps the action from starting, or None."""
        return hold_on(action, self.holds)


def hold_on(action: Action, holds: Holds) -> Hold | None:
    """The first hold that covers an action, or None."""
    if not holds:
        return None
    key = ActionKey.parse(action.key)
    return holding(holds, action.provider, key.tenant, key.operation)


MAY_BE_HELD: Final = frozenset({Status.PROPOSED, Status.READY, Status.UNKNOWN})
"""Where an action may wait for its next attempt, so that a hold is what it waits for."""
