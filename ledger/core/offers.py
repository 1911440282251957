"""An executor's offer as `decide` sees it: an argument, copied into the start that spends it, never
state.
"""

from dataclasses import dataclass


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
