"""Bounds on clocks and waits that hold for a whole installation; part of the catalogue, so they are
in the log.

The defaults are for production. Tests scale them, and nothing else, to see a day in seconds.
"""

from ledger.core.wire import Milliseconds, Wire


class Timing(Wire):
    """`skew_ms`: how far any two clocks may be apart before work stops. `lease_margin_ms`: what a
    lease adds to its call's deadline.

    `lookup_answer_ms`: how long a lookup may stay unanswered before it is asked again.
    """

    skew_ms: Milliseconds = 5_000
    lease_margin_ms: Milliseconds = 15_000
    lookup_answer_ms: Milliseconds = 60_000
