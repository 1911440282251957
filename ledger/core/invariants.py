"""Broken invariants: what must be true for the ledger's word to be worth anything.

`invariant` survives `python -O`. A broken one is a fault of ours: it stops the reader of that
partition, loudly; it is never skipped.
"""


class BrokenInvariantError(Exception):
    """Something that cannot be, is. The process must not go on with this partition."""


def invariant(condition: object, why: str) -> None:
    """Raise `BrokenInvariantError(why)` unless the condition holds."""
    if not condition:
        raise BrokenInvariantError(why)
