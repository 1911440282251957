"""Stripe's rate limiter: so many requests of an account in a second, and no more.

Guarantees that a request over the limit is answered before anything looks at its key, so that it
is not remembered (docs.stripe.com/error-low-level), with the header that names the limiter
(docs.stripe.com/rate-limits). Live accounts have 100 requests a second, sandboxes 25; here there is
no limit until a test sets one. Used by the server.
"""

import time
from collections import Counter

from reconciler.providers.stripe.simulated.errors import Refusal


class TooMany(Refusal):
    """A request over the limit."""

    def __init__(self, retry_after_s: int) -> None:
        super().__init__(429, "Request rate limit exceeded.", code="rate_limit")
        self.headers = {"Stripe-Rate-Limited-Reason": "global-rate"}
        if retry_after_s:
            self.headers["Retry-After"] = str(retry_after_s)


class RateLimit:
    """Counts requests by account and second."""

    def __init__(self) -> None:
        self.per_second: int | None = None
        self.retry_after_s = 0
        self._second = 0
        self._counts: Counter[str] = Counter()

    def clear(self) -> None:
        """No limit any more."""
        self.per_second, self.retry_after_s = None, 0

    def take(self, account: str) -> None:
        """Count one request; raises TooMany."""
        if self.per_second is None:
            return
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._counts.clear()
        self._counts[account] += 1
        if self._counts[account] > self.per_second:
            raise TooMany(self.retry_after_s)
