"""How seldom a process looks for cycles among its objects.

Everything that is imported and built lives as long as the process does. What comes after is mostly
records and facts without cycles: looking for cycles after every 700 of them costs the projector a
quarter of its time, whoever follows the ledger for callers as much, and every start of a process a
sixth of its imports. Called first of all where a process begins, and again when it is ready.
"""

import gc
from typing import Final

GARBAGE_THRESHOLDS: Final = (200_000, 50, 50)
"""Objects made and not let go, and collections of a younger age, before each age is searched for
cycles. More than a batch of any process holds at a time: its end frees it without a search."""


def seek_cycles_seldom() -> None:
    """Never look at what is there by now again, and seldom at what comes. Again does no harm."""
    gc.freeze()
    gc.set_threshold(*GARBAGE_THRESHOLDS)
