"""The configuration that a decision may depend on: only what has been adopted in the partition's
own log.

`Config` is immutable and built once a version. `AUTOMATIC` is the named bootstrap policy: every
declared operation goes ahead by itself.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from ledger.core.catalogue import Catalogue, Operation, Timing
from ledger.core.holds import Hold, Holds, holding
from ledger.core.ids import ActionKey
from ledger.core.state import Action, Status

AUTOMATIC_POLICY = "automatic"
AUTOMATIC_POLICY_HASH = (
    "sha256:"
    + hashlib.sha256(b"actionledger.policy.v1\nautomatic: every declared operation").hexdigest()
)


@dataclass(frozen=True, slots=True)
class Config:
    """The operation catalogue in force, the hash of its source text, and the holds in force."""

    catalogue: Catalogue
    content_hash: str
    holds: Holds = ()

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
