"""What can go wrong with a run, told so that a person can act on it."""

from ledger.core.errors import LedgerError


class BenchmarkError(LedgerError):
    """A run that has no result."""
