"""When a search that found nothing has looked where the effect would be.

An absence counts in the ledger by the search lag that the catalogue declares. A provider may say of
each search how far its index reaches; where that is further behind than declared, what was not
found may be there all the same. Guarantees that such an answer is none, never an absence: the
ledger asks again. Pure; called by the inquirer.
"""

from reconciler.providers.port import Absent, Inconclusive, Lookup

BEHIND = "search_behind"


def counted(answer: Lookup, *, asked_at: int, search_lag_ms: int, skew_ms: int) -> Lookup:
    """The answer, or that it proves nothing. `asked_at` is our clock just before the question, and
    the provider's may be `skew_ms` apart from it.
    """
    if not isinstance(answer, Absent) or answer.searched_until_at is None:
        return answer
    if asked_at - answer.searched_until_at <= search_lag_ms + skew_ms:
        return answer
    return Inconclusive(BEHIND)
