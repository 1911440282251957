"""What an account at the simulated provider can and cannot do, derived from its personality.

Guarantees that every promise here is one the contract suite has seen kept. Used by the registry,
and by tests that give an account another personality.
"""

from typing import Final

from reconciler.providers.port import (
    IMPOSSIBLE,
    POSSIBLE,
    Capabilities,
    Reliability,
    Remembered,
)
from reconciler.providers.simulated.api import KEY_CHARS_MAX
from reconciler.providers.simulated.faults import Personality

SETTLE_HORIZON_MS: Final = 2_000
"""How long after its last byte a request may still commit; a script that is later breaks it."""


def capabilities_of(personality: Personality) -> Capabilities:
    """What an account with this personality can and cannot do, said honestly."""
    honours = personality.keys == "honoured" and personality.key_memory == "durable"
    searches = POSSIBLE if personality.search != "none" else IMPOSSIBLE
    has_keys = personality.keys != "unsupported"
    remembers = {Remembered.SUCCESS} if honours else set()
    if honours and personality.server_errors == "remembered":
        remembers.add(Remembered.SERVER_ERROR)
    if honours and personality.refusals == "remembered":
        remembers.add(Remembered.REFUSAL)
    if honours:
        reliability = Reliability.KEYED
    elif personality.references == "unique":
        reliability = Reliability.REFERENCE
    else:
        reliability = Reliability.LOOKUP if searches else Reliability.NONE
    return Capabilities(
        reliability=reliability,
        finds_by_key=searches if has_keys else IMPOSSIBLE,
        finds_by_reference=searches,
        finds_by_marker=searches,
        lists_effects=searches,
        previews=POSSIBLE,
        key_window_ms=personality.key_window_ms if honours else IMPOSSIBLE,
        key_chars_max=KEY_CHARS_MAX if has_keys else IMPOSSIBLE,
        settle_horizon_ms=SETTLE_HORIZON_MS if searches else IMPOSSIBLE,
        search_lag_ms=personality.search_lag_ms if searches else IMPOSSIBLE,
        # A remembered 500 is given for ever: the second call then shows nothing of the first.
        replay_proven=POSSIBLE if remembers == {Remembered.SUCCESS} else IMPOSSIBLE,
        remembers=frozenset(remembers),
        sends_webhooks=POSSIBLE,
        retries_webhooks=POSSIBLE,
    )


CAPABILITIES: Final = capabilities_of(Personality())
