"""Offers as `decide` sees them: an argument, copied into the start that spends it, never state.

Executors offer capacity for operations; a caller that performs its own action offers itself, for
that one action. Who holds a start says its name: a caller's is its nonce behind a prefix that no
incarnation bears.
"""

from dataclasses import dataclass
from typing import Final

from ledger.core.inputs import CallerOffer

CALLER: Final = "caller:"


@dataclass(frozen=True, slots=True)
class Offer:
    """One slot of an incarnation's capacity for an operation. `appended_at` is the broker's time;
    the holder counts its lease from when it sent it.
    """

    incarnation: str
    operation: str
    sequence: int
    appended_at: int
    until_at: int


def caller_holder(nonce: str) -> str:
    """Who holds a start that a call may act on."""
    return CALLER + nonce


def is_caller(holder: str) -> bool:
    """Whether a holder is a call of the action's own caller, and no executor."""
    return holder.startswith(CALLER)


def offer_of_caller(given: CallerOffer, operation: str, appended_at: int) -> Offer:
    """The offer that a proposal is, for its own action, from its append on."""
    return Offer(
        incarnation=caller_holder(given.nonce),
        operation=operation,
        sequence=0,
        appended_at=appended_at,
        until_at=appended_at + given.valid_ms,
    )
