"""When to try again: bounded exponential backoff with full jitter, the jitter drawn from the
action's own identity.

Full jitter after AWS, "Exponential Backoff And Jitter" (2015). A decision has no randomness, so the
draw is a hash: the same log gives the same waits, and two actions still differ.
"""

import hashlib

from ledger.core.limits import BACKOFF_DOUBLINGS_MAX

_FRACTION_BITS = 32


def backoff_ms(action_key: str, tries: int, *, base_ms: int, cap_ms: int) -> int:
    """A wait of up to base times two to the power of tries before (1 for the first), never above
    the cap, never 0.
    """
    ceiling = min(cap_ms, base_ms << min(max(tries - 1, 0), BACKOFF_DOUBLINGS_MAX))
    digest = hashlib.sha256(f"actionledger.jitter.v1\n{action_key}\n{tries}".encode()).digest()
    draw = int.from_bytes(digest[: _FRACTION_BITS // 8], "big")
    return max(1, (ceiling * draw) >> _FRACTION_BITS)
