"""To what else an action belongs, and what it waits for, as columns of its row.

Pure; called by `rows`.
"""

from typing import Final

from ledger.core.blocking import blocking
from ledger.core.gates import ClaimStatus
from ledger.core.state import Action, Status

UNANSWERED: Final = "unanswered"
"""Why an action is blocked whose gate has yet to say anything; it names the gate."""


def saga_place(
    action: Action,
) -> tuple[str | None, int | None, int | None, str | None, bool | None]:
    """Which saga the action belongs to, as which step of how many, in which role, and whether that
    step only reads.
    """
    saga = action.saga
    if saga is None:
        return (None, None, None, None, None)
    return (saga.saga, saga.step, saga.steps, saga.role, saga.reads)


def what_blocks(action: Action) -> tuple[str | None, str | None, int | None]:
    """Why the action is blocked, by what, and since which of its facts."""
    if action.status is not Status.BLOCKED:
        return (None, None, None)
    found = blocking(action)
    if found is not None:
        return (found.why, found.by, found.version)
    for claim in action.claims:
        if claim.status is ClaimStatus.ASKED and not claim.forced:
            return (UNANSWERED, claim.gate, claim.round)
    return (None, None, None)
