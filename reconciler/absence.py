"""When a search that found nothing has looked where the effect would be.

An absence counts in the ledger by the search lag that the catalogue declares. A provider may say of
each search how far its index reaches; where that is further behind than declared, what was not
found may be there all the same. Guarantees that such an answer is none, never an absence: the
ledger asks again. Pure; called by the inquirer.
"""

from ledger.core.facts import LookupStarted
from reconciler.providers.port import Absent, Inconclusive, Lookup, Span

BEHIND = "search_behind"


def span_of(started: LookupStarted, *, settle_horizon_ms: int, skew_ms: int) -> Span | None:
    """When the effect can have come about that is asked for: by the same rule by which an absence
    counts for attempts. None where the fact is older than its telling so.
    """
    if started.first_started_at is None or started.last_lease_until is None:
        return None
    return Span(
        since_at=started.first_started_at - skew_ms,
        until_at=started.last_lease_until + skew_ms + settle_horizon_ms,
    )


def counted(
    answer: Lookup, *, asked_at: int, wanted_at: int, search_lag_ms: int, skew_ms: int
) -> Lookup:
    """The answer, or that it proves nothing. `asked_at` is our clock just before the question, and
    the provider's may be `skew_ms` apart from it; `wanted_at` is the log's when the ledger wanted
    it put, so a machine whose clock is behind makes no index look fresh.
    """
    if not isinstance(answer, Absent) or answer.searched_until_at is None:
        return answer
    if max(asked_at, wanted_at) - answer.searched_until_at <= search_lag_ms + skew_ms:
        return answer
    return Inconclusive(BEHIND)
