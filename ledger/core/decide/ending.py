"""How an action leaves the hands of the ledger: a person gets it, or it is called off before it has
begun. Called by every rule that comes to either.
"""

from typing import Final

from ledger.core.decide.draft import Draft
from ledger.core.facts import ActionCancelled, ReviewOpened, ReviewReason
from ledger.core.state import Status

LEDGER: Final = "ledger"
"""Who calls off what is needed no more. It is no revision's doing, so it is not superseded."""

NOTHING_TO_UNDO: Final = "nothing_to_undo"
"""Why a compensation is called off whose original has no effect."""

NOT_BEGUN: Final = frozenset(
    {Status.PROPOSED, Status.AWAITING_APPROVAL, Status.BLOCKED, Status.READY}
)
"""Where nothing of an action is under way, so that it can be called off."""


def call_off(draft: Draft, key: str, reason: str | None, *, principal: str = LEDGER) -> None:
    """End an action before it has begun, for the ledger or for who asks for it."""
    version = draft.version(key)
    draft.add(ActionCancelled(action=key, version=version, principal=principal, reason=reason))


def review(draft: Draft, key: str, reason: ReviewReason, names: str | None = None) -> None:
    """Hand the action to a person, once for a reason; `names` says what it is about. Of amounts
    that have changed they are told anew.
    """
    case = draft.action(key).case
    is_told = case is not None and reason in case.reasons
    if not is_told or (case is not None and case.reason == reason and case.names != names):
        review_anew(draft, key, reason, names)


def review_anew(draft: Draft, key: str, reason: ReviewReason, names: str | None) -> None:
    """Hand the action to a person, also where its case is open for that reason: there is something
    new of it.
    """
    version = draft.version(key)
    draft.add(ReviewOpened(action=key, version=version, reason=reason, names=names))
